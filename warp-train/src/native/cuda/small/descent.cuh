// From the blocks' gradients to new weights: sums in a fixed order, and Adam.
//
// Needs, beside order.cuh's: BLEND_1, KEEP_2, BLEND_2, EPSILON.
#pragma once
#include "order.cuh"

// Where an element of a small tile goes in the network: its offset in bytes, whether it stays f32,
// and whether it is repeated over the last layer's rows; NO_ROW for none.
#define PLACE_FLOAT (1u << 16)
#define PLACE_REPEATED (1u << 17)

template <int NET> __device__ __forceinline__ u32 place_of(const NetShared& net, int at) {
    if (at < 0) return NO_ROW;
    u32 base = shared_address(&net), place;
    if (at < AT_W2)
        place = shared_address(&net.w1[at / KX * LDX + at % KX]) - base;
    else if (at < AT_W3)
        place = (shared_address(&net.b2[at - AT_B2]) - base) | PLACE_FLOAT;
    else if (at < AT_B3)
        place = shared_address(&net.w3[(at - AT_W3) / HID * LDH + (at - AT_W3) % HID]) - base;
    else
        place = (shared_address(&net.b3[at - AT_B3]) - base) | PLACE_FLOAT;
    return at >= AT_W3 && repeated<NET>() ? place | PLACE_REPEATED : place;
}

template <int NET> __device__ __forceinline__ void write_place(NetShared& net, u32 place, float w) {
    if (place == NO_ROW) return;
    char* to = (char*)&net + (place & 0xffffu);
    constexpr int step = Role<NET>::outputs;
    int n = place & PLACE_REPEATED ? 8 / step : 1;
    for (int i = 0; i < n; ++i) {
        if (place & PLACE_FLOAT)
            ((float*)to)[i * step] = w;
        else
            ((unsigned short*)to)[i * step * LDH] = half_bits(w);
    }
}

// One step of Adam on one parameter.
__device__ __forceinline__ void adam(float g, float step_size, float inverse_root, float& w, float& m,
                                     float& v) {
    float root;
    m += (g - m) * BLEND_1;
    v = v * KEEP_2 + g * g * BLEND_2;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(v));
    w -= step_size * __fdividef(m, root * inverse_root + EPSILON);
}

// Sums this block's slice of the gradients over the network's blocks; returns its squares' sum.
__device__ __forceinline__ float reduce_slice(UpdateShared& shared, const float4* partials,
                                              float4* reduced, u32 first_block, u32 n_blocks,
                                              float factor) {
    constexpr u32 quads = OWN_TILES * GROUP_THREADS;
    u32 own = blockIdx.x - first_block, per_block = (quads + n_blocks - 1) / n_blocks;
    u32 wide = per_block < GROUP_THREADS ? per_block : GROUP_THREADS;
    u32 n_parts = GROUP_THREADS / wide, part = threadIdx.x / wide, column = threadIdx.x % wide;
    float squares = 0.0f;
    for (u32 base = 0; base < per_block; base += wide) {
        u32 quad = own * per_block + base + column;
        bool mine = part < n_parts && base + column < per_block && quad < quads;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (u32 b = part; b < n_blocks && mine; b += 8 * n_parts) {
            float4 x[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                u32 block = b + i * n_parts;
                x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (block < n_blocks) x[i] = __ldcg(partials + (first_block + block) * quads + quad);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                sum.x += x[i].x;
                sum.y += x[i].y;
                sum.z += x[i].z;
                sum.w += x[i].w;
            }
        }
        shared.parts[threadIdx.x] = sum;
        __syncthreads();
        if (part == 0 && mine) {
            for (u32 p = 1; p < n_parts; ++p) {
                float4 x = shared.parts[p * wide + column];
                sum.x += x.x;
                sum.y += x.y;
                sum.z += x.z;
                sum.w += x.w;
            }
            sum.x *= factor;
            sum.y *= factor;
            sum.z *= factor;
            sum.w *= factor;
            squares += sum.x * sum.x + sum.y * sum.y + sum.z * sum.z + sum.w * sum.w;
            __stcg(reduced + quad, sum);
        }
        __syncthreads();
    }
    return squares;
}

