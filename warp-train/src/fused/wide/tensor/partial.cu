// Where gradients of weights and biases go: a block's own copy of the parameters.

// The column that a place within a hidden layer's kept blocks stands for.
__device__ inline int t_true(int place) {
    if (T_REPLACES) return place;
    int c = place / 8 % 8, i = place % 8;
    return place / 64 * 64 + c / 4 * 32 + i / 2 * 8 + c % 4 * 2 + i % 2;
}

struct TPartial {
    float* to;
    // Whether nothing is there yet; else what is written adds to it.
    bool fresh;

    __device__ inline void put(unsigned int at, float x) const { to[at] = fresh ? x : to[at] + x; }
};

// The output of layer L whose gradient lies in row `place` of its blocks; -1 if there is none.
template <int L>
__device__ inline int t_output(int place) {
    int o = L < T_DEPTH ? t_true(place) : place < T_GAP_AT ? place : place - T_GAP;
    bool gap = L == T_DEPTH && place >= T_GAP_AT && place < T_GAP_AT + T_GAP;
    return gap || o >= t_real_out(L) ? -1 : o;
}

// The gradient of the bias of row `place` of layer L's blocks.
template <int L>
__device__ inline void t_write_bias(const TPartial& partial, int place, float bias) {
#if T_ACTS && P_CONTINUOUS
    // Columns in the gap are log-deviations that are parameters.
    bool gap = L == T_DEPTH && place >= T_GAP_AT && place < T_GAP_AT + T_GAP;
    if (gap) partial.put(P_LOG_STD_AT + place - T_GAP_AT, bias);
#endif
    int o = t_output<L>(place);
    if (o >= 0) partial.put(t_weights(L) + t_real_out(L) * t_real_in(L) + o, bias);
}

// Whether the sums of layer l's gradients have those of its biases behind their last column: those of observations whose
// blocks have room for a one.
__host__ __device__ constexpr bool t_has_one(int l) { return T_REPLACES && l == 0 && T_IN % 64 != 0; }

// Rows `block` * 64 .. of layer L's gradient, columns from `first` on, and with the first ones of its biases'.
template <int L, int N>
__device__ inline void t_write(const TPartial& partial, const float (&sums)[N],
                               const float (&bias)[4], int block, int first = 0) {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, warp = threadIdx.x % 128 / 32;
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
        int place = block * 64 + warp * 16 + g + e * 8, o = t_output<L>(place);
        if (q == 0 && first == 0 && !t_has_one(L)) t_write_bias<L>(partial, place, bias[2 * e]);
        if (o < 0) continue;
        #pragma unroll
        for (int j = 0; j < N / 4; ++j) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                int column = first + 8 * j + 2 * q + i;
                column = L == 0 ? column : t_true(column);
                float sum = sums[4 * j + 2 * e + i];
                if (t_has_one(L) && column == t_real_in(L)) t_write_bias<L>(partial, place, sum);
                if (column < t_real_in(L)) partial.put(t_weights(L) + o * t_real_in(L) + column, sum);
            }
        }
    }
}

// The gradients of the output layer's weights of inputs `block` * 64 .., [inputs, outputs], and of all its biases.
__device__ inline void t_write_outputs(const TPartial& partial, const float (&sums)[T_N / 2], const float (&bias)[4], int block) {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, warp = threadIdx.x % 128 / 32;
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
        int place = warp * 16 + g + e * 8, input = block * 64 + place;
        if (q == 0 && block == 0) t_write_bias<T_DEPTH>(partial, place, bias[2 * e]);
        if (input >= t_real_in(T_DEPTH)) continue;
        #pragma unroll
        for (int j = 0; j < T_N / 8; ++j) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                int o = t_output<T_DEPTH>(8 * j + 2 * q + i);
                if (o >= 0) partial.put(t_weights(T_DEPTH) + o * t_real_in(T_DEPTH) + input, sums[4 * j + 2 * e + i]);
            }
        }
    }
}
