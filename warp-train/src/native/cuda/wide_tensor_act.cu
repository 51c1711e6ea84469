// A step of all rows on tensor cores: observations straight from the environment, the network, a draw
// and its log-probability, everything stored and handed over in one pass.

// Uniform number `index` of a stream.
__device__ inline float t_uniform(const WarpDraw& draw, unsigned int index) {
    WarpWords counter = draw.counter;
    counter.w |= index >> 2;
    WarpWords words = warp_philox4x32_10(counter, draw.key0, draw.key1);
    unsigned int lane = index & 3u;
    unsigned int low = lane == 0u ? words.x : words.y, high = lane == 2u ? words.z : words.w;
    return warp_uniform(lane < 2u ? low : high);
}

#if T_ACTS && !P_CONTINUOUS
// Draws every other head of a row, from head `half` on; false if a logit is no number.
__device__ inline bool t_sample(float* out, const float*, const unsigned char* mask,
                                const WarpDraw& draw, int half, int* actions, void* sent, float*,
                                float* log_prob) {
    bool sound = true;
    *log_prob = 0.0f;
    int first = 0;
    #pragma unroll
    for (int head = 0; head < P_ACTION; ++head) {
        int size = wide_sizes[head], from = first;
        first += size;
        if (head % 2 != half) continue;
        float max = WIDE_NONE, sum = 0.0f;
        for (int j = from; j < from + size; ++j) {
            float logit = wide_logit(out, mask, j);
            sound = sound && out[j] < WIDE_INFINITY;
            max = logit > max ? logit : max;
        }
        for (int j = from; j < from + size; ++j) sum += t_exp(wide_logit(out, mask, j) - max);
        float threshold = t_uniform(draw, head) * sum, running = 0.0f, chosen = 0.0f;
        int index = 0;
        for (int j = from; j < from + size; ++j) {
            float logit = wide_logit(out, mask, j), weight = t_exp(logit - max);
            bool takes = running <= threshold && weight > 0.0f;
            running += weight;
            index = takes ? j - from : index;
            chosen = takes ? logit : chosen;
        }
        actions[head] = index;
        ((int*)sent)[head] = index;
        *log_prob += (chosen - max) - t_ln(sum);
        sound = sound && max > WIDE_NONE;
    }
    return sound;
}
#elif T_ACTS
__device__ inline bool t_sample(float* out, const float* parameters, const unsigned char*,
                                const WarpDraw& draw, int half, int*, void* sent, float* raws,
                                float* log_prob) {
    bool sound = true;
    *log_prob = 0.0f;
    for (int d = half; d < P_ACTION; d += 2) {
        float mean = out[d], given = wide_given_log_std(out, parameters, d);
        sound = sound && mean * 0.0f == 0.0f && given * 0.0f == 0.0f;
        float log_std = wide_clamp_log_std(given);
        float u = 1.0f - t_uniform(draw, 2 * d), angle = 6.2831855f * t_uniform(draw, 2 * d + 1);
        float normal = warp_sqrt(-2.0f * warp_ln(u)) * warp_cos(angle);
        float raw = mean + warp_exp(log_std) * normal;
        raws[d] = raw;
        ((float*)sent)[d] = wide_bound(d, raw);
        *log_prob += wide_normal(raw, mean, log_std).log_density - wide_log_jacobian(d, raw);
    }
    return sound;
}
#endif

// Two numbers of an observation from column c on as halves; 0 beyond its end.
__device__ inline unsigned int t_read(const float* obs, int c) {
    float low = c < T_IN ? obs[c] : 0.0f, high = c + 1 < T_IN ? obs[c + 1] : 0.0f;
    return t_halves(low, high);
}

// This thread's part of two rows' observations, either null.
__device__ inline void t_read_rows(const float* upper, const float* lower,
                                   unsigned int (&x)[t_in(0) / 4]) {
    int q = threadIdx.x % 4;
    #pragma unroll
    for (int k = 0; k < t_in(0) / 16; ++k) {
        int c = 16 * k + 2 * q;
        x[4 * k] = upper ? t_read(upper, c) : 0u;
        x[4 * k + 1] = lower ? t_read(lower, c) : 0u;
        x[4 * k + 2] = upper ? t_read(upper, c + 8) : 0u;
        x[4 * k + 3] = lower ? t_read(lower, c + 8) : 0u;
    }
}

// Keeps this thread's part of a row, e 0: upper, 1: lower.
__device__ inline void t_keep_row(const unsigned int (&x)[t_in(0) / 4], int e, unsigned char* to) {
    int q = threadIdx.x % 4;
    #pragma unroll
    for (int k = 0; k < t_in(0) / 16; ++k) {
        *(unsigned int*)(to + (16 * k + 2 * q) * 2) = x[4 * k + e];
        *(unsigned int*)(to + (16 * k + 2 * q + 8) * 2) = x[4 * k + 2 + e];
    }
}

// What a warp needs to act for its 16 rows.
struct TAct {
    const WidePlaces* places;
    WideState* state;
    const float* parameters;
    unsigned long long seed;
    unsigned int first_replica, t, rows;
    int stage;
    unsigned char* masks;
    unsigned char* weights;
    int* actions;
    float* raws;
    float* log_probs;
    float* values;
};

// Two threads per row: draws, stores, hands over. `out` is the row's, in shared memory. All lanes of
// the warp come here.
__device__ inline void t_act_row(const TAct& a, unsigned int row, int half, float* out) {
    unsigned long long cell = (unsigned long long)a.t * a.rows + row;
    bool present = row < a.rows, sound = true;
    if (T_VALUES && half == 0 && present) {
        float value = out[T_VALUE_AT];
        a.values[cell] = value;
        sound = value * 0.0f == 0.0f;
    }
#if T_ACTS
    if (a.stage == 0) {
        float log_prob = 0.0f;
        if (present) {
            WidePlace place = wide_place(a.places, row);
            WarpDraw draw = warp_draw(a.seed, a.first_replica + place.replica, *a.places->run_step,
                                      WARP_PURPOSE_ACTION);
            draw = warp_draw_agent(&draw, P_FIRST_AGENT + place.agent);
            unsigned char* mask = P_MASK ? a.masks + cell * P_MASK : 0;
            const unsigned char* now = place.group->action_mask + place.row * P_MASK;
            for (int j = half; j < P_MASK; j += 2) mask[j] = now[j];
            if (P_MORTAL && half == 0) {
                a.weights[cell] = place.group->alive ? place.group->alive[place.row] : 1;
            }
            void* sent = (int*)place.group->action + place.row * P_ACTION;
            sound = t_sample(out, a.parameters, P_MASK ? now : 0, draw, half,
                             a.actions + cell * P_ACTION, sent, a.raws + cell * P_ACTION,
                             &log_prob) &&
                    sound;
        }
        __syncwarp();
        log_prob += __shfl_xor_sync(0xffffffffu, log_prob, 1);
        if (half == 0 && present) a.log_probs[cell] = log_prob;
    }
#endif
    if (!sound) atomicOr(&a.state->fault, 1u);
}

// stage 0: act at step t. 1: values of what follows the last step, t. 2: values, t 0, of the
// observations in `given`, f32 [rows, T_IN].
extern "C" __global__ __launch_bounds__(256, 1) void wide_tensor_act(
    const WidePlaces* places, WideState* state, unsigned long long seed,
    unsigned int first_replica, unsigned int t, unsigned int rows, int stage, const float* given,
    const float* parameters, const unsigned char* image, const float* biases, unsigned char* obs,
    unsigned char* masks, unsigned char* weights, int* actions, float* raws, float* log_probs,
    float* values) {
    extern __shared__ __align__(1024) unsigned char shared[];
    float* own_biases = (float*)(shared + T_IMAGE);
    float* all_outs = own_biases + T_BIASES;
    __shared__ WideWord barrier;
    t_load_weights(shared, image, biases, own_biases, &barrier);
    unsigned int base = t_shared(shared);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* outs = all_outs + warp * 16 * T_STRIDE;
    TAct a = {places, state, parameters, seed, first_replica, t, rows, stage, masks, weights,
              actions, raws, log_probs, values};
    unsigned int tiles = (rows + 63) / 64;
    for (unsigned int tile = blockIdx.x * 2 + warp / 4; tile < tiles; tile += gridDim.x * 2) {
        unsigned int first = tile * 64 + warp % 4 * 16;
        unsigned int x[t_in(0) / 4];
        const float* source[2];
        #pragma unroll
        for (int e = 0; e < 2; ++e) {
            unsigned int row = first + lane / 4 + e * 8;
            source[e] = 0;
            if (row >= rows) continue;
            WidePlace place = wide_place(places, row);
            source[e] = stage == 2 ? given + (unsigned long long)row * T_IN
                                   : place.group->obs + place.row * T_IN;
        }
        t_read_rows(source[0], source[1], x);
        #pragma unroll
        for (int e = 0; e < 2; ++e) {
            unsigned int row = first + lane / 4 + e * 8;
            if (!T_ACTS || stage != 0 || row >= rows) continue;
            unsigned long long cell = (unsigned long long)t * rows + row;
            t_keep_row(x, e, obs + cell * (t_in(0) * 2));
        }
        t_layers<0>(base, own_biases, x, outs, [](int, auto&) {});
        t_act_row(a, first + lane / 2, lane % 2, outs + lane / 2 * T_STRIDE);
        __syncwarp();
    }
}
