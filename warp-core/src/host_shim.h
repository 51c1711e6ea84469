// What CUDA text needs of CUDA, for a host's C++ compiler: a team is one thread or, for tests of
// teams, WARP_TEAM threads of the host that call the same functions together.
#pragma once
#include <string.h>

#define WARP_HOST
#define __device__

static inline int __float_as_int(float x) {
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float __int_as_float(int bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }

#define sqrtf __builtin_sqrtf
#define fabsf __builtin_fabsf
#define floorf __builtin_floorf
#define ceilf __builtin_ceilf
#define truncf __builtin_truncf
#define roundf __builtin_roundf
#define copysignf __builtin_copysignf
#define fmodf __builtin_fmodf
#define fmaf __builtin_fmaf
#define fminf __builtin_fminf
#define fmaxf __builtin_fmaxf
#define fabsf __builtin_fabsf
#define floorf __builtin_floorf
#define ceilf __builtin_ceilf
#define truncf __builtin_truncf
#define roundf __builtin_roundf
#define fmodf __builtin_fmodf
#define copysignf __builtin_copysignf

#if defined(WARP_TEAM) && WARP_TEAM > 32
#error "teams of more than 32 threads need CUDA"
#elif defined(WARP_TEAM) && WARP_TEAM > 1
#include <atomic>
#include <sched.h>

#define __shared__ static

struct WarpHostIndex {
    unsigned int x;
};
static thread_local WarpHostIndex threadIdx;

// Waits for the whole team.
static void __syncwarp(unsigned int) {
    static std::atomic<int> arrived(0), turn(0);
    int now = turn.load();
    if (arrived.fetch_add(1) == WARP_TEAM - 1) {
        arrived.store(0);
        turn.store(now + 1);
    } else {
        while (turn.load() == now) sched_yield();
    }
}

static int __reduce_add_sync(unsigned int lanes, int value) {
    static int values[WARP_TEAM];
    values[threadIdx.x] = value;
    __syncwarp(lanes);
    unsigned int sum = 0;
    for (int i = 0; i < WARP_TEAM; ++i) sum += (unsigned int)values[i];
    __syncwarp(lanes);
    return (int)sum;
}

static int __any_sync(unsigned int lanes, int value) {
    return __reduce_add_sync(lanes, value != 0) != 0;
}

static long long __shfl_xor_sync(unsigned int lanes, long long value, int apart) {
    static long long values[WARP_TEAM];
    values[threadIdx.x] = value;
    __syncwarp(lanes);
    long long other = values[threadIdx.x ^ (unsigned int)apart];
    __syncwarp(lanes);
    return other;
}

static int atomicAdd(int* place, int value) {
    return __atomic_fetch_add(place, value, __ATOMIC_RELAXED);
}
#endif

struct float4 {
    float x, y, z, w;
};
