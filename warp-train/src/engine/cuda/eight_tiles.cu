// Gradients of eight tiles of weights and the steps along them, a tile to each warp of a block, or of four, a tile to two
// warps: where runs share the GPU, each has many tiles for few blocks. While rows come in and are multiplied, so do the
// parameters and moments of a warp's first 16 outputs.

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

#define STAGES 5
// Numbers of a row in a stage at most: 128 of one kind, 64 of the other, and some that keep rows out of each other's
// banks.
#define STAGE_STRIDE 200
#define STAGES_BYTES (STAGES * 2 * ROWS_AT_ONCE * STAGE_STRIDE * 2)

// What a thread brings into shared memory of each group: 8 numbers of derivatives or inputs, and the 8 behind 128.
struct Rows {
    const Half* from[2];
    // From group to group.
    unsigned int step[2];
    bool has[2];

    __device__ inline Rows(const Slab& slab, int n_d, int n_x) {
        int row = threadIdx.x / 16;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int at = threadIdx.x % 16 * 8 + 128 * i;
            has[i] = at < n_d + n_x;
            from[i] = at < n_d ? slab.d + row * slab.n + at : slab.x + row * slab.k + at - n_d;
            step[i] = 16 * (at < n_d ? slab.n : slab.k);
        }
    }
    __device__ inline void fetch(unsigned int to, int group) const {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (!has[i]) continue;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 256 * i),
                         "l"(from[i] + (unsigned int)group * step[i])
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

// Adds products of 16 rows: their outputs lie in shared memory, where a lane is told where its part begins.
__device__ inline void add_half(HalfSums& sums, unsigned int d, const unsigned int (&inputs)[2][4], bool with_bias) {
    unsigned int outputs[4];
    load_turned(outputs, d);
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

// The same of a warp's one or two halves of a tile.
__device__ inline void add_tile(TileSums& sums, unsigned int d, unsigned int x, int halves, bool with_bias) {
    unsigned int inputs[2][4];
    load_turned(inputs[0], x);
    load_turned(inputs[1], x + 32);
    add_half(sums.first, d, inputs, with_bias);
    if (halves == 2) add_half(sums.last, d + 32, inputs, with_bias);
}

__device__ inline void add_half_sums(HalfSums& to, const HalfSums& from) {
#pragma unroll
    for (int i = 0; i < 16; ++i) to.products[i / 4][i % 4] += from.products[i / 4][i % 4];
#pragma unroll
    for (int i = 0; i < 2; ++i) to.biases[i] += from.biases[i];
}

// Parameters, both moments and targets pass through shared memory, since sums occupy the registers until they are
// needed: a few parts at a time, 16 outputs by 8 inputs each. A lane copies what it needs itself and waits for nobody.
#define CELL_ARRAYS 4
#define CELL_PARTS 3
#define PARTS_OF_HALF 4
#define PART_FLOATS (16 * 8)
#define HALF_FLOATS (PARTS_OF_HALF * PART_FLOATS)
static_assert(STAGES_BYTES + N_WARPS * CELL_PARTS * CELL_ARRAYS * PART_FLOATS * 4 == GROUP_BYTES, "what the host gives a block");

// Nothing of it is needed again before the next update.
__device__ inline unsigned long long evict_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// A lane's numbers of a part: two neighbouring inputs of an output, and of the one 8 behind it, of each array.
struct CellPart {
    float4 of[CELL_ARRAYS];
};

// The parts of a warp's tile, on their way.
struct Cells {
    // The lane's first number among all, how many parts of a half have inputs, and the parts of all halves.
    long long first;
    int eights, n;
    // The next part, and its place in shared memory.
    int part = 0, slot = 0;

    __device__ inline float4* memory(const Descent& take, int array, int part) const {
        float* from = array == 1 ? take.first : array == 2 ? take.second : take.parameters;
        return (float4*)(from + (array == 3 ? take.behind : 0) + first + part * PART_FLOATS);
    }
    __device__ inline bool has(int part) const { return part < n && part % PARTS_OF_HALF < eights; }
    __device__ inline float4* place(int slot, int array) const {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        return (float4*)(shared + STAGES_BYTES / 4) + ((warp * CELL_PARTS + slot) * CELL_ARRAYS + array) * 32 + lane;
    }

    // Starts to bring a part, if it is there.
    __device__ inline void fetch(const Descent& take, int part, int slot) const {
        if (!has(part)) return;
        unsigned long long policy = evict_first();
#pragma unroll
        for (int array = 0; array < CELL_ARRAYS; ++array) {
            if (array == 3 && take.behind == 0) break;
            asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                             shared_address(place(slot, array))),
                         "l"(memory(take, array, part)), "l"(policy)
                         : "memory");
        }
    }
    __device__ inline void fetch_first(const Descent& take) const {
#pragma unroll
        for (int part = 0; part < CELL_PARTS; ++part) fetch(take, part, part);
    }

    // Takes the next part and starts to bring one into its place. All that fetch_first() asked for has come before.
    __device__ inline CellPart next(const Descent& take) {
        CellPart cells = {};
        asm volatile("cp.async.wait_group %0;" ::"n"(CELL_PARTS - 1) : "memory");
        if (has(part)) {
#pragma unroll
            for (int array = 0; array < CELL_ARRAYS; ++array) {
                if (array < 3 || take.behind != 0) cells.of[array] = *place(slot, array);
            }
        }
        fetch(take, part + CELL_PARTS, slot);
        asm volatile("cp.async.commit_group;" ::: "memory");
        ++part;
        slot = slot + 1 < CELL_PARTS ? slot + 1 : 0;
        return cells;
    }

    // Sends back what was taken last.
    __device__ inline void store(const Descent& take, const CellPart& cells) const {
#pragma unroll
        for (int array = 0; array < CELL_ARRAYS; ++array) {
            if (array < 3 || take.behind != 0) __stcs(memory(take, array, part - 1), cells.of[array]);
        }
    }
};

// Those of a warp's tile from output 16 `half` on, of so many halves.
__device__ inline Cells cells_of(const WeightTile& tile, int half, int halves) {
    int there = tile.outputs > 16 * (half + 1) ? halves : 1;
    return {tile.weight + half * HALF_FLOATS + threadIdx.x % 32 * 4, (high_of(low_of(tile.inputs)) + 7) / 8,
            PARTS_OF_HALF * there};
}

// Turns 8 by 8 numbers in half precision, two neighbours of a row in each lane.
__device__ inline unsigned int turned_matrix(unsigned int two) {
    unsigned int to;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(two));
    return to;
}

// Packs 16 outputs by 32 inputs: two neighbouring inputs 8 apart, of an output and of the one 8 behind it.
template <bool BACK>
__device__ inline void pack_half(const float (&two)[4][2][2], int half, Half* packed) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int quarter = 0; quarter < 2; ++quarter) {
        unsigned int words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            // In the backward pass inputs are columns and outputs are terms.
            int j = 2 * quarter + (BACK ? i / 2 : i % 2), output = BACK ? i % 2 : i / 2;
            words[i] = two_halves<BACK>(two[j][output][0], two[j][output][1]);
            if (BACK) words[i] = turned_matrix(words[i]);
        }
        int place = BACK ? 2 * half + quarter : 2 * quarter + half;
        ((uint4*)packed)[32 * place + lane] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

__device__ inline float4 both(const float2& a, const float2& b) { return make_float4(a.x, a.y, b.x, b.y); }

// Makes the step of half a tile. Padding has zeros everywhere and stays so.
__device__ inline void step_half(const WeightTile& tile, int half, Cells& cells, const HalfSums& sums,
                                 const Descent& take) {
    float parameters[4][2][2] = {}, targets[4][2][2] = {};
#pragma unroll
    for (int j = 0; j < PARTS_OF_HALF; ++j) {
        CellPart part = cells.next(take);
        if (j >= cells.eights) continue;
        const float4 &p = part.of[0], &first = part.of[1], &second = part.of[2], &t = part.of[3];
        Cell<float2> cell[2] = {{{p.x, p.y}, {first.x, first.y}, {second.x, second.y}, {t.x, t.y}},
                                {{p.z, p.w}, {first.z, first.w}, {second.z, second.w}, {t.z, t.w}}};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float g[2] = {sums.products[j][2 * i], sums.products[j][2 * i + 1]};
            take.move(cell[i], g, 2);
            parameters[j][i][0] = cell[i].parameter.x;
            parameters[j][i][1] = cell[i].parameter.y;
            targets[j][i][0] = cell[i].target.x;
            targets[j][i][1] = cell[i].target.y;
        }
        cells.store(take, {both(cell[0].parameter, cell[1].parameter), both(cell[0].first, cell[1].first),
                           both(cell[0].second, cell[1].second), both(cell[0].target, cell[1].target)});
    }
    pack_half<false>(parameters, half, tile.forward);
    pack_half<true>(parameters, half, tile.back);
    if (take.behind == 0) return;
    // Every parameter is packed twice.
    pack_half<false>(targets, half, tile.forward + 2 * take.behind);
    if (take.back_of_target) pack_half<true>(targets, half, tile.back + 2 * take.behind);
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
    unsigned int row_bytes = 2 * (n_d + n_x + 8), group_bytes = ROWS_AT_ONCE * row_bytes, stage_bytes = 2 * group_bytes;
    unsigned int stages = shared_address(shared), end = stages + STAGES * stage_bytes;
    unsigned int to = stages + threadIdx.x / 16 * row_bytes + threadIdx.x % 16 * 16;
    int matrix = threadIdx.x % 32 / 8, row = threadIdx.x % 8;
    unsigned int d = (row + matrix / 2 * 8) * row_bytes + 2 * (down * 32 + first + matrix % 2 * 8);
    unsigned int x = (row + matrix % 2 * 8) * row_bytes + 2 * (n_d + across * 32 + matrix / 2 * 8);
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
    for (unsigned int stage = stages; now.more();) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        fetch();
        if (has_tile) {
            add_tile(part, stage + d, stage + x, group.halves, has_bias);
            if (now.has_two()) add_tile(part, stage + group_bytes + d, stage + group_bytes + x, group.halves, has_bias);
        }
        stage = stage + stage_bytes < end ? stage + stage_bytes : stages;
        int before = now.part;
        now.next();
        if (now.part != before) {
            add_half_sums(sums.first, part.first);
            add_half_sums(sums.last, part.last);
            part = TileSums{};
        }
    }
    // Stages are taken by the next rows.
    __syncthreads();
    return sums;
}

// What a warp's step needs lies in shared memory while sums take all registers.
struct Step {
    WeightTile tile;
    Descent take;
};
__shared__ Step steps[N_WARPS];

// Makes the step of a warp's tile from output 16 `half` on.
__device__ inline void step_tile(const WeightTile& tile, int half, int halves, TileSums& sums, const Descent& take) {
    int lane = threadIdx.x % 32;
    Cells cells = cells_of(tile, half, halves);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#pragma unroll 1
    for (int last = half + halves - 1;; ++half) {
        int output = 16 * half + lane / 4;
        Cell<float> biases[2];
        auto has = [&](int i) { return tile.bias >= 0 && lane % 4 == 0 && output + 8 * i < tile.outputs; };
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (has(i)) biases[i] = take.load_bias(tile.bias + output + 8 * i);
        }
        step_half(tile, half, cells, sums.first, take);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (has(i)) take.bias(biases[i], tile.bias + output + 8 * i, sums.first.biases[i]);
        }
        if (half == last || tile.outputs <= 16) return;
        sums.first = sums.last;
    }
}

// `tile` is the warp's own one, or that of two warps, of a group, if they have one; slabs begin with the group's first.
template <int N>
__device__ inline void step_tiles(const WeightTile& tile, const TileGroup& group, const Slab (&slabs)[N], int n_slabs,
                                  const Descent& take) {
    int warp = threadIdx.x / 32, halves = group.halves, half = halves == 2 ? 0 : warp % 2;
    bool there = tile.outputs > 16 * half, has_bias = there && tile.bias >= 0;
    bool has_tile = has_bias || (there && tile.inputs > 0);
    if (threadIdx.x % 32 == 0) steps[warp] = {tile, take};
    TileSums sums = sums_of_tile(tile, group, 16 * half, slabs, n_slabs, has_bias, has_tile, [&]() {
        if (has_tile) cells_of(tile, half, halves).fetch_first(take);
    });
    if (!has_tile) return;
    const Step step = steps[warp];
    step_tile(step.tile, half, halves, sums, step.take);
}
