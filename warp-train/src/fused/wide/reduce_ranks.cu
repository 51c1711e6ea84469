// The gradient of all ranks that can access each other's memory, in one kernel: a rank adds up its copies, sends the sum to the
// others, and adds up what all of them have, in the order of ranks. Elsewhere wide_sum_copies, NCCL and wide_reduce do the
// same one after the other.
//
// A block waits for the one of the same number on the other GPUs, as in gather.cu: a block of each of REDUCED_BESIDE policies
// fits on a multiprocessor.
//
// Needs: copies.cu, update.cu, exchange.cuh.

// A block sums REDUCED_PAIRS pairs of neighbouring parameters at a time; two threads share the copies of a pair. Behind the
// gradient, from an even number on, since words go in pairs, sums of losses are sent, `n_losses` doubles.
extern "C" __global__ __launch_bounds__(2 * REDUCED_PAIRS, REDUCED_BESIDE) void wide_reduce_ranks(
    const ReduceRanksArgs a, const LinkArgs link) {
    __shared__ float halves[REDUCED_PAIRS][2];
    // Both were there before the gradient was. In shared memory, since sums of copies need the registers.
    __shared__ unsigned long long count;
    __shared__ double samples;
    Ranks ranks(link);
    if (threadIdx.x == 0u) count = a.rounds[0], samples = a.state->whole;
    wait_for_previous_kernel();
    u32 n = a.n_parameters, losses_at = n + n % 2u, end = losses_at + 2u * a.n_losses;
    u32 pair = threadIdx.x % REDUCED_PAIRS, stride = 2u * REDUCED_PAIRS * gridDim.x;
    u32 begin = 2u * REDUCED_PAIRS * blockIdx.x;
    bool is_second = threadIdx.x >= REDUCED_PAIRS;
    for (u32 first = begin; first < end; first += stride) {
        u32 at = first + 2u * pair;
        float sums[2] = {0.0f, 0.0f};
        if (at < n) sum_of_half(a.partial + at, a.copies, is_second, n, n - at, sums);
        if (is_second) halves[pair][0] = sums[0], halves[pair][1] = sums[1];
        __syncthreads();
        if (!is_second && at < end) {
            sums[0] += halves[pair][0];
            sums[1] += halves[pair][1];
            u32 words[2] = {__float_as_uint(sums[0]), __float_as_uint(sums[1])};
            if (at < n) {
                a.gradient[at] = sums[0];
                if (at + 1u < n) a.gradient[at + 1u] = sums[1];
            } else {
                unsigned long long loss = a.losses[(at - losses_at) / 2u];
                a.all_losses[link.rank * a.n_losses + (at - losses_at) / 2u] = loss;
                words[0] = (u32)loss;
                words[1] = (u32)(loss >> 32);
            }
            for (u32 other = 0; other < RANKS; ++other) {
                if (other == link.rank) continue;
                Ranks::send(ranks.place(other, link.rank, count, at), words[0], words[1], Ranks::round_of(count));
            }
        }
        __syncthreads();
    }
    for (u32 first = begin; first < end; first += stride) {
        u32 at = first + 2u * pair;
        float sums[2] = {0.0f, 0.0f};
        if (!is_second && at < end) {
            u32 own[2] = {};
            if (at < n) own[0] = __float_as_uint(a.gradient[at]);
            if (at + 1u < n) own[1] = __float_as_uint(a.gradient[at + 1u]);
            ranks.receive(own, at, count, [&](u32 rank, const u32 (&words)[2]) {
                if (at < n) {
                    sums[0] += __uint_as_float(words[0]);
                    sums[1] += __uint_as_float(words[1]);
                } else if (rank != link.rank) {
                    unsigned long long loss = (unsigned long long)words[1] << 32 | words[0];
                    a.all_losses[rank * a.n_losses + (at - losses_at) / 2u] = loss;
                }
            });
            halves[pair][0] = sums[0], halves[pair][1] = sums[1];
        }
        __syncthreads();
        // From here on as wide_reduce, a thread for each parameter.
        u32 i = first + threadIdx.x;
        float sum = halves[threadIdx.x / 2u][threadIdx.x % 2u];
        float mean = i < n && samples > 0.0 ? (float)((double)sum / samples) : 0.0f;
        if (i < n) a.gradient[i] = mean;
        double squares = wide_block_sum((double)mean * (double)mean);
        if (threadIdx.x == 0u && first < n) a.squares[first / (2u * REDUCED_PAIRS)] = squares;
    }
    // Only when nobody waits for other ranks any more: until then, what comes next would take room from other policies.
    allow_next_kernel();
    // The last block counts the round, once all have read its number.
    if (threadIdx.x != 0u || atomicAdd((u32*)(a.rounds + 1), 1u) != gridDim.x - 1u) return;
    a.rounds[1] = 0ull;
    a.rounds[0] = count + 1ull;
}
