// Philox4x32-10 and uniform floats: the twin of philox.rs.
#pragma once

struct WarpWords {
    unsigned int x, y, z, w;
};

__device__ inline unsigned int warp_high(unsigned long long product) {
    return (unsigned int)(product >> 32);
}

__device__ inline WarpWords warp_philox4x32_10(WarpWords c, unsigned int key0, unsigned int key1) {
    for (int i = 0; i < 10; ++i) {
        unsigned long long a = 0xD2511F53ull * c.x;
        unsigned long long b = 0xCD9E8D57ull * c.z;
        WarpWords next = {warp_high(b) ^ c.y ^ key0, (unsigned int)b,
                          warp_high(a) ^ c.w ^ key1, (unsigned int)a};
        c = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

// A float in [0, 1) from the word's top 24 bits.
__device__ inline float warp_uniform(unsigned int word) {
    return (float)(int)(word >> 8) * (1.0f / 16777216.0f);
}
