// The layers of a network, for 16 R rows of a warp.
#pragma once
#include "layer_norm.cuh"

// The left operand of 16 R rows of inputs, rows and units of a row so many halves apart. Here and below R times 16 rows
// go through a layer together, so that its weights are loaded once for all of them.
template <int R>
__device__ __forceinline__ void load_inputs(u32 (&x)[R][KX / 16][4], const unsigned short* rows, int row = LDX,
                                            int unit = 8) {
    int lane = threadIdx.x & 31;
    u32 address = shared_address(rows + (lane & 15) * row + (lane >> 4) * unit);
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int k = 0; k < KX / 16; ++k) load_4(x[r][k], address + (r * 16 * row + k * 2 * unit) * 2);
    }
}

// From the sums of tiles `first` on of layer 1 or 2 to activations; of all tiles where they are normalised.
template <int TILES>
__device__ __forceinline__ void activate_tiles(const NetShared& net, int layer, int first, const float (&c)[TILES][4],
                                               Hidden& h, Normed& normed) {
#if LAYER_NORM
    static_assert(TILES == N_TILES, "a row is normalised as a whole");
    normalise(net.gains(layer), c, h, normed);
#else
#pragma unroll
    for (int i = 0; i < TILES; ++i) pack_active(c[i], h[first + i]);
#endif
}

template <int R>
__device__ __forceinline__ void first_layer(const NetShared& net, const u32 (&x)[R][KX / 16][4],
                                            Hidden (&h)[R], Normed (&normed)[R]) {
    // Pairs of tiles whose accumulators are held at once.
    constexpr int n = LAYER_NORM ? M_TILES : 1;
    int lane = threadIdx.x & 31;
    int row = (lane & 7) + ((lane >> 4) << 3), column = ((lane >> 3) & 1) * 8;
    u32 address = shared_address(net.w1 + row * LDX + column);
#pragma unroll
    for (int first = 0; first < M_TILES; first += n) {
        float c[R][2 * n][4] = {};
#pragma unroll
        for (int k = 0; k < KX / 16; ++k) {
#pragma unroll
            for (int p = 0; p < n; ++p) {
                u32 b[4];
                load_4(b, address + ((first + p) * 16 * LDX + k * 16) * 2);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    mma16(c[r][2 * p], x[r][k][0], x[r][k][1], x[r][k][2], x[r][k][3], b[0], b[1]);
                    mma16(c[r][2 * p + 1], x[r][k][0], x[r][k][1], x[r][k][2], x[r][k][3], b[2], b[3]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < R; ++r) activate_tiles(net, 1, 2 * first, c[r], h[r], normed[r]);
    }
}

// The same of the second layer; fewer where two blocks share the registers.
template <int R> __device__ __forceinline__ constexpr int pairs() {
    if (LAYER_NORM) return M_TILES;
    constexpr int most = R * BLOCKS >= 4 ? 1 : 4 / (R * BLOCKS);
    return M_TILES < most ? M_TILES : most;
}

template <int R>
__device__ __forceinline__ void second_layer(const NetShared& net, const Hidden (&h1)[R],
                                             Hidden (&h2)[R], Normed (&normed)[R]) {
    constexpr int n = pairs<R>();
    int lane = threadIdx.x & 31;
    int row = (lane & 7) + ((lane >> 4) << 3), column = ((lane >> 3) & 1) * 8;
    u32 address = shared_address(net.w2) + unit_at(row, column / 8);
#pragma unroll
    for (int first = 0; first < M_TILES; first += n) {
        float c[R][2 * n][4];
#pragma unroll
        for (int i = 0; i < 2 * n; ++i) {
            float2 bias = *(const float2*)&net.b2[(2 * first + i) * 8 + 2 * (lane & 3)];
#pragma unroll
            for (int r = 0; r < R; ++r) {
                c[r][i][0] = c[r][i][2] = bias.x;
                c[r][i][1] = c[r][i][3] = bias.y;
            }
        }
#pragma unroll
        for (int k = 0; k < M_TILES; ++k) {
#pragma unroll
            for (int p = 0; p < n; ++p) {
                u32 b[4];
                load_4(b, along_row(address, k * 32) + (first + p) * 16 * LDM * 2);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    mma_hidden(c[r][2 * p], h1[r], k, b[0], b[1]);
                    mma_hidden(c[r][2 * p + 1], h1[r], k, b[2], b[3]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < R; ++r) activate_tiles(net, 2, 2 * first, c[r], h2[r], normed[r]);
    }
}

// Both, where nothing goes back through them.
template <int R>
__device__ __forceinline__ void hidden_layers(const NetShared& net, const u32 (&x)[R][KX / 16][4], Hidden (&h1)[R],
                                              Hidden (&h2)[R]) {
    Normed normed[R];
    first_layer<R>(net, x, h1, normed);
    second_layer<R>(net, h1, h2, normed);
}

// Columns 2 (lane & 3) and the next of rows lane / 4 and lane / 4 + 8.
template <int NET, int R>
__device__ __forceinline__ void last_layer(const NetShared& net, const Hidden (&h2)[R],
                                           float (&out)[R][4]) {
    int lane = threadIdx.x & 31;
    float2 bias = make_float2(net.b3[output_of<NET>(2 * (lane & 3))],
                              net.b3[output_of<NET>(2 * (lane & 3) + 1)]);
    float odd[R][4] = {};
#pragma unroll
    for (int r = 0; r < R; ++r) {
        out[r][0] = out[r][2] = bias.x;
        out[r][1] = out[r][3] = bias.y;
    }
    u32 address = shared_address(net.w3 + output_of<NET>(lane & 7) * LDH + (lane >> 3) * 8);
#pragma unroll
    for (int k = 0; k < M_TILES; k += 2) {
        u32 b[4];
        load_4(b, address + k * 32);
#pragma unroll
        for (int r = 0; r < R; ++r) {
            mma_hidden(out[r], h2[r], k, b[0], b[1]);
            mma_hidden(odd[r], h2[r], k + 1, b[2], b[3]);
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[r][i] += odd[r][i];
    }
}

// All outputs of rows lane / 4 and lane / 4 + 8, in every lane of the four that share them.
template <int NET>
__device__ __forceinline__ void gather_outputs(const float (&c)[4], float (&low)[Role<NET>::outputs],
                                               float (&high)[Role<NET>::outputs]) {
    constexpr int n = Role<NET>::outputs;
    int base = (threadIdx.x & 31) & ~3;
#pragma unroll
    for (int o = 0; o < n; ++o) {
        if (repeated<NET>()) {
            low[o] = c[o & 1];
            high[o] = c[2 + (o & 1)];
        } else {
            low[o] = __shfl_sync(0xffffffffu, c[o & 1], base + o / 2);
            high[o] = __shfl_sync(0xffffffffu, c[2 + (o & 1)], base + o / 2);
        }
    }
}
