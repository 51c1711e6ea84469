// Rows act in one launch: every tower's blocks take F_ACT_ROWS of them at a time from what they see to what
// they do, or to their values.

template <int T> using FusedActor = Fused<FusedTower<T>, F_ACT_ROWS, false>;

// Puts what the rows from `first` on see among the inputs; the tower that acts keeps it.
template <class F>
__device__ inline void fused_see(const FusedActArgs& a, unsigned int first, float* shared) {
    #pragma unroll 4
    for (unsigned int e = threadIdx.x; e < F_ACT_ROWS * P_WIDTH; e += FUSED_THREADS) {
        unsigned int r = e / P_WIDTH, column = e % P_WIDTH, row = first + r;
        float x = 0.0f;
        if (row >= a.step.rows) {
        } else if (a.stage == 2) {
            x = a.given[(unsigned long long)row * P_WIDTH + column];
        } else if (F::acts && a.stage == 0) {
            x = wide_see(a.step.places, a.step.t, a.step.rows, row, column, a.seen);
        } else {
            WidePlace place = wide_place(a.step.places, row);
            x = place.group->obs[place.row * P_WIDTH + column];
            x = wide_normalised(x, column, a.seen.factors);
        }
        shared[fused_at<F_ACT_ROWS>(column, r / 4) + r % 4] = x;
    }
}

// A tower's share of the rows: tiles `start`, `start` + `step` ..
template <class F>
__device__ inline void fused_act(const FusedActArgs& a, unsigned int start, unsigned int step, float* shared) {
    fused_load<F>(a.step.parameters, shared);
    const float* out = shared + F::rows + threadIdx.x * F::stride;
    unsigned int tiles = (a.step.rows + F_ACT_ROWS - 1) / F_ACT_ROWS;
    #pragma unroll 1
    for (unsigned int tile = start; tile < tiles; tile += step) {
        unsigned int row = tile * F_ACT_ROWS + threadIdx.x;
        fused_see<F>(a, tile * F_ACT_ROWS, shared);
        __syncthreads();
        fused_forward<F>(shared);
        fused_heads<F>(shared);
        __syncthreads();
        if (threadIdx.x >= F_ACT_ROWS || row >= a.step.rows) continue;
        if (F::acts && a.stage == 0) {
            wide_decide<F::values>(a.step, row, out);
        } else if (F::values) {
            float value = out[F::value_at];
            a.step.done.values[(unsigned long long)a.step.t * a.step.rows + row] = value;
            if (a.stage == 0 && !(value * 0.0f == 0.0f)) atomicOr(&a.step.state->fault, WIDE_FAULT_OUTPUT);
        }
    }
}

// stage 0: act at step t. 1: values of what follows the last step, t. 2: values, t 0, of the
// observations in `given`, f32 [rows, P_WIDTH]. Values alone are the last tower's.
extern "C" __global__ __launch_bounds__(FUSED_THREADS, F_ACT_BLOCKS) void wide_fused_act(
    const FusedActArgs a) {
    extern __shared__ __align__(16) float fused_shared[];
    unsigned int towers = a.stage == 0 ? F_TOWERS : 1;
    unsigned int start = blockIdx.x / towers, step = gridDim.x / towers;
    if (blockIdx.x % towers == towers - 1)
        return fused_act<FusedActor<F_TOWERS - 1>>(a, start, step, fused_shared);
#if F_TOWERS > 1
    if (a.stage == 0) fused_act<FusedActor<0>>(a, start, step, fused_shared);
#endif
}
