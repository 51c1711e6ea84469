// Gradients of eight tiles of weights and the steps along them, a tile to each warp of a block: where runs share the
// GPU, each has many tiles for few blocks.

// A group of 16 rows of a slab after the other, in an order in which a warp adds what eight warps add elsewhere.
struct Walk {
    const Slab* slabs;
    int n_slabs;
    // Whose part it is elsewhere, the slab and the group.
    int part, slab, group;
    __device__ inline bool more() const { return part < N_WARPS; }
    __device__ inline void settle() {
        while (part < N_WARPS && group >= slabs[slab].rows / ROWS_AT_ONCE) {
            if (++slab == n_slabs) {
                slab = 0;
                ++part;
            }
            group = part;
        }
    }
    __device__ inline void next() {
        group += N_WARPS;
        settle();
    }
};

#define STAGES 8

// Starts to bring a group's derivatives, `n_d` numbers per row, and its inputs, `n_x` numbers, into shared memory.
__device__ inline void fetch_group(Half* stage, int stride, const Slab& slab, int group, int n_d, int n_x) {
    int row = threadIdx.x / 16;
    const Half* d = slab.d + (long long)(16 * group + row) * slab.n;
    const Half* x = slab.x + (long long)(16 * group + row) * slab.k - n_d;
    for (int at = threadIdx.x % 16 * 8; at < n_d + n_x; at += 128) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(stage + row * stride + at)),
                     "l"((at < n_d ? d : x) + at)
                     : "memory");
    }
}

// A warp's tile in shared memory.
#define TILE_STRIDE 40
#define TILE_NUMBERS (32 * TILE_STRIDE)

// Packs a tile that lies in shared memory, rows of outputs: 32 columns and 32 terms.
template <bool BACK>
__device__ inline void pack_staged(const float* tile, Half* packed) {
    constexpr int OF_COLUMN = BACK ? 1 : TILE_STRIDE, OF_TERM = BACK ? TILE_STRIDE : 1;
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
        unsigned int two[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int column = quarter % 2 * 16 + i / 2 * 8 + lane / 4, term = quarter / 2 * 16 + i % 2 * 8 + lane % 4 * 2;
            const float* from = tile + column * OF_COLUMN + term * OF_TERM;
            two[i] = two_halves<BACK>(from[0], from[OF_TERM]);
        }
        ((uint4*)packed)[32 * quarter + lane] = make_uint4(two[0], two[1], two[2], two[3]);
    }
}

// Moves the four weights of a place along their gradients. Padding has zeros everywhere and stays so.
__device__ inline void step_four(const Descent& take, Cell<float4>& cell, const float4& g) {
    float first[2] = {g.x, g.y}, last[2] = {g.z, g.w};
    Cell<float2> low = {make_float2(cell.parameter.x, cell.parameter.y), make_float2(cell.first.x, cell.first.y),
                        make_float2(cell.second.x, cell.second.y), make_float2(cell.target.x, cell.target.y)};
    Cell<float2> high = {make_float2(cell.parameter.z, cell.parameter.w), make_float2(cell.first.z, cell.first.w),
                         make_float2(cell.second.z, cell.second.w), make_float2(cell.target.z, cell.target.w)};
    take.move(low, first, 2);
    take.move(high, last, 2);
    cell.parameter = make_float4(low.parameter.x, low.parameter.y, high.parameter.x, high.parameter.y);
    cell.first = make_float4(low.first.x, low.first.y, high.first.x, high.first.y);
    cell.second = make_float4(low.second.x, low.second.y, high.second.x, high.second.y);
    cell.target = make_float4(low.target.x, low.target.y, high.target.x, high.target.y);
}

// Makes the step of a warp's tile, whole rows at a time.
__device__ inline void finish_tile(const WeightTile& tile, const WeightSums& sums, const Descent& take) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int output = bias_of(i, lane);
        if (tile.bias < 0 || lane % 4 != 0 || output >= tile.outputs) continue;
        take.bias(take.load_bias(tile.bias + output), tile.bias + output, sums.bias(i));
    }
    float *own = shared + 2 * warp * TILE_NUMBERS, *target = own + TILE_NUMBERS;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        float* to = own + output_of(i / 2, lane, i % 2) * TILE_STRIDE + input_of(i / 2, lane, i % 2);
        *(float2*)to = make_float2(sums.weight(2 * i), sums.weight(2 * i + 1));
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Cell<float4> cells[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int output = 16 * half + 4 * i + lane / 8;
            cells[i] = take.load<float4>(tile.weight + (long long)output * tile.stride + lane % 8 * 4);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int output = 16 * half + 4 * i + lane / 8, place = output * TILE_STRIDE + lane % 8 * 4;
            step_four(take, cells[i], *(const float4*)(own + place));
            take.store(cells[i], tile.weight + (long long)output * tile.stride + lane % 8 * 4);
            *(float4*)(own + place) = cells[i].parameter;
            *(float4*)(target + place) = cells[i].target;
        }
    }
    __syncwarp();
    pack_staged<false>(own, tile.forward);
    pack_staged<true>(own, tile.back);
    if (take.behind == 0) return;
    // Every parameter is packed twice.
    pack_staged<false>(target, tile.forward + 2 * take.behind);
    if (take.back_of_target) pack_staged<true>(target, tile.back + 2 * take.behind);
}

// `tile` is the warp's own among `high` tiles of outputs by `wide` of inputs, if it has one; slabs begin with the
// first of them.
__device__ __noinline__ void eight_tiles(const WeightTile& tile, int high, int wide, const Slab* slabs, int n_slabs,
                                         const Descent& take) {
    int warp = threadIdx.x / 32;
    bool has_bias = tile.outputs > 0 && tile.bias >= 0, has_tile = has_bias || (tile.outputs > 0 && tile.inputs > 0);
    // Tiles at an end have fewer beside them.
    int first_output = tile.outputs + warp / wide * 32, first_input = tile.inputs + warp % wide * 32;
    int n_d = 32 * high < first_output ? 32 * high : (first_output + 31) / 32 * 32;
    int n_x = 32 * wide < first_input ? 32 * wide : first_input > 0 ? (first_input + 31) / 32 * 32 : 32;
    int stride = n_d + n_x + 8;
    Half* stages = (Half*)shared;
    Walk now = {slabs, n_slabs, 0, 0, 0};
    now.settle();
    Walk ahead = now;
    auto fetch = [&](int stage) {
        if (ahead.more()) {
            fetch_group(stages + stage * 16 * stride, stride, slabs[ahead.slab], ahead.group, n_d, n_x);
            ahead.next();
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) fetch(stage);
    WeightSums sums = {}, part = {};
    for (int stage = 0; now.more(); stage = (stage + 1) % STAGES) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        fetch((stage + STAGES - 1) % STAGES);
        int before = now.part;
        if (has_tile) {
            const Half* d = stages + stage * 16 * stride + warp / wide * 32;
            add_staged(part, d, d + n_d + (warp % wide - warp / wide) * 32, stride, has_bias);
        }
        now.next();
        if (now.part != before) {
            add_sums(sums, part);
            part = WeightSums{};
        }
    }
    __syncthreads();
    if (has_tile) finish_tile(tile, sums, take);
    // Its place is taken by the next rows.
    __syncthreads();
}
