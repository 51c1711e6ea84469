// Loss and gradients of a minibatch in one pass, for towers so small that what is kept of 64 samples stays in shared
// memory. Groups of four warps take tiles of samples through the network and back; another group multiplies what they
// keep into gradients of the weights, whose sums never leave its registers.
//
// T_LEARNERS of them learn. Where T_AHEAD, the observations of a group's next tile come while it works on this one: those
// of every other tile lie behind what is kept.

#define T_GROUPS (T_LEARNERS + 1)
#define T_LEARNER_THREADS (T_LEARNERS * 128)
// Sums of losses, five of each thread.
#define T_LEARNER_SUMS (T_LEARNER_THREADS * 5)
// Bytes of a group's samples, and where the observations of its tile number `round` lie among them.
#define T_GROUP_BYTES (T_KEPT + T_AHEAD * t_blocks(t_in(0)) * 8192)
__device__ inline unsigned int t_obs_at(unsigned int round) { return T_AHEAD && round & 1 ? T_KEPT : 0; }

__device__ inline void t_arrive(WideWord* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(t_shared(barrier)) : "memory");
}
// Registers of a thread, of those that the block has; all four warps of a group say the same.
template <int N>
__device__ inline void t_more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
__device__ inline void t_fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// Which tiles a group takes: every `stride`th from `first` on.
struct TTiles {
    unsigned int first, stride, end;
};

// What groups of a block share.
struct TShared {
    unsigned char* image;
    unsigned char* kept;
    float* biases;
    float* outs;
    // Sums of losses of each thread that learns, and behind them those of the gradients of gains and shifts of each warp.
    float* sums;
    // Per group that learns: whether its tile is whole, and whether it was read.
    WideWord* whole;
    WideWord* read;
    WideWord* weights;
};

// Starts to copy the observations of this warp's 16 samples of a tile, straight into it; lane r has row r's cell.
__device__ inline void t_start_samples(const unsigned char* obs, unsigned int cell, int present,
                                      unsigned char* tile) {
    constexpr int pieces = t_in(0) / 8;
    int warp = threadIdx.x % 128 / 32;
    #pragma unroll
    for (int i = 0; i < (16 * pieces + 31) / 32; ++i) {
        int e = i * 32 + threadIdx.x % 32, r = e / pieces, piece = e % pieces;
        int row = t_row(warp * 16 + r);
        unsigned int of = __shfl_sync(0xffffffffu, cell, r % 16);
        if (r >= 16) continue;
        const unsigned char* from = obs + (unsigned long long)of * (t_in(0) * 2) + piece * 16;
        unsigned int to = t_shared(tile + piece / 8 * 8192 + row * 128 + ((piece ^ row) % 8) * 16);
        int bytes = r < present ? 16 : 0;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    }
}

// Makes sure that a group may keep a tile, and starts to copy the next one's observations.
__device__ inline void t_turn(const TNext& next) {
    t_wait_barrier(next.read, next.phase);
    if (next.there) t_start_samples(next.obs, next.cell, next.present, next.to);
}

// Waits for those that were copied.
__device__ inline void t_await_samples() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
}

// This thread's part of them, as a product's operand.
__device__ inline void t_take_samples(const unsigned char* tile, unsigned int (&x)[t_in(0) / 4]) {
    int row = t_row(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4), q = threadIdx.x % 4;
    #pragma unroll
    for (int k = 0; k < t_in(0) / 16; ++k) {
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            int piece = 2 * k + e / 2;
            const unsigned char* from = tile + piece / 8 * 8192 + (row + e % 2 * 8) * 128;
            x[4 * k + e] = *(const unsigned int*)(from + ((piece ^ row) % 8) * 16 + q * 4);
        }
    }
}

// A group that learns.
__device__ inline void t_learn_tiles(const TensorGradientArgs& args, const TShared& shared, TTiles tiles,
                                     unsigned int n) {
    int group = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    TLearn a = {args.settings, args.state, args.parameters, args.from,
                shared.outs + warp * 16 * T_STRIDE, shared.sums + threadIdx.x * 5, 0, false, {}, {},
                t_shared(shared.image), shared.biases, shared.kept + group * T_GROUP_BYTES};
#if T_NORMED
    a.own_gradients = shared.sums + T_LEARNER_SUMS + warp * T_NORMS;
    a.units = a.tile;
#endif
    const unsigned int* samples = args.order + args.state->begin + args.first;
    auto cell_of = [&](unsigned int tile) {
        unsigned int row = tile * 64 + warp % 4 * 16 + lane % 16;
        return samples[row < n ? row : 0];
    };
    bool any = tiles.first < tiles.end;
    // Cells of the next tile, and of the one after it where its observations come ahead.
    unsigned int next = any ? cell_of(tiles.first) : 0, round = 0;
    unsigned int later = T_AHEAD && any ? cell_of(tiles.first + tiles.stride) : 0;
    auto present = [&](unsigned int tile) { return (int)(n - (tile * 64 + warp % 4 * 16)); };
    if (T_AHEAD && any) t_start_samples(args.obs, next, present(tiles.first), a.tile);
    for (unsigned int tile = tiles.first; tile < tiles.end; tile += tiles.stride, ++round) {
        unsigned int cell = next, after = tile + tiles.stride;
        next = T_AHEAD ? later : cell_of(after);
        if (T_AHEAD) later = cell_of(after + tiles.stride);
        a.present = lane / 2 < present(tile);
        a.cell = __shfl_sync(0xffffffffu, cell, lane / 2);
        a.known = t_known(a);
        a.done = t_done(a);
        a.next = {args.obs, next, present(after), a.tile + t_obs_at(round + 1), after < tiles.end,
                  t_shared(shared.read + group), (round & 1) ^ 1};
        if (!T_AHEAD) t_turn({args.obs, cell, present(tile), a.tile, true, a.next.read, a.next.phase});
        t_await_samples();
        unsigned int x[t_in(0) / 4];
        t_take_samples(a.tile + t_obs_at(round), x);
        if (!T_AHEAD) t_ask_for_samples(args.obs, next);
        if (round == 0) t_wait_barrier(t_shared(shared.weights), 0);
        float unused[t_in(0) / 2];
        t_learn<0>(a, x, unused);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        t_arrive(shared.whole + group);
    }
}

// Gradients of biases are those of the weights of an input that is always one. Such inputs lie beside the layer's where
// its last block has room for them, and after its only block; else they are an operand of their own.
__host__ __device__ constexpr bool t_has_room(int l) { return t_in(l) % 64 != 0; }

// Sums of layer L's gradients and of all above it.
template <int L>
struct TGradients {
    float sums[t_in(L) / 2] = {}, bias[4] = {};
    TGradients<L + 1> above;

    // Observations lie at `obs`; `ones` are 16 rows of a block.
    __device__ inline void add(unsigned int tile, unsigned int obs, unsigned int ones) {
        WideWord outputs = t_operand(tile + t_outputs_at(L), 8192, 1024, 1);
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            unsigned int from = (L == 0 ? obs : tile + t_inputs_at(L)) + k * 2048;
            if constexpr (t_has_room(L) || t_in(L) == 64) {
                unsigned int lead = t_has_room(L) ? 8192 : ones - from;
                WideWord inputs = t_operand(from, lead, 1024, 1);
                Mma<t_in(L) + 8>::beside(sums, bias, outputs + k * 128, inputs);
            } else {
                Mma<t_in(L)>::shared(sums, outputs + k * 128, t_operand(from, 8192, 1024, 1));
                Mma<8>::shared(bias, outputs + k * 128, t_operand(ones, 8192, 1024, 1));
            }
        }
        above.add(tile, obs, ones);
    }

    __device__ inline void settle() {
        t_settle(sums);
        t_settle(bias);
        above.settle();
    }

    __device__ inline void write(const TPartial& partial) const {
        t_write<L>(partial, sums, bias, 0);
        above.write(partial);
    }
};
template <>
struct TGradients<T_DEPTH + 1> {
    __device__ inline void add(unsigned int, unsigned int, unsigned int) {}
    __device__ inline void settle() {}
    __device__ inline void write(const TPartial&) const {}
};

// The group that multiplies: tiles of all others, in turn.
__device__ inline void t_multiply_tiles(const TensorGradientArgs& args, const TShared& shared, unsigned int ones,
                                        unsigned int tiles) {
    TGradients<0> gradients;
    unsigned int tile = blockIdx.x, group = 0, round = 0;
    for (; tile < tiles; tile += gridDim.x) {
        t_wait_barrier(t_shared(shared.whole + group), round & 1);
        gradients.settle();
        t_fence();
        unsigned int kept = t_shared(shared.kept + group * T_GROUP_BYTES);
        gradients.add(kept, kept + t_obs_at(round), ones);
        t_commit();
        t_wait<0>();
        gradients.settle();
        if (threadIdx.x % 32 == 0) t_arrive(shared.read + group);
        group = group + 1 == T_LEARNERS ? 0 : group + 1;
        round += group == 0;
    }
    TPartial partial = {args.partial + (unsigned long long)blockIdx.x * args.n_parameters, args.first == 0};
    gradients.write(partial);
}

// Words of 16 rows of a block.
#define T_ONES 512

// Ones after a layer's only block, and beside the observations that a group keeps.
__device__ inline void t_put_ones(unsigned int* ones, unsigned char* kept) {
    constexpr unsigned int two = HALF_ONE | HALF_ONE << 16;
    for (int i = threadIdx.x; i < T_ONES; i += blockDim.x) ones[i] = two;
    if constexpr (t_has_room(0)) {
        for (int i = threadIdx.x; i < T_LEARNERS * (1 + T_AHEAD) * 64; i += blockDim.x) {
            int row = i % 64, piece = t_in(0) / 8, group = i / 64 % T_LEARNERS, round = i / 64 / T_LEARNERS;
            unsigned char* block = kept + group * T_GROUP_BYTES + t_obs_at(round) + piece / 8 * 8192;
            *(uint4*)(block + row * 128 + (piece ^ row) % 8 * 16) = make_uint4(two, two, two, two);
        }
    }
}

#if T_NORMED
// Gradients of gains and shifts, from the sums of all warps.
__device__ inline void t_write_norms(const TensorGradientArgs& args, const float* norms) {
    TPartial partial = {args.partial + (unsigned long long)blockIdx.x * args.n_parameters, args.first == 0};
    for (int i = threadIdx.x; i < T_NORMS; i += blockDim.x) {
        int place = t_norm_place(i);
        float sum = 0.0f;
        for (int warp = 0; warp < T_LEARNERS * 4; ++warp) sum += norms[warp * T_NORMS + i];
        if (place >= 0) partial.put((unsigned int)place, sum);
    }
}
#endif

// For samples `first`.. of the minibatch: gradients into a copy of the parameters for each block, and the blocks' sums
// of losses from `parts_at` on.
extern "C" __global__ __launch_bounds__(T_GROUPS * 128, 1) void wide_tensor_gradient(
    const TensorGradientArgs args) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ WideWord weights, whole[T_LEARNERS], read[T_LEARNERS];
    unsigned char* kept = memory + T_IMAGE;
    unsigned int* ones = (unsigned int*)(kept + T_LEARNERS * T_GROUP_BYTES);
    float* biases = (float*)ones + T_ONES;
    float* outs = biases + T_VECTORS;
    float* sums = outs + T_LEARNERS * 4 * 16 * T_STRIDE;
    TShared shared = {memory, kept, biases, outs, sums, whole, read, &weights};
    unsigned int n = wide_present(args.state, 1, args.first, args.rows), tiles = (n + 63) / 64;
    if (tiles == 0 && args.first > 0) return;
    t_put_ones(ones, kept);
    for (int i = threadIdx.x; i < T_LEARNER_SUMS + T_LEARNERS * 4 * T_NORMS; i += blockDim.x) sums[i] = 0.0f;
    if (threadIdx.x == 0) {
        for (int g = 0; g < T_LEARNERS; ++g) {
            t_barrier(t_shared(whole + g), 128);
            t_barrier(t_shared(read + g), 4);
        }
    }
    t_load_weights(memory, args.image, args.biases, biases, &weights);
    // Ones are read by products.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned int group = threadIdx.x / 128;
    if (group == T_LEARNERS) {
#if T_LEARNERS == 3
        t_more_registers<176>();
#endif
        t_multiply_tiles(args, shared, t_shared(ones), tiles);
    } else {
#if T_LEARNERS == 3
        t_fewer_registers<112>();
#endif
        TTiles own = {blockIdx.x + group * gridDim.x, T_LEARNERS * gridDim.x, tiles};
        t_learn_tiles(args, shared, own, n);
        // Nobody leaves before the weights have come.
        t_wait_barrier(t_shared(&weights), 0);
    }
    t_sum_losses<T_LEARNER_THREADS>(sums, args.parts, args.parts_at);
#if T_NORMED
    t_write_norms(args, sums + T_LEARNER_SUMS);
#endif
}
