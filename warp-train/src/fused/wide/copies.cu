// Adds to `sums` as many neighbours, of which `present` exist, of all copies in their order; a copy has `n` numbers.
// Many copies are under way at a time: a chain of additions that each wait for memory would take as long as the rest.
template <int N>
__device__ inline void sum_of_copies(const float* first, unsigned int copies, unsigned int n,
                                     unsigned int present, float (&sums)[N]) {
    constexpr unsigned int at_once = 64 / N;
    for (unsigned int begin = 0; begin < copies; begin += at_once) {
        float x[at_once][N];
        #pragma unroll
        for (unsigned int k = 0; k < at_once; ++k) {
            #pragma unroll
            for (unsigned int i = 0; i < N; ++i) {
                bool exists = begin + k < copies && i < present;
                x[k][i] = exists ? first[(unsigned long long)(begin + k) * n + i] : 0.0f;
            }
        }
        #pragma unroll
        for (unsigned int k = 0; k < at_once; ++k) {
            #pragma unroll
            for (unsigned int i = 0; i < N; ++i) {
                if (begin + k < copies) sums[i] += x[k][i];
            }
        }
    }
}

// The same of the first or the second half of the copies.
template <int N>
__device__ inline void sum_of_half(const float* first, unsigned int copies, bool is_second, unsigned int n,
                                   unsigned int present, float (&sums)[N]) {
    unsigned int half = (copies + 1) / 2;
    if (is_second)
        sum_of_copies(first + (unsigned long long)half * n, copies - half, n, present, sums);
    else
        sum_of_copies(first, half, n, present, sums);
}
