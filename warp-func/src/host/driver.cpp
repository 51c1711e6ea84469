// Steps replicas by a CUDA body on the host, as the executor steps them by the Rust body.
//
// Input, in words of 32 bits: seed (two), first replica, tables, then actions for one step after the
// other. Output: every array after the reset and after every step, one word per element. Before this
// text: the body with its declarations, N_ENVS, GROUPS, FIELD_LEN, N_FIELDS, TABLE_LEN, N_TABLES.
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#if WARP_TEAM > 1
#include <thread>
#endif

typedef unsigned int Word;

template <class T>
struct Array {
    int row_len;
    std::vector<T> at;
    explicit Array(int len = 0) : row_len(len), at((size_t)len * N_ENVS) {}
    T* row(int replica) { return at.empty() ? nullptr : at.data() + (size_t)replica * row_len; }
    void fill_row(int replica, T value) {
        for (int i = 0; i < row_len; ++i) row(replica)[i] = value;
    }
    void copy_row(int replica, Array& from) {
        for (int i = 0; i < row_len; ++i) row(replica)[i] = from.row(replica)[i];
    }
    void write() {
        std::vector<Word> words(at.size());
        for (size_t i = 0; i < at.size(); ++i) memcpy(&words[i], &at[i], sizeof(T));
        if (fwrite(words.data(), sizeof(Word), words.size(), stdout) != words.size()) exit(4);
    }
};

// The arrays of one group.
struct Columns {
    Array<float> obs, final_obs, reward, episode_return;
    Array<unsigned char> mask, final_mask, alive, left;
    Array<Word> action;
};

static std::vector<Array<Word>> fields;
static std::vector<std::vector<Word>> tables;
static Columns groups[N_GROUPS];
static Array<unsigned char> terminated(1), truncated(1);
static Array<Word> episode_length(1);
static Array<float> statistic(WARP_N_STATISTICS), final_statistic(WARP_N_STATISTICS);
static Array<float> global_obs(WARP_GLOBAL_WIDTH);
static WarpTables table_pointers;
static unsigned long long seed;
static Word first_replica, run_step;

static bool read_words(Word* to, size_t n) { return fread(to, sizeof(Word), n, stdin) == n; }

static void make_arrays() {
    for (int f = 0; f < N_FIELDS; ++f) fields.push_back(Array<Word>(FIELD_LEN[f]));
    for (int g = 0; g < N_GROUPS; ++g) {
        Group group = GROUPS[g];
        int obs = group.agents * group.obs_width;
        groups[g] = {Array<float>(obs),
                     Array<float>(obs),
                     Array<float>(group.agents),
                     Array<float>(1),
                     Array<unsigned char>(group.agents * group.mask_width),
                     Array<unsigned char>(group.agents * group.mask_width),
                     Array<unsigned char>(group.mortal ? group.agents : 0),
                     Array<unsigned char>(group.mortal ? group.agents : 0),
                     Array<Word>(group.agents * group.action_width)};
    }
}

static void read_start() {
    Word words[3];
    if (!read_words(words, 3)) exit(3);
    seed = ((unsigned long long)words[1] << 32) | words[0];
    first_replica = words[2];
    std::vector<const void*> pointers;
    for (int t = 0; t < N_TABLES; ++t) tables.push_back(std::vector<Word>(TABLE_LEN[t]));
    for (int t = 0; t < N_TABLES; ++t) {
        if (!read_words(tables[t].data(), tables[t].size())) exit(3);
        pointers.push_back(tables[t].data());
    }
    if (N_TABLES > 0) memcpy(&table_pointers, pointers.data(), N_TABLES * sizeof(void*));
}

// The state of one replica, as the body sees it.
struct Replica {
    State state;
    int number;

    explicit Replica(int replica) : number(replica) {
#if WARP_SCALARS
        Word words[N_FIELDS];
        for (int f = 0; f < N_FIELDS; ++f) words[f] = *fields[f].row(replica);
        memcpy(&state, words, sizeof words);
#else
        Word* pointers[N_FIELDS];
        for (int f = 0; f < N_FIELDS; ++f) pointers[f] = fields[f].row(replica);
        memcpy(&state, pointers, sizeof pointers);
#endif
    }

    void save() {
#if WARP_SCALARS
        Word words[N_FIELDS];
        memcpy(words, &state, sizeof words);
        for (int f = 0; f < N_FIELDS; ++f) *fields[f].row(number) = words[f];
#endif
    }

    WarpDraw draw(Word purpose) {
        return warp_draw(seed, first_replica + number, run_step, purpose);
    }
};

static bool leads() { return warp_first() == 0; }

static void observe_replica(const Env& env, int number) {
    Replica replica(number);
    Observation out;
    for (int g = 0; g < N_GROUPS; ++g) {
        out.obs[g] = groups[g].obs.row(number);
        out.action_mask[g] = groups[g].mask.row(number);
    }
    out.global = global_obs.row(number);
    warp_sync();
    observe(env, replica.state, out);
    warp_sync();
}

static void reset_replica(const Env& env, int number) {
    if (leads()) {
        *episode_length.row(number) = 0;
        statistic.fill_row(number, 0.0f);
        for (Columns& group : groups) {
            group.alive.fill_row(number, 1);
            group.episode_return.fill_row(number, 0.0f);
        }
    }
    Replica replica(number);
    WarpDraw draw = replica.draw(WARP_PURPOSE_RESET);
    warp_sync();
    reset(env, replica.state, draw);
    replica.save();
    observe_replica(env, number);
}

// Adds the step's rewards to the episode's return, and turns "was alive before" into "left in this step".
static void account(Columns& group, int number, bool over) {
    // From -0 as Rust's sum: 0 + -0 would be 0.
    float total = -0.0f;
    for (int i = 0; i < group.reward.row_len; ++i) total += group.reward.row(number)[i];
    *group.episode_return.row(number) += total;
    for (int i = 0; i < group.left.row_len; ++i)
        group.left.row(number)[i] &= (over ? 1 : 0) | (1 - group.alive.row(number)[i]);
}

// Sets the flags and keeps what the episode ended with.
static void finish(int number, bool over) {
    Word length = *episode_length.row(number) += 1;
    bool at_limit = length >= WARP_TIME_LIMIT;
    if (WARP_LIMIT_TERMINATES) over = over || at_limit;
    for (Columns& group : groups) account(group, number, over);
    *terminated.row(number) = over;
    *truncated.row(number) = !over && at_limit;
    if (!over && !at_limit) return;
    final_statistic.copy_row(number, statistic);
    for (int g = 0; g < N_GROUPS; ++g) {
        groups[g].final_obs.copy_row(number, groups[g].obs);
        groups[g].final_mask.copy_row(number, groups[g].mask);
    }
}

static void step_replica(const Env& env, int number) {
    Replica replica(number);
    Actions actions;
    StepOut out;
    for (int g = 0; g < N_GROUPS; ++g) {
        Columns& group = groups[g];
        if (leads()) {
            group.reward.fill_row(number, 0.0f);
            group.left.copy_row(number, group.alive);
        }
        actions.discrete[g] = GROUPS[g].continuous ? nullptr : (int*)group.action.row(number);
        actions.continuous[g] = GROUPS[g].continuous ? (float*)group.action.row(number) : nullptr;
        out.reward[g] = group.reward.row(number);
        out.alive[g] = group.alive.row(number);
    }
    out.terminated = false;
    out.statistics = statistic.row(number);
    WarpDraw draw = replica.draw(WARP_PURPOSE_STEP);
    warp_sync();
    step(env, replica.state, actions, draw, out);
    replica.save();
    observe_replica(env, number);
    if (leads()) finish(number, out.terminated);
    warp_sync();
    if (*terminated.row(number) || *truncated.row(number)) reset_replica(env, number);
}

static void write_arrays() {
    for (Array<Word>& field : fields) field.write();
    for (Columns& group : groups) {
        group.obs.write();
        group.final_obs.write();
        group.mask.write();
        group.final_mask.write();
        group.reward.write();
        group.alive.write();
        group.left.write();
        group.episode_return.write();
    }
    terminated.write();
    truncated.write();
    episode_length.write();
    statistic.write();
    final_statistic.write();
    global_obs.write();
    fflush(stdout);
}

static bool read_actions() {
    for (Columns& group : groups) {
        if (!read_words(group.action.at.data(), group.action.at.size())) return false;
    }
    return true;
}

// What every thread of the team does.
static void work(unsigned int thread) {
#if WARP_TEAM > 1
    threadIdx.x = thread;
#endif
    static bool more;
    Env env = warp_env(table_pointers);
    for (int replica = 0; replica < N_ENVS; ++replica) reset_replica(env, replica);
    for (;;) {
        warp_sync();
        if (leads()) {
            write_arrays();
            run_step += 1;
            more = read_actions();
        }
        warp_sync();
        if (!more) return;
        for (int replica = 0; replica < N_ENVS; ++replica) step_replica(env, replica);
    }
}

int main() {
    make_arrays();
    read_start();
#if WARP_TEAM > 1
    std::vector<std::thread> others;
    for (unsigned int t = 1; t < WARP_TEAM; ++t) others.emplace_back(work, t);
#endif
    work(0);
#if WARP_TEAM > 1
    for (std::thread& other : others) other.join();
#endif
    return 0;
}
