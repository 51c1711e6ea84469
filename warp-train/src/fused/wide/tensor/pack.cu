// The weights of a tower as products take them.

// The real output of layer L that output `o` is, with padding and gap; -1 if there is none.
template <int L>
__device__ inline int t_real_output(int o) {
    int real = L < T_DEPTH || o < T_GAP_AT ? o : o - T_GAP;
    bool gap = L == T_DEPTH && o >= T_GAP_AT && real < T_GAP_AT;
    return gap || real >= t_real_out(L) ? -1 : real;
}

// The bias of output `o`, counted from layer L on.
template <int L = 0>
__device__ inline float t_bias_of(const PackArgs& a, int o) {
    if constexpr (L > T_DEPTH) {
        return 0.0f;
    } else {
        if (o >= t_out(L)) return t_bias_of<L + 1>(a, o - t_out(L));
        int real = t_real_output<L>(o);
        return real < 0 ? 0.0f : a.parameters[t_weights(L) + t_real_out(L) * t_real_in(L) + real];
    }
}

// 8 weights of neighbouring inputs as halves, 16 bytes of the image from byte `at` of layer L's on.
template <int L = 0>
__device__ inline void t_pack_weights(const PackArgs& a, unsigned int at) {
    if constexpr (L <= T_DEPTH) {
        if (at >= t_image(L)) return t_pack_weights<L + 1>(a, at - t_image(L));
        // Blocks of 64 inputs, then of 16.
        constexpr unsigned int wide = t_out(L) * 128, narrow = t_out(L) * 32, whole = t_in(L) / 64 * wide;
        bool in_wide = at < whole;
        unsigned int of = in_wide ? at : at - whole, inner = of % (in_wide ? wide : narrow);
        int row = inner / (in_wide ? 128 : 32), column;
        if (in_wide) {
            column = of / wide * 64 + ((inner / 16 % 8) ^ (row % 8)) * 8;
        } else {
            column = t_in(L) / 64 * 64 + of / narrow * 16 + ((inner / 16 % 2) ^ (row / 4 % 2)) * 8;
        }
        int real = t_real_output<L>(row);
        const float* from = a.parameters + t_weights(L) + (real < 0 ? 0 : real) * t_real_in(L);
        float w[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            bool exists = real >= 0 && column + i < t_real_in(L);
            w[i] = exists ? from[column + i] : 0.0f;
        }
        unsigned char* to = (unsigned char*)a.image + t_image_at(L) + at;
        *(uint4*)to = make_uint4(t_halves(w[0], w[1]), t_halves(w[2], w[3]), t_halves(w[4], w[5]),
                                 t_halves(w[6], w[7]));
    }
}

// Biases, gains and shifts [T_VECTORS] and the image of the weights, from the parameters; one thread per 16 bytes.
extern "C" __global__ void wide_pack(const PackArgs a) {
    unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    wait_for_previous_kernel();
    if (at < T_BIASES) a.biases[at] = t_bias_of(a, (int)at);
#if T_NORMED
    if (at >= T_BIASES && at < T_VECTORS) {
        int place = t_norm_place((int)at - T_BIASES);
        a.biases[at] = place < 0 ? 0.0f : a.parameters[place];
    }
#endif
    if (at * 16 < T_IMAGE) t_pack_weights(a, at * 16);
}
