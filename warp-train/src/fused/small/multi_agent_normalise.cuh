// Running normalisation of several policies' rows: see normalise.cuh. Observations lie in shared memory, where
// a lane sums one of their numbers over all rows of a warp; rewards are summed by the lane that has their row.
//
// Needs what multi_agent_replica.cuh needs.
#pragma once
#include "normalise.cuh"
#include "multi_agent_replica.cuh"

// What each policy is normalised by, and what of it is told.
struct MultiAgentFactors {
    float* factors[N_POLICIES];
    double* known[N_POLICIES];
    double* parts[N_POLICIES];
    double* running[N_POLICIES];
};

#if NORM_OBS || NORM_REWARD
// Floats from one row of observations to the next: odd, so that lanes that write rows meet different banks.
#define LDR (OBS | 1)
static_assert(OBS <= 32, "a lane has one number of an observation");
static_assert(ROUNDS <= 8 && N_POLICIES <= 16, "a word has four bits of each round's policy");

// A block's copies of the factors.
struct MultiAgentNear {
    float factors[N_POLICIES][N_FACTORS];
};
// A warp's observations.
typedef float MultiAgentRaw[NORM_OBS ? 32 * ROUNDS * LDR : 4];

// What a warp's rows are normalised by and add to the sums.
struct MultiAgentNormaliser {
    const float* factors;  // of the first policy, in shared memory
    float* raw;
    double gamma[ROUNDS], discounted[ROUNDS];
    // Of this lane's number of observations, policy by policy; then of its rows' discounted returns.
    Distances seen[NORM_OBS ? N_POLICIES : 1], returns[NORM_REWARD ? N_POLICIES : 1];
    u32 own_policy;  // four bits a round
    u32 exists;      // a bit a round

    // For all threads of a block, which wait for each other afterwards.
    static __device__ __forceinline__ void load(MultiAgentNear& near, const MultiAgentFactors& from) {
#pragma unroll
        for (int p = 0; p < N_POLICIES; ++p)
            for (int i = threadIdx.x; i < N_FACTORS; i += blockDim.x) near.factors[p][i] = from.factors[p][i];
    }

    __device__ __forceinline__ MultiAgentNormaliser(MultiAgentNear& near, MultiAgentRaw& raw, const MultiAgentFactors& from,
                                                    u32 first, u32 n)
        : factors(near.factors[0]), raw(raw), own_policy(0u), exists(0u) {
        u32 own = (threadIdx.x & 31) % TOGETHER;
#pragma unroll
        for (int p = 0; p < (NORM_OBS ? N_POLICIES : 1); ++p) seen[p] = {0.0, 0.0};
#pragma unroll
        for (int p = 0; p < (NORM_REWARD ? N_POLICIES : 1); ++p) returns[p] = {0.0, 0.0};
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            u32 slot = round * COPIES + (threadIdx.x & 31) / TOGETHER;
            gamma[round] = discounted[round] = 0.0;
#pragma unroll
            for (int p = 0; p < N_POLICIES; ++p) {
                int agent = (int)slot - first_slot(p);
                if (agent < 0 || agent >= policy_agents(p) || own >= n) continue;
                own_policy |= (u32)p << (4 * round);
                exists |= 1u << round;
                if (!NORM_REWARD) continue;
                gamma[round] = from.known[p][3 * NORM_COLUMNS];
                discounted[round] = from.running[p][running_row(p, agent, first + own)];
            }
        }
    }
    __device__ __forceinline__ u32 policy(int round) const { return own_policy >> (4 * round) & 15u; }

    // Where the discounted return of agent number `agent` of a policy lies.
    static __device__ __forceinline__ u32 running_row(int p, int agent, u32 replica) {
        return replica * policy_agents(p) + (u32)agent;
    }

    // Keeps the observation of this lane's row of a round, and makes of it what the policy sees.
    __device__ __forceinline__ void look(int round, float* obs) {
        const float* known = factors + policy(round) * N_FACTORS;
        float* to = raw + (round * 32 + (threadIdx.x & 31)) * LDR;
#pragma unroll
        for (int k = 0; k < OBS; ++k) {
            to[k] = obs[k];
            obs[k] = normalised(obs[k], known, k);
        }
    }
    // The observations that were looked at last are of the rollout; of the `n` replicas that are there.
    __device__ __forceinline__ void count(u32 n) {
        int lane = threadIdx.x & 31, column = lane < OBS ? lane : 0;
#pragma unroll
        for (int slot = 0; slot < (NORM_OBS ? N_SLOTS : 0); ++slot) {
            if (agent_of_slot(slot) < 0) continue;
            float mean = factors[policy_of_slot(slot) * N_FACTORS + 2 * column];
#pragma unroll
            for (u32 r = 0; r < TOGETHER; ++r) {
                if (r < n) seen[policy_of_slot(slot)].add(raw[(slot * TOGETHER + r) * LDR + column], mean);
            }
        }
    }
    // The reward of this lane's row of a round.
    __device__ __forceinline__ void reward(int round, float reward, bool over) {
        if (!NORM_REWARD || !(exists >> round & 1u)) return;
        discounted[round] = discounted[round] * gamma[round] + (double)reward;
#pragma unroll
        for (int p = 0; p < N_POLICIES; ++p) {
            if (policy(round) == p)
                returns[p].add((float)discounted[round], factors[p * N_FACTORS + 2 * OBS]);
        }
        discounted[round] = over ? 0.0 : discounted[round];
    }
    // Tells the sums as part number `part` of `n_parts`.
    __device__ __forceinline__ void finish(const MultiAgentFactors& to, u32 first, u32 part, u32 n_parts) const {
        u32 lane = threadIdx.x & 31;
#pragma unroll
        for (int p = 0; p < N_POLICIES; ++p) {
            if (NORM_OBS && lane < OBS) {
                to.parts[p][2 * lane * n_parts + part] = seen[NORM_OBS ? p : 0].sum;
                to.parts[p][(2 * lane + 1) * n_parts + part] = seen[NORM_OBS ? p : 0].squares;
            }
            if (!NORM_REWARD) continue;
            double sum = warp_sum(returns[NORM_REWARD ? p : 0].sum);
            double squares = warp_sum(returns[NORM_REWARD ? p : 0].squares);
            if (lane != 0) continue;
            to.parts[p][2 * (N_SUMMED - 1) * n_parts + part] = sum;
            to.parts[p][(2 * (N_SUMMED - 1) + 1) * n_parts + part] = squares;
        }
#pragma unroll
        for (int round = 0; round < (NORM_REWARD ? ROUNDS : 0); ++round) {
#pragma unroll
            for (int p = 0; p < N_POLICIES; ++p) {
                if (!(exists >> round & 1u) || policy(round) != p) continue;
                int agent = round * COPIES + (int)lane / TOGETHER - first_slot(p);
                to.running[p][running_row(p, agent, first + lane % TOGETHER)] = discounted[round];
            }
        }
    }
};
#else
struct MultiAgentNear {};
struct MultiAgentRaw {};

// Nothing is normalised.
struct MultiAgentNormaliser {
    static __device__ __forceinline__ void load(MultiAgentNear&, const MultiAgentFactors&) {}
    __device__ __forceinline__ MultiAgentNormaliser(MultiAgentNear&, MultiAgentRaw&, const MultiAgentFactors&, u32, u32) {}
    __device__ __forceinline__ void look(int, float*) {}
    __device__ __forceinline__ void count(u32) {}
    __device__ __forceinline__ void reward(int, float, bool) {}
    __device__ __forceinline__ void finish(const MultiAgentFactors&, u32, u32, u32) const {}
};
#endif
