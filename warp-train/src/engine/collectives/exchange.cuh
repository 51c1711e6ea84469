// All-reduce inside a kernel, for the GPUs of a run: sums in the order of ranks, through memory that all of them can
// access.
//
// A number travels with its round in one access of eight bytes, so nothing has to be fenced. A slot has two
// places, for even and odd rounds: a rank that has received a number has received the one before, and so has its sender.
//
// Needs: RANKS; with more than one of them RANK_SLOTS (words of eight bytes that a rank sends another in a round).
#pragma once

#ifndef RANKS
#define RANKS 1
#endif

#if RANKS > 1
// How often a wait polls before it looks at the clock.
#define POLLS 1024u
// Rounds are told apart by a number that is never 0, which memory begins with; as many even as odd ones.
#define ROUNDS 0xfffffffeull

// What a GPU is asked for: nanoseconds, and two words of eight bytes, each whole, for all GPUs to see. The test on the
// host brings its own (exchange_host.cpp).
#ifndef WARP_HOST
#define LINK_CLOCK(t) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t))
#define LINK_STORE(to, x, y) \
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(x), "l"(y) : "memory")
#define LINK_LOAD(from, x, y) \
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(x), "=l"(y) : "l"(from) : "memory")
// Between two polls.
#define LINK_RETRY() ((void)0)
#endif

// One wait for other ranks: how often it has polled, and when it first looked at the clock.
struct Wait {
    u32 polls = 0u;
    unsigned long long since = 0ull;
};

struct Ranks {
    LinkArgs link;

    __device__ __forceinline__ explicit Ranks(const LinkArgs& link) : link(link) {}

    static __device__ __forceinline__ unsigned long long now() {
        unsigned long long t;
        LINK_CLOCK(t);
        return t;
    }
    // Where rank `to` receives what rank `from` sends, from word `at` on, in rounds as even or odd as `count`.
    __device__ __forceinline__ unsigned long long* place(u32 to, u32 from, unsigned long long count,
                                                         u32 at) const {
        u32 part = (u32)(count & 1u) * RANKS + from;
        return (unsigned long long*)link.inboxes[to] + (unsigned long long)part * RANK_SLOTS + at;
    }
    static __device__ __forceinline__ u32 round_of(unsigned long long count) {
        return (u32)(2u + count % ROUNDS);
    }
    static __device__ __forceinline__ void send(unsigned long long* to, u32 a, u32 b, u32 round) {
        unsigned long long tag = (unsigned long long)round << 32;
        LINK_STORE(to, tag | a, tag | b);
    }
    // Calls take(rank, words) in the order of ranks with numbers that lie from word `at` on in a round: those that the others
    // send this rank, zeros where they do not come, and its own.
    // Loads of several ranks are under way at once, so that a wait takes as long for them as for one. But they take
    // registers: a kernel that has too few of them spills, even in its innermost loop.
    template <u32 N, class Take>
    __device__ __forceinline__ void receive(const u32 (&own)[N], u32 at, unsigned long long count, Take take) const {
        constexpr u32 at_once = RANKS < 4u ? RANKS : 4u;
        u32 round = round_of(count);
#pragma unroll 1
        for (u32 from = 0; from < RANKS; from += at_once) {
            u32 words[at_once][N];
            for (Wait wait;;) {
                unsigned long long x[at_once][N];
                bool all = true;
#pragma unroll
                for (u32 i = 0; i < at_once; ++i) {
                    if (from + i == link.rank || from + i >= RANKS) continue;
                    const unsigned long long* sent = place(link.rank, from + i, count, at);
#pragma unroll
                    for (u32 j = 0; j < N; j += 2u) LINK_LOAD(sent + j, x[i][j], x[i][j + 1u]);
                }
#pragma unroll
                for (u32 i = 0; i < at_once; ++i) {
                    if (from + i >= RANKS) continue;
#pragma unroll
                    for (u32 j = 0; j < N; ++j) {
                        bool is_own = from + i == link.rank, here = is_own || (u32)(x[i][j] >> 32) == round;
                        all = all && here;
                        words[i][j] = is_own ? own[j] : here ? (u32)x[i][j] : 0u;
                    }
                }
                if (all || is_over(wait)) break;
                LINK_RETRY();
            }
#pragma unroll
            for (u32 i = 0; i < at_once; ++i) {
                if (from + i < RANKS) take(from + i, words[i]);
            }
        }
    }
    // Whether nobody is to wait any more: on the first wait that is too long, which the host is told, or when the host
    // says so. To be asked after every poll that was in vain.
    __device__ __forceinline__ bool is_over(Wait& wait) const {
        if (++wait.polls % POLLS != 0u) return false;
        if (wait.since == 0ull) wait.since = now();
        volatile u32* fault = link.fault;
        volatile u32* stop = (volatile u32*)link.stop[0];
        if (*fault != 0u || *stop != 0u) return true;
        if (now() - wait.since < (unsigned long long)link.timeout_ms * 1000000ull) return false;
        *fault = 1u;
        *(volatile u32*)link.stop[1] = 1u;
        return true;
    }
    // The sum over ranks of four numbers that lie at `quad`, received from all of them at once.
    __device__ __forceinline__ float4 sum(float4 mine, u32 quad, unsigned long long count) const {
        u32 at = 4u * quad;
        send_four(mine, at, count);
        const u32 own[4] = {__float_as_uint(mine.x), __float_as_uint(mine.y), __float_as_uint(mine.z),
                            __float_as_uint(mine.w)};
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        receive(own, at, count, [&](u32 rank, const u32 (&w)[4]) {
            add_in_order(sum, rank, make_float4(__uint_as_float(w[0]), __uint_as_float(w[1]), __uint_as_float(w[2]),
                                                __uint_as_float(w[3])));
        });
        return sum;
    }
    // The same, received from one rank after the other: it waits longer, but takes few registers.
    __device__ __forceinline__ float4 sum_in_turn(float4 mine, u32 quad, unsigned long long count) const {
        u32 at = 4u * quad;
        send_four(mine, at, count);
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
        for (u32 rank = 0; rank < RANKS; ++rank) {
            add_in_order(sum, rank, rank == link.rank ? mine : receive_four(rank, at, count));
        }
        return sum;
    }
    // The first rank's numbers begin a sum.
    static __device__ __forceinline__ void add_in_order(float4& sum, u32 rank, float4 x) {
        sum.x = rank == 0u ? x.x : sum.x + x.x;
        sum.y = rank == 0u ? x.y : sum.y + x.y;
        sum.z = rank == 0u ? x.z : sum.z + x.z;
        sum.w = rank == 0u ? x.w : sum.w + x.w;
    }
    // Sends all other ranks four numbers, from word `at` on.
    __device__ __forceinline__ void send_four(float4 mine, u32 at, unsigned long long count) const {
        u32 round = round_of(count);
#pragma unroll
        for (u32 other = 0; other < RANKS; ++other) {
            if (other == link.rank) continue;
            unsigned long long* to = place(other, link.rank, count, at);
            send(to, __float_as_uint(mine.x), __float_as_uint(mine.y), round);
            send(to + 2, __float_as_uint(mine.z), __float_as_uint(mine.w), round);
        }
    }
    // Four numbers that rank `from` sends this one, from word `at` on; zeros if they do not come.
    __device__ __forceinline__ float4 receive_four(u32 from, u32 at, unsigned long long count) const {
        const unsigned long long* words = place(link.rank, from, count, at);
        u32 round = round_of(count);
        for (Wait wait;;) {
            unsigned long long x, y, z, w;
            LINK_LOAD(words, x, y);
            LINK_LOAD(words + 2, z, w);
            if ((u32)(x >> 32) == round && (u32)(y >> 32) == round && (u32)(z >> 32) == round && (u32)(w >> 32) == round)
                return make_float4(__uint_as_float((u32)x), __uint_as_float((u32)y), __uint_as_float((u32)z),
                                   __uint_as_float((u32)w));
            if (is_over(wait)) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            LINK_RETRY();
        }
    }
    // Sends all other ranks a double, from word `at` on.
    __device__ __forceinline__ void send_double(double mine, u32 at, unsigned long long count) const {
        unsigned long long bits = (unsigned long long)__double_as_longlong(mine);
        for (u32 to = 0; to < RANKS; ++to) {
            if (to != link.rank) send(place(to, link.rank, count, at), (u32)bits, (u32)(bits >> 32), round_of(count));
        }
    }
    // The sum over ranks of a double that lies at word `at`. A call, since it is needed seldom, and the innermost loops of
    // kernels with few registers are compiled better without it; by value, or else `link` would lie in memory.
    __device__ __forceinline__ double sum_double(double mine, u32 at, unsigned long long count) const {
        return sum_double_of(*this, mine, at, count);
    }
    static __device__ __noinline__ double sum_double_of(Ranks ranks, double mine, u32 at, unsigned long long count) {
        unsigned long long bits = (unsigned long long)__double_as_longlong(mine);
        const u32 own[2] = {(u32)bits, (u32)(bits >> 32)};
        double sum = 0.0;
        ranks.receive(own, at, count, [&](u32 rank, const u32 (&w)[2]) {
            double x = __longlong_as_double((long long)((unsigned long long)w[1] << 32 | w[0]));
            sum = rank == 0u ? x : sum + x;
        });
        return sum;
    }
};
#endif
