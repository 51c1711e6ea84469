// Where hidden layers have 128 outputs, each of two groups multiplies 64 of every layer.

// A group's sums of gradients: of 64 outputs of each hidden layer up to layer L, and of the output layer's weights of 64
// inputs, [inputs, outputs].
template <int L>
struct TShares {
    float sums[L == T_DEPTH ? T_N / 2 : t_columns(L) / 2] = {}, bias[4] = {};
    TShares<L - 1> below;

    __device__ inline void add(const TTile& tile, int share) {
        t_wait_barrier(t_shared(tile.whole), tile.turn & 1);
        t_settle(sums);
        settle_bias();
        t_fence();
        unsigned int inputs = L == 0 ? tile.obs : tile.kept + t_inputs_at(L);
        if constexpr (L == T_DEPTH) {
            WideWord left = t_operand(inputs + share * 8192, 8192, 1024, 1);
            WideWord outputs = t_operand(tile.kept + t_outputs_at(L), 8192, 1024, 1);
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                Mma<T_N>::shared(sums, left + k * 128, outputs + k * 128);
                Mma<8>::shared(bias, outputs + k * 128, t_operand(tile.ones, 8192, 1024, 1));
            }
        } else {
            WideWord outputs = t_operand(tile.kept + t_outputs_at(L) + share * 8192, 8192, 1024, 1);
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                Mma<t_columns(L)>::shared(sums, outputs + k * 128, t_operand(inputs + k * 2048, 8192, 1024, 1));
                if (!t_has_one(L)) Mma<8>::shared(bias, outputs + k * 128, t_operand(tile.ones, 8192, 1024, 1));
            }
        }
        t_commit();
        t_wait<0>();
        t_settle(sums);
        settle_bias();
        if (threadIdx.x % 32 == 0) t_arrive(tile.read);
        TTile next = tile;
        ++next.turn;
        below.add(next, share);
    }

    __device__ inline void settle_bias() {
        if (!t_has_one(L)) t_settle(bias);
    }

    __device__ inline void write(const TPartial& partial, int share, float* lines) const {
        if constexpr (L == T_DEPTH) t_write_outputs(partial, sums, bias, share);
        else t_write<L>(partial, sums, bias, share, lines);
        below.write(partial, share, lines);
    }
};
template <>
struct TShares<-1> {
    __device__ inline void add(const TTile&, int) {}
    __device__ inline void write(const TPartial&, int, float*) const {}
};

// Group number `share` of those that multiply.
__device__ inline void t_multiply_tiles(const TensorGradientArgs& args, const TShared& shared, unsigned int tiles,
                                        int share) {
    TShares<T_DEPTH> shares;
    t_each_tile(shared, tiles, [&](const TTile& tile) { shares.add(tile, share); });
    TPartial partial = {args.partial + (unsigned long long)blockIdx.x * args.n_parameters, args.first == 0};
    shares.write(partial, share, t_lines(shared, share));
}
