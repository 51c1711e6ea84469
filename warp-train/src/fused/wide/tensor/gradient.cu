// The kernel that makes loss and gradients of a minibatch in one pass; groups.cu says how.

#if T_NORMED
// Gradients of gains and shifts, from the sums of all warps.
__device__ inline void t_write_norms(const TensorGradientArgs& args, const float* norms) {
    TPartial partial = {args.partial + (unsigned long long)blockIdx.x * args.n_parameters, args.first == 0};
    for (int i = threadIdx.x; i < T_NORMS; i += blockDim.x) {
        int place = t_norm_place(i);
        float sum = 0.0f;
        for (int warp = 0; warp < T_LEARNERS * 4; ++warp) sum += norms[warp * T_NORMS + i];
        if (place >= 0) partial.put((unsigned int)place, sum);
    }
}
#endif

// For samples `first`.. of the minibatch: gradients into a copy of the parameters for each block, and the blocks' sums
// of losses from `parts_at` on.
extern "C" __global__ __launch_bounds__(T_GROUPS * 128, 1) void wide_tensor_gradient(
    const TensorGradientArgs args) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ WideWord weights, whole[T_LEARNERS], read[T_LEARNERS];
    unsigned char* kept = memory + T_IMAGE;
    unsigned int* ones = (unsigned int*)(kept + T_LEARNERS * T_GROUP_BYTES);
    float* biases = (float*)ones + T_ONES;
    float* outs = biases + T_VECTORS;
    float* sums = outs + T_LEARNERS * 4 * 16 * T_STRIDE;
    TShared shared = {memory, kept, ones, biases, outs, sums, whole, read, &weights};
    unsigned int n = wide_present(args.state, 1, args.first, args.rows), tiles = (n + 63) / 64;
    if (tiles == 0 && args.first > 0) {
        if (threadIdx.x < 5) args.parts[(unsigned long long)(args.parts_at + blockIdx.x) * 5 + threadIdx.x] = 0.0;
        return;
    }
    t_put_ones(shared);
    for (int i = threadIdx.x; i < T_SUM_PLACES * 5 + T_LEARNERS * 4 * T_NORMS; i += blockDim.x) sums[i] = 0.0f;
    if (threadIdx.x == 0) {
        for (int g = 0; g < T_LEARNERS; ++g) {
            t_barrier(t_shared(whole + g), 128);
            t_barrier(t_shared(read + g), 4 * T_MULTIPLIERS);
        }
    }
    t_load_weights(memory, args.image, args.biases, biases, &weights);
    // Ones are read by products.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned int group = threadIdx.x / 128;
    if (group >= T_LEARNERS) {
#if T_MULTIPLY_REGISTERS
        t_more_registers<T_MULTIPLY_REGISTERS>();
#endif
        t_multiply_tiles(args, shared, tiles, (int)(group - T_LEARNERS));
    } else {
#if T_LEARN_REGISTERS
        t_fewer_registers<T_LEARN_REGISTERS>();
#endif
        TTiles own = {blockIdx.x + group * gridDim.x, T_LEARNERS * gridDim.x, tiles};
        t_learn_tiles(args, shared, own, n);
        // Nobody leaves before the weights have come.
        t_wait_barrier(t_shared(&weights), 0);
    }
    t_sum_losses<T_SUM_PLACES>(sums, args.parts, args.parts_at);
#if T_NORMED
    t_write_norms(args, sums + T_SUM_PLACES * 5);
#endif
}
