// Layer norm between a hidden layer's sums and its activation, where layers run one by one on tensor cores. A warp takes a row,
// of which a lane has 8 columns of every 256. Everything is worked out from the sums as they are stored, so that both ways see
// the same numbers. U_PARTS times 256 columns are the widest hidden layer's; U_WHOLE says that no layer has a part of 256.

struct UNorm {
    const UPlace& place;
    const float *gains, *shifts;
    unsigned int lane;

    __device__ inline UNorm(unsigned int tower, unsigned int layer, const float* biases, unsigned int biases_tower)
        : place(u_places[tower][layer]), gains(biases + tower * biases_tower + place.biases + place.out),
          shifts(gains + place.out), lane(threadIdx.x % 32) {}

    // The lane's columns of a part; where they are none, nothing is read or written.
    __device__ inline unsigned int column(int part) const { return part * 256 + lane * 8; }
    __device__ inline bool exists(int part) const { return (U_WHOLE ? part * 256 : column(part)) < place.out; }
    // Whether a column is no padding.
    __device__ inline bool is_real(int part, int k) const { return U_WHOLE || column(part) + k < place.n_out; }

    // Where the lane's columns of a row's first part lie in a matrix; those of the next part are four blocks further.
    __device__ inline unsigned long long at(unsigned int row) const { return u_at(row, lane * 8, place.out / 64); }
    // Rows bypass the first-level cache, so that gains and shifts stay there.
    __device__ inline void load(const unsigned char* row, uint4 (&x)[U_PARTS]) const {
        #pragma unroll
        for (int p = 0; p < U_PARTS; ++p) {
            x[p] = make_uint4(0, 0, 0, 0);
            if (!exists(p)) continue;
            asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[p].x), "=r"(x[p].y), "=r"(x[p].z), "=r"(x[p].w)
                         : "l"(row + p * 4 * U_BLOCK) : "memory");
        }
    }
    __device__ inline void store(unsigned char* row, int part, const float (&x)[8]) const {
        if (exists(part)) u_store(row + part * 4 * U_BLOCK, x);
    }
};

__device__ inline void u_floats(const uint4& halves, float (&x)[8]) {
    unsigned int pairs[4] = {halves.x, halves.y, halves.z, halves.w};
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        x[2 * k] = t_low(pairs[k]);
        x[2 * k + 1] = t_high(pairs[k]);
    }
}

__device__ inline void u_vector(const float* from, float (&x)[8]) {
    float4 low = ((const float4*)from)[0], high = ((const float4*)from)[1];
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w, x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

// What makes a row's sums numbers of mean 0 and deviation 1.
struct UMoments {
    float mean, inverse;

    __device__ inline UMoments(const UNorm& norm, const uint4 (&sums)[U_PARTS]) {
        float share = 1.0f / (float)norm.place.n_out, sum = 0.0f, squares = 0.0f, x[8];
        #pragma unroll
        for (int p = 0; p < U_PARTS; ++p) {
            u_floats(sums[p], x);
            #pragma unroll
            for (int k = 0; k < 8; ++k) sum += x[k];
        }
        mean = wide_warp_sum(sum) * share;
        #pragma unroll
        for (int p = 0; p < U_PARTS; ++p) {
            if (U_WHOLE && !norm.exists(p)) continue;
            u_floats(sums[p], x);
            #pragma unroll
            for (int k = 0; k < 8; ++k) {
                float apart = norm.is_real(p, k) ? x[k] - mean : 0.0f;
                squares += apart * apart;
            }
        }
        inverse = rsqrtf(wide_warp_sum(squares) * share + U_EPSILON);
    }
    __device__ inline float unit(float x) const { return __fmaf_rn(x, inverse, -mean * inverse); }
};

__device__ inline unsigned int u_full_rows(unsigned int rows) { return (rows + U_ROWS - 1) / U_ROWS * U_ROWS; }

// Activations from the sums of a hidden layer, two rows of a warp at a time, which are eight apart: these lie in the same
// order. Rows are so many that blocks are full.
extern "C" __global__ __launch_bounds__(256, U_NORM_BLOCKS) void wide_tiled_norm(const TiledNormArgs a) {
    unsigned int tower = blockIdx.x % U_TOWERS, block = blockIdx.x / U_TOWERS, step = gridDim.x / U_TOWERS * 16;
    unsigned int rows = u_full_rows(wide_present(a.state, a.sampled, a.first, a.rows));
    UNorm norm(tower, a.layer, a.biases, a.biases_tower);
    const unsigned char* all_sums = a.sums + tower * a.tower;
    for (unsigned int row = block * 16 + threadIdx.x / 32; row < rows; row += step) {
        uint4 sums[2][U_PARTS];
        const unsigned char* from = all_sums + norm.at(row);
        norm.load(from, sums[0]);
        norm.load(from + 8 * 128, sums[1]);
        unsigned char* to = a.y + (from - a.sums);
        UMoments of[2] = {UMoments(norm, sums[0]), UMoments(norm, sums[1])};
        #pragma unroll
        for (int p = 0; p < U_PARTS; ++p) {
            if (!norm.exists(p)) continue;
            float gains[8], shifts[8];
            u_vector(norm.gains + norm.column(p), gains);
            u_vector(norm.shifts + norm.column(p), shifts);
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                float x[8];
                u_floats(sums[i][p], x);
                #pragma unroll
                for (int k = 0; k < 8; ++k) {
                    float y = __fmaf_rn(of[i].unit(x[k]), gains[k], shifts[k]);
                    // What is no number stays none, as without layer norm.
                    x[k] = U_TANH ? t_tanh(y) : y < 0.0f ? 0.0f : y;
                }
                norm.store(to + i * 8 * 128, p, x);
            }
        }
    }
}

// A lane's sums of the gradients of gains and shifts.
struct UNormGradients {
    float gains[U_PARTS][8] = {}, shifts[U_PARTS][8] = {};

    // A column of a block's eight warps at a time, to where its sums lie.
    __device__ inline void store(const UNorm& norm, float* to_gains, float* to_shifts) const {
        __shared__ float of_warps[8][256];
        #pragma unroll
        for (int i = 0; i < 2 * U_PARTS; ++i) {
            int p = i / 2;
            __syncthreads();
            #pragma unroll
            for (int k = 0; k < 8; ++k) {
                of_warps[threadIdx.x / 32][k * 32 + norm.lane] = i % 2 ? shifts[p][k] : gains[p][k];
            }
            __syncthreads();
            unsigned int column = p * 256 + threadIdx.x, at = threadIdx.x % 8 * 32 + threadIdx.x / 8;
            float sum = 0.0f;
            #pragma unroll
            for (int warp = 0; warp < 8; ++warp) sum += of_warps[warp][at];
            if (column < norm.place.out) (i % 2 ? to_shifts : to_gains)[column] = sum;
        }
    }
};

// From gradients d of activations to those of sums, in place; every block leaves its rows' sums of the gradients of gains and
// shifts in `parts`, f32 [blocks of a tower, towers, biases_tower], where they lie as gains and shifts do among biases.
extern "C" __global__ __launch_bounds__(256, U_NORM_BACK_BLOCKS) void wide_tiled_norm_back(const TiledNormBackArgs a) {
    unsigned int tower = blockIdx.x % U_TOWERS, block = blockIdx.x / U_TOWERS, blocks = gridDim.x / U_TOWERS;
    unsigned int rows = u_full_rows(wide_present(a.state, 1, a.first, a.rows));
    UNorm norm(tower, a.layer, a.biases, a.biases_tower);
    const unsigned char* all_sums = a.sums + tower * a.tower;
    unsigned char* d = a.d + tower * a.tower;
    float share = 1.0f / (float)norm.place.n_out;
    UNormGradients gradients;
    unsigned int row = block * 8 + threadIdx.x / 32, step = blocks * 8;
    uint4 next_sums[U_PARTS], next_d[U_PARTS];
    auto load = [&] {
        if (row >= rows) return;
        norm.load(all_sums + norm.at(row), next_sums);
        norm.load(d + norm.at(row), next_d);
    };
    for (load(); row < rows;) {
        uint4 sums[U_PARTS], of_activations[U_PARTS];
        #pragma unroll
        for (int p = 0; p < U_PARTS; ++p) {
            sums[p] = next_sums[p];
            of_activations[p] = next_d[p];
        }
        unsigned char* to = d + norm.at(row);
        row += step;
        // The next row is on its way meanwhile, if registers suffice.
        if (U_PARTS <= 4) load();
        UMoments of(norm, sums);
        float g[U_PARTS][8] = {}, sum = 0.0f, along = 0.0f;
        #pragma unroll
        for (int p = 0; p < U_PARTS; ++p) {
            if (!norm.exists(p)) continue;
            float x[8], gains[8], shifts[8];
            u_floats(sums[p], x);
            u_floats(of_activations[p], g[p]);
            u_vector(norm.gains + norm.column(p), gains);
            u_vector(norm.shifts + norm.column(p), shifts);
            #pragma unroll
            for (int k = 0; k < 8; ++k) {
                float unit = of.unit(x[k]), y = __fmaf_rn(unit, gains[k], shifts[k]), h = t_tanh(y);
                g[p][k] = U_TANH ? g[p][k] * (1.0f - h * h) : y > 0.0f ? g[p][k] : 0.0f;
                gradients.gains[p][k] += g[p][k] * unit;
                gradients.shifts[p][k] += g[p][k];
                g[p][k] *= gains[k];
                sum += g[p][k];
                along += g[p][k] * unit;
            }
        }
        // inverse * (g - sum - unit * along), of which the last two are a line in x.
        sum = wide_warp_sum(sum) * share;
        float slope = -wide_warp_sum(along) * share * of.inverse * of.inverse, at_0 = -sum * of.inverse - slope * of.mean;
        #pragma unroll
        for (int p = 0; p < U_PARTS; ++p) {
            float x[8];
            u_floats(sums[p], x);
            #pragma unroll
            for (int k = 0; k < 8; ++k) {
                float dx = g[p][k] * of.inverse + (x[k] * slope + at_0);
                x[k] = norm.is_real(p, k) ? dx : 0.0f;
            }
            norm.store(to, p, x);
        }
        if (U_PARTS > 4) load();
    }
    float* to = a.parts + ((unsigned long long)block * U_TOWERS + tower) * a.biases_tower + norm.place.biases + norm.place.out;
    gradients.store(norm, to, to + norm.place.out);
}

// Gradients of all gains and shifts, from what blocks left: every copy of the parameters gets those of some blocks, or has them
// added if these rows are not the first.
extern "C" __global__ __launch_bounds__(256) void wide_tiled_norm_sum(const TiledNormSumArgs a) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x, at = i % a.biases_tower;
    unsigned int tower = i / a.biases_tower % U_TOWERS, copy = i / a.biases_tower / U_TOWERS;
    if (copy >= a.copies) return;
    int l = U_DEPTH;
    while (at < u_places[tower][l].biases) --l;
    const UPlace& place = u_places[tower][l];
    unsigned int kind = (at - place.biases) / place.out, column = (at - place.biases) % place.out;
    if (l == U_DEPTH || kind == 0 || column >= place.n_out) return;
    unsigned int from = a.blocks * copy / a.copies, to = a.blocks * (copy + 1) / a.copies;
    const float* part = a.parts + (unsigned long long)tower * a.biases_tower + at;
    float sum = 0.0f;
    for (unsigned int b = from; b < to; ++b) sum += part[(unsigned long long)b * U_TOWERS * a.biases_tower];
    float* gradient = a.partial + (unsigned long long)copy * a.n_parameters + place.gain + (kind - 1) * place.n_out + column;
    *gradient = a.first != 0 ? *gradient + sum : sum;
}
