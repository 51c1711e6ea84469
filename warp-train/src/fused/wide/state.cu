// Where the environment's arrays lie, and what all kernels do. Structs that the host knows, too, are made
// from shared.rs and args.rs.

// Agents of one group that the policy acts for.
struct WideGroup {
    const float* obs;
    const unsigned char* action_mask;
    void* action;
    const float* reward;
    const unsigned char* alive;
    const unsigned char* agent_terminated;
    const float* final_obs;
};

struct WidePlaces {
    WideGroup groups[P_GROUPS];
    const unsigned char* terminated;
    const unsigned char* truncated;
    // Steps of the run done.
    const unsigned int* run_step;
};

// The number of a rollout's step among those of the run. The environment counts the step before it while the policy acts,
// except before the rollout's first one, so it is counted from there.
__device__ inline unsigned int wide_run_step(const WideStep& step, const WidePlaces* places) {
    if (step.t > 0) return step.state->first_step + step.t;
    unsigned int first = *places->run_step;
    step.state->first_step = first;
    return first;
}

__device__ const unsigned int wide_group_first[] = P_GROUP_FIRST;
__device__ const unsigned int wide_group_agents[] = P_GROUP_AGENTS;
// An agent's number in its group, less that in the policy.
__device__ const int wide_group_shift[] = P_GROUP_SHIFT;

// Where an agent of the policy lies in its group's arrays.
struct WidePlace {
    const WideGroup* group;
    unsigned int replica, agent;
    // Row of [n_envs, n_agents in the group].
    unsigned long long row;
};

__device__ inline WidePlace wide_place(const WidePlaces* places, unsigned int row) {
    unsigned int replica = row / P_AGENTS, agent = row % P_AGENTS, g = 0;
    unsigned long long at = row;
    if (!P_WHOLE) {
        while (g + 1 < P_GROUPS && agent >= wide_group_first[g + 1]) ++g;
        at = (unsigned long long)replica * wide_group_agents[g] + agent + wide_group_shift[g];
    }
    WidePlace place = {&places->groups[g], replica, agent, at};
    return place;
}

// A copy in shared memory, for the block.
__device__ inline void wide_copy_places(const WidePlaces* from, WidePlaces* to) {
    typedef unsigned long long Word;
    static_assert(sizeof(WidePlaces) % sizeof(Word) == 0, "places are addresses");
    for (unsigned int i = threadIdx.x; i < sizeof(WidePlaces) / sizeof(Word); i += blockDim.x) {
        ((Word*)to)[i] = ((const Word*)from)[i];
    }
}

// Keeps loads of numbers from being moved behind branches that follow, where each would be waited for by itself.
template <int N> __device__ inline void wide_loaded(float (&x)[N]) {
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i]));
}
template <int N> __device__ inline void wide_loaded(unsigned int (&x)[N]) {
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+r"(x[i]));
}
template <int N> __device__ inline void wide_loaded(double (&x)[N]) {
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+d"(x[i]));
}

// Sums of N numbers over the block's 256 threads, in a fixed order; the results are thread 0's.
template <int N> __device__ inline void wide_block_sums(double (&values)[N]) {
    __shared__ double parts[N][256];
    #pragma unroll
    for (int k = 0; k < N; ++k) parts[k][threadIdx.x] = values[k];
    __syncthreads();
    for (unsigned int half = 128; half > 32; half /= 2) {
        if (threadIdx.x < half) {
            #pragma unroll
            for (int k = 0; k < N; ++k) parts[k][threadIdx.x] += parts[k][threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        #pragma unroll
        for (int k = 0; k < N; ++k) {
            double sum = parts[k][threadIdx.x] + parts[k][threadIdx.x + 32];
            #pragma unroll
            for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(0xffffffffu, sum, half);
            values[k] = sum;
        }
    }
    __syncthreads();
}
__device__ inline double wide_block_sum(double value) {
    double values[1] = {value};
    wide_block_sums(values);
    return values[0];
}

// The largest of N numbers over the block's 256 threads; the results are thread 0's.
template <int N> __device__ inline void wide_block_largest(double (&values)[N]) {
    __shared__ double parts[N][8];
    #pragma unroll
    for (int k = 0; k < N; ++k) {
        #pragma unroll
        for (int half = 16; half > 0; half /= 2) {
            double other = __shfl_down_sync(0xffffffffu, values[k], half);
            values[k] = other > values[k] ? other : values[k];
        }
        if (threadIdx.x % 32 == 0) parts[k][threadIdx.x / 32] = values[k];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        #pragma unroll
        for (int k = 0; k < N; ++k) {
            for (int i = 1; i < 8; ++i) values[k] = parts[k][i] > values[k] ? parts[k][i] : values[k];
        }
    }
    __syncthreads();
}

// How many of the `rows` rows from `first` on there are in the minibatch at hand; all of them where
// rows are not sampled.
__device__ inline unsigned int wide_present(const WideState* state, int sampled,
                                            unsigned int first, unsigned int rows) {
    if (!sampled) return rows;
    unsigned int n = state->end - state->begin;
    unsigned int left = n > first ? n - first : 0u;
    return left < rows ? left : rows;
}

// The largest number that an observation may become.
#define WIDE_MOST_SCALED 10.0f

// A number of an observation less its mean, times 1 / its deviation, within bounds.
__device__ inline float wide_scaled(float x, float mean, float scale, float most = WIDE_MOST_SCALED) {
    float y = (x - mean) * scale;
    // A NaN stays one and is noticed.
    y = y > most ? most : y;
    return y < -most ? -most : y;
}

// A number of an observation as the network sees it. Factors are mean and 1 / deviation of every number,
// and whether they count yet: f32 [2 P_WIDTH + 1].
__device__ inline float wide_normalised(float x, unsigned int column, const float* factors) {
    if (!P_NORM_OBS || factors == 0 || factors[2 * P_WIDTH] == 0.0f) return x;
    return wide_scaled(x, factors[2 * column], factors[2 * column + 1]);
}
