// Orders of epochs and their minibatches, by epochs.cuh on the host (epochs.rs).
//
// Needs: MINIBATCHES, EPOCHS, LOCAL_SHARDS, AGENTS; small_run.h, which is made.
// Takes: rows of a step, steps, the number of the first shard.
// Says: how many minibatches there are, where they begin and the last one ends, then the samples of each epoch in its
// order. It ends with 1 where a sample's place is another than where it is.
#include "host_shim.h"

#include <stdio.h>
#include <stdlib.h>

typedef unsigned int u32;
#define __forceinline__ inline
#define LEAN 0

#include "draw.cuh"
#include "small_run.h"

#include "epochs.cuh"

int main(int, char** arguments) {
    SmallRun run = {};
    run.seed = 7u;
    run.iteration = 3u;
    run.n_rows = (u32)atoi(arguments[1]);
    run.shard = (u32)atoi(arguments[3]);
    u32 n = run.n_rows * (u32)atoi(arguments[2]);
    printf("%u ", MINIBATCHES);
    for (u32 part = 0; part <= MINIBATCHES; ++part) printf("%u ", minibatch_start(n, (int)part));
    Orders orders(run, n);
    WarpWords keys[EPOCHS];
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        keys[epoch] = Order::key_of(run, epoch);
        EpochOrder order = order_of(run, n, epoch, keys);
        for (u32 i = 0; i < n; ++i) {
            printf("%u ", order.at(i));
            if (orders.of(epoch).place(order.at(i)) != i) return 1;
        }
    }
}
