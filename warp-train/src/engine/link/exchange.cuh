// What the GPUs of a run tell each other inside a kernel: sums in the order of ranks, through memory that all of
// them reach.
//
// A number travels with its round in one access of eight bytes, so nothing has to be fenced. A slot has two
// places, for even and odd rounds: who hears a number has heard the one before, and its teller with it.
//
// Needs: RANKS; with more than one of them RANK_SLOTS (words of eight bytes that a rank tells another in a round).
#pragma once

#ifndef RANKS
#define RANKS 1
#endif

#if RANKS > 1
// How often a wait looks for a number before it looks at the clock.
#define TURNS 1024u
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
#endif

struct Ranks {
    LinkArgs link;
    unsigned long long began;

    __device__ __forceinline__ explicit Ranks(const LinkArgs& link) : link(link), began(now()) {}

    static __device__ __forceinline__ unsigned long long now() {
        unsigned long long t;
        LINK_CLOCK(t);
        return t;
    }
    // What rank `from` told rank `to` last, from word `at` on, in rounds as even or odd as `count`.
    __device__ __forceinline__ unsigned long long* place(u32 to, u32 from, unsigned long long count,
                                                         u32 at) const {
        u32 part = (u32)(count & 1u) * RANKS + from;
        return (unsigned long long*)link.inboxes[to] + (unsigned long long)part * RANK_SLOTS + at;
    }
    static __device__ __forceinline__ u32 round_of(unsigned long long count) {
        return (u32)(2u + count % ROUNDS);
    }
    static __device__ __forceinline__ void tell(unsigned long long* to, u32 a, u32 b, u32 round) {
        unsigned long long tag = (unsigned long long)round << 32;
        LINK_STORE(to, tag | a, tag | b);
    }
    // Two numbers of a round; zeros if they do not come.
    __device__ __forceinline__ void hear(const unsigned long long* from, u32& a, u32& b, u32 round) const {
        unsigned long long x, y;
        for (u32 turn = 1;; ++turn) {
            LINK_LOAD(from, x, y);
            if ((u32)(x >> 32) == round && (u32)(y >> 32) == round) break;
            if (turn % TURNS == 0u && is_over()) {
                x = y = 0ull;
                break;
            }
        }
        a = (u32)x;
        b = (u32)y;
    }
    // Whether nobody is to wait any more: on the first wait that is too long, which the host is told, or when the host
    // says so.
    __device__ __forceinline__ bool is_over() const {
        volatile u32* fault = link.fault;
        volatile u32* stop = (volatile u32*)link.stop[0];
        if (*fault != 0u || *stop != 0u) return true;
        if (now() - began < (unsigned long long)link.patience * 1000000ull) return false;
        *fault = 1u;
        *(volatile u32*)link.stop[1] = 1u;
        return true;
    }
    // The sum over ranks of four numbers that lie at `quad`.
    __device__ __forceinline__ float4 sum(float4 mine, u32 quad, unsigned long long count) const {
        u32 round = round_of(count), at = 4u * quad;
#pragma unroll
        for (u32 other = 0; other < RANKS; ++other) {
            if (other == link.rank) continue;
            unsigned long long* to = place(other, link.rank, count, at);
            tell(to, __float_as_uint(mine.x), __float_as_uint(mine.y), round);
            tell(to + 2, __float_as_uint(mine.z), __float_as_uint(mine.w), round);
        }
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (u32 rank = 0; rank < RANKS; ++rank) {
            float4 x = mine;
            if (rank != link.rank) {
                u32 w[4];
                const unsigned long long* from = place(link.rank, rank, count, at);
                hear(from, w[0], w[1], round);
                hear(from + 2, w[2], w[3], round);
                x = make_float4(__uint_as_float(w[0]), __uint_as_float(w[1]), __uint_as_float(w[2]),
                                __uint_as_float(w[3]));
            }
            sum.x = rank == 0u ? x.x : sum.x + x.x;
            sum.y = rank == 0u ? x.y : sum.y + x.y;
            sum.z = rank == 0u ? x.z : sum.z + x.z;
            sum.w = rank == 0u ? x.w : sum.w + x.w;
        }
        return sum;
    }
    // Tells all ranks, this one too, a double from word `at` on; and hears its sum over ranks.
    __device__ __forceinline__ void tell_double(double mine, u32 at, unsigned long long count) const {
        unsigned long long bits = (unsigned long long)__double_as_longlong(mine);
        for (u32 to = 0; to < RANKS; ++to)
            tell(place(to, link.rank, count, at), (u32)bits, (u32)(bits >> 32), round_of(count));
    }
    __device__ __forceinline__ double hear_double(u32 at, unsigned long long count) const {
        double sum = 0.0;
        for (u32 rank = 0; rank < RANKS; ++rank) {
            u32 low, high;
            hear(place(link.rank, rank, count, at), low, high, round_of(count));
            double x = __longlong_as_double((long long)((unsigned long long)high << 32 | low));
            sum = rank == 0u ? x : sum + x;
        }
        return sum;
    }
};
#endif
