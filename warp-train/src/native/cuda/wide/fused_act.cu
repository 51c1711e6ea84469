// Rows act in one launch: every tower's blocks take F_ACT_ROWS of them at a time from what they see to what
// they do, or to their values.

template <int T> using FusedActor = Fused<FusedTower<T>, F_ACT_ROWS, false>;

struct FusedAct {
    const WidePlaces* places;
    WideState* state;
    unsigned long long seed;
    unsigned int first_replica, t, rows;
    int stage;
    const float* given;
    const float* parameters;
    float* obs;
    unsigned char* masks;
    unsigned char* weights;
    const float* factors;
    WideDone done;
};

// Puts what the rows from `first` on see among the inputs; the tower that acts keeps it.
template <class F>
__device__ inline void fused_see(const FusedAct& a, unsigned int first, float* shared) {
    #pragma unroll 4
    for (unsigned int e = threadIdx.x; e < F_ACT_ROWS * P_WIDTH; e += FUSED_THREADS) {
        unsigned int r = e / P_WIDTH, column = e % P_WIDTH, row = first + r;
        float x = 0.0f;
        if (row >= a.rows) {
        } else if (a.stage == 2) {
            x = a.given[(unsigned long long)row * P_WIDTH + column];
        } else if (F::acts && a.stage == 0) {
            x = wide_look(a.places, a.t, a.rows, row, column, a.obs, a.masks, a.weights, a.factors);
        } else {
            WidePlace place = wide_place(a.places, row);
            x = place.group->obs[place.row * P_WIDTH + column];
            x = wide_normalised(x, column, a.factors);
        }
        shared[fused_at<F_ACT_ROWS>(column, r / 4) + r % 4] = x;
    }
}

// A tower's share of the rows: tiles `start`, `start` + `step` ..
template <class F>
__device__ inline void fused_act(const FusedAct& a, unsigned int start, unsigned int step, float* shared) {
    fused_load<F>(a.parameters, shared);
    const float* out = shared + F::rows + threadIdx.x * F::stride;
    unsigned int tiles = (a.rows + F_ACT_ROWS - 1) / F_ACT_ROWS;
    #pragma unroll 1
    for (unsigned int tile = start; tile < tiles; tile += step) {
        unsigned int row = tile * F_ACT_ROWS + threadIdx.x;
        fused_see<F>(a, tile * F_ACT_ROWS, shared);
        __syncthreads();
        fused_forward<F>(shared);
        fused_heads<F>(shared);
        __syncthreads();
        if (threadIdx.x >= F_ACT_ROWS || row >= a.rows) continue;
        if (F::acts && a.stage == 0) {
            wide_decide<F::values>(a.places, a.state, a.seed, a.first_replica, a.t, a.rows, row, out,
                                   a.parameters, a.done);
        } else if (F::values) {
            float value = out[F::value_at];
            a.done.values[(unsigned long long)a.t * a.rows + row] = value;
            if (a.stage == 0 && !(value * 0.0f == 0.0f)) atomicOr(&a.state->fault, 1u);
        }
    }
}

// stage 0: act at step t. 1: values of what follows the last step, t. 2: values, t 0, of the
// observations in `given`, f32 [rows, P_WIDTH]. Values alone are the last tower's.
extern "C" __global__ __launch_bounds__(FUSED_THREADS, F_ACT_BLOCKS) void wide_fused_act(
    const WidePlaces* places, WideState* state, unsigned long long seed,
    unsigned int first_replica, unsigned int t, unsigned int rows, int stage, const float* given,
    const float* parameters, float* obs, unsigned char* masks, unsigned char* weights, int* actions,
    float* raws, float* log_probs, float* values, const float* factors) {
    extern __shared__ __align__(16) float fused_shared[];
    FusedAct a = {places, state, seed, first_replica, t, rows, stage, given, parameters, obs, masks,
                  weights, factors, {masks, actions, raws, log_probs, values}};
    unsigned int towers = stage == 0 ? F_TOWERS : 1;
    unsigned int start = blockIdx.x / towers, step = gridDim.x / towers;
    if (blockIdx.x % towers == towers - 1)
        return fused_act<FusedActor<F_TOWERS - 1>>(a, start, step, fused_shared);
#if F_TOWERS > 1
    if (stage == 0) fused_act<FusedActor<0>>(a, start, step, fused_shared);
#endif
}
