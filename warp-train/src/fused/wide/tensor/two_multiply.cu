// Two groups multiply: for more sums of gradients than one group has registers for. Those that learn have no registers for
// what a layer gives beside the sums of the next one, so both operands of a hidden layer's products lie in shared memory. There,
// gradients take the place of activations once these were multiplied: a tile is handed over layer by layer, from the outputs
// down. Observations of two tiles have room, or (without T_AHEAD) of one, which then waits until the last tile's were multiplied.

#define T_ONES 0
// The column of ones among the gradients of outputs that a group keeps.
#define T_ONES_AT 56

// Puts ones there, and behind observations that fill their columns.
__device__ inline void t_put_ones(const TShared& shared) {
    for (int i = threadIdx.x; i < T_LEARNERS * 64; i += blockDim.x) {
        unsigned char* kept = shared.kept + i / 64 * T_GROUP_BYTES;
        t_put_ones(kept + t_outputs_at(T_DEPTH), i % 64, T_ONES_AT / 8);
        for (int round = 0; round < 2 && t_has_room(0); ++round) {
            t_put_ones(kept + t_obs_at(round) + t_in(0) / 64 * 8192, i % 64, t_in(0) / 8 % 8);
        }
    }
}

// How a group that learns hands over what it keeps.
struct TTurns {
    WideWord *whole, *read;
    unsigned int given;

    __device__ inline void give() {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        t_arrive(whole);
        ++given;
    }
    // Waits until what was given last has been multiplied.
    __device__ inline void wait() const { t_wait_barrier(t_shared(read), (given & 1) ^ 1); }
};

// All threads of this group have written what the next product reads.
__device__ inline void t_meet_to_multiply() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    t_meet(threadIdx.x / 128);
}

// sums = rows of a layer's inputs at `from` times the transposed weights of layer L.
template <int L, int N>
__device__ inline void t_forward_rows(unsigned int image, unsigned int from, float (&sums)[N]) {
    constexpr int steps = t_in(L) / 16, whole = t_in(L) / 64 * 4;
    unsigned int base = image + t_image_at(L);
    WideWord rows = t_operand(from, 16, 1024, 1), wide = t_operand(base, 16, 1024, 1);
    WideWord rest = t_operand(base + whole / 4 * t_out(L) * 128, 16, 256, 3);
    t_settle(sums);
    t_fence();
    #pragma unroll
    for (int k = 0; k < steps; ++k) {
        WideWord right = k < whole ? wide + (k / 4 * t_out(L) * 128 + k % 4 * 32) / 16
                                   : rest + (k - whole) * t_out(L) * 32 / 16;
        Mma<t_out(L)>::template both<0>(sums, rows + (k / 4 * 8192 + k % 4 * 32) / 16, right, k != 0);
    }
    t_commit();
    t_wait<0>();
    t_settle(sums);
}

// sums = rows of gradients of layer L's outputs at `from` times its weights.
template <int L, int N>
__device__ inline void t_backward_rows(unsigned int image, unsigned int from, float (&sums)[N]) {
    WideWord rows = t_operand(from, 16, 1024, 1);
    WideWord right = t_operand(image + t_image_at(L), t_out(L) * 128, 1024, 1);
    t_settle(sums);
    t_fence();
    #pragma unroll
    for (int k = 0; k < t_out(L) / 16; ++k) {
        WideWord left = rows + (k / 4 * 8192 + k % 4 * 32) / 16;
        Mma<t_in(L)>::template both<0, 1>(sums, left, right + k * 2048 / 16, k != 0);
    }
    t_commit();
    t_wait<0>();
    t_settle(sums);
}

// Where this lane's row of four products of 8 by 8 lies, of the first 16 of a tile's columns from `tile` on; those of 16
// columns further right lie where t_further() says. Matrices 0 and 1 have 8 columns of the warp's 16 rows, 2 and 3 the next.
__device__ inline unsigned int t_own_row(unsigned int tile) {
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    return tile + row * 128 + ((lane / 16 ^ row % 8) * 16);
}
__device__ inline unsigned int t_further(unsigned int own, int sixteens) {
    return (own ^ sixteens % 4 * 32) + sixteens / 4 * 8192;
}
// Loads of what does not lie there may be moved before it.
__device__ inline void t_put_rows(unsigned int at, const unsigned int (&x)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x[0]), "r"(x[1]),
                 "r"(x[2]), "r"(x[3]));
}
__device__ inline void t_get_rows(unsigned int at, unsigned int (&x)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
}

// Keeps activations of a layer's sums; of those of relu, which are positive.
template <int N>
__device__ inline void t_keep_rows(const float (&sums)[N], const float* biases, unsigned int own,
                                   unsigned int (&positive)[N / 32]) {
    const float2* from = (const float2*)(biases + threadIdx.x % 4 * 2);
    // Each step's biases are loaded before what the one before it gives is stored.
    float2 b[2][2] = {{from[0], from[4]}};
    #pragma unroll
    for (int t = 0; t < N / 8; ++t) {
        unsigned int h[4];
        if (t + 1 < N / 8) b[(t + 1) % 2][0] = from[8 * t + 8], b[(t + 1) % 2][1] = from[8 * t + 12];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            float2 bias = b[t % 2][i / 2];
            h[i] = t_activate(sums[8 * t + 2 * i] + bias.x, sums[8 * t + 2 * i + 1] + bias.y);
            // No half is above 0x7f80: sums stay within their halves.
            int bit = 4 * t + i;
            if (!T_TANH) positive[bit / 16] |= (h[i] + 0x7fff7fffu & 0x80008000u) >> bit % 16;
        }
        t_put_rows(t_further(own, t), h);
    }
}

// Puts the gradients of a layer's outputs in the place of its activations once these were multiplied, from `sums`, those by
// the activations.
template <int N>
__device__ inline void t_replace_rows(const TTurns& turns, const float (&sums)[N], unsigned int own,
                                      const unsigned int (&positive)[N / 32]) {
    // Each step's activations are on their way before what the one before it gives is stored.
    unsigned int known[2][4] = {};
    if (T_TANH) t_get_rows(own, known[0]);
    turns.wait();
    #pragma unroll
    for (int t = 0; t < N / 8; ++t) {
        unsigned int h[4];
        if (T_TANH && t + 1 < N / 8) t_get_rows(t_further(own, t + 1), known[(t + 1) % 2]);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            float low = sums[8 * t + 2 * i], high = sums[8 * t + 2 * i + 1];
            int bit = 4 * t + i;
            unsigned int bits = T_TANH ? 0 : positive[bit / 16] << bit % 16;
            if (T_TANH) h[i] = t_slope(low, high, known[t % 2][i]);
            else h[i] = t_halves(bits & 0x8000u ? low : 0.0f, bits & 0x80000000u ? high : 0.0f);
        }
        t_put_rows(t_further(own, t), h);
    }
}

// Columns of a layer's inputs, with a one behind them where there is one.
__host__ __device__ constexpr int t_columns(int l) { return t_has_one(l) ? (T_IN + 8) / 8 * 8 : t_in(l); }

// Puts that one behind the observations of this warp's 16 samples, unless it lies behind their padding.
__device__ inline void t_put_one(unsigned char* obs) {
    int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32;
    if (T_IN == t_in(0) || threadIdx.x % 32 >= 16) return;
    unsigned char* piece = obs + T_IN / 64 * 8192 + row * 128 + (T_IN / 8 ^ row) % 8 * 16;
    *(unsigned short*)(piece + T_IN % 8 * 2) = HALF_ONE;
}

// Layer L and all above it, forward and back; the first layer's inputs lie at `obs`.
template <int L>
__device__ inline void t_learn_rows(TLearn& a, TTurns& turns, unsigned int obs, float (&d_below)[t_in(L) / 2]) {
    unsigned int tile = t_shared(a.tile);
    if constexpr (L == T_DEPTH) {
        // What the loss needs is on its way meanwhile.
        a.known = t_known(a);
        a.done = t_done(a);
        unsigned int d[T_N / 4];
        {
            float sums[T_N / 2];
            t_forward_rows<L>(a.image, tile + t_inputs_at(L), sums);
            if constexpr (T_ROLE == 2) t_value_loss(a, a.known, sums, d);
            else t_loss(a, a.known, sums, d);
        }
        t_keep_plain(d, a.tile + t_outputs_at(L));
        turns.give();
        t_backward<L>(a.image, d, d_below);
    } else {
        unsigned int own = t_own_row(tile + t_inputs_at(L + 1)), positive[t_out(L) / 64] = {};
        float sums[t_out(L) / 2];
        t_forward_rows<L>(a.image, L == 0 ? obs : tile + t_inputs_at(L), sums);
        // What is kept next lies where the last tile's gradients did.
        if constexpr (L == 0) {
            turns.wait();
            if (T_AHEAD && a.next.there) t_start_samples(a.next.obs, a.next.cell, a.next.present, a.next.to);
        }
        t_keep_rows(sums, a.biases + t_bias_at(L), own, positive);
        t_meet_to_multiply();
        t_learn_rows<L + 1>(a, turns, obs, sums);
        t_replace_rows(turns, sums, own, positive);
        turns.give();
        if constexpr (L > 0) {
            t_meet(threadIdx.x / 128);
            t_backward_rows<L>(a.image, tile + t_outputs_at(L), d_below);
        }
    }
}

// A group that learns.
__device__ inline void t_learn_tiles(const TensorGradientArgs& args, const TShared& shared, TTiles tiles,
                                     unsigned int n) {
    int group = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    TLearn a = {args.settings, args.state, args.parameters, args.from,
                shared.outs + warp * 16 * T_STRIDE, shared.sums + threadIdx.x / 2 * 5, 0, false, {}, {},
                t_shared(shared.image), shared.biases, shared.kept + group * T_GROUP_BYTES};
    TTurns turns = {shared.whole + group, shared.read + group, 0};
    const unsigned int* samples = args.order + args.state->begin + args.first;
    auto cell_of = [&](unsigned int tile) {
        unsigned int row = tile * 64 + warp % 4 * 16 + lane % 16;
        return samples[row < n ? row : 0];
    };
    auto present = [&](unsigned int tile) { return (int)(n - (tile * 64 + warp % 4 * 16)); };
    bool any = tiles.first < tiles.end;
    // Cells of the next tile and of the one after it.
    unsigned int next = any ? cell_of(tiles.first) : 0, round = 0;
    unsigned int later = any ? cell_of(tiles.first + tiles.stride) : 0;
    if (any) t_start_samples(args.obs, next, present(tiles.first), a.tile);
    for (unsigned int tile = tiles.first; tile < tiles.end; tile += tiles.stride, ++round) {
        unsigned int cell = next, after = tile + tiles.stride;
        if (!T_AHEAD && round > 0) {
            turns.wait();
            t_start_samples(args.obs, cell, present(tile), a.tile);
        }
        t_await_samples();
        // Loads that began before would be waited for there, too.
        next = later;
        later = cell_of(after + tiles.stride);
        a.present = lane / 2 < present(tile);
        a.cell = __shfl_sync(0xffffffffu, cell, lane / 2);
        a.next = {args.obs, next, present(after), a.tile + t_obs_at(round + 1), after < tiles.end, 0, 0};
        if (!T_AHEAD) t_ask_for_samples(args.obs, next);
        t_put_one(a.tile + t_obs_at(round));
        t_meet_to_multiply();
        if (round == 0) t_wait_barrier(t_shared(shared.weights), 0);
        float unused[t_in(0) / 2];
        t_learn_rows<0>(a, turns, t_shared(a.tile + t_obs_at(round)), unused);
    }
}

// Where a group that multiplies finds a tile: what is kept of it, observations, ones beside the gradients of outputs; and
// the number of what was given.
struct TTile {
    unsigned int kept, obs, ones;
    WideWord *whole, *read;
    unsigned int turn;
};

// What a group that multiplies does with each tile of all others, in turn.
template <class Add>
__device__ inline void t_each_tile(const TShared& shared, unsigned int tiles, Add add) {
    unsigned int tile = blockIdx.x, group = 0, round = 0;
    for (; tile < tiles; tile += gridDim.x) {
        unsigned int kept = t_shared(shared.kept + group * T_GROUP_BYTES);
        add(TTile{kept, kept + t_obs_at(round), kept + t_outputs_at(T_DEPTH) + T_ONES_AT * 2, shared.whole + group,
                  shared.read + group, (T_DEPTH + 1) * round});
        group = group + 1 == T_LEARNERS ? 0 : group + 1;
        round += group == 0;
    }
}
