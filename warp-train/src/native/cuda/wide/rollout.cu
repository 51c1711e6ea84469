// Filling a rollout: what the agents see, what they do, what comes of it. A row is one agent of one
// replica; rollout arrays are [steps, rows, ...].

// Number `column` of what a row's agent sees before step t, which is stored; with the first one also
// what it may do, and whether it is in the game.
__device__ inline float wide_look(const WidePlaces* places, unsigned int t, unsigned int rows,
                                  unsigned int row, unsigned int column, float* obs,
                                  unsigned char* masks, unsigned char* weights,
                                  const float* factors) {
    WidePlace place = wide_place(places, row);
    unsigned long long cell = (unsigned long long)t * rows + row;
    float x = place.group->obs[place.row * P_WIDTH + column];
    x = wide_normalised(x, column, factors);
    obs[cell * P_WIDTH + column] = x;
    if (column != 0) return x;
    if (P_MORTAL) weights[cell] = place.group->alive ? place.group->alive[place.row] : 1;
    for (int j = 0; j < P_MASK; ++j) {
        masks[cell * P_MASK + j] = place.group->action_mask[place.row * P_MASK + j];
    }
    return x;
}

// What the agents see before step t, and who is in the game.
extern "C" __global__ void wide_inputs(const WidePlaces* places, unsigned int t, unsigned int rows,
                                       float* obs, unsigned char* masks, unsigned char* weights,
                                       const float* factors) {
    unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int row = (unsigned int)(at / P_WIDTH), column = (unsigned int)(at % P_WIDTH);
    if (row < rows) wide_look(places, t, rows, row, column, obs, masks, weights, factors);
}

// Where what was done in a rollout is stored.
struct WideDone {
    const unsigned char* masks;
    int* actions;
    float* raws;
    float* log_probs;
    float* values;
};

// Draws a row's action of step t from its outputs, P_OUT of them and, if the tower VALUES, the value; hands
// it to the environment.
template <bool VALUES = true>
__device__ inline void wide_decide(const WidePlaces* places, WideState* state,
                                   unsigned long long seed, unsigned int first_replica,
                                   unsigned int t, unsigned int rows, unsigned int row,
                                   const float* out, const float* parameters, const WideDone& done) {
    WidePlace place = wide_place(places, row);
    unsigned long long cell = (unsigned long long)t * rows + row;
    WarpDraw draw = warp_draw(seed, first_replica + place.replica, *places->run_step,
                              WARP_PURPOSE_ACTION);
    draw = warp_draw_agent(&draw, P_FIRST_AGENT + place.agent);
    const unsigned char* mask = P_MASK ? done.masks + cell * P_MASK : 0;
    int action[P_ACTION];
    float raw[P_ACTION], bounded[P_ACTION];
    WarpSampled drawn = wide_sample(out, parameters, mask, draw, action, raw, bounded);
    float value = VALUES ? out[P_OUT] : 0.0f;
    if (!drawn.sound || !(value * 0.0f == 0.0f)) atomicOr(&state->fault, 1u);
    done.log_probs[cell] = drawn.log_prob;
    if (VALUES) done.values[cell] = value;
    for (int d = 0; d < P_ACTION; ++d) {
        if (P_CONTINUOUS) {
            done.raws[cell * P_ACTION + d] = raw[d];
            ((float*)place.group->action)[place.row * P_ACTION + d] = bounded[d];
        } else {
            done.actions[cell * P_ACTION + d] = action[d];
            ((int*)place.group->action)[place.row * P_ACTION + d] = action[d];
        }
    }
}

// The same for `part` rows from `first` on, whose outputs lie in `outs`, f32 [part, P_OUT + 1].
extern "C" __global__ void wide_act(const WidePlaces* places, WideState* state,
                                    unsigned long long seed, unsigned int first_replica,
                                    unsigned int t, unsigned int rows, unsigned int first,
                                    unsigned int part, const float* outs, const float* parameters,
                                    const unsigned char* masks, int* actions, float* raws,
                                    float* log_probs, float* values) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= part) return;
    wide_decide(places, state, seed, first_replica, t, rows, first + i,
                outs + (unsigned long long)i * (P_OUT + 1), parameters,
                {masks, actions, raws, log_probs, values});
}

// What came of step t. Where a time limit cut an agent's episode, its last observation is kept in the
// row's next slot: slots are [P_SLOTS, rows, ...].
extern "C" __global__ void wide_outcome(const WidePlaces* places, unsigned int t, unsigned int rows,
                                        float* rewards, unsigned char* ended,
                                        float* truncated_values, unsigned int* cut_count,
                                        unsigned int* cut_cell, float* cut_obs,
                                        const float* factors) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    WidePlace place = wide_place(places, row);
    unsigned long long cell = (unsigned long long)t * rows + row;
    bool truncated = places->truncated[place.replica] != 0;
    bool left = place.group->agent_terminated && place.group->agent_terminated[place.row] != 0;
    rewards[cell] = place.group->reward[place.row];
    ended[cell] = places->terminated[place.replica] != 0 || truncated || left;
    truncated_values[cell] = 0.0f;
    if (P_SLOTS == 0) return;
    if (t == 0) {
        cut_count[row] = 0;
        for (int slot = 0; slot < P_SLOTS; ++slot) {
            cut_cell[(unsigned long long)slot * rows + row] = 0xffffffffu;
        }
    }
    if (!truncated || left || cut_count[row] >= P_SLOTS) return;
    unsigned long long slot = (unsigned long long)cut_count[row] * rows + row;
    cut_count[row] += 1;
    cut_cell[slot] = (unsigned int)cell;
    const float* last = place.group->final_obs + place.row * P_WIDTH;
    for (int j = 0; j < P_WIDTH; ++j) {
        cut_obs[slot * P_WIDTH + j] = wide_normalised(last[j], j, factors);
    }
}

// Values of some rows, the last column of `outs`, to `values` from `at` on.
extern "C" __global__ void wide_take_values(const float* outs, unsigned int part, float* values,
                                            unsigned long long at) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < part) values[at + i] = outs[(unsigned long long)i * (P_OUT + 1) + P_OUT];
}

// Values of the slots [P_SLOTS, rows], to the steps that they belong to.
extern "C" __global__ void wide_scatter_cut(const unsigned int* cut_cell, const float* cut_values,
                                            unsigned int n, float* truncated_values) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && cut_cell[i] != 0xffffffffu) truncated_values[cut_cell[i]] = cut_values[i];
}

// Advantages and returns; a thread per row goes back in time. Twin of gae.rs.
extern "C" __global__ void wide_gae(unsigned int steps, unsigned int rows, const float* rewards,
                                    const float* values, const unsigned char* ended,
                                    const float* truncated_values, float gamma, float lambda,
                                    int compat_last_step, float* advantages, float* returns) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float next_value = values[(unsigned long long)steps * rows + row], next_advantage = 0.0f;
    float next_return = 0.0f;
    for (unsigned int t = steps; t-- > 0;) {
        unsigned long long cell = (unsigned long long)t * rows + row;
        float value = values[cell], reward = rewards[cell];
        bool over = ended[cell] != 0;
        if (compat_last_step) {
            float on = t + 1 == steps ? value : reward + gamma * next_return;
            next_return = over ? reward : on;
            returns[cell] = next_return;
            advantages[cell] = next_return - value;
            continue;
        }
        float after = over ? truncated_values[cell] : next_value;
        float delta = reward + gamma * after - value;
        next_advantage = delta + gamma * lambda * (over ? 0.0f : next_advantage);
        next_value = value;
        advantages[cell] = next_advantage;
        returns[cell] = next_advantage + value;
    }
}

// How many of each block's 1,024 cells count.
extern "C" __global__ void wide_count(const unsigned char* weights, unsigned int cells,
                                      unsigned int* counts) {
    double own = 0.0;
    for (unsigned int k = 0; k < 4; ++k) {
        unsigned int cell = blockIdx.x * 1024 + k * 256 + threadIdx.x;
        own += cell < cells && (!P_MORTAL || weights[cell] != 0) ? 1.0 : 0.0;
    }
    double sum = wide_block_sum(own);
    if (threadIdx.x == 0) counts[blockIdx.x] = (unsigned int)sum;
}

// Turns counts into places, in one block of 256 threads.
extern "C" __global__ void wide_places_of_blocks(unsigned int* counts, unsigned int blocks,
                                                 WideState* state) {
    __shared__ unsigned int sums[256];
    unsigned int share = (blocks + 255) / 256, from = threadIdx.x * share;
    unsigned int to = from + share < blocks ? from + share : blocks, own = 0;
    for (unsigned int i = from; i < to; ++i) own += counts[i];
    sums[threadIdx.x] = own;
    __syncthreads();
    unsigned int before = 0;
    for (unsigned int i = 0; i < threadIdx.x; ++i) before += sums[i];
    for (unsigned int i = from; i < to; ++i) {
        unsigned int count = counts[i];
        counts[i] = before;
        before += count;
    }
    if (threadIdx.x == 255) {
        state->n = before;
        state->updates = 0;
        for (int i = 0; i < 6; ++i) state->sums[i] = 0.0;
    }
}

// The cells that count, in order.
extern "C" __global__ void wide_compact(const unsigned char* weights, unsigned int cells,
                                        const unsigned int* places, unsigned int* order) {
    __shared__ unsigned int sums[256];
    unsigned int cell = blockIdx.x * 1024 + threadIdx.x * 4, own = 0;
    bool counts[4];
    #pragma unroll
    for (unsigned int k = 0; k < 4; ++k) {
        counts[k] = cell + k < cells && (!P_MORTAL || weights[cell + k] != 0);
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
    unsigned int to = places[blockIdx.x] + sums[threadIdx.x] - own;
    #pragma unroll
    for (unsigned int k = 0; k < 4; ++k) {
        if (counts[k]) order[to++] = cell + k;
    }
}

// Sums and squares of returns and of what the values miss, per block: [gridDim.x, 4].
extern "C" __global__ void wide_variances(const WideState* state, const unsigned int* order,
                                          const float* returns, const float* values, double* parts) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    for (unsigned int i = blockIdx.x * 256 + threadIdx.x; i < state->n; i += gridDim.x * 256) {
        unsigned int cell = order[i];
        double target = returns[cell], missed = returns[cell] - values[cell];
        sums[0] += target;
        sums[1] += target * target;
        sums[2] += missed;
        sums[3] += missed * missed;
    }
    for (int k = 0; k < 4; ++k) {
        double sum = wide_block_sum(sums[k]);
        if (threadIdx.x == 0) parts[blockIdx.x * 4 + k] = sum;
    }
}

// 1 - variance of what the values miss / variance of the returns, in one block.
extern "C" __global__ void wide_explain(const double* parts, unsigned int blocks, WideState* state) {
    double sums[4];
    for (int k = 0; k < 4; ++k) {
        double own = 0.0;
        for (unsigned int i = threadIdx.x; i < blocks; i += 256) own += parts[i * 4 + k];
        sums[k] = wide_block_sum(own);
    }
    if (threadIdx.x != 0) return;
    double n = state->n > 0 ? state->n : 1.0;
    double total = sums[1] / n - (sums[0] / n) * (sums[0] / n);
    double missed = sums[3] / n - (sums[2] / n) * (sums[2] / n);
    state->explained_variance = total > 0.0 ? 1.0 - missed / total : 0.0;
}

// A permutation of 0..n by four rounds of a Feistel network over the next power of four; numbers
// beyond n are walked along their cycle until they come back below it.
__device__ inline unsigned int wide_permuted(unsigned int i, unsigned int n, const WarpWords& key) {
    unsigned int bits = 1;
    while (bits < 16 && (1u << (2 * bits)) < n) ++bits;
    unsigned int mask = (1u << bits) - 1u;
    do {
        unsigned int left = i >> bits, right = i & mask;
        #pragma unroll
        for (int round = 0; round < 4; ++round) {
            unsigned int k = round == 0 ? key.x : round == 1 ? key.y : round == 2 ? key.z : key.w;
            unsigned int h = (right ^ k) * 0x9E3779B1u;
            h = (h ^ (h >> 15)) * 0x85EBCA77u;
            unsigned int next = left ^ ((h ^ (h >> 13)) & mask);
            left = right;
            right = next;
        }
        i = (left << bits) | right;
    } while (i >= n);
    return i;
}

// The samples in the order of an epoch.
extern "C" __global__ void wide_shuffle(const WideSettings* settings, const WideState* state,
                                        unsigned int epoch, const unsigned int* order,
                                        unsigned int* shuffled) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= state->n) return;
    WarpWords counter = {P_FIRST_AGENT, epoch, settings->iteration, WARP_PURPOSE_SHUFFLE << 24};
    unsigned int key0 = (unsigned int)settings->seed, key1 = (unsigned int)(settings->seed >> 32);
    shuffled[i] = order[wide_permuted(i, state->n, warp_philox4x32_10(counter, key0, key1))];
}
