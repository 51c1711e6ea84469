// Forward, loss and backward of tiles of 128 or 256 rows, by a group of eight warps that own one
// network.
//
// A warp takes 16 or 32 rows through the network and back; what the weights' gradients need is put
// into shared memory once per tile, and each warp then adds to those parts of the gradients that it
// owns. A thread's accumulators are the gradients of parameters that only it updates.
//
// Needs what stage.cuh needs.
#pragma once
#include "stage.cuh"

// The gradient at the second hidden layer from that at the outputs.
__device__ __forceinline__ void back_to_second(const NetShared& net, const u32 (&out)[ROWS][2],
                                               const Hidden (&h2)[ROWS], Hidden (&d2)[ROWS]) {
    int lane = threadIdx.x & 31;
    u32 address = shared_address(net.w3 + (lane & 7) * LDH + (lane >> 3) * 8);
#pragma unroll
    for (int q = 0; q < N_TILES; q += 4) {
        u32 b[4];
        load_4_turned(b, address + q * 16);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float c[4] = {};
                mma8(c, out[r][0], out[r][1], b[i]);
                through_activation(c, h2[r][q + i], d2[r][q + i]);
            }
        }
    }
}

#if !FOUR_WARPS
__device__ __forceinline__ void back_to_first(const NetShared& net, const Hidden (&d2)[ROWS],
                                              const Hidden (&h1)[ROWS], Hidden (&d1)[ROWS]) {
    constexpr int n = pairs<ROWS>();
    int lane = threadIdx.x & 31;
    int row = (lane & 7) + ((lane >> 3) & 1) * 8, column = (lane >> 4) * 8;
    u32 address = shared_address(net.w2 + row * LDH + column);
#pragma unroll
    for (int first = 0; first < M_TILES; first += n) {
        float c[ROWS][2 * n][4] = {};
#pragma unroll
        for (int k = 0; k < M_TILES; ++k) {
#pragma unroll
            for (int p = 0; p < n; ++p) {
                u32 b[4];
                load_4_turned(b, address + (k * 16 * LDH + (first + p) * 16) * 2);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    mma_hidden(c[r][2 * p], d2[r], k, b[0], b[1]);
                    mma_hidden(c[r][2 * p + 1], d2[r], k, b[2], b[3]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int i = 0; i < 2 * n; ++i)
                through_activation(c[r][i], h1[r][2 * first + i], d1[r][2 * first + i]);
        }
    }
}
#endif

// Whether every second part of a small product is summed apart, so that it has only half of the others to wait for: where
// a block has a multiprocessor's registers to itself. Runs of few replicas have the same bits whether theirs has or not.
#define ODD_APART (BLOCKS == 1 && !LEAN)

// A small product by one warp, whose result is added to `sums`.
__device__ __forceinline__ void add_job(const Job& job, float (&sums)[4]) {
    float odd[4] = {};
#pragma unroll
    for (int k = 0; k < TILE_ROWS / 16; k += 2) {
        u32 a[4], other[4], b[4];
        load_4_turned(b, job.b + k * 16 * job.b_width * 2);
        load_4_turned(a, job.a + k * 16 * job.a_width * 2);
        load_4_turned(other, job.a + (k + 1) * 16 * job.a_width * 2);
        mma16(sums, a[0], a[1], a[2], a[3], b[0], b[1]);
        mma16(ODD_APART ? odd : sums, other[0], other[1], other[2], other[3], b[2], b[3]);
    }
#pragma unroll
    for (int i = 0; i < (ODD_APART ? 4 : 0); ++i) sums[i] += odd[i];
}

#if SMALL_TOGETHER
// A right operand without swizzle: columns of inputs, or the derivatives at the outputs; 16 rows further on are 256
// bytes.
__device__ __forceinline__ Operand columns_at(const unsigned short* units) {
    return {(shared_address(units) & 0x3ffffu) >> 4 | 128u >> 4 << 16, 2u * X_UNIT >> 4};
}

// Adds the product of 64 columns of a matrix and 8 TILES columns of another.
template <int TILES> __device__ __forceinline__ void add_columns(float (*sums)[4], Operand a, Operand b) {
#pragma unroll
    for (int k = 0; k < TILE_ROWS / 16; ++k)
        mma_columns<TILES>(sums, further(a, k * 16 * 128), further(b, k * 16 * 16));
}

// Adds the tile in the stage to this warp's part of all gradients: each four warps have 64 of the features.
template <class Meanwhile>
__device__ __forceinline__ void add_gradients(Stage& stage, int warp, OwnTiles& own, Meanwhile meanwhile) {
    float(*small)[4] = own + WIDE_TILES;
    // Of all lanes the same, which the compiler then knows.
    int group = __shfl_sync(0xffffffffu, warp / 4, 0), panel = group * PANEL_BYTES;
    settle<OWN_TILES>(own);
    start_products();
    add_wide_together(stage.d(2), stage.h(1), TILE_ROWS, group, own);
    add_columns<X_TILES>(small, further(operand(stage.d(1)), panel), columns_at(stage.x));
    add_columns<1>(small + X_TILES, further(operand(stage.d(2)), panel), columns_at(stage.x + OBS / 8 * X_UNIT));
    add_columns<1>(small + X_TILES + 1, further(operand(stage.h(2)), panel), columns_at(stage.out));
    end_products();
    meanwhile();
    if (warp == 0) add_job(small_job(stage, N_JOBS - 1), small[X_TILES + 2]);
    wait_for_products<0>();
    settle<OWN_TILES>(own);
}
#else
// Adds the tile in the stage to this warp's part of the second layer's gradients; they are there after
// wide_is_added().
__device__ __forceinline__ void add_wide(Stage& stage, int warp, OwnTiles& own) {
#if FOUR_WARPS
    settle<WIDE_TILES>(own);
    start_products();
    add_wide_together(stage.d(2), stage.h(1), TILE_ROWS, warp / 4, own);
    end_products();
#else
    int lane = threadIdx.x & 31;
    int first = warp * WIDE_TILES, m = first / N_TILES, n = first % N_TILES;
    int low = lane & 7, bit3 = (lane >> 3) & 1, bit4 = lane >> 4;
    u32 a_at = shared_address(stage.d(2) + (low + bit4 * 8) * LDH + m * 16 + bit3 * 8);
    u32 b_at = shared_address(stage.h(1) + (low + bit3 * 8) * LDH + n * 8 + bit4 * 8);
#pragma unroll
    for (int k = 0; k < TILE_ROWS / 16; ++k) {
        u32 a[4];
        load_4_turned(a, a_at + k * 16 * LDH * 2);
#pragma unroll
        for (int t = 0; t < WIDE_TILES; t += 2) {
            u32 b[4], b_from = b_at + (k * 16 * LDH + t * 8) * 2;
            if (t + 1 < WIDE_TILES)
                load_4_turned(b, b_from);
            else
                load_2_turned(b[0], b[1], b_from);
            mma16(own[t], a[0], a[1], a[2], a[3], b[0], b[1]);
            if (t + 1 < WIDE_TILES) mma16(own[t + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
        }
    }
#endif
}

__device__ __forceinline__ void wide_is_added(OwnTiles& own) {
#if FOUR_WARPS
    wait_for_products<0>();
    settle<WIDE_TILES>(own);
#endif
}

// The same for the small products; with TIGHT those that are `early`, or the others.
__device__ __forceinline__ void add_small(Stage& stage, int warp, OwnTiles& own, bool early) {
#pragma unroll
    for (int s = 0; s < SMALL_TILES; ++s) {
        Job job = small_job(stage, warp + 8 * s);
        if (!job.exists || (TIGHT && job.early != early)) continue;
        add_job(job, own[WIDE_TILES + s]);
    }
}
#endif

// Whether two of the four lanes that have all outputs of two rows take one row each: its loss costs more
// than telling the others.
template <int NET> __device__ __forceinline__ constexpr bool shares_loss() {
    return OUT > 4 || (repeated<NET>() && Role<NET>::policy);
}

// Losses of rows `row` and `row` + 8 of this warp, which begin at row `first` of the stage; this lane's
// columns of their derivatives, for it and for the stage.
template <int NET>
__device__ __forceinline__ void shared_loss(Stage& stage, int first, int row, int rows_left,
                                            const float (&low)[Role<NET>::outputs],
                                            const float (&high)[Role<NET>::outputs],
                                            const Coefficients& k, float one, LossSums& sums,
                                            u32 (&packed)[2]) {
    constexpr int n = Role<NET>::outputs;
    int lane = threadIdx.x & 31, own = row + 4 * (lane & 2), from = (lane & ~3) + (lane & 1);
    const uint4* rest = stage.rest + (first + own) * (1 + RAW_UNITS);
    uint4 words = *rest;
    Row stored = {words.x, __uint_as_float(words.y), __uint_as_float(words.z),
                  __uint_as_float(words.w)};
    float z[n], d[n];
#pragma unroll
    for (int o = 0; o < n; ++o) z[o] = lane & 2 ? high[o] : low[o];
    bool counts = own < rows_left;
    row_loss<NET>(z, stored, (const float*)(rest + 1), k, counts && (lane & 1) == 0 ? one : 0.0f, d,
                  sums);
    u32 pairs[4];
#pragma unroll
    for (int i = 0; i < (repeated<NET>() ? 1 : 4); ++i)
        pairs[i] = counts && 2 * i < n ? pack_halves(d[2 * i < n ? 2 * i : 0],
                                                     2 * i + 1 < n ? d[2 * i + 1 < n ? 2 * i + 1 : 0] : 0.0f)
                                       : 0u;
    if (repeated<NET>()) {
        // Of each row's columns the first lane has those that are not 0.
        u32 other = __shfl_xor_sync(0xffffffffu, pairs[0], 2);
        packed[0] = lane & 3 ? 0u : pairs[0];
        packed[1] = lane & 3 ? 0u : other;
#pragma unroll
        for (int half = 0; half < 2; ++half)
            *(u32*)(stage.out + (first + row + 8 * half) * 8 + 2 * (lane & 3)) = packed[half];
        return;
    }
    // Of its row's four pairs a lane tells its first or second, and its third or fourth.
    u32 early = lane & 1 ? pairs[1] : pairs[0], late = lane & 1 ? pairs[3] : pairs[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        u32 a = __shfl_sync(0xffffffffu, early, from + 2 * half);
        u32 b = __shfl_sync(0xffffffffu, late, from + 2 * half);
        packed[half] = lane & 2 ? b : a;
        *(u32*)(stage.out + (first + row + 8 * half) * 8 + 2 * (lane & 3)) = packed[half];
    }
}

// From a warp's activations, which begin at row `first` of the stage, to the derivatives of its rows' losses by the
// outputs: `packed` for the next product, and in the stage.
template <int NET>
__device__ __forceinline__ void rows_loss(const NetShared& net, Stage& stage, int first, int rows_left,
                                          const Hidden (&h2)[ROWS], const Coefficients& k, float one,
                                          LossSums& sums, u32 (&packed)[ROWS][2]) {
    int lane = threadIdx.x & 31;
    float out[ROWS][4];
    last_layer<NET, ROWS>(net, h2, out);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        float low[Role<NET>::outputs], high[Role<NET>::outputs];
        gather_outputs<NET>(out[r], low, high);
        if (shares_loss<NET>()) {
            shared_loss<NET>(stage, first, r * 16 + lane / 4, rows_left, low, high, k, one, sums,
                             packed[r]);
            continue;
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int row = r * 16 + lane / 4 + 8 * half;
            const uint4* rest = stage.rest + (first + row) * (1 + RAW_UNITS);
            uint4 words = *rest;
            Row stored = {words.x, __uint_as_float(words.y), __uint_as_float(words.z),
                          __uint_as_float(words.w)};
            float dz[Role<NET>::outputs];
            bool counts = row < rows_left;
            row_loss<NET>(half ? high : low, stored, (const float*)(rest + 1), k,
                          counts && (lane & 3) == 0 ? one : 0.0f, dz, sums);
            packed[r][half] = own_columns<NET>(dz, counts);
            *(u32*)(stage.out + (first + row) * 8 + 2 * (lane & 3)) = packed[r][half];
        }
    }
}

#if LAYER_NORM
// From derivatives by what normalised numbers became to those by their layer's sums.
__device__ __forceinline__ void back_through_norms(const NetShared& net, Stage& stage, int first, int layer,
                                                   Normed (&normed)[ROWS], NormSums& sums, Hidden (&d)[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        load_hidden(normed[r].unit, stage.d(layer) + (first + 16 * r) * LDM);
        back_through_norm(net, layer, normed[r], sums, d[r]);
    }
}
#endif

// A tile of network number `number`, of which the first `rows_left` of this warp's rows count: from the inputs in the
// stage to the gradients of the weights, which are added to `own`, and to those of layer norm, which are added to `norms`.
// A row adds `one` times its loss to `sums`. `meanwhile` is called where most products are waited for.
template <class Meanwhile>
__device__ __forceinline__ void add_tile(int number, const NetShared& net, Stage& stage, int warp, int rows_left,
                                         const Coefficients& k, float one, LossSums& sums,
                                         OwnTiles& own, NormSums& norms, Meanwhile meanwhile) {
    int first = warp * WARP_ROWS, group = GROUPS == 1 ? 0 : number;
    u32 x[ROWS][KX / 16][4], packed[ROWS][2];
    Hidden h1[ROWS], h2[ROWS], d2[ROWS], d1[ROWS];
    Normed normed[2][ROWS];
    load_inputs<ROWS>(x, stage.x + first * X_ROW, X_ROW, X_UNIT);
    first_layer<ROWS>(net, x, h1, normed[0]);
    stage_hidden(stage.h(1) + first * LDM, h1);
#if LAYER_NORM
    stage_normed(stage, first, 1, normed[0]);
#endif
#if FOUR_WARPS
    second_layer_together(net, h1[0], h2[0], normed[1][0], stage.h(2) + first * LDM);
#else
    second_layer<ROWS>(net, h1, h2, normed[1]);
    stage_hidden(stage.h(2) + first * LDM, h2);
#endif
#if LAYER_NORM
    stage_normed(stage, first, 2, normed[1]);
#endif
    if (number == 0)
        rows_loss<0>(net, stage, first, rows_left, h2, k, one, sums, packed);
    else
        rows_loss<N_NETS - 1>(net, stage, first, rows_left, h2, k, one, sums, packed);
    back_to_second(net, packed, h2, d2);
#if LAYER_NORM
    back_through_norms(net, stage, first, 2, normed[1], norms, d2);
#endif
    stage_hidden(stage.d(2) + first * LDM, d2);
    if (FOUR_WARPS && (BLOCKS > 1 || HID > 64 || LAYER_NORM)) load_hidden(h1[0], stage.h(1) + first * LDM);
#if FOUR_WARPS
    back_to_first_together(net, d2[0], h1[0], d1[0], TIGHT || LAYER_NORM ? nullptr : stage.d(1) + first * LDM);
#else
    back_to_first(net, d2, h1, d1);
    if (!TIGHT && !LAYER_NORM) stage_hidden(stage.d(1) + first * LDM, d1);
#endif
#if LAYER_NORM
    back_through_norms(net, stage, first, 1, normed[0], norms, d1);
    stage_hidden(stage.d(1) + first * LDM, d1);
#endif
#if TIGHT
    publish();
    group_wait(group);
    add_wide(stage, warp, own);
    meanwhile();
    add_small(stage, warp, own, true);
    wide_is_added(own);
    group_wait(group);
    stage_hidden(stage.d(1) + first * LDM, d1);
#else
    publish();
#endif
    group_wait(group);
#if SMALL_TOGETHER
    add_gradients(stage, warp, own, meanwhile);
#else
    if (!TIGHT) {
        add_wide(stage, warp, own);
        meanwhile();
    }
    add_small(stage, warp, own, false);
    if (!TIGHT) wide_is_added(own);
#endif
}

#if LAYER_NORM
// Puts the gradients of gains and shifts where a block's threads own them: sums of all its warps, by way of `place`.
__device__ __forceinline__ void add_norms(int net, float* place, int warp, const NormSums& norms, OwnTiles& own) {
    // The products of the last tile read what lies there.
    group_wait();
    norms.write(place + warp * NORM_FLOATS);
    group_wait();
#pragma unroll
    for (int i = 0; i < 4 * SMALL_TILES; ++i) {
        int at = own_parameter(net, warp, threadIdx.x & 31, WIDE_TILES + i / 4, i % 4) - AT_NORMS;
        if ((u32)at >= (u32)NORM_FLOATS) continue;
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < 8; ++w) sum += place[w * NORM_FLOATS + at];
        own[WIDE_TILES + i / 4][i % 4] = sum;
    }
}
#endif
