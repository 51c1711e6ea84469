// Layers whose weights do not fit into a multiprocessor, on tensor cores: a launch per layer takes both
// towers, or for values alone the critic. Numbers between launches are halves, sums are fp32.
//
// A matrix [rows, columns] of halves, padded by zeros, lies in blocks of 128 rows by 64 columns; those of
// the same rows lie together. In a block a row is 128 bytes, swizzled as products want it, so that the
// copy engine fetches whole blocks, and a block can be multiplied along its columns or along its rows.
//
// Made for one network by constants: U_TOWERS, U_DEPTH hidden layers, U_PLACES and U_HEADS (below),
// U_TANH, U_FEW if towers have 8 outputs at most that the last hidden layer makes, U_NORMED if hidden
// layers are normalised: then their launches give sums, which norm.cu makes activations of.

#define U_BLOCK 16384u
#define U_ROWS 128u
// Threads of a block: two groups that multiply, and one whose threads fetch for them.
#define U_CONSUMERS 256
#define U_THREADS 384

// A layer of a tower: real and padded numbers of inputs and outputs, where its weights and biases lie in
// the parameters; where its image lies, [outputs, inputs], and that of its transposed weights, both in
// bytes; where its biases lie in those of a tower, padded gains and shifts behind them; how many squares of
// 64 by 64 weights come before it; where its gains lie in the parameters, shifts behind them.
struct UPlace {
    unsigned int n_in, n_out, weight, in, out, image, turned, biases, squares, gain;
};
// A tower's first column in a row of outputs, and from which of its outputs on how many columns are none.
struct UHead {
    unsigned int column, gap_at, gap;
};

__device__ const UPlace u_places[U_TOWERS][U_DEPTH + 1] = U_PLACES;
__device__ const UHead u_heads[U_TOWERS] = U_HEADS;

// The real output that column c of a tower's output layer stands for, or -1.
__device__ inline int u_real(unsigned int tower, int c) {
    int gap_at = (int)u_heads[tower].gap_at, gap = (int)u_heads[tower].gap;
    int real = c < gap_at ? c : c - gap;
    bool none = (c >= gap_at && c < gap_at + gap) || real >= (int)u_places[tower][U_DEPTH].n_out;
    return none ? -1 : real;
}

// Columns of a tower's outputs, those of a gap among them.
__device__ inline unsigned int u_output_columns(unsigned int tower) {
    constexpr unsigned int columns[] = U_OUTPUT_COLUMNS;
    return columns[tower];
}
// Blocks of 64 of them that are not all padding: what towers with fewer outputs than others have beyond is neither written nor
// read.
__device__ inline unsigned int u_output_blocks(unsigned int tower) { return (u_output_columns(tower) + 63) / 64; }

// Where 8 columns from `column` on of a row begin in a matrix of so many blocks a row, in bytes.
__device__ inline unsigned long long u_at(unsigned int row, unsigned int column, unsigned int blocks) {
    unsigned long long block = (unsigned long long)(row / U_ROWS) * blocks + column / 64;
    return block * U_BLOCK + row % U_ROWS * 128 + ((column / 8 ^ row) % 8) * 16;
}

__device__ inline void u_store(unsigned char* to, const float (&x)[8]) {
    uint4 halves = {t_halves(x[0], x[1]), t_halves(x[2], x[3]), t_halves(x[4], x[5]), t_halves(x[6], x[7])};
    *(uint4*)to = halves;
}

__device__ inline void u_arrive(unsigned int barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// What ordinary stores left in shared memory may be read by products and the copy engine.
__device__ inline void u_publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void u_meet(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

// Stages of shared memory that go round: a block of the left operand and N lines of the right one each.
template <int N, int STAGES> struct URing {
    static constexpr unsigned int stage = U_BLOCK + N * 128, bytes = STAGES * stage;
    unsigned int at, full, empty;

    // `barriers`: two for each stage.
    __device__ inline URing(unsigned char* shared, WideWord* barriers)
        : at(t_shared(shared)), full(t_shared(barriers)), empty(full + STAGES * 8) {
        if (threadIdx.x != 0) return;
        for (int i = 0; i < STAGES; ++i) {
            t_barrier(full + i * 8, 1);
            t_barrier(empty + i * 8, 2);
        }
        u_publish();
    }
    __device__ inline unsigned int left(unsigned int slot) const { return at + slot * stage; }
    __device__ inline unsigned int right(unsigned int slot) const { return left(slot) + U_BLOCK; }

    struct Place {
        unsigned int slot = 0, round = 0;
        __device__ inline void next() {
            if (++slot < STAGES) return;
            slot = 0;
            round ^= 1;
        }
    };

    // Waits until a stage may be filled; returns the barrier of what will fill it.
    __device__ inline unsigned int claim(const Place& place) const {
        t_wait_barrier(empty + place.slot * 8, place.round ^ 1);
        t_expect(full + place.slot * 8, stage);
        return full + place.slot * 8;
    }

    // sums = the products that the next `parts` stages hold, by a group of four warps: along columns, or
    // TURNED along rows. With each part's, products of its operands that `also` starts; after it, `then`.
    template <bool TURNED, class Also, class Then>
    __device__ inline void multiply(float (&sums)[N / 2], unsigned int parts, Place& place, int group,
                                    Also also, Then then) const {
        constexpr unsigned int lead = TURNED ? 8192 : 16, step = TURNED ? 128 : 2;
        unsigned int last = 0;
        t_settle(sums);
        for (unsigned int part = 0; part < parts; ++part) {
            t_wait_barrier(full + place.slot * 8, place.round);
            WideWord a = t_operand(left(place.slot) + group * 8192, lead, 1024, 1);
            WideWord b = t_operand(right(place.slot), lead, 1024, 1);
            t_fence();
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                Mma<N>::template both<TURNED>(sums, a + k * step, b + k * step, part + k > 0);
            }
            also(part, a, b);
            t_commit();
            then(part);
            if (part > 0) {
                t_wait<1>();
                if (threadIdx.x % 128 == 0) u_arrive(empty + last * 8);
            }
            last = place.slot;
            place.next();
        }
        t_wait<0>();
        if (parts > 0 && threadIdx.x % 128 == 0) u_arrive(empty + last * 8);
        t_settle(sums);
    }
};

// Threads that fetch need few registers, those that multiply many.
__device__ inline void u_give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ inline void u_take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
