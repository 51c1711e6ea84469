// A layer forward or back: tiles of 128 rows by N columns of y = x w, block by block of x's columns.

enum UForm { U_HIDDEN, U_LAST, U_OUTPUTS, U_BACK };

// Whether a tile takes the place of activations that it is to be multiplied by the slopes of.
__device__ constexpr bool u_replaces(UForm form) { return form == U_BACK && !U_NORMED; }

// Whether two blocks share a multiprocessor: a tile has few columns, but takes long to store.
__device__ constexpr bool u_shares(UForm form) { return form == U_OUTPUTS; }

// Whether a tile has only columns beyond its tower's outputs.
template <int N, UForm FORM> __device__ inline bool u_is_padding(unsigned int tower, unsigned int column) {
    return FORM == U_OUTPUTS && column * N >= u_output_blocks(tower) * 64;
}

// Tile t of a layer of towers from the `first` on: its columns, then the next rows, then the next tower.
struct UTile {
    unsigned int column, row, tower;
    __device__ inline UTile(unsigned int t, unsigned int columns, unsigned int rows, unsigned int first)
        : column(t % columns), row(t / columns % rows), tower(first + t / columns / rows) {}
};

// The transfer from shared memory to a tile of a hidden layer's outputs, in place of what is there.
template <int N> struct UStaging {
    unsigned int at, filled, free;
    __device__ inline void fetch(const unsigned char* from) const {
        t_expect(filled, N * 256);
        t_bulk(at, from, N * 256, filled);
    }
    // The 64 rows of a group.
    __device__ inline void store(unsigned char* to, int group) const {
        #pragma unroll
        for (int block = 0; block < N / 64; ++block) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 8192;" ::"l"(
                             to + block * U_BLOCK + group * 8192),
                         "r"(at + block * U_BLOCK + group * 8192) : "memory");
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
    // What was stored has been read from shared memory.
    __device__ static inline void wait_read() {
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __device__ static inline void wait_stored() {
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
};

__device__ inline void u_take(unsigned int at, unsigned int (&x)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
}
__device__ inline void u_put(unsigned int at, const unsigned int (&x)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                 "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]));
}

// Two gradients times the slope of the activation, which is a function of its outputs h.
__device__ inline unsigned int u_slope(float low, float high, unsigned int h) {
    float a = t_low(h), b = t_high(h);
    return U_TANH ? t_halves(low * (1.0f - a * a), high * (1.0f - b * b))
                  : t_halves(a > 0.0f ? low : 0.0f, b > 0.0f ? high : 0.0f);
}
__device__ inline unsigned int u_activate(float low, float high) {
    return U_TANH ? t_halves(t_tanh(low), t_tanh(high)) : t_halves_relu(low, high);
}

// Two sums as a hidden layer gives them.
__device__ inline unsigned int u_given(float low, float high) {
    return U_NORMED ? t_halves(low, high) : u_activate(low, high);
}

// outs += 16 activations of each of the warp's 16 rows, as u_finish has them, by the weights of 8 outputs.
__device__ inline void u_few(float (&outs)[4], const unsigned int (&x)[4], const unsigned char* weights) {
    unsigned int w[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) w[i] = *(const unsigned int*)(weights + i * 16);
    asm("mma.sync.aligned.m16n8k16.row.col.f32." HALF_TYPE "." HALF_TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(outs[0]), "+f"(outs[1]), "+f"(outs[2]), "+f"(outs[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w[0]), "r"(w[1]));
}

// A group's 64 rows of a tile of a hidden layer, in shared memory: activations, or gradients in place of
// the activations that are there; of normalised layers sums, or gradients of activations. `biases` are
// those of the thread's first column; if the layer is the LAST, `few` are the weights of 8 outputs by it,
// and `outs` what these columns give them.
template <int N, UForm FORM>
__device__ inline void u_finish(const float (&sums)[N / 2], unsigned int staging, const float* biases,
                                const unsigned char* few, float (&outs)[4]) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane % 16;
    #pragma unroll
    for (int j = 0; j < N / 16; ++j) {
        unsigned int at = staging + row * 128 + j / 4 * U_BLOCK + ((j % 4 * 2 + lane / 16) ^ row % 8) * 16;
        const float* s = sums + 8 * j;
        unsigned int y[4];
        if constexpr (FORM != U_BACK) {
            float2 b = *(const float2*)(biases + 16 * j), c = *(const float2*)(biases + 16 * j + 8);
            y[0] = u_given(s[0] + b.x, s[1] + b.y);
            y[1] = u_given(s[2] + b.x, s[3] + b.y);
            y[2] = u_given(s[4] + c.x, s[5] + c.y);
            y[3] = u_given(s[6] + c.x, s[7] + c.y);
            if constexpr (FORM == U_LAST) u_few(outs, y, few + j * 32);
        } else if constexpr (!u_replaces(FORM)) {
            #pragma unroll
            for (int e = 0; e < 4; ++e) y[e] = t_halves(s[2 * e], s[2 * e + 1]);
        } else {
            unsigned int h[4];
            u_take(at, h);
            #pragma unroll
            for (int e = 0; e < 4; ++e) y[e] = u_slope(s[2 * e], s[2 * e + 1], h[e]);
        }
        u_put(at, y);
    }
}

// A group's 64 rows of a tile of outputs, to `outs`, f32 [rows, P_OUT + 1], by way of `staging`, [64, N + 8], so that lanes
// store neighbours; there, four rows in which lanes have two numbers each meet every bank once.
template <int N>
__device__ inline void u_give(const float (&sums)[N / 2], const float* biases, const UTile& tile, unsigned int rows,
                              float* staging, int group, float* outs) {
    unsigned int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
    float* own = staging + (warp * 16 + lane / 4) * (N + 8) + lane % 4 * 2;
    #pragma unroll
    for (int j = 0; j < N / 2; j += 2) {
        *(float2*)(own + j / 2 % 2 * 8 * (N + 8) + j / 4 * 8) = make_float2(sums[j], sums[j + 1]);
    }
    // A warp's rows are its own.
    __syncwarp();
    unsigned int first = tile.row * U_ROWS + group * 64 + warp * 16;
    #pragma unroll
    for (unsigned int i = lane; i < N; i += 32) {
        int c = (int)(tile.column * N + i);
        if (u_real(tile.tower, c) < 0) continue;
        float bias = biases[c];
        const float* from = staging + warp * 16 * (N + 8) + i;
        float* to = outs + (unsigned long long)first * (P_OUT + 1) + u_heads[tile.tower].column + c;
        #pragma unroll
        for (unsigned int row = 0; row < 16; ++row) {
            if (first + row < rows) to[row * (P_OUT + 1)] = from[row * (N + 8)] + bias;
        }
    }
    __syncwarp();
}

// All tiles of a layer, each block some of them.
template <int N, int STAGES, UForm FORM> __device__ inline void u_layer(const TiledLayerArgs& a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ WideWord barriers[2 * STAGES + 2];
    typedef URing<N, STAGES> Ring;
    Ring ring(shared, barriers);
    UStaging<N> staging = {ring.at + Ring::bytes, ring.full + 16 * STAGES, ring.full + 16 * STAGES + 8};
    if (threadIdx.x == 0) {
        t_barrier(staging.filled, 1);
        t_barrier(staging.free, 2);
        u_publish();
    }
    __syncthreads();
    unsigned int rows = wide_present(a.state, a.sampled, a.first, a.rows);
    unsigned int row_tiles = (rows + U_ROWS - 1) / U_ROWS, columns = a.n_out / N;
    unsigned int tiles = row_tiles * columns * a.n_towers;
    // Blocks of x's columns, of a row and of those that count.
    auto parts_of = [&](unsigned int tower) {
        return FORM == U_BACK && a.of_outputs ? u_output_blocks(tower) : a.parts;
    };
    unsigned long long x_row = (unsigned long long)a.parts * U_BLOCK;
    unsigned long long y_row = (unsigned long long)a.n_out * 256;
    if (threadIdx.x >= U_CONSUMERS) {
        if (!u_shares(FORM)) u_give_registers();
        if (threadIdx.x == U_CONSUMERS) {
            typename Ring::Place place;
            for (unsigned int t = blockIdx.x; t < tiles; t += gridDim.x) {
                UTile tile(t, columns, row_tiles, a.first_tower);
                if (u_is_padding<N, FORM>(tile.tower, tile.column)) continue;
                unsigned int parts = parts_of(tile.tower);
                const unsigned char* x = a.x + tile.tower * a.x_tower + tile.row * x_row;
                const unsigned char* w = a.image + a.image_at + tile.tower * a.image_tower;
                for (unsigned int part = 0; part < parts; ++part) {
                    unsigned int full = ring.claim(place);
                    t_bulk(ring.left(place.slot), x + part * U_BLOCK, U_BLOCK, full);
                    #pragma unroll
                    for (unsigned int n = 0; n < N; n += U_ROWS) {
                        constexpr unsigned int bytes = N < U_ROWS ? N * 128 : U_BLOCK;
                        unsigned int line = tile.column * N + n;
                        const unsigned char* from = w + (line / U_ROWS * a.parts + part) * U_BLOCK;
                        t_bulk(ring.right(place.slot) + n * 128, from + line % U_ROWS * 128, bytes, full);
                    }
                    place.next();
                }
            }
        } else if (u_replaces(FORM) && threadIdx.x == U_CONSUMERS + 32) {
            unsigned int round = 1;
            for (unsigned int t = blockIdx.x; t < tiles; t += gridDim.x, round ^= 1) {
                UTile tile(t, columns, row_tiles, a.first_tower);
                t_wait_barrier(staging.free, round);
                staging.fetch(a.y + tile.tower * a.y_tower + tile.row * y_row + tile.column * N * 256);
            }
        }
        return;
    }
    if (!u_shares(FORM)) u_take_registers();
    int group = threadIdx.x / 128, lane = threadIdx.x % 32;
    bool leads = threadIdx.x % 128 == 0, stored = false;
    typename Ring::Place place;
    unsigned int round = 0;
    for (unsigned int t = blockIdx.x; t < tiles; t += gridDim.x, round ^= 1) {
        UTile tile(t, columns, row_tiles, a.first_tower);
        if (u_is_padding<N, FORM>(tile.tower, tile.column)) continue;
        float sums[N / 2];
        ring.template multiply<false>(
            sums, parts_of(tile.tower), place, group, [](unsigned int, WideWord, WideWord) {},
            [&](unsigned int part) {
                if (!u_replaces(FORM) || part > 0 || !stored || !leads) return;
                staging.wait_read();
                u_arrive(staging.free);
            });
        const float* biases = a.biases + a.biases_at + tile.tower * a.biases_tower + tile.column * N +
                              threadIdx.x % 4 * 2;
        if constexpr (FORM == U_OUTPUTS) {
            float* own = (float*)(shared + Ring::bytes) + group * 64 * (N + 8);
            u_give<N>(sums, a.biases + a.biases_at + tile.tower * a.biases_tower, tile, rows, own, group, a.outs);
        } else {
            if (u_replaces(FORM)) {
                t_wait_barrier(staging.filled, round);
            } else {
                if (leads) staging.wait_read();
                u_meet(group);
            }
            const unsigned char* few = a.few + (tile.tower * 8 + lane / 4) * a.n_out * 2 +
                                       tile.column * N * 2 + lane % 4 * 4;
            float outs[4] = {};
            u_finish<N, FORM>(sums, staging.at, biases, few, outs);
            if constexpr (FORM == U_LAST) {
                #pragma unroll
                for (int e = 0; e < 2; ++e) {
                    unsigned int row = tile.row * U_ROWS + threadIdx.x / 32 * 16 + lane / 4 + e * 8;
                    // Rows are full tiles here, too.
                    unsigned long long line = (tile.tower * columns + tile.column) * a.few_rows + row;
                    float2 two = {outs[2 * e], outs[2 * e + 1]};
                    *(float2*)(a.few_outs + line * 8 + lane % 4 * 2) = two;
                }
            }
            u_publish();
            u_meet(group);
            if (leads) {
                staging.store(a.y + tile.tower * a.y_tower + tile.row * y_row + tile.column * N * 256, group);
                stored = true;
            }
        }
    }
    if (leads) staging.wait_stored();
}
