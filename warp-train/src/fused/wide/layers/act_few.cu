// Few rows act in one launch: a block takes WIDE_FEW of them through all layers, eight warps to a
// tower, and draws their actions. Launches one after the other would take longer than the products.
//
// Needs, beside rollout.cu's: P_TOWERS, P_DEPTH (layers of the deepest tower), P_WIDEST (inputs of a
// layer at most), P_LAYERS (their places in the parameters), P_NORMS (whether hidden layers are normalised, as by
// norm.cu, with P_NORM_EPSILON).

#define WIDE_FEW 8
#define WIDE_FEW_THREADS (256 * P_TOWERS)
// Loads of a thread that are under way before the first is waited for, of observations and of a row of weights.
#define WIDE_FEW_LOOKS 8
#define WIDE_FEW_LOADS 2

// A layer; one without outputs is none. Outputs lie from column `column` on, those from number `gap_at`
// on by `gap` further right. `gain`: where the gains of normalised outputs lie, with shifts behind them, or 0.
struct WideLayerPlace {
    unsigned int n_in, n_out, weight, column, gap_at, gap, gain;
    bool hidden;
};

__device__ const WideLayerPlace wide_layer_places[P_TOWERS][P_DEPTH] = P_LAYERS;

// Sums of 32 numbers each over a warp; lane i has the sum of number i.
__device__ inline float wide_sums_of_lanes(float (&x)[32]) {
    int lane = threadIdx.x % 32;
    #pragma unroll
    for (int level = 0; level < 5; ++level) {
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            int d = 16 >> level;
            if (i >= d) continue;
            float kept = lane & d ? x[i + d] : x[i], given = lane & d ? x[i] : x[i + d];
            x[i] = kept + __shfl_xor_sync(0xffffffffu, given, d);
        }
    }
    return x[0];
}

// y = activation(x w + b), or without the activation where y is normalised first, for WIDE_FEW rows in shared memory,
// inputs X_ROW apart: warp `warp` of eight takes four outputs at a time, its lanes inputs.
template <int X_ROW>
__device__ inline void wide_few_layer(const WideLayerPlace& layer, const float* parameters, int warp,
                                      int activation, const float* x, float* y,
                                      unsigned int y_row) {
    const float* w = parameters + layer.weight;
    unsigned int lane = threadIdx.x % 32, n_in = layer.n_in;
    for (unsigned int first = warp * 4; first < layer.n_out; first += 32) {
        const float* weights_of[4];
        #pragma unroll
        for (int u = 0; u < 4; ++u) weights_of[u] = w + (first + u < layer.n_out ? first + u : first) * n_in + lane;
        float sums[32] = {};
        for (unsigned int from = 0; from < n_in; from += 32 * WIDE_FEW_LOADS) {
            float weights[WIDE_FEW_LOADS][4];
            #pragma unroll
            for (int i = 0; i < WIDE_FEW_LOADS; ++i) {
                bool there = from + 32 * i + lane < n_in;
                #pragma unroll
                for (int u = 0; u < 4; ++u) weights[i][u] = there ? weights_of[u][from + 32 * i] : 0.0f;
            }
            #pragma unroll
            for (int i = 0; i < WIDE_FEW_LOADS; ++i) {
                unsigned int k = from + 32 * i + lane;
                if (from + 32 * i >= n_in) continue;
                // The weights of an input that is not there are zeros.
                const float* input = x + (k < n_in ? k : 0);
                #pragma unroll
                for (int r = 0; r < WIDE_FEW; ++r) {
                    #pragma unroll
                    for (int u = 0; u < 4; ++u)
                        sums[u * WIDE_FEW + r] = fmaf(weights[i][u], input[r * X_ROW], sums[u * WIDE_FEW + r]);
                }
            }
        }
        float z = wide_sums_of_lanes(sums);
        unsigned int output = first + lane / WIDE_FEW;
        if (output >= layer.n_out) continue;
        z += w[layer.n_out * n_in + output];
        if (layer.hidden && layer.gain == 0) z = activation == 1 ? warp_tanh(z) : z > 0.0f ? z : 0.0f;
        unsigned int column = layer.column + output + (output < layer.gap_at ? 0u : layer.gap);
        y[lane % WIDE_FEW * y_row + column] = z;
    }
}

#if P_NORMS
// Normalises a row of a layer's outputs and applies the activation, by a warp.
__device__ inline void wide_few_norm(const WideLayerPlace& layer, const float* parameters, int activation, float* y) {
    const float *gain = parameters + layer.gain, *shift = gain + layer.n_out;
    WideRowMoments of = wide_row_moments(y, layer.n_out, P_NORM_EPSILON);
    for (unsigned int i = threadIdx.x % 32; i < layer.n_out; i += 32)
        y[i] = wide_activated(activation, (y[i] - of.mean) * of.inverse * gain[i] + shift[i]);
}
#endif

// What the rows from `first` on see and may do before the step, which is stored and put into shared memory; zeros
// beyond the last row.
__device__ inline void wide_few_look(const ActFewArgs& a, const WidePlaces* places, unsigned int first,
                                     float* inputs, unsigned char* masks) {
    unsigned int rows = a.step.rows;
    unsigned long long first_cell = (unsigned long long)a.step.t * rows + first;
    bool normalises = P_NORM_OBS && a.seen.factors[2 * P_WIDTH] != 0.0f;
    for (unsigned int from = 0; from < WIDE_FEW * P_WIDTH; from += WIDE_FEW_THREADS * WIDE_FEW_LOOKS) {
        float x[WIDE_FEW_LOOKS], scaled[WIDE_FEW_LOOKS];
        #pragma unroll
        for (int i = 0; i < WIDE_FEW_LOOKS; ++i) {
            unsigned int e = from + i * WIDE_FEW_THREADS + threadIdx.x, row = first + e / P_WIDTH;
            bool there = e < WIDE_FEW * P_WIDTH && row < rows;
            WidePlace place = wide_place(places, there ? row : first);
            x[i] = place.group->obs[place.row * P_WIDTH + e % P_WIDTH];
        }
        #pragma unroll
        for (int i = 0; i < WIDE_FEW_LOOKS; ++i) {
            unsigned int column = (from + i * WIDE_FEW_THREADS + threadIdx.x) % P_WIDTH;
            scaled[i] = wide_scaled(x[i], a.seen.factors[2 * column], a.seen.factors[2 * column + 1]);
        }
        #pragma unroll
        for (int i = 0; i < WIDE_FEW_LOOKS; ++i) {
            unsigned int e = from + i * WIDE_FEW_THREADS + threadIdx.x;
            if (e >= WIDE_FEW * P_WIDTH) continue;
            bool there = first + e / P_WIDTH < rows;
            inputs[e] = !there ? 0.0f : normalises ? scaled[i] : x[i];
            if (there) wide_keep_obs(a.seen.obs, first_cell + e / P_WIDTH, e % P_WIDTH, inputs[e]);
        }
    }
    for (unsigned int e = threadIdx.x; e < WIDE_FEW * P_MASK; e += WIDE_FEW_THREADS) {
        unsigned int row = e / (P_MASK + !P_MASK), choice = e % (P_MASK + !P_MASK);
        if (first + row >= rows) continue;
        WidePlace place = wide_place(places, first + row);
        masks[e] = place.group->action_mask[place.row * P_MASK + choice];
        a.seen.masks[first_cell * P_MASK + e] = masks[e];
    }
    if (P_MORTAL && threadIdx.x < WIDE_FEW && first + threadIdx.x < rows) {
        WidePlace place = wide_place(places, first + threadIdx.x);
        a.seen.weights[first_cell + threadIdx.x] = place.group->alive ? place.group->alive[place.row] : 1;
    }
}

// Two blocks a multiprocessor: what waits in one is hidden by the other.
extern "C" __global__ __launch_bounds__(WIDE_FEW_THREADS, 2) void wide_act_few(
    const ActFewArgs a) {
    __shared__ float hidden[P_TOWERS][2][WIDE_FEW * P_WIDEST];
    __shared__ float inputs[WIDE_FEW * P_WIDTH], outs[WIDE_FEW][P_OUT + 1];
    __shared__ unsigned char masks[WIDE_FEW * P_MASK + 1];
    __shared__ WidePlaces places;
    __shared__ WideLayerPlace layers[P_TOWERS][P_DEPTH];
    wide_copy_places(a.step.places, &places);
    if (threadIdx.x < P_TOWERS * P_DEPTH) {
        unsigned int tower = threadIdx.x / P_DEPTH, layer = threadIdx.x % P_DEPTH;
        layers[tower][layer] = wide_layer_places[tower][layer];
    }
    __syncthreads();
    unsigned int first = blockIdx.x * WIDE_FEW, rows = a.step.rows;
    wide_few_look(a, &places, first, inputs, masks);
    __syncthreads();
    int tower = threadIdx.x / 256, warp = threadIdx.x / 32 % 8;
    for (int l = 0; l < P_DEPTH; ++l) {
        const WideLayerPlace& layer = layers[tower][l];
        const float *x = hidden[tower][(l + 1) % 2], *w = a.step.parameters;
        float* y = layer.hidden ? hidden[tower][l % 2] : outs[0];
        unsigned int y_row = layer.hidden ? P_WIDEST : P_OUT + 1;
        if (l == 0) wide_few_layer<P_WIDTH>(layer, w, warp, a.activation, inputs, y, y_row);
        else wide_few_layer<P_WIDEST>(layer, w, warp, a.activation, x, y, y_row);
        __syncthreads();
#if P_NORMS
        if (layer.gain != 0) wide_few_norm(layer, w, a.activation, y + warp * P_WIDEST);
        __syncthreads();
#endif
    }
    unsigned int row = first + threadIdx.x;
    if (threadIdx.x >= WIDE_FEW || row >= rows) return;
    WideStep step = a.step;
    step.places = &places;
    wide_decide(step, row, outs[threadIdx.x], masks + threadIdx.x * P_MASK);
}
