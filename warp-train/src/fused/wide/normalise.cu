// Running moments of observations and rewards, and what they are normalised by. Twin of normalise.rs:
// batches are combined by Chan's formula in a fixed order, all in f64.

#define WIDE_EPSILON 1e-8
// Rows that a thread loads at once, and steps whose rewards it discounts.
#define WIDE_ROWS_AT_ONCE 8
#define WIDE_DISCOUNTED 8
// Threads that add up the shares of a number, and numbers of a block that does so (normalise.rs).
#define WIDE_MOMENT_LANES 32
#define WIDE_MOMENT_COLUMNS 8

__device__ inline WideMoments wide_merge(WideMoments a, WideMoments b) {
    double total = a.count + b.count;
    if (b.count == 0.0) return a;
    double own = a.count / total, share = b.count / total, delta = b.mean - a.mean;
    WideMoments both = {total, a.mean + delta * share,
                        a.var * own + b.var * share + delta * delta * own * share};
    return both;
}

__device__ inline void wide_add(WideDistances& to, const WideDistances& more) {
    to.count += more.count;
    to.sum += more.sum;
    to.squares += more.squares;
}

// Adds what the agents in the game see now to the sums of the rollout at hand, per share of the rows and number:
// [shares, P_WIDTH]. Distances from the mean that is known are summed, so that sums hold where numbers differ little
// from a large mean. A block has 32 numbers of one share; its eight rows of threads take rows in turn.
extern "C" __global__ void wide_sum_obs(const SumObsArgs a) {
    __shared__ WideDistances of_lanes[8][32];
    __shared__ WidePlaces places;
    wide_copy_places(a.places, &places);
    __syncthreads();
    unsigned int share = blockIdx.x % a.shares, size = (a.rows + a.shares - 1) / a.shares;
    unsigned int column = blockIdx.x / a.shares * 32 + threadIdx.x % 32, lane = threadIdx.x / 32;
    unsigned int from = share * size < a.rows ? share * size : a.rows;
    unsigned int to = from + size < a.rows ? from + size : a.rows;
    unsigned int column_read = column < P_WIDTH ? column : 0, count = 0;
    WideDistances own = {0.0, 0.0, 0.0};
    double mean = (double)a.factors[2 * column_read];
    for (unsigned int row = from + lane; row < to; row += 8 * WIDE_ROWS_AT_ONCE) {
        // All loads are under way before the first is waited for.
        float x[WIDE_ROWS_AT_ONCE];
        bool there[WIDE_ROWS_AT_ONCE];
        #pragma unroll
        for (int i = 0; i < WIDE_ROWS_AT_ONCE; ++i) {
            unsigned int at = row + 8 * i;
            WidePlace place = wide_place(&places, at < to ? at : row);
            there[i] = at < to && (!P_MORTAL || !place.group->alive || place.group->alive[place.row] != 0);
            x[i] = place.group->obs[place.row * P_WIDTH + column_read];
        }
        #pragma unroll
        for (int i = 0; i < WIDE_ROWS_AT_ONCE; ++i) {
            double off = there[i] ? (double)x[i] - mean : 0.0;
            count += there[i];
            own.sum += off;
            own.squares += off * off;
        }
    }
    own.count = count;
    of_lanes[lane][threadIdx.x % 32] = own;
    __syncthreads();
    if (lane != 0 || column >= P_WIDTH) return;
    WideDistances* all = a.parts + share * P_WIDTH + column;
    own = *all;
    for (int i = 0; i < 8; ++i) wide_add(own, of_lanes[i][threadIdx.x]);
    *all = own;
}

// Makes moments of a rollout's sums, [P_WIDTH], and begins anew with them. A block has WIDE_MOMENT_COLUMNS numbers, and
// WIDE_MOMENT_LANES threads take the shares of each in turn.
extern "C" __global__ __launch_bounds__(256) void wide_obs_moments(const ObsMomentsArgs a) {
    __shared__ WideDistances of_lanes[WIDE_MOMENT_LANES][WIDE_MOMENT_COLUMNS];
    unsigned int lane = threadIdx.x / WIDE_MOMENT_COLUMNS, place = threadIdx.x % WIDE_MOMENT_COLUMNS;
    unsigned int column = blockIdx.x * WIDE_MOMENT_COLUMNS + place, shares = column < P_WIDTH ? a.shares : 0;
    WideDistances all = {0.0, 0.0, 0.0}, none = all;
    // Loads of several shares are under way at once, since nothing is stored between them.
    #pragma unroll 8
    for (unsigned int share = lane; share < shares; share += WIDE_MOMENT_LANES)
        wide_add(all, a.parts[share * P_WIDTH + column]);
    for (unsigned int share = lane; share < shares; share += WIDE_MOMENT_LANES) a.parts[share * P_WIDTH + column] = none;
    of_lanes[lane][place] = all;
    __syncthreads();
    if (lane != 0 || column >= P_WIDTH) return;
    for (unsigned int i = 1; i < WIDE_MOMENT_LANES; ++i) wide_add(all, of_lanes[i][place]);
    WideMoments held = {0.0, 0.0, 0.0};
    if (all.count > 0.0) {
        double off = all.sum / all.count, var = all.squares / all.count - off * off;
        held.count = all.count;
        held.mean = (double)a.factors[2 * column] + off;
        // What is no number stays none.
        held.var = var < 0.0 ? 0.0 : var;
    }
    a.pending[column] = held;
}

// Lets what the rollouts of all ranks held, [P_RANKS, P_WIDTH], count from now on.
extern "C" __global__ void wide_merge_moments(const MergeMomentsArgs a) {
    unsigned int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= P_WIDTH) return;
    WideMoments now = a.moments[column], none = {0.0, 0.0, 0.0};
    for (int rank = 0; rank < P_RANKS; ++rank) now = wide_merge(now, a.held[rank * P_WIDTH + column]);
    a.moments[column] = now;
    a.pending[column] = none;
    a.factors[2 * column] = (float)now.mean;
    a.factors[2 * column + 1] = (float)(1.0 / sqrt(now.var + WIDE_EPSILON));
    if (column == 0) a.factors[2 * P_WIDTH] = now.count > 0.0 ? 1.0f : 0.0f;
}

// Discounted returns of every row at every step, [steps, rows]; `running` [rows] goes on from rollout
// to rollout.
extern "C" __global__ void wide_discount(const DiscountArgs a) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= a.rows) return;
    double sum = a.running[row], gamma = a.settings->gamma;
    for (unsigned int begin = 0; begin < a.steps; begin += WIDE_DISCOUNTED) {
        // All loads of some steps are under way before the first is waited for.
        float rewards[WIDE_DISCOUNTED];
        unsigned int ended[WIDE_DISCOUNTED];
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_DISCOUNTED; ++k) {
            unsigned int t = begin + k < a.steps ? begin + k : begin;
            unsigned long long cell = (unsigned long long)t * a.rows + row;
            rewards[k] = a.rewards[cell], ended[k] = a.ended[cell];
        }
        wide_loaded(rewards), wide_loaded(ended);
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_DISCOUNTED; ++k) {
            if (begin + k >= a.steps) break;
            sum = sum * gamma + (double)rewards[k];
            a.discounted[(unsigned long long)(begin + k) * a.rows + row] = (float)sum;
            if (ended[k] != 0) sum = 0.0;
        }
    }
    a.running[row] = sum;
}

// Moments of a step's discounted returns, a block of 256 threads per step.
extern "C" __global__ void wide_return_moments(const ReturnMomentsArgs a) {
    __shared__ double mean;
    unsigned long long first = (unsigned long long)blockIdx.x * a.rows;
    double count = 0.0, sum = 0.0, squares = 0.0;
    for (unsigned int row = threadIdx.x; row < a.rows; row += 256) {
        if (P_MORTAL && a.weights[first + row] == 0) continue;
        count += 1.0;
        sum += a.discounted[first + row];
    }
    count = wide_block_sum(count);
    sum = wide_block_sum(sum);
    if (threadIdx.x == 0) mean = count > 0.0 ? sum / count : 0.0;
    __syncthreads();
    for (unsigned int row = threadIdx.x; row < a.rows; row += 256) {
        if (P_MORTAL && a.weights[first + row] == 0) continue;
        double off = (double)a.discounted[first + row] - mean;
        squares += off * off;
    }
    squares = wide_block_sum(squares);
    if (threadIdx.x != 0) return;
    WideMoments moments = {count, mean, count > 0.0 ? squares / count : 0.0};
    a.steps[blockIdx.x] = moments;
}

// Adds them up, step after step, in one thread; to none if `anew`.
extern "C" __global__ void wide_learn_returns(const LearnReturnsArgs a) {
    WideMoments none = {0.0, 0.0, 0.0}, all = a.anew ? none : *a.moments;
    for (unsigned int begin = 0; begin < a.n; begin += 4) {
        // The loads of four steps are under way before the first is waited for.
        WideMoments some[4];
        #pragma unroll
        for (unsigned int k = 0; k < 4; ++k) some[k] = a.steps[begin + k < a.n ? begin + k : begin];
        #pragma unroll
        for (unsigned int k = 0; k < 4; ++k) {
            if (begin + k < a.n) all = wide_merge(all, some[k]);
        }
    }
    *a.moments = all;
}

// Divides rewards by the deviation of returns.
extern "C" __global__ void wide_scale_rewards(const ScaleRewardsArgs a) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n) return;
    float scaled = a.rewards[i] * (float)(1.0 / sqrt(a.moments->var + WIDE_EPSILON));
    scaled = scaled > 10.0f ? 10.0f : scaled;
    a.rewards[i] = scaled < -10.0f ? -10.0f : scaled;
}
