// Rows of any array: what is shown is made of what was written, and some of the rows are picked.

// The place of the one in each row, as a 64-bit number.
extern "C" __global__ void warp_place_of_one(const float* from, unsigned long long* to,
                                             unsigned int width, unsigned int n) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && from[i] == 1.0f) to[i / width] = i % width;
}

// Whole numbers that are written as real ones.
extern "C" __global__ void warp_as_whole(const float* from, unsigned long long* to, unsigned int n) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = (unsigned long long)(long long)from[i];
}

// Row `k` of `to` becomes row `ids[k]` of `from`.
extern "C" __global__ void warp_pick_rows(const void* from, void* to, const unsigned int* ids,
                                          unsigned int row_bytes, unsigned int n) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int row = i / row_bytes, byte = i % row_bytes;
    ((unsigned char*)to)[i] =
        ((const unsigned char*)from)[(unsigned long long)ids[row] * row_bytes + byte];
}

extern "C" __global__ void warp_zero(void* to, unsigned int n) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) ((unsigned char*)to)[i] = 0;
}
