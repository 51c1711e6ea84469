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
    // Calls take(rank, first, second) in the order of ranks with two numbers that lie at word `at` in a round: those that the
    // others send this rank, zeros where they do not come, and of itself `first` and `second`.
    // Loads of several ranks are under way at once, so that a wait takes as long for them as for one. But they take
    // registers: a kernel that has too few of them spills, even in its innermost loop.
    template <class Take>
    __device__ __forceinline__ void receive(u32 first, u32 second, u32 at, unsigned long long count, Take take) const {
        constexpr u32 at_once = RANKS < 4u ? RANKS : 4u;
        u32 round = round_of(count);
#pragma unroll 1
        for (u32 from = 0; from < RANKS; from += at_once) {
            u32 words[at_once][2];
            // From when on the clock is looked at; a kernel has no register for the time of its beginning.
            unsigned long long began = 0ull;
            for (u32 poll = 1;; ++poll) {
                unsigned long long x[at_once][2];
                bool all = true;
#pragma unroll
                for (u32 i = 0; i < at_once; ++i) {
                    if (from + i == link.rank || from + i >= RANKS) continue;
                    LINK_LOAD(place(link.rank, from + i, count, at), x[i][0], x[i][1]);
                }
#pragma unroll
                for (u32 i = 0; i < at_once; ++i) {
                    if (from + i == link.rank || from + i >= RANKS) continue;
#pragma unroll
                    for (u32 j = 0; j < 2u; ++j) {
                        bool here = (u32)(x[i][j] >> 32) == round;
                        all = all && here;
                        words[i][j] = here ? (u32)x[i][j] : 0u;
                    }
                }
                if (all || (poll % POLLS == 0u && is_over(began))) break;
                LINK_RETRY();
            }
#pragma unroll
            for (u32 i = 0; i < at_once; ++i) {
                bool own = from + i == link.rank;
                if (from + i < RANKS) take(from + i, own ? first : words[i][0], own ? second : words[i][1]);
            }
        }
    }
    // Whether nobody is to wait any more: on the first wait that is too long, which the host is told, or when the host
    // says so.
    __device__ __forceinline__ bool is_over(unsigned long long& began) const {
        volatile u32* fault = link.fault;
        volatile u32* stop = (volatile u32*)link.stop[0];
        if (*fault != 0u || *stop != 0u) return true;
        if (began == 0ull) began = now();
        if (now() - began < (unsigned long long)link.timeout_ms * 1000000ull) return false;
        *fault = 1u;
        *(volatile u32*)link.stop[1] = 1u;
        return true;
    }
    // The sum over ranks of four numbers that lie at `quad`, received from all of them at once.
    __device__ __forceinline__ float4 sum(float4 mine, u32 quad, unsigned long long count) const {
        u32 at = 4u * quad;
        send_four(mine, at, count);
        float4 sum;
        sum_two(mine.x, mine.y, at, count, sum.x, sum.y);
        sum_two(mine.z, mine.w, at + 2u, count, sum.z, sum.w);
        return sum;
    }
    // The same, received from one rank after the other: it waits longer, but takes few registers.
    __device__ __forceinline__ float4 sum_in_turn(float4 mine, u32 quad, unsigned long long count) const {
        u32 at = 4u * quad;
        send_four(mine, at, count);
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
        for (u32 rank = 0; rank < RANKS; ++rank) {
            float4 x = rank == link.rank ? mine : receive_four(rank, at, count);
            sum.x = rank == 0u ? x.x : sum.x + x.x;
            sum.y = rank == 0u ? x.y : sum.y + x.y;
            sum.z = rank == 0u ? x.z : sum.z + x.z;
            sum.w = rank == 0u ? x.w : sum.w + x.w;
        }
        return sum;
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
        unsigned long long began = 0ull;
        for (u32 poll = 1;; ++poll) {
            unsigned long long x, y, z, w;
            LINK_LOAD(words, x, y);
            LINK_LOAD(words + 2, z, w);
            if ((u32)(x >> 32) == round && (u32)(y >> 32) == round && (u32)(z >> 32) == round && (u32)(w >> 32) == round)
                return make_float4(__uint_as_float((u32)x), __uint_as_float((u32)y), __uint_as_float((u32)z),
                                   __uint_as_float((u32)w));
            if (poll % POLLS == 0u && is_over(began)) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            LINK_RETRY();
        }
    }
    // Sums over ranks of two numbers that lie at word `at`.
    __device__ __forceinline__ void sum_two(float x, float y, u32 at, unsigned long long count, float& sum_x,
                                            float& sum_y) const {
        receive(__float_as_uint(x), __float_as_uint(y), at, count, [&](u32 rank, u32 a, u32 b) {
            sum_x = rank == 0u ? __uint_as_float(a) : sum_x + __uint_as_float(a);
            sum_y = rank == 0u ? __uint_as_float(b) : sum_y + __uint_as_float(b);
        });
    }
    // Sends all other ranks a double, from word `at` on.
    __device__ __forceinline__ void send_double(double mine, u32 at, unsigned long long count) const {
        unsigned long long bits = (unsigned long long)__double_as_longlong(mine);
        for (u32 to = 0; to < RANKS; ++to) {
            if (to != link.rank) send(place(to, link.rank, count, at), (u32)bits, (u32)(bits >> 32), round_of(count));
        }
    }
    // The sum over ranks of a double that lies at word `at`.
    __device__ __forceinline__ double sum_double(double mine, u32 at, unsigned long long count) const {
        unsigned long long bits = (unsigned long long)__double_as_longlong(mine);
        double sum = 0.0;
        receive((u32)bits, (u32)(bits >> 32), at, count, [&](u32 rank, u32 low, u32 high) {
            double x = __longlong_as_double((long long)((unsigned long long)high << 32 | low));
            sum = rank == 0u ? x : sum + x;
        });
        return sum;
    }
};
#endif
