// Random draws of one replica at one step: the twin of draw.rs.
#pragma once
#include "math.cuh"
#include "philox.cuh"

#define WARP_PURPOSE_RESET 1u
#define WARP_PURPOSE_STEP 2u
#define WARP_PURPOSE_ACTION 3u
#define WARP_PURPOSE_RANDOM_ACTION 4u
#define WARP_PURPOSE_SHUFFLE 5u
#define WARP_PURPOSE_INITIALISE 6u
#define WARP_PURPOSE_NOISE 7u
#define WARP_PURPOSE_REPLAY 8u
#define WARP_PURPOSE_LEARN 9u

struct WarpDraw {
    unsigned int key0, key1;
    WarpWords counter;
    unsigned int index;
    WarpWords block;
};

__device__ inline WarpDraw warp_draw(unsigned long long seed, unsigned int replica,
                                     unsigned int step, unsigned int purpose) {
    WarpDraw draw = {(unsigned int)seed, (unsigned int)(seed >> 32),
                     {replica, 0u, step, purpose << 24}, 0u, {0u, 0u, 0u, 0u}};
    return draw;
}

// The stream of one agent, from its first draw.
__device__ inline WarpDraw warp_draw_agent(const WarpDraw* draw, unsigned int agent) {
    WarpDraw other = *draw;
    other.counter.y = agent;
    other.index = 0u;
    return other;
}

__device__ inline unsigned int warp_draw_u32(WarpDraw* draw) {
    unsigned int lane = draw->index & 3u;
    if (lane == 0u) {
        WarpWords counter = draw->counter;
        counter.w |= (draw->index >> 2) & 0x00ffffffu;
        draw->block = warp_philox4x32_10(counter, draw->key0, draw->key1);
    }
    draw->index += 1u;
    // Selects, as an array with a computed index would leave the registers.
    unsigned int low = lane == 0u ? draw->block.x : draw->block.y;
    unsigned int high = lane == 2u ? draw->block.z : draw->block.w;
    return lane < 2u ? low : high;
}

// A multiple of 2^-24 in [0, 1).
__device__ inline float warp_draw_uniform(WarpDraw* draw) {
    return warp_uniform(warp_draw_u32(draw));
}

__device__ inline float warp_draw_uniform_in(WarpDraw* draw, float low, float high) {
    return low + (high - low) * warp_draw_uniform(draw);
}

// An integer in 0..n.
__device__ inline unsigned int warp_draw_below(WarpDraw* draw, unsigned int n) {
    return warp_high((unsigned long long)warp_draw_u32(draw) * n);
}

// A standard normal number; takes two draws.
__device__ inline float warp_draw_normal(WarpDraw* draw) {
    float u = 1.0f - warp_draw_uniform(draw);
    float angle = 6.2831855f * warp_draw_uniform(draw);
    return warp_sqrt(-2.0f * warp_ln(u)) * warp_cos(angle);
}
