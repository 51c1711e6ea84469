// What agents see of the nearest: what nearest.rs finds, in the same order, found in another way. Each
// thread searches for one agent; what was found is written by all of them.

// Agents found in one pass at most.
static constexpr int PASS = n_nearest == 0 ? 1 : n_nearest < 15 ? n_nearest : 10;
// Threads that search at a time.
static constexpr int SEARCHERS = WARP_TEAM < 256 ? WARP_TEAM : 256;
// Candidates of one searcher at most, and how many of them are sorted at once.
static constexpr int SLOTS = 32;
static constexpr int SORTED = 16;
// Agents whose places are held at a time, in groups of four.
static constexpr int TILE = n_agents < 1024 ? (n_agents + 3) / 4 * 4 : 1024;
// Classes of agents whose least distances make the bound.
static constexpr int CLASSES = 2 * SORTED;

template <bool FEW>
struct IndexOf {
    typedef int type;
};
template <>
struct IndexOf<true> {
    typedef unsigned short type;
};
typedef IndexOf<(n_agents < 65536)>::type Index;

struct alignas(16) Four {
    float at[4];
};

// The agents nearest to one, in order of distance and, at the same distance, of number; its own
// number where there is nobody.
struct Nearest {
    int agent[PASS];
};

__device__ inline unsigned int distance_bits(const State& state, float x, float y, int other) {
    float dx = state.loc_x[other] - x, dy = state.loc_y[other] - y;
    return warp_bits(dx * dx + dy * dy);
}

// Of numbers of which none is a NaN; one instruction each.
__device__ inline float lesser(float a, float b) { return fminf(a, b); }
__device__ inline float greater(float a, float b) { return fmaxf(a, b); }

__device__ inline void exchange(float& low, float& high) {
    float least = lesser(low, high);
    high = greater(low, high);
    low = least;
}

__device__ inline void exchange(unsigned int& low, unsigned int& high) {
    unsigned int least = low < high ? low : high;
    high = low < high ? high : low;
    low = least;
}

// Batcher's odd-even merge sort; all of its loops unroll, so that nothing leaves the registers.
template <class T>
__device__ inline void sort(T* v) {
#pragma unroll
    for (int run = 1; run < SORTED; run *= 2) {
#pragma unroll
        for (int apart = run; apart >= 1; apart /= 2) {
#pragma unroll
            for (int i = 0; i < SORTED; ++i) {
                bool pairs = i >= apart % run && (i - apart % run) / apart % 2 == 0;
                bool same = i / (2 * run) == (i + apart) / (2 * run);
                if (pairs && same && i + apart < SORTED) exchange(v[i], v[i + apart]);
            }
        }
    }
}

// Places seen from the middle of the square, and their squared distances to it, infinite for who is
// out of the game. With these the squared distance to an agent at a is, but for a's own square,
// square - 2 a . place: two operations. What that rounds off is far less than SLACK.
struct Places {
    Four* x;
    Four* y;
    Four* square;
};
// As a part of the square of grid_length: 64 times the half of a float's last bit.
static constexpr float SLACK = 3.8146973e-6f;

__device__ inline void enter(const Params& params, const State& state, int tile, const Places& places) {
    float middle = 0.5f * params.grid_length;
    for (int i = warp_first(); i < TILE; i += warp_stride()) {
        int agent = tile + i;
        bool in_game = agent < n_agents && state.was_in_the_game[agent < n_agents ? agent : 0] != 0;
        float x = in_game ? state.loc_x[agent] - middle : 0.0f;
        float y = in_game ? state.loc_y[agent] - middle : 0.0f;
        places.x[i / 4].at[i % 4] = x;
        places.y[i / 4].at[i % 4] = y;
        places.square[i / 4].at[i % 4] = in_game ? x * x + y * y : WARP_INFINITY;
    }
}

// The searcher's side of the product.
struct Searcher {
    float x, y;
};

__device__ inline Four farness(const Searcher& from, const Places& places, int four) {
    Four x = places.x[four], y = places.y[four], far = places.square[four];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        far.at[i] = fmaf(from.x, x.at[i], fmaf(from.y, y.at[i], far.at[i]));
    }
    return far;
}

template <int FOURS>
__device__ inline void lower(float* least, const Searcher& from, const Places& places, int four) {
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        Four far = farness(from, places, four + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) least[4 * i + j] = lesser(least[4 * i + j], far.at[j]);
    }
}

// A farness that at least PASS agents besides the searcher do not exceed, from the least of each
// class: hardly more agents do, whatever their number.
__device__ inline float bound(float* least) {
    float* a = least;
    float* b = least + SORTED;
    sort(a);
    sort(b);
    // Of two sorted rows taken together the k-th is the least of what taking i from one and k - i
    // from the other needs. One more than wanted, since the searcher itself is nearest.
    constexpr int k = PASS + 1;
    float bound = lesser(a[k - 1], b[k - 1]);
#pragma unroll
    for (int i = 1; i < k; ++i) bound = lesser(bound, greater(a[i - 1], b[k - i - 1]));
    return bound;
}

// An agent seen from another: the bits of the squared distance, and below them its number.
typedef unsigned long long Neighbour;
static constexpr Neighbour NOBODY = ~0ull;

// The PASS agents that come next, not before `next`, by looking at everyone; returns what comes
// after them.
__device__ inline Neighbour search_all(const State& state, int agent, Neighbour next,
                                       Nearest& nearest) {
    float x = state.loc_x[agent], y = state.loc_y[agent];
    Neighbour at[PASS];
#pragma unroll
    for (int i = 0; i < PASS; ++i) at[i] = NOBODY;
    for (int other = 0; other < n_agents; ++other) {
        if (other == agent || state.was_in_the_game[other] == 0) continue;
        unsigned int bits = distance_bits(state, x, y, other);
        Neighbour seen = ((Neighbour)bits << 32) | (unsigned int)other;
        if (seen < next || seen >= at[PASS - 1]) continue;
#pragma unroll
        for (int i = PASS - 1; i > 0; --i) {
            at[i] = seen < at[i - 1] ? at[i - 1] : seen < at[i] ? seen : at[i];
        }
        at[0] = seen < at[0] ? seen : at[0];
    }
#pragma unroll
    for (int i = 0; i < PASS; ++i) nearest.agent[i] = at[i] == NOBODY ? agent : (int)at[i];
    return at[PASS - 1] == NOBODY ? NOBODY : at[PASS - 1] + 1;
}

// The candidates of one searcher: their numbers, SEARCHERS apart.
struct Candidates {
    Index* at;
    __device__ Index& operator[](int i) const { return at[i * SEARCHERS + warp_first()]; }
};

// Keys to sort candidates by: the bits of their distances, and the numbers of their slots in place of
// the last ones.
static constexpr unsigned int SLOT = SLOTS - 1;
static constexpr unsigned int NO_KEY = 0xffffffffu;

// Whether the first PASS of the keys are in order of whole distances, too, and no later one belongs
// among them; of two at the same distance the one in the lower slot has the lower number.
__device__ inline bool in_order(const State& state, int agent, const Candidates& candidates,
                                const unsigned int* keys) {
    float x = state.loc_x[agent], y = state.loc_y[agent];
    unsigned int before = 0u;
    unsigned int last = keys[PASS - 1];
    bool in_order = last == NO_KEY || (keys[PASS + 1] & ~SLOT) != (last & ~SLOT);
#pragma unroll
    for (int i = 0; i <= PASS; ++i) {
        if (keys[i] == NO_KEY) continue;
        unsigned int bits = distance_bits(state, x, y, candidates[(int)(keys[i] & SLOT)]);
        in_order = in_order && before <= bits;
        before = bits;
    }
    return in_order;
}

// The PASS agents nearest of `count` candidates, unless the last bits of their distances matter.
__device__ inline bool choose(const State& state, int agent, const Candidates& candidates, int count,
                              Nearest& nearest) {
    float x = state.loc_x[agent], y = state.loc_y[agent];
    unsigned int keys[SORTED];
#pragma unroll
    for (int i = 0; i < SORTED; ++i) {
        int other = i < count ? candidates[i] : agent;
        unsigned int bits = distance_bits(state, x, y, other);
        keys[i] = other == agent ? NO_KEY : (bits & ~SLOT) | i;
    }
    sort(keys);
    for (int i = SORTED; i < count; ++i) {
        int other = candidates[i];
        if (other == agent) continue;
        unsigned int key = (distance_bits(state, x, y, other) & ~SLOT) | i;
#pragma unroll
        for (int j = PASS + 1; j >= 0; --j) {
            unsigned int after = j > 0 && key < keys[j - 1] ? keys[j - 1] : key;
            keys[j] = keys[j] < after ? keys[j] : after;
        }
    }
    unsigned int apart = NO_KEY;
#pragma unroll
    for (int i = 0; i < PASS; ++i) {
        bool seen = keys[i] != NO_KEY;
        nearest.agent[i] = seen ? candidates[(int)(keys[i] & SLOT)] : agent;
        unsigned int differ = seen ? keys[i] ^ keys[i + 1] : NO_KEY;
        apart = differ < apart ? differ : apart;
    }
    return apart > SLOT || in_order(state, agent, candidates, keys);
}

// Adds agents of a block, from `agent` on, that are within the limit to the candidates, in order of
// number; returns how many there are then, SLOTS + 1 if there are too many.
template <int FOURS>
__device__ inline int collect(const Searcher& from, const Places& places, int four, int agent,
                              float limit, const Candidates& candidates, int count) {
    unsigned int close = 0u;
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        Four far = farness(from, places, four + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            // The sign, which says that it is nearer, enters from the right.
            close = (close << 1) | (warp_bits(far.at[j] - limit) >> 31);
        }
    }
    if (FOURS > 0) close <<= (32 - 4 * FOURS) % 32;
    while (close != 0u && count < SLOTS) {
        int next = __clz((int)close);
        close ^= 0x80000000u >> next;
        candidates[count] = (Index)(agent + next);
        count += 1;
    }
    return close != 0u ? SLOTS + 1 : count;
}

// The PASS agents nearest to `agent`, whose thread calls this if it is `searching`; all threads of
// the team call it together.
__device__ inline void search(const Params& params, const State& state, int agent, bool searching,
                              const Places& places, const Candidates& candidates,
                              Nearest& nearest) {
    constexpr int fours = CLASSES / 4, rest = (n_agents % CLASSES + 3) / 4;
    float middle = 0.5f * params.grid_length;
    Searcher from = {searching ? -2.0f * (state.loc_x[agent] - middle) : 0.0f,
                     searching ? -2.0f * (state.loc_y[agent] - middle) : 0.0f};
    float least[CLASSES];
#pragma unroll
    for (int i = 0; i < CLASSES; ++i) least[i] = WARP_INFINITY;
    for (int tile = 0; tile < n_agents; tile += TILE) {
        warp_sync();
        enter(params, state, tile, places);
        warp_sync();
        if (!searching) continue;
        bool last = tile + TILE >= n_agents;
        int blocks = (last ? n_agents - tile : TILE) / CLASSES;
        for (int i = 0; i < blocks; ++i) lower<fours>(least, from, places, i * fours);
        if (last) lower<rest>(least, from, places, blocks * fours);
    }
    float slack = SLACK * (params.grid_length * params.grid_length);
    // The lesser, since fewer agents than wanted leave it infinite, as who is out of the game.
    float limit = lesser(bound(least), 3.0e38f) + slack;
    int count = searching ? 0 : SLOTS + 1;
    for (int tile = 0; tile < n_agents; tile += TILE) {
        if (n_agents > TILE) {
            warp_sync();
            enter(params, state, tile, places);
            warp_sync();
        }
        bool last = tile + TILE >= n_agents;
        int blocks = (last ? n_agents - tile : TILE) / CLASSES;
        for (int i = 0; i < blocks && count <= SLOTS; ++i) {
            int agent = tile + i * CLASSES;
            count = collect<fours>(from, places, i * fours, agent, limit, candidates, count);
        }
        if (last && count <= SLOTS) {
            int agent = tile + blocks * CLASSES;
            count = collect<rest>(from, places, blocks * fours, agent, limit, candidates, count);
        }
    }
    if (!searching) return;
    bool chosen = count <= SLOTS && choose(state, agent, candidates, count, nearest);
    if (!chosen) search_all(state, agent, 0, nearest);
}

// Numbers in one agent's observation.
static constexpr int WIDTH = 7 * n_shown + 1;

// The observation of an agent.
__device__ inline float* row_of(const Observation& out, int agent) {
    bool tagger = agent < n_taggers;
    return tagger ? out.obs[TAGGER] + agent * WIDTH : out.obs[RUNNER] + (agent - n_taggers) * WIDTH;
}

// What is seen of an agent as a difference; all of it is read before any of it is written.
struct Seen {
    float x, y, speed, acceleration, direction;
};

__device__ inline Seen seen_of(const State& state, int agent) {
    return {state.loc_x[agent], state.loc_y[agent], state.speed[agent], state.acceleration[agent],
            state.direction[agent]};
}

// What each of some agents sees of the PASS agents found for it, from rank `slot` on.
__device__ inline void show_found(const Params& params, const State& state, int first, int slot,
                                  const Index* found, const Observation& out) {
    int count = n_agents - first < SEARCHERS ? n_agents - first : SEARCHERS;
    for (int i = warp_first(); i < count * PASS; i += warp_stride()) {
        int agent = first + i / PASS, rank = slot + i % PASS;
        if (rank >= n_nearest) continue;
        // An agent that found nobody has found itself.
        int other = found[i];
        bool found_one = other != agent;
        Seen seen = seen_of(state, other), own = seen_of(state, agent);
        float* to = row_of(out, agent) + rank;
        to[0] = (seen.x - own.x) * params.location_scale;
        to[n_shown] = (seen.y - own.y) * params.location_scale;
        to[2 * n_shown] = (seen.speed - own.speed) * params.speed_scale;
        to[3 * n_shown] = (seen.acceleration - own.acceleration) * params.speed_scale;
        to[4 * n_shown] = (seen.direction - own.direction) * ANGLE_SCALE;
        to[5 * n_shown] = found_one && other < n_taggers ? 1.0f : 0.0f;
        to[6 * n_shown] = found_one ? 1.0f : 0.0f;
    }
}

__device__ inline void observe_nearest(const Params& params, const State& state, float time,
                                       Observation& out) {
    WARP_SHARED(Four, x, TILE / 4);
    WARP_SHARED(Four, y, TILE / 4);
    WARP_SHARED(Four, square, TILE / 4);
    WARP_SHARED(Index, candidates, SEARCHERS * SLOTS);
    for (int first = 0; first < n_agents; first += SEARCHERS) {
        int agent = first + warp_first();
        bool mine = warp_first() < SEARCHERS && agent < n_agents;
        bool searching = mine && state.was_in_the_game[agent] != 0;
        Neighbour next = 0;
        for (int slot = 0; slot < n_nearest; slot += PASS) {
            Nearest nearest;
            if (n_nearest == PASS) {
                search(params, state, agent, searching, {x, y, square}, {candidates}, nearest);
            } else if (searching) {
                next = search_all(state, agent, next, nearest);
            }
            // What was found takes the place of the candidates.
            warp_sync();
#pragma unroll
            for (int i = 0; i < PASS; ++i) {
                int other = searching ? nearest.agent[i] : agent;
                if (mine) candidates[warp_first() * PASS + i] = (Index)other;
            }
            warp_sync();
            show_found(params, state, first, slot, candidates, out);
            warp_sync();
        }
        if (mine) row_of(out, agent)[WIDTH - 1] = searching ? time : 0.0f;
    }
}
