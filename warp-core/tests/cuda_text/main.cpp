// Reads rows of (x, modulus, replica, agent, step) and writes for each the record that cuda_text.rs
// lists.
#include "host_shim.h"

#include "draw.cuh"

#include <stdio.h>

static const unsigned int PURPOSES[7] = {
    WARP_PURPOSE_RESET,   WARP_PURPOSE_STEP,       WARP_PURPOSE_ACTION, WARP_PURPOSE_RANDOM_ACTION,
    WARP_PURPOSE_SHUFFLE, WARP_PURPOSE_INITIALISE, WARP_PURPOSE_NOISE};

static void record(const unsigned int* in, unsigned int purpose, unsigned int* out) {
    float x = warp_float(in[0]);
    unsigned int replica = in[2], agent = in[3], step = in[4];
    WarpWords counter = {replica, agent, step, in[0]};
    WarpWords words = warp_philox4x32_10(counter, agent, replica);
    unsigned long long seed = ((unsigned long long)agent << 32) | step;
    WarpDraw draw = warp_draw(seed, replica, step, purpose);
    *out++ = warp_bits(warp_sin(x));
    *out++ = warp_bits(warp_cos(x));
    *out++ = warp_bits(warp_exp(x));
    *out++ = warp_bits(warp_ln(x));
    *out++ = warp_bits(warp_tanh(x));
    *out++ = warp_bits(warp_wrap_angle(x));
    *out++ = warp_bits(warp_modulo(x, warp_float(in[1])));
    *out++ = warp_bits(warp_sqrt(x));
    *out++ = words.x;
    *out++ = words.y;
    *out++ = words.z;
    *out++ = words.w;
    *out++ = warp_draw_u32(&draw);
    *out++ = warp_bits(warp_draw_uniform(&draw));
    *out++ = warp_bits(warp_draw_uniform_in(&draw, -0.7f, 1.9f));
    *out++ = warp_draw_below(&draw, agent);
    *out++ = warp_bits(warp_draw_normal(&draw));
    for (int i = 0; i < 14; ++i) warp_draw_u32(&draw);
    *out++ = warp_draw_u32(&draw);
    WarpDraw of_agent = warp_draw_agent(&draw, agent);
    *out++ = warp_draw_u32(&of_agent);
    *out++ = warp_bits(warp_draw_normal(&of_agent));
    *out++ = purpose;
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    FILE* input = fopen(argv[1], "rb");
    FILE* output = fopen(argv[2], "wb");
    if (!input || !output) return 3;
    unsigned int in[5], out[21];
    for (int i = 0; fread(in, sizeof in, 1, input) == 1; ++i) {
        record(in, PURPOSES[i % 7], out);
        if (fwrite(out, sizeof out, 1, output) != 1) return 4;
    }
    return fclose(output) == 0 ? 0 : 5;
}
