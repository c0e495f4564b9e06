/* A pool of threads that share the pieces of one loop at a time.

   (a) Each thread has a share of neighbouring pieces, the same ones in each loop of that length, so that it meets again
       what is in its cache: memory that another thread has just written took three times as long. Who is done takes
       the last pieces of other shares. The caller has the first share, and takes all if nobody else comes: waking a
       thread takes some 50 microseconds, and nothing waits for that. A share is one word, which holds the number of the
       loop, the next piece and the end, so that a thread that comes late can never claim a piece of a loop that is over.
   (b) How a loop is cut depends on its length, its grain and the number of threads alone, not on who is free: results
       are the same each time.
   (c) A thread that has nothing to do looks for work for half a millisecond and then sleeps. Between two loops Python runs
       for 20 to 100 microseconds: threads that slept by then came late to each loop and found its pieces taken, so that
       sums of a million elements took twice as long. Now and then it offers its processor to whoever waits for it.
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
#include <string.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#define PG_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PG_PAUSE() __asm__ volatile("yield")
#else
#define PG_PAUSE() ((void)0)
#endif

enum { PG_LOOKS = 1000, PG_AWAKE = 500000 }; /* PG_AWAKE in nanoseconds; a look takes between 2 and 50 */

typedef union {
    uint64_t word;     /* number of the loop << 32 | next piece << 16 | end */
    char line[64];     /* of the cache: no two shares in one */
} pg_share;

enum { PG_MOST_THREADS = 256 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pg_loop loop;
    uint32_t number;
    int shares;         /* of the present loop */
    int32_t unclaimed;  /* pieces of it: whether a look at the shares is worth while */
    uint32_t done;
    int busy, started, asleep;
    pg_share share[PG_MOST_THREADS];
} pg_pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 1, 0, 0, 0, 0, 0, {{0}}};

/* Claim a piece of a share: the next one, or the last one for another thread than its own. -1: there is none. */
static int pg_claim(uint64_t *share, int own)
{
    uint64_t word = __atomic_load_n(share, __ATOMIC_ACQUIRE);
    for (;;) {
        const int next = (int)(word >> 16 & 0xffff), end = (int)(word & 0xffff);
        if (next >= end)
            return -1;
        if (__atomic_compare_exchange_n(share, &word, own ? word + (1 << 16) : word - 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return own ? next : end - 1;
    }
}

/* Work on the loop that is running, if one is, as the thread of that number; the caller has number 0. */
static void pg_work(int number)
{
    const int shares = __atomic_load_n(&pg_pool.shares, __ATOMIC_ACQUIRE);
    int k, piece;
    for (k = 0; k < shares; k++)
        while ((piece = pg_claim(&pg_pool.share[(number + k) % shares].word, k == 0)) >= 0) {
            __atomic_sub_fetch(&pg_pool.unclaimed, 1, __ATOMIC_ACQ_REL);
            /* The loop cannot end before this piece is counted. */
            pg_piece(&pg_pool.loop, (uint32_t)piece);
            __atomic_add_fetch(&pg_pool.done, 1, __ATOMIC_ACQ_REL);
        }
}

/* Whether there is nothing to do for the thread of that number. */
static int pg_idle(int number)
{
    return number >= __atomic_load_n(&pg_threads, __ATOMIC_RELAXED)
        || __atomic_load_n(&pg_pool.unclaimed, __ATOMIC_ACQUIRE) <= 0;
}

static int64_t pg_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void pg_look_for_work(int number)
{
    const int64_t end = pg_nanoseconds() + PG_AWAKE;
    int look;
    do {
        for (look = 0; look < PG_LOOKS; look++) {
            if (!pg_idle(number))
                return;
            PG_PAUSE();
        }
        sched_yield();
    } while (pg_nanoseconds() < end);
}

static void *pg_worker(void *argument)
{
    const int number = (int)(intptr_t)argument;
    for (;;) {
        pg_look_for_work(number);
        if (pg_idle(number)) {
            pthread_mutex_lock(&pg_pool.lock);
            pg_pool.asleep++;
            while (pg_idle(number))
                pthread_cond_wait(&pg_pool.work, &pg_pool.lock);
            pg_pool.asleep--;
            pthread_mutex_unlock(&pg_pool.lock);
        }
        pg_work(number);
    }
    return NULL;
}

static void pg_after_fork(void)
{
    pthread_mutex_init(&pg_pool.lock, NULL);
    pthread_cond_init(&pg_pool.work, NULL);
    memset(pg_pool.share, 0, sizeof pg_pool.share);
    pg_pool.unclaimed = 0;
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
    {
        const uint32_t shares = loop.pieces < (uint32_t)pg_threads ? loop.pieces : (uint32_t)pg_threads;
        const uint64_t number = (uint64_t)++pg_pool.number << 32;
        uint32_t k, begin = 0;
        __atomic_store_n(&pg_pool.shares, (int)shares, __ATOMIC_RELEASE);
        for (k = 0; k < shares; k++) {
            const uint32_t end = (uint32_t)((uint64_t)loop.pieces * (k + 1) / shares);
            __atomic_store_n(&pg_pool.share[k].word, number | begin << 16 | end, __ATOMIC_RELEASE);
            begin = end;
        }
        pthread_mutex_lock(&pg_pool.lock);
        __atomic_add_fetch(&pg_pool.unclaimed, (int32_t)loop.pieces, __ATOMIC_ACQ_REL);
        if (pg_pool.asleep)
            pthread_cond_broadcast(&pg_pool.work);
        pthread_mutex_unlock(&pg_pool.lock);
    }
    pg_work(0);
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
