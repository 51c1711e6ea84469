// Gradients of a layer's weights and biases: the product, over rows, of 128 columns of `left` with N
// columns of `right`, which are the gradients of its outputs and its inputs, or for output layers, which
// have few columns, the other way round.

// Floats of shared memory through which a warp writes.
#define U_LINES (16 * 32)

// Writes a warp's sums, 16 rows of a tile, or adds them to what is there: neighbouring lanes write neighbouring inputs, 32 at a
// time, by way of `lines`. Whether an element exists is no branch: for hundreds of them the compiler takes long.
template <int N, bool ADDS>
__device__ inline void u_write(const float (&sums)[N / 2], const UPlace& place, unsigned int left, unsigned int right,
                               float* lines, float* to) {
    int lane = threadIdx.x % 32, g = lane / 4, n_out = (int)place.n_out, n_in = (int)place.n_in;
    int first = (int)left + threadIdx.x / 32 * 16;
    #pragma unroll
    for (int part = 0; part < N / 32; ++part) {
        __syncwarp();
        // Eights of a row lie in an order by which no bank is met twice.
        #pragma unroll
        for (int j = 4 * part; j < 4 * part + 4; ++j) {
            float* own = lines + g * 32 + (j ^ g) % 4 * 8 + lane % 4 * 2;
            *(float2*)own = make_float2(sums[4 * j], sums[4 * j + 1]);
            *(float2*)(own + 8 * 32) = make_float2(sums[4 * j + 2], sums[4 * j + 3]);
        }
        __syncwarp();
        int input = (int)right + part * 32 + lane;
        float* column = to + (long long)first * n_in + input;
        auto exists = [&](int row) { return (first + row < n_out) & (input < n_in); };
        // All loads are under way before anything is stored.
        float there[16] = {};
        #pragma unroll
        for (int row = 0; ADDS && row < 16; ++row) {
            if (exists(row)) there[row] = column[row * n_in];
        }
        #pragma unroll
        for (int row = 0; row < 16; ++row) {
            float sum = lines[row * 32 + (lane / 8 ^ row) % 4 * 8 + lane % 8];
            if (exists(row)) column[row * n_in] = ADDS ? there[row] + sum : sum;
        }
    }
}

// The same of output layers, whose rows are inputs: each thread by itself, since of 64 outputs few exist.
template <int N, bool ADDS>
__device__ inline void u_write_outputs(const float (&sums)[N / 2], const UPlace& place, unsigned int tower,
                                       unsigned int left, unsigned int right, float* to) {
    int lane = threadIdx.x % 32, n_in = (int)place.n_in;
    int input = (int)left + threadIdx.x / 32 * 16 + lane / 4, first = (int)right + lane % 4 * 2;
    #pragma unroll
    for (int e = 0; e < 2; ++e, input += 8) {
        #pragma unroll
        for (int j = 0; j < N / 4; ++j) {
            int o = u_real(tower, first + j / 2 * 8 + j % 2);
            bool exists = (o >= 0) & (input < n_in);
            float* at = to + (long long)o * n_in + input;
            float sum = sums[j / 2 * 4 + e * 2 + j % 2];
            if (ADDS) sum = *(exists ? at : to) + sum;
            if (exists) *at = sum;
        }
    }
}

template <int N, bool OUTPUTS, bool ADDS>
__device__ inline void u_write_tile(const float (&sums)[N / 2], const UPlace& place, unsigned int tower, unsigned int left,
                                    unsigned int right, float* lines, float* to) {
    if constexpr (OUTPUTS) {
        u_write_outputs<N, ADDS>(sums, place, tower, left, right, to);
    } else {
        u_write<N, ADDS>(sums, place, left, right, lines, to);
    }
}

// The gradient of the bias of output o, or of what column o of the outputs is if it is no output.
__device__ inline void u_write_bias(const UPlace& place, unsigned int tower, bool outputs, int o, float sum,
                                    float* partial, bool adds) {
    float* to = partial + place.weight + place.n_out * place.n_in;
    if (outputs) {
        int real = u_real(tower, o), beyond = o - (int)u_heads[tower].gap_at;
        bool gap = beyond >= 0 && beyond < (int)u_heads[tower].gap;
        // In the gap are log-deviations that are parameters.
        if (gap) to = partial + P_LOG_STD_AT;
        o = gap ? beyond : real;
        if (o < 0) return;
    } else if (o >= (int)place.n_out) {
        return;
    }
    to[o] = adds ? to[o] + sum : sum;
}

// Every tile is made by `copies` blocks, each from its share of the rows and into its own copy of the
// parameters, [copies, n_parameters]; or added to what is there if these rows are not the first.
template <int N, int STAGES, bool OUTPUTS> __device__ inline void u_weights(const TiledWeightsArgs& a) {
    unsigned int down = a.left_blocks / 2, across = a.right_blocks * 64 / N;
    unsigned int jobs = down * across * U_TOWERS, job = blockIdx.x % jobs, copy = blockIdx.x / jobs;
    unsigned int n = job % across, m = job / across % down, tower = job / (across * down);
    if (OUTPUTS && n * N >= u_output_blocks(tower) * 64) return;
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ WideWord barriers[2 * STAGES];
    __shared__ __align__(1024) unsigned short ones[1024];
    typedef URing<N, STAGES> Ring;
    Ring ring(shared, barriers);
    for (int i = threadIdx.x; i < 1024; i += U_THREADS) ones[i] = HALF_ONE;
    u_publish();
    __syncthreads();
    unsigned int all = (wide_present(a.state, 1, a.first, a.rows) + 63) / 64;
    unsigned int from = (unsigned int)((unsigned long long)all * copy / a.copies);
    unsigned int to = (unsigned int)((unsigned long long)all * (copy + 1) / a.copies);
    if (threadIdx.x >= U_CONSUMERS) {
        u_give_registers();
        if (threadIdx.x != U_CONSUMERS) return;
        typename Ring::Place place;
        const unsigned char* left = a.left + tower * a.left_tower + m * 2 * U_BLOCK;
        const unsigned char* right = a.right + tower * a.right_tower + n * (N / 64) * U_BLOCK;
        for (unsigned int part = from; part < to; ++part) {
            unsigned int full = ring.claim(place);
            const unsigned char* l = left + (unsigned long long)(part / 2) * a.left_blocks * U_BLOCK + part % 2 * 8192;
            const unsigned char* r = right + (unsigned long long)(part / 2) * a.right_blocks * U_BLOCK + part % 2 * 8192;
            #pragma unroll
            for (int block = 0; block < 2; ++block) {
                t_bulk(ring.left(place.slot) + block * 8192, l + block * U_BLOCK, 8192, full);
            }
            #pragma unroll
            for (int block = 0; block < N / 64; ++block) {
                t_bulk(ring.right(place.slot) + block * 8192, r + block * U_BLOCK, 8192, full);
            }
            place.next();
        }
        return;
    }
    u_take_registers();
    // Nothing is added by rows that are not there.
    if (from == to && a.first != 0) return;
    int group = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    typename Ring::Place place;
    float sums[N / 2] = {};
    const UPlace& layer = u_places[tower][a.layer];
    float* partial = a.partial + (unsigned long long)copy * a.n_parameters;
    bool adds = a.first != 0;
    auto nothing = [](unsigned int, WideWord, WideWord) {};
    auto after = [](unsigned int) {};
    bool biased = OUTPUTS ? m == 0 : n == 0;
    if (!biased) {
        ring.template multiply<true>(sums, to - from, place, group, nothing, after);
    } else if constexpr (OUTPUTS) {
        float bias[N / 2] = {};
        t_settle(bias);
        WideWord one = t_operand(t_shared(ones), 8192, 1024, 1);
        auto sum = [&](unsigned int, WideWord, WideWord right) {
            #pragma unroll
            for (int k = 0; k < 4; ++k) Mma<N>::template both<true>(bias, one, right + k * 128, 1);
        };
        ring.template multiply<true>(sums, to - from, place, group, sum, after);
        t_settle(bias);
        // All rows of the product with ones are alike.
        #pragma unroll
        for (int j = 0; j < N / 8; ++j) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                int o = (int)(n * N) + j * 8 + lane % 4 * 2 + i;
                if (warp == 0 && lane < 4) u_write_bias(layer, tower, true, o, bias[4 * j + i], partial, adds);
            }
        }
    } else {
        float bias[4] = {};
        t_settle(bias);
        WideWord one = t_operand(t_shared(ones), 128, 256, 0);
        auto sum = [&](unsigned int, WideWord left, WideWord) {
            #pragma unroll
            for (int k = 0; k < 4; ++k) Mma<8>::template both<true>(bias, left + k * 128, one, 1);
        };
        ring.template multiply<true>(sums, to - from, place, group, sum, after);
        t_settle(bias);
        #pragma unroll
        for (int e = 0; e < 2; ++e) {
            int o = (int)(m * U_ROWS) + warp * 16 + lane / 4 + e * 8;
            if (lane % 4 == 0) u_write_bias(layer, tower, false, o, bias[2 * e], partial, adds);
        }
    }
    float *weights = partial + layer.weight, *lines = (float*)(shared + Ring::bytes) + warp * U_LINES;
    if (adds) {
        u_write_tile<N, OUTPUTS, true>(sums, layer, tower, m * U_ROWS, n * N, lines, weights);
    } else {
        u_write_tile<N, OUTPUTS, false>(sums, layer, tower, m * U_ROWS, n * N, lines, weights);
    }
}

// One of four by U_KIND: each takes seconds to compile, so that they are units of their own.
#if U_KIND == 0
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_weights(const TiledWeightsArgs a) {
    u_weights<256, 4, false>(a);
}
#elif U_KIND == 1
// Of layers whose inputs are not as many blocks.
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_weights_narrow(const TiledWeightsArgs a) {
    u_weights<128, 6, false>(a);
}
#elif U_KIND == 2
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_weights_inputs(const TiledWeightsArgs a) {
    u_weights<64, 8, false>(a);
}
#else
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_weights_outputs(const TiledWeightsArgs a) {
    u_weights<64, 8, true>(a);
}
#endif
