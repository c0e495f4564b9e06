/* The BLAS that NumPy links: where its products are, and how many threads it gives them.

   (a) They are looked up in the libraries that NumPy's extension module was linked with, under the names that builds of
       NumPy give them.
   (b) OpenBLAS keeps threads of its own, which look for work long after a product is done, and on a processor that they
       hold a thread of our pool makes no headway: products and the loops between them took a quarter longer. So our
       threads share a product's tiles, and OpenBLAS is kept to one thread meanwhile, for the whole process; it has no
       other way. The first product that runs does that, the last one undoes it, unless somebody else has set the number
       (of one that set it to one only set_num_threads says so).
   (c) A build on OpenMP is left its threads, which sleep, and whose number is counted for each thread of the caller. */

#ifndef PLUGRAD_BLAS_H
#define PLUGRAD_BLAS_H

#include <stdint.h>

typedef void (*pg_sgemm)(int order, int turn_a, int turn_b, int64_t m, int64_t n, int64_t k, float alpha,
                         const void *a, int64_t lda, const void *b, int64_t ldb, float beta, void *c, int64_t ldc);
typedef void (*pg_dgemm)(int order, int turn_a, int turn_b, int64_t m, int64_t n, int64_t k, double alpha,
                         const void *a, int64_t lda, const void *b, int64_t ldb, double beta, void *c, int64_t ldc);

enum { PG_ROWS_FIRST = 101, PG_AS_IT_IS = 111, PG_TURNED = 112 };

static pg_sgemm pg_single = NULL;
static pg_dgemm pg_double = NULL;

#if defined(__GNUC__) && !defined(_WIN32) && (defined(__x86_64__) || defined(__aarch64__))
#include <dlfcn.h>
#include <pthread.h>

enum { PG_OWN_THREADS = 1 }; /* what OpenBLAS says of a build that is not on OpenMP */

static struct {
    pthread_mutex_t lock;
    int (*get)(void);
    void (*set)(int);
    int inside, before;
    unsigned times_limited;
} pg_blas = {PTHREAD_MUTEX_INITIALIZER, NULL, NULL, 0, 1, 0};

/* How many threads a product that starts now may use, which are to be ours; 0: BLAS has its own. `times_limited`:
   another number once set_num_threads was called. */
static int pg_enter(unsigned times_limited)
{
    int allowed;
    if (!pg_blas.set)
        return 0;
    pthread_mutex_lock(&pg_blas.lock);
    if (pg_blas.inside++ == 0) {
        pg_blas.before = pg_blas.get();
        pg_blas.times_limited = times_limited;
        if (pg_blas.before > 1)
            pg_blas.set(1);
    }
    allowed = pg_blas.before;
    pthread_mutex_unlock(&pg_blas.lock);
    return allowed;
}

static void pg_restore(void)
{
    if (pg_blas.before > 1 && pg_blas.get() == 1)
        pg_blas.set(pg_blas.before);
}

static void pg_leave(unsigned times_limited)
{
    if (!pg_blas.set)
        return;
    pthread_mutex_lock(&pg_blas.lock);
    if (--pg_blas.inside == 0 && pg_blas.times_limited == times_limited)
        pg_restore();
    pthread_mutex_unlock(&pg_blas.lock);
}

static void pg_before_fork(void) { pthread_mutex_lock(&pg_blas.lock); }

static void pg_in_parent(void) { pthread_mutex_unlock(&pg_blas.lock); }

/* The child has none of the threads that were in a product. */
static void pg_in_child(void)
{
    if (pg_blas.inside) {
        pg_blas.inside = 0;
        pg_restore();
    }
    pthread_mutex_unlock(&pg_blas.lock);
}

static void pg_look_up(void)
{
    static const char *const names[][5] = {
        {"scipy_cblas_sgemm64_", "scipy_cblas_dgemm64_", "scipy_openblas_get_num_threads64_",
         "scipy_openblas_set_num_threads64_", "scipy_openblas_get_parallel64_"},
        {"cblas_sgemm64_", "cblas_dgemm64_", "openblas_get_num_threads64_", "openblas_set_num_threads64_",
         "openblas_get_parallel64_"},
        {"scipy_cblas_sgemm", "scipy_cblas_dgemm", "scipy_openblas_get_num_threads",
         "scipy_openblas_set_num_threads", "scipy_openblas_get_parallel"},
        {"cblas_sgemm", "cblas_dgemm", "openblas_get_num_threads", "openblas_set_num_threads",
         "openblas_get_parallel"},
        {"cblas_sgemm$NEWLAPACK$ILP64", "cblas_dgemm$NEWLAPACK$ILP64", "", "", ""},
        {"cblas_sgemm$NEWLAPACK", "cblas_dgemm$NEWLAPACK", "", "", ""}};
    Dl_info numpy;
    void *library;
    size_t i;
    if (!dladdr((void *)PyArray_API[0], &numpy) || !numpy.dli_fname)
        return;
    library = dlopen(numpy.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return;
    for (i = 0; i < sizeof names / sizeof *names && !pg_single; i++) {
        void *found[5];
        int k;
        for (k = 0; k < 5; k++)
            found[k] = *names[i][k] ? dlsym(library, names[i][k]) : NULL;
        if (!found[0] || !found[1])
            continue;
        pg_single = (pg_sgemm)found[0];
        pg_double = (pg_dgemm)found[1];
        if (found[2] && found[3] && found[4] && ((int (*)(void))found[4])() == PG_OWN_THREADS
            && !pthread_atfork(pg_before_fork, pg_in_parent, pg_in_child)) {
            pg_blas.get = (int (*)(void))found[2];
            pg_blas.set = (void (*)(int))found[3];
        }
    }
    dlclose(library); /* NumPy holds it */
}
#else
static int pg_enter(unsigned times_limited) { (void)times_limited; return 0; }
static void pg_leave(unsigned times_limited) { (void)times_limited; }
static void pg_look_up(void) {}
#endif

#endif
