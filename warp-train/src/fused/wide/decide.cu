// Actions drawn from outputs.

// The numbers that a row's actions of a step are drawn by.
__device__ inline WarpDraw wide_draw_of(const WideStep& step, const WidePlace& place) {
    WarpDraw draw = warp_draw(step.seed, step.first_replica + place.replica, wide_run_step(step, step.places),
                              WARP_PURPOSE_ACTION);
    return warp_draw_agent(&draw, P_FIRST_AGENT + place.agent);
}

// Draws a row's action of a step from its outputs, P_OUT of them and, if the tower VALUES, the value; hands
// it to the environment. The row's mask is the one that was stored, unless another place of it is known.
template <bool VALUES = true>
__device__ inline void wide_decide(const WideStep& step, unsigned int row, const float* out,
                                   const unsigned char* known_mask = 0) {
    WidePlace place = wide_place(step.places, row);
    const WideDone& done = step.done;
    unsigned long long cell = (unsigned long long)step.t * step.rows + row;
    WarpDraw draw = wide_draw_of(step, place);
    const unsigned char* stored = known_mask ? known_mask : done.masks + cell * P_MASK;
    const unsigned char* mask = P_MASK ? stored : 0;
    int action[P_ACTION];
    float raw[P_ACTION], bounded[P_ACTION];
    WarpSampled drawn = wide_sample(out, step.parameters, mask, draw, action, raw, bounded);
    float value = VALUES ? out[P_OUT] : 0.0f;
    if (!drawn.sound || !(value * 0.0f == 0.0f)) atomicOr(&step.state->fault, WIDE_FAULT_OUTPUT);
    done.log_probs[cell] = drawn.log_prob;
    if (VALUES) done.values[cell] = value;
    for (int d = 0; d < P_ACTION; ++d) {
        if (P_CONTINUOUS) {
            done.raws[cell * P_ACTION + d] = raw[d];
            ((float*)place.group->action)[place.row * P_ACTION + d] = bounded[d];
        } else {
            done.actions[cell * P_ACTION + d] = action[d];
            ((int*)place.group->action)[place.row * P_ACTION + d] = action[d];
        }
    }
}

#if P_HEAD_SIZE

// The heads of a row that a lane draws, which are alike: what masks allow is read at once.
struct WideOwnHeads {
    WideGivenHeads<32> given;

    __device__ inline WideOwnHeads(const unsigned char* mask, int lane) { given.read_mask(mask, lane); }
    // Draws number h of them.
    __device__ inline int draw(const float* out, int h, int head, float uniform, WarpSampled& of) const {
        constexpr int size = P_HEAD_SIZE;
        unsigned char allowed[size];
        #pragma unroll
        for (int j = 0; j < size; ++j) allowed[j] = given(h, j);
        return warp_choose<size, WideLayout::masked, false, true>(out + head * size, allowed, uniform, of);
    }
};

#elif P_LARGEST_HEAD

// The heads of a row that a lane draws: what a smaller one has less than the largest is forbidden.
struct WideOwnHeads {
    const unsigned char* mask;

    __device__ inline WideOwnHeads(const unsigned char* mask, int) : mask(mask) {}
    __device__ inline int draw(const float* out, int, int head, float uniform, WarpSampled& of) const {
        constexpr int most = P_LARGEST_HEAD;
        int first = wide_firsts[head], size = wide_sizes[head];
        float logits[most];
        unsigned char allowed[most];
        #pragma unroll
        for (int j = 0; j < most; ++j) {
            bool exists = j < size;
            logits[j] = exists ? out[first + j] : 0.0f;
            allowed[j] = exists && (!P_MASK || mask[first + j] != 0);
        }
        return warp_choose<most, true, false, false>(logits, allowed, uniform, of);
    }
};

#endif

#if P_LARGEST_HEAD
// The same by a warp, whose lanes share a row's heads: these are many.
__device__ inline void wide_decide_together(const WideStep& step, unsigned int row, const float* out) {
    constexpr int n = (P_ACTION + 31) / 32;
    int lane = threadIdx.x % 32;
    WidePlace place = wide_place(step.places, row);
    const WideDone& done = step.done;
    unsigned long long cell = (unsigned long long)step.t * step.rows + row;
    WarpDraw draw = wide_draw_of(step, place);
    WideOwnHeads heads(done.masks + cell * P_MASK, lane);
    float log_probs[n] = {};
    bool sound = true;
    #pragma unroll
    for (int h = 0; h < n; ++h) {
        int head = lane + 32 * h;
        if (head >= P_ACTION) continue;
        WarpSampled of = {-0.0f, -0.0f, true};
        // A head takes the number of its own, of the four that are drawn at once.
        WarpDraw own = draw;
        own.index = head / 4 * 4;
        warp_draw_u32(&own);
        unsigned int low = head % 4 == 0 ? own.block.x : own.block.y, high = head % 4 == 2 ? own.block.z : own.block.w;
        int action = heads.draw(out, h, head, warp_uniform(head % 4 < 2 ? low : high), of);
        done.actions[cell * P_ACTION + head] = action;
        ((int*)place.group->action)[place.row * P_ACTION + head] = action;
        log_probs[h] = of.log_prob;
        sound = sound && of.sound;
    }
    // Summed in the order of heads, as a thread by itself would.
    float log_prob = -0.0f;
    #pragma unroll
    for (int head = 0; head < P_ACTION; ++head) log_prob += __shfl_sync(0xffffffffu, log_probs[head / 32], head % 32);
    sound = __all_sync(0xffffffffu, sound);
    if (lane != 0) return;
    float value = out[P_OUT];
    if (!sound || !(value * 0.0f == 0.0f)) atomicOr(&step.state->fault, WIDE_FAULT_OUTPUT);
    done.log_probs[cell] = log_prob;
    done.values[cell] = value;
}
#endif
