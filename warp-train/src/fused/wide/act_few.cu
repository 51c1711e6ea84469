// Few rows act in one launch: a block takes WIDE_FEW of them through all layers, eight warps to a
// tower, and draws their actions. Launches one after the other would take longer than the products.
//
// Needs, beside rollout.cu's: P_TOWERS, P_DEPTH (layers of the deepest tower), P_WIDEST (inputs of a
// layer at most), P_LAYERS (their places in the parameters).

#define WIDE_FEW 8

// A layer; one without outputs is none. Outputs lie from column `column` on, those from number `gap_at`
// on by `gap` further right.
struct WideLayerPlace {
    unsigned int n_in, n_out, weight, column, gap_at, gap;
    bool hidden;
};

__device__ const WideLayerPlace wide_layer_places[P_TOWERS][P_DEPTH] = P_LAYERS;

// Sums of 32 numbers each over a warp; lane i has the sum of number i.
__device__ inline float wide_sums_of_lanes(float (&x)[32]) {
    int lane = threadIdx.x % 32;
    #pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        #pragma unroll
        for (int i = 0; i < d; ++i) {
            float kept = lane & d ? x[i + d] : x[i], given = lane & d ? x[i] : x[i + d];
            x[i] = kept + __shfl_xor_sync(0xffffffffu, given, d);
        }
    }
    return x[0];
}

// y = activation(x w + b) for WIDE_FEW rows in shared memory: warp `warp` of eight takes four outputs at
// a time, its lanes inputs.
__device__ inline void wide_few_layer(const WideLayerPlace& layer, const float* parameters, int warp,
                                      int activation, const float* x, unsigned int x_row, float* y,
                                      unsigned int y_row) {
    const float* w = parameters + layer.weight;
    unsigned int lane = threadIdx.x % 32;
    for (unsigned int first = warp * 4; first < layer.n_out; first += 32) {
        float sums[32] = {};
        #pragma unroll 4
        for (unsigned int k = lane; k < layer.n_in; k += 32) {
            float weights[4];
            #pragma unroll
            for (int u = 0; u < 4; ++u)
                weights[u] = first + u < layer.n_out ? w[(first + u) * layer.n_in + k] : 0.0f;
            #pragma unroll
            for (int r = 0; r < WIDE_FEW; ++r) {
                float input = x[r * x_row + k];
                #pragma unroll
                for (int u = 0; u < 4; ++u)
                    sums[u * WIDE_FEW + r] = fmaf(weights[u], input, sums[u * WIDE_FEW + r]);
            }
        }
        float z = wide_sums_of_lanes(sums);
        unsigned int output = first + lane / WIDE_FEW;
        if (output >= layer.n_out) continue;
        z += w[layer.n_out * layer.n_in + output];
        if (layer.hidden) z = activation == 1 ? warp_tanh(z) : z > 0.0f ? z : 0.0f;
        unsigned int column = layer.column + output + (output < layer.gap_at ? 0u : layer.gap);
        y[lane % WIDE_FEW * y_row + column] = z;
    }
}

extern "C" __global__ __launch_bounds__(256 * P_TOWERS) void wide_act_few(
    const ActFewArgs a) {
    __shared__ float hidden[P_TOWERS][2][WIDE_FEW * P_WIDEST];
    __shared__ float inputs[WIDE_FEW * P_WIDTH], outs[WIDE_FEW][P_OUT + 1];
    unsigned int first = blockIdx.x * WIDE_FEW, rows = a.step.rows;
    for (unsigned int e = threadIdx.x; e < WIDE_FEW * P_WIDTH; e += 256 * P_TOWERS) {
        unsigned int row = first + e / P_WIDTH;
        inputs[e] =
            row < rows ? wide_look(a.step.places, a.step.t, rows, row, e % P_WIDTH, a.seen) : 0.0f;
    }
    __syncthreads();
    int tower = threadIdx.x / 256, warp = threadIdx.x / 32 % 8;
    for (int l = 0; l < P_DEPTH; ++l) {
        const WideLayerPlace& layer = wide_layer_places[tower][l];
        const float* x = l == 0 ? inputs : hidden[tower][(l + 1) % 2];
        float* y = layer.hidden ? hidden[tower][l % 2] : outs[0];
        wide_few_layer(layer, a.step.parameters, warp, a.activation, x, l == 0 ? P_WIDTH : P_WIDEST, y,
                       layer.hidden ? P_WIDEST : P_OUT + 1);
        __syncthreads();
    }
    unsigned int row = first + threadIdx.x;
    if (threadIdx.x < WIDE_FEW && row < rows) wide_decide(a.step, row, outs[threadIdx.x]);
}
