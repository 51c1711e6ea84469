// Layers of any width in fp32: outputs, gradients of inputs, gradients of weights. One product of
// matrices serves all three; sums run in a fixed order, with fused multiply-add.
//
// A weight matrix lies [outputs, inputs] in the parameters and its biases behind it. Outputs from
// number `gap_at` on lie `gap` columns further right than they would.

#define TILE 64
#define SLAB 16

// Sum over p of a(i, p) b(p, j) for the block's tile, each thread 4 x 4 elements of it.
template <bool A_BY_P, bool B_BY_P, class A, class B>
__device__ inline void wide_product(unsigned int k, A a, B b, float (&sums)[4][4]) {
    __shared__ float as[SLAB][TILE + 4], bs[SLAB][TILE + 4];
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (unsigned int p0 = 0; p0 < k; p0 += SLAB) {
        #pragma unroll
        for (int part = 0; part < TILE * SLAB / 256; ++part) {
            int e = part * 256 + threadIdx.x;
            int p = A_BY_P ? e % SLAB : e / TILE, i = A_BY_P ? e / SLAB : e % TILE;
            as[p][i] = p0 + p < k ? a(i, p0 + p) : 0.0f;
            p = B_BY_P ? e % SLAB : e / TILE;
            i = B_BY_P ? e / SLAB : e % TILE;
            bs[p][i] = p0 + p < k ? b(p0 + p, i) : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int p = 0; p < SLAB; ++p) {
            float4 left = *(const float4*)&as[p][y * 4], right = *(const float4*)&bs[p][x * 4];
            float l[4] = {left.x, left.y, left.z, left.w};
            float r[4] = {right.x, right.y, right.z, right.w};
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                #pragma unroll
                for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(l[i], r[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
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

// y = activation(x w + b): x [rows, n_in] from `x_at`, y [rows, y_row] from column `y_at` on.
// activation: 0 none, 1 tanh, 2 relu.
extern "C" __global__ __launch_bounds__(256) void wide_layer(
    const float* x, unsigned long long x_at, const float* parameters, unsigned int weight,
    unsigned int n_in, unsigned int n_out, float* y, unsigned int y_at, unsigned int y_row,
    unsigned int gap_at, unsigned int gap, const WideState* state, int sampled, unsigned int first,
    unsigned int rows, int activation) {
    unsigned int m = wide_present(state, sampled, first, rows);
    unsigned int across = (n_out + TILE - 1) / TILE;
    unsigned int i0 = blockIdx.x / across * TILE, j0 = blockIdx.x % across * TILE;
    if (i0 >= m) return;
    const float* w = parameters + weight;
    const float* from = x + x_at;
    float sums[4][4] = {};
    wide_product<true, true>(
        n_in,
        [=](int i, unsigned int p) {
            return i0 + i < m ? from[(unsigned long long)(i0 + i) * n_in + p] : 0.0f;
        },
        [=](unsigned int p, int j) { return j0 + j < n_out ? w[(j0 + j) * n_in + p] : 0.0f; },
        sums);
    const float* bias = w + n_out * n_in;
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            unsigned int row = i0 + threadIdx.x / 16 * 4 + i, column = j0 + threadIdx.x % 16 * 4 + j;
            if (row >= m || column >= n_out) continue;
            float z = bias[column] + sums[i][j];
            z = activation == 1 ? warp_tanh(z) : activation == 2 ? (z > 0.0f ? z : 0.0f) : z;
            unsigned int to = y_at + (column < gap_at ? column : column + gap);
            y[(unsigned long long)row * y_row + to] = z;
        }
    }
}

// dx = (dy w) slope(h): dy [rows, dy_row] from column `dy_at` on, dx and h [rows, n_in].
extern "C" __global__ __launch_bounds__(256) void wide_layer_inputs(
    const float* dy, unsigned int dy_at, unsigned int dy_row, const float* parameters,
    unsigned int weight, unsigned int n_in, unsigned int n_out, unsigned int gap_at,
    unsigned int gap, const float* h, float* dx, const WideState* state, unsigned int first, unsigned int rows, int activation) {
    unsigned int m = wide_present(state, 1, first, rows);
    unsigned int across = (n_in + TILE - 1) / TILE;
    unsigned int i0 = blockIdx.x / across * TILE, j0 = blockIdx.x % across * TILE;
    if (i0 >= m) return;
    const float* w = parameters + weight;
    float sums[4][4] = {};
    wide_product<true, false>(
        n_out,
        [=](int i, unsigned int p) {
            unsigned int from = dy_at + (p < gap_at ? p : p + gap);
            return i0 + i < m ? dy[(unsigned long long)(i0 + i) * dy_row + from] : 0.0f;
        },
        [=](unsigned int p, int j) { return j0 + j < n_in ? w[p * n_in + j0 + j] : 0.0f; }, sums);
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            unsigned int row = i0 + threadIdx.x / 16 * 4 + i, column = j0 + threadIdx.x % 16 * 4 + j;
            if (row >= m || column >= n_in) continue;
            unsigned long long at = (unsigned long long)row * n_in + column;
            float out = h[at];
            float slope = activation == 1 ? 1.0f - out * out : out > 0.0f ? 1.0f : 0.0f;
            dx[at] = sums[i][j] * slope;
        }
    }
}

// Gradients of weights and biases, dw[o][i] = sum over rows of dy[row][o] x[row][i], where input
// number n_in is 1: every share of the rows is summed into its own copy of the parameters,
// [shares, n_parameters], or added to what is there if these rows are not the first.
extern "C" __global__ __launch_bounds__(256) void wide_layer_weights(
    const float* dy, unsigned int dy_at, unsigned int dy_row, unsigned int gap_at,
    unsigned int gap, const float* x, unsigned int n_in, unsigned int n_out, float* partial, unsigned int n_parameters, unsigned int weight,
    const WideState* state, unsigned int first, unsigned int rows, unsigned int shares) {
    unsigned int all = wide_present(state, 1, first, rows);
    unsigned int across = n_in / TILE + 1, tile = blockIdx.x / shares;
    unsigned int copy = blockIdx.x % shares, share = (rows + shares - 1) / shares;
    unsigned int from = copy * share < all ? copy * share : all;
    unsigned int to = from + share < all ? from + share : all;
    unsigned int i0 = tile / across * TILE, j0 = tile % across * TILE;
    float sums[4][4] = {};
    wide_product<false, false>(
        to - from,
        [=](int i, unsigned int p) {
            unsigned long long row = from + p;
            unsigned int o = i0 + i, column = dy_at + (o < gap_at ? o : o + gap);
            return o < n_out ? dy[row * dy_row + column] : 0.0f;
        },
        [=](unsigned int p, int j) {
            unsigned long long row = from + p;
            return j0 + j < n_in ? x[row * n_in + j0 + j] : 1.0f;
        },
        sums);
    float* own = partial + (unsigned long long)copy * n_parameters + weight;
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            unsigned int o = i0 + threadIdx.x / 16 * 4 + i, in = j0 + threadIdx.x % 16 * 4 + j;
            if (o >= n_out || in > n_in) continue;
            float* place = own + (in < n_in ? o * n_in + in : n_out * n_in + o);
            *place = first == 0 ? sums[i][j] : *place + sums[i][j];
        }
    }
}
