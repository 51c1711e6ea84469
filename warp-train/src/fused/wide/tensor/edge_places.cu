// Gradients of outer layers: where the sums of the first pass belong.

// Number e of slot `slot` of a thread's sums, to the parameter that it is the gradient of, if there is one.
__device__ inline void t_write_edge(float* to, int slot, int thread, int e, float sum) {
    int warp = thread / 32, g = thread % 32 / 4, q = thread % 4;
    bool first = slot >= T_FIRST_SUMS;
    int of = first ? slot - T_FIRST_SUMS : slot, eights = first ? T_IN_EIGHTS : T_OUT_EIGHTS;
    int product = of / eights, column = of % eights * 8 + 2 * q + e % 2;
    int products = first ? T_IN_PRODUCTS : T_OUT_PRODUCTS - 1;
    int feature = t_true((warp * products + product) * 16 + g + e / 2 * 8);
    if (first) {
        if (feature >= t_real_out(0) || column > T_IN) return;
        unsigned int at = column < T_IN ? feature * T_IN + column : t_real_out(0) * T_IN + feature;
        to[t_weights(0) + at] = sum;
    } else if (product == products) {
        // All lines of the product with ones are alike.
        TPartial partial = {to, true};
        if (warp == 0 && g == 0 && e < 2) t_write_bias<T_DEPTH>(partial, column, sum);
    } else {
        int o = t_output<T_DEPTH>(column);
        if (o >= 0 && feature < t_real_in(T_DEPTH)) to[t_weights(T_DEPTH) + o * t_real_in(T_DEPTH) + feature] = sum;
    }
}
