/* Look at many files at once: their sizes, and when they were written.
 *
 * Plain C with POSIX threads, called without Python's lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_THREADS 16
#define AT_ONCE 64

struct looked {
    const char *names;
    const int64_t *begins;
    int64_t count, *states;
    int64_t next;
    int error;
};

static void *look(void *given)
{
    struct looked *all = given;
    int64_t from;
    while ((from = __atomic_fetch_add(&all->next, AT_ONCE, __ATOMIC_RELAXED)) < all->count) {
        for (int64_t n = from; n < all->count && n < from + AT_ONCE; n++) {
            struct stat state;
            int64_t *found = &all->states[2 * n];
            found[0] = found[1] = -1;
            if (!stat(all->names + all->begins[n], &state)) {
                if (S_ISDIR(state.st_mode)) continue;
                found[0] = state.st_size;
                found[1] = (int64_t)state.st_mtim.tv_sec * 1000000000 + state.st_mtim.tv_nsec;
            } else if (errno != ENOENT && errno != ENOTDIR) {
                __atomic_store_n(&all->error, errno, __ATOMIC_RELAXED);
            }
        }
    }
    return NULL;
}

/* Write size and time (nanoseconds since 1970) of each file to `states`; -1 and -1 where there is none.
 * `begins` says where names begin; each has a zero byte behind it. Returns 0, or an errno. */
int chf_states(const char *names, int64_t names_bytes, const int64_t *begins, int64_t count, int64_t *states,
               int threads)
{
    if (count < 0 || threads < 1 || (count && (names_bytes < 1 || names[names_bytes - 1]))) return EINVAL;
    for (int64_t n = 0; n < count; n++)
        if (begins[n] < 0 || begins[n] >= names_bytes) return EINVAL;
    struct looked all = {names, begins, count, states, 0, 0};
    pthread_t ids[MOST_THREADS];
    int running = 0, wanted = threads < MOST_THREADS ? threads : MOST_THREADS;
    while (running < wanted - 1 && running * AT_ONCE < count && !pthread_create(&ids[running], NULL, look, &all)) running++;
    look(&all);
    for (int n = 0; n < running; n++) pthread_join(ids[n], NULL);
    return all.error;
}
