// What goes into the layers, as blocks of halves: weights and inputs; and outputs of towers with few.

// Images of all weights, and their biases, gains and shifts, from the parameters; a block takes 64 by 64 weights of a
// layer.
extern "C" __global__ __launch_bounds__(256) void wide_tiled_pack(const TiledPackArgs a) {
    __shared__ float square[64][65];
    unsigned int of_tower = u_places[0][U_DEPTH].squares + u_places[0][U_DEPTH].in / 64 * (u_places[0][U_DEPTH].out / 64);
    unsigned int tower = blockIdx.x / of_tower, at = blockIdx.x % of_tower;
    int l = 0;
    while (l < U_DEPTH && at >= u_places[tower][l + 1].squares) ++l;
    const UPlace& layer = u_places[tower][l];
    at -= layer.squares;
    unsigned int o0 = at / (layer.in / 64) * 64, i0 = at % (layer.in / 64) * 64;
    auto real = [&](unsigned int o) {
        return l == U_DEPTH ? u_real(tower, (int)o) : o < layer.n_out ? (int)o : -1;
    };
    const float* w = a.parameters + layer.weight;
    #pragma unroll
    for (unsigned int e = threadIdx.x; e < 64 * 64; e += 256) {
        unsigned int i = i0 + e % 64;
        int o = real(o0 + e / 64);
        square[e / 64][e % 64] = o >= 0 && i < layer.n_in ? w[(unsigned long long)o * layer.n_in + i] : 0.0f;
    }
    __syncthreads();
    unsigned char* image = a.image + tower * a.image_tower;
    for (unsigned int e = threadIdx.x; e < 512; e += 256) {
        unsigned int line = e / 8, eight = e % 8 * 8;
        float x[8];
        #pragma unroll
        for (int k = 0; k < 8; ++k) x[k] = square[line][eight + k];
        u_store(image + layer.image + u_at(o0 + line, i0 + eight, layer.in / 64), x);
        if (l == 0) continue;
        #pragma unroll
        for (int k = 0; k < 8; ++k) x[k] = square[eight + k][line];
        u_store(image + layer.turned + u_at(i0 + line, o0 + eight, layer.out / 64), x);
    }
    // The weights of 8 outputs once more, line by line.
    for (unsigned int e = threadIdx.x; l == U_DEPTH && o0 == 0 && e < 64; e += 256) {
        float x[8];
        #pragma unroll
        for (int k = 0; k < 8; ++k) x[k] = square[e / 8][e % 8 * 8 + k];
        u_store(a.few + ((unsigned long long)(tower * 8 + e / 8) * layer.in + i0 + e % 8 * 8) * 2, x);
    }
    if (i0 != 0 || threadIdx.x >= 64) return;
    int o = real(o0 + threadIdx.x);
    float* biases = a.biases + tower * a.biases_tower + layer.biases;
    biases[o0 + threadIdx.x] = o < 0 ? 0.0f : w[layer.n_out * layer.n_in + o];
    if (!U_NORMED || l == U_DEPTH) return;
    const float* gains = a.parameters + layer.gain;
    biases[layer.out + o0 + threadIdx.x] = o < 0 ? 0.0f : gains[o];
    biases[2 * layer.out + o0 + threadIdx.x] = o < 0 ? 0.0f : gains[layer.n_out + o];
}

// Keeps bytes `from` to `to` of what a row's agent may do, by a warp, in words that rows begin at multiples of.
__device__ inline void u_keep_mask(const unsigned char* mask, unsigned char* kept, unsigned int from, unsigned int to) {
    for (unsigned int at = from + threadIdx.x % 32 * sizeof(WideMaskWord); at < to; at += 32 * sizeof(WideMaskWord)) {
        *(WideMaskWord*)(kept + at) = *(const WideMaskWord*)(mask + at);
    }
}

// What `part` rows from `first` on see before step t, which is kept, too. A warp takes up to 256 numbers, of one row or of
// several narrow ones, so that its lanes read and store neighbours, and as many bytes of masks; of masks that are wider than
// all numbers, the last warp of a row takes the rest.
extern "C" __global__ __launch_bounds__(256) void wide_tiled_store_obs(const TiledStoreObsArgs a) {
    constexpr unsigned int columns = U_INPUTS < 256 ? U_INPUTS : 256, rows = 256 / columns;
    constexpr unsigned int parts = (U_INPUTS + 255) / 256;
    constexpr unsigned int at_once = P_WIDTH % 4 == 0 && rows * columns % 128 == 0 ? 4 : 1;
    __shared__ __align__(16) float numbers[8][256];
    unsigned int warp = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned int first = warp / parts * rows, begin = warp % parts * 256;
    float* own = numbers[threadIdx.x / 32];
    constexpr unsigned int of_lane = rows * columns / 32 / at_once;
    bool normalises = P_NORM_OBS && a.seen.factors[2 * P_WIDTH] != 0.0f;
    float x[of_lane][at_once] = {};
    // All loads are under way before anything is stored.
    #pragma unroll
    for (unsigned int k = 0; k < of_lane; ++k) {
        unsigned int e = (lane + 32 * k) * at_once, row = first + e / columns, column = begin + e % columns;
        if (row >= a.part || column >= P_WIDTH) continue;
        WidePlace place = wide_place(a.places, a.first + row);
        const float* from = place.group->obs + place.row * P_WIDTH + column;
        if constexpr (at_once == 4) {
            float4 four = *(const float4*)from;
            x[k][0] = four.x, x[k][1] = four.y, x[k][2] = four.z, x[k][3] = four.w;
        } else {
            x[k][0] = *from;
        }
    }
    #pragma unroll
    for (unsigned int k = 0; k < of_lane; ++k) {
        unsigned int e = (lane + 32 * k) * at_once, row = first + e / columns, column = begin + e % columns;
        bool scales = normalises && row < a.part && column < P_WIDTH;
        #pragma unroll
        for (unsigned int i = 0; i < at_once; ++i) {
            const float* factors = a.seen.factors + 2 * (column + i);
            own[e + i] = scales ? wide_scaled(x[k][i], factors[0], factors[1]) : x[k][i];
        }
    }
    for (unsigned int row = first; row < first + rows && row < a.part; ++row) {
        unsigned long long cell = (unsigned long long)a.t * a.rows + a.first + row;
        WidePlace place = wide_place(a.places, a.first + row);
        unsigned int end = begin + 256 < P_MASK && warp % parts < parts - 1 ? begin + 256 : P_MASK;
        if (P_MASK) {
            u_keep_mask(place.group->action_mask + place.row * P_MASK, a.seen.masks + cell * P_MASK, begin, end);
        }
        if (P_MORTAL && begin == 0 && lane == 0) {
            a.seen.weights[cell] = place.group->alive ? place.group->alive[place.row] : 1;
        }
    }
    __syncwarp();
    unsigned int row = first + lane * 8 / columns, column = begin + lane * 8 % columns;
    bool exists = lane * 8 < rows * columns && column < U_INPUTS;
    if (!exists || row >= (a.part + U_ROWS - 1) / U_ROWS * U_ROWS) return;
    float4 low = ((const float4*)own)[2 * lane], high = ((const float4*)own)[2 * lane + 1];
    float eight[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    u_store(a.x + u_at(row, column, U_INPUTS / 64), eight);
    if (row >= a.part || column >= P_KEPT) return;
    unsigned long long cell = (unsigned long long)a.t * a.rows + a.first + row;
    u_store((unsigned char*)a.seen.obs + (cell * P_KEPT + column) * 2, eight);
}

// Rows of a tile that a thread copies eight columns of.
#define U_GATHERED 4u

// Rows `at`.. of kept observations; if sampled, those of samples `first`.. of the minibatch.
extern "C" __global__ __launch_bounds__(256) void wide_tiled_gather(const TiledGatherArgs a) {
    constexpr unsigned int eights = U_INPUTS / 8, apart = U_ROWS / U_GATHERED;
    unsigned long long i = (unsigned long long)blockIdx.x * 256 + threadIdx.x;
    unsigned int column = (unsigned int)(i % eights) * 8, line = (unsigned int)(i / eights);
    unsigned int first = line / apart * U_ROWS + line % apart;
    unsigned int rows = wide_present(a.state, a.sampled, a.first, a.rows);
    if (first >= (rows + U_ROWS - 1) / U_ROWS * U_ROWS) return;
    uint4 x[U_GATHERED];
    #pragma unroll
    for (unsigned int k = 0; k < U_GATHERED; ++k) {
        unsigned int row = first + k * apart;
        x[k] = make_uint4(0, 0, 0, 0);
        if (row >= rows || column >= P_KEPT) continue;
        unsigned long long from = a.sampled ? a.order[a.state->begin + a.first + row] : a.at + row;
        x[k] = *(const uint4*)((const unsigned short*)a.obs + from * P_KEPT + column);
    }
    #pragma unroll
    for (unsigned int k = 0; k < U_GATHERED; ++k) {
        *(uint4*)(a.x + u_at(first + k * apart, column, U_INPUTS / 64)) = x[k];
    }
}

// `outs`, f32 [rows, P_OUT + 1], from what tiles of columns gave them, [towers, tiles, few_rows, 8].
extern "C" __global__ __launch_bounds__(256) void wide_tiled_sum(const TiledSumArgs a) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / a.n_towers;
    unsigned int tower = a.first_tower + i % a.n_towers;
    if (row >= wide_present(a.state, a.sampled, a.first, a.rows)) return;
    const float* biases = a.biases + tower * a.biases_tower + u_places[tower][U_DEPTH].biases;
    float sums[8];
    #pragma unroll
    for (int c = 0; c < 8; ++c) sums[c] = biases[c];
    for (unsigned int tile = 0; tile < a.tiles; ++tile) {
        const float4* from = (const float4*)(a.few_outs + ((tower * a.tiles + tile) * (unsigned long long)a.few_rows + row) * 8);
        float4 low = from[0], high = from[1];
        float all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        #pragma unroll
        for (int c = 0; c < 8; ++c) sums[c] += all[c];
    }
    float* outs = a.outs + (unsigned long long)row * (P_OUT + 1) + u_heads[tower].column;
    #pragma unroll
    for (int c = 0; c < 8; ++c) {
        if (u_real(tower, c) >= 0) outs[c] = sums[c];
    }
}
