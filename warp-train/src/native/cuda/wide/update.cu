// Learning from minibatches: gathering, losses, reductions in a fixed order, and Adam.

// Samples begin..end of minibatch `part` of P_MINIBATCHES.
__device__ inline void wide_range(unsigned int n, unsigned int part, unsigned int* begin,
                                  unsigned int* end) {
    unsigned long long parts = n < P_MINIBATCHES ? n : P_MINIBATCHES;
    *begin = part < parts ? (unsigned int)((unsigned long long)n * part / parts) : 0u;
    *end = part < parts ? (unsigned int)((unsigned long long)n * (part + 1) / parts) : 0u;
}

// Sums and squares of a minibatch's advantages, per block: [gridDim.x, 2].
extern "C" __global__ void wide_advantages(const WideState* state, unsigned int part,
                                           const unsigned int* order, const float* advantages,
                                           double* parts) {
    unsigned int begin, end;
    wide_range(state->n, part, &begin, &end);
    double sum = 0.0, squares = 0.0;
    for (unsigned int i = begin + blockIdx.x * 256 + threadIdx.x; i < end; i += gridDim.x * 256) {
        double advantage = advantages[order[i]];
        sum += advantage;
        squares += advantage * advantage;
    }
    sum = wide_block_sum(sum);
    squares = wide_block_sum(squares);
    if (threadIdx.x != 0) return;
    parts[blockIdx.x * 2] = sum;
    parts[blockIdx.x * 2 + 1] = squares;
}

// Makes minibatch `part` the one at hand, in one block.
extern "C" __global__ void wide_begin_minibatch(WideState* state, unsigned int part,
                                                const double* parts, unsigned int blocks,
                                                int normalise) {
    double sum = 0.0, squares = 0.0;
    for (unsigned int i = threadIdx.x; i < blocks; i += 256) {
        sum += parts[i * 2];
        squares += parts[i * 2 + 1];
    }
    sum = wide_block_sum(sum);
    squares = wide_block_sum(squares);
    if (threadIdx.x != 0) return;
    wide_range(state->n, part, &state->begin, &state->end);
    double n = state->end - state->begin;
    state->adv_mean = 0.0;
    state->adv_scale = 1.0;
    if (!normalise || n < 2.0) return;
    double mean = sum / n, spread = squares - mean * sum;
    state->adv_mean = mean;
    state->adv_scale = 1.0 / (sqrt((spread > 0.0 ? spread : 0.0) / (n - 1.0)) + 1e-8);
}

// Observations of samples `first`.. of the minibatch, side by side.
extern "C" __global__ void wide_gather(const WideState* state, const unsigned int* order,
                                       unsigned int first, unsigned int rows, const float* obs,
                                       float* gathered) {
    unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int i = (unsigned int)(at / P_WIDTH), column = (unsigned int)(at % P_WIDTH);
    if (i >= wide_present(state, 1, first, rows)) return;
    gathered[at] = obs[(unsigned long long)order[state->begin + first + i] * P_WIDTH + column];
}

// Gradients of the outputs of samples `first`.., in place, and the blocks' sums from `parts_at` on.
extern "C" __global__ __launch_bounds__(256) void wide_losses(
    const WideSettings* settings, const WideState* state, const unsigned int* order,
    unsigned int first, unsigned int rows, const unsigned char* masks, const int* actions,
    const float* raws, const float* log_probs, const float* values, const float* advantages,
    const float* returns, const float* parameters, float* outs, double* parts,
    unsigned int parts_at) {
    WideSamples from = {masks, actions, raws, log_probs, values, advantages, returns};
    unsigned int i = blockIdx.x * 256 + threadIdx.x;
    double sums[5] = {0.0, 0.0, 0.0, 0.0, 0.0};
    if (i < wide_present(state, 1, first, rows)) {
        unsigned int cell = order[state->begin + first + i];
        float* out = outs + (unsigned long long)i * (P_OUT + 1);
        WideKnown known = wide_known(from, state, cell);
        wide_sample_loss<true, true>(from, settings, known, cell, out, parameters, sums);
    } else if (i < rows) {
        // A tensor library takes all rows.
        for (int o = 0; o <= P_OUT; ++o) outs[(unsigned long long)i * (P_OUT + 1) + o] = 0.0f;
    }
    for (int k = 0; k < 5; ++k) {
        double sum = wide_block_sum(sums[k]);
        if (threadIdx.x == 0) parts[(unsigned long long)(parts_at + blockIdx.x) * 5 + k] = sum;
    }
}

// Adds up the copies of the gradient, [copies, n_parameters], in order, and divides by the number of
// samples; the blocks' sums of squares go to `squares`.
extern "C" __global__ __launch_bounds__(256) void wide_reduce(const WideState* state,
                                                              const float* partial,
                                                              unsigned int copies,
                                                              unsigned int n_parameters,
                                                              float* gradient, double* squares) {
    unsigned int i = blockIdx.x * 256 + threadIdx.x;
    double own = 0.0;
    if (i < n_parameters) {
        float sum = 0.0f;
        #pragma unroll 16
        for (unsigned int copy = 0; copy < copies; ++copy) {
            sum += partial[(unsigned long long)copy * n_parameters + i];
        }
        unsigned int n = state->end - state->begin;
        float mean = n > 0 ? (float)((double)sum / (double)n) : 0.0f;
        gradient[i] = mean;
        own = (double)mean * (double)mean;
    }
    own = wide_block_sum(own);
    if (threadIdx.x == 0) squares[blockIdx.x] = own;
}

// The norm of the gradient, Adam's factors and the minibatch's figures, in one block.
extern "C" __global__ void wide_factors(const WideSettings* settings, WideState* state,
                                        const double* squares, unsigned int blocks,
                                        const double* losses, unsigned int loss_blocks,
                                        float max_grad_norm) {
    double own = 0.0, sums[5];
    for (unsigned int i = threadIdx.x; i < blocks; i += 256) own += squares[i];
    double norm = sqrt(wide_block_sum(own));
    for (int k = 0; k < 5; ++k) {
        own = 0.0;
        for (unsigned int i = threadIdx.x; i < loss_blocks; i += 256) own += losses[i * 5 + k];
        sums[k] = wide_block_sum(own);
    }
    unsigned int n = state->end - state->begin;
    if (threadIdx.x != 0) return;
    state->step_size = 0.0f;
    if (n == 0) return;
    state->norm = norm;
    if (!(norm - norm == 0.0)) state->fault |= 2u;
    if (state->fault != 0) return;
    for (int k = 0; k < 5; ++k) state->sums[k] += sums[k] / n;
    state->sums[5] += norm;
    state->updates += 1;
    state->adam_steps += 1;
    double t = state->adam_steps;
    double clip = max_grad_norm > 0.0 ? max_grad_norm / (norm + 1e-6) : 1.0;
    state->clip = (float)(clip < 1.0 ? clip : 1.0);
    state->step_size = (float)(settings->learning_rate / (1.0 - pow(0.9, t)));
    state->root_correction = (float)sqrt(1.0 - pow(0.999, t));
}

// One step of Adam. A step size of 0 may also be a learning rate of 0, where moments still move;
// nothing moves without samples or with a gradient that is not finite.
extern "C" __global__ void wide_adam(const WideState* state, const float* gradient,
                                     unsigned int n_parameters, float epsilon, float* parameters,
                                     float* exp_avg, float* exp_avg_sq) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_parameters || state->fault != 0 || state->end == state->begin) return;
    float g = gradient[i] * state->clip;
    float m = exp_avg[i], v = exp_avg_sq[i];
    m += (g - m) * (float)(1.0 - 0.9);
    v = v * (float)0.999 + g * g * (float)(1.0 - 0.999);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    parameters[i] -= state->step_size * (m / (sqrtf(v) / state->root_correction + epsilon));
}
