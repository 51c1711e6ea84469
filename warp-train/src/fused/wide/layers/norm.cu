// Layer norm between a hidden layer and its activation, where layers run one by one. Twin of norm.rs: sums of a row run
// over a warp in a fixed order. Gains of a layer lie behind its biases, its shifts behind them.

// y, f32 [rows, n], becomes activation(unit * gain + shift); keeps unit and 1 / deviation. A warp per row.
extern "C" __global__ __launch_bounds__(256) void wide_norm(const NormArgs a) {
    unsigned int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= wide_present(a.state, a.sampled, a.first, a.rows)) return;
    float *y = a.y + (unsigned long long)row * a.n, *unit = a.unit + (unsigned long long)row * a.n;
    const float *gain = a.parameters + a.gain, *shift = gain + a.n;
    WideRowMoments of = wide_row_moments(y, a.n, a.epsilon);
    if (lane == 0) a.inverse[row] = of.inverse;
    for (unsigned int i = lane; i < a.n; i += 32) {
        float u = (y[i] - of.mean) * of.inverse;
        unit[i] = u;
        y[i] = wide_activated(a.activation, u * gain[i] + shift[i]);
    }
}

// The gradient d of what was given, f32 [rows, n], becomes that of what was normalised. A warp per row.
extern "C" __global__ __launch_bounds__(256) void wide_norm_inputs(const NormInputsArgs a) {
    unsigned int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= wide_present(a.state, 1, a.first, a.rows)) return;
    float* d = a.d + (unsigned long long)row * a.n;
    const float *unit = a.unit + (unsigned long long)row * a.n, *gain = a.parameters + a.gain;
    float sum = 0.0f, along = 0.0f;
    for (unsigned int i = lane; i < a.n; i += 32) {
        float x = d[i] * gain[i];
        sum += x;
        along += x * unit[i];
    }
    sum = wide_warp_sum(sum) / (float)a.n;
    along = wide_warp_sum(along) / (float)a.n;
    for (unsigned int i = lane; i < a.n; i += 32) d[i] = a.inverse[row] * (d[i] * gain[i] - sum - unit[i] * along);
}

// Gradients of gains and shifts for the gradient d of what was given: every share of the rows is summed into its own copy
// of the parameters, or added to what is there if these rows are not the first. A block takes 32 columns of a share.
extern "C" __global__ __launch_bounds__(256) void wide_norm_weights(const NormWeightsArgs a) {
    __shared__ float sums[2][8][32];
    unsigned int all = wide_present(a.state, 1, a.first, a.rows);
    unsigned int copy = blockIdx.x % a.shares, share = (a.rows + a.shares - 1) / a.shares;
    unsigned int begin = copy * share < all ? copy * share : all;
    unsigned int end = begin + share < all ? begin + share : all;
    unsigned int line = threadIdx.x / 32, lane = threadIdx.x % 32, column = blockIdx.x / a.shares * 32 + lane;
    float gain = 0.0f, shift = 0.0f;
    for (unsigned int row = begin + line; row < end && column < a.n; row += 8) {
        unsigned long long at = (unsigned long long)row * a.n + column;
        gain += a.d[at] * a.unit[at];
        shift += a.d[at];
    }
    sums[0][line][lane] = gain;
    sums[1][line][lane] = shift;
    __syncthreads();
    if (line != 0 || column >= a.n) return;
    for (int other = 1; other < 8; ++other) {
        gain += sums[0][other][lane];
        shift += sums[1][other][lane];
    }
    float* to = a.partial + (unsigned long long)copy * a.n_parameters + a.gain + column;
    to[0] = a.first != 0 ? to[0] + gain : gain;
    to[a.n] = a.first != 0 ? to[a.n] + shift : shift;
}
