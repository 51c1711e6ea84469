// Filling a rollout: what the agents see, what they do, what comes of it. A row is one agent of one
// replica; rollout arrays are [steps, rows, ...].

// Number `column` of what a row's agent sees before step t; keeps it, and whether the agent may do what has that number, with the
// first one also whether it is in the game. Masks may be wider than observations: then number c also brings the bytes
// c + P_WIDTH, c + 2 P_WIDTH and so on.
__device__ inline float wide_see(const WidePlaces* places, unsigned int t, unsigned int rows, unsigned int row,
                                 unsigned int column, const WideSeen& seen) {
    WidePlace place = wide_place(places, row);
    unsigned long long cell = (unsigned long long)t * rows + row;
    float x = wide_normalised(place.group->obs[place.row * P_WIDTH + column], column, seen.factors);
    wide_keep_obs(seen.obs, cell, column, x);
    for (unsigned int j = column; j < P_MASK; j += P_WIDTH) {
        seen.masks[cell * P_MASK + j] = place.group->action_mask[place.row * P_MASK + j];
    }
    if (P_MORTAL && column == 0) seen.weights[cell] = place.group->alive ? place.group->alive[place.row] : 1;
    return x;
}

// What the agents see before step t, and who is in the game.
extern "C" __global__ void wide_inputs(const InputsArgs a) {
    unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int row = (unsigned int)(at / P_WIDTH), column = (unsigned int)(at % P_WIDTH);
    if (row < a.rows) wide_see(a.places, a.t, a.rows, row, column, a.seen);
}

// Draws the actions of `part` rows from `first` on, whose outputs lie in `outs`, f32 [part, P_OUT + 1].
extern "C" __global__ void wide_act(const ActArgs a) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
#if P_LARGEST_HEAD
    if (i / 32 < a.part) wide_decide_together(a.step, a.first + i / 32, a.outs + (unsigned long long)(i / 32) * (P_OUT + 1));
#else
    if (i < a.part) wide_decide(a.step, a.first + i, a.outs + (unsigned long long)i * (P_OUT + 1));
#endif
}

// What came of step t.
extern "C" __global__ void wide_outcome(const OutcomeArgs a) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < a.rows) wide_keep_outcome(a, a.places, a.t, row);
}

// Values of some rows, the last column of `outs`, to `values` from `at` on.
extern "C" __global__ void wide_take_values(const TakeValuesArgs a) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.part) return;
    float value = a.outs[(unsigned long long)i * (P_OUT + 1) + P_OUT];
    if (!(value * 0.0f == 0.0f)) atomicOr(&a.state->fault, WIDE_FAULT_OUTPUT);
    a.values[a.at + i] = value;
}

// Values of the slots [P_SLOTS, rows], to the steps that they belong to.
extern "C" __global__ void wide_scatter_cut(const ScatterCutArgs a) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.n && a.cut_cell[i] != 0xffffffffu) a.truncated_values[a.cut_cell[i]] = a.cut_values[i];
}

// Steps whose advantages are computed at once.
#define WIDE_AT_ONCE 8

// Keeps a sample's advantage and return; towers on tensor cores read them beside its log-probability and value.
__device__ inline void wide_keep(const GaeArgs& a, unsigned long long cell, float advantage, float target,
                                 float value, float log_prob) {
    a.advantages[cell] = advantage;
    a.returns[cell] = target;
    if (P_KNOWN) ((float4*)a.known)[cell] = make_float4(advantage, log_prob, target, value);
}

// Advantages and returns; a thread per row goes back in time. Twin of gae.rs.
extern "C" __global__ void wide_gae(const GaeArgs a) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= a.rows) return;
    float next_value = a.values[(unsigned long long)a.steps * a.rows + row], next_advantage = 0.0f;
    float next_return = 0.0f, gamma = (float)a.settings->gamma, lambda = a.settings->gae_lambda;
    for (unsigned int end = a.steps; end > 0;) {
        // All loads of some steps are under way before the first is waited for.
        unsigned int begin = end > WIDE_AT_ONCE ? end - WIDE_AT_ONCE : 0;
        float values[WIDE_AT_ONCE], rewards[WIDE_AT_ONCE], log_probs[WIDE_AT_ONCE], truncated[WIDE_AT_ONCE];
        unsigned int overs[WIDE_AT_ONCE];
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_AT_ONCE; ++k) {
            unsigned int t = begin + k < end ? begin + k : begin;
            unsigned long long cell = (unsigned long long)t * a.rows + row;
            values[k] = a.values[cell], rewards[k] = a.rewards[cell], overs[k] = a.ended[cell];
            log_probs[k] = P_KNOWN ? a.log_probs[cell] : 0.0f;
            // Few episodes end here, but in a warp some do at most steps, and would be waited for one by one.
            truncated[k] = a.truncated_values[cell];
        }
        wide_loaded(values), wide_loaded(rewards), wide_loaded(overs), wide_loaded(log_probs), wide_loaded(truncated);
        #pragma unroll
        for (unsigned int k = WIDE_AT_ONCE; k-- > 0;) {
            if (begin + k >= end) continue;
            unsigned long long cell = (unsigned long long)(begin + k) * a.rows + row;
            float value = values[k], reward = rewards[k];
            bool over = overs[k] != 0;
            if (a.compat_last_step) {
                float on = begin + k + 1 == a.steps ? value : reward + gamma * next_return;
                next_return = over ? reward : on;
                wide_keep(a, cell, next_return - value, next_return, value, log_probs[k]);
                continue;
            }
            float after = over ? truncated[k] : next_value;
            float delta = reward + gamma * after - value;
            next_advantage = delta + gamma * lambda * (over ? 0.0f : next_advantage);
            next_value = value;
            wide_keep(a, cell, next_advantage, next_advantage + value, value, log_probs[k]);
        }
        end = begin;
    }
}

// Whether a cell is learned from: its agent was in the game, and its replica is one that was selected.
__device__ inline bool wide_counts(const CellsArgs& a, unsigned int cell) {
    if (cell >= a.cells || (P_MORTAL && a.weights[cell] == 0)) return false;
    return !P_SELECTS || a.selected[cell % a.rows / P_AGENTS] != 0;
}

// How many of each block's 1,024 cells count.
extern "C" __global__ void wide_count(const CountArgs a) {
    double own = 0.0;
    for (unsigned int k = 0; k < 4; ++k) {
        unsigned int i = blockIdx.x * 1024 + k * 256 + threadIdx.x;
        own += wide_counts(a.of, wide_cell(a.of.rows, a.of.cells, i)) ? 1.0 : 0.0;
    }
    double sum = wide_block_sum(own);
    if (threadIdx.x == 0) a.counts[blockIdx.x] = (unsigned int)sum;
}

// Turns counts into places, in one block of 256 threads.
extern "C" __global__ void wide_places_of_blocks(const PlacesOfBlocksArgs a) {
    __shared__ unsigned int sums[256];
    unsigned int share = (a.blocks + 255) / 256, from = threadIdx.x * share;
    unsigned int to = from + share < a.blocks ? from + share : a.blocks, own = 0;
    for (unsigned int i = from; i < to; ++i) own += a.counts[i];
    sums[threadIdx.x] = own;
    __syncthreads();
    unsigned int before = 0;
    for (unsigned int i = 0; i < threadIdx.x; ++i) before += sums[i];
    for (unsigned int i = from; i < to; ++i) {
        unsigned int count = a.counts[i];
        a.counts[i] = before;
        before += count;
    }
    if (threadIdx.x == 255) {
        a.state->n = before;
        a.n[0] = before;
        a.state->updates = 0;
        a.state->judged = 0;
        a.state->judged_kl = 0.0;
        a.state->stopped = 0;
        for (int i = 0; i < 6; ++i) a.state->sums[i] = 0.0;
    }
}

// The cells that count, in order, and shard by shard.
extern "C" __global__ void wide_compact(const CompactArgs a) {
    __shared__ unsigned int sums[256];
    unsigned int i = blockIdx.x * 1024 + threadIdx.x * 4, own = 0;
    bool counts[4];
    #pragma unroll
    for (unsigned int k = 0; k < 4; ++k) {
        counts[k] = wide_counts(a.of, wide_cell(a.of.rows, a.of.cells, i + k));
        own += counts[k] ? 1 : 0;
    }
    sums[threadIdx.x] = own;
    __syncthreads();
    for (unsigned int off = 1; off < 256; off *= 2) {
        unsigned int add = threadIdx.x >= off ? sums[threadIdx.x - off] : 0;
        __syncthreads();
        sums[threadIdx.x] += add;
        __syncthreads();
    }
    unsigned int to = a.places[blockIdx.x] + sums[threadIdx.x] - own;
    #pragma unroll
    for (unsigned int k = 0; k < 4; ++k) {
        if (counts[k]) a.order[to++] = wide_cell(a.of.rows, a.of.cells, i + k);
    }
}

// Sums and squares of returns and of what the values miss, the sum of rewards, the largest and minus the smallest,
// per block: [gridDim.x, WIDE_SUMS]; then, where the only minibatch is the `whole` rollout, what wide_advantages
// would find of it.
extern "C" __global__ void wide_variances(const VariancesArgs a) {
    double sums[7] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, most[2] = {WIDE_NONE, WIDE_NONE};
    unsigned int n = a.state->n, stride = gridDim.x * 256;
    #pragma unroll 1
    for (unsigned int i = blockIdx.x * 256 + threadIdx.x; i < n; i += stride * WIDE_AT_ONCE) {
        // All loads of some samples are under way before the first is waited for.
        unsigned int cells[WIDE_AT_ONCE];
        float returns[WIDE_AT_ONCE], values[WIDE_AT_ONCE], rewards[WIDE_AT_ONCE], advantages[WIDE_AT_ONCE];
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_AT_ONCE; ++k) cells[k] = a.order[i + k * stride < n ? i + k * stride : i];
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_AT_ONCE; ++k) {
            unsigned int cell = cells[k];
            returns[k] = a.returns[cell], values[k] = a.values[cell], rewards[k] = a.rewards[cell];
            advantages[k] = a.whole ? a.advantages[cell] : 0.0f;
        }
        wide_loaded(returns), wide_loaded(values), wide_loaded(rewards), wide_loaded(advantages);
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_AT_ONCE; ++k) {
            if (i + k * stride >= n) break;
            double target = returns[k], missed = returns[k] - values[k], reward = rewards[k];
            sums[0] += target;
            sums[1] += target * target;
            sums[2] += missed;
            sums[3] += missed * missed;
            sums[4] += reward;
            most[0] = reward > most[0] ? reward : most[0];
            most[1] = -reward > most[1] ? -reward : most[1];
            double advantage = advantages[k];
            sums[5] += advantage;
            sums[6] += advantage * advantage;
        }
    }
    wide_block_sums(sums);
    wide_block_largest(most);
    if (threadIdx.x != 0) return;
    double* parts = a.parts + blockIdx.x * WIDE_SUMS;
    for (int k = 0; k < 5; ++k) parts[k] = sums[k];
    parts[5] = most[0];
    parts[6] = most[1];
    parts[WIDE_OF_ADVANTAGES] = sums[5];
    parts[WIDE_OF_ADVANTAGES + 1] = sums[6];
}

// Means of the rollout, and 1 - variance of what the values miss / variance of the returns, in one block.
extern "C" __global__ void wide_explain(const ExplainArgs a) {
    double sums[5] = {0.0, 0.0, 0.0, 0.0, 0.0}, most[2] = {WIDE_NONE, WIDE_NONE};
    for (unsigned int i = threadIdx.x; i < WIDE_SUM_BLOCKS * P_RANKS; i += 256) {
        const double* parts = a.parts + i * WIDE_SUMS;
        for (int k = 0; k < 5; ++k) sums[k] += parts[k];
        for (int k = 0; k < 2; ++k) most[k] = parts[5 + k] > most[k] ? parts[5 + k] : most[k];
    }
    wide_block_sums(sums);
    wide_block_largest(most);
    if (threadIdx.x != 0) return;
    double n = 0.0;
    for (int i = 0; i < P_COUNTS; ++i) n += a.ns[i];
    n = n > 0.0 ? n : 1.0;
    double total = sums[1] / n - (sums[0] / n) * (sums[0] / n);
    double missed = sums[3] / n - (sums[2] / n) * (sums[2] / n);
    a.state->explained_variance = total > 0.0 ? 1.0 - missed / total : 0.0;
    a.state->mean_return = sums[0] / n;
    // What the values miss of the returns is the advantages.
    a.state->mean_advantage = sums[2] / n;
    a.state->mean_reward = sums[4] / n;
    a.state->max_reward = most[0];
    a.state->min_reward = -most[1];
}
