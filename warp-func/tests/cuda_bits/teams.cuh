// The rows that a team's body works on: in global memory, or in shared memory and kept afterwards.
#include "draw.cuh"
#include "translated.cuh"
#include "bodies.cuh"

struct alignas(16) BitsRows {
    float x[BITS_LEN];
    float z[BITS_LEN];
    int y[BITS_LEN];
};

__device__ inline void bits_begin(BitsRows& rows) {
    for (int i = warp_first(); i < (int)BITS_LEN; i += warp_stride()) {
        rows.x[i] = i * 0.25f - 1.0f;
        rows.z[i] = 2.0f - i * 0.5f;
        rows.y[i] = i * 3 - 9;
    }
    warp_sync();
}

__device__ inline void bits_keep(BitsRows& to, const BitsRows& rows) {
    warp_sync();
    for (int i = warp_first(); i < (int)BITS_LEN; i += warp_stride()) {
        to.x[i] = rows.x[i];
        to.z[i] = rows.z[i];
        to.y[i] = rows.y[i];
    }
}

#if BITS_SHARED
#define BITS_ROWS(place)                          \
    __shared__ BitsRows bits_of_teams[WARP_TEAMS]; \
    BitsRows& rows = bits_of_teams[warp_team()];  \
    bits_begin(rows)
#define BITS_KEEP(place) bits_keep(place, rows)
#else
#define BITS_ROWS(place)    \
    BitsRows& rows = place; \
    bits_begin(rows)
#define BITS_KEEP(place)
#endif
