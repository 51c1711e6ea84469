// Gradients of the first layer and of the output layer, where observations and outputs are few: the first pass makes
// them itself of what it has in shared memory, 64 rows at a time, so that memory keeps neither observations nor what
// lies next to the outputs. A group of four warps has sums of its own in memory, [groups, T_EDGE_SUMS, 128] of four
// floats: a thread's part of products of 16 features by 8 columns, as mma instructions leave it.

// Columns by eights: of outputs, and of observations, behind which there is a one whose products are the biases'.
#define T_OUT_EIGHTS ((T_OUTS + T_GAP + 7) / 8)
#define T_IN_EIGHTS ((T_IN + 1 + 7) / 8)
// Products of a warp, each of them by all columns: features of the last hidden layer, then ones, whose products
// are the biases'; features of the first.
#define T_OUT_PRODUCTS (t_in(T_DEPTH) / 64 + 1)
#define T_IN_PRODUCTS (t_out(0) / 64)
#define T_FIRST_SUMS (T_OUT_PRODUCTS * T_OUT_EIGHTS)
#define T_EDGE_SUMS (T_FIRST_SUMS + T_IN_PRODUCTS * T_IN_EIGHTS)
