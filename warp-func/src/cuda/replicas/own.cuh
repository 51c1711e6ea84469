// What replicas that go their own way need beside the executor's kernels, whatever the layout of threads:
// draws of their own, actions that others hold, and what is said of those that are refused. With
// own_thread.cu or own_team.cu the twin of replicas/runner.rs.

// As runner.rs counts.
#define WARP_NEW 0u
#define WARP_RUNNING 1u
#define WARP_ENDED 2u
// As the options say.
#define WARP_SAME_STEP 1u
#define WARP_DISABLED 2u

// What is wrong with what was asked for.
#define WARP_BAD_ACTION 1u
#define WARP_HAS_ENDED 2u

// A run in which replica `r` draws as the first of its seed does.
__device__ inline WarpRun warp_alone(const WarpRun& run, const OwnArgs& own, unsigned int r) {
    WarpRun alone = run;
    alone.seed = (unsigned long long)own.seed_high[r] << 32 | own.seed_low[r];
    // Draws are named by `first_replica + r`.
    alone.first_replica = 0u - r;
    return alone;
}

__device__ inline unsigned int warp_chosen(const OwnArgs& own, unsigned int at) {
    return own.some ? own.ids[at] : at;
}

// Whether something was refused and nobody has asked yet: then nothing moves.
__device__ inline bool warp_refused(const OwnArgs& own) { return own.trouble[0] != 0u; }

// Notes the first thing that is wrong, for the host to find when it looks next.
__device__ inline void warp_refuse(const OwnArgs& own, unsigned int what, unsigned int r, int g,
                                   unsigned int element, unsigned long long value) {
    if (atomicCAS(own.trouble, 0u, what) != 0u) return;
    own.trouble[1] = r;
    own.trouble[2] = (unsigned int)g;
    own.trouble[3] = element;
    own.trouble[4] = (unsigned int)value;
    own.trouble[5] = (unsigned int)(value >> 32);
    __threadfence_system();
    *(volatile unsigned int*)own.flag = what;
}

// Takes the actions of one group, an element per thread, for the replicas that are to move.
extern "C" __global__ void warp_take_actions(WarpArrays a, OwnArgs own, GivenArgs given) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    int g = (int)given.group;
    unsigned int width = (unsigned int)(warp_agents(g) * warp_action_width(g));
    if (i >= own.n * width || warp_refused(own)) return;
    unsigned int at = i / width, element = i % width, r = warp_chosen(own, at);
    bool ended = own.phase[r] == WARP_ENDED, taken = own.phase[r] == WARP_RUNNING;
    if (own.auto_reset == WARP_DISABLED && ended) {
        warp_refuse(own, WARP_HAS_ENDED, r, g, element, 0u);
        return;
    }
    long long from = warp_given_at(given, at, element);
    unsigned int to = r * width + element;
    if (warp_continuous(g)) {
        float value = warp_real(given, from);
        bool finite = value - value == 0.0f;
        if (!finite && taken)
            warp_refuse(own, WARP_BAD_ACTION, r, g, element, (unsigned int)__float_as_int(value));
        a.continuous[g][to] = finite ? value : 0.0f;
    } else {
        long long value = warp_whole(given, from);
        int head = (int)(element % (unsigned int)warp_action_width(g));
        bool fits = value >= 0 && value < warp_head(g, head);
        if (!fits && taken)
            warp_refuse(own, WARP_BAD_ACTION, r, g, element, (unsigned long long)value);
        a.discrete[g][to] = fits ? (int)value : 0;
    }
}
