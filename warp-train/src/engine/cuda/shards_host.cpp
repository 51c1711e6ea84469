// The replay memory of one shard or of several on the host, as the texts for GPUs have it (shards.rs).
//
// Needs: STEPS, N_COLUMNS, WIDEST, N_COUNTERS, CELL_VALUES; memory_text.h, which is made.
// Says: the bits of the columns of each step's batch.
#define WARP_TEAM 32
#include "host_shim.h"

#include <stdio.h>

#include <algorithm>
#include <thread>
#include <vector>

#define __noinline__
#define __syncthreads() __syncwarp(0)
#define N_THREADS WARP_TEAM
#define TILE_ROWS (16 * TILES_HIGH)

static unsigned int __float_as_uint(float x) { return (unsigned int)__float_as_int(x); }
static float __uint_as_float(unsigned int bits) { return __int_as_float((int)bits); }
template <class T>
static T __ldcg(const T* from) {
    return *from;
}
template <class T>
static void __stcg(T* to, T value) { *to = value; }

// Positive numbers and infinity: threads of a team meet before anybody reads what this leaves.
template <class Better>
static void atomic_choice(unsigned int* place, unsigned int value, Better better) {
    unsigned int seen = __atomic_load_n(place, __ATOMIC_RELAXED);
    while (better(value, seen) &&
           !__atomic_compare_exchange_n(place, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
static void atomicMin(unsigned int* place, unsigned int value) { atomic_choice(place, value, std::less<unsigned int>()); }
static void atomicMax(unsigned int* place, unsigned int value) {
    atomic_choice(place, value, std::greater<unsigned int>());
}

struct Kept;
struct Half;
struct DescentStep;

#include "draw.cuh"
#include "translated.cuh"
#include "memory_text.h"

#ifndef SHARDS
#define SHARDS 1u
#define of_shard(m, shard) m
#endif

// What happens, as shards.rs has it, too.
static float number(unsigned int t, unsigned int row, unsigned int i) {
    return (float)((t * 31u + row * 7u + i * 3u) % 64u) / 8.0f - 4.0f;
}
static bool chance(unsigned int t, unsigned int row, unsigned int of) { return (t * 5u + row * 3u) % of == 0u; }

static const unsigned int REPLICAS = N_ROWS / N_AGENTS;
static const unsigned int CELLS = RING_STEPS * N_ROWS;
static std::vector<std::vector<float>> floats;
static std::vector<std::vector<unsigned char>> flags;
static std::vector<std::vector<unsigned int>> words;

static float* some_floats(size_t n) {
    floats.emplace_back(n + 1);
    return floats.back().data();
}
static unsigned char* some_flags(size_t n) {
    flags.emplace_back(n + 1);
    return flags.back().data();
}
static unsigned int* some_words(size_t n) {
    words.emplace_back(n + 1);
    return words.back().data();
}

static Memory made() {
    Memory m = {};
    for (float*& column : m.column) column = some_floats((size_t)std::max(N_ROWS, BATCH) * WIDEST);
    static const float cells[] = CELL_VALUES;
    m.cells = cells;
    m.counters = some_words(N_COUNTERS);
    m.alive_now = some_flags(N_ROWS);
    m.ring_obs = some_floats((size_t)CELLS * OBS);
    m.ring_next_obs = some_floats((size_t)CELLS * OBS);
    m.ring_action = some_floats((size_t)CELLS * ACTION);
    m.ring_reward = some_floats(CELLS);
    m.ring_ends = some_flags(CELLS);
    m.ring_alive = some_flags(CELLS);
    m.ring_mask = some_flags((size_t)CELLS * MASK);
    m.ring_next_mask = some_flags((size_t)CELLS * MASK);
#if PRIORITISED
    m.priorities = some_floats((size_t)SHARDS * 2 * LEAVES);
    m.largest = some_floats(SHARDS);
    for (unsigned int shard = 0; shard < SHARDS; ++shard) m.largest[shard] = 1.0f;
    m.sampled = some_words(BATCH);
    m.owner = some_words(CELLS);
#ifdef EXCHANGED_PRIORITY_STATS
    // Of one rank, which hears itself.
    m.heard[EXCHANGED_PRIORITY_STATS] = m.told[EXCHANGED_PRIORITY_STATS] = some_floats(2 * SHARDS);
    m.heard[EXCHANGED_MAX_PRIORITY] = m.largest;
#endif
#endif
    m.obs[0] = some_floats((size_t)N_ROWS * OBS);
    m.final_obs[0] = some_floats((size_t)N_ROWS * OBS);
    m.action_mask[0] = some_flags((size_t)N_ROWS * MASK);
    m.final_action_mask[0] = some_flags((size_t)N_ROWS * MASK);
    m.reward[0] = some_floats(N_ROWS);
    m.terminated = some_flags(REPLICAS);
    m.truncated = some_flags(REPLICAS);
    return m;
}

// Step `t` of all rows; one thread's work.
static void happen(const Memory& m, unsigned int t) {
    for (unsigned int replica = 0; replica < REPLICAS; ++replica) {
        ((unsigned char*)m.terminated)[replica] = chance(t, replica, 9u);
        ((unsigned char*)m.truncated)[replica] = !chance(t, replica, 9u) && chance(t, replica, 11u);
    }
    for (unsigned int row = 0; row < N_ROWS; ++row) {
        m.alive_now[row] = !(MORTAL && chance(t, row, 4u));
        ((float*)m.reward[0])[row] = number(t, row, 50u);
        for (unsigned int i = 0; i < OBS; ++i) {
            m.column[COLUMN_ACTING_OBS][row * OBS + i] = number(t, row, i);
            ((float*)m.obs[0])[row * OBS + i] = number(t + 1u, row, i);
            ((float*)m.final_obs[0])[row * OBS + i] = number(t + 1u, row, i + 20u);
        }
        for (unsigned int i = 0; i < ACTION; ++i) m.column[COLUMN_ACTING_ACTION][row * ACTION + i] = number(t, row, i + 40u);
#if MASK > 0
        for (unsigned int i = 0; i < MASK; ++i) {
            m.column[COLUMN_ACTING_MASK][row * MASK + i] = !chance(t, row + i, 3u);
            ((unsigned char*)m.action_mask[0])[row * MASK + i] = !chance(t + 1u, row + i, 3u);
            ((unsigned char*)m.final_action_mask[0])[row * MASK + i] = !chance(t + 1u, row + i, 4u);
        }
#endif
    }
}

static void say(const Memory& m, unsigned int column, unsigned int width) {
    for (unsigned int i = 0; i < BATCH * width; ++i) printf("%u ", __float_as_uint(m.column[column][i]));
}

// A batch and what its errors leave.
static void update(const Memory& m, unsigned int t) {
#if PRIORITISED
    for (unsigned int shard = 0; shard < SHARDS; ++shard) sample_by_priority(of_shard(m, shard));
    __syncthreads();
#endif
    for (unsigned int tile = 0; tile * TILE_ROWS < BATCH; ++tile)
        for (unsigned int member = 0; member < TEAM; ++member) sample_tile(m, tile, member);
    __syncthreads();
#ifdef EXCHANGED_PRIORITY_STATS
    for (unsigned int shard = 0; shard < SHARDS; ++shard) tell_priority_stats(of_shard(m, shard));
    __syncthreads();
    for (unsigned int shard = 0; shard < SHARDS; ++shard) importance_weights(of_shard(m, shard));
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        say(m, COLUMN_OBS, OBS);
        say(m, COLUMN_ACTION, ACTION);
        say(m, COLUMN_REWARD, 1);
        say(m, COLUMN_DISCOUNT, 1);
        say(m, COLUMN_NEXT_OBS, OBS);
        say(m, COLUMN_WEIGHT, 1);
#if MASK > 0
        say(m, COLUMN_MASK, MASK);
        say(m, COLUMN_NEXT_MASK, MASK);
#endif
#if PRIORITISED
        for (unsigned int row = 0; row < BATCH; ++row) m.column[COLUMN_ERROR][row] = number(t, row, 0u) + 4.0f;
#endif
    }
#if PRIORITISED
    __syncthreads();
    for (unsigned int shard = 0; shard < SHARDS; ++shard) update_priorities(of_shard(m, shard));
    __syncthreads();
#endif
#ifdef EXCHANGED_PRIORITY_STATS
    if (threadIdx.x == 0) {
        for (unsigned int shard = 0; shard < SHARDS; ++shard) raise_max_priority(of_shard(m, shard));
    }
#endif
    if (threadIdx.x == 0) m.counters[COUNTER_UPDATES] += 1u;
    __syncthreads();
}

static void work(const Memory& m, unsigned int thread) {
    threadIdx.x = thread;
    for (unsigned int t = 0; t < STEPS; ++t) {
        if (thread == 0) {
            happen(m, t);
            advance_ring(m);
        }
        __syncthreads();
        for (unsigned int tile = 0; tile * TILE_ROWS < N_ROWS; ++tile)
            for (unsigned int member = 0; member < TEAM; ++member) store(m, tile, member);
        __syncthreads();
#if PRIORITISED
        for (unsigned int shard = 0; shard < SHARDS; ++shard) add_priorities(of_shard(m, shard));
        __syncthreads();
#endif
        update(m, t);
    }
}

int main() {
    Memory m = made();
    m.counters[COUNTER_SEED_LOW] = SEED;
    std::vector<std::thread> team;
    for (unsigned int thread = 0; thread < WARP_TEAM; ++thread) team.emplace_back(work, std::cref(m), thread);
    for (std::thread& thread : team) thread.join();
}
