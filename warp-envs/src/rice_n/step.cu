// Made from rice_n/step.rs and rice_n/observe.rs by warp translate; change those files.
// RICE-N's body: start, negotiation and activity. Pairs of regions are numbered 27 x first + second.
// RICE-N: what a region sees and may do.

static constexpr unsigned int N_REGIONS = 27u; // Regions.
static constexpr unsigned int N_PAIRS = N_REGIONS * N_REGIONS; // Pairs of regions.
static constexpr unsigned int N_ACTIVITIES = 20u; // Activity steps of an episode.
// Heads of savings, mitigation, export share, tariffs and imports.
static constexpr unsigned int N_HEADS = 3u + 2u * N_REGIONS;
// Heads of promises, requests and answers.
static constexpr unsigned int N_NEGOTIATED_HEADS = 3u * N_REGIONS;
static constexpr unsigned int WIDTH = 1043u; // Numbers that a region sees.
static constexpr unsigned int NEGOTIATED_WIDTH = 1207u; // With negotiation.
static constexpr int PROPOSAL = 1; // Stages of negotiation; any other is activity.
static constexpr int EVALUATION = 2;
static constexpr unsigned int SAVINGS = 0u; // Heads.
static constexpr unsigned int MITIGATION = 1u;
static constexpr unsigned int EXPORT = 2u;
static constexpr unsigned int TARIFFS = 3u;
static constexpr unsigned int IMPORTS = TARIFFS + N_REGIONS;
static constexpr unsigned int PROPOSALS = N_HEADS;
static constexpr unsigned int ANSWERS = PROPOSALS + 2u * N_REGIONS;
static constexpr float YEARS = 5.0f; // Years of an activity step.
static constexpr float REMAINS = 0.59049f; // The part of capital that a step leaves: 0.9^5.
// Output: exponent of capital; exponent of mitigation's cost; damage per square of warmth.
static constexpr float CAPITAL_SHARE = 0.3f;
static constexpr float MITIGATION_EXPONENT = 2.6f;
static constexpr float DAMAGE = 0.00236f;
// What a balance grows by in a step, and debt at which nothing is imported, per first capital.
static constexpr float INTEREST = 1.1f;
static constexpr float DEBT = 10.0f;
// Weight of a foreign good's root beside a domestic one's of 1/2.
static constexpr float FOREIGN = 0.5f / 26.0f;
static constexpr float UTILITY_EXPONENT = -0.45f; // 1 - elasticity of utility.
// Climate: forcing per e-fold of carbon (3.6813 per doubling), the carbon before industry, and
// warming per forcing.
static constexpr float FORCING = 5.310993f;
static constexpr float FIRST_CARBON = 588.0f;
static constexpr float WARMING = 0.1005f;
static constexpr float CARBON = 1.36388f; // Carbon per emissions.
// How warmth and carbon move in a step: into the first from each, and so on.
__device__ static const float HEAT_FLOW[4] = {0.8718f, 0.0088f, 0.025f, 0.975f};
__device__ static const float CARBON_FLOW[9] = {0.88f, 0.196f, 0.0f, 0.12f, 0.797f, 0.001465f, 0.0f,
    0.007f, 0.99853488f};
// Numbers that all regions see alike: of the world (one more with negotiation), of each region,
// tariffs.
static constexpr unsigned int N_WORLD = 8u;
static constexpr unsigned int N_PUBLIC_ROWS = 10u;
static constexpr unsigned int N_SHARED = N_WORLD + N_PUBLIC_ROWS * N_REGIONS + N_PAIRS;
static constexpr unsigned int N_SHARED_NEGOTIATED = N_SHARED + 1u;
// Numbers of a region that it alone sees, the least mitigation last.
static constexpr unsigned int N_PRIVATE = 10u;

__device__ inline void reset(const Env& env, State& state, WarpDraw&) {
    const Env& tables = env;
    for (unsigned int i = warp_first(); i < N_REGIONS; i += warp_stride()) {
        state.capital[i] = tables.start_capital[i];
        state.labor[i] = tables.start_labor[i];
        state.production_factor[i] = tables.start_technology[i];
        state.intensity[i] = tables.start_intensity[i];
        state.current_balance[i] = 0.0f;
        state.production[i] = 0.0f;
        state.gross_output[i] = 0.0f;
        state.investment[i] = 0.0f;
        state.consumption[i] = 0.0f;
        state.savings[i] = 0.0f;
        state.mitigation_rate[i] = 0.0f;
        state.max_export_limit[i] = 0.0f;
        state.mitigation_cost[i] = 0.0f;
        state.abatement_cost[i] = 0.0f;
        state.utility[i] = 0.0f;
        state.social_welfare[i] = 0.0f;
        state.reward[i] = 0.0f;
        state.minimum_mitigation_rate[i] = 0.0f;
    }
    for (unsigned int pair = warp_first(); pair < N_PAIRS; pair += warp_stride()) {
        state.tariffs[pair] = 0.0f;
    }
    for (unsigned int pair = warp_first(); pair < n_negotiators * n_regions; pair +=
         warp_stride()) {
        state.promised_mitigation_rate[pair] = 0.0f;
        state.requested_mitigation_rate[pair] = 0.0f;
        state.proposal_decisions[pair] = 0.0f;
    }
    if (warp_first() == 0) {
        state.global_temperature[0] = 0.85f;
        state.global_temperature[1] = 0.0068f;
        state.global_carbon_mass[0] = 851.0f;
        state.global_carbon_mass[1] = 460.0f;
        state.global_carbon_mass[2] = 1740.0f;
        *state.global_exogenous_emissions = 0.0f;
        *state.global_land_emissions = 0.0f;
        *state.timestep = 0;
        *state.activity_timestep = 0;
        *state.capital_depreciation = 0.0f;
        *state.damages = 0.0f;
    }
}

// What is decided in a step: proposals, answers, or (0) activity.
__device__ inline int stage_of(const Params& params, int timestep) {
    return params.negotiation == 1 ? timestep % 3 : 0;
}

// Heads of a region.
__device__ inline unsigned int heads(const Params& params) {
    return params.negotiation == 1 ? N_HEADS + N_NEGOTIATED_HEADS : N_HEADS;
}

// The level that a region chose of a head, as a part of 1.
__device__ inline float chosen(const Params& params, WarpSlice<const int> actions,
                               unsigned int region, unsigned int head) {
    return (float)actions[region * heads(params) + head] / (float)params.levels;
}

__device__ inline void propose(const Params& params, State& state, WarpSlice<const int> actions) {
    for (unsigned int pair = warp_first(); pair < N_PAIRS; pair += warp_stride()) {
        unsigned int i = pair / N_REGIONS;
        unsigned int head = PROPOSALS + 2u * (pair % N_REGIONS);
        state.promised_mitigation_rate[pair] = chosen(params, actions, i, head);
        state.requested_mitigation_rate[pair] = chosen(params, actions, i, head + 1u);
    }
    for (unsigned int i = warp_first(); i < N_REGIONS; i += warp_stride()) {
        state.reward[i] = 0.0f;
    }
}

__device__ inline void evaluate(const Params& params, State& state, WarpSlice<const int> actions) {
    unsigned int heads_2 = heads(params);
    for (unsigned int pair = warp_first(); pair < N_PAIRS; pair += warp_stride()) {
        unsigned int i = pair / N_REGIONS;
        unsigned int j = pair % N_REGIONS;
        float answer = (float)actions[i * heads_2 + ANSWERS + j];
        state.proposal_decisions[pair] = i == j ? 0.0f : answer;
    }
    warp_sync();
    for (unsigned int i = warp_first(); i < N_REGIONS; i += warp_stride()) {
        float most = 0.0f;
        for (unsigned int j = 0u; j < N_REGIONS; ++j) {
            unsigned int given = i * N_REGIONS + j;
            unsigned int taken = j * N_REGIONS + i;
            float promised = state.promised_mitigation_rate[given] *
                state.proposal_decisions[taken];
            float accepted = state.requested_mitigation_rate[taken] *
                state.proposal_decisions[given];
            most = promised > most ? promised : most;
            most = accepted > most ? accepted : most;
        }
        state.minimum_mitigation_rate[i] = most;
        state.reward[i] = 0.0f;
    }
}

// `x` to the power `exponent`; 0 for 0 where the exponent is positive.
__device__ inline float power(float x, float exponent) {
    return warp_exp(exponent * warp_ln(x));
}

// What each region decides, produces and invests.
__device__ inline void produce(const Params& params, const Env& tables, State& state,
                               WarpSlice<const int> actions, unsigned int t, float damages) {
    for (unsigned int i = warp_first(); i < N_REGIONS; i += warp_stride()) {
        float savings = chosen(params, actions, i, SAVINGS);
        float mitigation = chosen(params, actions, i, MITIGATION);
        float capital = power(state.capital[i], CAPITAL_SHARE);
        float labor = power(state.labor[i] / 1000.0f, 1.0f - CAPITAL_SHARE);
        float production = state.production_factor[i] * capital * labor;
        float cost = tables.mitigation_price[t] * state.intensity[i];
        float abatement = cost * power(mitigation, MITIGATION_EXPONENT);
        float output = damages * (1.0f - abatement) * production;
        state.savings[i] = savings;
        state.mitigation_rate[i] = mitigation;
        state.max_export_limit[i] = chosen(params, actions, i, EXPORT);
        state.mitigation_cost[i] = cost;
        state.abatement_cost[i] = abatement;
        state.production[i] = production;
        state.gross_output[i] = output;
        state.investment[i] = savings * output;
        state.current_balance[i] *= INTEREST;
    }
}

// Who imports how much from whom, and what each region exports in all.
__device__ inline void trade(const Params& params, const Env& tables, const State& state,
                             WarpSlice<const int> actions, WarpSlice<float> imports,
                             WarpSlice<float> exports) {
    warp_sync();
    for (unsigned int pair = warp_first(); pair < N_PAIRS; pair += warp_stride()) {
        unsigned int i = pair / N_REGIONS;
        unsigned int j = pair % N_REGIONS;
        float wanted = chosen(params, actions, i, IMPORTS + j) * state.gross_output[i];
        imports[pair] = i == j ? 0.0f : wanted;
    }
    // The part of its wishes that a region can pay for.
    WARP_SHARED(float, paid, 27u);
    warp_sync();
    for (unsigned int i = warp_first(); i < N_REGIONS; i += warp_stride()) {
        float total = 0.0f;
        for (unsigned int j = 0u; j < N_REGIONS; ++j) {
            total += imports[i * N_REGIONS + j];
        }
        float output = state.gross_output[i];
        float scale = total > output ? output / total : 1.0f;
        float debt = DEBT * state.current_balance[i] / tables.start_capital[i];
        debt = debt < -1.0f ? -1.0f : debt;
        debt = debt > 0.0f ? 0.0f : debt;
        paid[i] = scale * (1.0f + debt);
    }
    // The part of what is wanted from a region that it can deliver.
    WARP_SHARED(float, delivered, 27u);
    warp_sync();
    for (unsigned int j = warp_first(); j < N_REGIONS; j += warp_stride()) {
        float total = 0.0f;
        for (unsigned int i = 0u; i < N_REGIONS; ++i) {
            total += imports[i * N_REGIONS + j] * paid[i];
        }
        float output = state.gross_output[j];
        float spare = output - state.investment[j];
        float allowed = state.max_export_limit[j] * output;
        float most = allowed <= spare ? allowed : spare;
        float scale = total > most ? most / total : 1.0f;
        delivered[j] = scale;
        exports[j] = total * scale;
    }
    warp_sync();
    for (unsigned int pair = warp_first(); pair < N_PAIRS; pair += warp_stride()) {
        imports[pair] = imports[pair] * paid[pair / N_REGIONS] * delivered[pair % N_REGIONS];
    }
}

// Capital, labour, technology and intensity of the next step.
__device__ inline void grow(const Env& tables, State& state, unsigned int t) {
    for (unsigned int i = warp_first(); i < N_REGIONS; i += warp_stride()) {
        state.capital[i] = REMAINS * state.capital[i] + YEARS * state.investment[i];
        float labor = state.labor[i];
        float pull = (1.0f + tables.labor_limit[i]) / (1.0f + labor);
        state.labor[i] = labor * power(pull, tables.labor_growth[i]);
        state.production_factor[i] *= tables.technology_factor[t * N_REGIONS + i];
        state.intensity[i] *= tables.intensity_factor[t];
    }
}

// Moves warmth and carbon by a step; for one thread.
__device__ inline void warm(const Env& tables, State& state, unsigned int t, float emitted) {
    float forcing = tables.forcing[t];
    float air = state.global_temperature[0];
    float ocean = state.global_temperature[1];
    float m = state.global_carbon_mass[0];
    float n = state.global_carbon_mass[1];
    float o = state.global_carbon_mass[2];
    float heat = WARMING * (FORCING * warp_ln(m / FIRST_CARBON) + forcing);
    state.global_temperature[0] = HEAT_FLOW[0] * air + HEAT_FLOW[1] * ocean + heat;
    state.global_temperature[1] = HEAT_FLOW[2] * air + HEAT_FLOW[3] * ocean;
#pragma unroll
    for (unsigned int layer = 0u; layer < 3u; ++layer) {
        float stays = CARBON_FLOW[3u * layer] * m + CARBON_FLOW[3u * layer + 1u] * n +
            CARBON_FLOW[3u * layer + 2u] * o;
        state.global_carbon_mass[layer] = stays + (layer == 0u ? CARBON * emitted : 0.0f);
    }
    *state.global_exogenous_emissions = forcing;
    *state.global_land_emissions = tables.land_emissions[t];
}

// Five years: production, trade, utility, climate.
__device__ inline void act(const Params& params, const Env& tables, State& state,
                           WarpSlice<const int> actions, StepOut& out) {
    // Steps since the first activity; the tables end with the episode.
    int past = *state.activity_timestep;
    unsigned int t = (unsigned int)warp_clamp(past, 0, (int)N_ACTIVITIES - 1);
    float warmth = state.global_temperature[0];
    float damages = 1.0f / (1.0f + DAMAGE * warmth * warmth);
    produce(params, tables, state, actions, t, damages);
    // What each region imports from each, then the roots of what is left after tariffs.
    WARP_SHARED(float, imports, 729u);
    WARP_SHARED(float, roots, 729u);
    WARP_SHARED(float, exports, 27u);
    trade(params, tables, state, actions, warp_slice(imports, 729u), warp_slice(exports, 27u));
    for (unsigned int pair = warp_first(); pair < N_PAIRS; pair += warp_stride()) {
        roots[pair] = warp_sqrt(imports[pair] * (1.0f - state.tariffs[pair]));
        unsigned int head = TARIFFS + pair % N_REGIONS;
        state.tariffs[pair] = chosen(params, actions, pair / N_REGIONS, head);
    }
    WARP_SHARED(float, emissions, 27u);
    warp_sync();
    for (unsigned int i = warp_first(); i < N_REGIONS; i += warp_stride()) {
        float imported = 0.0f;
        float foreign = 0.0f;
        for (unsigned int j = 0u; j < N_REGIONS; ++j) {
            imported += imports[i * N_REGIONS + j];
            foreign += FOREIGN * roots[i * N_REGIONS + j];
        }
        float kept = state.gross_output[i] - state.investment[i] - exports[i];
        kept = kept > 0.0f ? kept : 0.0f;
        float root = 0.5f * warp_sqrt(kept) + foreign;
        float consumption = root * root;
        float people = state.labor[i] / 1000.0f;
        float utility = people * (power(consumption / people + 1.0f, UTILITY_EXPONENT) - 1.0f) /
            UTILITY_EXPONENT;
        state.consumption[i] = consumption;
        state.utility[i] = utility;
        state.social_welfare[i] = utility * tables.discount[t];
        state.reward[i] = utility;
        out.reward[0][i] = utility;
        state.current_balance[i] += YEARS * (exports[i] - imported);
        emissions[i] = state.intensity[i] * (1.0f - state.mitigation_rate[i]) * state.production[i];
    }
    grow(tables, state, t);
    warp_sync();
    WARP_SHARED(float, parts, 9);
    for (unsigned int part = warp_first(); part < 9u; part += warp_stride()) {
        float sum = 0.0f;
        for (unsigned int i = part; i < N_REGIONS; i += 9u) {
            sum += emissions[i] + tables.land_emissions[t];
        }
        parts[part] = sum;
    }
    warp_sync();
    float total = 0.0f;
    for (unsigned int part = 0u; part < 9u; ++part) total += parts[part];
    float emitted = total;
    WARP_SHARED(float, parts_2, 9);
    for (unsigned int part_2 = warp_first(); part_2 < 9u; part_2 += warp_stride()) {
        float sum_2 = 0.0f;
        for (unsigned int i = part_2; i < N_REGIONS; i += 9u) {
            sum_2 += state.utility[i];
        }
        parts_2[part_2] = sum_2;
    }
    warp_sync();
    float total_2 = 0.0f;
    for (unsigned int part_2 = 0u; part_2 < 9u; ++part_2) total_2 += parts_2[part_2];
    float utility = total_2;
    if (warp_first() == 0) {
        *state.damages = damages;
        *state.activity_timestep = past + 1;
        *state.capital_depreciation = REMAINS;
        warm(tables, state, t, emitted);
        out.statistics[0] += utility;
        out.statistics[1] = state.global_temperature[0];
        out.statistics[2] = state.global_carbon_mass[0];
    }
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw&,
                            StepOut& out) {
    const Params& params = env.params;
    const Env& tables = env;
    int timestep = *state.timestep + 1;
    int stage = stage_of(params, timestep);
    if (stage == PROPOSAL) {
        propose(params, state, warp_slice(actions.discrete[0], WARP_LEN_discrete_0));
    } else if (stage == EVALUATION) {
        evaluate(params, state, warp_slice(actions.discrete[0], WARP_LEN_discrete_0));
    } else {
        act(params, tables, state, warp_slice(actions.discrete[0], WARP_LEN_discrete_0), out);
    }
    warp_sync();
    if (warp_first() == 0) {
        *state.timestep = timestep;
    }
}

// What a region sees of itself and the world; any number beyond that.
__device__ inline float seen(unsigned int row, unsigned int column, unsigned int n_shared,
                             WarpSlice<const float> shared, WarpSlice<const float> private_) {
    if (column < N_REGIONS) {
        return column == row ? 1.0f : 0.0f;
    } else if (column < N_REGIONS + n_shared) {
        return shared[column - N_REGIONS];
    } else if (column < N_REGIONS + n_shared + N_PRIVATE) {
        return private_[row * N_PRIVATE + column - N_REGIONS - n_shared];
    } else {
        return 0.0f;
    }
}

// What a region sees of negotiations: its own row, then its own column, of promises, requests,
// answers.
__device__ inline float deal(const State& state, unsigned int row, unsigned int column) {
    unsigned int kind = column / N_REGIONS;
    unsigned int other = column % N_REGIONS;
    unsigned int pair = kind % 2u == 1u ? other * N_REGIONS + row : row * N_REGIONS + other;
    return kind < 2u ? state.promised_mitigation_rate[pair] : kind < 4u ?
        state.requested_mitigation_rate[pair] : state.proposal_decisions[pair];
}

// All levels are allowed but those of mitigation below what was agreed.
__device__ inline void masks(const Params& params, const State& state, Observation& out) {
    int levels = params.levels;
    WARP_SHARED(int, least, 27u);
    for (unsigned int i = warp_first(); i < N_REGIONS; i += warp_stride()) {
        least[i] = warp_to_int((state.minimum_mitigation_rate[i] * (float)levels + 0.5f));
    }
    unsigned int own = N_HEADS * (unsigned int)levels;
    unsigned int negotiated = 2u * N_REGIONS * (unsigned int)levels + 2u * N_REGIONS;
    unsigned int width = params.negotiation == 1 ? own + negotiated : own;
    warp_sync();
    auto element = [&](unsigned int row, unsigned int column) -> unsigned char {
        // The second head is mitigation.
        int level = (int)column - levels;
        return (unsigned char)(level < 0 || level >= levels || level >= least[row]);
    };
    warp_team_fill(out.action_mask[0], N_REGIONS, width, element);
}

__device__ inline void observe(const Env& env, const State& state, Observation& out) {
    const Params& params = env.params;
    unsigned int negotiation = (unsigned int)params.negotiation;
    WARP_SHARED(float, shared, 1008u);
    WARP_SHARED(float, private_, 270u);
    if (warp_first() == 0) {
        shared[0] = state.global_temperature[0] / 10.0f;
        shared[1] = state.global_temperature[1] / 10.0f;
        shared[2] = state.global_carbon_mass[0] / 10000.0f;
        shared[3] = state.global_carbon_mass[1] / 10000.0f;
        shared[4] = state.global_carbon_mass[2] / 10000.0f;
        shared[5] = *state.global_exogenous_emissions;
        shared[6] = *state.global_land_emissions;
        shared[7] = (float)*state.timestep / 100.0f;
        if (params.negotiation == 1) {
            shared[8] = (float)stage_of(params, *state.timestep);
        }
    }
    warp_sync();
    for (unsigned int i = warp_first(); i < N_REGIONS; i += warp_stride()) {
        unsigned int first = N_WORLD + negotiation + i;
        shared[first] = state.capital[i] / 10000.0f;
        shared[first + N_REGIONS] = *state.capital_depreciation;
        shared[first + 2u * N_REGIONS] = state.labor[i] / 10000.0f;
        shared[first + 3u * N_REGIONS] = state.gross_output[i] / 1000.0f;
        shared[first + 4u * N_REGIONS] = state.investment[i] / 1000.0f;
        shared[first + 5u * N_REGIONS] = state.consumption[i] / 1000.0f;
        shared[first + 6u * N_REGIONS] = state.savings[i];
        shared[first + 7u * N_REGIONS] = state.mitigation_rate[i];
        shared[first + 8u * N_REGIONS] = state.max_export_limit[i];
        shared[first + 9u * N_REGIONS] = state.current_balance[i] / 1000.0f;
        unsigned int own = N_PRIVATE * i;
        private_[own] = state.production_factor[i] / 100.0f;
        private_[own + 1u] = state.intensity[i] / 0.1f;
        private_[own + 2u] = state.mitigation_cost[i];
        private_[own + 3u] = *state.damages;
        private_[own + 4u] = state.abatement_cost[i];
        private_[own + 5u] = state.production[i] / 1000.0f;
        private_[own + 6u] = state.utility[i];
        private_[own + 7u] = state.social_welfare[i];
        private_[own + 8u] = state.reward[i];
        private_[own + 9u] = state.minimum_mitigation_rate[i];
    }
    unsigned int first = N_WORLD + negotiation + N_PUBLIC_ROWS * N_REGIONS;
    warp_sync();
    for (unsigned int pair = warp_first(); pair < N_PAIRS; pair += warp_stride()) {
        shared[first + pair] = state.tariffs[pair] / 100.0f;
    }
    // Two calls, so that each has a width that is known when kernels are compiled.
    if (params.negotiation == 1) {
        warp_sync();
        auto element = [&](unsigned int row, unsigned int column) -> float {
            float common = seen(row, column, N_SHARED_NEGOTIATED, warp_slice(shared, 1008u),
                                warp_slice(private_, 270u));
            constexpr unsigned int deals = N_REGIONS + N_SHARED_NEGOTIATED + N_PRIVATE;
            return column < deals ? common : deal(state, row, column - deals);
        };
        warp_team_fill(out.obs[0], N_REGIONS, NEGOTIATED_WIDTH, element);
    } else {
        warp_sync();
        auto element = [&](unsigned int row, unsigned int column) -> float {
            return seen(row, column, N_SHARED, warp_slice(shared, 1008u),
                        warp_slice(private_, 270u));
        };
        warp_team_fill(out.obs[0], N_REGIONS, WIDTH, element);
    }
    masks(params, state, out);
}
