// Draws a file of rows with the functions of sample.cuh; `policy.cuh` says what they are. Rows in:
// agent, replica, step, then outputs as floats and the mask as words. Rows out: for the drawn, the
// greedy and the random action, and for means with noise, everything that is known.
#include <stdio.h>
#include <vector>

#include "host_shim.h"
#include "sample.cuh"
#include "policy.cuh"

static std::vector<unsigned int> out;

static void put(float x) { out.push_back(warp_bits(x)); }

template <bool greedy, bool in_memory>
static void sample(const float* outputs, const unsigned char* mask, const WarpDraw& draw) {
    WarpSampled row;
    if constexpr (Policy::boxed) {
        float raw[Policy::actions], bounded[Policy::actions];
        row = warp_sample_box<Policy, greedy>(outputs, outputs + Policy::actions, draw, raw, bounded);
        for (int i = 0; i < Policy::actions; ++i) put(raw[i]);
        for (int i = 0; i < Policy::actions; ++i) put(bounded[i]);
    } else {
        int actions[Policy::actions];
        row = warp_sample_heads<Policy, greedy, in_memory>(outputs, mask, draw, actions);
        for (int i = 0; i < Policy::actions; ++i) out.push_back((unsigned int)actions[i]);
    }
    put(row.log_prob);
    put(row.entropy);
    out.push_back(row.sound ? 1u : 0u);
}

static void random_and_noise(const float* outputs, const unsigned char* mask, const WarpDraw& any,
                             const WarpDraw& noise) {
    if constexpr (Policy::boxed) {
        float bounded[Policy::actions], x[Policy::actions];
        warp_random_box<Policy>(any, bounded);
        for (int i = 0; i < Policy::actions; ++i) put(bounded[i]);
        for (int i = 0; i < Policy::actions; ++i) x[i] = outputs[Policy::actions + i];
        WarpNoise by = {0.15f, 0.2f, 0.7f};
        warp_noisy_box<Policy>(outputs, by, noise, x, bounded);
        for (int i = 0; i < Policy::actions; ++i) put(x[i]);
        for (int i = 0; i < Policy::actions; ++i) put(bounded[i]);
    } else {
        int actions[Policy::actions];
        warp_random_heads<Policy>(mask, any, actions);
        for (int i = 0; i < Policy::actions; ++i) out.push_back((unsigned int)actions[i]);
    }
}

static WarpDraw stream(const unsigned int* in, unsigned int purpose) {
    WarpDraw replica = warp_draw(0x123456789abcdefull, in[1], in[2], purpose);
    return warp_draw_agent(&replica, in[0]);
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    FILE* input = fopen(argv[1], "rb");
    FILE* output = fopen(argv[2], "wb");
    if (!input || !output) return 3;
    std::vector<unsigned int> in(3 + 2 * Policy::width);
    while (fread(in.data(), 4, in.size(), input) == in.size()) {
        float outputs[Policy::width];
        unsigned char mask[Policy::width];
        for (int i = 0; i < Policy::width; ++i) {
            outputs[i] = warp_float(in[3 + i]);
            mask[i] = (unsigned char)in[3 + Policy::width + i];
        }
        WarpDraw draw = stream(in.data(), WARP_PURPOSE_ACTION);
        sample<false, true>(outputs, mask, draw);
        sample<false, false>(outputs, mask, draw);
        sample<true, true>(outputs, mask, draw);
        random_and_noise(outputs, mask, stream(in.data(), WARP_PURPOSE_RANDOM_ACTION),
                         stream(in.data(), WARP_PURPOSE_NOISE));
    }
    if (fwrite(out.data(), 4, out.size(), output) != out.size()) return 4;
    return fclose(output) == 0 ? 0 : 5;
}
