/* A pool of threads that share the pieces of one loop at a time.

   (a) A piece is claimed by raising `claim`, which holds the number of the loop in its upper half and the next piece in
       the lower one, so that a thread that comes late can never claim a piece of a loop that is over. The caller takes
       pieces too, and all of them if nobody else comes: waking a thread takes some 50 microseconds, and nothing waits
       for that.
   (b) How a loop is cut depends on its length, its grain and the number of threads alone, not on who is free: results
       are the same each time.
   (c) A thread that has nothing to do looks for work for some microseconds and then sleeps.
   (d) A second loop that starts while one runs (from another Python thread, or from a piece) runs in its own thread.
   (e) After a fork the child has none of the threads: it starts with an empty pool.
   (f) Without POSIX threads everything runs in the caller's thread. */

#ifndef PLUGRAD_POOL_H
#define PLUGRAD_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef void (*pg_chunk)(void *context, ptrdiff_t begin, ptrdiff_t end);

typedef struct {
    pg_chunk chunk;
    void *context;
    ptrdiff_t n, size; /* size: elements of a piece */
    uint32_t pieces;
} pg_loop;

static int pg_threads = 1;

static void pg_piece(const pg_loop *loop, uint32_t piece)
{
    const ptrdiff_t begin = loop->size * (ptrdiff_t)piece;
    const ptrdiff_t end = begin + loop->size < loop->n ? begin + loop->size : loop->n;
    loop->chunk(loop->context, begin, end);
}

/* Four pieces a thread, so that one that is interrupted holds up little. */
static pg_loop pg_cut(ptrdiff_t n, ptrdiff_t grain, pg_chunk chunk, void *context)
{
    pg_loop loop = {chunk, context, n, n, n > 0};
    ptrdiff_t pieces;
    if (grain < 1)
        grain = 1;
    pieces = n / grain;
    if (pg_threads > 1 && pieces > 1) {
        if (pieces > 4 * pg_threads)
            pieces = 4 * pg_threads;
        loop.size = ((n + pieces - 1) / pieces + grain - 1) / grain * grain;
        loop.pieces = (uint32_t)((n + loop.size - 1) / loop.size);
    }
    return loop;
}

#if defined(__GNUC__) && !defined(_WIN32)
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#if defined(__x86_64__) || defined(__i386__)
#define PG_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PG_PAUSE() __asm__ volatile("yield")
#else
#define PG_PAUSE() ((void)0)
#endif

enum { PG_LOOKS = 2000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pg_loop loop;
    uint64_t claim;    /* number of the loop << 32 | next piece */
    uint32_t pieces;   /* of the present loop; 0 between loops */
    uint32_t done;
    int busy, started, asleep;
} pg_pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0, 0, 0, 0, 0};

/* Work on the pieces of the loop that is running, if one is. */
static void pg_work(void)
{
    for (;;) {
        uint64_t claim = __atomic_load_n(&pg_pool.claim, __ATOMIC_ACQUIRE);
        if ((uint32_t)claim >= __atomic_load_n(&pg_pool.pieces, __ATOMIC_ACQUIRE))
            return;
        if (__atomic_compare_exchange_n(&pg_pool.claim, &claim, claim + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            /* The loop cannot end before this piece is counted. */
            pg_piece(&pg_pool.loop, (uint32_t)claim);
            __atomic_add_fetch(&pg_pool.done, 1, __ATOMIC_ACQ_REL);
        }
    }
}

/* Whether there is nothing to do for a thread, the first of which has number 1. */
static int pg_idle(intptr_t number)
{
    return number >= __atomic_load_n(&pg_threads, __ATOMIC_RELAXED)
        || (uint32_t)__atomic_load_n(&pg_pool.claim, __ATOMIC_ACQUIRE)
            >= __atomic_load_n(&pg_pool.pieces, __ATOMIC_ACQUIRE);
}

static void *pg_worker(void *argument)
{
    const intptr_t number = (intptr_t)argument;
    for (;;) {
        int look;
        for (look = 0; look < PG_LOOKS && pg_idle(number); look++)
            PG_PAUSE();
        if (pg_idle(number)) {
            pthread_mutex_lock(&pg_pool.lock);
            pg_pool.asleep++;
            while (pg_idle(number))
                pthread_cond_wait(&pg_pool.work, &pg_pool.lock);
            pg_pool.asleep--;
            pthread_mutex_unlock(&pg_pool.lock);
        }
        pg_work();
    }
    return NULL;
}

static void pg_after_fork(void)
{
    pthread_mutex_init(&pg_pool.lock, NULL);
    pthread_cond_init(&pg_pool.work, NULL);
    pg_pool.pieces = pg_pool.done = 0;
    pg_pool.busy = pg_pool.started = pg_pool.asleep = 0;
}

/* Signals are left to the threads of Python. */
static void pg_start(void)
{
    static int registered;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (!registered)
        registered = !pthread_atfork(NULL, NULL, pg_after_fork);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (pg_pool.started < pg_threads - 1
           && !pthread_create(&thread, &attributes, pg_worker, (void *)(intptr_t)(pg_pool.started + 1)))
        pg_pool.started++;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void pg_run(ptrdiff_t n, ptrdiff_t grain, pg_chunk chunk, void *context)
{
    const pg_loop loop = pg_cut(n, grain, chunk, context);
    uint32_t piece;
    int idle = 0;
    if (loop.pieces < 2 || !__atomic_compare_exchange_n(&pg_pool.busy, &idle, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        for (piece = 0; piece < loop.pieces; piece++)
            pg_piece(&loop, piece);
        return;
    }
    if (pg_pool.started < pg_threads - 1)
        pg_start();
    pg_pool.loop = loop;
    __atomic_store_n(&pg_pool.done, 0, __ATOMIC_RELAXED);
    /* First a new number with no piece left to claim under the old limit, then the limit, then the pieces. */
    {
        const uint64_t number = (__atomic_load_n(&pg_pool.claim, __ATOMIC_RELAXED) >> 32) + 1;
        __atomic_store_n(&pg_pool.claim, number << 32 | UINT32_MAX, __ATOMIC_RELEASE);
        __atomic_store_n(&pg_pool.pieces, loop.pieces, __ATOMIC_RELEASE);
        pthread_mutex_lock(&pg_pool.lock);
        __atomic_store_n(&pg_pool.claim, number << 32, __ATOMIC_RELEASE);
        if (pg_pool.asleep)
            pthread_cond_broadcast(&pg_pool.work);
        pthread_mutex_unlock(&pg_pool.lock);
    }
    pg_work();
    for (piece = 0; __atomic_load_n(&pg_pool.done, __ATOMIC_ACQUIRE) < loop.pieces; piece++)
        if (piece < PG_LOOKS)
            PG_PAUSE();
        else
            sched_yield();
    __atomic_store_n(&pg_pool.busy, 0, __ATOMIC_RELEASE);
}

#else

static void pg_run(ptrdiff_t n, ptrdiff_t grain, pg_chunk chunk, void *context)
{
    const pg_loop loop = pg_cut(n, grain, chunk, context);
    uint32_t piece;
    for (piece = 0; piece < loop.pieces; piece++)
        pg_piece(&loop, piece);
}
#endif

#endif
