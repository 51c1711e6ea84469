// Health and economy under COVID-19: the twin of step.rs and observe.rs, with the states strided over
// the team; sums over states are made of eight parts, as there.

static constexpr int GOVERNOR = 0;
static constexpr int PLANNER = 1;
static constexpr int N_LEVELS = 10;
static constexpr int LEVELS_PER_WORD = 8;
static constexpr int LEVEL_BITS = 4;
static constexpr int PARTS = 8;
static constexpr float YEAR = 365.0f;
static constexpr float LEAST = 0.1f;
static constexpr float MOST = 3.0f;
static constexpr float LINEAR = 20.0f;
static constexpr float TINY = 1e-10f;

__device__ inline void reset(const Env& env, State& state, WarpDraw&) {
    for (int i = warp_first(); i < n_states; i += warp_stride()) {
        state.susceptible[i] = env.start_susceptible[i];
        state.infected[i] = env.start_infected[i];
        state.recovered[i] = env.start_recovered[i];
        state.deaths[i] = env.start_deaths[i];
        state.vaccinated[i] = env.start_vaccinated[i];
        state.unemployed[i] = env.start_unemployed[i];
        state.postsubsidy_productivity[i] = 0.0f;
        state.stringency_level[i] = env.past_stringency[i];
        state.action_in_cooldown_until[i] = 0;
    }
    for (int at = warp_first(); at < n_filters * n_states; at += warp_stride()) {
        state.filtered[at] = env.start_filtered[at];
    }
    for (int at = warp_first(); at < n_words * n_states; at += warp_stride()) {
        state.past_levels[at] = at < n_states ? (unsigned int)env.past_stringency[at] : 0u;
    }
    if (warp_first() == 0) {
        *state.subsidy_level = 0;
        *state.timestep = 0;
    }
}

// Where the level of a day lies: its word, and its place in it.
__device__ inline int word_of(int day, int i) {
    return day / LEVELS_PER_WORD % n_words * n_states + i;
}
__device__ inline int shift_of(int day) { return day % LEVELS_PER_WORD * LEVEL_BITS; }

__device__ inline int level_of(const Env& env, const State& state, int day, int i) {
    if (day <= 0) return env.past_stringency[-day * n_states + i];
    return (int)((state.past_levels[word_of(day, i)] >> shift_of(day)) & 15u);
}

__device__ inline float positive(float x) { return x < 0.0f ? 0.0f : x; }

// Sets the level of stringency and returns by how much it changed.
__device__ inline float change_stringency(const Env& env, State& state, const int* actions, int t,
                                          int i) {
    bool real = env.params.use_real_world_policies == 1;
    int action = real ? env.real_stringency[(t - 1) * n_states + i] : actions[i];
    int before = state.stringency_level[i];
    int level = action != 0 ? action : before;
    int until = state.action_in_cooldown_until[i];
    int wait = action != 0 ? env.params.action_cooldown_period : 1;
    if (t == until + 1) state.action_in_cooldown_until[i] = until + wait;
    state.stringency_level[i] = level;
    int word = word_of(t, i), shift = shift_of(t);
    unsigned int earlier = state.past_levels[word] & ((1u << shift) - 1u);
    state.past_levels[word] = earlier | ((unsigned int)level << shift);
    return (float)(level - before);
}

__device__ inline int changed_subsidy(const Env& env, const State& state, const int* actions,
                                      int past) {
    if (env.params.use_real_world_policies == 1) return env.real_subsidy_level[past];
    return past % env.params.subsidy_interval == 0 ? actions[0] : *state.subsidy_level;
}

// Takes epidemic and unemployment from the data; returns the new deaths.
__device__ inline float replay(const Env& env, State& state, int t, int i) {
    const float* day = env.real_data + (t - 1) * 6 * n_states + i;
    float after = day[3 * n_states];
    float deaths = after - state.deaths[i];
    state.susceptible[i] = day[0];
    state.infected[i] = day[n_states];
    state.recovered[i] = day[2 * n_states];
    state.deaths[i] = after;
    state.vaccinated[i] = day[4 * n_states];
    state.unemployed[i] = day[5 * n_states];
    return deaths;
}

// Lets the epidemic go on for a day; returns the new deaths.
__device__ inline float epidemic(const Env& env, State& state, int t, int i) {
    const Params& params = env.params;
    int lagged = level_of(env, state, t - params.stringency_lag, i);
    bool arrives = t >= params.first_vaccine_step && t % params.delivery_interval == 0;
    float susceptible = state.susceptible[i], infected = state.infected[i];
    float doses = arrives ? (float)env.vaccines_per_delivery[i] : 0.0f;
    float part = doses / (susceptible + TINY);
    part = part < 1.0f ? part : 1.0f;
    float vaccinated = doses < susceptible ? doses : susceptible;
    float rate = env.intercept[i] + env.slope[i] * (float)lagged;
    float met = susceptible / env.population[i] * infected;
    float newly = rate * met * (1.0f - part);
    float recovered = infected / params.infectious_days;
    state.susceptible[i] = positive(susceptible - (newly + vaccinated));
    state.infected[i] = positive(infected + (newly - recovered));
    float all_recovered = positive(state.recovered[i] + (recovered + vaccinated));
    float all_vaccinated = state.vaccinated[i] + vaccinated;
    float after = (all_recovered - all_vaccinated) / params.recovered_per_death;
    float deaths = after - state.deaths[i];
    state.recovered[i] = all_recovered;
    state.vaccinated[i] = all_vaccinated;
    state.deaths[i] = after;
    return deaths;
}

// Filters today's change of stringency, forgets the one that leaves the window.
__device__ inline void unemployment(const Env& env, State& state, float change, int t, int i) {
    int oldest = t - env.params.filter_length;
    int left = level_of(env, state, oldest, i), before = level_of(env, state, oldest - 1, i);
    float signal = 0.0f;
#pragma unroll
    for (int filter = 0; filter < n_filters; ++filter) {
        int at = filter * n_states + i;
        float leaves = env.forgotten[filter] * (float)(left - before);
        float filtered = state.filtered[at];
        filtered = (filtered - filtered * env.fading[filter]) + (change - leaves);
        state.filtered[at] = filtered;
        signal += env.unemployment_weight[at] * filtered;
    }
    float excess = signal > LINEAR ? signal : warp_ln(1.0f + warp_exp(signal));
    float rate = excess + env.unemployment_bias[i];
    state.unemployed[i] = rate * env.population[i] / 100.0f;
}

// What a state produces, with its subsidy.
__device__ inline float production(const Env& env, const State& state, float level, int i) {
    const Params& params = env.params;
    float incapable = params.too_sick * state.infected[i] + state.deaths[i];
    float idle = params.working_age * incapable + state.unemployed[i];
    float workers = positive(params.working_age * env.population[i] - idle);
    float produced = workers * params.worker_production;
    return produced + level * env.max_daily_subsidy[i];
}

// The value of a day's income, as a part of a year's, in parts of a year.
__device__ inline float value_of(const Params& params, float income) {
    float y = YEAR * income;
    y = y < LEAST ? LEAST : y;
    y = y > MOST ? MOST : y;
    float power = params.crra_power;
    float utility;
    if (power == -1.0f) {
        utility = 1.0f - 1.0f / y;
    } else if (power == 0.0f) {
        utility = warp_ln(y);
    } else {
        utility = (warp_exp(power * warp_ln(y)) - 1.0f) / power;
    }
    return (1.0f + utility) / YEAR;
}

__device__ inline float governor_reward(const Env& env, float income, float deaths, int i) {
    float annual = env.state_annual_production[i];
    float health = -deaths * env.params.value_of_life / annual;
    float economic = value_of(env.params, income / annual);
    health = (health - env.min_health[i]) / env.health_span[i];
    economic = (economic - env.min_economic[i]) / env.economic_span[i];
    float weight = env.health_weight[i];
    float sum = weight * health + (1.0f - weight) * economic;
    return sum / env.params.reward_normalization_factor;
}

__device__ inline void reward_planner(const Params& params, float deaths, float income,
                                      StepOut& out) {
    float health = -deaths * params.value_of_life / params.annual_production;
    float economic = value_of(params, income / params.annual_production);
    health = (health - params.planner_min_health) / params.planner_health_span;
    economic = (economic - params.planner_min_economic) / params.planner_economic_span;
    float weight = params.planner_health_weight;
    float sum = weight * health + (1.0f - weight) * economic;
    out.reward[PLANNER][0] = sum / params.reward_normalization_factor;
    out.statistics[0] += health;
    out.statistics[1] += economic;
    out.statistics[2] += deaths;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    // Deaths, then incomes, of all states; and what they add up to in parts.
    WARP_SHARED(float, by_state, 2 * n_states);
    WARP_SHARED(float, parts, 2 * PARTS);
    const Params& params = env.params;
    int t = *state.timestep + 1;
    int subsidy = changed_subsidy(env, state, actions.discrete[PLANNER], t - 1);
    float level = (float)subsidy / (float)params.num_subsidy_levels;
    for (int i = warp_first(); i < n_states; i += warp_stride()) {
        float change = change_stringency(env, state, actions.discrete[GOVERNOR], t, i);
        float deaths;
        if (params.use_real_world_data == 1) {
            deaths = replay(env, state, t, i);
        } else {
            unemployment(env, state, change, t, i);
            deaths = epidemic(env, state, t, i);
        }
        float income = production(env, state, level, i);
        state.postsubsidy_productivity[i] = income;
        out.reward[GOVERNOR][i] = governor_reward(env, income, deaths, i);
        by_state[i] = deaths;
        by_state[n_states + i] = income;
    }
    warp_sync();
    for (int part = warp_first(); part < 2 * PARTS; part += warp_stride()) {
        const float* values = by_state + part / PARTS * n_states;
        float sum = 0.0f;
        for (int i = part % PARTS; i < n_states; i += PARTS) sum += values[i];
        parts[part] = sum;
    }
    warp_sync();
    if (warp_first() == 0) {
        float deaths = 0.0f, income = 0.0f;
        for (int part = 0; part < PARTS; ++part) deaths += parts[part];
        for (int part = 0; part < PARTS; ++part) income += parts[PARTS + part];
        *state.timestep = t;
        *state.subsidy_level = subsidy;
        reward_planner(params, deaths, income - level * params.max_subsidy_cost, out);
    }
}

// What everyone sees, in the order of the keys; returns how many numbers it is.
__device__ inline int shared_numbers(const Params& params, const State& state, float* seen) {
    int t = *state.timestep;
    int interval = params.subsidy_interval;
    int next = t + 1, first = params.first_delivery;
    float period = (float)params.delivery_interval;
    float days;
    if (next <= first) {
        days = (float)(first - next) / period;
        days = days < 1.0f ? days : 1.0f;
    } else {
        days = (float)(params.delivery_interval - next % params.delivery_interval);
    }
    int n = 0;
    seen[n++] = (float)*state.subsidy_level / (float)params.num_subsidy_levels;
    seen[n++] = (float)(interval - t % interval) / (float)interval;
    if (params.observe_rate == 1) seen[n++] = next < first ? 0.0f : params.vaccination_rate;
    seen[n++] = days / period;
    seen[n++] = (float)t / (float)params.episode_length;
    return n;
}

// Numbers of a state that are seen: stringency, production, six kinds of people, lagged stringency.
static constexpr int OWN = 9;

__device__ inline void own_numbers(const Env& env, const State& state, float* own, int i) {
    float inverse = env.inverse_population[i];
    int lagged = level_of(env, state, *state.timestep - env.params.stringency_lag + 1, i);
    own[i] = (float)state.stringency_level[i] / (float)N_LEVELS;
    own[n_states + i] = state.postsubsidy_productivity[i] * env.inverse_max_production[i];
    own[2 * n_states + i] = state.susceptible[i] * inverse;
    own[3 * n_states + i] = state.infected[i] * inverse;
    own[4 * n_states + i] = state.recovered[i] * inverse;
    own[5 * n_states + i] = state.deaths[i] * inverse;
    own[6 * n_states + i] = state.vaccinated[i] * inverse;
    own[7 * n_states + i] = state.unemployed[i] * inverse;
    own[8 * n_states + i] = (float)lagged / (float)N_LEVELS;
}

// A governor's row: stringency, what all see, the own number one-hot, and the rest.
__device__ inline float governor_sees(const float* own, const float* common, int n, int i,
                                      int column) {
    int rest = 1 + n + n_states;
    if (column == 0) return own[i];
    if (column <= n) return common[column - 1];
    if (column < rest) return column - 1 - n == i ? 1.0f : 0.0f;
    return own[(column - rest + 1) * n_states + i];
}

__device__ inline void masks(const Params& params, const State& state, Observation& out) {
    int t = *state.timestep;
    bool all = params.use_real_world_policies == 1;
    constexpr int width = N_LEVELS + 1;
    for (int at = warp_first(); at < n_states * width; at += warp_stride()) {
        bool free = all || t >= state.action_in_cooldown_until[at / width];
        out.action_mask[GOVERNOR][at] = free || at % width == 0;
    }
    bool turn = all || t % params.subsidy_interval == 0;
    for (int at = warp_first(); at <= params.num_subsidy_levels; at += warp_stride()) {
        out.action_mask[PLANNER][at] = turn || at == 0;
    }
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    WARP_SHARED(float, own, OWN * n_states);
    WARP_SHARED(float, common, 5);
    int n = env.params.observe_rate == 1 ? 5 : 4;
    if (warp_first() == 0) shared_numbers(env.params, state, common);
    for (int i = warp_first(); i < n_states; i += warp_stride()) own_numbers(env, state, own, i);
    masks(env.params, state, out);
    warp_sync();
    // Neighbouring threads write neighbouring places, four at a time where rows allow it.
    int width = n + n_states + OWN;
    if (width % 4 == 0) {
        for (int at = 4 * warp_first(); at < n_states * width; at += 4 * warp_stride()) {
            int i = at / width, column = at % width;
            float4 four = {governor_sees(own, common, n, i, column),
                           governor_sees(own, common, n, i, column + 1),
                           governor_sees(own, common, n, i, column + 2),
                           governor_sees(own, common, n, i, column + 3)};
            *(float4*)(out.obs[GOVERNOR] + at) = four;
        }
    } else {
        for (int at = warp_first(); at < n_states * width; at += warp_stride())
            out.obs[GOVERNOR][at] = governor_sees(own, common, n, at / width, at % width);
    }
    int planner = OWN * n_states + n;
    for (int at = warp_first(); at < planner; at += warp_stride()) {
        bool shared = at >= n_states && at < n_states + n;
        out.obs[PLANNER][at] = shared ? common[at - n_states] : own[at < n_states ? at : at - n];
    }
}
