// A step of all rows on tensor cores in one pass.

// stage 0: act at step t. 1: values of what follows the last step, t. 2: values, t 0, of the
// observations in `given`, f32 [rows, T_IN]. 3: values, t 0, of the observations that were kept.
extern "C" __global__ __launch_bounds__(256, T_BLOCKS) void wide_tensor_act(
    const TensorActArgs args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    float* own_biases = (float*)(shared + T_IMAGE);
    unsigned char* all_scratch = (unsigned char*)(own_biases + T_VECTORS);
    __shared__ WideWord barriers[T_DEPTH + 1];
    __shared__ WidePlaces own_places;
    const WideStep& step = args.step;
    wide_copy_places(step.places, &own_places);
    t_load_weights<T_DEPTH + 1>(shared, args.image, args.biases, own_biases, barriers);
    // Whatever comes before this may be done while the environment's step still runs.
    wait_for_previous_kernel();
    unsigned int base = t_shared(shared);
    int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    unsigned char* scratch = all_scratch + warp * T_SCRATCH;
    TSeen *all_seen = (TSeen*)(all_scratch + warps * T_SCRATCH), *seen = T_SUMS_OBS && args.sums_obs ? all_seen + warp * T_IN : 0;
    for (int i = lane; i < T_IN && seen != 0; i += 32) seen[i] = {0.0, 0.0};
    __syncwarp();
    float* outs = (float*)scratch;
    unsigned int run_step = args.stage == 0 ? wide_run_step(step, &own_places) : 0;
    TAct a = {&own_places, step.state, step.parameters, step.seed, step.first_replica, run_step, step.t,
              step.rows, args.stage, args.masks, args.weights, step.done.actions, step.done.raws,
              step.done.log_probs, step.done.values, args.factors, seen};
    // A block has one group of warps where rows are few.
    unsigned int tiles = (step.rows + 63) / 64, groups = blockDim.x / 128, rows = 0;
    for (unsigned int tile = blockIdx.x * groups + warp / 4; tile < tiles; tile += gridDim.x * groups) {
        unsigned int first = tile * 64 + warp % 4 * 16;
        unsigned int left = first < step.rows ? step.rows - first : 0;
        int present = left < 16 ? (int)left : 16;
        if (args.stage == 3 && present > 0) {
            unsigned int ahead = gridDim.x * groups * 64;
            bool more = first + ahead + 16 <= step.rows;
            t_kept_rows(args.obs + (unsigned long long)first * (t_in(0) * 2), present, more ? ahead : 0, scratch);
        } else if (present > 0) {
            rows += t_fetch_rows(a, args.given, first, present, scratch);
        }
        unsigned int x[t_in(0) / 4];
        t_take_inputs(scratch, x);
        if (T_ACTS && args.stage == 0) {
            unsigned long long cell = (unsigned long long)step.t * step.rows + first;
            t_store_rows(scratch, args.obs + cell * (t_in(0) * 2), present);
        }
        t_layers<0>(base, own_biases, x, outs, t_shared(barriers));
        t_act_row(a, first + lane / 2, lane % 2, outs + lane / 2 * T_STRIDE);
        __syncwarp();
    }
    if (T_SUMS_OBS && args.sums_obs) t_write_seen(all_seen, rows, args.seen + blockIdx.x * P_WIDTH);
}
