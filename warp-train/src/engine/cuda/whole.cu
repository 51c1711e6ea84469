// Passes of two hidden layers as a whole, where a run has the GPU to itself and waits for latencies alone: a layer's
// weights and biases are on their way before the numbers are there that they are multiplied with.

// Loads that the compiler leaves where they are: ahead of what waits.
__device__ inline uint4 load_ahead(const uint4* at) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
    return v;
}

// Whether a warp has 32 columns of a layer of N.
template <int N>
__device__ inline bool has_chunk() {
    return N / 32 >= N_WARPS || threadIdx.x / 32 < N / 32;
}

// Packed weights of a warp's 32 columns and of K terms, of which only the first TERMS may be other than 0.
template <int K, int TERMS>
struct WeightsAhead {
    static constexpr int ROUNDS = TERMS / 16, AHEAD = ROUNDS < 4 ? ROUNDS : 4;
    const uint4* from;
    RoundWeights rounds[AHEAD];
    __device__ inline RoundWeights load(int round) const {
        return {load_ahead(from + 64 * round), load_ahead(from + 64 * round + 32)};
    }
    __device__ inline void begin(const Half* packed) {
        from = (const uint4*)packed + threadIdx.x / 32 * (K / 16 * 64) + threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) rounds[i] = load(i);
    }
    // Sums of 16 rows; the rest of the weights follows.
    template <bool BACK>
    __device__ inline void multiply(float (&sums)[4][4], const Half* x) {
        const Half* rows = x + threadIdx.x % 16 * (K + 8) + threadIdx.x % 32 / 16 * 8;
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            RoundWeights now = rounds[i % AHEAD];
            if (i + AHEAD < ROUNDS) rounds[i % AHEAD] = load(i + AHEAD);
            add_round<BACK>(sums, rows + 16 * i, now);
        }
    }
};

// Finishes the sums of a warp's 32 columns as `multiply` does.
template <class More, class OfChunk, class OfRow>
__device__ inline void finish_chunk(const float (&sums)[4][4], const More& more, OfChunk& of_chunk, const OfRow (&of_rows)[2]) {
    int chunk = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float numbers[4][2];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            numbers[j][0] = sums[j][2 * i];
            numbers[j][1] = sums[j][2 * i + 1];
        }
        more.finish(threadIdx.x % 32 / 4 + 8 * i, chunk, numbers, of_chunk, of_rows[i], i);
    }
    more.done(chunk, 0, of_chunk);
}

// Numbers of a tile's rows, at most 32 side by side for each 16 threads; zeros behind them.
template <int K>
struct Inputs {
    float two[K / 32][2];
    __device__ inline void load(const SideBySide& from, int rows) {
#pragma unroll
        for (int c = 0; c < K / 32; ++c) {
            int column = 32 * c + threadIdx.x % 16 * 2;
            OfRows low = from.number(column), high = from.number(column + 1);
            two[c][0] = low.at(threadIdx.x / 16, rows);
            two[c][1] = high.at(threadIdx.x / 16, rows);
        }
    }
    template <bool BACK>
    __device__ inline void put(Half* x, Kept* kept) const {
#pragma unroll
        for (int c = 0; c < K / 32; ++c) {
            int row = threadIdx.x / 16, column = 32 * c + threadIdx.x % 16 * 2;
            float a = two[c][0], b = two[c][1];
            *(unsigned int*)(x + row * (K + 8) + column) = two_halves<BACK>(a, b);
            if (kept) *(unsigned int*)(kept + row * K + column) = two_halves<true>(a, b);
        }
    }
};

// The first 8 columns' weights of a warp's terms: all warps share the terms of each sum.
template <int K>
struct EightWeights {
    static constexpr int ROUNDS = (K / 16 + N_WARPS - 1) / N_WARPS;
    uint4 rounds[ROUNDS];
    __device__ inline bool has(int i) const { return threadIdx.x / 32 + N_WARPS * i < K / 16; }
    __device__ inline void load(const Half* weights) {
        const uint4* from = (const uint4*)weights + threadIdx.x;
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            // 64 to a round, of which a warp has the first 32.
            if (has(i)) rounds[i] = load_ahead(from + (threadIdx.x / 32 + 2 * N_WARPS * i) * 32);
        }
    }
};

template <bool BACK, int K, class Finish>
__device__ inline void add_eight(const Half* x, const EightWeights<K>& weights, float* parts, Finish finish) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < EightWeights<K>::ROUNDS; ++i) {
        if (!weights.has(i)) continue;
        unsigned int a[4];
        load_matrices(a, x + lane % 16 * (K + 8) + lane / 16 * 8 + 16 * (warp + N_WARPS * i));
        multiply_add<BACK>(sums, a, weights.rounds[i].x, weights.rounds[i].y);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float* to = parts + (warp * TILE_ROWS + lane / 4 + 8 * i) * 8 + lane % 4 * 2;
        *(float2*)to = make_float2(sums[2 * i], sums[2 * i + 1]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TILE_ROWS * 8; i += N_THREADS) {
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < N_WARPS; ++other) sum += parts[other * TILE_ROWS * 8 + i];
        finish(i / 8, i % 8, sum);
    }
}

// A model's places, from its first parameter and its first packed weight on: layers of K0, K1 and K2 terms.
template <int K0, int K1, int K2>
struct Places {
    static constexpr int SECOND = K0 * K1 + K1, THIRD = SECOND + K1 * K2 + K2;
    static constexpr int BIAS_1 = K0 * K1, BIAS_2 = SECOND + K1 * K2;
    // Every weight is packed twice: for the forward pass, and for the backward pass.
    static constexpr int BACK_1 = K0 * K1, BACK_2 = 2 * SECOND + K1 * K2;
    static __device__ inline int bias_3(int outputs) { return THIRD + K2 * outputs; }
    static __device__ inline int back_3(int outputs) { return 2 * THIRD + K2 * outputs; }
};

// What is kept of a hidden layer; either may be 0.
struct KeptLayer {
    Kept* outputs;
    unsigned char* on;
};

// A layer's inputs, outputs and those of the next one lie behind each other; warps' parts of sums where the first two were.
struct Rooms {
    Half *x, *y, *z;
    float* parts;
};

__device__ inline Rooms rooms() {
    constexpr int MOST = 32 * N_WARPS, ROOM = TILE_ROWS * (MOST + 8), PARTS = N_WARPS * 16 * 32 * 2;
    Half* x = (Half*)shared;
    Half* y = x + TILE_ROWS * (MOST_WHOLE_INPUTS + 8);
    return {x, y, y + (ROOM > PARTS ? ROOM : PARTS), (float*)y};
}

struct ForwardPass {
    SideBySide from;
    const float* parameters;
    const Half* packed;
    Kept* inputs;
    KeptLayer first, second;
    // A column of `outputs` numbers per row, and that many with padding.
    float* to;
    int outputs, padded;
};

// TERMS: inputs that there are, and others that are 0.
template <int K0, int TERMS, int K1, int K2, Epilogue EPILOGUE>
__device__ __noinline__ void forward_whole(ForwardPass pass, int rows) {
    typedef Places<K0, K1, K2> Of;
    typedef Activated<EPILOGUE> More;
    const Rooms room = rooms();
    const int warp = threadIdx.x / 32, own = threadIdx.x % 8;
    const typename More::Nothing nothing[2] = {};
    Inputs<K0> inputs;
    inputs.load(pass.from, rows);
    WeightsAhead<K0, TERMS> first;
    WeightsAhead<K1, K1> second;
    const More more_1{{room.y, pass.first.outputs, K1}, pass.parameters + Of::BIAS_1, pass.first.on};
    const More more_2{{room.z, pass.second.outputs, K2}, pass.parameters + Of::BIAS_2, pass.second.on};
    typename More::template OfChunk<1> of_1, of_2;
    if (has_chunk<K1>()) {
        first.begin(pass.packed);
        of_1 = more_1.template of<1>(warp, 0);
    }
    if (has_chunk<K2>()) second.begin(pass.packed + 2 * Of::SECOND);
    inputs.template put<false>(room.x, pass.inputs);
    __syncthreads();
    if (has_chunk<K1>()) {
        float sums[4][4] = {};
        first.template multiply<false>(sums, room.x);
        finish_chunk(sums, more_1, of_1, nothing);
    }
    if (has_chunk<K2>()) of_2 = more_2.template of<1>(warp, 0);
    __syncthreads();
    float sums[4][4] = {};
    if (has_chunk<K2>()) second.template multiply<false>(sums, room.y);
    EightWeights<K2> last;
    last.load(pass.packed + 2 * Of::THIRD);
    const float* biases = pass.parameters + Of::bias_3(pass.padded);
    float bias = own < pass.outputs ? biases[own] : 0.0f;
    if (has_chunk<K2>()) finish_chunk(sums, more_2, of_2, nothing);
    __syncthreads();
    auto finish = [&](int row, int column, float sum) {
        if (row < rows) pass.to[row * pass.outputs + column] = sum + (column == own ? bias : biases[column]);
    };
    if (pass.outputs > 8) {
        multiply_few<false, K2>(room.z, pass.packed + 2 * Of::THIRD, 0, pass.outputs, room.parts, finish);
        return;
    }
    add_eight<false, K2>(room.z, last, room.parts, [&](int row, int column, float sum) {
        if (column < pass.outputs) finish(row, column, sum);
    });
}

template <class Slopes>
struct BackwardPass {
    SideBySide from;
    const Half* packed;
    // Derivatives by the last layer's sums, and what becomes of those by the hidden ones'.
    Kept* d_last;
    Slopes second, first;
    // Derivatives by inputs `begin` to begin + width - 1; none: 0.
    float* to;
    int begin, width;
};

// K3: outputs, with padding, of which TERMS may be other than 0.
template <int K0, int K1, int K2, int K3, int TERMS, class Slopes>
__device__ __noinline__ void backward_whole(BackwardPass<Slopes> pass, int rows) {
    typedef Places<K0, K1, K2> Of;
    const Rooms room = rooms();
    const int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4;
    Inputs<K3> inputs;
    inputs.load(pass.from, rows);
    WeightsAhead<K3, TERMS> third;
    WeightsAhead<K2, K2> second;
    Slopes &more_2 = pass.second, &more_1 = pass.first;
    more_2.into.to = room.y;
    more_1.into.to = room.z;
    decltype(more_1.template of<1>(0, 0)) of_2 = {}, of_1 = {};
    decltype(more_1.of_row(0, 0)) rows_2[2] = {}, rows_1[2] = {};
    if (has_chunk<K2>()) {
        third.begin(pass.packed + Of::back_3(K3));
        of_2 = more_2.template of<1>(warp, 0);
        for (int i = 0; i < 2; ++i) rows_2[i] = more_2.of_row(row + 8 * i, warp);
    }
    if (has_chunk<K1>()) {
        of_1 = more_1.template of<1>(warp, 0);
        for (int i = 0; i < 2; ++i) rows_1[i] = more_1.of_row(row + 8 * i, warp);
        second.begin(pass.packed + Of::BACK_2);
    }
    inputs.template put<true>(room.x, pass.d_last);
    __syncthreads();
    if (has_chunk<K2>()) {
        float sums[4][4] = {};
        third.template multiply<true>(sums, room.x);
        finish_chunk(sums, more_2, of_2, rows_2);
    }
    __syncthreads();
    float sums[4][4] = {};
    if (has_chunk<K1>()) second.template multiply<true>(sums, room.y);
    EightWeights<K1> first;
    if (pass.to) first.load(pass.packed + Of::BACK_1);
    if (has_chunk<K1>()) finish_chunk(sums, more_1, of_1, rows_1);
    if (!pass.to) return;
    __syncthreads();
    auto finish = [&](int row, int column, float sum) {
        if (row < rows) pass.to[row * pass.width + column - pass.begin] = sum;
    };
    if (pass.begin + pass.width > 8) {
        multiply_few<true, K1>(room.z, pass.packed + Of::BACK_1, pass.begin, pass.width, room.parts, finish);
        return;
    }
    add_eight<true, K1>(room.z, first, room.parts, [&](int row, int column, float sum) {
        if (column >= pass.begin && column < pass.begin + pass.width) finish(row, column, sum);
    });
}
