// What a step of some rows needs beside the network, on tensor cores: observations straight from the environment, a draw and
// its log-probability, everything stored and handed over.

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
// Draws this thread's heads of a row from pair PAIR on; false if a logit is no number, or no choice is
// left.
template <int PAIR>
__device__ inline bool t_sample_pairs(float* out, const unsigned int* mask, const WarpDraw& draw,
                                      int half, int* actions, int* sent, float* log_prob) {
    if constexpr (PAIR == T_PAIRS) {
        return true;
    } else {
        bool sound = true;
        int number = 2 * PAIR + half;
        if (number < P_ACTION) {
            auto head = t_softmax<PAIR>(out, mask, half);
            int index = head.choose(t_uniform(draw, number) * head.sum);
            actions[number] = index;
            sent[number] = index;
            *log_prob += out[head.first + index] - head.max - t_ln(head.sum);
            sound = head.sum > 0.0f && head.sum < WIDE_INFINITY;
        }
        return t_sample_pairs<PAIR + 1>(out, mask, draw, half, actions, sent, log_prob) && sound;
    }
}

__device__ inline bool t_sample(float* out, const float*, const unsigned int* mask,
                                const WarpDraw& draw, int half, int* actions, void* sent, float*,
                                float* log_prob) {
    *log_prob = 0.0f;
    return t_sample_pairs<0>(out, mask, draw, half, actions, (int*)sent, log_prob);
}
#elif T_ACTS
__device__ inline bool t_sample(float* out, const float* parameters, const unsigned int*,
                                const WarpDraw& draw, int half, int*, void* sent, float* raws,
                                float* log_prob) {
    bool sound = true;
    *log_prob = 0.0f;
    for (int d = half; d < P_ACTION; d += 2) {
        float mean = out[d], given = wide_log_stds(out, parameters)[d];
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

// Sums of a number of observations: distances from the mean that is known, and their squares.
struct TSeen {
    double sum, squares;

    __device__ inline void add(float x, float mean) {
        double off = (double)x - (double)mean;
        sum += off;
        squares += off * off;
    }
    __device__ inline void add(const TSeen& other) {
        sum += other.sum;
        squares += other.squares;
    }
    // Over lanes `by` apart, twice as far, and so on.
    __device__ inline void add_lanes(int by) {
        for (; by < 32; by *= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, by);
            squares += __shfl_xor_sync(0xffffffffu, squares, by);
        }
    }
};

// What a warp needs to act for its 16 rows.
struct TAct {
    const WidePlaces* places;
    WideState* state;
    const float* parameters;
    unsigned long long seed;
    unsigned int first_replica, run_step, t, rows;
    int stage;
    unsigned char* masks;
    unsigned char* weights;
    int* actions;
    float* raws;
    float* log_probs;
    float* values;
    const float* factors;
    // The warp's sums of all columns, in shared memory, if it also sums observations.
    TSeen* seen;
};

// What a column of observations is normalised by, and the largest number of which that may make any; where it is not yet,
// nothing changes.
struct TFactor {
    float mean, scale, most;
};

__device__ inline TFactor t_factor(const float* factors, int column) {
    if (!P_NORM_OBS || factors == 0) return {0.0f, 1.0f, WIDE_INFINITY};
    // Loaded before it is known whether they count.
    float by[2] = {factors[2 * column], factors[2 * column + 1]};
    wide_loaded(by);
    bool counts = factors[2 * T_IN] != 0.0f;
    return {counts ? by[0] : 0.0f, counts ? by[1] : 1.0f, counts ? WIDE_MOST_SCALED : WIDE_INFINITY};
}
__device__ inline float t_scaled(float x, const TFactor& by) {
    return P_NORM_OBS ? wide_scaled(x, by.mean, by.scale, by.most) : x;
}

// 16 rows that lie one after the other; a lane has the same four columns of some of them.
__device__ inline void t_fetch_whole(const float* from, const float* factors, int lane, unsigned char* to,
                                     TSeen* seen) {
    constexpr int loads = (4 * T_IN + 31) / 32;
    int column = lane * 4 % T_IN;
    float4 x[loads];
    #pragma unroll
    for (int i = 0; i < loads; ++i) {
        int e = i * 32 + lane;
        x[i] = ((const float4*)from)[e < 4 * T_IN ? e : 0];
    }
    TFactor by[4];
    #pragma unroll
    for (int c = 0; c < 4; ++c) by[c] = t_factor(factors, column + c);
    #pragma unroll
    for (int c = 0; T_SUMS_OBS && seen != 0 && c < 4; ++c) {
        TSeen own = {0.0, 0.0};
        #pragma unroll
        for (int i = 0; i < loads; ++i) {
            float four[] = {x[i].x, x[i].y, x[i].z, x[i].w};
            if (i * 32 + lane < 4 * T_IN) own.add(four[c], by[c].mean);
        }
        own.add_lanes(T_IN / 4);
        if (lane < T_IN / 4) seen[column + c].add(own);
    }
    #pragma unroll
    for (int i = 0; i < loads; ++i) {
        int row = (i * 32 + lane) * 4 / T_IN;
        if (row >= 16) continue;
        unsigned int low = t_halves(t_scaled(x[i].x, by[0]), t_scaled(x[i].y, by[1]));
        unsigned int high = t_halves(t_scaled(x[i].z, by[2]), t_scaled(x[i].w, by[3]));
        *(uint2*)(to + row * T_ROW + column * 2) = make_uint2(low, high);
    }
}

// Puts the observations of 16 rows as halves into the warp's part of shared memory, zeros beyond the
// first `present`; how many of those agents are in the game. All loads are under way before the first is waited for.
__device__ inline int t_fetch_rows(const TAct& a, const float* given, unsigned int first,
                                    int present, unsigned char* to) {
    // What is given was normalised when it was kept.
    const float* factors = a.stage == 2 ? 0 : a.factors;
    int lane = threadIdx.x % 32, in_game = P_MORTAL ? 0 : present;
    // Else addresses are computed once for all tiles and fill the registers.
    asm volatile("" : "+r"(lane));
    // Agents that are out of the game are not summed.
    bool whole = a.stage == 2 || (P_WHOLE && !(P_MORTAL && T_SUMS_OBS));
    if (128 % T_IN == 0 && T_IN % 4 == 0 && whole && present >= 16) {
        const float* from = a.stage == 2 ? given : a.places->groups[0].obs;
        t_fetch_whole(from + (unsigned long long)first * T_IN, factors, lane, to, a.seen);
    } else {
        // Each lane takes columns of every row.
        constexpr int columns = (T_IN + 31) / 32, at_once = columns > 8 ? 4 : 8;
        TFactor by[columns];
        #pragma unroll
        for (int c = 0; c < columns; ++c) by[c] = t_factor(factors, c * 32 + lane < T_IN ? c * 32 + lane : 0);
        #pragma unroll 1
        for (int part = 0; part < 16 / at_once; ++part) {
            float x[at_once][columns];
            bool counts[at_once];
            #pragma unroll
            for (int r = 0; r < at_once; ++r) {
                int row = part * at_once + r;
                unsigned int of = first + (row < present ? row : 0);
                WidePlace place = wide_place(a.places, of);
                counts[r] = row < present;
                if (P_MORTAL && T_SUMS_OBS && a.seen != 0 && place.group->alive)
                    counts[r] = counts[r] && place.group->alive[place.row] != 0;
                const float* from = a.stage == 2 ? given + (unsigned long long)of * T_IN
                                                 : place.group->obs + place.row * T_IN;
                #pragma unroll
                for (int c = 0; c < columns; ++c) {
                    int column = c * 32 + lane;
                    x[r][c] = from[column < T_IN ? column : 0];
                }
            }
            #pragma unroll
            for (int c = 0; T_SUMS_OBS && a.seen != 0 && c < columns; ++c) {
                TSeen own = {0.0, 0.0};
                #pragma unroll
                for (int r = 0; r < at_once; ++r) {
                    if (counts[r]) own.add(x[r][c], by[c].mean);
                }
                if (c * 32 + lane < T_IN) a.seen[c * 32 + lane].add(own);
            }
            #pragma unroll
            for (int r = 0; P_MORTAL && r < at_once; ++r) in_game += counts[r];
            #pragma unroll
            for (int r = 0; r < at_once; ++r) {
                int row = part * at_once + r;
                #pragma unroll
                for (int c = 0; c < columns; ++c) {
                    int column = c * 32 + lane;
                    if (column >= T_IN) continue;
                    float y = t_scaled(row < present ? x[r][c] : 0.0f, by[c]);
                    *(unsigned short*)(to + row * T_ROW + column * 2) = (unsigned short)t_halves(y, 0.0f);
                }
            }
        }
    }
    constexpr int rest = t_in(0) - T_IN, some = rest > 0 ? rest : 1;
    for (int e = lane; e < 16 * rest; e += 32) {
        *(unsigned short*)(to + e / some * T_ROW + (T_IN + e % some) * 2) = 0;
    }
    __syncwarp();
    return in_game;
}

// This lane's pieces of 16 bytes of 16 rows: `move(row, piece, i)` for each, where i counts them, up to T_PIECES. Of wide rows it has
// some of every row, so that nothing is divided.
#define T_WIDE_ROWS (t_in(0) / 8 > 32)
#define T_PIECES (T_WIDE_ROWS ? 16 * ((t_in(0) / 8 + 31) / 32) : (16 * (t_in(0) / 8) + 31) / 32)
template <class Move>
__device__ inline void t_each_piece(Move move) {
    constexpr int pieces = t_in(0) / 8, of_row = (pieces + 31) / 32;
    int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < T_PIECES; ++i) {
        int e = i * 32 + lane;
        int row = T_WIDE_ROWS ? i / of_row : e / pieces, piece = T_WIDE_ROWS ? i % of_row * 32 + lane : e % pieces;
        if (row < 16 && piece < pieces) move(row, piece, i);
    }
}

// The same of rows that were kept, of which there are `present`, and asks for those after another `ahead`.
__device__ inline void t_kept_rows(const unsigned char* from, int present, unsigned long long ahead, unsigned char* to) {
    constexpr int pieces = t_in(0) / 8;
    int lane = threadIdx.x % 32;
    uint4 x[T_PIECES];
    t_each_piece([&](int row, int piece, int i) {
        x[i] = ((const uint4*)from)[row < present ? row * pieces + piece : 0];
    });
    for (int at = lane * 128; at < present * t_in(0) * 2 && ahead > 0; at += 32 * 128) {
        t_prefetch(from + ahead * (t_in(0) * 2) + at);
    }
    t_each_piece([&](int row, int piece, int i) { *(uint4*)(to + row * T_ROW + piece * 16) = x[i]; });
    __syncwarp();
}

// Keeps the first `rows` of them.
__device__ inline void t_store_rows(const unsigned char* from, unsigned char* to, int rows) {
    t_each_piece([&](int row, int piece, int) {
        if (row >= rows) return;
        uint4 x = *(const uint4*)(from + row * T_ROW + piece * 16);
        *(uint4*)(to + row * (t_in(0) * 2) + piece * 16) = x;
    });
}

// What a row's mask allows now, as bits. All lanes of the warp come here.
__device__ inline void t_allowed(const unsigned char* now, int half, unsigned int (&mask)[T_MASK_WORDS + 1]) {
    #pragma unroll
    for (int i = 0; i < 32 * T_MASK_WORDS; i += 32) {
        unsigned int word = 0;
        // All loads are under way before the first is waited for.
        #pragma unroll
        for (int j = 0; j < 32 && i + j < P_MASK; j += 2) {
            int at = i + j + half;
            bool allowed = now[at < P_MASK ? at : 0] != 0 && at < P_MASK;
            word |= allowed << (j + half);
        }
        mask[i / 32] = word | __shfl_xor_sync(0xffffffffu, word, 1);
    }
}

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
        WidePlace place = wide_place(a.places, present ? row : 0);
        unsigned int mask[T_MASK_WORDS + 1];
        t_allowed(place.group->action_mask + place.row * P_MASK, half, mask);
        if (present) {
            WarpDraw draw = warp_draw(a.seed, a.first_replica + place.replica, a.run_step,
                                      WARP_PURPOSE_ACTION);
            draw = warp_draw_agent(&draw, P_FIRST_AGENT + place.agent);
            unsigned int* kept = (unsigned int*)a.masks + cell * T_MASK_WORDS;
            #pragma unroll
            for (int i = 0; i < T_MASK_WORDS; ++i) {
                if (i % 2 == half) kept[i] = mask[i];
            }
            if (P_MORTAL && half == 0) {
                a.weights[cell] = place.group->alive ? place.group->alive[place.row] : 1;
            }
            void* sent = (int*)place.group->action + place.row * P_ACTION;
            sound = t_sample(out, a.parameters, mask, draw, half,
                             a.actions + cell * P_ACTION, sent, a.raws + cell * P_ACTION,
                             &log_prob) &&
                    sound;
        }
        __syncwarp();
        log_prob += __shfl_xor_sync(0xffffffffu, log_prob, 1);
        if (half == 0 && present) a.log_probs[cell] = log_prob;
    }
#endif
    if (!sound) atomicOr(&a.state->fault, WIDE_FAULT_OUTPUT);
}

// Adds what the block's warps saw to its sums of the rollout, [P_WIDTH]; each warp says how many rows it had.
__device__ inline void t_write_seen(const TSeen* seen, unsigned int rows, WideDistances* to) {
    __shared__ unsigned int of_warps[8];
    int warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = rows;
    __syncthreads();
    for (int column = threadIdx.x; column < T_IN; column += blockDim.x) {
        WideDistances all = to[column];
        for (int warp = 0; warp < warps; ++warp) {
            all.count += of_warps[warp];
            all.sum += seen[warp * T_IN + column].sum;
            all.squares += seen[warp * T_IN + column].squares;
        }
        to[column] = all;
    }
}
