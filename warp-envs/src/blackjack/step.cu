// Made from blackjack/step.rs by warp translate; change that file.
// Blackjack's body: a draw is a card.

static constexpr int MOST = 21; // What a hand counts at most.
static constexpr int DEALER_STANDS = 17; // From here on the dealer takes no card.

// A card: 1 (the ace) to 9, or 10, of which there are four kinds.
__device__ inline int card(WarpDraw& draw) {
    int kind = (int)warp_draw_below(&draw, 13u) + 1;
    return warp_min(kind, 10);
}

__device__ inline void reset(const Env&, State& state, WarpDraw& draw) {
    int first = card(draw);
    int second = card(draw);
    state.dealer_card = first;
    state.dealer_sum = first + second;
    state.dealer_ace = (int)(first == 1 || second == 1);
    first = card(draw);
    second = card(draw);
    state.player_sum = first + second;
    state.player_ace = (int)(first == 1 || second == 1);
    state.player_cards = 2;
}

// Whether an ace counts 11 in a hand of this sum.
__device__ inline bool usable(int sum, int ace) {
    return ace == 1 && sum + 10 <= MOST;
}

// What a hand counts.
__device__ inline int count(int sum, int ace) {
    return usable(sum, ace) ? sum + 10 : sum;
}

__device__ inline void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
                            StepOut& out) {
    const Params& params = env.params;
    if (actions.discrete[0][0] == 1) {
        int drawn = card(draw);
        state.player_sum += drawn;
        state.player_ace |= (int)(drawn == 1);
        state.player_cards += 1;
        out.terminated = state.player_sum > MOST;
        out.reward[0][0] = out.terminated ? -1.0f : 0.0f;
    } else {
        // Of two cards only an ace and a ten count 21.
        int player = count(state.player_sum, state.player_ace);
        bool natural = state.player_cards == 2 && player == MOST;
        bool dealer_natural = count(state.dealer_sum, state.dealer_ace) == MOST;
        while (count(state.dealer_sum, state.dealer_ace) < DEALER_STANDS) {
            int drawn = card(draw);
            state.dealer_sum += drawn;
            state.dealer_ace |= (int)(drawn == 1);
        }
        int dealer = count(state.dealer_sum, state.dealer_ace);
        dealer = dealer > MOST ? 0 : dealer;
        bool wins = player > dealer;
        float reward = (float)(int)wins - (float)(int)(player < dealer);
        if (params.sab == 1) {
            reward = natural && !dealer_natural ? 1.0f : reward;
        } else if (params.natural == 1) {
            reward = natural && wins ? 1.5f : reward;
        }
        out.terminated = true;
        out.reward[0][0] = reward;
    }
}

__device__ inline void observe(const Env&, const State& state, Observation& out) {
    out.obs[0][0] = (float)count(state.player_sum, state.player_ace);
    out.obs[0][1] = (float)state.dealer_card;
    out.obs[0][2] = usable(state.player_sum, state.player_ace) ? 1.0f : 0.0f;
}
