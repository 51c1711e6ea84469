// Where gradients of weights and biases go: a block's own copy of the parameters.

// The column that a place within a hidden layer's kept blocks stands for.
__device__ inline int t_true(int place) {
    if (T_REPLACES) return place;
    int c = place / 8 % 8, i = place % 8;
    return place / 64 * 64 + c / 4 * 32 + i / 2 * 8 + c % 4 * 2 + i % 2;
}

struct TPartial {
    float* to;
    // Whether nothing is there yet; else what is written adds to it. Without T_CHUNKS minibatches are never split.
    bool fresh;

    __device__ inline void put(float* at, float x) const { *at = !T_CHUNKS || fresh ? x : *at + x; }
    __device__ inline void put(unsigned int at, float x) const { put(to + at, x); }
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

// Floats of shared memory through which a warp writes.
#define T_LINES (16 * 32)

// Rows `block` * 64 .. of layer L's gradient, columns from `first` on, and with the first ones of its biases'. A warp has 16 rows;
// neighbouring lanes write neighbouring columns, 32 at a time, by way of `lines`, T_LINES of this warp's own.
template <int L, int N>
__device__ inline void t_write(const TPartial& partial, const float (&sums)[N],
                               const float (&bias)[4], int block, float* lines, int first = 0) {
    int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4, from = block * 64 + threadIdx.x % 128 / 32 * 16;
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
        if (q == 0 && first == 0 && !t_has_one(L)) t_write_bias<L>(partial, from + g + e * 8, bias[2 * e]);
    }
    #pragma unroll
    for (int t = 0; t < (N / 4 + 3) / 4; ++t) {
        __syncwarp();
        // Eights of a row lie in an order by which no bank is met twice.
        #pragma unroll
        for (int j = 4 * t; j < 4 * t + 4 && j < N / 4; ++j) {
            float* to = lines + g * 32 + (j ^ g) % 4 * 8 + 2 * q;
            *(float2*)to = make_float2(sums[4 * j], sums[4 * j + 1]);
            *(float2*)(to + 8 * 32) = make_float2(sums[4 * j + 2], sums[4 * j + 3]);
        }
        __syncwarp();
        int place = first + 32 * t + lane, column = L == 0 ? place : t_true(place);
        #pragma unroll
        for (int r = 0; r < 16; ++r) {
            int o = t_output<L>(from + r);
            if (o < 0) continue;
            float sum = lines[r * 32 + (lane / 8 ^ r) % 4 * 8 + lane % 8];
            if (t_has_one(L) && column == t_real_in(L)) t_write_bias<L>(partial, from + r, sum);
            if (column < t_real_in(L)) partial.put(partial.to + (t_weights(L) + o * t_real_in(L)) + column, sum);
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
