// How the threads that work on one replica find their part of it and wait for each other.
//
// WARP_TEAM threads are a team. Up to 32 (a power of two) they are part of a warp and several teams
// share a block; else the team is the block. A team of one needs nothing of CUDA, which is how the
// host's compiler builds the same text.
#pragma once

#ifndef WARP_TEAM
#define WARP_TEAM 1
#endif
#ifndef WARP_TEAMS
#define WARP_TEAMS 1
#endif

#ifdef WARP_HOST
#define WARP_ASSUME(holds) ((void)0)
#else
#define WARP_ASSUME(holds) __builtin_assume(holds)
#endif

__device__ inline int warp_stride() { return WARP_TEAM; }

#if WARP_TEAM == 1

__device__ inline int warp_first() { return 0; }
__device__ inline void warp_sync() {}
__device__ inline void warp_settle() {}
__device__ inline int warp_team_sum(int value) { return value; }
__device__ inline bool warp_team_any(bool value) { return value; }
// Nobody else adds, and what a thread has to itself is no place for an atomic addition.
__device__ inline int warp_atomic_add(int* place, int value) {
    int before = *place;
    *place = (int)((unsigned int)before + (unsigned int)value);
    return before;
}
#ifdef WARP_HOST
#define WARP_SHARED(type, name, count) static type name[count]
#else
#define WARP_SHARED(type, name, count) type name[count]
#endif

#else

__device__ inline int warp_atomic_add(int* place, int value) { return atomicAdd(place, value); }
// Of a block with one team the compiler need not know how many threads it has. Told so, it makes loops
// over no more indices than there are threads into plain code: half of the instructions go.
__device__ inline int warp_first() {
    unsigned int thread = WARP_TEAMS == 1 ? threadIdx.x : threadIdx.x % WARP_TEAM;
    WARP_ASSUME(thread < WARP_TEAM);
    return (int)thread;
}
__device__ inline int warp_team() { return WARP_TEAMS == 1 ? 0 : (int)(threadIdx.x / WARP_TEAM); }
// One array per team of the block, of whole 16 bytes: compilers read as many at once, and behind the last
// element nobody else should be writing.
#define WARP_SHARED(type, name, count)                                                         \
    alignas(16) __shared__ type name##_of_teams[WARP_TEAMS][WARP_WHOLE(sizeof(type), count)]; \
    type* name = name##_of_teams[warp_team()]
#define WARP_WHOLE(size, count) (((count) * (size) + 15) / 16 * 16 / (size))

// A sum over the lanes of a team, or over those of a warp that has a share of it: on a GPU a power of two, side by side.
__device__ inline int warp_lane_sum(unsigned int lanes, int value) {
#if defined(WARP_HOST) || __CUDA_ARCH__ >= 800
    return __reduce_add_sync(lanes, value);
#else
    for (int by = 1; by < (WARP_TEAM < 32 ? WARP_TEAM : 32); by *= 2) value += __shfl_xor_sync(lanes, value, by);
    return value;
#endif
}

#if WARP_TEAM <= 32

// The lanes of this thread's team.
__device__ inline unsigned int warp_lanes() {
    unsigned int all = WARP_TEAM == 32 ? 0xffffffffu : (1u << (WARP_TEAM % 32)) - 1u;
    return all << ((threadIdx.x % 32u) / WARP_TEAM * WARP_TEAM);
}
__device__ inline void warp_sync() { __syncwarp(warp_lanes()); }
// Keeps the compiler from moving reads and writes to the other side.
__device__ inline void warp_keep_order() { asm volatile("" ::: "memory"); }
// Called before a vote, a sum or a search for the least, it lets those who are told see what was written.
// Without it they have waited for all, who then read nothing any more that they read before.
__device__ inline void warp_settle() { warp_sync(); }
__device__ inline int warp_team_sum(int value) {
    warp_keep_order();
    int sum = warp_lane_sum(warp_lanes(), value);
    warp_keep_order();
    return sum;
}
__device__ inline bool warp_team_any(bool value) {
    warp_keep_order();
    bool found = __any_sync(warp_lanes(), value);
    warp_keep_order();
    return found;
}

#else

__device__ inline void warp_sync() { __syncthreads(); }
// Votes and sums of a block wait as `warp_sync` does.
__device__ inline void warp_settle() {}
__device__ inline int warp_team_sum(int value) {
    __shared__ int sum_of[WARP_TEAM / 32];
    value = warp_lane_sum(0xffffffffu, value);
    // Those who still read what the last call brought come first.
    __syncthreads();
    if (threadIdx.x % 32 == 0) sum_of[threadIdx.x / 32] = value;
    __syncthreads();
    int sum = 0;
#pragma unroll
    for (int i = 0; i < WARP_TEAM / 32; ++i) sum += sum_of[i];
    return sum;
}
__device__ inline bool warp_team_any(bool value) { return __syncthreads_or(value) != 0; }

#endif
#endif
