// Loss and gradients of a minibatch in one pass, for towers so small that what is kept of 64 samples stays in shared
// memory: what groups of four warps that learn share with those that multiply. The former take tiles of samples through the
// network and back; the latter multiply what they keep into gradients of the weights, whose sums never leave their
// registers.
//
// T_LEARNERS groups learn, T_MULTIPLIERS behind them multiply. Where T_AHEAD, the observations of a group's next tile come
// while it works on this one: those of every other tile lie behind what is kept.

#define T_GROUPS (T_LEARNERS + T_MULTIPLIERS)
#define T_LEARNER_THREADS (T_LEARNERS * 128)
// Places for five sums of losses each: a thread's, or those of the two that share a row.
#define T_SUM_PLACES (T_LEARNER_THREADS / (1 + T_REPLACES))
// Bytes of a group's samples, and where the observations of its tile number `round` lie among them.
#define T_GROUP_BYTES (T_KEPT + T_AHEAD * t_blocks(t_in(0)) * 8192)
__device__ inline unsigned int t_obs_at(unsigned int round) { return T_AHEAD && round & 1 ? T_KEPT : 0; }

__device__ inline void t_arrive(WideWord* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(t_shared(barrier)) : "memory");
}
// Registers of a thread, of those that the block has; all four warps of a group say the same.
template <int N>
__device__ inline void t_more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
__device__ inline void t_fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// Which tiles a group takes: every `stride`th from `first` on.
struct TTiles {
    unsigned int first, stride, end;
};

// What groups of a block share.
struct TShared {
    unsigned char* image;
    unsigned char* kept;
    unsigned int* ones;
    float* biases;
    float* outs;
    // Sums of losses, and behind them those of the gradients of gains and shifts of each warp.
    float* sums;
    // Per group that learns: whether its tile is whole, and whether it was read.
    WideWord* whole;
    WideWord* read;
    WideWord* weights;
};

// Starts to copy piece `piece` of 16 bytes of a row to its place in row `row` of a tile; zeros where there is none.
__device__ inline void t_start_piece(const unsigned char* from, unsigned char* tile, int row, int piece, bool present) {
    unsigned int to = t_shared(tile + piece / 8 * 8192 + row * 128 + ((piece ^ row) % 8) * 16);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from + piece * 16),
                 "r"(present ? 16 : 0) : "memory");
}

// Starts to copy the observations of this warp's 16 samples of a tile, straight into it; lane r has row r's cell.
__device__ inline void t_start_samples(const unsigned char* obs, unsigned int cell, int present,
                                      unsigned char* tile) {
    constexpr int pieces = t_in(0) / 8;
    int thread = threadIdx.x;
    // Else addresses are computed once for all tiles, and fill the registers.
    if (T_REPLACES) asm volatile("" : "+r"(thread));
    int warp = thread % 128 / 32, lane = thread % 32;
    if constexpr (pieces > 32) {
        // A row at a time, whose address all lanes share; with all under way at once, addresses fill the registers.
        #pragma unroll 4
        for (int r = 0; r < 16; ++r) {
            unsigned int of = __shfl_sync(0xffffffffu, cell, r);
            const unsigned char* from = obs + (unsigned long long)of * (t_in(0) * 2);
            #pragma unroll
            for (int piece = lane; piece < pieces; piece += 32) {
                t_start_piece(from, tile, t_row(warp * 16 + r), piece, r < present);
            }
        }
    } else {
        #pragma unroll
        for (int i = 0; i < (16 * pieces + 31) / 32; ++i) {
            int e = i * 32 + lane, r = e / pieces;
            unsigned int of = __shfl_sync(0xffffffffu, cell, r % 16);
            if (r >= 16) continue;
            const unsigned char* from = obs + (unsigned long long)of * (t_in(0) * 2);
            t_start_piece(from, tile, t_row(warp * 16 + r), e % pieces, r < present);
        }
    }
}

// Waits for those that were copied.
__device__ inline void t_await_samples() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
}

// Gradients of biases are those of the weights of an input that is always one. Such inputs lie beside the layer's where
// its last block has room for them.
__host__ __device__ constexpr bool t_has_room(int l) { return t_in(l) % 64 != 0; }

// Eight ones in a row of a block.
__device__ inline void t_put_ones(unsigned char* block, int row, int piece) {
    constexpr unsigned int two = HALF_ONE | HALF_ONE << 16;
    *(uint4*)(block + row * 128 + (piece ^ row) % 8 * 16) = make_uint4(two, two, two, two);
}

// This warp's part of what group number `share` of those that multiply writes gradients through: samples that were kept, which
// nobody reads any more once all of these groups have come here.
__device__ inline float* t_lines(const TShared& shared, int share) {
    asm volatile("bar.sync %0, %1;" ::"r"(T_GROUPS + 1), "n"(T_MULTIPLIERS * 128) : "memory");
    return (float*)(shared.kept + share * 8192) + threadIdx.x % 128 / 32 * T_LINES;
}
