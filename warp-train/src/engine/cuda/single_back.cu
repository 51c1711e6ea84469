// Back through an output layer of one column, which needs no product of matrices.

// From derivatives `d` by its numbers to those by the outputs of the hidden layer before it. Weights lie in tiles of 32
// inputs. Keeps `d` with zeros behind each, [TILE_ROWS, 32], if it is to.
template <int HIGH, class Slopes>
__device__ __noinline__ void single_back(const float* d, const float* weights, Kept* kept, int rows, Slopes more) {
    constexpr int PARTS = TILES_HIGH / HIGH;
    int lane = threadIdx.x % 32;
    for (int unit = first_unit(); unit < more.into.width / 32 * PARTS; unit += N_WARPS * SHARE) {
        int chunk = unit / PARTS, high = unit % PARTS * HIGH, row = 16 * high + lane / 4;
        const float* from = weights + chunk * 1024 + weight_place(0, 0, lane % 4 * 2);
        float2 w[4];
        float of_row[2 * HIGH];
#pragma unroll
        for (int j = 0; j < 4; ++j) w[j] = *(const float2*)(from + weight_place(0, 0, 8 * j));
#pragma unroll
        for (int i = 0; i < 2 * HIGH; ++i) of_row[i] = row + 8 * i < rows ? d[row + 8 * i] : 0.0f;
        auto of_chunk = more.template of<HIGH>(chunk, high);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            unsigned int halves = two_halves<true>(w[j].x, w[j].y);
            w[j] = make_float2(low_of_two(halves), high_of_two(halves));
        }
#pragma unroll
        for (int i = 0; i < 2 * HIGH; ++i) {
            float rounded = low_of_two(two_halves<true>(of_row[i], 0.0f)), numbers[4][2];
#pragma unroll
            for (int j = 0; j < 4; ++j) numbers[j][0] = rounded * w[j].x, numbers[j][1] = rounded * w[j].y;
            more.finish(row + 8 * i, chunk, numbers, of_chunk, more.of_row(row + 8 * i, chunk), i);
        }
        more.done(chunk, high, of_chunk);
    }
    for (int i = threadIdx.x; i < TILE_ROWS * 4 && kept; i += N_THREADS) {
        int row = i / 4;
        bool first = i % 4 == 0 && row < rows;
        ((uint4*)kept)[i] = make_uint4(first ? two_halves<true>(d[row], 0.0f) : 0u, 0u, 0u, 0u);
    }
}
