// Between an iteration and the next of several that the host starts at once, in one block: what the one left to be
// read is noted, and the next one's settings are handed over. `taken` says how many went before.
extern "C" __global__ void wide_next_iteration(const NextIterationArgs a) {
    const unsigned int of_state = sizeof(WideState) / 4, of_settings = sizeof(WideSettings) / 4;
    const unsigned long long row = *a.taken;
    __syncthreads();
    if (threadIdx.x == 0) *a.taken = (unsigned int)row + 1;
    unsigned int* result = a.results + row * (a.n_policies * of_state + a.n_totals);
    const unsigned int* next = a.planned + row * a.n_policies * of_settings;
    for (unsigned int policy = 0; policy < a.n_policies; ++policy) {
        const unsigned int* state = (const unsigned int*)a.states[policy];
        unsigned int* settings = (unsigned int*)a.settings[policy];
        for (unsigned int i = threadIdx.x; i < of_state; i += 256) result[policy * of_state + i] = state[i];
        for (unsigned int i = threadIdx.x; i < of_settings; i += 256) settings[i] = next[policy * of_settings + i];
    }
    for (unsigned int i = threadIdx.x; i < a.n_totals; i += 256) result[a.n_policies * of_state + i] = a.totals[i];
}
