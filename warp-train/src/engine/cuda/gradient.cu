// Gradients of weights, 32 outputs by 32 inputs at a time, and Adam's steps along them.

// What Adam multiplies and adds, in fp32 as torch has it; made by begin_step.
struct AdamStep {
    float blend_1, blend_2, keep_2, step_size, root_correction, epsilon;
};

// Counts a step and works out its constants. `constants`: both decays, epsilon, and the largest norm.
__device__ __noinline__ void begin_step(unsigned int* count, const double* constants, float rate, AdamStep* step) {
    *count += 1u;
    double t = *count;
    step->blend_1 = (float)(1.0 - constants[0]);
    step->blend_2 = (float)(1.0 - constants[1]);
    step->keep_2 = (float)constants[1];
    step->step_size = (float)((double)rate / (1.0 - pow(constants[0], t)));
    step->root_correction = (float)sqrt(1.0 - pow(constants[1], t));
    step->epsilon = (float)constants[2];
}

// Moves a parameter along its gradient.
__device__ inline void adam(const AdamStep& step, float g, float& p, float& first, float& second) {
    float m = first, v = second;
    m += (g - m) * step.blend_1;
    v = v * step.keep_2 + g * g * step.blend_2;
    first = m;
    second = v;
    // Good to a few units in the last place, unlike the quotients of the parity build, which take long.
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(v));
    p -= step.step_size * __fdividef(m, __fdividef(root, step.root_correction) + step.epsilon);
}

// Sums over the block, in a fixed order; every thread gets the result.
__device__ __noinline__ double block_sum(double value) {
    double* parts = (double*)shared;
    unsigned int thread = threadIdx.x;
    parts[thread] = value;
    __syncthreads();
    for (unsigned int half = N_THREADS / 2; half > 0; half /= 2) {
        if (thread < half) parts[thread] += parts[thread + half];
        __syncthreads();
    }
    double sum = parts[0];
    __syncthreads();
    return sum;
}

// Adds the mean of a column of n numbers to a figure's sum.
__device__ __noinline__ void add_mean(const float* column, int n, double* figure) {
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += N_THREADS) sum += (double)column[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        figure[0] += sum / (double)n;
        figure[1] += 1.0;
    }
}

// A tile of a layer's weights, and where it lies among all parameters.
struct WeightTile {
    // Its first weight, numbers from output to output, and its first bias; none: -1.
    long long weight;
    int stride;
    long long bias;
    // Outputs and inputs that are there.
    int outputs, inputs;
    // Its number among all tiles.
    int number;
    // Its weights packed for the way forward and for the way back.
    Half *forward, *back;
};

// Keeps sums of gradients, and the sum of their squares.
struct Record {
    float* gradient;
    double squares;
    __device__ inline void prepare(int, long long) {}
    __device__ inline void prepare_bias(long long) {}
    // Pair number `i` of a thread: weights of `output` from `input` on, of which n are there.
    __device__ inline void weights(const WeightTile&, int, long long at, int, int, const float (&g)[2], int n) {
        bias(at, g[0]);
        if (n > 1) bias(at + 1, g[1]);
    }
    __device__ inline void bias(long long at, float g) {
        gradient[at] = g;
        squares += (double)g * (double)g;
    }
    __device__ inline double sum_of_squares() { return block_sum(squares); };
};

// Makes Adam's step along them at once. What it changes is loaded ahead of the sums.
struct Descent {
    float *parameters, *first, *second;
    unsigned int* fault;
    unsigned int optimiser;
    AdamStep step;
    float2 p[2], m[2], v[2];
    float p_bias, m_bias, v_bias;
    __device__ inline void prepare(int i, long long at) {
        p[i] = *(const float2*)(parameters + at);
        m[i] = *(const float2*)(first + at);
        v[i] = *(const float2*)(second + at);
    }
    __device__ inline void prepare_bias(long long at) {
        p_bias = parameters[at];
        m_bias = first[at];
        v_bias = second[at];
    }
    __device__ inline void check(float g) {
        if (!(g * 0.0f == 0.0f)) *fault = optimiser;
    }
    // Padding stays 0.
    __device__ inline void weights(const WeightTile& tile, int i, long long at, int output, int input,
                                   const float (&g)[2], int n) {
        adam(step, g[0], p[i].x, m[i].x, v[i].x);
        if (n > 1) adam(step, g[1], p[i].y, m[i].y, v[i].y);
        check(g[0] + g[1]);
        *(float2*)(parameters + at) = p[i];
        *(float2*)(first + at) = m[i];
        *(float2*)(second + at) = v[i];
        pack_two(tile.forward, tile.back, output, input, p[i].x, p[i].y);
    }
    __device__ inline void bias(long long at, float g) {
        adam(step, g, p_bias, m_bias, v_bias);
        check(g);
        parameters[at] = p_bias;
        first[at] = m_bias;
        second[at] = v_bias;
    }
    __device__ inline double sum_of_squares() { return 0.0; }
};

// Sums share `part` of `parts` of all slabs' rows; a block's work. Returns the sum of squares.
template <class Take>
__device__ __noinline__ double weight_tile(const WeightTile& tile, const Slab* slabs, int n_slabs, int part, int parts,
                                     Take take) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    long long weights_at[2], bias_at = tile.bias + bias_of(warp, lane);
    bool has_weights[2];
    bool has_bias = tile.bias >= 0 && lane % 4 == 0 && warp < 4 && bias_of(warp, lane) < tile.outputs;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int output = output_of(warp, lane, i), input = input_of(warp, lane, i);
        weights_at[i] = tile.weight + (long long)output * tile.stride + input;
        has_weights[i] = output < tile.outputs && input < tile.inputs;
        if (has_weights[i]) take.prepare(i, weights_at[i]);
    }
    if (has_bias) take.prepare_bias(bias_at);
    WeightSums sums = {};
    for (int i = 0; i < n_slabs; ++i) {
        long long n = slabs[i].rows / ROWS_AT_ONCE;
        add_rows(sums, slabs[i], (int)(n * part / parts) + warp, (int)(n * (part + 1) / parts), tile.bias >= 0);
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) shared[(warp * SUMS + i) * 32 + lane] = sums.weight(i);
#pragma unroll
    for (int i = 0; i < 4; ++i) shared[(warp * SUMS + 32 + i) * 32 + lane] = sums.bias(i);
    __syncthreads();
    float two[2][2] = {};
#pragma unroll
    for (int other = 0; other < N_WARPS; ++other) {
#pragma unroll
        for (int i = 0; i < 4; ++i) two[i / 2][i % 2] += shared[(other * SUMS + 4 * warp + i) * 32 + lane];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int output = output_of(warp, lane, i), input = input_of(warp, lane, i);
        if (has_weights[i]) take.weights(tile, i, weights_at[i], output, input, two[i], tile.inputs - input);
    }
    if (has_bias) {
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < N_WARPS; ++other) sum += shared[(other * SUMS + 32 + warp) * 32 + lane];
        take.bias(bias_at, sum);
    }
    __syncthreads();
    return take.sum_of_squares();
}

#if WARP_TILES
// The same sums as a warp's work, where there are many tiles for few blocks: one after the other it takes the parts of
// the sums that warps take elsewhere, so that the sums are the same.
__device__ __noinline__ void weight_tile_of_warp(const WeightTile& tile, const Slab* slabs, int n_slabs, Descent take) {
    int lane = threadIdx.x % 32;
    WeightSums sums = {};
#pragma unroll 1
    for (int warp = 0; warp < N_WARPS; ++warp) {
        WeightSums part = {};
        for (int i = 0; i < n_slabs; ++i) add_rows(part, slabs[i], warp, slabs[i].rows / ROWS_AT_ONCE, tile.bias >= 0);
        add_sums(sums, part);
    }
    // Through shared memory, where they can be numbered.
    float* own = shared + threadIdx.x / 32 * SUMS * 32 + lane;
#pragma unroll
    for (int i = 0; i < 32; ++i) own[32 * i] = sums.weight(i);
#pragma unroll 4
    for (int i = 0; i < 16; ++i) {
        int output = output_of(i / 2, lane, i % 2), input = input_of(i / 2, lane, i % 2);
        long long at = tile.weight + (long long)output * tile.stride + input;
        if (output >= tile.outputs || input >= tile.inputs) continue;
        const float two[2] = {own[64 * i], own[64 * i + 32]};
        Descent of_pair = take;
        of_pair.prepare(0, at);
        of_pair.weights(tile, 0, at, output, input, two, tile.inputs - input);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int output = bias_of(i, lane);
        if (tile.bias < 0 || lane % 4 != 0 || output >= tile.outputs) continue;
        take.prepare_bias(tile.bias + output);
        take.bias(tile.bias + output, sums.bias(i));
    }
    __syncwarp();
}
#endif

// Calls take(parameter) for all of a tile, which is the work of THREADS: a block or a warp.
template <int THREADS, class Take>
__device__ inline void each_of_tile(const WeightTile& tile, Take take) {
#pragma unroll 4
    for (int i = threadIdx.x % THREADS; i < 32 * 32; i += THREADS) {
        int output = i / 32, input = i % 32;
        if (output >= tile.outputs) continue;
        if (input < tile.inputs) take(tile.weight + (long long)output * tile.stride + input);
        if (input == 0 && tile.bias >= 0) take(tile.bias + output);
    }
}

// Packs a tile's weights, which the same THREADS have written.
template <int THREADS>
__device__ __noinline__ void pack_tile(const WeightTile& tile, const float* parameters) {
    if (THREADS == 32) {
        __syncwarp();
    } else {
        __syncthreads();
    }
#pragma unroll 4
    for (int i = threadIdx.x % THREADS; i < 32 * 16; i += THREADS) {
        int output = i / 16, input = i % 16 * 2;
        float2 two = *(const float2*)(parameters + tile.weight + (long long)output * tile.stride + input);
        pack_two(tile.forward, tile.back, output, input, two.x, two.y);
    }
}
