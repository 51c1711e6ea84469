// What a step of somebody else's environments leaves, as arrays of ours, and their episodes counted.

// Real numbers, one per thread; or, where a row is one whole number, the row that has a one there.
extern "C" __global__ void warp_take_reals(GivenArgs given, TakeArgs take) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= take.n) return;
    unsigned int row = i / take.width, element = i % take.width;
    if (take.one_hot != 0u)
        take.to[i] = warp_whole(given, warp_given_at(given, row, 0u)) == (long long)element ? 1.0f : 0.0f;
    else
        take.to[i] = warp_real(given, warp_given_at(given, row, element));
}

// Truth values, one per thread and row.
extern "C" __global__ void warp_take_flags(GivenArgs given, FlagArgs take) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < take.n) take.to[i] = warp_real(given, warp_given_at(given, i, 0u)) != 0.0f ? 1 : 0;
}

// Choices as 64-bit whole numbers, one per thread.
extern "C" __global__ void warp_widen(WidenArgs wide) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < wide.n) ((long long*)wide.to)[i] = wide.from[i];
}

// Counts a step of every environment, and what of its episode is over.
extern "C" __global__ void warp_count(CountArgs a) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n) return;
    if (i == 0u) *a.run_step += 1u;
    bool over = a.terminated[i] != 0, cut = a.truncated[i] != 0 && !over;
    a.truncated[i] = cut ? 1 : 0;
    unsigned int length = a.episode_length[i] + 1u;
    float sum = a.episode_return[i] + a.reward[i];
    bool ends = over || cut;
    a.episode_length[i] = ends ? 0u : length;
    a.episode_return[i] = ends ? 0.0f : sum;
    if (!ends) return;
    bool first = a.ended[i] == 0u;
    a.ended[i] += 1u;
    a.lengths[i] = first ? length : a.lengths[i] + length;
    a.shortest[i] = first ? length : min(a.shortest[i], length);
    a.longest[i] = first ? length : max(a.longest[i], length);
    a.returns[i] = first ? sum : a.returns[i] + sum;
    a.least[i] = first ? sum : fminf(a.least[i], sum);
    a.most[i] = first ? sum : fmaxf(a.most[i], sum);
}
