// Layers of any width: outputs, gradients of inputs, gradients of weights. One product of matrices
// serves all three, that of product_single.cu or of product_half.cu; sums run in a fixed order.
//
// A weight matrix lies [outputs, inputs] in the parameters and its biases behind it. Outputs from
// number `gap_at` on lie `gap` columns further right than they would. The host says what tile of the
// result a block makes, by its number in layers.rs.

enum WideTile { WIDE_SQUARE, WIDE_LARGE, WIDE_NARROW, WIDE_FEW_ROWS, WIDE_FEW_COLUMNS };

// Where an output of a row lies.
__device__ inline unsigned int wide_column(const WideColumns& to, unsigned int row, unsigned int output) {
    return row * to.row + to.at + output + (output < to.gap_at ? 0u : to.gap);
}

struct WideForward {
    const float* x;
    const float* w;
    unsigned int n_in, n_out, rows;
    float* y;
    WideColumns to;
    int activation;
};

template <int R, int C> __device__ inline void wide_forward(const WideForward& of, float* room) {
    WideForward f = of;
    unsigned int across = (f.n_out + C - 1) / C;
    unsigned int i0 = blockIdx.x / across * R, j0 = blockIdx.x % across * C;
    if (i0 >= f.rows) return;
    WideSums<R, C> sums = {};
    auto x = wide_operand(f.x, f.rows - i0,
                          [=](int i, unsigned int p) { return (i0 + i) * f.n_in + p; });
    auto w = wide_operand(f.w, f.n_out - j0,
                          [=](int j, unsigned int p) { return (j0 + j) * f.n_in + p; });
    wide_product<true, true, false>(room, f.n_in, x, w, sums);
    // All that is read comes before all that is written, which the compiler must else keep in turn.
    const float* biases = f.w + f.n_out * f.n_in;
    float bias[sums.down][sums.right];
    sums.each([&](int i, int j, int, int c) {
        bias[i][j] = biases[j0 + c < f.n_out ? j0 + c : 0u];
    });
    sums.each([&](int i, int j, int r, int c) {
        unsigned int row = i0 + r, column = j0 + c;
        float z = bias[i][j] + sums.at[i][j];
        z = f.activation == 1 ? warp_tanh(z) : f.activation == 2 ? (z > 0.0f ? z : 0.0f) : z;
        if (row < f.rows && column < f.n_out) f.y[wide_column(f.to, row, column)] = z;
    });
}

// y = activation(x w + b): x [rows, n_in] from `x_at`, y in the columns `to`.
// activation: 0 none, 1 tanh, 2 relu.
extern "C" __global__ __launch_bounds__(256, 2) void wide_layer(const LayerArgs a) {
    __shared__ __align__(16) float room[WIDE_ROOM];
    WideForward of = {a.x + a.x_at, a.parameters + a.weight,
                      a.n_in,       a.n_out,
                      wide_present(a.state, a.sampled, a.first, a.rows),
                      a.y,          a.to,
                      a.activation};
    if constexpr (!P_HALF) {
        if (a.tile == WIDE_LARGE) return wide_forward<128, 64>(of, room);
        if (a.tile == WIDE_NARROW) return wide_forward<256, 16>(of, room);
    }
    wide_forward<64, 64>(of, room);
}

struct WideBack {
    const float* dy;
    WideColumns from;
    const float* w;
    unsigned int n_in, n_out, rows;
    const float* h;
    float* dx;
    int activation;
};

template <int R, int C> __device__ inline void wide_back(const WideBack& of, float* room) {
    WideBack f = of;
    unsigned int across = (f.n_in + C - 1) / C;
    unsigned int i0 = blockIdx.x / across * R, j0 = blockIdx.x % across * C;
    if (i0 >= f.rows) return;
    WideSums<R, C> sums = {};
    auto dy = wide_operand(f.dy, f.rows - i0,
                           [=](int i, unsigned int p) { return wide_column(f.from, i0 + i, p); });
    auto w = wide_operand(f.w, f.n_in - j0,
                          [=](int j, unsigned int p) { return p * f.n_in + j0 + j; });
    wide_product<true, false, false>(room, f.n_out, dy, w, sums);
    float out[sums.down][sums.right];
    sums.each([&](int i, int j, int r, int c) {
        bool in = i0 + r < f.rows && j0 + c < f.n_in;
        out[i][j] = f.h[in ? (i0 + r) * f.n_in + j0 + c : 0u];
    });
    sums.each([&](int i, int j, int r, int c) {
        float h = out[i][j];
        float slope = f.activation == 1 ? 1.0f - h * h : h > 0.0f ? 1.0f : 0.0f;
        bool in = i0 + r < f.rows && j0 + c < f.n_in;
        if (in) f.dx[(i0 + r) * f.n_in + j0 + c] = sums.at[i][j] * slope;
    });
}

// dx = (dy w) slope(h): dy in the columns `from`, dx and h [rows, n_in].
extern "C" __global__ __launch_bounds__(256, 2) void wide_layer_inputs(
    const LayerInputsArgs a) {
    __shared__ __align__(16) float room[WIDE_ROOM];
    WideBack of = {a.dy,   a.from,
                   a.parameters + a.weight,
                   a.n_in, a.n_out,
                   wide_present(a.state, 1, a.first, a.rows),
                   a.h,    a.dx,
                   a.activation};
    if constexpr (!P_HALF) {
        if (a.tile == WIDE_LARGE) return wide_back<128, 64>(of, room);
        if (a.tile == WIDE_NARROW) return wide_back<256, 16>(of, room);
    }
    wide_back<64, 64>(of, room);
}

struct WideWeights {
    const float* dy;
    WideColumns of;
    const float* x;
    unsigned int n_in, n_out;
    // Where a share's gradients go, and its samples.
    float* to;
    unsigned int tile, begin, end;
    bool adds;
};

// Where the gradient of output `o` by input `in` goes, or that by its bias; -1 if there is no such.
__device__ inline int wide_gradient_at(const WideWeights& f, unsigned int o, unsigned int in) {
    if (o >= f.n_out || in > f.n_in || (!WIDE_ONES && in == f.n_in)) return -1;
    return (int)(in < f.n_in ? o * f.n_in + in : f.n_out * f.n_in + o);
}

template <int R, int C> __device__ inline void wide_weights(const WideWeights& of, float* room) {
    WideWeights f = of;
    unsigned int across = (f.n_in + WIDE_ONES + C - 1) / C;
    across = across > 0 ? across : 1;
    unsigned int i0 = f.tile / across * R, j0 = f.tile % across * C;
    WideSums<R, C> sums = {};
    auto dy = wide_operand(f.dy, f.n_out - i0,
                           [=](int i, unsigned int p) { return wide_column(f.of, f.begin + p, i0 + i); });
    auto x = wide_operand(
        f.x, f.n_in > j0 ? f.n_in - j0 : 0u,
        [=](int j, unsigned int p) { return (f.begin + p) * f.n_in + j0 + j; }, 1.0f);
    wide_product<false, false, !WIDE_ONES>(room, f.end - f.begin, dy, x, sums);
    if (f.adds) {
        float before[sums.down][sums.right];
        sums.each([&](int i, int j, int r, int c) {
            int at = wide_gradient_at(f, i0 + r, j0 + c);
            before[i][j] = f.to[at < 0 ? 0 : at];
        });
        sums.each([&](int i, int j, int, int) { sums.at[i][j] += before[i][j]; });
    }
    sums.each([&](int i, int j, int r, int c) {
        int at = wide_gradient_at(f, i0 + r, j0 + c);
        if (at >= 0) f.to[at] = sums.at[i][j];
    });
    if constexpr (!WIDE_ONES) {
        #pragma unroll
        for (int i = 0; i < sums.down; ++i) {
            unsigned int o = i0 + sums.row(i, 0);
            float* to = f.to + f.n_out * f.n_in + o;
            if (j0 == 0 && threadIdx.x % 16 == 0 && o < f.n_out)
                *to = f.adds ? *to + sums.rows[i] : sums.rows[i];
        }
    }
}

// Gradients of weights and biases, dw[o][i] = sum over rows of dy[row][o] x[row][i]: every share of the
// rows is summed into its own copy of the parameters, [shares, n_parameters], or added to what is there
// if these rows are not the first.
extern "C" __global__ __launch_bounds__(256, 2) void wide_layer_weights(
    const LayerWeightsArgs a) {
    __shared__ __align__(16) float room[WIDE_ROOM];
    unsigned int all = wide_present(a.state, 1, a.first, a.rows);
    unsigned int copy = blockIdx.x % a.shares, share = (a.rows + a.shares - 1) / a.shares;
    unsigned int begin = copy * share < all ? copy * share : all;
    WideWeights of = {a.dy,   a.of, a.x, a.n_in, a.n_out,
                      a.partial + (unsigned long long)copy * a.n_parameters + a.weight,
                      blockIdx.x / a.shares,
                      begin,
                      begin + share < all ? begin + share : all,
                      a.first != 0};
    if constexpr (!P_HALF) {
        if (a.tile == WIDE_LARGE) return wide_weights<128, 64>(of, room);
        if (a.tile == WIDE_FEW_ROWS) return wide_weights<16, 64>(of, room);
        if (a.tile == WIDE_FEW_COLUMNS) return wide_weights<64, 16>(of, room);
    }
    wide_weights<64, 64>(of, room);
}
