// The order in which the cells of a rollout are looked through.

// Cell number `i`, shard by shard where there are several; a shard has neighbouring replicas.
__device__ inline unsigned int wide_cell(unsigned int rows, unsigned int cells, unsigned int i) {
    if (P_LOCAL_SHARDS == 1 || i >= cells) return i;
    unsigned int own = rows / P_LOCAL_SHARDS, of_shard = cells / P_LOCAL_SHARDS, j = i % of_shard;
    return j / own * rows + i / of_shard * own + j % own;
}
