// Gradients of weights: sums over rows of products of derivatives and inputs, 32 by 32 at a time.

// Rows of a pass: inputs [rows, k] and derivatives [rows, n] of a layer, from its 32 columns on.
struct Slab {
    const float* x;
    const float* d;
    int k, n;
    // Rows, a multiple of 16.
    int rows;
};

// A thread's sums: those of weights [4 outputs, 8 inputs] and of biases, per lane. Lane 4 q + t has
// outputs 4 q to 4 q + 3 and inputs 8 t to 8 t + 7.
struct WeightSums {
    float weight[4][8];
    float bias[4];
};

// Adds 8 rows.
__device__ inline void add_rows(WeightSums& sums, const Slab& slab, int row) {
    int lane = threadIdx.x % 32, q = lane / 4, t = lane % 4;
#if EXACT
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float* x = slab.x + (long long)(row + i) * slab.k + 8 * t;
        float4 d = load_four(slab.d + (long long)(row + i) * slab.n + 4 * q);
        float4 low = load_four(x), high = load_four(x + 4);
#pragma unroll
        for (int a = 0; a < 4; ++a) {
            sums.bias[a] += part_of(d, a);
#pragma unroll
            for (int b = 0; b < 4; ++b) {
                sums.weight[a][b] = fmaf(part_of(d, a), part_of(low, b), sums.weight[a][b]);
                sums.weight[a][4 + b] = fmaf(part_of(d, a), part_of(high, b), sums.weight[a][4 + b]);
            }
        }
    }
#else
    // Output 4 q + 2 i + half is row q + 8 half of product i, input 4 q + j is column q of product j.
    float4 d[2], x[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        d[h] = load_four(slab.d + (long long)(row + t + 4 * h) * slab.n + 4 * q);
        x[h] = load_four(slab.x + (long long)(row + t + 4 * h) * slab.k + 4 * q);
    }
#pragma unroll
    for (int a = 0; a < 4; ++a) sums.bias[a] += part_of(d[0], a) + part_of(d[1], a);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        unsigned int a[4] = {as_tf32(part_of(d[0], 2 * i)), as_tf32(part_of(d[0], 2 * i + 1)),
                             as_tf32(part_of(d[1], 2 * i)), as_tf32(part_of(d[1], 2 * i + 1))};
        float(&top)[8] = sums.weight[2 * i], (&low)[8] = sums.weight[2 * i + 1];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            multiply_add(top[j], top[4 + j], low[j], low[4 + j], a, as_tf32(part_of(x[0], j)),
                         as_tf32(part_of(x[1], j)));
        }
    }
#endif
}

// What Adam multiplies and adds, in fp32 as torch has it; made by begin_step.
struct AdamStep {
    float blend_1, blend_2, keep_2, step_size, root_correction, epsilon;
};

// Counts a step and works out its constants. `constants`: both decays, epsilon, and the largest norm.
__device__ inline void begin_step(unsigned int* count, const double* constants, float rate, AdamStep* step) {
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
__device__ inline double block_sum(double value) {
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

// Keeps sums of gradients, and the sum of their squares.
struct Record {
    float* gradient;
    double squares;
    __device__ inline void prepare(long long, long long) {}
    __device__ inline void weights(long long at, const float (&g)[4], int n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i < n) bias(at + i, g[i]);
        }
    }
    __device__ inline void bias(long long at, float g) {
        gradient[at] = g;
        squares += (double)g * (double)g;
    }
    __device__ inline double sum_of_squares() { return block_sum(squares); }
};

// Makes Adam's step along them at once. What it changes is loaded ahead of the sums.
struct Descent {
    float *parameters, *first, *second;
    unsigned int* fault;
    unsigned int optimiser;
    AdamStep step;
    float4 p, m, v;
    float p_bias, m_bias, v_bias;
    __device__ inline void prepare(long long weights_at, long long bias_at) {
        if (weights_at >= 0) {
            p = load_four(parameters + weights_at);
            m = load_four(first + weights_at);
            v = load_four(second + weights_at);
        }
        if (bias_at >= 0) {
            p_bias = parameters[bias_at];
            m_bias = first[bias_at];
            v_bias = second[bias_at];
        }
    }
    __device__ inline void check(float g) {
        if (!(g * 0.0f == 0.0f)) *fault = optimiser;
    }
    // Padding stays 0.
    __device__ inline void weights(long long at, const float (&g)[4], int n) {
        adam(step, g[0], p.x, m.x, v.x);
        check(g[0]);
        if (n > 1) adam(step, g[1], p.y, m.y, v.y);
        if (n > 2) adam(step, g[2], p.z, m.z, v.z);
        if (n > 3) adam(step, g[3], p.w, m.w, v.w);
        check(g[1] + g[2] + g[3]);
        *(float4*)(parameters + at) = p;
        *(float4*)(first + at) = m;
        *(float4*)(second + at) = v;
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
};

// Sums share `part` of `parts` of all slabs' rows; a block's work. Returns the sum of squares.
template <class Take>
__device__ inline double weight_tile(WeightTile tile, const Slab* slabs, int n_slabs, int part,
                                           int parts, Take take) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, q = lane / 4, t = lane % 4;
    // In the end warp w adds up four inputs of output w / 2 of each lane.
    int output = 4 * q + warp / 2, input = 8 * t + warp % 2 * 4;
    bool has_weights = output < tile.outputs && input < tile.inputs;
    bool has_bias = tile.bias >= 0 && t == 0 && warp < 4 && 4 * q + warp < tile.outputs;
    long long weights_at = tile.weight + (long long)output * tile.stride + input;
    long long bias_at = tile.bias + 4 * q + warp;
    take.prepare(has_weights ? weights_at : -1, has_bias ? bias_at : -1);
    WeightSums sums = {};
    for (int i = 0; i < n_slabs; ++i) {
        Slab slab = slabs[i];
        long long eights = slab.rows / 8;
        int to = (int)(eights * (part + 1) / parts);
#pragma unroll 4
        for (int at = (int)(eights * part / parts) + warp; at < to; at += N_WARPS) add_rows(sums, slab, 8 * at);
    }
#if !EXACT
#pragma unroll
    for (int a = 0; a < 4; ++a) {
        sums.bias[a] += __shfl_xor_sync(0xffffffffu, sums.bias[a], 1);
        sums.bias[a] += __shfl_xor_sync(0xffffffffu, sums.bias[a], 2);
    }
#endif
#pragma unroll
    for (int i = 0; i < 32; ++i) shared[(warp * 36 + i) * 32 + lane] = sums.weight[i / 8][i % 8];
#pragma unroll
    for (int a = 0; a < 4; ++a) shared[(warp * 36 + 32 + a) * 32 + lane] = sums.bias[a];
    __syncthreads();
    float four[4] = {};
#pragma unroll
    for (int other = 0; other < N_WARPS; ++other) {
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] += shared[(other * 36 + 4 * warp + i) * 32 + lane];
    }
    if (has_weights) take.weights(weights_at, four, tile.inputs - input);
    if (has_bias) {
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < N_WARPS; ++other) sum += shared[(other * 36 + 32 + warp) * 32 + lane];
        take.bias(bias_at, sum);
    }
    __syncthreads();
    return take.sum_of_squares();
}

// Calls take(parameter) for all of a tile.
template <class Take>
__device__ inline void each_of_tile(const WeightTile& tile, Take take) {
    for (int i = threadIdx.x; i < 32 * 32; i += N_THREADS) {
        int output = i / 32, input = i % 32;
        if (output >= tile.outputs) continue;
        if (input < tile.inputs) take(tile.weight + (long long)output * tile.stride + input);
        if (input == 0 && tile.bias >= 0) take(tile.bias + output);
    }
}
