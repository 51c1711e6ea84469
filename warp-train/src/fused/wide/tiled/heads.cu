// Outputs of all towers for 32 rows at a time, which stay in shared memory: what reads them takes them there, since many
// outputs take longer to store than to make. A product's lines are outputs, its columns rows. Blocks of two groups of four
// warps, two on a multiprocessor, so that one makes outputs while the other goes on with them; a group makes 64 outputs at a
// time, for which it fetches weights by itself, 64 by 64 of them a stage.
//
// Made by further constants: U_HEAD_ROWS rows of a tile, U_HEAD_GROUPS groups of a block, U_HEAD_BLOCKS blocks on a multiprocessor,
// U_HEAD_PARTS blocks of 64 columns of the last hidden layer that are not all padding, U_HEAD_CHUNKS blocks of 64 outputs of all
// towers, U_HEAD_STAGES stages of a group.

#if U_HEAD_STAGES

#define U_HEAD_THREADS (U_HEAD_GROUPS * 128)
// Numbers from a row to the next one: rows of odd length begin in different banks.
#define U_HEAD_ROW ((P_OUT + 1) | 1)
// Bytes of 64 columns of a chunk's weights, and of a tile's rows.
#define U_HEAD_WEIGHTS 8192u
#define U_HEAD_PART (U_HEAD_ROWS * 128)
// Tiles of U_ROWS rows.
#define U_HEAD_TILES (U_ROWS / U_HEAD_ROWS)

// One of U_HEAD_CHUNKS.
struct UHeadChunk {
    unsigned int tower = 0, column;
    __device__ inline UHeadChunk(unsigned int chunk) {
        while (tower + 1 < U_TOWERS && chunk >= u_output_blocks(tower)) chunk -= u_output_blocks(tower++);
        column = chunk * 64;
    }
};

// A group's weights on their way, a stage after the other, and the same again for every tile.
struct UHeadWeights {
    unsigned int at, full, group, made = 0, asked = 0, of_tile, all;

    __device__ inline UHeadWeights(unsigned int at, unsigned int full, unsigned int tiles)
        : at(at), full(full), group(threadIdx.x / 128) {
        of_tile = U_HEAD_CHUNKS > group ? (U_HEAD_CHUNKS - group + U_HEAD_GROUPS - 1) / U_HEAD_GROUPS * U_HEAD_PARTS : 0;
        all = of_tile * tiles;
    }
    // Asks for what the next free stage is to hold; by one thread.
    __device__ inline void ask(const TiledLayerArgs& a) {
        if (asked == all) return;
        unsigned int stage = asked % U_HEAD_STAGES, number = asked % of_tile, part = number % U_HEAD_PARTS;
        UHeadChunk chunk(group + number / U_HEAD_PARTS * U_HEAD_GROUPS);
        const unsigned char* from = a.image + a.image_at + chunk.tower * a.image_tower +
                                    (chunk.column / U_ROWS * a.parts + part) * U_BLOCK + chunk.column % U_ROWS * 128;
        t_expect(full + stage * 8, U_HEAD_WEIGHTS);
        t_bulk(at + stage * U_HEAD_WEIGHTS, from, U_HEAD_WEIGHTS, full + stage * 8);
        ++asked;
    }
    // Waits for the next ones.
    __device__ inline unsigned int wait() const {
        unsigned int stage = made % U_HEAD_STAGES;
        t_wait_barrier(full + stage * 8, made / U_HEAD_STAGES % 2);
        return at + stage * U_HEAD_WEIGHTS;
    }
};

// Asks for the last hidden layers' outputs of a tile.
__device__ inline void u_ask_rows(const TiledLayerArgs& a, unsigned int tile, unsigned int at, unsigned int full) {
    t_expect(full, U_TOWERS * U_HEAD_PARTS * U_HEAD_PART);
    for (unsigned int e = 0; e < U_TOWERS * U_HEAD_PARTS; ++e) {
        unsigned int tower = e / U_HEAD_PARTS, part = e % U_HEAD_PARTS;
        unsigned long long block = (unsigned long long)(tile / U_HEAD_TILES) * a.parts + part;
        const unsigned char* from = a.x + tower * a.x_tower + block * U_BLOCK + tile % U_HEAD_TILES * U_HEAD_PART;
        t_bulk(at + e * U_HEAD_PART, from, U_HEAD_PART, full);
    }
}

// The two outputs of a chunk that a thread has sums of.
struct UHeadOutputs {
    // Where they lie in a row, or -1.
    int column[2];
    float bias[2];

    __device__ inline UHeadOutputs(const TiledLayerArgs& a, const UHeadChunk& chunk) {
        #pragma unroll
        for (unsigned int e = 0; e < 2; ++e) {
            int c = (int)(chunk.column + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + e * 8);
            column[e] = u_real(chunk.tower, c) < 0 ? -1 : (int)u_heads[chunk.tower].column + c;
            bias[e] = a.biases[a.biases_at + chunk.tower * a.biases_tower + c];
        }
        wide_loaded(bias);
    }
    // To the tile's outputs.
    __device__ inline void keep(const float (&sums)[16], float* outs) const {
        #pragma unroll
        for (unsigned int e = 0; e < 2; ++e) {
            if (column[e] < 0) continue;
            float* to = outs + threadIdx.x % 4 * 2 * U_HEAD_ROW + column[e];
            #pragma unroll
            for (unsigned int j = 0; j < 4; ++j) {
                to[8 * j * U_HEAD_ROW] = sums[4 * j + 2 * e] + bias[e];
                to[(8 * j + 1) * U_HEAD_ROW] = sums[4 * j + 2 * e + 1] + bias[e];
            }
        }
    }
};

// Lets all threads of `use` take the outputs of so many tiles, for which it may prepare while they are made; what a tile has for
// rows that do not exist means nothing.
template <class Use> __device__ inline void u_heads_of_tiles(const TiledLayerArgs& a, unsigned int tiles, Use& use) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ WideWord barriers[1 + U_HEAD_GROUPS * U_HEAD_STAGES];
    constexpr unsigned int x_bytes = U_TOWERS * U_HEAD_PARTS * U_HEAD_PART;
    constexpr unsigned int weight_bytes = U_HEAD_STAGES * U_HEAD_WEIGHTS;
    float* outs = (float*)(shared + x_bytes + U_HEAD_GROUPS * weight_bytes);
    unsigned int group = threadIdx.x / 128;
    unsigned int own = tiles > blockIdx.x ? (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
    unsigned int x = t_shared(shared), x_full = t_shared(barriers);
    UHeadWeights weights(x + x_bytes + group * weight_bytes, x_full + 8 + group * U_HEAD_STAGES * 8, own);
    if (threadIdx.x == 0) {
        for (unsigned int i = 0; i < 1 + U_HEAD_GROUPS * U_HEAD_STAGES; ++i) t_barrier(x_full + i * 8, 1);
        u_publish();
    }
    __syncthreads();
    bool leads = threadIdx.x % 128 == 0;
    if (threadIdx.x == 0 && own > 0) u_ask_rows(a, blockIdx.x, x, x_full);
    for (int stage = 0; leads && stage < U_HEAD_STAGES; ++stage) weights.ask(a);
    unsigned int round = 0;
    for (unsigned int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round ^= 1) {
        use.prepare(tile * U_HEAD_ROWS);
        t_wait_barrier(x_full, round);
        for (unsigned int c = group; c < U_HEAD_CHUNKS; c += U_HEAD_GROUPS) {
            UHeadChunk chunk(c);
            UHeadOutputs outputs(a, chunk);
            float sums[16];
            t_settle(sums);
            for (unsigned int part = 0; part < U_HEAD_PARTS; ++part) {
                WideWord left = t_operand(weights.wait(), 16, 1024, 1);
                WideWord right = t_operand(x + (chunk.tower * U_HEAD_PARTS + part) * U_HEAD_PART, 16, 1024, 1);
                t_fence();
                #pragma unroll
                for (int k = 0; k < 4; ++k) Mma<U_HEAD_ROWS>::template both<false>(sums, left + k * 2, right + k * 2, part + k > 0);
                t_commit();
                t_wait<0>();
                ++weights.made;
                u_meet(group);
                if (leads) weights.ask(a);
            }
            t_settle(sums);
            outputs.keep(sums, outs);
        }
        __syncthreads();
        if (threadIdx.x == 0 && tile + gridDim.x < tiles) u_ask_rows(a, tile + gridDim.x, x, x_full);
        use.take(tile * U_HEAD_ROWS, outs);
        __syncthreads();
    }
}

#endif
