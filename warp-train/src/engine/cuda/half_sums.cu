// Sums of gradients in half precision, and where weights and sums lie in their tiles.

// Sums of gradients: products of derivatives and inputs of a pass's rows, 32 outputs by 32 inputs.
// Product 4 i + j is that of outputs 16 i to 16 i + 15 and inputs 8 j to 8 j + 7.
struct WeightSums {
    float products[8][4];
    float biases[2][4];
    __device__ inline float weight(int i) const { return products[i / 4][i % 4]; }
    __device__ inline float bias(int i) const { return biases[i / 2][i % 2 * 2]; }
};

#define ROWS_AT_ONCE 16
// Of a warp's rows in shared memory, which are 32 numbers wide.
#define STAGED 40

// Adds 16 rows that lie in shared memory, `stride` numbers from row to row.
__device__ inline void add_staged(WeightSums& sums, const Half* d, const Half* x, int stride, bool with_bias) {
    int matrix = threadIdx.x % 32 / 8, row = threadIdx.x % 8;
    unsigned int outputs[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        load_turned(outputs[i], d + (row + matrix / 2 * 8) * stride + 16 * i + matrix % 2 * 8);
        if (with_bias) multiply_add<true>(sums.biases[i], outputs[i], 0x3f803f80u, 0x3f803f80u);
    }
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
        unsigned int inputs[4];
        load_turned(inputs, x + (row + matrix % 2 * 8) * stride + 8 * j + matrix / 2 * 8);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            multiply_add<true>(sums.products[4 * i + j], outputs[i], inputs[0], inputs[1]);
            multiply_add<true>(sums.products[4 * i + j + 1], outputs[i], inputs[2], inputs[3]);
        }
    }
}

// Adds a warp's partial sums to others.
__device__ inline void add_sums(WeightSums& to, const WeightSums& from) {
#pragma unroll
    for (int i = 0; i < 32; ++i) to.products[i / 4][i % 4] += from.products[i / 4][i % 4];
#pragma unroll
    for (int i = 0; i < 4; ++i) to.biases[i / 2][i % 2 * 2] += from.biases[i / 2][i % 2 * 2];
}

// Adds rows 16 i of a slab, for i = first_group, and so on in steps of N_WARPS, up to `to`; or, by twos, those of two
// neighbouring i, of which the second is summed by itself.
__device__ inline void add_rows(WeightSums& sums, const Slab& slab, int first_group, int to, bool with_bias, bool pairwise) {
    constexpr int BUFFERS = 2;
    int step = pairwise ? 1 : N_WARPS;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Half *staged_d = (Half*)(shared + warp * SUMS * 32), *staged_x = staged_d + 16 * STAGED;
    uint4 d[BUFFERS][2], x[BUFFERS][2];
    auto load = [&](int buffer, int at) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            long long row = 16 * at + lane / 4 + 8 * i;
            d[buffer][i] = __ldcg((const uint4*)(slab.d + row * slab.n + lane % 4 * 8));
            x[buffer][i] = __ldcg((const uint4*)(slab.x + row * slab.k + lane % 4 * 8));
        }
    };
#pragma unroll
    for (int b = 0; b < BUFFERS; ++b) {
        if (first_group + b * step < to) load(b, first_group + b * step);
    }
    for (int first = first_group; first < to; first += BUFFERS * step) {
#pragma unroll
        for (int b = 0; b < BUFFERS; ++b) {
            int at = first + b * step, next = at + BUFFERS * step;
            if (at >= to) break;
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int place = (lane / 4 + 8 * i) * STAGED + lane % 4 * 8;
                *(uint4*)(staged_d + place) = d[b][i];
                *(uint4*)(staged_x + place) = x[b][i];
            }
            __syncwarp();
            if (next < to) load(b, next);
            if (b == 1 && pairwise) {
                WeightSums sixteen = {};
                add_staged(sixteen, staged_d, staged_x, STAGED, with_bias);
                add_sums(sums, sixteen);
            } else {
                add_staged(sums, staged_d, staged_x, STAGED, with_bias);
            }
        }
    }
    __syncwarp();
}

// Where a warp's share of all warps' sums lies in a tile: sums 4 warp + 2 pair and the one behind it, which are
// neighbouring inputs of an output, and that of biases.
__device__ inline int output_of(int warp, int lane, int pair) { return warp / 4 * 16 + lane / 4 + 8 * pair; }
__device__ inline int input_of(int warp, int lane, int) { return warp % 4 * 8 + lane % 4 * 2; }
__device__ inline int bias_of(int warp, int lane) { return warp / 2 * 16 + lane / 4 + warp % 2 * 8; }

// Where a weight lies in its tile: lanes hold two inputs of an output and of the one 8 behind it side by side.
__device__ inline int weight_place(int, int output, int input) {
    int lane = output % 8 * 4 + input % 8 / 2;
    return ((output / 16 * 4 + input / 8) * 32 + lane) * 4 + output / 8 % 2 * 2 + input % 2;
}

// Turns 8 by 8 numbers in half precision, two neighbours of a row in each lane.
__device__ inline unsigned int turned_eight(unsigned int two) {
    unsigned int to;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(two));
    return to;
}

// Keeps a warp's share of a tile packed, too: two neighbouring inputs of an output and of the one 8 behind it.
__device__ inline void pack_share(Half* forward, Half* back, float2 low, float2 high) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int output = output_of(warp, lane, 0), input = input_of(warp, lane, 0);
    *(unsigned int*)(forward + packed_place(output, input)) = two_halves<false>(low.x, low.y);
    *(unsigned int*)(forward + packed_place(output + 8, input)) = two_halves<false>(high.x, high.y);
    if (!back) return;
    // Turned, a lane has neighbouring outputs of one input, which lie side by side.
    uint2 turned = {turned_eight(two_halves<true>(low.x, low.y)), turned_eight(two_halves<true>(high.x, high.y))};
    *(uint2*)(back + packed_place(warp % 4 * 8 + lane / 4, warp / 4 * 16 + lane % 4 * 2)) = turned;
}

// Keeps weights of an output and two neighbouring inputs, the first of them even, packed, too.
__device__ inline void pack_two(Half* forward, Half* back, int output, int input, float a, float b) {
    unsigned int two = two_halves<true>(a, b);
    *(unsigned int*)(forward + packed_place(output, input)) = two_halves<false>(a, b);
    back[packed_place(input, output)] = (Half)two;
    back[packed_place(input + 1, output)] = (Half)(two >> 16);
}
