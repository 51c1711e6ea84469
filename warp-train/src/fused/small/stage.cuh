// What a tile of rows leaves for the gradients of the weights, and which of a block's threads owns which of them.
//
// A tile takes four buffers, or, with TIGHT, three of which one is used twice: first for the derivatives at the second
// layer, then for those at the first.
//
// Needs, beside loss.cuh's: ROWS (16 rows of a warp: 1 or 2), LEAN, LOG_STD_FREE.
#pragma once
#include "loss.cuh"
#include "four_warps.cuh"

#define WARP_ROWS (16 * ROWS)
#define TILE_ROWS (8 * WARP_ROWS)
#define GROUP_THREADS 256
// Groups of a block, which come first among its threads.
#ifndef GROUPS
#define GROUPS 1
#endif
// Whether each network of a run has a block to itself.
#ifndef SPREAD
#define SPREAD 0
#endif
// Whether several networks share a multiprocessor's memory and registers.
#define TIGHT (LEAN && !SPREAD)

// Stored rows, in units of 16 bytes: the observation as halves and a one, a Row, raw actions.
#define X_UNITS (X_HALVES / 8)
#define RAW_UNITS (CONTINUOUS ? (ACTION_WORDS + 3) / 4 : 0)
#define RECORD_UNITS (X_UNITS + 1 + RAW_UNITS)

// Whether four warps make the small products together, too. With 64 features that takes longer: a product of few
// columns takes as long as its left operand is read.
#define SMALL_TOGETHER (FOUR_WARPS && HID > 64)
// Tiles of the gradients that a warp owns beside WIDE_TILES of the second layer, each of a small product, of which the
// last is one warp's.
#define X_TILES ((OBS + 1 + 7) / 8)
#define N_JOBS (M_TILES * (X_TILES + 2) + 1)
#define SMALL_TILES (SMALL_TOGETHER ? X_TILES + 3 : (N_JOBS + 7) / 8)
#define OWN_TILES (WIDE_TILES + SMALL_TILES)
// Halves from one row of a tile's inputs to the next, and from one unit of a row to the next.
#define X_ROW (SMALL_TOGETHER ? 8 : LDX)
#define X_UNIT (SMALL_TOGETHER ? 8 * TILE_ROWS : 8)
#define TILE_INPUTS (TILE_ROWS * (SMALL_TOGETHER ? KX : LDX))

typedef float OwnTiles[OWN_TILES][4];
static_assert(!TIGHT || !LAYER_NORM, "with one place for derivatives there is none for normalised numbers");

// What a tile leaves for the gradients of the weights.
struct __align__(MATRIX_BYTES) Stage {
    unsigned short hidden[2][MATRIX_HALVES(TILE_ROWS)];
    unsigned short slopes[TIGHT ? 1 : 2][MATRIX_HALVES(TILE_ROWS)];
    unsigned short x[TILE_INPUTS];
    unsigned short out[TILE_ROWS * 8];
    // Beside the observations, as stored.
    uint4 rest[TILE_ROWS * (1 + RAW_UNITS)];

    // Activations of a layer, and the loss's derivatives by what went into them; before those, normalised numbers.
    __device__ __forceinline__ unsigned short* h(int layer) { return hidden[layer - 1]; }
    __device__ __forceinline__ unsigned short* d(int layer) { return slopes[TIGHT ? 0 : layer - 1]; }
};

// One of the small products: where its operands lie, and what its result is.
struct Job {
    u32 a, b;  // this lane's addresses
    int a_width, b_width;
    bool exists;
    bool early;  // does without the derivatives at the first layer
};

__device__ __forceinline__ Job small_job(Stage& stage, int number) {
    int lane = threadIdx.x & 31, row = (lane & 7) + (lane >> 4) * 8, unit = (lane >> 3) & 1;
    Job job;
    int m = number % M_TILES, kind = number / M_TILES;
    job.exists = number < N_JOBS;
    job.early = kind >= X_TILES;
    bool last = kind >= X_TILES + 2;
    const unsigned short* rows = kind < X_TILES ? stage.d(1) : kind == X_TILES ? stage.d(2) : stage.h(2);
    job.a = last ? shared_address(stage.x + row * X_ROW + (OBS / 16 * 2 + unit) * X_UNIT)
                 : shared_address(rows) + unit_at(row, 2 * m + unit);
    job.a_width = last ? X_ROW : LDM;
    const unsigned short* right =
        kind < X_TILES ? stage.x + kind * X_UNIT : kind == X_TILES ? stage.x + OBS / 8 * X_UNIT : stage.out;
    job.b_width = kind <= X_TILES ? X_ROW : 8;
    job.b = shared_address(right + lane * job.b_width);
    return job;
}

// The number of the small product whose result is a warp's small tile `slot`; N_JOBS for none. See add_gradients().
__device__ __forceinline__ int job_of(int warp, int slot) {
    if (!SMALL_TOGETHER) return warp + 8 * slot;
    if (slot < X_TILES + 2) return slot * M_TILES + warp;
    return warp == 0 ? N_JOBS - 1 : N_JOBS;
}

// Where a wide tile of a warp begins in the second layer's matrix.
struct WidePlace {
    int row, column;
};
__device__ __forceinline__ WidePlace wide_place(int warp, int tile) {
    if (FOUR_WARPS && HID == 64) return {warp % 4 * 16, (warp / 4 * 4 + tile) * 8};
    if (FOUR_WARPS) return {warp * 16, tile * 8};
    int number = warp * WIDE_TILES + tile;
    return {number / N_TILES * 16, number % N_TILES * 8};
}

// Where the elements of a small tile lie in memory, and which of them are parameters: in `columns` of them from
// `first_column` on, around the end, of all rows or, where `row` is not negative, of that one. The columns behind that of
// the second layer's biases are those of gains and shifts, whose gradients come another way (add_norms()).
struct SmallPlaces {
    int first, by_row, by_column;
    int first_column, columns, row;
};

// The same of small tile number `number` in constants alone, which are chosen without a branch: they are asked for
// once per tile, and branches are what takes the compiler long.
__device__ __forceinline__ SmallPlaces small_places(int net, int number) {
    int m = number % M_TILES, kind = number / M_TILES;
    bool w1 = kind < X_TILES, b2 = kind == X_TILES, w3 = kind == X_TILES + 1;
    SmallPlaces places;
    places.first = w1 ? AT_W1 + m * 16 * KX + kind * 8 : b2 ? AT_B2 + m * 16 : w3 ? AT_W3 + m * 16 : AT_B3;
    places.by_row = w1 ? KX : b2 || w3 ? 1 : 0;
    places.by_column = w1 ? 1 : b2 ? (LAYER_NORM ? HID : 0) : w3 ? HID : 1;
    places.first_column = b2 ? OBS % 8 : 0;
    places.columns = w1 ? OBS + 1 - kind * 8 : b2 ? 1 + NORM_ROWS : number < N_JOBS ? outputs_of(net) : 0;
    places.row = w1 || b2 || w3 ? -1 : OBS % 16;
    return places;
}

// The place in memory of element `i` of own tile `tile` of network `net`; negative if it is no parameter.
__device__ __forceinline__ int own_parameter(int net, int warp, int lane, int tile, int i) {
    int row = lane / 4 + 8 * (i >> 1), column = 2 * (lane & 3) + (i & 1);
    if (tile < WIDE_TILES) {
        WidePlace at = wide_place(warp, tile);
        return AT_W2 + (at.row + row) * HID + at.column + column;
    }
    int number = job_of(warp, tile - WIDE_TILES);
    SmallPlaces places = small_places(net, number);
    int along = column - places.first_column;
    if (LAYER_NORM) along &= 7;
    bool exists = (u32)along < (u32)places.columns;
    exists &= (places.row < 0) | (row == places.row);
    // A log-deviation that depends on nothing is a bias without weights.
    if (net == 0 && CONTINUOUS && LOG_STD_FREE)
        exists &= (number / M_TILES != X_TILES + 1) | ((u32)(column - ACTION_WIDTH) >= (u32)ACTION_WIDTH);
    return exists ? places.first + row * places.by_row + (LAYER_NORM ? along : column) * places.by_column : -1;
}

// This thread's place in its group.
__device__ __forceinline__ u32 group_thread() {
    return GROUPS == 1 ? threadIdx.x : threadIdx.x % GROUP_THREADS;
}
__device__ __forceinline__ int group_warp() { return (int)(group_thread() / 32); }

// The barrier of one group, which are numbered from 0, or of this thread's.
__device__ __forceinline__ void group_wait(int group) {
    asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory");
}
__device__ __forceinline__ void group_wait() {
    group_wait(GROUPS == 1 ? 0 : (int)(threadIdx.x / GROUP_THREADS));
}

// Writes 16 rows of a warp into the stage.
__device__ __forceinline__ void stage_hidden(unsigned short* where, const Hidden& h) {
    int lane = threadIdx.x & 31;
    u32 address = shared_address(where) + unit_at(lane & 15, lane >> 4);
#pragma unroll
    for (int p = 0; p < M_TILES; ++p)
        store_4(along_row(address, p * 32), h[2 * p][0], h[2 * p][1], h[2 * p + 1][0], h[2 * p + 1][1]);
}
// The same of all its rows.
__device__ __forceinline__ void stage_hidden(unsigned short* where, const Hidden (&h)[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) stage_hidden(where + r * 16 * LDM, h[r]);
}

// Takes the 16 rows of a warp from the stage.
__device__ __forceinline__ void load_hidden(Hidden& h, const unsigned short* where) {
    int lane = threadIdx.x & 31;
    u32 address = shared_address(where) + unit_at(lane & 15, lane >> 4);
    __syncwarp();
#pragma unroll
    for (int p = 0; p < M_TILES; ++p) {
        u32 four[4];
        load_4(four, along_row(address, p * 32));
        h[2 * p][0] = four[0], h[2 * p][1] = four[1];
        h[2 * p + 1][0] = four[2], h[2 * p + 1][1] = four[3];
    }
}

#if LAYER_NORM
// Leaves normalised numbers where the derivatives by their layer's sums will be.
__device__ __forceinline__ void stage_normed(Stage& stage, int first, int layer, const Normed (&normed)[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) stage_hidden(stage.d(layer) + (first + 16 * r) * LDM, normed[r].unit);
}
#endif

// Units of 16 bytes that a lane loads of its warp's rows.
#define LANE_UNITS ((WARP_ROWS * RECORD_UNITS + 31) / 32)

// Puts rows that were loaded into registers into the stage. Columns beyond the stored ones stay 0.
__device__ __forceinline__ void stage_rows(Stage& stage, int warp, const uint4 (&loaded)[LANE_UNITS]) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < LANE_UNITS; ++i) {
        int unit = lane + 32 * i, part = unit % RECORD_UNITS;
        int row = warp * WARP_ROWS + unit / RECORD_UNITS;
        if (WARP_ROWS * RECORD_UNITS % 32 != 0 && unit >= WARP_ROWS * RECORD_UNITS) break;
        // An address that is chosen, and not a branch.
        uint4* seen = (uint4*)(stage.x + row * X_ROW + part * X_UNIT);
        uint4* rest = stage.rest + row * (1 + RAW_UNITS) + part - X_UNITS;
        *(part < X_UNITS ? seen : rest) = loaded[i];
    }
}
