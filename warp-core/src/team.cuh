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

__device__ inline int warp_stride() { return WARP_TEAM; }

#if WARP_TEAM == 1

__device__ inline int warp_first() { return 0; }
__device__ inline void warp_sync() {}
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
// Of a block with one team the compiler need not know how many threads it has.
__device__ inline int warp_first() {
    return (int)(WARP_TEAMS == 1 ? threadIdx.x : threadIdx.x % WARP_TEAM);
}
__device__ inline int warp_team() { return WARP_TEAMS == 1 ? 0 : (int)(threadIdx.x / WARP_TEAM); }
// One array per team of the block.
#define WARP_SHARED(type, name, count)                    \
    __shared__ type name##_of_teams[WARP_TEAMS][count];   \
    type* name = name##_of_teams[warp_team()]

#if WARP_TEAM <= 32

// The lanes of this thread's team.
__device__ inline unsigned int warp_lanes() {
    unsigned int all = WARP_TEAM == 32 ? 0xffffffffu : (1u << (WARP_TEAM % 32)) - 1u;
    return all << ((threadIdx.x % 32u) / WARP_TEAM * WARP_TEAM);
}
__device__ inline void warp_sync() { __syncwarp(warp_lanes()); }
// Whoever is told has waited for all, and sees what they have written before.
__device__ inline int warp_team_sum(int value) {
    warp_sync();
    return __reduce_add_sync(warp_lanes(), value);
}
__device__ inline bool warp_team_any(bool value) {
    warp_sync();
    return __any_sync(warp_lanes(), value);
}

#else

__device__ inline void warp_sync() { __syncthreads(); }
__device__ inline int warp_team_sum(int value) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    int part = __reduce_add_sync(0xffffffffu, value);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, part);
    __syncthreads();
    int sum = total;
    __syncthreads();
    return sum;
}
__device__ inline bool warp_team_any(bool value) { return __syncthreads_or(value) != 0; }

#endif
#endif
