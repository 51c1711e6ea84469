// What is here of the replay memory as one of several shards has it: a ring of its own rows, its priorities, and its
// part of every batch. Texts of one shard then do that shard's work, with N_ROWS and BATCH its own.

// Where a row's transition of the ring's step `step` lies among the rings of all shards, of which the row has one.
__device__ inline unsigned long long cell_of(unsigned long long step, unsigned int row) {
    return (row / SHARD_ROWS * (unsigned long long)RING_STEPS + step) * SHARD_ROWS + row % SHARD_ROWS;
}

__device__ inline Memory of_shard(const Memory& m, unsigned int shard) {
    Memory own = m;
    unsigned long long cells = (unsigned long long)shard * RING_STEPS * SHARD_ROWS;
    unsigned long long rows = (unsigned long long)shard * SHARD_BATCH;
    own.shard = shard;
    own.ring_obs += cells * OBS;
    own.ring_next_obs += cells * OBS;
    own.ring_action += cells * ACTION;
    own.ring_reward += cells;
    own.ring_ends += cells;
    own.ring_alive += cells;
    own.column[COLUMN_OBS] += rows * OBS;
    own.column[COLUMN_ACTION] += rows * ACTION;
    own.column[COLUMN_REWARD] += rows;
    own.column[COLUMN_DISCOUNT] += rows;
    own.column[COLUMN_NEXT_OBS] += rows * OBS;
    own.column[COLUMN_WEIGHT] += rows;
#if MASK > 0
    own.ring_mask += cells * MASK;
    own.ring_next_mask += cells * MASK;
    own.column[COLUMN_MASK] += rows * MASK;
    own.column[COLUMN_NEXT_MASK] += rows * MASK;
#endif
#if PRIORITISED
    own.priorities += shard * 2ull * LEAVES;
    own.largest += shard;
    own.sampled += rows;
    own.owner += cells;
    own.column[COLUMN_ERROR] += rows;
    own.told[EXCHANGED_PRIORITY_STATS] += 2u * shard;
#endif
    return own;
}
