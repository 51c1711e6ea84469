// Running moments of observations and rewards, and what they are normalised by. Twin of normalise.rs:
// batches are combined by Chan's formula in a fixed order, all in f64.

#define WIDE_EPSILON 1e-8

// Number of samples, mean, and variance over that number.
struct WideMoments {
    double count, mean, var;
};

__device__ inline WideMoments wide_merge(WideMoments a, WideMoments b) {
    double total = a.count + b.count;
    if (b.count == 0.0) return a;
    double own = a.count / total, share = b.count / total, delta = b.mean - a.mean;
    WideMoments both = {total, a.mean + delta * share,
                        a.var * own + b.var * share + delta * delta * own * share};
    return both;
}

// Moments of what the agents in the game see now, per share of the rows and number: [shares, P_WIDTH].
// A block has 32 numbers of one share; its eight rows of threads take rows in turn.
extern "C" __global__ void wide_look(const WidePlaces* places, unsigned int rows,
                                     unsigned int shares, WideMoments* parts) {
    __shared__ double sums[8][32], counts[8][32];
    unsigned int share = blockIdx.x % shares, size = (rows + shares - 1) / shares;
    unsigned int column = blockIdx.x / shares * 32 + threadIdx.x % 32, lane = threadIdx.x / 32;
    unsigned int from = share * size < rows ? share * size : rows;
    unsigned int to = from + size < rows ? from + size : rows;
    WideMoments moments = {0.0, 0.0, 0.0};
    for (int pass = 0; pass < 2; ++pass) {
        double sum = 0.0, count = 0.0;
        for (unsigned int row = from + lane; row < to; row += 8) {
            WidePlace place = wide_place(places, row);
            bool there = !P_MORTAL || !place.group->alive || place.group->alive[place.row] != 0;
            if (!there || column >= P_WIDTH) continue;
            double x = place.group->obs[place.row * P_WIDTH + column];
            sum += pass == 0 ? x : (x - moments.mean) * (x - moments.mean);
            count += 1.0;
        }
        sums[lane][threadIdx.x % 32] = sum;
        counts[lane][threadIdx.x % 32] = count;
        __syncthreads();
        sum = count = 0.0;
        for (int i = 0; i < 8; ++i) {
            sum += sums[i][threadIdx.x % 32];
            count += counts[i][threadIdx.x % 32];
        }
        __syncthreads();
        double mean = count > 0.0 ? sum / count : 0.0;
        moments.count = count;
        if (pass == 0) moments.mean = mean;
        if (pass == 1) moments.var = mean;
    }
    if (lane == 0 && column < P_WIDTH) parts[share * P_WIDTH + column] = moments;
}

// Adds a step's shares to what the rollout at hand holds, [P_WIDTH].
extern "C" __global__ void wide_remember(const WideMoments* parts, unsigned int shares,
                                         WideMoments* pending) {
    unsigned int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= P_WIDTH) return;
    WideMoments step = {0.0, 0.0, 0.0};
    for (unsigned int share = 0; share < shares; ++share) {
        step = wide_merge(step, parts[share * P_WIDTH + column]);
    }
    pending[column] = wide_merge(pending[column], step);
}

// Lets what the rollout held count from now on.
extern "C" __global__ void wide_count_in(WideMoments* moments, WideMoments* pending, float* factors) {
    unsigned int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= P_WIDTH) return;
    WideMoments now = wide_merge(moments[column], pending[column]), none = {0.0, 0.0, 0.0};
    moments[column] = now;
    pending[column] = none;
    factors[2 * column] = (float)now.mean;
    factors[2 * column + 1] = (float)(1.0 / sqrt(now.var + WIDE_EPSILON));
    if (column == 0) factors[2 * P_WIDTH] = now.count > 0.0 ? 1.0f : 0.0f;
}

// Discounted returns of every row at every step, [steps, rows]; `running` [rows] goes on from rollout
// to rollout.
extern "C" __global__ void wide_discount(unsigned int steps, unsigned int rows, const float* rewards,
                                         const unsigned char* ended, unsigned long long gamma_bits,
                                         double* running, float* discounted) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    double gamma = __longlong_as_double((long long)gamma_bits), sum = running[row];
    for (unsigned int t = 0; t < steps; ++t) {
        unsigned long long cell = (unsigned long long)t * rows + row;
        sum = sum * gamma + (double)rewards[cell];
        discounted[cell] = (float)sum;
        if (ended[cell] != 0) sum = 0.0;
    }
    running[row] = sum;
}

// Moments of a step's discounted returns, a block of 256 threads per step.
extern "C" __global__ void wide_return_moments(unsigned int rows, const float* discounted,
                                               const unsigned char* weights, WideMoments* steps) {
    __shared__ double mean;
    unsigned long long first = (unsigned long long)blockIdx.x * rows;
    double count = 0.0, sum = 0.0, squares = 0.0;
    for (unsigned int row = threadIdx.x; row < rows; row += 256) {
        if (P_MORTAL && weights[first + row] == 0) continue;
        count += 1.0;
        sum += discounted[first + row];
    }
    count = wide_block_sum(count);
    sum = wide_block_sum(sum);
    if (threadIdx.x == 0) mean = count > 0.0 ? sum / count : 0.0;
    __syncthreads();
    for (unsigned int row = threadIdx.x; row < rows; row += 256) {
        if (P_MORTAL && weights[first + row] == 0) continue;
        double off = (double)discounted[first + row] - mean;
        squares += off * off;
    }
    squares = wide_block_sum(squares);
    if (threadIdx.x != 0) return;
    WideMoments moments = {count, mean, count > 0.0 ? squares / count : 0.0};
    steps[blockIdx.x] = moments;
}

// Adds them up, step after step, in one thread.
extern "C" __global__ void wide_learn_returns(const WideMoments* steps, unsigned int n,
                                              WideMoments* moments) {
    WideMoments all = *moments;
    for (unsigned int t = 0; t < n; ++t) all = wide_merge(all, steps[t]);
    *moments = all;
}

// Divides rewards by the deviation of returns.
extern "C" __global__ void wide_scale_rewards(unsigned long long n, const WideMoments* moments,
                                              float* rewards) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float scaled = rewards[i] * (float)(1.0 / sqrt(moments->var + WIDE_EPSILON));
    scaled = scaled > 10.0f ? 10.0f : scaled;
    rewards[i] = scaled < -10.0f ? -10.0f : scaled;
}
