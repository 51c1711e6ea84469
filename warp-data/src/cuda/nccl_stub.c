// Stands for NCCL in the tests of its loader: answers as NCCL does, and gathers and sums nothing.
//
// VERSION is what it says of itself; WITHOUT_ALL_GATHER leaves a function out.
#include <stddef.h>
#include <string.h>

enum { SUCCESS = 0, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, IN_PROGRESS = 7 };

typedef struct {
    char bytes[128];
} ncclUniqueId;

// As in NCCL's header since 2.17; later members follow.
typedef struct {
    size_t size;
    unsigned int magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char* net_name;
    int split_share;
} ncclConfig_t;

static struct {
    int asked, ended;
} communicator;

int ncclGetVersion(int* version) {
    *version = VERSION;
    return SUCCESS;
}

int ncclGetUniqueId(ncclUniqueId* id) {
    for (int i = 0; i < 128; ++i) id->bytes[i] = (char)(3 * i);
    return SUCCESS;
}

int ncclCommInitRankConfig(void** comm, int n_ranks, ncclUniqueId id, int rank, const ncclConfig_t* config) {
    ncclUniqueId wanted;
    ncclGetUniqueId(&wanted);
    if (memcmp(&id, &wanted, sizeof id) != 0 || n_ranks != 16 || rank != 5) return INVALID_ARGUMENT;
    if (config->size < sizeof *config || config->magic != 0xcafebeefu || config->blocking != 0) return INVALID_ARGUMENT;
    int undefined = (int)0x80000000u;
    if (config->max_ctas != undefined || config->net_name != NULL || config->split_share != undefined)
        return INVALID_ARGUMENT;
    memset(&communicator, 0, sizeof communicator);
    *comm = &communicator;
    return IN_PROGRESS;
}

int ncclCommGetAsyncError(void* comm, int* state) {
    if (comm != &communicator) return INVALID_ARGUMENT;
    *state = ++communicator.asked < 3 ? IN_PROGRESS : communicator.ended ? INTERNAL_ERROR : SUCCESS;
    return SUCCESS;
}

int ncclCommAbort(void* comm) {
    communicator.ended = 1;
    return comm == &communicator ? SUCCESS : INVALID_ARGUMENT;
}

#ifndef WITHOUT_ALL_GATHER
int ncclAllGather(const void* from, void* to, size_t n, int type, void* comm, void* stream) {
    return SUCCESS;
}
#endif

int ncclAllReduce(const void* from, void* to, size_t n, int type, int op, void* comm, void* stream) {
    return SUCCESS;
}

int ncclGroupStart(void) { return SUCCESS; }

int ncclGroupEnd(void) { return SUCCESS; }

const char* ncclGetErrorString(int code) {
    return code == INVALID_ARGUMENT ? "invalid argument" : code == INTERNAL_ERROR ? "internal error" : "no error";
}

const char* ncclGetLastError(void* comm) { return comm == NULL ? "nobody has come" : NULL; }
