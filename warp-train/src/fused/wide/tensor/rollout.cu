// A whole rollout in one launch, for replicas of one agent whose environment is a thread each: a group of four warps takes 64
// of them through all steps. Between steps their states stay in registers; all else lies where it does if steps are kernels,
// and what belongs to 16 replicas is read and written by one warp alone.

#define T_SHOWS (WARP_ONE_HOT && !P_NORM_OBS)
#if T_SHOWS
// Puts 16 observations that are numbers, each of every second lane, one-hot into the warp's part of shared memory; one out of range is
// shown by none.
__device__ inline void t_show_rows(int number, unsigned char* to) {
    constexpr int pieces = t_in(0) / 8;
    int lane = threadIdx.x % 32;
    for (int e = lane; e < 16 * pieces; e += 32) {
        *(uint4*)(to + e / pieces * T_ROW + e % pieces * 16) = make_uint4(0u, 0u, 0u, 0u);
    }
    __syncwarp();
    if ((unsigned int)number < T_IN) *(unsigned short*)(to + lane / 2 * T_ROW + number * 2) = HALF_ONE;
    __syncwarp();
}
#endif

extern "C" __global__ __launch_bounds__(256, 1) void wide_tensor_rollout(
    WarpTables tables, WarpArrays arrays, WarpRun run, const TensorRolloutArgs rollout) {
    extern __shared__ __align__(1024) unsigned char shared[];
    float* own_biases = (float*)(shared + T_IMAGE);
    unsigned char* all_scratch = (unsigned char*)(own_biases + T_VECTORS);
    __shared__ WideWord barriers[T_DEPTH + 1];
    __shared__ WidePlaces places;
    const TensorActArgs& args = rollout.act;
    const WideStep& of = args.step;
    wide_copy_places(of.places, &places);
    t_load_weights<T_DEPTH + 1>(shared, args.image, args.biases, own_biases, barriers);
    unsigned int base = t_shared(shared), first_step = wide_run_step(of, &places);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned char* scratch = all_scratch + warp * T_SCRATCH;
    TSeen* all_seen = (TSeen*)(all_scratch + blockDim.x / 32 * T_SCRATCH);
    TSeen* seen = T_SUMS_OBS && args.sums_obs ? all_seen + warp * T_IN : 0;
    for (int i = lane; i < T_IN && seen != 0; i += 32) seen[i] = {0.0, 0.0};
    __syncwarp();
    TAct a = {&places, of.state, of.parameters, of.seed, of.first_replica, first_step, 0,
              of.rows, args.stage, args.masks, args.weights, of.done.actions, of.done.raws,
              of.done.log_probs, of.done.values, args.factors, seen};
    Env env = warp_env(tables);
    unsigned int tiles = (of.rows + 63) / 64, groups = blockDim.x / 128, rows = 0;
    for (unsigned int tile = blockIdx.x * groups + warp / 4; tile < tiles; tile += gridDim.x * groups) {
        unsigned int first = tile * 64 + warp % 4 * 16, row = first + lane / 2;
        unsigned int left = first < of.rows ? of.rows - first : 0;
        int present = left < 16 ? (int)left : 16;
        // Of two threads of a row one steps its replica.
        bool steps = lane % 2 == 0 && row < of.rows;
        WarpReplica replica;
        if (steps) replica = warp_load_replica(arrays, row);
        #pragma unroll 1
        for (a.t = 0; a.t < rollout.steps; ++a.t) {
            a.run_step = first_step + a.t;
#if T_SHOWS
            t_show_rows(steps ? shown_number(replica.state) : -1, scratch);
#else
            if (present > 0) rows += t_fetch_rows(a, args.given, first, present, scratch);
#endif
            unsigned int x[t_in(0) / 4];
            t_take_inputs(scratch, x);
            unsigned long long cell = (unsigned long long)a.t * of.rows + first;
            t_store_rows(scratch, args.obs + cell * (t_in(0) * 2), present);
            t_layers<0>(base, own_biases, x, (float*)scratch, t_shared(barriers));
            t_act_row(a, row, lane % 2, (float*)scratch + lane / 2 * T_STRIDE);
            __syncwarp();
            if (steps) {
                warp_advance(env, run, arrays, row, a.run_step + 1u, warp_actions(arrays, row), replica);
                wide_keep_outcome(rollout.outcome, &places, a.t, row);
            }
            __syncwarp();
        }
        if (steps) warp_save_replica(arrays, row, replica);
    }
    if (T_SUMS_OBS && args.sums_obs) t_write_seen(all_seen, rows, args.seen + blockIdx.x * P_WIDTH);
}
