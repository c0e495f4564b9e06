"""The attribute of C loops that are compiled for several generations of processors."""


cdef extern from *:
    """
    /* On x86-64 Linux GCC makes three versions: AVX-512, AVX2 with FMA, and the baseline; which of them runs is settled
       at load time. Elsewhere there is what the compiler was told to target; on AArch64 that includes NEON.

       PG_VECTOR lets the compiler contract a * b + c into one instruction where there is one, so that last bits may
       differ from one generation to the next; on one machine they are the same each time. What depends on a product
       being rounded takes PG_VECTOR_EXACT. PG_STREAM is for loops that wait for memory, where AVX-512 would gain
       nothing. */
    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
    #if __GNUC__ >= 12
    #define PG_CLONES target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")
    #define PG_FEW_CLONES target_clones("arch=x86-64-v3", "default")
    #else
    #define PG_CLONES target_clones("avx2", "default")
    #define PG_FEW_CLONES PG_CLONES
    #endif
    #define PG_STREAM __attribute__((unused, PG_FEW_CLONES, optimize("no-trapping-math", "fp-contract=fast")))
    #define PG_VECTOR __attribute__((unused, PG_CLONES, optimize("no-trapping-math", "fp-contract=fast")))
    #define PG_VECTOR_EXACT __attribute__((unused, PG_CLONES, optimize("no-trapping-math")))
    #elif defined(__GNUC__)
    #define PG_STREAM __attribute__((unused))
    #define PG_VECTOR __attribute__((unused))
    #define PG_VECTOR_EXACT __attribute__((unused))
    #else
    #define PG_STREAM
    #define PG_VECTOR
    #define PG_VECTOR_EXACT
    #endif
    """
