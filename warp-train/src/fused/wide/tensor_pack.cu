// The weights of a tower as products take them.

// Biases [T_BIASES] and the image of the weights, from the parameters; one thread per 2 bytes.
extern "C" __global__ void wide_pack(const PackArgs a) {
    unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < T_BIASES) a.biases[at] = 0.0f;
    #pragma unroll
    for (int l = 0; l <= T_DEPTH; ++l) {
        int i = (int)at - t_bias_at(l);
        if (l < T_DEPTH && i >= 0 && i < t_real_out(l)) {
            a.biases[at] = a.parameters[t_weights(l) + t_real_out(l) * t_real_in(l) + i];
        }
    }
    int o = (int)at - t_bias_at(T_DEPTH);
    int r = o < T_GAP_AT ? o : o - T_GAP;
    if (o >= 0 && o < T_N && r < T_OUTS && (o < T_GAP_AT || r >= T_GAP_AT)) {
        a.biases[at] = a.parameters[t_weights(T_DEPTH) + T_OUTS * t_real_in(T_DEPTH) + r];
    }
    if (at * 2 >= T_IMAGE) return;
    #pragma unroll
    for (int l = 0; l <= T_DEPTH; ++l) {
        if (at * 2 < t_image_at(l) || at * 2 >= t_image_at(l) + t_image(l)) continue;
        unsigned int byte = at * 2 - t_image_at(l);
        unsigned int whole = t_in(l) / 64 * t_out(l) * 128;
        int row, column;
        if (byte < whole) {
            unsigned int block = byte / (t_out(l) * 128), inner = byte % (t_out(l) * 128);
            row = inner / 128;
            column = block * 64 + ((inner / 16 % 8) ^ (row % 8)) * 8 + inner % 16 / 2;
        } else {
            unsigned int block = (byte - whole) / (t_out(l) * 32);
            unsigned int inner = (byte - whole) % (t_out(l) * 32);
            row = inner / 32;
            column = t_in(l) / 64 * 64 + block * 16 + ((inner / 16 % 2) ^ (row / 4 % 2)) * 8 +
                     inner % 16 / 2;
        }
        int from = l < T_DEPTH || row < T_GAP_AT ? row : row - T_GAP;
        bool real = from < t_real_out(l) && column < t_real_in(l) &&
                    (l < T_DEPTH || row < T_GAP_AT || from >= T_GAP_AT);
        float w = real ? a.parameters[t_weights(l) + from * t_real_in(l) + column] : 0.0f;
        unsigned short h;
        asm("cvt.rn.satfinite." HALF_TYPE ".f32 %0, %1;" : "=h"(h) : "f"(w));
        a.image[at] = h;
    }
}
