/* Give feed.c random commands, right and wrong ones, and files that change under it.
 *
 * Built with sanitizers; OpenCL is a block of memory. Arguments: a folder, a seed, a number of rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include "feed.c"

static __thread uint64_t state = 88172645463325252u;
static uint64_t any(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }
static int64_t below(int64_t most) { return (int64_t)(any() % (uint64_t)most); }

static int events_alive; /* atomic */
static char *device;
static int64_t device_bytes;

static int write_buffer(void *queue, void *buffer, unsigned blocking, size_t at, size_t size, const void *from,
                        unsigned count, void *const *after, void **event)
{
    (void)queue; (void)blocking; (void)count; (void)after;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (at + size > (size_t)device_bytes || any() % 97 == 0) return -5;
    pthread_mutex_lock(&lock); /* wrong commands may have pieces at the same place */
    memcpy((char *)buffer + at, from, size);
    pthread_mutex_unlock(&lock);
    int *references = malloc(sizeof *references);
    *references = 1; *event = references; __atomic_add_fetch(&events_alive, 1, __ATOMIC_SEQ_CST);
    return 0;
}
static int wait_events(unsigned count, void *const *events) { (void)count; (void)events; return any() % 89 ? 0 : -14; }
static int retain_event(void *event) { __atomic_add_fetch((int *)event, 1, __ATOMIC_SEQ_CST); return 0; }
static int release_event(void *event)
{
    if (!__atomic_sub_fetch((int *)event, 1, __ATOMIC_SEQ_CST)) {
        free(event);
        __atomic_sub_fetch(&events_alive, 1, __ATOMIC_SEQ_CST);
    }
    return 0;
}
static int flush_queue(void *queue) { (void)queue; return 0; }
static int profile_event(void *event, unsigned what, size_t size, void *value, size_t *written)
{
    (void)event; (void)written;
    uint64_t time = what == PROFILING_END ? 20 : 10;
    memcpy(value, &time, size);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    state = strtoull(argv[2], NULL, 10) * 2654435761u + 1;
    const struct opencl cl = {write_buffer, wait_events, retain_event, release_event, flush_queue, profile_event};
    char names[4096] = {0};
    int64_t sizes[4], begins[4], end = 0;
    unsigned counts[16] = {0};
    for (int n = 0; n < 4; n++) {
        begins[n] = end;
        end += snprintf(names + end, sizeof names - (size_t)end, "%s/%d.bin", argv[1], n) + 1;
    }
    for (long round = 0; round < strtol(argv[3], NULL, 10); round++) {
        for (int n = 0; n < 4; n++)
            if (round == 0 || any() % 50 == 0) {
                FILE *out = fopen(names + begins[n], "wb");
                if (!out) return 2;
                sizes[n] = 1 + below(5000);
                for (int64_t i = 0; i < sizes[n]; i++) fputc((int)((i * 7 + n) & 255), out);
                fclose(out);
            }
        int threads = 1 + (int)below(4);
        int64_t slots = 1 + below(3), slot_bytes = 64 + below(2000), pieces = 1 + below(8), runs = 0;
        void *queues[4] = {0};
        char *memory[12];
        for (int s = 0; s < threads * slots; s++) memory[s] = malloc((size_t)slot_bytes);
        struct file files[4];
        struct piece piece[9];
        struct run run[64];
        for (int n = 0; n < 4; n++)
            files[n] = (struct file){begins[n], any() % 4 ? sizes[n] : -1, any() % 4 ? -1 : INT64_MAX, 1};
        int64_t place = 0;
        for (int64_t n = 0; n < pieces; n++) {
            int64_t count = 1 + below(5), used = 0;
            piece[n].first_run = runs; piece[n].place = place;
            for (int64_t m = 0; m < count; m++) {
                int64_t left = slot_bytes - used;
                if (left < 1) break;
                int64_t file = below(4), offset = below(sizes[file]), most = sizes[file] - offset;
                int64_t size = 1 + below(most < left ? most : left);
                run[runs++] = (struct run){file, offset, size, used};
                used += size;
            }
            piece[n].runs = runs - piece[n].first_run; piece[n].size = used;
            place += used;
        }
        device_bytes = place; device = calloc(1, (size_t)place);
        struct commands all = {device, place, names, end, files, 4, run, runs, piece, pieces, NULL, 0};
        int right = any() % 2;
        if (!right) { /* one number of the commands, the runs, the pieces or the files is another */
            int64_t odd[] = {-1, 0, 1, 63, 5001, INT64_MAX, INT64_MIN, INT64_MAX - 1, UINT32_MAX, place, end};
            int64_t value = odd[below(sizeof odd / sizeof *odd)];
            switch (any() % 4) {
            case 0: ((int64_t *)&run[below(runs)])[below(4)] = value; break;
            case 1: ((int64_t *)&piece[below(pieces)])[below(4)] = value; break;
            case 2: ((int64_t *)&files[below(4)])[below(4)] = value; break;
            default:
                all.buffer_bytes = value < place ? value : place;
            }
        }
        struct outcome outcome;
        struct pool *pool = chf_open(&cl, threads, queues, slots, slot_bytes, memory);
        if (!pool) return 5;
        int why = chf_feed(pool, &all, &outcome);
        if (right) chf_feed(pool, &all, &outcome); /* threads go on after whatever came of the first */
        counts[why & 15]++;
        if (right && !why)
            for (int64_t n = 0; n < pieces; n++)
                for (int64_t m = piece[n].first_run; m < piece[n].first_run + piece[n].runs; m++)
                    for (int64_t i = 0; i < run[m].size; i++)
                        if ((unsigned char)device[piece[n].place + run[m].place + i]
                            != (((run[m].offset + i) * 7 + run[m].file) & 255)) return 3;
        if (chf_uploaded_ns(pool) < 0) return 6;
        chf_close(pool);
        if (events_alive) return 4;
        for (int s = 0; s < threads * slots; s++) free(memory[s]);
        free(device);
    }
    for (int n = 0; n < 9; n++) printf("%d:%u ", n, counts[n]);
    return 0;
}
