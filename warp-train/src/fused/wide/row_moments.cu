// The moments of a row of numbers, which a warp shares: sums run in a fixed order.

__device__ inline float wide_warp_sum(float x) {
    #pragma unroll
    for (int half = 16; half > 0; half /= 2) x += __shfl_xor_sync(0xffffffffu, x, half);
    return x;
}

// Of a row of n numbers, to all lanes of a warp.
struct WideRowMoments {
    float mean, inverse;
};
__device__ inline WideRowMoments wide_row_moments(const float* y, unsigned int n, float epsilon) {
    unsigned int lane = threadIdx.x % 32;
    float sum = 0.0f, squares = 0.0f;
    for (unsigned int i = lane; i < n; i += 32) sum += y[i];
    float mean = wide_warp_sum(sum) / (float)n;
    for (unsigned int i = lane; i < n; i += 32) squares += (y[i] - mean) * (y[i] - mean);
    return {mean, 1.0f / sqrtf(wide_warp_sum(squares) / (float)n + epsilon)};
}

__device__ inline float wide_activated(int activation, float z) {
    return activation == 1 ? warp_tanh(z) : activation == 2 ? (z > 0.0f ? z : 0.0f) : z;
}
