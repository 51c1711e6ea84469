// Where hidden layers have 64 outputs, and inputs are many or layers three or four: each of two groups multiplies half of the
// first layer's inputs, and every second one of the layers above.

// Columns of the first half, in whole blocks, and of what is left for the second one; it may be nothing.
#define T_HALF ((t_blocks(t_in(0)) + 1) / 2 * 64)
#define T_REST (t_blocks(t_in(0)) * 64 - T_HALF)
__host__ __device__ constexpr int t_share(int share) { return share == 0 ? T_HALF : T_REST; }

// Sums of gradients of group SHARE: its half of the first layer's, and all of its layers' up to layer L.
template <int SHARE, int L>
struct TShares {
    static constexpr bool owns = L == 0 ? t_share(SHARE) > 0 : L % 2 == SHARE;
    static constexpr bool has_bias = L > 0 || (SHARE == 0 && !t_has_one(0));
    static constexpr int columns = L == T_DEPTH ? T_N : L > 0 ? t_in(L) : owns ? t_share(SHARE) : 8;
    float sums[columns / 2] = {}, bias[4] = {};
    TShares<SHARE, L - 1> below;

    __device__ inline void add(const TTile& tile) {
        t_wait_barrier(t_shared(tile.whole), tile.turn & 1);
        if constexpr (owns) multiply(tile);
        // All lanes have seen that the tile is whole.
        __syncwarp();
        if (threadIdx.x % 32 == 0) t_arrive(tile.read);
        TTile next = tile;
        ++next.turn;
        below.add(next);
    }

    __device__ inline void multiply(const TTile& tile) {
        settle();
        t_fence();
        WideWord ones = t_operand(tile.ones, 8192, 1024, 1);
        WideWord outputs = t_operand(tile.kept + t_outputs_at(L), 8192, 1024, 1);
        unsigned int inputs = L == 0 ? tile.obs + SHARE * (T_HALF / 64) * 8192 : tile.kept + t_inputs_at(L);
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            WideWord right = t_operand(inputs + k * 2048, 8192, 1024, 1);
            if constexpr (L == T_DEPTH) Mma<columns>::shared(sums, right, outputs + k * 128);
            else Mma<columns>::shared(sums, outputs + k * 128, right);
            if (has_bias) Mma<8>::shared(bias, outputs + k * 128, ones);
        }
        t_commit();
        t_wait<0>();
        settle();
    }

    __device__ inline void settle() {
        t_settle(sums);
        if (has_bias) t_settle(bias);
    }

    __device__ inline void write(const TPartial& partial, float* lines) const {
        if constexpr (L == T_DEPTH && owns) t_write_outputs(partial, sums, bias, 0);
        else if constexpr (owns) t_write<L>(partial, sums, bias, 0, lines, L == 0 ? SHARE * T_HALF : 0);
        below.write(partial, lines);
    }
};
template <int SHARE>
struct TShares<SHARE, -1> {
    __device__ inline void add(const TTile&) {}
    __device__ inline void write(const TPartial&, float*) const {}
};

template <int SHARE>
__device__ inline void t_multiply_share(const TensorGradientArgs& args, const TShared& shared, unsigned int tiles) {
    TShares<SHARE, T_DEPTH> shares;
    t_each_tile(shared, tiles, [&](const TTile& tile) { shares.add(tile); });
    TPartial partial = {args.partial + (unsigned long long)blockIdx.x * args.n_parameters, args.first == 0};
    shares.write(partial, t_lines(shared, SHARE));
}

// Group number `share` of those that multiply.
__device__ inline void t_multiply_tiles(const TensorGradientArgs& args, const TShared& shared, unsigned int tiles,
                                        int share) {
    if (share == 0) t_multiply_share<0>(args, shared, tiles);
    else t_multiply_share<1>(args, shared, tiles);
}
