// Layers of any width: outputs, gradients of inputs, gradients of weights. One product of matrices
// serves all three, in fp32 with fused multiply-add or, with P_HALF, on tensor cores with half-precision
// operands and fp32 sums; sums run in a fixed order.
//
// A weight matrix lies [outputs, inputs] in the parameters and its biases behind it. Outputs from
// number `gap_at` on lie `gap` columns further right than they would.

#define TILE 64

#if P_HALF

#define SLAB 32
// Place in the tile of element (i, j) of a thread's sums.
#define SUM_ROW(i, j) (threadIdx.x / 64 * 16 + threadIdx.x % 32 / 4 + (j) / 2 * 8)
#define SUM_COLUMN(i, j) (threadIdx.x / 32 % 2 * 32 + (i) * 8 + threadIdx.x % 4 * 2 + (j) % 2)

__device__ inline unsigned short wide_half(float x) {
    unsigned short half;
    asm("cvt.rn.satfinite.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

// Four blocks of 8 x 8 halves; each lane names a row.
__device__ inline void wide_blocks(const unsigned short* row, unsigned int (&x)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((unsigned int)__cvta_generic_to_shared(row)));
}

__device__ inline void wide_multiply(float (&sums)[4], const unsigned int (&a)[4], unsigned int b0,
                                     unsigned int b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Sum over p of a(i, p) b(p, j) for the block's tile, each warp 16 x 32 elements of it.
template <bool A_BY_P, bool B_BY_P, class A, class B>
__device__ inline void wide_product(unsigned int k, A a, B b, float (&sums)[4][4]) {
    __shared__ __align__(16) unsigned short as[TILE][SLAB + 8], bs[TILE][SLAB + 8];
    constexpr int parts = TILE * SLAB / 256;
    int lane = threadIdx.x % 32, top = threadIdx.x / 64 * 16, left = threadIdx.x / 32 % 2 * 32;
    for (unsigned int p0 = 0; p0 < k; p0 += SLAB) {
        float x[parts], y[parts];
        #pragma unroll
        for (int part = 0; part < parts; ++part) {
            int e = part * 256 + threadIdx.x;
            int p = A_BY_P ? e % SLAB : e / TILE, i = A_BY_P ? e / SLAB : e % TILE;
            x[part] = p0 + p < k ? a(i, p0 + p) : 0.0f;
            p = B_BY_P ? e % SLAB : e / TILE;
            i = B_BY_P ? e / SLAB : e % TILE;
            y[part] = p0 + p < k ? b(p0 + p, i) : 0.0f;
        }
        #pragma unroll
        for (int part = 0; part < parts; ++part) {
            int e = part * 256 + threadIdx.x;
            as[A_BY_P ? e / SLAB : e % TILE][A_BY_P ? e % SLAB : e / TILE] = wide_half(x[part]);
            bs[B_BY_P ? e / SLAB : e % TILE][B_BY_P ? e % SLAB : e / TILE] = wide_half(y[part]);
        }
        __syncthreads();
        #pragma unroll
        for (int step = 0; step < SLAB / 16; ++step) {
            unsigned int l[4], r[2][4];
            wide_blocks(&as[top + lane % 16][step * 16 + lane / 16 * 8], l);
            #pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                int row = left + pair * 16 + lane / 16 * 8 + lane % 8;
                wide_blocks(&bs[row][step * 16 + lane / 8 % 2 * 8], r[pair]);
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                wide_multiply(sums[i], l, r[i / 2][i % 2 * 2], r[i / 2][i % 2 * 2 + 1]);
            }
        }
        __syncthreads();
    }
}

#else

#define SLAB 16
#define SUM_ROW(i, j) (threadIdx.x / 16 * 4 + (i))
#define SUM_COLUMN(i, j) (threadIdx.x % 16 * 4 + (j))

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

#endif

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
            unsigned int row = i0 + SUM_ROW(i, j), column = j0 + SUM_COLUMN(i, j);
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
            unsigned int row = i0 + SUM_ROW(i, j), column = j0 + SUM_COLUMN(i, j);
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
            unsigned int o = i0 + SUM_ROW(i, j), in = j0 + SUM_COLUMN(i, j);
            if (o >= n_out || in > n_in) continue;
            float* place = own + (in < n_in ? o * n_in + in : n_out * n_in + o);
            *place = first == 0 ? sums[i][j] : *place + sums[i][j];
        }
    }
}
