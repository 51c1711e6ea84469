// Minibatches by minibatches.cu and shards.cu on the host, one thread after the other (shards.rs).
//
// Needs: P_LOCAL_SHARDS, P_MINIBATCHES, P_AGENTS, EPOCHS; shards_text.h, which is made.
// Takes: rows of a step, steps, the number of the first shard, how many samples a shard elsewhere has, and n: of all
// shards but number 0 every n-th cell counts, or all if it is 0.
// Says: how many minibatches there are, where they begin and the last one ends, then the samples of each epoch.
#include "host_shim.h"

#include <stdio.h>
#include <stdlib.h>

#include <vector>

#define __global__
#define __shared__ static
// Shards of all GPUs, of which some have no samples.
#define P_COUNTS 16
#define P_FIRST_AGENT 0u
// Some cells do not count.
#define P_MORTAL 1
#define P_SELECTS 0
struct Index {
    unsigned int x;
};
static Index blockIdx, blockDim, threadIdx;

#include "draw.cuh"
#include "shards_text.h"

int main(int, char** arguments) {
    unsigned int given[5];
    for (int i = 0; i < 5; ++i) given[i] = (unsigned int)atoi(arguments[i + 1]);
    unsigned int rows = given[0], cells = rows * given[1], every = given[4];
    WideSettings settings = {};
    settings.seed = 7u;
    settings.iteration = 3u;
    settings.shard = given[2];
    std::vector<unsigned int> order, shuffled(cells), ns(P_COUNTS);
    for (unsigned int i = 0; i < cells; ++i) {
        unsigned int cell = wide_cell(rows, cells, i), own = rows / P_LOCAL_SHARDS;
        bool first = settings.shard + cell % rows / own == 0u;
        unsigned int number = cell / rows * own + cell % rows % own;
        if (every == 0u || first || number % every == 0u) order.push_back(cell);
    }
    WideState state = {};
    state.n = (unsigned int)order.size();
    ns[P_COUNTS - 1] = given[3];
    for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x)
        wide_count_shards({&settings, &state, order.data(), rows, ns.data() + settings.shard});
    threadIdx.x = 0;
    unsigned int parts = wide_parts(ns.data()), begin = 0, end = 0;
    printf("%u 0 ", parts);
    for (unsigned int part = 0; part < parts; ++part) {
        wide_range_here(&state, ns.data(), part, parts, &begin, &end);
        printf("%u ", end);
    }
    blockDim.x = 1;
    for (unsigned int epoch = 0; epoch < EPOCHS; ++epoch) {
        for (blockIdx.x = 0; blockIdx.x < cells; ++blockIdx.x) {
            if (P_LOCAL_SHARDS == 1)
                wide_shuffle({&settings, &state, epoch, order.data(), shuffled.data()});
            else
                wide_shuffle_shards({&settings, &state, epoch, 1u, ns.data(), order.data(), shuffled.data()});
        }
        for (unsigned int i = 0; i < state.n; ++i) printf("%u ", shuffled[i]);
    }
}
