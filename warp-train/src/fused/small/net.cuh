// Small perceptrons on tensor cores: one warp takes 16 rows through a whole network, by the layers of layers.cuh.
//
// Two hidden layers of HID (narrower ones are padded, see layout.rs), up to 8 outputs. The accumulator of a layer has the layout of the next
// one's left operand, so activations stay in registers. The bias of the first layer is the weight of
// an input that is 1 (column OBS). Weights lie in shared memory as halves, [outputs, inputs], rows
// padded so that no two lanes of a matrix load meet in a bank.
//
// Needs: OBS, HID, OUT, SHARED_TRUNK, RELU, LAYER_NORM, FOUR_WARPS (see four_warps.cuh).
#pragma once
#include "mma.cuh"

#define N_NETS (SHARED_TRUNK ? 1 : 2)
// Halves of a stored observation: inputs and the one, in units of 16 bytes.
#define X_HALVES ((OBS + 1 + 7) / 8 * 8)
// Inputs as the products take them.
#define KX ((OBS + 1 + 15) / 16 * 16)
#define LDX (KX + 8)
#define LDH (HID + 8)
#define N_TILES (HID / 8)
#define M_TILES (HID / 16)
#define NO_ROW 0xffffffffu

// Outputs of a network, and where the value is among them.
template <int NET> struct Role {
    static constexpr bool policy = NET == 0;
    static constexpr bool value = SHARED_TRUNK || NET == 1;
    static constexpr int outputs = (policy ? OUT : 0) + (value ? 1 : 0);
    static constexpr int value_column = outputs - 1;
};
static_assert(Role<0>::outputs <= 8, "more outputs than a tile has columns");
// The same of network `net`, whose number only the running kernel knows: blocks of both networks then share their code,
// of which the compiler has half as much.
__device__ __forceinline__ int outputs_of(int net) {
    return net == 0 ? Role<0>::outputs : Role<N_NETS - 1>::outputs;
}

// Gains and shifts of both layers, a row each.
#define NORM_ROWS (LAYER_NORM ? 4 : 0)
#define NORM_FLOATS (NORM_ROWS * HID)

// Parameters of one network as they lie in memory: padded matrices, one after the other.
#define AT_W1 0
#define AT_W2 (AT_W1 + HID * KX)
#define AT_B2 (AT_W2 + HID * HID)
#define AT_NORMS (AT_B2 + HID)
#define AT_W3 (AT_NORMS + NORM_FLOATS)
#define AT_B3 (AT_W3 + 8 * HID)
#define N_PARAMETERS (AT_B3 + 8)

// A matrix that products may be made of together has HID columns in panels of 64, one panel's rows after the other's,
// swizzled by 128 bytes; others have padded rows. Halves from one row to the next, of a matrix of so many rows, and
// where one begins.
#define LDM (FOUR_WARPS ? 64 : LDH)
#define MATRIX_HALVES(rows) ((rows) * (FOUR_WARPS ? HID : LDH))
#define MATRIX_BYTES (FOUR_WARPS ? 1024 : 16)
// Bytes from one panel to the next, where there is more than one: the weights' and a tile's have 128 rows.
#define PANEL_BYTES (128 * 64 * 2)
// Bytes from the matrix's beginning to unit `unit` of 16 bytes of a row.
__device__ __forceinline__ u32 unit_at(int row, int unit) {
    if (!FOUR_WARPS) return row * LDM * 2 + unit * 16;
    return unit / 8 * PANEL_BYTES + row * LDM * 2 + (unit % 8 ^ (row & 7)) * 16;
}
// The place so many bytes further along a row than a unit in whose own place those bits are 0.
__device__ __forceinline__ u32 along_row(u32 address, u32 bytes) {
    return FOUR_WARPS ? (address ^ bytes % 128) + bytes / 128 * PANEL_BYTES : address + bytes;
}

// A network in shared memory.
struct NetShared {
    __align__(MATRIX_BYTES) unsigned short w2[MATRIX_HALVES(HID)];
    unsigned short w1[HID * LDX];
    unsigned short w3[8 * LDH];
    float b2[HID + NORM_FLOATS];  // and gains and shifts
    float b3[8];

    // The gains of layer 1 or 2, with its shifts behind them.
    __device__ __forceinline__ const float* gains(int layer) const { return b2 + HID + (layer - 1) * 2 * HID; }
};

__device__ __forceinline__ unsigned short half_bits(float x) {
    unsigned short bits;
    asm("cvt.rn." HALF_TYPE ".f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

// With one or two outputs, the rows of the last layer are read again and again for the eight columns:
// then every lane holds all outputs of its rows.
template <int NET> __device__ __forceinline__ constexpr bool repeated() {
    return Role<NET>::outputs <= 2;
}
template <int NET> __device__ __forceinline__ int output_of(int column) {
    return repeated<NET>() ? column % Role<NET>::outputs : column;
}

// Four parameters of one row as halves.
__device__ __forceinline__ void place_four(unsigned short* to, float4 w) {
    *(uint2*)to = make_uint2(pack_halves(w.x, w.y), pack_halves(w.z, w.w));
}

// Where a weight of the second layer lies, in halves.
__device__ __forceinline__ u32 at_w2(int row, int column) {
    return unit_at(row, column / 8) / 2 + column % 8;
}

// Hands over `n` quads from memory, so many of a thread's on their way at once.
template <int AT_ONCE, class Put>
__device__ __forceinline__ void load_quads(const float* from, int n, int thread, int n_threads, Put put) {
    for (int first = thread; first < n; first += AT_ONCE * n_threads) {
        float4 x[AT_ONCE];
        // Behind the end the last one again: loads with a condition each would wait for each other.
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) x[i] = __ldcg((const float4*)from + min(first + i * n_threads, n - 1));
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            if (first + i * n_threads < n) put(first + i * n_threads, x[i]);
        }
    }
}

// Quads that a thread loads at once where a block may have a single warp.
#define ONE_WARP_AT_ONCE 16

// Copies a network from memory; all `n_threads` threads call it and wait for each other afterwards.
template <int AT_ONCE = 4>
__device__ void load_net(NetShared& net, const float* parameters, int thread, int n_threads) {
    load_quads<AT_ONCE>(parameters + AT_W1, HID * KX / 4, thread, n_threads, [&](int i, float4 w) {
        place_four(net.w1 + i / (KX / 4) * LDX + i % (KX / 4) * 4, w);
    });
    load_quads<AT_ONCE>(parameters + AT_W2, HID * HID / 4, thread, n_threads, [&](int i, float4 w) {
        place_four(net.w2 + at_w2(i / (HID / 4), i % (HID / 4) * 4), w);
    });
    load_quads<AT_ONCE>(parameters + AT_W3, 8 * HID / 4, thread, n_threads, [&](int i, float4 w) {
        place_four(net.w3 + i / (HID / 4) * LDH + i % (HID / 4) * 4, w);
    });
    for (int i = thread; i < HID + NORM_FLOATS; i += n_threads) net.b2[i] = __ldcg(parameters + AT_B2 + i);
    if (thread < 8) net.b3[thread] = __ldcg(parameters + AT_B3 + thread);
}

__device__ __forceinline__ float activate(float x) {
    return RELU ? fmaxf(x, 0.0f) : fast_tanh(x);
}
// The activation's slope, from its value.
__device__ __forceinline__ float slope(float h) {
    return RELU ? (h > 0.0f ? 1.0f : 0.0f) : 1.0f - h * h;
}

// d times the slope at h, as halves: half of the instructions that single precision would take.
__device__ __forceinline__ void through_activation(const float (&d)[4], const u32 (&h)[2],
                                                   u32 (&out)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        u32 packed = pack_halves(d[2 * i], d[2 * i + 1]);
        out[i] = RELU ? where_positive(packed, h[i]) : times_tanh_slope(packed, h[i]);
    }
}

// Activations of 16 rows: per 8 features a word for row lane / 4 and one for row lane / 4 + 8.
typedef u32 Hidden[N_TILES][2];

// Two words of activations from an accumulator.
__device__ __forceinline__ void pack_active(const float (&c)[4], u32 (&h)[2]) {
    h[0] = RELU ? pack_positive(c[0], c[1]) : pack_halves(activate(c[0]), activate(c[1]));
    h[1] = RELU ? pack_positive(c[2], c[3]) : pack_halves(activate(c[2]), activate(c[3]));
}

// c += h b for features 16 k to 16 k + 15.
__device__ __forceinline__ void mma_hidden(float (&c)[4], const Hidden& h, int k, u32 b0, u32 b1) {
    mma16(c, h[2 * k][0], h[2 * k][1], h[2 * k + 1][0], h[2 * k + 1][1], b0, b1);
}
