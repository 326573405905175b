/* Read runs of bytes of files, piece by piece, and upload each piece to a buffer of a device.
 *
 * A pool of threads shares the pieces of all callers, the earlier caller's first. Each thread has a queue
 * and slots of pinned memory of its own: while one slot is uploaded it fills the next. Callers plan the
 * runs and wait; Python's lock is not needed meanwhile.
 *
 * Everything that a caller hands over is checked before it is used: numbers of runs and files, offsets,
 * sizes, and places in slots and in the buffer. A file must be a regular file of the size that is
 * expected, and not written after the time that is given.
 *
 * Plain C with POSIX threads: OpenCL's functions come as pointers, so that nothing else is linked.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_SLOTS 8
#define MOST_THREADS 64
#define MOST_VECTORS 256
#define MOST_CLAIMED 4
#define PROFILING_START 0x1282
#define PROFILING_END 0x1283

/* Why a run failed; with an errno in `detail`, or an OpenCL status. */
enum { DONE = 0, BAD_COMMAND = 1, NOT_OPENED = 2, NOT_A_FILE = 3, OTHER_SIZE = 4, WRITTEN_LATER = 5,
       NOT_READ = 6, ENDS_EARLY = 7, DEVICE = 8 };

struct opencl {
    int (*write)(void *queue, void *buffer, unsigned blocking, size_t at, size_t size, const void *from,
                 unsigned count, void *const *after, void **event);
    int (*wait)(unsigned count, void *const *events);
    int (*retain)(void *event);
    int (*release)(void *event);
    int (*flush)(void *queue);
    int (*profile)(void *event, unsigned what, size_t size, void *value, size_t *written);
};

/* What one thread has: a queue, slots of pinned memory, and their last uploads. */
struct pump {
    void *queue;
    int64_t slots, slot_bytes;
    char *memory[MOST_SLOTS];
    void *uploads[MOST_SLOTS];
    int64_t next, uploaded_ns;
};

struct file { int64_t name, size, newest, unit; };
struct run { int64_t file, offset, size, place; };
struct piece { int64_t first_run, runs, place, size; };

struct commands {
    void *buffer;
    int64_t buffer_bytes;
    const char *names;
    int64_t names_bytes;
    const struct file *files;
    int64_t file_count;
    const struct run *runs;
    int64_t run_count;
    const struct piece *pieces;
    int64_t piece_count;
    void *const *after;
    int64_t after_count;
};

struct outcome { int64_t run, detail; };

/* The commands of one caller, who waits for them. */
struct job {
    const struct commands *all;
    struct outcome *outcome;
    int64_t next, claimed;
    int why, active;
    void *events[MOST_THREADS];
    pthread_cond_t ended;
    struct job *later;
};

struct worker { struct pool *pool; int number; };

struct pool {
    const struct opencl *cl;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    struct job *first;
    int stop, threads;
    pthread_t ids[MOST_THREADS];
    struct pump pumps[MOST_THREADS];
    struct worker workers[MOST_THREADS];
};

static int valid(int64_t slot_bytes, const struct commands *all)
{
    if (all->piece_count < 1 || all->run_count < 1 || all->file_count < 1) return 0;
    if (all->names_bytes < 1 || all->names[all->names_bytes - 1]) return 0;
    if (all->buffer_bytes < 1 || all->after_count < 0 || all->after_count > UINT_MAX) return 0;
    for (int64_t n = 0; n < all->file_count; n++) {
        const struct file *file = &all->files[n];
        if (file->name < 0 || file->name >= all->names_bytes || file->unit < 1) return 0;
    }
    for (int64_t n = 0; n < all->piece_count; n++) {
        const struct piece *piece = &all->pieces[n];
        if (piece->first_run < 0 || piece->runs < 1 || piece->first_run > all->run_count - piece->runs) return 0;
        if (piece->size < 1 || piece->size > slot_bytes) return 0;
        if (piece->place < 0 || piece->place > all->buffer_bytes - piece->size) return 0;
        for (int64_t m = piece->first_run; m < piece->first_run + piece->runs; m++) {
            const struct run *run = &all->runs[m];
            if (run->file < 0 || run->file >= all->file_count || run->offset < 0 || run->size < 1) return 0;
            if (run->size > piece->size || run->place < 0 || run->place > piece->size - run->size) return 0;
            if (run->offset > INT64_MAX - run->size) return 0;
        }
    }
    return 1;
}

static int opened(const char *path, const struct file *file, int *found, int64_t *detail)
{
    struct stat state;
    do *found = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); while (*found < 0 && errno == EINTR);
    if (*found < 0) { *detail = errno; return NOT_OPENED; }
    if (fstat(*found, &state)) { *detail = errno; return NOT_OPENED; }
    if (!S_ISREG(state.st_mode)) return NOT_A_FILE;
    if (file->size >= 0 && state.st_size != file->size) { *detail = state.st_size; return OTHER_SIZE; }
    if (file->newest >= 0) {
        int64_t written = (int64_t)state.st_mtim.tv_sec * 1000000000 + state.st_mtim.tv_nsec;
        if (written / file->unit > file->newest / file->unit) { *detail = written; return WRITTEN_LATER; }
    }
    return DONE;
}

/* Read runs that stand one behind another in a file into their places: whatever the system brings at
 * a time, and however often it is interrupted. */
static int filled(int file, struct iovec *vectors, int count, int64_t offset, int64_t *detail)
{
    struct iovec *next = vectors;
    while (count) {
        ssize_t got = preadv(file, next, count, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) { *detail = errno; return NOT_READ; }
        if (!got) { *detail = offset; return ENDS_EARLY; }
        offset += got;
        size_t left = (size_t)got;
        while (count && left >= next->iov_len) { left -= next->iov_len; next++; count--; }
        if (count) { next->iov_base = (char *)next->iov_base + left; next->iov_len -= left; }
    }
    return DONE;
}

/* Wait until a slot's last upload is done, whatever came of it, and add its time. */
static int freed(const struct opencl *cl, struct pump *pump, int slot)
{
    void *upload = pump->uploads[slot];
    uint64_t start = 0, end = 0;
    if (!upload) return 0;
    int status = cl->wait(1, &upload);
    if (!status && !cl->profile(upload, PROFILING_START, sizeof start, &start, NULL)
        && !cl->profile(upload, PROFILING_END, sizeof end, &end, NULL) && end > start)
        __atomic_fetch_add(&pump->uploaded_ns, (int64_t)(end - start), __ATOMIC_RELAXED);
    cl->release(upload);
    pump->uploads[slot] = NULL;
    return status;
}

/* Bring one piece; `file` and `known` are the file that is open, kept from the piece before. */
static int brought(const struct opencl *cl, struct pump *pump, const struct commands *all, int64_t number,
                   int *file, int64_t *known, int first, struct outcome *outcome, void **event)
{
    struct iovec vectors[MOST_VECTORS];
    const struct piece *piece = &all->pieces[number];
    int slot = (int)(pump->next % pump->slots), status = freed(cl, pump, slot), why = DONE;
    if (status) { outcome->detail = status; return DEVICE; }
    int64_t end = piece->first_run + piece->runs;
    for (int64_t m = piece->first_run; m < end && !why;) {
        const struct run *begin = &all->runs[m];
        int64_t offset = begin->offset;
        int count = 0;
        outcome->run = m;
        if (begin->file != *known) {
            if (*file >= 0) close(*file);
            *known = begin->file;
            why = opened(all->names + all->files[*known].name, &all->files[*known], file, &outcome->detail);
            if (why) return why;
        }
        for (; m < end && count < MOST_VECTORS; m++, count++) {
            const struct run *run = &all->runs[m];
            if (run->file != *known || run->offset != offset) break;
            vectors[count] = (struct iovec){pump->memory[slot] + run->place, (size_t)run->size};
            offset += run->size;
        }
        why = filled(*file, vectors, count, begin->offset, &outcome->detail);
    }
    if (why) return why;
    status = cl->write(pump->queue, all->buffer, 0, (size_t)piece->place, (size_t)piece->size, pump->memory[slot],
                       first ? (unsigned)all->after_count : 0, first && all->after_count ? all->after : NULL,
                       &pump->uploads[slot]);
    if (!status) status = cl->flush(pump->queue);
    if (!status) status = cl->retain(pump->uploads[slot]);
    if (status) { outcome->detail = status; return DEVICE; }
    if (*event) cl->release(*event);
    *event = pump->uploads[slot];
    pump->next++;
    return DONE;
}

/* A thread of the pool: take pieces of the first job that has some, and bring them. */
static void *worked(void *given)
{
    const struct worker *own = given;
    struct pool *pool = own->pool;
    struct pump *pump = &pool->pumps[own->number];
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct job *job = pool->first;
        while (job && job->next >= job->all->piece_count) job = job->later;
        if (!job) {
            if (pool->stop) break;
            pthread_cond_wait(&pool->wanted, &pool->lock);
            continue;
        }
        int64_t from = job->next, to = from + job->claimed;
        if (to > job->all->piece_count) to = job->all->piece_count;
        job->next = to;
        job->active++;
        void *event = job->events[own->number];
        pthread_mutex_unlock(&pool->lock);

        struct outcome outcome = {-1, 0};
        int file = -1, why = DONE;
        int64_t known = -1;
        for (int64_t n = from; n < to && !why; n++)
            why = brought(pool->cl, pump, job->all, n, &file, &known, !event, &outcome, &event);
        if (file >= 0) close(file);

        pthread_mutex_lock(&pool->lock);
        job->events[own->number] = event;
        if (why && !job->why) {
            job->why = why;
            *job->outcome = outcome;
        }
        if (why) job->next = job->all->piece_count;
        if (!--job->active && job->next >= job->all->piece_count) pthread_cond_signal(&job->ended);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Run the commands, and wait until all is uploaded. Returns 0, or why a run failed, which `outcome`
 * names; nothing of them is under way any more then. */
int chf_feed(struct pool *pool, const struct commands *all, struct outcome *outcome)
{
    *outcome = (struct outcome){-1, 0};
    if (!valid(pool->pumps[0].slot_bytes, all)) return BAD_COMMAND;
    struct job job = {.all = all, .outcome = outcome, .claimed = all->piece_count / (2 * pool->threads)};
    if (job.claimed < 1) job.claimed = 1;
    if (job.claimed > MOST_CLAIMED) job.claimed = MOST_CLAIMED;
    pthread_cond_init(&job.ended, NULL);
    pthread_mutex_lock(&pool->lock);
    struct job **last = &pool->first;
    while (*last) last = &(*last)->later;
    *last = &job;
    pthread_cond_broadcast(&pool->wanted);
    while (job.active || job.next < all->piece_count) pthread_cond_wait(&job.ended, &pool->lock);
    for (last = &pool->first; *last != &job;) last = &(*last)->later;
    *last = job.later;
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&job.ended);
    for (int n = 0; n < pool->threads; n++)
        if (job.events[n]) {
            int status = pool->cl->wait(1, &job.events[n]);
            if (status && !job.why) { job.why = DEVICE; outcome->detail = status; }
            pool->cl->release(job.events[n]);
        }
    return job.why;
}

/* Start threads, each with a queue and slots of memory, one behind another; NULL if that fails. */
struct pool *chf_open(const struct opencl *cl, int threads, void *const *queues, int64_t slots, int64_t slot_bytes,
                      char *const *memory)
{
    if (threads < 1 || threads > MOST_THREADS || slots < 1 || slots > MOST_SLOTS || slot_bytes < 1) return NULL;
    struct pool *pool = calloc(1, sizeof *pool);
    sigset_t all, before;
    if (!pool) return NULL;
    pool->cl = cl;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wanted, NULL);
    for (int n = 0; n < threads; n++) {
        pool->pumps[n] = (struct pump){.queue = queues[n], .slots = slots, .slot_bytes = slot_bytes};
        for (int64_t s = 0; s < slots; s++) pool->pumps[n].memory[s] = memory[n * slots + s];
        pool->workers[n] = (struct worker){pool, n};
    }
    sigfillset(&all); /* signals are for the caller's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->threads < threads
           && !pthread_create(&pool->ids[pool->threads], NULL, worked, &pool->workers[pool->threads])) pool->threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pool->threads) return pool;
    free(pool);
    return NULL;
}

/* Return the nanoseconds that uploads took by the device's clock since this was last asked. */
int64_t chf_uploaded_ns(struct pool *pool)
{
    int64_t total = 0;
    for (int n = 0; n < pool->threads; n++) total += __atomic_exchange_n(&pool->pumps[n].uploaded_ns, 0, __ATOMIC_RELAXED);
    return total;
}

/* End the threads, and wait for their last uploads. Nobody may be waiting for commands. */
void chf_close(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = 1;
    pthread_cond_broadcast(&pool->wanted);
    pthread_mutex_unlock(&pool->lock);
    for (int n = 0; n < pool->threads; n++) {
        pthread_join(pool->ids[n], NULL);
        for (int slot = 0; slot < pool->pumps[n].slots; slot++) freed(pool->cl, &pool->pumps[n], slot);
    }
    pthread_cond_destroy(&pool->wanted);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
