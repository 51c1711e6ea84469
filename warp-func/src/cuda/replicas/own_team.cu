// Moves replicas that go their own way: a team of threads per replica.

// Begins an episode; what is seen of it is written.
__device__ inline void warp_begin_alone(const Env& env, const WarpRun& alone, const WarpArrays& a,
                                        unsigned int r, unsigned int event, State& state,
                                        const WarpPlace& place) {
    warp_team_begin(env, alone, a, r, event, state, place);
    Observation seen = warp_place(a, r, false);
    observe(env, state, seen);
    warp_sync();
}

__device__ inline void warp_no_step(const WarpArrays& a, unsigned int r) {
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        for (int i = warp_first(); i < warp_agents(g); i += warp_stride()) {
            a.reward[g][r * warp_agents(g) + i] = 0.0f;
            if (warp_mortal(g)) a.agent_terminated[g][r * warp_agents(g) + i] = 0;
        }
    }
    if (warp_first() != 0) return;
    a.terminated[r] = 0;
    a.truncated[r] = 0;
}

extern "C" __global__ void WARP_TEAM_BOUNDS warp_move(WarpTables tables, WarpArrays a, WarpRun run,
                                                      OwnArgs own) {
    unsigned int at = warp_replica();
    if (at >= own.n || warp_refused(own)) return;
    unsigned int r = warp_chosen(own, at), event = own.event[r], phase = own.phase[r];
    Env env = warp_env(tables);
    WarpRun alone = warp_alone(run, own, r);
    State state = warp_team_state(a, r);
    WarpPlace place = warp_team_place(a, r);
    warp_team_load(a, r, state);
    warp_load_place(a, r, place);
    warp_load_actions(a, r, place);
    warp_sync();
    bool begins = own.begin || phase != WARP_RUNNING;
    bool ended = false;
    if (!begins) {
        warp_team_advance(env, alone, a, r, event++, state, place);
        warp_sync();
        ended = place.episode->ends != 0;
        if (ended && warp_first() == 0) own.final_length[r] = place.episode->length;
        warp_sync();
    }
    // The text has one place that begins an episode: bodies can be long.
    bool follows = ended && own.auto_reset == WARP_SAME_STEP;
    if (begins || follows) warp_begin_alone(env, alone, a, r, event++, state, place);
    if (begins) warp_no_step(a, r);
    warp_team_save(a, r, state);
    warp_save_place(a, r, place);
    if (warp_first() == 0) {
        own.event[r] = event;
        own.phase[r] = (unsigned char)(ended && !follows ? WARP_ENDED : WARP_RUNNING);
    }
}
