// Layer norm between a hidden layer's sums and its activation, for 16 rows of a warp, in registers.
//
// Twin of network/native/norm.rs. A layer's gains lie behind the second layer's biases, its shifts behind them. Forward
// it is in fp32, back it is in halves, as derivatives are.
//
// Needs: LAYER_NORM, LAYER_NORM_EPSILON.
#pragma once
#include "net.cuh"

#if LAYER_NORM
// A layer's sums in fp32: as Hidden, columns 8 i + 2 (lane & 3) and the next of rows lane / 4 and lane / 4 + 8.
typedef float LayerSums[N_TILES][4];

// What a normalisation keeps of 16 rows for the way back: numbers of mean 0 and deviation 1, and one over the
// deviations of rows lane / 4 and lane / 4 + 8.
struct Normed {
    Hidden unit;
    float inverse[2];
};

// One over the deviation of HID numbers, from their mean and the mean of their squares.
__device__ __forceinline__ float inverse_deviation(float mean, float squares) {
    return rsqrtf(fmaxf(fmaf(-mean, mean, squares), 0.0f) + LAYER_NORM_EPSILON);
}

// This lane's two numbers of tile `i` of a layer's gains, or shifts.
__device__ __forceinline__ float2 pair_of(const float* of, int i) {
    return *(const float2*)&of[i * 8 + 2 * (threadIdx.x & 3)];
}

// From sums to activations. `gains`: of this layer, with its shifts behind them.
__device__ __forceinline__ void normalise(const float* gains, const LayerSums& sums, Hidden& h, Normed& normed) {
    float mean[2] = {}, squares[2] = {};
#pragma unroll
    for (int i = 0; i < 4 * N_TILES; ++i) {
        float x = sums[i / 4][i % 4];
        mean[i / 2 % 2] += x;
        squares[i / 2 % 2] = fmaf(x, x, squares[i / 2 % 2]);
    }
    float inverse[2], less[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        // Four lanes have a row.
#pragma unroll
        for (int d = 1; d <= 2; d <<= 1) {
            mean[r] += __shfl_xor_sync(0xffffffffu, mean[r], d);
            squares[r] += __shfl_xor_sync(0xffffffffu, squares[r], d);
        }
        inverse[r] = normed.inverse[r] = inverse_deviation(mean[r] / HID, squares[r] / HID);
        less[r] = -mean[r] / HID * inverse[r];
    }
#pragma unroll
    for (int i = 0; i < N_TILES; ++i) {
        float2 gain = pair_of(gains, i), shift = pair_of(gains + HID, i);
        float given[4];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float low = fmaf(sums[i][2 * r], inverse[r], less[r]), high = fmaf(sums[i][2 * r + 1], inverse[r], less[r]);
            normed.unit[i][r] = pack_halves(low, high);
            given[2 * r] = fmaf(low, gain.x, shift.x);
            given[2 * r + 1] = fmaf(high, gain.y, shift.y);
        }
        pack_active(given, h[i]);
    }
}

// A sixteenth, twice: sums of 16 rows stay within the range of halves if each number is one.
#define SIXTEENTHS (BF16 ? 0x3d803d80u : 0x2c002c00u)

// Sums over a warp's rows for the gradients of gains and shifts, by 16: eight tiles of columns at a time, of which lane l
// has those of tile l / 4, two shifts and two gains.
struct NormSums {
    float layers[2][(N_TILES + 7) / 8][4];

    // Adds 16 rows: the derivatives by what normalised numbers became, and sixteenths of their products with those numbers.
    __device__ __forceinline__ void add(int layer, const Hidden& d, const Hidden& products) {
#pragma unroll
        for (int group = 0; group < (N_TILES + 7) / 8; ++group) {
            u32 x[16];
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                bool exists = 8 * group + j < N_TILES;
                int i = exists ? 8 * group + j : 0;
                x[2 * j] = exists ? times_halves_and(d[i][0], SIXTEENTHS, times_halves(d[i][1], SIXTEENTHS)) : 0u;
                x[2 * j + 1] = exists ? add_halves(products[i][0], products[i][1]) : 0u;
            }
            // Over the eight lanes that have a column, each of which goes on with half as many numbers.
            halve<8>(x, 16);
            halve<4>(x, 8);
            halve<2>(x, 4);
            float(&to)[4] = layers[layer - 1][group];
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                float low, high;
                unpack_halves(x[k], low, high);
                to[2 * k] += low;
                to[2 * k + 1] += high;
            }
        }
    }
    template <int LEFT> static __device__ __forceinline__ void halve(u32 (&x)[16], int lanes) {
        bool upper = threadIdx.x & lanes;
#pragma unroll
        for (int i = 0; i < LEFT; ++i) {
            u32 low = x[i], high = x[i + LEFT];
            u32 other = __shfl_xor_sync(0xffffffffu, upper ? low : high, lanes);
            x[i] = add_halves(upper ? high : low, other);
        }
    }

    // Writes them as they lie among the parameters: a layer's gains, with its shifts behind them.
    __device__ __forceinline__ void write(float* to) const {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int i = 0; i < 2 * ((N_TILES + 7) / 8); ++i) {
            int tile = i / 2 * 8 + lane / 4;
            const float(&of)[4] = layers[i % 2][i / 2];
            float* gains = to + i % 2 * 2 * HID + tile * 8 + 2 * (lane & 3);
            if (tile >= N_TILES) continue;
            *(float2*)gains = make_float2(16.0f * of[2], 16.0f * of[3]);
            *(float2*)(gains + HID) = make_float2(16.0f * of[0], 16.0f * of[1]);
        }
    }
};

// From the derivatives `d` by what normalised numbers became to those by a layer's sums.
__device__ __forceinline__ void back_through_norm(const NetShared& net, int layer, const Normed& normed, NormSums& sums,
                                                  Hidden& d) {
    u32 gain[N_TILES];
    // Sixteenths of what could be too large for a half.
    Hidden products;
#pragma unroll
    for (int i = 0; i < N_TILES; ++i) {
        float2 pair = pair_of(net.gains(layer), i);
        gain[i] = pack_halves(pair.x, pair.y);
#pragma unroll
        for (int r = 0; r < 2; ++r) products[i][r] = times_halves(d[i][r], times_halves(normed.unit[i][r], SIXTEENTHS));
    }
    sums.add(layer, d, products);
    // Over a row's columns, each times its gain: all columns of these products are the same.
    float sum[4] = {}, sum_of_products[4] = {};
#pragma unroll
    for (int k = 0; k < M_TILES; ++k) {
        mma_hidden(sum, d, k, gain[2 * k], gain[2 * k + 1]);
        mma_hidden(sum_of_products, products, k, gain[2 * k], gain[2 * k + 1]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float minus_mean = -sum[2 * r] / HID, by_unit = -16.0f * sum_of_products[2 * r] / HID;
        float inverse = normed.inverse[r], most = fminf(65504.0f / inverse, 65504.0f);
        u32 minus_means = pack_halves(minus_mean, minus_mean), by_units = pack_halves(by_unit, by_unit);
        u32 inverses = pack_halves(inverse, inverse), limit = pack_halves(most, most);
#pragma unroll
        for (int i = 0; i < N_TILES; ++i) {
            u32 own = times_halves_and(d[i][r], gain[i], minus_means);
            own = times_halves_and(normed.unit[i][r], by_units, own);
            d[i][r] = times_halves(clamp_halves(own, limit), inverses);
        }
    }
}
#else
struct Normed {};
struct NormSums {};
#endif
