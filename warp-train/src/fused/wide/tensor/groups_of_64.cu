// Groups where layers have 64 outputs at most: those that learn have what a layer gives in registers, and one group
// multiplies for all of them.

// Words of 16 rows of a block, all ones: they lie after a layer's only block, or are an operand of their own.
#define T_ONES 512

__device__ inline void t_put_ones(const TShared& shared) {
    for (int i = threadIdx.x; i < T_ONES; i += blockDim.x) shared.ones[i] = HALF_ONE | HALF_ONE << 16;
    for (int i = threadIdx.x; i < T_LEARNERS * (1 + T_AHEAD) * 64 && t_has_room(0); i += blockDim.x) {
        int group = i / 64 % T_LEARNERS, round = i / 64 / T_LEARNERS;
        unsigned char* obs = shared.kept + group * T_GROUP_BYTES + t_obs_at(round);
        t_put_ones(obs + t_in(0) / 64 * 8192, i % 64, t_in(0) / 8 % 8);
    }
}

// Makes sure that a group may keep a tile, and starts to copy the next one's observations.
__device__ inline void t_turn(const TNext& next) {
    t_wait_barrier(next.read, next.phase);
    if (next.there) t_start_samples(next.obs, next.cell, next.present, next.to);
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
    a.own_gradients = shared.sums + T_SUM_PLACES * 5 + warp * T_NORMS;
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
        unsigned int cell = next, after = tile + tiles.stride, read = t_shared(shared.read + group);
        unsigned int phase = (round & 1) ^ 1;
        if (!T_AHEAD) t_turn({args.obs, cell, present(tile), a.tile, true, read, phase});
        t_await_samples();
        // Loads that began before would be waited for there, too.
        next = T_AHEAD ? later : cell_of(after);
        if (T_AHEAD) later = cell_of(after + tiles.stride);
        a.present = lane / 2 < present(tile);
        a.cell = __shfl_sync(0xffffffffu, cell, lane / 2);
        a.known = t_known(a);
        a.done = t_done(a);
        a.next = {args.obs, next, present(after), a.tile + t_obs_at(round + 1), after < tiles.end, read, phase};
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

    __device__ inline void write(const TPartial& partial, float* lines) const {
        t_write<L>(partial, sums, bias, 0, lines);
        above.write(partial, lines);
    }
};
template <>
struct TGradients<T_DEPTH + 1> {
    __device__ inline void add(unsigned int, unsigned int, unsigned int) {}
    __device__ inline void settle() {}
    __device__ inline void write(const TPartial&, float*) const {}
};

// The group that multiplies: tiles of all others, in turn.
__device__ inline void t_multiply_tiles(const TensorGradientArgs& args, const TShared& shared, unsigned int tiles, int) {
    unsigned int ones = t_shared(shared.ones);
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
    gradients.write(partial, t_lines(shared, 0));
}
