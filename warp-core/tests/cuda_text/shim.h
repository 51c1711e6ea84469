// What the CUDA text needs of CUDA, for a host compiler.
#pragma once
#include <math.h>
#include <string.h>

#define __device__

static inline int __float_as_int(float x) {
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float __int_as_float(int bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
