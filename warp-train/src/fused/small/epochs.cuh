// The order in which an epoch takes the samples, and the minibatches that this makes.
//
// Each shard is in an order of its own, and shards take turns: a minibatch is a range of places, so it has the same part
// of every shard, and so it has with fewer shards on each of more GPUs.
//
// Needs: MINIBATCHES, EPOCHS, LEAN, LOCAL_SHARDS (of this GPU), AGENTS (of a replica that learn).
#pragma once

// Whether an update is in pieces, between which NCCL gathers (pieces.cuh).
#ifndef RELAYED
#define RELAYED 0
#endif
// Whether the keys of all epochs' orders are kept in shared memory, and not worked out for every minibatch: those of a lone
// shard, as long as there are no more than what refusal.rs leaves room for beside networks and minibatches.
#define KEEPS_KEYS (LOCAL_SHARDS == 1 && (LEAN || (EPOCHS <= 32 && !RELAYED)))

// The order of a shard's samples: a bijection of 0 .. n, by rounds that permute 0 .. 2^bits; what falls outside
// is sent round again. It is computed both ways: which sample is at a place, and at which place a
// sample is.
struct Order {
    u32 n, mask;
    int shift;
    WarpWords key;

    __device__ __forceinline__ Order(u32 n, WarpWords key) : n(n), key(key) {
        int bits = n > 1u ? 32 - __clz((int)(n - 1u)) : 1;
        mask = bits >= 32 ? 0xffffffffu : (1u << bits) - 1u;
        shift = (bits + 1) / 2;
    }
    __device__ __forceinline__ Order(const SmallRun& run, u32 n, int epoch)
        : Order(n, key_of(run, epoch)) {}
    // The key of an epoch in shard number `shard` of those here.
    static __device__ __forceinline__ WarpWords key_of(const SmallRun& run, int epoch, u32 shard = 0u) {
        WarpDraw draw = warp_draw(run.seed, run.first_agent, run.iteration, WARP_PURPOSE_SHUFFLE);
        draw = warp_draw_agent(&draw, (run.shard + shard) << 16 | (u32)epoch);
        warp_draw_u32(&draw);
        return draw.block;
    }
    // A round: odd factors and shifts by half of the bits or more can be taken back.
    __device__ __forceinline__ u32 forth(u32 i, u32 add, u32 factor) const {
        i = ((i + add) * factor) & mask;
        return i ^ i >> shift;
    }
    __device__ __forceinline__ u32 back(u32 i, u32 add, u32 inverse) const {
        i ^= i >> shift;
        return (i * inverse - add) & mask;
    }
    // The sample at place `i` is cycle_walk(permute(i)). The first goes through all rounds once, without a branch, and may be
    // done ahead; the second goes through them again as long as the result falls outside.
    __device__ __forceinline__ u32 permute(u32 i) const {
        if (MINIBATCHES == 1) return i;
        i = forth(i, key.x, 0x9E3779B1u);
        i = forth(i, key.y, 0x85EBCA77u);
        i = forth(i, key.z, 0xC2B2AE3Du);
        return forth(i, key.w, 0x27D4EB2Fu);
    }
    __device__ __forceinline__ u32 cycle_walk(u32 i) const {
        if (MINIBATCHES == 1) return i;
#pragma unroll 1
        while (i >= n) i = permute(i);
        return i;
    }
    // The sample at place `i`.
    __device__ __forceinline__ u32 at(u32 i) const { return cycle_walk(permute(i)); }
    // The place of sample `j`.
    __device__ __forceinline__ u32 place(u32 j) const {
#pragma unroll 1
        do {
            j = back(j, key.w, inverse(0x27D4EB2Fu));
            j = back(j, key.z, inverse(0xC2B2AE3Du));
            j = back(j, key.y, inverse(0x85EBCA77u));
            j = back(j, key.x, inverse(0x9E3779B1u));
        } while (j >= n);
        return j;
    }
    // The factor that undoes an odd one, modulo 2^32, by Newton's iteration.
    static __device__ constexpr u32 inverse(u32 factor) {
        u32 x = factor;
        for (int i = 0; i < 5; ++i) x *= 2u - factor * x;
        return x;
    }
};

#if LOCAL_SHARDS > 1
// The order of an epoch over the shards. Samples are numbered step by step, agent by agent, replica by replica; a shard
// has neighbouring replicas.
struct EpochOrder {
    const SmallRun& run;
    u32 n;
    int epoch;
    u32 replicas, own;  // of all shards, of one

    __device__ __forceinline__ EpochOrder(const SmallRun& run, u32 n, int epoch)
        : run(run), n(n), epoch(epoch), replicas(run.n_rows / AGENTS), own(replicas / LOCAL_SHARDS) {}
    __device__ __forceinline__ Order of_shard(u32 shard) const {
        return Order(n / LOCAL_SHARDS, Order::key_of(run, epoch, shard));
    }
    // The sample at place `i`.
    __device__ __forceinline__ u32 at(u32 i) const {
        u32 shard = i % LOCAL_SHARDS, j = of_shard(shard).at(i / LOCAL_SHARDS);
        return j / own * replicas + shard * own + j % own;
    }
    // Nothing is done ahead of several shards.
    __device__ __forceinline__ u32 permute(u32 i) const { return i; }
    __device__ __forceinline__ u32 cycle_walk(u32 i) const { return at(i); }
    // The place of sample `j`.
    __device__ __forceinline__ u32 place(u32 j) const {
        u32 shard = j % replicas / own;
        return of_shard(shard).place(j / replicas * own + j % own) * LOCAL_SHARDS + shard;
    }
};

// The order of an epoch, whose keys are worked out where they are needed.
__device__ __forceinline__ EpochOrder order_of(const SmallRun& run, u32 n, int epoch, const WarpWords*) {
    return EpochOrder(run, n, epoch);
}

// The orders of all epochs.
struct Orders {
    const SmallRun& run;
    u32 n;

    __device__ __forceinline__ Orders(const SmallRun& run, u32 n) : run(run), n(n) {}
    __device__ __forceinline__ EpochOrder of(int epoch) const { return EpochOrder(run, n, epoch); }
};
#else
typedef Order EpochOrder;

// The order of an epoch, whose key is one of `keys` if they are kept.
__device__ __forceinline__ EpochOrder order_of(const SmallRun& run, u32 n, int epoch, const WarpWords* keys) {
    return KEEPS_KEYS ? Order(n, keys[epoch]) : Order(run, n, epoch);
}

// The orders of all epochs, which differ in their keys alone; of many epochs made when needed.
struct Orders {
    const SmallRun& run;
    u32 n;
    Order first;
    WarpWords keys[EPOCHS <= 8 ? EPOCHS : 1];

    __device__ __forceinline__ Orders(const SmallRun& run, u32 n) : run(run), n(n), first(run, n, 0) {
#pragma unroll
        for (int epoch = 0; epoch < (EPOCHS <= 8 ? EPOCHS : 1); ++epoch)
            keys[epoch] = Order(run, n, epoch).key;
    }
    __device__ __forceinline__ Order of(int epoch) const {
        if (EPOCHS > 8) return Order(run, n, epoch);
        Order order = first;
        order.key = keys[EPOCHS <= 8 ? epoch : 0];
        return order;
    }
};
#endif

// Where minibatch `part` of an epoch begins among `n` places.
__device__ __forceinline__ u32 minibatch_start(u32 n, int part) {
    return LOCAL_SHARDS * (u32)((unsigned long long)(n / LOCAL_SHARDS) * part / MINIBATCHES);
}
