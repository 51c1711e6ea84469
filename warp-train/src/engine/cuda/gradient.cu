// Gradients of weights, 32 outputs by 32 inputs at a time, and steps along them.

// What Adam or RMSprop multiplies and adds, in fp32 as torch has it; made by begin_step.
struct DescentStep {
    float blend_1, blend_2, keep_2, step_size, root_factor, epsilon;
    // What is left of each parameter, if they decay.
    float keep;
};

// Counts a step and works out its constants. `constants`: both decays, epsilon, and the largest norm; `decay`: that of
// weights.
__device__ __noinline__ void begin_step(unsigned int* count, const double* constants, float rate, double decay,
                                        DescentStep* step) {
    *count += 1u;
    double t = *count;
    step->blend_1 = (float)(1.0 - constants[0]);
    step->blend_2 = (float)(1.0 - constants[1]);
    step->keep_2 = (float)constants[1];
    step->step_size = RMSPROP ? rate : (float)((double)rate / (1.0 - pow(constants[0], t)));
    step->root_factor = RMSPROP ? 1.0f : (float)(1.0 / sqrt(1.0 - pow(constants[1], t)));
    step->epsilon = (float)constants[2];
    step->keep = (float)(1.0 - (double)rate * decay);
}

// Moves a parameter along its gradient. The root and the quotient are good to a few units in the last place, unlike
// those of the parity build, which take long; a root that is nearly 0 counts as 0 beside epsilon.
__device__ inline void descend(const DescentStep& step, float g, float& p, float& first, float& second) {
    float m = RMSPROP ? first : __fmaf_rn(g - first, step.blend_1, first);
    float v = __fmaf_rn(second, step.keep_2, g * g * step.blend_2);
    first = m;
    second = v;
    float root, quotient;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(v));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(__fmaf_rn(root, step.root_factor, step.epsilon)));
    if (DECAYS) p *= step.keep;
    p = __fmaf_rn(-step.step_size * (RMSPROP ? g : m), quotient, p);
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
    // Its first weight, numbers from output to output where they lie in rows, and its first bias; none: -1.
    long long weight;
    int stride;
    long long bias;
    // Outputs and inputs that are there.
    int outputs, inputs;
    // Its number among all tiles.
    int number;
    // Its weights packed for the forward and for the backward pass.
    Half *forward, *back;
};

// Keeps sums of gradients, and the sum of their squares.
struct Record {
    float* gradient;
    double squares;
    struct Loaded {};
    __device__ inline void bring() const {}
    __device__ inline Loaded load_two(long long) const { return {}; }
    __device__ inline Loaded load_bias(long long) const { return {}; }
    // Two weights, of which n are there.
    __device__ inline void weights(Loaded, long long at, const float (&g)[2], int n) {
        bias({}, at, g[0]);
        if (n > 1) bias({}, at + 1, g[1]);
    }
    __device__ inline void bias(Loaded, long long at, float g) {
        gradient[at] = g;
        squares += (double)g * (double)g;
    }
    __device__ inline void pack(const WeightTile&, const Loaded (&)[2]) const {}
    __device__ inline double sum_of_squares() { return block_sum(squares); };
};

// A parameter or two, their moments, and those of a target that follows.
template <class Number>
struct Cell {
    Number parameter, first, second, target;
};

// So many arrays have them.
#define CELL_ARRAYS 4

__device__ inline float4 both(const float2& low, const float2& high) { return make_float4(low.x, low.y, high.x, high.y); }

// A step's constants, and the share of the way that a target goes.
struct Constants {
    DescentStep own_step;
    float own_tau;
    __device__ inline void bring() const {}
    __device__ inline const DescentStep& step() const { return own_step; }
    __device__ inline float tau() const { return own_tau; }
};

__shared__ DescentStep step_here;
__shared__ float tau_here;

__device__ inline void bring_word(float* to, const float* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned int)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
#else
    *to = *from;
#endif
}

__device__ inline void wait_for_words() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// The same, brought to shared memory while a block sums rows.
struct ConstantsAhead {
    const DescentStep* own_step;
    const float* own_tau;
    __device__ inline void bring() const {
        unsigned int i = threadIdx.x;
        if (i < sizeof(DescentStep) / 4) bring_word((float*)&step_here + i, (const float*)own_step + i);
        if (i == sizeof(DescentStep) / 4) bring_word(&tau_here, own_tau);
    }
    __device__ inline const DescentStep& step() const { return step_here; }
    __device__ inline float tau() const { return tau_here; }
};

// Makes a step along them at once, and lets a target follow.
template <class Of>
struct DescentBy {
    float *parameters, *first, *second;
    // How far behind a parameter its target lies, or 0.
    long long behind;
    // Whether anything goes back through the target.
    bool back_of_target;
    unsigned int* fault;
    unsigned int optimiser;
    Of constants;
    __device__ inline void bring() const { constants.bring(); }
    template <class Number>
    __device__ inline Cell<Number> load(long long at) const {
        // Nothing of it is needed again before the next update.
        Cell<Number> cell = {__ldcs((const Number*)(parameters + at)), __ldcs((const Number*)(first + at)),
                             __ldcs((const Number*)(second + at))};
        if (behind != 0) cell.target = __ldcs((const Number*)(parameters + at + behind));
        return cell;
    }
    template <class Number>
    __device__ inline void store(const Cell<Number>& cell, long long at) const {
        __stcs((Number*)(parameters + at), cell.parameter);
        __stcs((Number*)(first + at), cell.first);
        __stcs((Number*)(second + at), cell.second);
        if (behind != 0) __stcs((Number*)(parameters + at + behind), cell.target);
    }
    __device__ inline Cell<float2> load_two(long long at) const { return load<float2>(at); }
    __device__ inline Cell<float> load_bias(long long at) const { return load<float>(at); }
    __device__ inline void check(float g) const {
        if (!(g * 0.0f == 0.0f)) *fault = optimiser;
    }
    // Moves two weights of which n are there: padding stays 0.
    __device__ inline void move(Cell<float2>& cell, const float (&g)[2], int n) const {
        const DescentStep& step = constants.step();
        descend(step, g[0], cell.parameter.x, cell.first.x, cell.second.x);
        if (n > 1) descend(step, g[1], cell.parameter.y, cell.first.y, cell.second.y);
        check(g[0] + g[1]);
        if (behind == 0) return;
        cell.target.x = __fmaf_rn(constants.tau(), cell.parameter.x - cell.target.x, cell.target.x);
        cell.target.y = __fmaf_rn(constants.tau(), cell.parameter.y - cell.target.y, cell.target.y);
    }
    __device__ inline void weights(Cell<float2>& cell, long long at, const float (&g)[2], int n) const {
        move(cell, g, n);
        store(cell, at);
    }
    // The work of a warp: a lane's two times two weights.
    __device__ inline void pack(const WeightTile& tile, const Cell<float2> (&cells)[2]) const {
        pack_share(tile.forward, tile.back, cells[0].parameter, cells[1].parameter);
        if (behind == 0) return;
        // Every parameter is packed twice.
        Half* back = back_of_target ? tile.back + 2 * behind : 0;
        pack_share(tile.forward + 2 * behind, back, cells[0].target, cells[1].target);
    }
    __device__ inline void bias(Cell<float> cell, long long at, float g) const {
        descend(constants.step(), g, cell.parameter, cell.first, cell.second);
        check(g);
        if (behind != 0) cell.target = __fmaf_rn(constants.tau(), cell.parameter - cell.target, cell.target);
        store(cell, at);
    }
    __device__ inline double sum_of_squares() { return 0.0; };
};
typedef DescentBy<Constants> Descent;
typedef DescentBy<ConstantsAhead> DescentAhead;

// Adds what two neighbouring warps have put there to a sum, or by twos what both have.
__device__ inline float add_two_warps(float sum, int warp, int i, bool pairwise) {
    const float* of_warp = shared + (warp * SUMS + i) * 32 + threadIdx.x % 32;
    float first = of_warp[0], second = of_warp[SUMS * 32];
    return pairwise ? sum + (first + second) : sum + first + second;
}

// Sums share `part` of `parts` of all slabs' rows, or `pairwise` all of 256 rows at most in the order of first.cu; a block's work.
// Returns the sum of squares.
template <class Take>
__device__ __noinline__ double weight_tile(const WeightTile& tile, const Slab* slabs, int n_slabs, int part, int parts,
                                     bool pairwise, Take take) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    long long weights_at[2], bias_at = tile.bias + bias_of(warp, lane);
    bool has_weights[2];
    // Padding is 0.
    decltype(take.load_two(0)) two_loaded[2] = {};
    bool has_bias = tile.bias >= 0 && lane % 4 == 0 && warp < 4 && bias_of(warp, lane) < tile.outputs;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int output = output_of(warp, lane, i), input = input_of(warp, lane, i);
        weights_at[i] = tile.weight + weight_place(tile.stride, output, input);
        has_weights[i] = output < tile.outputs && input < tile.inputs;
        if (has_weights[i]) two_loaded[i] = take.load_two(weights_at[i]);
    }
    decltype(take.load_bias(0)) bias_loaded;
    if (has_bias) bias_loaded = take.load_bias(bias_at);
    take.bring();
    WeightSums sums = {};
    for (int i = 0; i < n_slabs; ++i) {
        long long n = slabs[i].rows / ROWS_AT_ONCE;
        int first = (int)(n * part / parts) + warp, to = (int)(n * (part + 1) / parts);
        if (pairwise) {
            first = 2 * warp;
            to = first + 2 < to ? first + 2 : to;
        }
        add_rows(sums, slabs[i], first, to, tile.bias >= 0, pairwise);
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) shared[(warp * SUMS + i) * 32 + lane] = sums.weight(i);
#pragma unroll
    for (int i = 0; i < 4; ++i) shared[(warp * SUMS + 32 + i) * 32 + lane] = sums.bias(i);
    wait_for_words();
    __syncthreads();
    float two[2][2] = {};
#pragma unroll
    for (int other = 0; other < N_WARPS; other += 2) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            two[i / 2][i % 2] = add_two_warps(two[i / 2][i % 2], other, 4 * warp + i, pairwise);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int output = output_of(warp, lane, i), input = input_of(warp, lane, i);
        if (has_weights[i]) {
            take.weights(two_loaded[i], weights_at[i], two[i], tile.inputs - input);
        }
    }
    take.pack(tile, two_loaded);
    if (has_bias) {
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < N_WARPS; other += 2) sum = add_two_warps(sum, other, 32 + warp, pairwise);
        take.bias(bias_loaded, bias_at, sum);
    }
    __syncthreads();
    return take.sum_of_squares();
}

// Calls take(parameter) for all of a tile, which is the work of THREADS: a block or a warp.
template <int THREADS, class Take>
__device__ inline void each_of_tile(const WeightTile& tile, Take take) {
#pragma unroll 4
    for (int i = threadIdx.x % THREADS; i < 32 * 32; i += THREADS) {
        int output = i / 32, input = i % 32;
        if (output >= tile.outputs) continue;
        if (input < tile.inputs) take(tile.weight + weight_place(tile.stride, output, input));
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
        float2 two = *(const float2*)(parameters + tile.weight + weight_place(tile.stride, output, input));
        pack_two(tile.forward, tile.back, output, input, two.x, two.y);
    }
}
