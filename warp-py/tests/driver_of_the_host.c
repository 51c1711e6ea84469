/* A driver of CUDA's whose GPU is the host: addresses are the host's, work is done at once. It has what custom calls
 * of XLA's need to stage arrays, refuses what is none of its own, and counts what was made and not given back. */
#include <stdlib.h>
#include <string.h>

#define CONTEXT ((void *)0xC0)
#define STREAM ((void *)0x57)

int contexts_entered, events_alive, pinned_alive, pinned_ever;

int cuStreamGetCtx(void *stream, void **context) {
    *context = CONTEXT;
    return stream != STREAM;
}
int cuCtxPushCurrent_v2(void *context) {
    contexts_entered++;
    return context != CONTEXT;
}
int cuCtxPopCurrent_v2(void **context) {
    contexts_entered--;
    *context = CONTEXT;
    return 0;
}
int cuEventCreate(void **event, unsigned flags) {
    *event = calloc(1, 8);
    events_alive++;
    return flags != 2;
}
int cuEventDestroy_v2(void *event) {
    free(event);
    events_alive--;
    return 0;
}
int cuEventQuery(void *event) { return event == NULL; }
int cuEventSynchronize(void *event) { return event == NULL; }
int cuEventRecord(void *event, void *stream) { return event == NULL || stream != STREAM; }
int cuStreamSynchronize(void *stream) { return stream != STREAM; }
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    *address = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(*address, 0xAB, bytes);
    pinned_alive++;
    pinned_ever++;
    return flags != 1;
}
int cuMemFreeHost(void *address) {
    free(address);
    pinned_alive--;
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream) {
    memcpy(to, (const void *)from, bytes);
    return stream != STREAM;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) {
    memcpy((void *)to, from, bytes);
    return stream != STREAM;
}
int cuGetErrorName(int error, const char **said) {
    *said = "REFUSED";
    return error < 0;
}
int cuGetErrorString(int error, const char **said) {
    *said = "refused";
    return error < 0;
}
