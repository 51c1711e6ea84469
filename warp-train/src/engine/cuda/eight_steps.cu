// Steps along the gradients of eight tiles of weights (eight_tiles.cu), and the new weights packed.

// Parameters, both moments and targets pass through shared memory, since sums occupy the registers until they are
// needed: half a tile at a time, in parts of 16 outputs by 8 inputs. A lane copies what it needs itself and waits for
// nobody.
#define HALF_PARTS 4
// Of four numbers: from part to part, and from half to half.
#define PART_FOURS 32
#define HALF_FOURS (HALF_PARTS * PART_FOURS)
#define CELLS_BYTES (N_WARPS * CELL_ARRAYS * HALF_FOURS * 16)
// Behind them are the biases of each warp's tile. In registers they would be spilled as soon as they are asked for, and a warp
// that spills waits for them.
#define BIASES_OF_TILE 32
static_assert(STAGES_BYTES + CELLS_BYTES + N_WARPS * CELL_ARRAYS * BIASES_OF_TILE * 4 == GROUP_BYTES, "what the host gives a block");

// Nothing of it is needed again before the next update.
__device__ inline unsigned long long evict_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// The cells of a lane: in each part two neighbouring inputs of an output, and of the one 8 behind it.
struct Cells {
    // Their first four numbers: parameters, both moments, and targets, if there are.
    float4* of[CELL_ARRAYS];
    int arrays;
    // Their place in shared memory, and that of the tile's biases.
    float4* here;
    float* biases;
    // How many outputs there are from its first one on, and inputs: what is padding stays where it is.
    int outputs, inputs;

    // Of `half` of a warp's tile.
    __device__ inline Cells(const WeightTile& tile, int half, const Descent& take) {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        long long first = tile.weight + 4 * (half * HALF_FOURS + lane);
        of[0] = (float4*)(take.parameters + first);
        of[1] = (float4*)(take.first + first);
        of[2] = (float4*)(take.second + first);
        of[3] = (float4*)(take.parameters + first + take.behind);
        arrays = take.behind != 0 ? 4 : 3;
        here = (float4*)(shared + STAGES_BYTES / 4) + warp * CELL_ARRAYS * HALF_FOURS + lane;
        biases = shared + (STAGES_BYTES + CELLS_BYTES) / 4 + warp * CELL_ARRAYS * BIASES_OF_TILE;
        outputs = tile.outputs - 16 * half - lane / 4;
        inputs = tile.inputs - lane % 4 * 2;
    }
    __device__ inline bool has(int part) const { return outputs > 0 && inputs > 8 * part; }
    __device__ inline float4* place(int array, int part) const { return here + array * HALF_FOURS + part * PART_FOURS; }

    // Starts to bring a part, or that of the next half.
    __device__ inline void fetch(int part, bool next) const {
        if (!has(part) || (next && outputs <= 16)) return;
        unsigned long long policy = evict_first();
#pragma unroll
        for (int array = 0; array < CELL_ARRAYS; ++array) {
            if (array >= arrays) break;
            asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                             shared_address(place(array, part))),
                         "l"(of[array] + (next ? HALF_FOURS : 0) + part * PART_FOURS), "l"(policy)
                         : "memory");
        }
    }
    __device__ inline void fetch_half() const {
#pragma unroll
        for (int part = 0; part < HALF_PARTS; ++part) fetch(part, false);
    }
    // Starts to bring all biases of the tile, one by each lane.
    __device__ inline void fetch_biases(const WeightTile& tile, const Descent& take) const {
        int lane = threadIdx.x % 32;
        if (tile.bias < 0 || lane >= tile.outputs) return;
        const float* first = take.parameters + tile.bias + lane;
        const float* from[CELL_ARRAYS] = {first, take.first + tile.bias + lane, take.second + tile.bias + lane, first + take.behind};
#pragma unroll
        for (int array = 0; array < CELL_ARRAYS; ++array) {
            if (array < arrays) bring_word(biases + array * BIASES_OF_TILE + lane, from[array]);
        }
    }
    __device__ inline Cell<float> bias(int output) const {
        auto of = [&](int array) { return biases[array * BIASES_OF_TILE + output]; };
        return {of(0), of(1), of(2), of(3)};
    }
    // Goes on to the next half.
    __device__ inline void next() {
#pragma unroll
        for (int array = 0; array < CELL_ARRAYS; ++array) of[array] += HALF_FOURS;
        outputs -= 16;
    }
};

// Turns 8 by 8 numbers in half precision, two neighbours of a row in each lane.
__device__ inline unsigned int turned_matrix(unsigned int two) {
    unsigned int to;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(two));
    return to;
}

// Packs 16 outputs by 32 inputs: two neighbouring inputs 8 apart, of an output and of the one 8 behind it; but no padding.
template <bool BACK>
__device__ inline void pack_half(const float (&two)[4][2][2], const WeightTile& tile, int half, Half* packed) {
    int lane = threadIdx.x % 32;
    // In the backward pass a lane gets two outputs of each input.
    bool has_output = tile.outputs > 16 * half + (BACK ? lane % 4 * 2 : lane / 4);
#pragma unroll
    for (int quarter = 0; quarter < 2; ++quarter) {
        if (tile.inputs <= 16 * quarter) break;
        unsigned int words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            // In the backward pass inputs are columns and outputs are terms.
            int j = 2 * quarter + (BACK ? i / 2 : i % 2), output = BACK ? i % 2 : i / 2;
            words[i] = two_halves<BACK>(two[j][output][0], two[j][output][1]);
            if (BACK) words[i] = turned_matrix(words[i]);
        }
        int place = BACK ? 2 * half + quarter : 2 * quarter + half;
        uint4 four = make_uint4(words[0], words[1], words[2], words[3]);
        if (has_output) store_packed((uint4*)packed + 32 * place + lane, four);
    }
}

// Makes the step of half a tile, and brings that of the next in its place if there is one. Padding has zeros everywhere
// and stays so.
__device__ inline void step_half(const WeightTile& tile, int half, const Cells& cells, bool more, const HalfSums& sums,
                                 const Descent& take) {
    float parameters[4][2][2] = {}, targets[4][2][2] = {};
#pragma unroll
    for (int j = 0; j < HALF_PARTS; ++j) {
        // Each part has a group of copies, be it empty; this one's is older than the last three.
        asm volatile("cp.async.wait_group %0;" ::"n"(HALF_PARTS - 1) : "memory");
        if (!cells.has(j)) {
            asm volatile("cp.async.commit_group;" ::: "memory");
            continue;
        }
        float4 p = *cells.place(0, j), first = *cells.place(1, j), second = *cells.place(2, j), t = {};
        if (cells.arrays == 4) t = *cells.place(3, j);
        if (more) cells.fetch(j, true);
        asm volatile("cp.async.commit_group;" ::: "memory");
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
        __stcs(cells.of[0] + j * PART_FOURS, both(cell[0].parameter, cell[1].parameter));
        __stcs(cells.of[1] + j * PART_FOURS, both(cell[0].first, cell[1].first));
        __stcs(cells.of[2] + j * PART_FOURS, both(cell[0].second, cell[1].second));
        if (cells.arrays == 4) __stcs(cells.of[3] + j * PART_FOURS, both(cell[0].target, cell[1].target));
    }
    __syncwarp();
    pack_half<false>(parameters, tile, half, tile.forward);
    pack_half<true>(parameters, tile, half, tile.back);
    if (take.behind == 0) return;
    // Every parameter is packed twice.
    pack_half<false>(targets, tile, half, tile.forward + 2 * take.behind);
    if (take.back_of_target) pack_half<true>(targets, tile, half, tile.back + 2 * take.behind);
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
    Cells cells(tile, half, take);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    // Every lane has brought a bias.
    __syncwarp();
#pragma unroll 1
    for (int last = tile.outputs > 16 ? half + halves - 1 : half;; ++half) {
        step_half(tile, half, cells, half < last, sums.first, take);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int output = 16 * half + lane / 4 + 8 * i;
            if (tile.bias < 0 || lane % 4 != 0 || output >= tile.outputs) continue;
            take.bias(cells.bias(output), tile.bias + output, sums.first.biases[i]);
        }
        if (half == last) return;
        sums.first = sums.last;
        cells.next();
    }
}

// Sums of the gradients of a first layer's tile, or of a half of it, of parts over so many tiles of rows.
__device__ inline TileSums sums_of_first(const FirstParts& parts, int tiles, int half, int halves) {
    TileSums sums = {};
    auto put = [](HalfSums& to, const FirstSums& from) {
#pragma unroll
        for (int i = 0; i < 4; ++i) to.products[0][i] = from.weights[i];
#pragma unroll
        for (int i = 0; i < 2; ++i) to.biases[i] = from.biases[i];
    };
    put(sums.first, parts.sum(tiles, half));
    if (halves == 2) put(sums.last, parts.sum(tiles, 1));
    return sums;
}

// `tile` is the warp's own one, or that of two warps, of a group, if they have one; slabs begin with the group's first.
template <int N>
__device__ inline void step_tiles(const WeightTile& tile, const TileGroup& group, const Slab (&slabs)[N], int n_slabs,
                                  const Recomputed& recomputed, const FirstParts& parts, const Descent& take) {
    int warp = threadIdx.x / 32, halves = group.halves, half = halves == 2 ? 0 : warp % 2;
    bool there = tile.outputs > 16 * half, has_bias = there && tile.bias >= 0;
    bool has_tile = has_bias || (there && tile.inputs > 0);
    if (threadIdx.x % 32 == 0) steps[warp] = {tile, take};
    auto begun = [&]() {
        if (!has_tile) return;
        Cells cells(tile, half, take);
        cells.fetch_half();
        cells.fetch_biases(tile, take);
    };
    TileSums sums;
    if (parts.first) {
        begun();
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (has_tile) sums = sums_of_first(parts, slabs[0].rows / TILE_ROWS, half, halves);
        __syncwarp();
    } else if (recomputed.d) {
        sums = sums_of_recomputed(slabs[0], recomputed, has_bias, begun);
    } else {
        sums = sums_of_tile(tile, group, 16 * half, slabs, n_slabs, has_bias, has_tile, begun);
    }
    if (!has_tile) return;
    const Step step = steps[warp];
    step_tile(step.tile, half, halves, sums, step.take);
    // The next tile's biases come to where these are.
    __syncwarp();
}
