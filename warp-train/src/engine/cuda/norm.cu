// Normalises hidden layers in fp32: a warp takes a row at a time, and all warps of a team share a tile's rows.

// A layer's normalisation of a tile's rows, of whose `n` columns the first `width` are real.
struct NormOf {
    // From the tile's first row: sums, which become numbers of mean 0 and deviation 1, and one over the deviation.
    float *unit, *inverse;
    const float *gain, *shift;
    int width;
};

// The sum of what the lanes of a warp have, in a fixed order; every lane gets it.
__device__ inline float sum_of_lanes(float x) {
#pragma unroll
    for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(~0u, x, other);
    return x;
}

// Puts the activated outputs into y.
__device__ __noinline__ void normalise(NormOf of, int n, Epilogue epilogue, float* y, int member) {
    int lane = threadIdx.x % 32;
    for (int row = member * N_WARPS + threadIdx.x / 32; row < TILE_ROWS; row += TEAM * N_WARPS) {
        float *unit = of.unit + row * n, *to = y + row * n;
        float sum = 0.0f, squares = 0.0f;
        for (int i = lane; i < of.width; i += 32) sum += unit[i];
        float mean = sum_of_lanes(sum) / (float)of.width;
        for (int i = lane; i < of.width; i += 32) squares += (unit[i] - mean) * (unit[i] - mean);
        float inverse = 1.0f / sqrtf(sum_of_lanes(squares) / (float)of.width + NORM_EPSILON);
        if (lane == 0) of.inverse[row] = inverse;
        for (int i = lane; i < n; i += 32) {
            float x = i < of.width ? (unit[i] - mean) * inverse : 0.0f;
            unit[i] = x;
            to[i] = i < of.width ? activated(epilogue, x * of.gain[i] + of.shift[i]) : 0.0f;
        }
    }
}

// Turns derivatives by what was activated, `shifts`, into those by sums, `d`; `gains` are what the derivative by the
// gains is summed of.
__device__ __noinline__ void normalise_back(NormOf of, int n, const float* shifts, float* gains, float* d, int member) {
    int lane = threadIdx.x % 32;
    for (int row = member * N_WARPS + threadIdx.x / 32; row < TILE_ROWS; row += TEAM * N_WARPS) {
        int first = row * n;
        float sum = 0.0f, along = 0.0f;
        for (int i = lane; i < of.width; i += 32) {
            float by_unit = shifts[first + i] * of.gain[i];
            sum += by_unit;
            along += by_unit * of.unit[first + i];
        }
        float mean = sum_of_lanes(sum) / (float)of.width;
        along = sum_of_lanes(along) / (float)of.width;
        for (int i = lane; i < n; i += 32) {
            bool there = i < of.width;
            float unit = of.unit[first + i], by_unit = there ? shifts[first + i] * of.gain[i] : 0.0f;
            gains[first + i] = there ? shifts[first + i] * unit : 0.0f;
            d[first + i] = there ? of.inverse[row] * (by_unit - mean - unit * along) : 0.0f;
        }
    }
}
