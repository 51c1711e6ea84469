// Gradients of eight tiles of weights, a tile to each warp of a block, or of four, a tile to two warps: where runs share the
// GPU, each has many tiles for few blocks. While rows come in and are multiplied, so do the parameters and moments of a
// warp's first 16 outputs (eight_steps.cu).

// Groups of 16 rows, two of a slab at a time if there are, in an order in which a warp adds what eight warps add
// elsewhere.
struct Walk {
    // All slabs have as many groups.
    int n_groups, n_slabs;
    // Whose part it is elsewhere, the slab and the first group.
    int part, slab, group;
    __device__ inline bool more() const { return part < N_WARPS && part < n_groups; }
    __device__ inline bool has_two() const { return group + N_WARPS < n_groups; }
    __device__ inline void next() {
        group += 2 * N_WARPS;
        if (group < n_groups) return;
        if (++slab == n_slabs) {
            slab = 0;
            ++part;
        }
        group = part;
    }
};

#define STAGES 3
// Numbers of a row in a stage: 128 of one kind and 64 of the other at most, and some that keep rows out of each other's
// banks. Rows begin at multiples of 32 bytes, or else half of them would cross the boundaries of what comes at a time, and
// come twice from the second-level cache; so every other four of 16 rows have the halves of such 32 bytes swapped.
#define STAGE_PADDING 16
#define STAGE_STRIDE (128 + 64 + STAGE_PADDING)
#define STAGES_BYTES (STAGES * 2 * ROWS_AT_ONCE * STAGE_STRIDE * 2)

// Whether a row has its halves of 32 bytes swapped.
__device__ inline unsigned int swapped(unsigned int row) { return row / 4 % 2; }

// What a thread brings into shared memory of each group: 8 numbers of derivatives or inputs, and the 8 behind 128.
struct Rows {
    const char* from[2];
    // Bytes from group to group.
    unsigned int step[2];
    bool has[2];

    __device__ inline Rows(const Slab& slab, int n_d, int n_x) {
        int row = threadIdx.x / 16;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int at = threadIdx.x % 16 * 8 + 128 * i;
            has[i] = at < n_d + n_x;
            from[i] = (const char*)(at < n_d ? slab.d + row * slab.n + at : slab.x + row * slab.k + at - n_d);
            step[i] = 16 * sizeof(Kept) * (at < n_d ? slab.n : slab.k);
        }
    }
    __device__ inline void fetch(unsigned int to, int group) const {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (!has[i]) continue;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 256 * i),
                         "l"(from[i] + (unsigned long long)(unsigned int)group * step[i])
                         : "memory");
        }
    }
};

// Sums of 16 outputs by 32 inputs: product j is that of inputs 8 j to 8 j + 7. A lane has the biases of two outputs.
struct HalfSums {
    float products[4][4];
    float biases[2];
};

// A warp's sums: of the first 16 outputs of its tile and of the others, or of one of these halves.
struct TileSums {
    HalfSums first, last;
};

__device__ inline void load_turned(unsigned int (&to)[4], unsigned int row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// Adds products of 16 rows.
__device__ inline void add_outputs(HalfSums& sums, const unsigned int (&outputs)[4], const unsigned int (&inputs)[2][4],
                                   bool with_bias) {
    if (with_bias) {
        float biases[4] = {sums.biases[0], 0.0f, sums.biases[1], 0.0f};
        multiply_add<true>(biases, outputs, 0x3f803f80u, 0x3f803f80u);
        sums.biases[0] = biases[0];
        sums.biases[1] = biases[2];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        multiply_add<true>(sums.products[j], outputs, inputs[j / 2][j % 2 * 2], inputs[j / 2][j % 2 * 2 + 1]);
    }
}

// The same of outputs in shared memory, where a lane is told where its part begins.
__device__ inline void add_half(HalfSums& sums, unsigned int d, const unsigned int (&inputs)[2][4], bool with_bias) {
    unsigned int outputs[4];
    load_turned(outputs, d);
    add_outputs(sums, outputs, inputs, with_bias);
}

// The same of a warp's one or two halves of a tile.
__device__ inline void add_tile(TileSums& sums, unsigned int d, unsigned int x, int halves, bool with_bias) {
    unsigned int inputs[2][4];
    load_turned(inputs[0], x);
    load_turned(inputs[1], x + 32);
    add_half(sums.first, d, inputs, with_bias);
    if (halves == 2) add_half(sums.last, d + 32, inputs, with_bias);
}

__device__ inline void add_half_sums(HalfSums& to, const HalfSums& from, bool with_bias) {
#pragma unroll
    for (int i = 0; i < 16; ++i) to.products[i / 4][i % 4] += from.products[i / 4][i % 4];
    if (!with_bias) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) to.biases[i] += from.biases[i];
}

__device__ inline void add_sums(TileSums& to, const TileSums& from, int halves, bool with_bias) {
    add_half_sums(to.first, from.first, with_bias);
    if (halves == 2) add_half_sums(to.last, from.last, with_bias);
}

// What is the same for all warps: tiles of outputs by tiles of inputs that a block takes at a time, and how many halves
// of a tile each warp has.
struct TileGroup {
    int high, wide, halves;
};

// Sums of the gradients of a warp's tile, or of the half of it from output `first` on, over all rows, which come into
// shared memory for all warps; calls begun() when most of the first of them are on their way.
template <int N, class Begun>
__device__ inline TileSums sums_of_tile(const WeightTile& tile, const TileGroup& group, int first,
                                        const Slab (&slabs)[N], int n_slabs, bool has_bias, bool has_tile, Begun begun) {
    int own = threadIdx.x / 32 * group.halves / 2;
    int down = own / group.wide, across = own % group.wide;
    // Tiles at an end have fewer beside them.
    int outputs = tile.outputs + down * 32, inputs = tile.inputs + across * 32;
    int n_d = 32 * group.high < outputs ? 32 * group.high : (outputs + 31) / 32 * 32;
    int n_x = 32 * group.wide < inputs ? 32 * group.wide : inputs > 0 ? (inputs + 31) / 32 * 32 : 32;
    unsigned int row_bytes = 2 * (n_d + n_x + STAGE_PADDING), group_bytes = ROWS_AT_ONCE * row_bytes, stage_bytes = 2 * group_bytes;
    unsigned int stages = shared_address(shared), end = stages + STAGES * stage_bytes;
    unsigned int to = stages + threadIdx.x / 16 * row_bytes + (threadIdx.x % 16 ^ swapped(threadIdx.x / 16)) * 16;
    int matrix = threadIdx.x % 32 / 8, row = threadIdx.x % 8;
    unsigned int d = (row + matrix / 2 * 8) * row_bytes + 2 * (down * 32 + first) + (matrix % 2 ^ swapped(row)) * 16;
    unsigned int x = (row + matrix % 2 * 8) * row_bytes + 2 * (n_d + across * 32) + (matrix / 2 ^ swapped(row)) * 16;
    Walk now = {slabs[0].rows / ROWS_AT_ONCE, N == 1 ? 1 : n_slabs, 0, 0, 0}, ahead = now;
    Rows rows(slabs[0], n_d, n_x);
    auto fetch = [&]() {
        if (ahead.more()) {
            rows.fetch(to, ahead.group);
            if (ahead.has_two()) rows.fetch(to + group_bytes, ahead.group + N_WARPS);
            int before = ahead.slab;
            ahead.next();
            if (N > 1 && ahead.slab != before) rows = Rows(slabs[ahead.slab], n_d, n_x);
            to += stage_bytes;
            if (to >= end) to -= STAGES * stage_bytes;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        // What begun() brings must come before the last of these rows are needed, and so before the walk ends.
        if (stage == STAGES - 2) begun();
        fetch();
    }
    TileSums sums = {}, part = {};
    unsigned int stage = stages;
    auto add_stage = [&](TileSums& to) {
        add_tile(to, stage + d, stage + x, group.halves, has_bias);
        if (now.has_two()) add_tile(to, stage + group_bytes + d, stage + group_bytes + x, group.halves, has_bias);
    };
    // Few rows are a part of their own in each stage, so that no sums need be set to 0.
    bool few = now.n_slabs == 1 && now.n_groups <= 2 * N_WARPS;
    while (now.more()) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        fetch();
        if (few && has_tile) {
            TileSums all = {};
            add_stage(all);
            add_sums(sums, all, group.halves, has_bias);
        } else if (has_tile) {
            add_stage(part);
        }
        stage = stage + stage_bytes < end ? stage + stage_bytes : stages;
        int before = now.part;
        now.next();
        if (!few && now.part != before) {
            add_sums(sums, part, group.halves, has_bias);
            part = TileSums{};
        }
    }
    // Stages are taken by the next rows.
    __syncthreads();
    return sums;
}
