// Loss and gradients of a minibatch in two passes. This is the first; what it keeps lies in memory, and the second
// multiplies it into gradients of the weights.

// Puts the observations of 16 samples into the warp's part of shared memory and among what is kept,
// zeros beyond the first `present`; lane r has row r's cell.
__device__ inline void t_fetch_samples(const unsigned char* obs, unsigned int cell, int present,
                                       unsigned char* to, unsigned char* tile) {
    constexpr int pieces = t_in(0) / 8, loads = (16 * pieces + 31) / 32;
    int warp = threadIdx.x % 128 / 32;
    uint4 x[loads];
    #pragma unroll
    for (int i = 0; i < loads; ++i) {
        int e = i * 32 + threadIdx.x % 32, r = e / pieces % 16;
        unsigned int of = __shfl_sync(0xffffffffu, cell, r);
        x[i] = *((const uint4*)(obs + (unsigned long long)of * (t_in(0) * 2)) + e % pieces);
    }
    #pragma unroll
    for (int i = 0; i < loads; ++i) {
        int e = i * 32 + threadIdx.x % 32, r = e / pieces, piece = e % pieces;
        if (r >= 16) continue;
        uint4 y = r < present ? x[i] : make_uint4(0, 0, 0, 0);
        *(uint4*)(to + r * T_ROW + piece * 16) = y;
        int row = t_row(warp * 16 + r);
        *(uint4*)(tile + piece / 8 * 8192 + row * 128 + ((piece ^ row) % 8) * 16) = y;
    }
    __syncwarp();
}

#if T_EDGES
// Starts to copy the observations of 16 samples to `to`, zeros beyond the first `present`; lane r has row r's cell.
__device__ inline void t_start_samples(const unsigned char* obs, unsigned int cell, int present,
                                       unsigned char* to) {
    constexpr int pieces = T_OBS_ROW / 16;
    #pragma unroll
    for (int i = 0; i < (16 * pieces + 31) / 32; ++i) {
        int e = i * 32 + threadIdx.x % 32, r = e / pieces, piece = e % pieces;
        unsigned int of = __shfl_sync(0xffffffffu, cell, r % 16);
        if (r >= 16) continue;
        const unsigned char* from = obs + (unsigned long long)of * (t_in(0) * 2) + piece * 16;
        int bytes = r < present ? 16 : 0;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(t_shared(to + r * T_OBS_ROW + piece * 16)),
                     "l"(from), "r"(bytes) : "memory");
    }
}

// This thread's part of them, as a product's operand.
__device__ inline void t_take_samples(const unsigned char* rows, unsigned int (&x)[t_in(0) / 4]) {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    #pragma unroll
    for (int i = 0; i < t_in(0) / 4; ++i) {
        int column = i / 4 * 16 + 2 * q + i % 4 / 2 * 8;
        bool there = i / 4 * 32 + i % 4 / 2 * 16 < T_OBS_ROW;
        x[i] = there ? *(const unsigned int*)(rows + (g + i % 2 * 8) * T_OBS_ROW + column * 2) : 0;
        // Else the compiler makes zeros anew between products, and then waits for each of them.
        asm volatile("" : "+r"(x[i]));
    }
}
#endif

template <class T>
__device__ inline void t_copy_words(const T* from, T* to) {
    for (unsigned int i = threadIdx.x; i < sizeof(T) / 4; i += blockDim.x) {
        ((unsigned int*)to)[i] = ((const unsigned int*)from)[i];
    }
}

// The first pass, for samples `first`.. of the minibatch; the blocks' sums from `parts_at` on.
extern "C" __global__ __launch_bounds__(256, T_BLOCKS) void wide_tensor_learn(
    const TensorLearnArgs args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    float* own_biases = (float*)(shared + T_IMAGE + 2 * T_STAGE_BYTES);
    unsigned char* all_scratch = (unsigned char*)(own_biases + T_VECTORS);
    float* all_sums = (float*)(all_scratch + 8 * T_LEARN_SCRATCH);
    __shared__ WideWord barrier;
    unsigned int n = wide_present(args.state, 1, args.first, args.rows);
    unsigned int tiles = (n + 63) / 64;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // All rows need them.
    __shared__ WideSettings settings;
    __shared__ WideState state;
    t_copy_words(args.settings, &settings);
    t_copy_words(args.state, &state);
    __syncthreads();
    // Both threads of a row have one place for sums.
    TLearn a = {&settings, &state, args.parameters, args.from,
                (float*)(all_scratch + warp * T_LEARN_SCRATCH), all_sums + threadIdx.x / 2 * 5, 0, false, {}, {},
                t_shared(shared), own_biases, 0, args.own_gradients};
    a.role = args.role;
    for (int k = 0; k < 5 && lane % 2 == 0; ++k) a.sums[k] = 0.0f;
    if (blockIdx.x * 2 < tiles) {
        t_load_weights(shared, args.image, args.biases, own_biases, &barrier);
    }
#if T_EDGES
    for (int i = 0; i < T_EDGE_SUMS && args.first == 0; ++i) {
        t_edges(args.own_gradients)[i * 128] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    // Observations of a tile and of the next one, [2, 128, T_OBS_ROW bytes].
    unsigned char* all_obs = (unsigned char*)(all_sums + 128 * 5);
    unsigned int turn = 0;
#endif
#if T_NORMED
    a.own_gradients += (blockIdx.x * 8 + warp) * T_NORMS;
    a.units = args.units + (blockIdx.x * 2 + warp / 4) * T_UNITS;
    for (int i = lane; i < T_NORMS && args.first == 0; i += 32) a.own_gradients[i] = 0.0f;
    __syncwarp();
#endif
    // The cell of row lane % 16 in the group's next tile; that of another sample beyond the last.
    const unsigned int* samples = args.order + args.state->begin + args.first;
    auto cell_of = [&](unsigned int tile) {
        unsigned int row = tile * 64 + warp % 4 * 16 + lane % 16;
        return tiles > 0 ? samples[row < n ? row : 0] : 0;
    };
    unsigned int start = blockIdx.x * 2 + warp / 4, stride = gridDim.x * 2, next = cell_of(start);
#if T_EDGES
    auto begin = [&](unsigned int tile) {
        unsigned char* to = all_obs + (turn * 128 + warp * 16) * T_OBS_ROW;
        t_start_samples(args.obs, next, (int)(n - (tile * 64 + warp % 4 * 16)), to);
    };
    if (start < tiles) begin(start);
    unsigned int after = cell_of(start + stride);
#endif
    for (unsigned int tile = start; tile < tiles; tile += stride) {
        unsigned int from = tile * 64 + warp % 4 * 16, cell = next;
#if T_EDGES
        next = after;
#else
        next = cell_of(tile + stride);
#endif
        a.tile = args.kept + (unsigned long long)tile * T_KEPT;
        a.present = from + lane / 2 < n;
        a.cell = __shfl_sync(0xffffffffu, cell, lane / 2);
        unsigned int x[t_in(0) / 4];
#if T_EDGES
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncwarp();
        a.obs = all_obs + (turn * 128 + warp / 4 * 64) * T_OBS_ROW;
        t_take_samples(a.obs + warp % 4 * 16 * T_OBS_ROW, x);
        turn ^= 1;
        if (tile + stride < tiles) begin(tile + stride);
#else
        t_fetch_samples(args.obs, cell, (int)(n - from), (unsigned char*)a.outs, a.tile);
        t_take_inputs((const unsigned char*)a.outs, x);
#endif
        t_ask_for(a, args.obs, next);
        t_wait_barrier(t_shared(&barrier), 0);
        float unused[t_in(0) / 2];
        t_learn<0>(a, x, unused);
#if T_EDGES
        TInputSums edges;
        edges.load(t_first_edges(args.own_gradients));
        after = cell_of(tile + 2 * stride);
        t_meet(threadIdx.x / 128);
        t_edge_inputs(edges, t_first_edges(args.own_gradients), t_stage(a.image), a.obs);
        t_meet(threadIdx.x / 128);
#endif
    }
    t_sum_losses<128>(all_sums, args.parts, args.parts_at);
}
