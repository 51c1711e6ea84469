// Made from covid19/step.rs and covid19/observe.rs by warp translate; change those files.
// Health and economy under COVID-19: start and step, from which `step.cu` is made.
// Health and economy under COVID-19: what governors and the planner see, and what they may do.

static constexpr unsigned int N_STATES = 51u; // States and the District of Columbia.
static constexpr unsigned int N_FILTERS = 5u; // Filters over the changes of stringency.
static constexpr unsigned int N_LEVELS = 10u; // Levels of stringency.
static constexpr unsigned int GOVERNOR = 0u; // Number of the group of governors.
static constexpr unsigned int PLANNER = 1u; // Number of the group of the planner.
// Levels of stringency in one word of the state, four bits each.
static constexpr unsigned int LEVELS_PER_WORD = 8u;
// Partial sums over states; partial sum l adds states l, l + 8 and so on.
static constexpr unsigned int PARTS = 8u;
// Numbers of a state that are seen: stringency, production, six kinds of people, lagged stringency.
static constexpr unsigned int OWN = 9u;
static constexpr unsigned int COMMON = 5u; // Numbers that all see, at most.
// All that is seen lies in one row, so that an agent's number is found by its place, without
// branches: the states'
// numbers, what all see, 0 and 1.
static constexpr unsigned int COMMON_AT = OWN * N_STATES;
static constexpr unsigned int ZERO_AT = COMMON_AT + COMMON;
static constexpr unsigned int ONE_AT = ZERO_AT + 1u;
static constexpr unsigned int LEVEL_BITS = 4u; // Bits of a level in a word.
static constexpr float YEAR = 365.0f; // Days of a year.
// The value of money is flat below and above these parts of what is usual.
static constexpr float LEAST = 0.1f;
static constexpr float MOST = 3.0f;
// Below it money's value is a series, whose rest is less than f32 resolves.
static constexpr float SMALL_POWER = 0.0625f;
static constexpr float LINEAR = 20.0f; // Above it ln(1 + e^x) is x.
static constexpr float TINY = 1e-10f; // Keeps a quotient by the susceptible finite.

// A day, counted from 1, and its level of subsidy, from 0 to 1.
struct Day {
    int t;
    float level;
};

__device__ inline void reset(const Env& env, State& state, WarpDraw&) {
    const Env& tables = env;
    for (unsigned int i = warp_first(); i < N_STATES; i += warp_stride()) {
        state.susceptible[i] = tables.start_susceptible[i];
        state.infected[i] = tables.start_infected[i];
        state.recovered[i] = tables.start_recovered[i];
        state.deaths[i] = tables.start_deaths[i];
        state.vaccinated[i] = tables.start_vaccinated[i];
        state.unemployed[i] = tables.start_unemployed[i];
        state.postsubsidy_productivity[i] = 0.0f;
        state.stringency_level[i] = tables.past_stringency[i];
        state.action_in_cooldown_until[i] = 0;
    }
    for (unsigned int at = warp_first(); at < N_FILTERS * N_STATES; at += warp_stride()) {
        state.filtered[at] = tables.start_filtered[at];
    }
    for (unsigned int at = warp_first(); at < n_words * n_states; at += warp_stride()) {
        state.past_levels[at] = at < N_STATES ? (unsigned int)tables.past_stringency[at] : 0u;
    }
    if (warp_first() == 0) {
        *state.subsidy_level = 0;
        *state.timestep = 0;
    }
}

// The level of subsidy after `past` days.
__device__ inline int changed_subsidy(const Env& env, const State& state,
                                      WarpSlice<const int> actions, int past) {
    if (env.params.use_real_world_policies == 1) {
        return env.real_subsidy_level[(unsigned int)past];
    }
    return past % env.params.subsidy_interval == 0 ? actions[0] : *state.subsidy_level;
}

// The value of a day's income, as a part of a year's, in parts of a year.
__device__ inline float value_of(const Params& params, float income) {
    float y = YEAR * income;
    y = y < LEAST ? LEAST : y;
    y = y > MOST ? MOST : y;
    float power = params.crra_power;
    // Here the difference below would cancel.
    float utility;
    if (power == -1.0f) {
        utility = 1.0f - 1.0f / y;
    } else if (fabsf(power) < SMALL_POWER) {
        float log = warp_ln(y);
        float z = power * log;
        utility = log *
            (1.0f + z *
             (1.0f / 2.0f + z * (1.0f / 6.0f + z * (1.0f / 24.0f + z * (1.0f / 120.0f)))));
    } else {
        utility = (warp_exp(power * warp_ln(y)) - 1.0f) / power;
    }
    return (1.0f + utility) / YEAR;
}

// The planner's reward for all deaths and all income.
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

// Whether vaccine is delivered on a day.
__device__ inline bool arrives(const Params& params, int t) {
    return (t >= params.first_vaccine_step) & (t % params.delivery_interval == 0);
}

// Where the levels of a day lie: the first of their words.
__device__ inline unsigned int word_of(const State& state, int day) {
    constexpr unsigned int n_words_2 = n_words * n_states / N_STATES;
    return (unsigned int)day / LEVELS_PER_WORD % n_words_2 * N_STATES;
}

// And its place in the word.
__device__ inline unsigned int shift_of(int day) {
    return (unsigned int)day % LEVELS_PER_WORD * LEVEL_BITS;
}

// The level of a day, whose words begin at `word`; days are counted from the start, and `day`
// may be before it, but not after today. The start itself is read from the table, as its word may
// have been overwritten.
__device__ inline int level_of(const Env& env, const State& state, int day, unsigned int word,
                               unsigned int i) {
    if (day <= 0) {
        return env.past_stringency[(unsigned int)-day * N_STATES + i];
    }
    WarpSlice<const unsigned int> words =
        warp_part(warp_slice(state.past_levels, n_words * n_states), word, word + N_STATES);
    return (int)((words[i] >> shift_of(day)) & 15u);
}

// The level of a day, wherever it lies.
__device__ inline int level_on(const Env& env, const State& state, int day, unsigned int i) {
    return level_of(env, state, day, word_of(state, day), i);
}

// Sets the level of stringency and returns by how much it changed.
__device__ inline float change_stringency(const Env& env, State& state,
                                          WarpSlice<const int> actions, WarpTuple2<int,
                                          unsigned int> parts, unsigned int i) {
    int t = parts._0;
    unsigned int word = parts._1;
    int action = env.params.use_real_world_policies == 1 ?
        env.real_stringency[(unsigned int)(t - 1) * N_STATES + i] : actions[i];
    int before = state.stringency_level[i];
    int level = action != 0 ? action : before;
    int until = state.action_in_cooldown_until[i];
    int wait = action != 0 ? env.params.action_cooldown_period : 1;
    state.action_in_cooldown_until[i] = t == until + 1 ? until + wait : until;
    state.stringency_level[i] = level;
    // Levels of later days in this word are those of a round ago.
    unsigned int shift = shift_of(t);
    unsigned int earlier = state.past_levels[word + i] & ((1u << shift) - 1u);
    state.past_levels[word + i] = earlier | ((unsigned int)level << shift);
    return (float)(level - before);
}

// Takes epidemic and unemployment from the data; returns the new deaths.
__device__ inline float replay(const Env& env, State& state, int t, unsigned int i) {
    WarpSlice<const float> day = warp_part(warp_slice(env.real_data, WARP_TABLE_LEN_real_data),
                                           (unsigned int)(t - 1) * 6u * N_STATES,
                                           WARP_TABLE_LEN_real_data);
    float after = day[3u * N_STATES + i];
    float deaths = after - state.deaths[i];
    state.susceptible[i] = day[i];
    state.infected[i] = day[N_STATES + i];
    state.recovered[i] = day[2u * N_STATES + i];
    state.deaths[i] = after;
    state.vaccinated[i] = day[4u * N_STATES + i];
    state.unemployed[i] = day[5u * N_STATES + i];
    return deaths;
}

__device__ inline float positive(float x) {
    return x < 0.0f ? 0.0f : x;
}

// Lets the epidemic go on for a day, on which vaccine `arrives` or not; returns the new deaths.
__device__ inline float epidemic(const Env& env, State& state, int lagged, bool arrives_2,
                                 unsigned int i) {
    const Params& params = env.params;
    const Env& tables = env;
    float susceptible = state.susceptible[i];
    float infected = state.infected[i];
    float doses = arrives_2 ? (float)tables.vaccines_per_delivery[i] : 0.0f;
    float part = doses / (susceptible + TINY);
    part = part < 1.0f ? part : 1.0f;
    float vaccinated = doses < susceptible ? doses : susceptible;
    float rate = tables.intercept[i] + tables.slope[i] * (float)lagged;
    float met = susceptible / tables.population[i] * infected;
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

// Filters today's change of stringency, forgets the one that has left the window, and returns what
// all filters let through.
__device__ inline float filtered(const Env& env, State& state, float change, int left,
                                 unsigned int i) {
    const Env& tables = env;
    float signal = 0.0f;
    for (unsigned int filter = 0u; filter < N_FILTERS; ++filter) {
        unsigned int at = filter * N_STATES + i;
        float leaves = tables.forgotten[filter] * (float)left;
        float before = state.filtered[at];
        // Less than one minus a fading part: that would round it to a few digits.
        float filtered_2 = (before - before * tables.fading[filter]) + (change - leaves);
        state.filtered[at] = filtered_2;
        signal += tables.unemployment_weight[at] * filtered_2;
    }
    return signal;
}

// ln(1 + e^signal): how many more are without work than ever.
__device__ inline float excess(float signal) {
    float soft = warp_ln(1.0f + warp_exp(signal));
    return signal > LINEAR ? signal : soft;
}

// Says who is without work.
__device__ inline void unemployment(const Env& env, State& state, float excess_2, unsigned int i) {
    float rate = excess_2 + env.unemployment_bias[i];
    state.unemployed[i] = rate * env.population[i] / 100.0f;
}

// What a state produces, with its subsidy.
__device__ inline float production(const Env& env, const State& state, float level,
                                   unsigned int i) {
    const Params& params = env.params;
    const Env& tables = env;
    float incapable = params.too_sick * state.infected[i] + state.deaths[i];
    float idle = params.working_age * incapable + state.unemployed[i];
    float workers = positive(params.working_age * tables.population[i] - idle);
    float production_2 = workers * params.worker_production;
    return production_2 + level * tables.max_daily_subsidy[i];
}

__device__ inline float governor_reward(const Env& env, float economic, float deaths,
                                        unsigned int i) {
    const Params& params = env.params;
    const Env& tables = env;
    float annual = tables.state_annual_production[i];
    float health = -deaths * params.value_of_life / annual;
    health = (health - tables.min_health[i]) / tables.health_span[i];
    economic = (economic - tables.min_economic[i]) / tables.economic_span[i];
    float weight = tables.health_weight[i];
    float sum = weight * health + (1.0f - weight) * economic;
    return sum / params.reward_normalization_factor;
}

// What happens in each state on a day: levels, people, work; fills in deaths, incomes and rewards.
__device__ inline void live(const Env& env, State& state, WarpSlice<const int> actions, Day day,
                            WarpSlice<float> deaths, WarpSlice<float> incomes,
                            WarpSlice<float> rewards) {
    const Params& params = env.params;
    int t = day.t;
    int oldest = t - params.filter_length;
    unsigned int word = word_of(state, t);
    for (unsigned int i = warp_first(); i < N_STATES; i += warp_stride()) {
        float change = change_stringency(env, state, actions, WarpTuple2<int,
                                         unsigned int>{t, word}, i);
        float died;
        if (params.use_real_world_data == 1) {
            died = replay(env, state, t, i);
        } else {
            int left = level_on(env, state, oldest, i) - level_on(env, state, oldest - 1, i);
            float signal = filtered(env, state, change, left, i);
            unemployment(env, state, excess(signal), i);
            int lagged = level_on(env, state, t - params.stringency_lag, i);
            died = epidemic(env, state, lagged, arrives(params, t), i);
        }
        float income = production(env, state, day.level, i);
        state.postsubsidy_productivity[i] = income;
        float worth = value_of(params, income / env.state_annual_production[i]);
        rewards[i] = governor_reward(env, worth, died, i);
        deaths[i] = died;
        incomes[i] = income;
    }
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    const Params& params = env.params;
    int t = *state.timestep + 1;
    int subsidy =
        changed_subsidy(env, state, warp_slice(actions.discrete[PLANNER], WARP_LEN_discrete_1), t -
                        1);
    float level = (float)subsidy / (float)params.num_subsidy_levels;
    WARP_SHARED(float, deaths, 51u);
    WARP_SHARED(float, incomes, 51u);
    Day day = {t, level};
    live(env, state, warp_slice(actions.discrete[GOVERNOR], WARP_LEN_discrete_0), day,
         warp_slice(deaths, 51u), warp_slice(incomes, 51u),
         warp_slice(out.reward[GOVERNOR], WARP_LEN_reward_0));
    // What both add up to, in parts, so that any number of threads keeps the order.
    WARP_SHARED(float, parts, 16u);
    warp_sync();
    for (unsigned int part = warp_first(); part < 2u * PARTS; part += warp_stride()) {
        float sum = 0.0f;
        for (unsigned int i = part % PARTS; i < N_STATES; i += PARTS) {
            sum += part < PARTS ? deaths[i] : incomes[i];
        }
        parts[part] = sum;
    }
    warp_sync();
    if (warp_first() == 0) {
        float deaths_2 = 0.0f;
        float income = 0.0f;
        for (unsigned int part = 0u; part < PARTS; ++part) {
            deaths_2 += parts[part];
            income += parts[PARTS + part];
        }
        *state.timestep = t;
        *state.subsidy_level = subsidy;
        reward_planner(params, deaths_2, income - level * params.max_subsidy_cost, out);
    }
}

// The planner sees all levels of stringency, what all see, and the rest of all states.
__device__ inline void planner(WarpSlice<const float> seen, unsigned int n, WarpSlice<float> out) {
    auto element = [&](unsigned int unused, unsigned int at) -> float {
        unsigned int rest = at < N_STATES ? at : at - n;
        bool of_all = (at >= N_STATES) & (at < N_STATES + n);
        return seen[of_all ? COMMON_AT + at - N_STATES : rest];
    };
    warp_team_fill(out.at, 1u, OWN * N_STATES + n, element);
}

// Governors see their stringency, what all see, their number one-hot, and the rest.
__device__ inline void governors(WarpSlice<const float> seen, unsigned int n,
                                 WarpSlice<float> out) {
    unsigned int rest = 1u + n + N_STATES;
    warp_sync();
    auto element = [&](unsigned int i, unsigned int column) -> float {
        unsigned int number = column == 1u + n + i ? ONE_AT : ZERO_AT;
        unsigned int common = column <= n ? COMMON_AT + column - 1u : number;
        unsigned int own = column < rest ? 0u : column - rest + 1u;
        return seen[(column > 0u) & (column < rest) ? common : own * N_STATES + i];
    };
    warp_team_fill(out.at, N_STATES, rest + OWN - 1u, element);
}

// What everyone sees, in the order of the keys.
__device__ inline void common_numbers(const Params& params, const State& state,
                                      WarpSlice<float> seen) {
    int t = *state.timestep;
    int interval = params.subsidy_interval;
    int next = t + 1;
    int first = params.first_delivery;
    float period = (float)params.delivery_interval;
    float days;
    if (next <= first) {
        float days_2 = (float)(first - next) / period;
        days = days_2 < 1.0f ? days_2 : 1.0f;
    } else {
        days = (float)(params.delivery_interval - next % params.delivery_interval);
    }
    seen[COMMON_AT] = (float)*state.subsidy_level / (float)params.num_subsidy_levels;
    seen[COMMON_AT + 1u] = (float)(interval - t % interval) / (float)interval;
    seen[COMMON_AT + 2u] = next < first ? 0.0f : params.vaccination_rate;
    unsigned int at = COMMON_AT + (params.observe_rate == 1 ? 3u : 2u);
    seen[at] = days / period;
    seen[at + 1u] = (float)t / (float)params.episode_length;
    seen[ZERO_AT] = 0.0f;
    seen[ONE_AT] = 1.0f;
}

// What is seen of one state: a row of all states for each number.
__device__ inline void own_numbers(const Env& env, const State& state, WarpSlice<float> own,
                                   int lagged, unsigned int i) {
    float inverse = env.inverse_population[i];
    own[i] = (float)state.stringency_level[i] / (float)N_LEVELS;
    own[N_STATES + i] = state.postsubsidy_productivity[i] * env.inverse_max_production[i];
    own[2u * N_STATES + i] = state.susceptible[i] * inverse;
    own[3u * N_STATES + i] = state.infected[i] * inverse;
    own[4u * N_STATES + i] = state.recovered[i] * inverse;
    own[5u * N_STATES + i] = state.deaths[i] * inverse;
    own[6u * N_STATES + i] = state.vaccinated[i] * inverse;
    own[7u * N_STATES + i] = state.unemployed[i] * inverse;
    own[8u * N_STATES + i] = (float)lagged / (float)N_LEVELS;
}

// Doing nothing is always allowed; anything else when the time has come, or when data decide
// anyway.
__device__ inline void masks(const Params& params, const State& state, Observation& out) {
    int t = *state.timestep;
    bool all = params.use_real_world_policies == 1;
    auto element = [&](unsigned int i, unsigned int action) -> unsigned char {
        return (unsigned char)(all | (t >= state.action_in_cooldown_until[i]) | (action == 0u));
    };
    warp_team_fill(out.action_mask[GOVERNOR], N_STATES, N_LEVELS + 1u, element);
    bool turn = all | (t % params.subsidy_interval == 0);
    unsigned int n = (unsigned int)params.num_subsidy_levels + 1u;
    auto element_2 = [&](unsigned int unused, unsigned int action) -> unsigned char {
        return (unsigned char)(turn | (action == 0u));
    };
    warp_team_fill(out.action_mask[PLANNER], 1u, n, element_2);
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    unsigned int n = env.params.observe_rate == 1 ? COMMON : COMMON - 1u;
    WARP_SHARED(float, seen, 466u);
    if (warp_first() == 0) {
        common_numbers(env.params, state, warp_slice(seen, 466u));
    }
    int day = *state.timestep - env.params.stringency_lag + 1;
    unsigned int word = word_of(state, day);
    warp_sync();
    for (unsigned int i = warp_first(); i < N_STATES; i += warp_stride()) {
        int lagged = level_of(env, state, day, word, i);
        own_numbers(env, state, warp_slice(seen, 466u), lagged, i);
    }
    masks(env.params, state, out);
    governors(warp_slice(seen, 466u), n, warp_slice(out.obs[GOVERNOR], WARP_LEN_obs_0));
    planner(warp_slice(seen, 466u), n, warp_slice(out.obs[PLANNER], WARP_LEN_obs_1));
}
