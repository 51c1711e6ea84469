// Gradients of eight tiles of weights, one below the other, whose derivatives are made here rather than kept: those by the sums
// of a last hidden layer of relu are products of a few numbers, the derivatives by the outputs behind it and its weights, where
// an output of relu is on. So bits come in their place, and a layer's inputs come once for all of its outputs. Where the
// layer before is a first one with few inputs, its outputs are recomputed, too.

// Rows at most.
#define RECOMPUTED_ROWS 256
// A row of inputs, of derivatives by outputs, and of bits, in bytes of shared memory.
#define RECOMPUTED_INPUTS 64
#define RECOMPUTED_OUTPUTS 16
#define RECOMPUTED_BITS 32
// Of the operands that inputs are made of.
#define RECOMPUTED_OPERANDS 16
static_assert(RECOMPUTED_ROWS * (RECOMPUTED_INPUTS + RECOMPUTED_OUTPUTS + RECOMPUTED_BITS + RECOMPUTED_OPERANDS) <=
                  STAGES_BYTES,
              "rows lie where stages do elsewhere");

// What derivatives are made of; nothing where they are kept.
struct Recomputed {
    // Derivatives by at most 8 outputs [rows, stride].
    const Kept* d;
    int stride;
    // Which outputs of relu are on, from the group's first on, and bytes from 64 rows to 64 rows.
    const unsigned char* on;
    int on_step;
    // The weights of those outputs before the step, from the group's first on (keep_weights).
    const uint2* weights;
    // What inputs are made of, unless they are kept: operands of at most 8 inputs [rows, 8], the first layer's weights and
    // biases before the step, from the group's first input on.
    const Half* operands;
    const uint2* before;
    const float* biases;
};

// Keeps packed weights of at most 8 terms, two words to each lane and 16 columns.
__device__ __noinline__ void keep_weights(const Half* packed, Kept* to, int columns) {
    for (int i = threadIdx.x; i < 2 * columns; i += N_THREADS) {
        uint4 words = __ldcg((const uint4*)packed + i / 64 * 128 + i % 64);
        ((uint2*)to)[i] = make_uint2(words.x, words.z);
    }
}

__device__ __noinline__ void keep_biases(const float* biases, float* to, int n) {
    for (int i = threadIdx.x; i < n; i += N_THREADS) to[i] = __ldcg(biases + i);
}

// Keeps the first 8 operands of each row of a tile x [TILE_ROWS, width + 8].
__device__ __noinline__ void keep_operands(const Half* x, int width, Half* to) {
    int row = threadIdx.x;
    if (row < TILE_ROWS) *(uint4*)(to + 8 * row) = *(const uint4*)(x + row * (width + 8));
}

__device__ inline void copy_sixteen(unsigned int to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Starts to bring all rows. Rows of inputs have their parts of 16 bytes swapped, so that eight of them never meet in a bank.
__device__ inline void fetch_recomputed(const Slab& slab, const Recomputed& recomputed, unsigned int inputs) {
    unsigned int outputs = inputs + RECOMPUTED_ROWS * RECOMPUTED_INPUTS;
    unsigned int on = outputs + RECOMPUTED_ROWS * RECOMPUTED_OUTPUTS;
    unsigned int operands = on + RECOMPUTED_ROWS * RECOMPUTED_BITS;
    int row = threadIdx.x;
    if (row < slab.rows) copy_sixteen(outputs + RECOMPUTED_OUTPUTS * row, recomputed.d + row * recomputed.stride);
    if (row < slab.rows && recomputed.operands)
        copy_sixteen(operands + RECOMPUTED_OPERANDS * row, recomputed.operands + 8 * row);
    for (int at = threadIdx.x; at < 2 * slab.rows; at += N_THREADS) {
        copy_sixteen(on + 16 * at, recomputed.on + at / 128 * recomputed.on_step + at % 128 * 16);
    }
    if (recomputed.operands) return;
    for (int at = threadIdx.x; at < 4 * slab.rows; at += N_THREADS) {
        int row = at / 4, part = at % 4;
        copy_sixteen(inputs + RECOMPUTED_INPUTS * row + 16 * (part ^ row / 2 % 4), slab.x + row * slab.k + 8 * part);
    }
}

// Ones where the highest bits of those bytes of two words are that `select` chooses.
__device__ inline unsigned int ones_of(unsigned int even, unsigned int odd, unsigned int select) {
    unsigned int ones;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(ones) : "r"(even), "r"(odd), "r"(select));
    return ones;
}

// Products of 16 by 8 numbers with 8 terms each.
__device__ inline void multiply_few_terms(float (&c)[4], uint2 a, unsigned int b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(b));
}

// Derivatives of 16 rows by 16 sums, as load_turned gives those that are kept: products with those by outputs of eight rows
// each, where a bit of two neighbouring rows is on. Bits of the next eight rows lie two behind.
__device__ inline void make_outputs(unsigned int (&to)[4], uint2 weights, const unsigned int (&d)[2],
                                    const unsigned int (&on)[2], int shift) {
    // Bytes 0 and 2 are of even sums and 1 and 3 of odd ones, of which a lane has one and that 8 behind it.
    unsigned int select = 0xcc88u + threadIdx.x / 4 % 2 * 0x1111u;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float products[4] = {};
        multiply_few_terms(products, weights, d[i]);
        unsigned int even = on[0] << (shift + 2 * i), odd = on[1] << (shift + 2 * i);
        to[2 * i] = two_halves<true>(products[0], products[1]) & ones_of(even, odd, select);
        to[2 * i + 1] = two_halves<true>(products[2], products[3]) & ones_of(even, odd, select + 0x2222u);
    }
}

// What a lane adds up.
struct RecomputedSums {
    const char *inputs, *outputs, *on;
    uint2 weights[2];

    __device__ inline RecomputedSums(const Recomputed& recomputed) {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32, matrix = lane / 8;
        inputs = (const char*)shared + RECOMPUTED_INPUTS * (lane % 8 + matrix % 2 * 8);
        outputs = (const char*)shared + RECOMPUTED_ROWS * RECOMPUTED_INPUTS + 4 * lane;
        // Of rows 2 (lane % 4) and of sums lane / 4, whose neighbours share a word.
        on = (const char*)shared + RECOMPUTED_ROWS * (RECOMPUTED_INPUTS + RECOMPUTED_OUTPUTS) + 256 * warp +
             64 * (lane % 4) + 8 * (lane / 8);
        weights[0] = __ldcg(recomputed.weights + 64 * warp + lane);
        weights[1] = __ldcg(recomputed.weights + 64 * warp + 32 + lane);
    }

    // Adds 16 rows.
    __device__ inline void add(TileSums& sums, int group, bool with_bias) const {
        unsigned int part = threadIdx.x % 32 / 16 ^ threadIdx.x % 8 / 2, x[2][4];
        unsigned int rows = shared_address(inputs + 16 * RECOMPUTED_INPUTS * group);
        load_turned(x[0], rows + 16 * part);
        load_turned(x[1], rows + 16 * (part ^ 2));
        const unsigned int* by_outputs = (const unsigned int*)(outputs + 16 * RECOMPUTED_OUTPUTS * group);
        const unsigned int d[2] = {by_outputs[0], by_outputs[32]};
        // 64 rows lie together, 32 of them to a word, of which the next row has its own eight behind.
        const unsigned int* bits = (const unsigned int*)(on + 64 * RECOMPUTED_BITS * (group / 4) + group % 4 / 2 * 4);
        const unsigned int both[2] = {bits[0], bits[8]};
        unsigned int recomputed[4];
        make_outputs(recomputed, weights[0], d, both, group % 2 * 4);
        add_outputs(sums.first, recomputed, x, with_bias);
        make_outputs(recomputed, weights[1], d, both, group % 2 * 4 + 1);
        add_outputs(sums.last, recomputed, x, with_bias);
    }
};

// The first layer's outputs of 32 columns, as the forward pass has them: a warp's share of all rows.
struct RecomputedInputs {
    uint2 weights[2];
    float2 biases[4];

    __device__ inline RecomputedInputs(const Recomputed& recomputed) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < 2; ++i) weights[i] = __ldcg(recomputed.before + 32 * i + lane);
#pragma unroll
        for (int j = 0; j < 4; ++j) biases[j] = __ldcg((const float2*)recomputed.biases + 4 * j + lane % 4);
    }

    __device__ inline void make(int n_groups) const {
        int lane = threadIdx.x % 32, row = lane / 4;
        const unsigned int* operands =
            (const unsigned int*)((const char*)shared + RECOMPUTED_ROWS * (RECOMPUTED_INPUTS + RECOMPUTED_OUTPUTS + RECOMPUTED_BITS)) + lane;
        for (int group = threadIdx.x / 32; group < n_groups; group += N_WARPS) {
            const unsigned int x[4] = {operands[64 * group], operands[64 * group + 32], 0u, 0u};
            char* to = (char*)shared + RECOMPUTED_INPUTS * (16 * group + row) + 4 * (lane % 4);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float sums[4] = {};
                multiply_add<false>(sums, x, j % 2 == 0 ? weights[j / 2].x : weights[j / 2].y, 0u);
                char* part = to + 16 * (j ^ row / 2);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    float low = activated(RELU, sums[2 * i] + biases[j].x), high = activated(RELU, sums[2 * i + 1] + biases[j].y);
                    *(unsigned int*)(part + 8 * RECOMPUTED_INPUTS * i) = two_halves<true>(low, high);
                }
            }
        }
    }
};

// Sums of the gradients of a warp's tile over all rows, in the order of other tiles'; calls begun() when rows are on their way.
template <class Begun>
__device__ inline TileSums sums_of_recomputed(const Slab& slab, const Recomputed& recomputed, bool with_bias, Begun begun) {
    fetch_recomputed(slab, recomputed, shared_address(shared));
    asm volatile("cp.async.commit_group;" ::: "memory");
    begun();
    asm volatile("cp.async.commit_group;" ::: "memory");
    const RecomputedSums all(recomputed);
    int n_groups = slab.rows / ROWS_AT_ONCE;
    if (recomputed.operands) {
        const RecomputedInputs inputs(recomputed);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        inputs.make(n_groups);
    } else {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    }
    __syncthreads();
    TileSums sums = {};
#pragma unroll 1
    for (int group = 0; group < N_WARPS && group < n_groups; ++group) {
        TileSums part = {};
        all.add(part, group, with_bias);
        if (group + N_WARPS < n_groups) all.add(part, group + N_WARPS, with_bias);
        add_sums(sums, part, 2, with_bias);
    }
    // The next rows take their place.
    __syncthreads();
    return sums;
}
