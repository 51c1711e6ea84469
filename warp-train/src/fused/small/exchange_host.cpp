// Blocks of several ranks as threads of the host, which exchange numbers through exchange.cuh (exchange.rs).
//
// Needs: RANKS, BLOCKS (of a rank); link_args.h, which is made.
// Takes: rounds, the number of the first one, milliseconds that a wait lasts at most, and what happens: `all` (every
// rank stays), `dead` (the last one is gone after half of the rounds), `stop` (the same, and the host says so).
// Says: how many sums were wrong, how many ranks have a fault, how many milliseconds it took.
#include "host_shim.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

typedef unsigned int u32;
typedef unsigned long long u64;
#define __forceinline__ inline
#define __noinline__

template <typename To, typename From>
static To bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "other sizes");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static u32 __float_as_uint(float x) { return bits<u32>(x); }
static float __uint_as_float(u32 x) { return bits<float>(x); }
static long long __double_as_longlong(double x) { return bits<long long>(x); }
static double __longlong_as_double(long long x) { return bits<double>(x); }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#include "link_args.h"

static thread_local u64 chance = 1;

// Nothing mostly; now and then another thread's turn, and rarely a longer pause.
static void delay() {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    if (chance % 512 == 0) sched_yield();
    if (chance % 16384 == 0) {
        timespec pause = {0, 20000};
        nanosleep(&pause, nullptr);
    }
}
static u64 nanoseconds() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (u64)time.tv_sec * 1000000000ull + (u64)time.tv_nsec;
}
// Two words, each whole, in any order for who looks.
static void store(u64* to, u64 x, u64 y) {
    delay();
    __atomic_store_n(to, x, __ATOMIC_RELAXED);
    delay();
    __atomic_store_n(to + 1, y, __ATOMIC_RELAXED);
}
static void load(const u64* from, u64& x, u64& y) {
    delay();
    x = __atomic_load_n(from, __ATOMIC_RELAXED);
    delay();
    y = __atomic_load_n(from + 1, __ATOMIC_RELAXED);
}

#define LINK_CLOCK(t) t = nanoseconds()
#define LINK_STORE(to, x, y) store(to, x, y)
#define LINK_LOAD(from, x, y) load(from, x, y)
// There are more threads than cores: who waits lets others go on.
#define LINK_RETRY() sched_yield()

// Words that a rank sends another in a round: a quad of each block, and a double.
#define RANK_SLOTS (4u * BLOCKS + 2u)
#include "exchange.cuh"

// Rounds after which the blocks of a rank meet, as after an iteration.
#define PER_ITERATION 16ull

// A number that block `block` of a rank sends in a round, exact in no small sum.
static float number(u32 rank, u32 block, u64 round, u32 element) {
    u32 x = rank * 0x9E3779B1u ^ block * 0x85EBCA77u ^ (u32)round * 0xC2B2AE3Du ^ element * 0x27D4EB2Fu;
    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    x ^= x >> 13;
    return (float)(int)x * 1e-9f;
}
static float4 quad(u32 rank, u32 block, u64 round) {
    return {number(rank, block, round, 0), number(rank, block, round, 1), number(rank, block, round, 2),
            number(rank, block, round, 3)};
}

struct Rank {
    std::vector<u64> inbox = std::vector<u64>(2 * RANKS * RANK_SLOTS);
    u32 fault = 0, told = 0;
    std::atomic<u32> arrived{0}, turn{0};

    // Waits for the rank's blocks.
    void meet() {
        u32 seen = turn.load();
        if (arrived.fetch_add(1) == BLOCKS - 1) {
            arrived.store(0);
            turn.store(seen + 1);
        } else {
            while (turn.load() == seen) sched_yield();
        }
    }
};

static Rank ranks[RANKS];
static u64 inboxes[RANKS], stop_at[RANKS][2];
static u32 stop_word;
static std::atomic<u64> wrong{0};

// A block's part in rounds `first` to `last`.
static void work(u32 rank, u32 block, u32 timeout_ms, u64 first, u64 last) {
    chance = 0x9E3779B97F4A7C15ull * (rank * BLOCKS + block + 1);
    LinkArgs link = {};
    link.inboxes = inboxes;
    link.stop = stop_at[rank];
    link.fault = &ranks[rank].fault;
    link.rank = rank;
    link.timeout_ms = timeout_ms;
    Ranks all(link);
    for (u64 round = first; round < last; ++round) {
        float4 mine = quad(rank, block, round);
        // Both ways to receive, also side by side.
        float4 found = (round + rank) % 3ull == 0ull ? all.sum_in_turn(mine, block, round) : all.sum(mine, block, round);
        float4 sum = quad(0, block, round);
        for (u32 other = 1; other < RANKS; ++other) {
            float4 x = quad(other, block, round);
            sum.x += x.x;
            sum.y += x.y;
            sum.z += x.z;
            sum.w += x.w;
        }
        if (memcmp(&found, &sum, sizeof sum) != 0) wrong += 1;
        if (round % PER_ITERATION != 0) continue;
        u64 iteration = round / PER_ITERATION;
        double own = (double)number(rank, 0, iteration, 4), whole = (double)number(0, 0, iteration, 4);
        if (block == 0) all.send_double(own, 4u * BLOCKS, iteration);
        double moments = all.sum_double(own, 4u * BLOCKS, iteration);
        for (u32 other = 1; other < RANKS; ++other) whole += (double)number(other, 0, iteration, 4);
        if (memcmp(&moments, &whole, sizeof whole) != 0) wrong += 1;
        ranks[rank].meet();
    }
}

int main(int n, char** said) {
    if (n != 5) return 2;
    u64 rounds = strtoull(said[1], nullptr, 10), first = strtoull(said[2], nullptr, 10);
    u32 timeout_ms = (u32)atoi(said[3]);
    bool all_stay = strcmp(said[4], "all") == 0, host_stops = strcmp(said[4], "stop") == 0;
    for (u32 rank = 0; rank < RANKS; ++rank) {
        inboxes[rank] = (u64)ranks[rank].inbox.data();
        stop_at[rank][0] = (u64)&stop_word;
        stop_at[rank][1] = (u64)&ranks[rank].told;
    }
    u64 began = nanoseconds();
    std::vector<std::thread> threads;
    for (u32 rank = 0; rank < RANKS; ++rank)
        for (u32 block = 0; block < BLOCKS; ++block) {
            u64 own = all_stay || rank + 1 < RANKS ? rounds : rounds / 2;
            threads.emplace_back(work, rank, block, timeout_ms, first, first + own);
        }
    if (host_stops) {
        // When the last rank's blocks are gone, the others wait.
        for (u32 block = 0; block < BLOCKS; ++block) threads[(RANKS - 1) * BLOCKS + block].join();
        __atomic_store_n(&stop_word, 1u, __ATOMIC_RELAXED);
    }
    for (std::thread& thread : threads)
        if (thread.joinable()) thread.join();
    u32 faults = 0;
    for (Rank& rank : ranks) faults += rank.fault & rank.told;
    printf("%llu %u %llu\n", (u64)wrong, faults, (nanoseconds() - began) / 1000000ull);
    return 0;
}
