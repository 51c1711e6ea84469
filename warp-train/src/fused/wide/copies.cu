// Adds to `sums` as many neighbours, of which `present` exist, of all copies in their order; a copy has `n` numbers.
// Many copies are under way at a time: a chain of additions that each wait for memory would take as long as the rest.
template <int N>
__device__ inline void sum_of_copies(const float* first, unsigned int copies, unsigned int n,
                                     unsigned int present, float (&sums)[N]) {
    // Of pairs (N = 2), half of the copies of a GPU with 132 multiprocessors are two batches.
    constexpr unsigned int at_once = 66 / N;
    unsigned long long at = 0;
    for (unsigned int begin = 0; begin < copies; begin += at_once) {
        float x[at_once * N];
        #pragma unroll
        for (unsigned int k = 0; k < at_once; ++k) {
            #pragma unroll
            for (unsigned int i = 0; i < N; ++i) {
                x[k * N + i] = begin + k < copies && i < present ? first[at + i] : 0.0f;
            }
            at += n;
            // One place after the other, or else addresses would take the registers of what is under way.
            asm volatile("" : "+l"(at));
        }
        wide_loaded(x);
        #pragma unroll
        for (unsigned int k = 0; k < at_once; ++k) {
            #pragma unroll
            for (unsigned int i = 0; i < N; ++i) {
                if (begin + k < copies) sums[i] += x[k * N + i];
            }
        }
    }
}

// The same of the first or the second half of the copies.
template <int N>
__device__ inline void sum_of_half(const float* first, unsigned int copies, bool is_second, unsigned int n,
                                   unsigned int present, float (&sums)[N]) {
    unsigned int half = (copies + 1) / 2;
    const float* from = is_second ? first + (unsigned long long)half * n : first;
    sum_of_copies(from, is_second ? copies - half : half, n, present, sums);
}
