// Learning from minibatches: gathering, reductions in a fixed order, and steps of the optimiser.

// Samples whose advantages a thread adds at once.
#define WIDE_ADVANTAGES 8
// Blocks whose sums a thread loads at once.
#define WIDE_SUMS_AT_ONCE 8

// Sums and squares of the advantages of an epoch's minibatches, of as many blocks each: [P_MINIBATCHES, blocks, 2].
extern "C" __global__ void wide_advantages(const AdvantagesArgs a) {
    unsigned int begin, end, blocks = gridDim.x / P_MINIBATCHES, block = blockIdx.x % blocks;
    wide_range_here(a.state, a.ns, blockIdx.x / blocks, wide_parts(a.ns), &begin, &end);
    double sum = 0.0, squares = 0.0;
    unsigned int stride = blocks * 256;
    for (unsigned int i = begin + block * 256 + threadIdx.x; i < end; i += stride * WIDE_ADVANTAGES) {
        // All loads are under way before the first is waited for.
        unsigned int cells[WIDE_ADVANTAGES];
        float advantages[WIDE_ADVANTAGES];
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_ADVANTAGES; ++k) cells[k] = a.order[i + k * stride < end ? i + k * stride : i];
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_ADVANTAGES; ++k) advantages[k] = a.advantages[cells[k]];
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_ADVANTAGES; ++k) {
            double advantage = i + k * stride < end ? advantages[k] : 0.0f;
            sum += advantage;
            squares += advantage * advantage;
        }
    }
    sum = wide_block_sum(sum);
    squares = wide_block_sum(squares);
    if (threadIdx.x != 0) return;
    a.parts[blockIdx.x * 2] = sum;
    a.parts[blockIdx.x * 2 + 1] = squares;
}

// The minibatch of `parts` that sample `place` of an epoch of n is in, by where each ends.
__device__ inline unsigned int wide_part_of(unsigned int place, unsigned int n, unsigned int parts,
                                            const unsigned int* ends) {
    unsigned int part = (unsigned int)((float)place * ((float)parts / (float)n));
    part = part < parts ? part : parts - 1;
    while (part > 0 && place < ends[part - 1]) --part;
    while (part + 1 < parts && place >= ends[part]) ++part;
    return part;
}

// The same of an epoch whose order is a permutation. Advantages are read in their own order, in which they lie side by
// side, and added to the sums of the minibatches that take them, which each thread has in shared memory:
// [P_MINIBATCHES, 2, 256], then where minibatches end. Blocks are as many as leave sums of a minibatch.
extern "C" __global__ __launch_bounds__(256) void wide_shuffled_advantages(const ShuffledAdvantagesArgs a) {
    extern __shared__ double sums[];
    __shared__ unsigned int places[WIDE_PERMUTED][256];
    unsigned int* ends = (unsigned int*)(sums + 2 * P_MINIBATCHES * 256);
    unsigned int n = a.state->n, parts = wide_parts(a.ns), step = gridDim.x * 256, begin;
    for (unsigned int k = 0; k < 2 * P_MINIBATCHES; ++k) sums[k * 256 + threadIdx.x] = 0.0;
    for (unsigned int k = threadIdx.x; k < P_MINIBATCHES; k += 256) wide_range(n, k, parts, &begin, ends + k);
    __syncthreads();
    WidePermutation permutation(n, wide_shuffle_key(a.settings, a.settings->shard, a.epoch));
    unsigned int first = blockIdx.x * 256 + threadIdx.x;
    for (; first < n; first += step * WIDE_PERMUTED) {
        wide_permute<true>(permutation, first, step, places);
        float advantages[WIDE_PERMUTED];
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_PERMUTED; ++k) {
            unsigned int i = first + k * step < n ? first + k * step : first;
            advantages[k] = a.advantages[WIDE_ALL_COUNT ? i : a.order[i]];
        }
        wide_loaded(advantages);
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_PERMUTED; ++k) {
            if (first + k * step >= n) break;
            double advantage = advantages[k];
            double* of = sums + wide_part_of(places[k][threadIdx.x], n, parts, ends) * 512 + threadIdx.x;
            of[0] += advantage;
            of[256] += advantage * advantage;
        }
    }
    __syncthreads();
    for (unsigned int k = threadIdx.x / 32; k < 2 * P_MINIBATCHES; k += 8) {
        double sum = 0.0;
        for (unsigned int i = threadIdx.x % 32; i < 256; i += 32) sum += sums[k * 256 + i];
        #pragma unroll
        for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(0xffffffffu, sum, half);
        if (threadIdx.x % 32 == 0) a.parts[(k / 2 * gridDim.x + blockIdx.x) * 2 + k % 2] = sum;
    }
}

// Makes minibatch `part` the one at hand, in one block. Every rank has left sums of so many blocks, `rank_stride` apart.
extern "C" __global__ __launch_bounds__(256) void wide_begin_minibatch(const BeginMinibatchArgs a) {
    // Of the advantages and of their squares.
    double sums[2] = {0.0, 0.0};
    unsigned int n_sums = a.normalise ? WIDE_SUM_BLOCKS * P_RANKS : 0u;
    for (unsigned int first = threadIdx.x; first < n_sums; first += 256 * WIDE_SUMS_AT_ONCE) {
        // All loads are under way before the first is waited for.
        double own[WIDE_SUMS_AT_ONCE], squares[WIDE_SUMS_AT_ONCE];
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_SUMS_AT_ONCE; ++k) {
            unsigned int i = first + 256 * k, rank = i / WIDE_SUM_BLOCKS, block = i % WIDE_SUM_BLOCKS;
            const double* part = a.parts + (rank * a.rank_stride + block * a.stride + a.first);
            own[k] = i < n_sums ? part[0] : 0.0;
            squares[k] = i < n_sums ? part[1] : 0.0;
        }
        wide_loaded(own), wide_loaded(squares);
        #pragma unroll
        for (unsigned int k = 0; k < WIDE_SUMS_AT_ONCE; ++k) {
            sums[0] += own[k];
            sums[1] += squares[k];
        }
    }
    // Before the sums are there, since what this reads takes as long to come.
    unsigned int parts = wide_parts(a.ns), whole = 0, begin, end;
    for (int i = 0; i < P_COUNTS; ++i) {
        wide_range(a.ns[i], a.part, parts, &begin, &end);
        whole += end - begin;
    }
    wide_range_here(a.state, a.ns, a.part, parts, &begin, &end);
    // Nothing is learned from empty minibatches.
    if (a.state->stopped) begin = end = whole = 0;
    wide_block_sums(sums);
    if (threadIdx.x != 0) return;
    double n = whole, mean = 0.0, scale = 1.0;
    if (a.normalise && n >= 2.0) {
        mean = sums[0] / n;
        double spread = sums[1] - mean * sums[0];
        scale = 1.0 / (sqrt((spread > 0.0 ? spread : 0.0) / (n - 1.0)) + 1e-8);
    }
    // Until here, nothing is read that the last minibatch's step writes; it still reads what follows.
    wait_for_previous_kernel();
    a.state->begin = begin;
    a.state->end = end;
    a.state->whole = whole;
    a.state->adv_mean = mean;
    a.state->adv_scale = scale;
}

// Whether the policy has moved too far in the epoch that is over, in the mean over its minibatches: then no more is
// learned from this rollout.
extern "C" __global__ void wide_check_kl(const CheckKlArgs a) {
    unsigned int n = a.state->updates - a.state->judged;
    double divergence = a.state->sums[3] - a.state->judged_kl;
    if (n > 0 && !(divergence / n <= a.target_kl)) a.state->stopped = 1;
    a.state->judged = a.state->updates;
    a.state->judged_kl = a.state->sums[3];
}

// Observations of samples `first`.. of the minibatch, side by side.
extern "C" __global__ void wide_gather(const GatherArgs a) {
    unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int i = (unsigned int)(at / P_WIDTH), column = (unsigned int)(at % P_WIDTH);
    if (i >= wide_present(a.state, 1, a.first, a.rows)) return;
    a.gathered[at] = a.obs[(unsigned long long)a.order[a.state->begin + a.first + i] * P_WIDTH + column];
}

// Adds up the copies of the gradient, [copies, n_parameters], in order, and divides by the number of
// samples; the blocks' sums of squares go to `squares`.
// Where copies are many, `lanes` threads share a parameter's.
extern "C" __global__ __launch_bounds__(256) void wide_reduce(const ReduceArgs a) {
    __shared__ float sums[256];
    allow_next_kernel();
    unsigned int width = 256 / a.lanes, lane = threadIdx.x / width, column = threadIdx.x % width;
    unsigned int i = blockIdx.x * width + column, n = a.state->whole;
    float sum = 0.0f;
    if (i < a.n_parameters) {
        #pragma unroll 16
        for (unsigned int copy = lane; copy < a.copies; copy += a.lanes) {
            sum += a.partial[(unsigned long long)copy * a.n_parameters + i];
        }
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    double own = 0.0;
    if (lane == 0 && i < a.n_parameters) {
        for (unsigned int other = 1; other < a.lanes; ++other) sum += sums[other * width + column];
        float mean = n > 0 ? (float)((double)sum / (double)n) : 0.0f;
        a.gradient[i] = mean;
        own = (double)mean * (double)mean;
    }
    own = wide_block_sum(own);
    if (threadIdx.x == 0) a.squares[blockIdx.x] = own;
}

// Sums the copies of the gradient of this rank, for NCCL, as reduce_ranks.cu does: halves of the copies first.
extern "C" __global__ __launch_bounds__(256) void wide_sum_copies(const SumCopiesArgs a) {
    unsigned int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= a.n_parameters) return;
    float halves[2][1] = {};
    for (int half = 0; half < 2; ++half)
        sum_of_half(a.partial + i, a.copies, half == 1, a.n_parameters, 1, halves[half]);
    a.sum[i] = halves[0][0] + halves[1][0];
}

// Adds this thread's share of the sums of losses, which every rank has left of so many blocks. Threads take a rank's blocks as
// if it had as many as fit, so that the order of sums does not depend on how many it has.
__device__ inline void wide_sum_losses(const FactorsArgs& a, double (&sums)[6]) {
    unsigned int rank = 0, i = threadIdx.x;
    while (rank < P_RANKS) {
        // All loads are under way before the first is waited for.
        double x[WIDE_SUMS_AT_ONCE][5];
        #pragma unroll
        for (unsigned int n = 0; n < WIDE_SUMS_AT_ONCE; ++n) {
            while (rank < P_RANKS && i >= a.loss_blocks) i = (threadIdx.x - ++rank * a.loss_room) % 256;
            const double* losses = a.losses + (rank * a.loss_blocks + i) * 5;
            #pragma unroll
            for (int k = 0; k < 5; ++k) x[n][k] = rank < P_RANKS ? losses[k] : 0.0;
            i += 256;
        }
        #pragma unroll
        for (unsigned int n = 0; n < WIDE_SUMS_AT_ONCE; ++n) {
            #pragma unroll
            for (int k = 0; k < 5; ++k) sums[k] += x[n][k];
        }
    }
}

// The norm of the gradient, the step's factors and the minibatch's figures, in one block.
extern "C" __global__ __launch_bounds__(256) void wide_factors(const FactorsArgs a) {
    __shared__ double powers[2];
    allow_next_kernel();
    // They take long, so warps begin with them that have less to add than the first.
    if (!P_RMSPROP && threadIdx.x >= 192 && threadIdx.x % 32 == 0) {
        double t = a.state->optimiser_steps + 1u;
        powers[threadIdx.x / 32 - 6] = pow(threadIdx.x == 192 ? 0.9 : 0.999, t);
    }
    // This was there before the gradient's copies were summed.
    unsigned int n = a.state->whole, fault = a.state->fault;
    unsigned int updates = a.state->updates, steps = a.state->optimiser_steps;
    double most = a.settings->max_grad_norm, before[6];
    double rate = a.settings->learning_rate, critic_rate = a.settings->critic_learning_rate;
    #pragma unroll
    for (int k = 0; k < 6; ++k) before[k] = a.state->sums[k];
    // Of losses, then of the gradient's squares.
    double sums[6] = {};
    // Of one rank alone, losses were there before the gradient's copies were summed.
    if (P_RANKS > 1) wait_for_previous_kernel();
    wide_sum_losses(a, sums);
    if (P_RANKS == 1) wait_for_previous_kernel();
    #pragma unroll 8
    for (unsigned int i = threadIdx.x; i < a.blocks; i += 256) sums[5] += a.squares[i];
    wide_block_sums(sums);
    if (threadIdx.x != 0) return;
    double norm = sqrt(sums[5]);
    a.state->step_size = 0.0f;
    if (n == 0) return;
    a.state->norm = norm;
    if (!(norm - norm == 0.0)) a.state->fault = fault |= WIDE_FAULT_GRADIENT;
    if (fault != 0) return;
    for (int k = 0; k < 5; ++k) a.state->sums[k] = before[k] + sums[k] / n;
    a.state->sums[5] = before[5] + norm;
    a.state->updates = updates + 1;
    a.state->optimiser_steps = steps + 1;
    double clip = most > 0.0 ? most / (norm + 1e-6) : 1.0;
    a.state->clip = (float)(clip < 1.0 ? clip : 1.0);
    double correction = P_RMSPROP ? 1.0 : 1.0 - powers[0];
    a.state->step_size = (float)(rate / correction);
    a.state->critic_step_size = (float)(critic_rate / correction);
    a.state->bias_correction2_sqrt = P_RMSPROP ? 1.0f : (float)sqrt(1.0 - powers[1]);
}

// One step of Adam or RMSprop. A step size of 0 may also be a learning rate of 0, where moments still move;
// nothing moves without samples or with a gradient that is not finite.
extern "C" __global__ void wide_descend(const DescendArgs a) {
    allow_next_kernel();
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n_parameters) return;
    // Only steps write these, and the last one has ended.
    float m = a.exp_avg[i], v = a.exp_avg_sq[i], w = a.parameters[i];
    wait_for_previous_kernel();
    // All is read before anything is decided or written, since later loads would wait for that.
    float g = a.gradient[i], root = a.state->bias_correction2_sqrt;
    if (a.state->fault != 0 || a.state->whole == 0) return;
    g *= a.state->clip;
#if P_CRITIC_RATE
    bool of_critic = i >= P_CRITIC_BEGIN && i < P_CRITIC_END;
#else
    bool of_critic = false;
#endif
    float step_size = of_critic ? a.state->critic_step_size : a.state->step_size;
    if (!P_RMSPROP) m += (g - m) * (float)(1.0 - 0.9);
    const double beta_2 = P_RMSPROP ? 0.99 : 0.999;
    v = v * (float)beta_2 + g * g * (float)(1.0 - beta_2);
    a.exp_avg[i] = m;
    a.exp_avg_sq[i] = v;
    if (P_DECAYS) {
        double rate = of_critic ? a.settings->critic_learning_rate : a.settings->learning_rate;
        w *= (float)(1.0 - rate * a.weight_decay);
    }
    float direction = P_RMSPROP ? g : m;
    a.parameters[i] = w - step_size * (direction / (sqrtf(v) / root + a.epsilon));
}
