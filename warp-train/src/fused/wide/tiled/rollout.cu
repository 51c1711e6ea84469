// A whole rollout in one launch, for replicas of one agent whose environment is a thread each, by layers that a multiprocessor has
// no room for. A cluster of U_CLUSTER blocks takes U_CLUSTER_ROWS replicas through all steps. Of each layer, a block keeps the
// weights of every U_CLUSTERth 64 outputs in shared memory, makes these outputs of all rows, and copies them to the other
// blocks; it steps the replicas of its own rows, and copies what they see.
//
// Nobody waits before it copies. A block makes its part of a layer when it has all parts of the layer before, and whoever sent one
// of these had read all that came before it; so two places for activations, which layers take in turn, are enough.
//
// Further constants: U_TOWER is the tower that acts, U_VALUES whether it also gives values, U_BLOCKS_INTO of how many blocks of
// 64 columns each layer's inputs are that are not all padding, of observations 1, U_SUMS_OBS whether what is seen is summed.

// Rows of a block's own, at most.
#define U_OWN_ROWS ((U_CLUSTER_ROWS + U_CLUSTER - 1) / U_CLUSTER)
// Bytes of 64 columns of all rows, and of as many weights of 64 outputs.
#define U_PART (U_CLUSTER_ROWS * 128u)
#define U_SQUARE 8192u
// Tiles of 16 rows, each of some warps, and tiles of 16 of 64 columns that such a warp has.
#define U_ROW_TILES (U_CLUSTER_ROWS / 16)
#define U_COLUMN_TILES (U_ROW_TILES / 2)

__device__ constexpr unsigned int u_blocks_into(int l) {
    constexpr unsigned int blocks[] = U_BLOCKS_INTO;
    return blocks[l];
}
// Blocks of 64 outputs of a layer that block `rank` of a cluster makes: `rank`, rank + U_CLUSTER and so on. The first one has most.
__device__ constexpr unsigned int u_own(int l, unsigned int rank) {
    return (u_blocks_into(l + 1) + U_CLUSTER - 1 - rank) / U_CLUSTER;
}
// Where the weights of layer l begin in shared memory, and its own biases among all of a block's.
__device__ constexpr unsigned int u_weights_at(int l) {
    return l == 0 ? 0 : u_weights_at(l - 1) + u_own(l - 1, 0) * u_blocks_into(l - 1) * U_SQUARE;
}
__device__ constexpr unsigned int u_biases_at(int l) { return l == 0 ? 0 : u_biases_at(l - 1) + u_own(l - 1, 0) * 64; }
// Blocks of what layers l, l + 2 and so on give, at most.
__device__ constexpr unsigned int u_most_blocks(int l) {
    return l >= U_DEPTH ? 0
                        : u_blocks_into(l + 1) > u_most_blocks(l + 2) ? u_blocks_into(l + 1) : u_most_blocks(l + 2);
}
// Where observations lie, and what layer l gives.
#define U_SEEN_AT u_weights_at(U_DEPTH)
__device__ constexpr unsigned int u_given_at(int l) {
    return U_SEEN_AT + U_PART + (l % 2 == 0 ? 0 : u_most_blocks(0) * U_PART);
}

static_assert(U_OWN_ROWS <= 32, "a warp steps a block's replicas");
static_assert(P_WIDTH <= 64, "observations are one block of columns");
static_assert(u_own(0, U_CLUSTER - 1) > 0 && u_own(U_DEPTH - 1, U_CLUSTER - 1) > 0, "each block has part in every layer");
static_assert(u_biases_at(U_DEPTH) * 4 + U_OWN_ROWS * (P_OUT + 1) * 4 + 1024 <= U_DECLARED, "what the host leaves for it");

// Barriers of a block: weights have come, what all see has come, and what layers of even and of odd number give has.
enum UArrived { U_WEIGHTS, U_SEEN, U_GIVEN };

// A block of a cluster.
struct UMember {
    unsigned int rank;
    // Its own rows of the cluster's, and the number of the cluster's first one.
    unsigned int begin, end, first;
    // Addresses in shared memory.
    unsigned int shared, barriers;

    __device__ inline unsigned int barrier(unsigned int which) const { return barriers + which * 8; }
    // Expects so many bytes of all others together.
    __device__ inline void expect(unsigned int which, unsigned int bytes) const {
        if (threadIdx.x == rank) t_expect(barrier(which), bytes);
    }
    // Copies bytes from `at` on to the same place of each of the others, and tells their barriers.
    __device__ inline void give(unsigned int which, unsigned int at, unsigned int bytes) const {
        unsigned int peer = threadIdx.x;
        if (peer >= U_CLUSTER || peer == rank) return;
        asm volatile(
            "{\n.reg .b32 to, barrier;\nmapa.shared::cluster.u32 to, %0, %3;\nmapa.shared::cluster.u32 barrier, %1, %3;\n"
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%0], %2, [barrier];\n}"
            ::"r"(shared + at), "r"(barrier(which)), "r"(bytes), "r"(peer) : "memory");
    }
};

// sums += 16 rows by 8 columns of 16 terms.
__device__ inline void u_multiply_add(float (&sums)[4], const unsigned int (&x)[4], unsigned int low, unsigned int high) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." HALF_TYPE "." HALF_TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(low), "r"(high));
}

// A warp's tiles of 64 columns of layer L, from inputs at `x`, weights at `w` and the biases of these columns, to `y`.
template <int L>
__device__ inline void u_make_columns(unsigned int x, unsigned int w, const float* biases, unsigned int y) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = warp % U_ROW_TILES * 16 + lane % 16, first = warp / U_ROW_TILES * U_COLUMN_TILES;
    // Two sums of every number, so that a product waits for the one before the last.
    float sums[U_COLUMN_TILES][2][2][4] = {};
    #pragma unroll 2
    for (unsigned int block = 0; block < u_blocks_into(L); ++block) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            unsigned int terms[4];
            u_take(x + block * U_PART + row * 128 + ((2 * k + lane / 16) ^ row % 8) * 16, terms);
            #pragma unroll
            for (int tile = 0; tile < U_COLUMN_TILES; ++tile) {
                unsigned int weights[4];
                int line = (first + tile) * 16 + lane / 16 * 8 + lane % 8;
                u_take(w + block * U_SQUARE + line * 128 + ((2 * k + lane / 8 % 2) ^ line % 8) * 16, weights);
                u_multiply_add(sums[tile][k % 2][0], terms, weights[0], weights[1]);
                u_multiply_add(sums[tile][k % 2][1], terms, weights[2], weights[3]);
            }
        }
    }
    #pragma unroll
    for (int tile = 0; tile < U_COLUMN_TILES; ++tile) {
        unsigned int halves[4];
        #pragma unroll
        for (int eight = 0; eight < 2; ++eight) {
            float2 bias = *(const float2*)(biases + (first + tile) * 16 + eight * 8 + lane % 4 * 2);
            const float(&even)[4] = sums[tile][0][eight], (&odd)[4] = sums[tile][1][eight];
            halves[2 * eight] = u_activate(even[0] + odd[0] + bias.x, even[1] + odd[1] + bias.y);
            halves[2 * eight + 1] = u_activate(even[2] + odd[2] + bias.x, even[3] + odd[3] + bias.y);
        }
        u_put(y + row * 128 + (((first + tile) * 2 + lane / 16) ^ row % 8) * 16, halves);
    }
}

// Layers L and above of a step. `phases` has a bit for each barrier.
template <int L> struct ULayers {
    __device__ static inline void run(const UMember& own, const float* biases, unsigned int& phases) {
        constexpr unsigned int x = L == 0 ? U_SEEN_AT : u_given_at(L - 1), y = u_given_at(L), arrived = U_GIVEN + L % 2;
        unsigned int n = u_own(L, own.rank);
        for (unsigned int i = 0; i < n; ++i) {
            unsigned int weights = u_weights_at(L) + i * u_blocks_into(L) * U_SQUARE;
            u_make_columns<L>(own.shared + x, own.shared + weights, biases + u_biases_at(L) + i * 64,
                              own.shared + y + (own.rank + i * U_CLUSTER) * U_PART);
        }
        u_publish();
        __syncthreads();
        own.expect(arrived, (u_blocks_into(L + 1) - n) * U_PART);
        for (unsigned int i = 0; i < n; ++i) own.give(arrived, y + (own.rank + i * U_CLUSTER) * U_PART, U_PART);
        t_wait_barrier(own.barrier(arrived), phases >> arrived & 1);
        phases ^= 1u << arrived;
        ULayers<L + 1>::run(own, biases, phases);
    }
};
template <> struct ULayers<U_DEPTH> {
    __device__ static inline void run(const UMember&, const float*, unsigned int&) {}
};

// Brings the block's weights, and its biases; the barrier of the former tells when they are there.
__device__ inline void u_bring_weights(const TiledRolloutArgs& a, const UMember& own, float* biases) {
    const unsigned char* image = a.image + U_TOWER * a.image_tower;
    unsigned int bytes = 0;
    #pragma unroll
    for (int l = 0; l < U_DEPTH; ++l) {
        const UPlace& layer = u_places[U_TOWER][l];
        unsigned int n = u_own(l, own.rank), parts = u_blocks_into(l), squares = n * parts;
        bytes += squares * U_SQUARE;
        for (unsigned int i = threadIdx.x; i < n * 64; i += 256) {
            unsigned int column = (own.rank + i / 64 * U_CLUSTER) * 64 + i % 64;
            biases[u_biases_at(l) + i] = a.biases[U_TOWER * a.biases_tower + layer.biases + column];
        }
        if (threadIdx.x != 0) continue;
        for (unsigned int i = 0; i < squares; ++i) {
            unsigned int block = own.rank + i / parts * U_CLUSTER;
            const unsigned char* from = image + layer.image + (block / 2 * (layer.in / 64) + i % parts) * U_BLOCK;
            t_bulk(own.shared + u_weights_at(l) + i * U_SQUARE, from + block % 2 * U_SQUARE, U_SQUARE, own.barrier(U_WEIGHTS));
        }
    }
    if (threadIdx.x == 0) t_expect(own.barrier(U_WEIGHTS), bytes);
}

// Keeps what the block's own agents see before step t, and gives it to all; takes it into the sums of the thread's column.
__device__ inline void u_observe(const TiledRolloutArgs& a, const WidePlaces* places, unsigned int t, const UMember& own,
                                 unsigned char* seen, WideDistances& sums) {
    unsigned int rows = a.step.rows;
    auto is_there = [&](unsigned int row) { return row < own.end && own.first + row < rows; };
    #pragma unroll 4
    for (unsigned int e = threadIdx.x; e < U_OWN_ROWS * P_WIDTH; e += 256) {
        unsigned int row = own.begin + e / P_WIDTH, column = e % P_WIDTH;
        if (!is_there(row)) continue;
        float x = wide_normalised(places->groups[0].obs[(unsigned long long)(own.first + row) * P_WIDTH + column], column,
                                  a.seen.factors);
        unsigned short* to = (unsigned short*)(seen + row * 128 + (column / 8 ^ row % 8) * 16) + column % 8;
        *to = (unsigned short)t_halves(x, 0.0f);
        wide_keep_obs(a.seen.obs, (unsigned long long)t * rows + own.first + row, column, x);
    }
    for (unsigned int e = threadIdx.x; e < U_OWN_ROWS * P_MASK; e += 256) {
        unsigned long long row = own.first + own.begin + e / (P_MASK + !P_MASK), column = e % (P_MASK + !P_MASK);
        if (!is_there(own.begin + e / (P_MASK + !P_MASK))) continue;
        a.seen.masks[((unsigned long long)t * rows + row) * P_MASK + column] =
            places->groups[0].action_mask[row * P_MASK + column];
    }
    u_publish();
    __syncthreads();
    own.expect(U_SEEN, (U_CLUSTER_ROWS - (own.end - own.begin)) * 128);
    own.give(U_SEEN, U_SEEN_AT + own.begin * 128, (own.end - own.begin) * 128);
    if (!U_SUMS_OBS || !a.sums_obs || threadIdx.x >= P_WIDTH) return;
    double mean = (double)a.seen.factors[2 * threadIdx.x];
    #pragma unroll 8
    for (unsigned int row = own.begin; row < own.begin + U_OWN_ROWS; ++row) {
        if (!is_there(row)) continue;
        double off = (double)places->groups[0].obs[(unsigned long long)(own.first + row) * P_WIDTH + threadIdx.x] - mean;
        sums.count += 1.0;
        sums.sum += off;
        sums.squares += off * off;
    }
}

// The tower's outputs of the block's own rows; a warp takes every eighth of them, a lane some of the last layer's columns.
__device__ inline void u_outputs(const TiledRolloutArgs& a, const UMember& own, const unsigned char* given,
                                 float (*outs)[P_OUT + 1]) {
    constexpr unsigned int columns[] = U_OUTPUT_COLUMNS, n = columns[U_TOWER], chunks = u_blocks_into(U_DEPTH) * 8;
    const UPlace& layer = u_places[U_TOWER][U_DEPTH];
    const unsigned char* few = a.few + (unsigned long long)U_TOWER * 8 * layer.in * 2;
    unsigned int lane = threadIdx.x % 32;
    for (unsigned int row = own.begin + threadIdx.x / 32; row < own.end; row += 8) {
        float sums[n] = {};
        #pragma unroll
        for (unsigned int chunk = lane; chunk < chunks; chunk += 32) {
            uint4 x = *(const uint4*)(given + chunk / 8 * U_PART + row * 128 + (chunk ^ row) % 8 * 16);
            unsigned int pairs[4] = {x.x, x.y, x.z, x.w};
            #pragma unroll
            for (unsigned int c = 0; c < n; ++c) {
                uint4 w = *(const uint4*)(few + (c * layer.in + chunk * 8) * 2);
                unsigned int weights[4] = {w.x, w.y, w.z, w.w};
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    sums[c] = __fmaf_rn(t_low(pairs[i]), t_low(weights[i]), sums[c]);
                    sums[c] = __fmaf_rn(t_high(pairs[i]), t_high(weights[i]), sums[c]);
                }
            }
        }
        #pragma unroll
        for (unsigned int c = 0; c < n; ++c) {
            #pragma unroll
            for (int by = 16; by > 0; by /= 2) sums[c] += __shfl_xor_sync(0xffffffffu, sums[c], by);
            if (lane != 0 || u_real(U_TOWER, (int)c) < 0) continue;
            outs[row - own.begin][u_heads[U_TOWER].column + c] = sums[c] + a.biases[U_TOWER * a.biases_tower + layer.biases + c];
        }
    }
}

extern "C" __global__ __cluster_dims__(U_CLUSTER, 1, 1) __launch_bounds__(256, 1) void wide_tiled_rollout(
    WarpTables tables, WarpArrays arrays, WarpRun run, const TiledRolloutArgs a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ WideWord barriers[4];
    __shared__ WidePlaces places;
    __shared__ float biases[u_biases_at(U_DEPTH)];
    __shared__ float outs[U_OWN_ROWS][P_OUT + 1];
    unsigned int rank = blockIdx.x % U_CLUSTER;
    UMember own = {rank, U_CLUSTER_ROWS * rank / U_CLUSTER, U_CLUSTER_ROWS * (rank + 1) / U_CLUSTER,
                   blockIdx.x / U_CLUSTER * U_CLUSTER_ROWS, t_shared(shared), t_shared(barriers)};
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) t_barrier(own.barrier(i), 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    wide_copy_places(a.step.places, &places);
    // Rows that are not there, and what pads observations.
    for (unsigned int i = threadIdx.x; i < U_PART / 16; i += 256) ((uint4*)(shared + U_SEEN_AT))[i] = make_uint4(0, 0, 0, 0);
    u_publish();
    __syncthreads();
    u_bring_weights(a, own, biases);
    t_meet_cluster();
    WideStep step = a.step;
    step.places = &places;
    unsigned int first_step = wide_run_step(step, &places), phases = 0;
    Env env = warp_env(tables);
    // The first warp steps replicas.
    unsigned int row = own.first + own.begin + threadIdx.x;
    bool steps = threadIdx.x < own.end - own.begin && row < step.rows;
    WarpReplica replica;
    if (steps) replica = warp_load_replica(arrays, row);
    WideDistances sums = {0.0, 0.0, 0.0};
    t_wait_barrier(own.barrier(U_WEIGHTS), 0);
    #pragma unroll 1
    for (step.t = 0; step.t < a.steps; ++step.t) {
        u_observe(a, &places, step.t, own, shared + U_SEEN_AT, sums);
        t_wait_barrier(own.barrier(U_SEEN), phases >> U_SEEN & 1);
        phases ^= 1u << U_SEEN;
        ULayers<0>::run(own, biases, phases);
        u_outputs(a, own, shared + u_given_at(U_DEPTH - 1), outs);
        __syncthreads();
        if (steps) {
            wide_decide<U_VALUES>(step, row, outs[threadIdx.x]);
            warp_advance(env, run, arrays, row, first_step + step.t + 1u, warp_actions(arrays, row), replica);
            wide_keep_outcome(a.outcome, &places, step.t, row);
        }
        __syncthreads();
    }
    if (steps) warp_save_replica(arrays, row, replica);
    if (U_SUMS_OBS && a.sums_obs && threadIdx.x < P_WIDTH) {
        WideDistances& all = a.sums[blockIdx.x * P_WIDTH + threadIdx.x];
        all = {all.count + sums.count, all.sum + sums.sum, all.squares + sums.squares};
    }
    // What others still copy from this block has to stay.
    t_meet_cluster();
}
