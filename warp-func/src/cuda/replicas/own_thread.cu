// Moves replicas that go their own way: one thread per replica.

// Begins an episode; what is seen of it is written.
__device__ inline void warp_begin_alone(const Env& env, const WarpRun& alone, const WarpArrays& a,
                                        unsigned int r, unsigned int event, WarpReplica& replica) {
    warp_begin_replica(env, alone, a, r, event, replica);
    WarpSeen seen;
    warp_see(env, replica.state, seen);
    warp_write_seen(a, r, seen);
}

__device__ inline void warp_no_step(const WarpArrays& a, unsigned int r) {
#pragma unroll
    for (int g = 0; g < N_GROUPS; ++g) {
        for (int i = 0; i < warp_agents(g); ++i) {
            a.reward[g][r * warp_agents(g) + i] = 0.0f;
            if (warp_mortal(g)) a.agent_terminated[g][r * warp_agents(g) + i] = 0;
        }
    }
    a.terminated[r] = 0;
    a.truncated[r] = 0;
}

extern "C" __global__ void warp_move(WarpTables tables, WarpArrays a, WarpRun run, OwnArgs own) {
    unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= own.n || warp_refused(own)) return;
    unsigned int r = warp_chosen(own, at), event = own.event[r];
    Env env = warp_env(tables);
    WarpRun alone = warp_alone(run, own, r);
    WarpReplica replica = warp_load_replica(a, r);
    unsigned int phase = WARP_RUNNING;
    if (own.begin || own.phase[r] != WARP_RUNNING) {
        warp_begin_alone(env, alone, a, r, event++, replica);
        warp_no_step(a, r);
    } else {
        warp_advance(env, alone, a, r, event++, warp_actions(a, r), replica);
        bool over = a.terminated[r] || a.truncated[r];
        if (over) phase = WARP_ENDED;
        if (over && own.auto_reset == WARP_SAME_STEP) {
            own.final_length[r] = replica.length;
            warp_begin_alone(env, alone, a, r, event++, replica);
            phase = WARP_RUNNING;
        }
    }
    warp_save_replica(a, r, replica);
    own.event[r] = event;
    own.phase[r] = (unsigned char)phase;
}
