// Elementary functions in f32: the twin of math.rs, operation by operation. What each promises is
// said there. Build it with --fmad=false --ftz=false --prec-div=true --prec-sqrt=true (host:
// -ffp-contract=off) and the bits are those of the Rust functions.
#pragma once

#define WARP_ROUND 12582912.0f
#define WARP_SIGN 0x80000000u
#define WARP_SQRT_HALF_BITS 0x3f3504f3u
#define WARP_PI 3.14159274f

__device__ inline unsigned int warp_bits(float x) { return (unsigned int)__float_as_int(x); }
__device__ inline float warp_float(unsigned int bits) { return __int_as_float((int)bits); }
__device__ inline float warp_flip(float value, unsigned int sign) {
    return warp_float(warp_bits(value) ^ sign);
}

// Of two zeros the second. NVIDIA's compiler makes a minimum of `a < 0.0f ? a : 0.0f`, for which -0 is less
// than 0; what it cannot read it leaves alone. The release build need not keep bits.
#if defined(WARP_HOST) || defined(WARP_RELEASE)
__device__ inline float warp_min(float a, float b) { return a < b ? a : b; }
__device__ inline float warp_max(float a, float b) { return a > b ? a : b; }
#else
__device__ inline float warp_min(float a, float b) {
    float least;
    asm("{ .reg .pred p; setp.lt.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }" : "=f"(least) : "f"(a), "f"(b));
    return least;
}
__device__ inline float warp_max(float a, float b) {
    float most;
    asm("{ .reg .pred p; setp.gt.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }" : "=f"(most) : "f"(a), "f"(b));
    return most;
}
#endif

__device__ inline float warp_clamp(float x, float bound) {
    x = x > bound ? bound : x;
    return x < -bound ? -bound : x;
}

__device__ inline float warp_quadrant(float a, unsigned int* multiple) {
    float shifted = a * 0.63661975f + WARP_ROUND;
    float k = shifted - WARP_ROUND;
    float r = ((a - k * 1.5703125f) - k * 4.837513e-4f) - k * 7.54979e-8f;
    *multiple = warp_bits(shifted);
    return warp_clamp(r, 0.79f);
}

__device__ inline void warp_sin_cos(float x, float* sin_x, float* cos_x) {
    unsigned int sign = warp_bits(x) & WARP_SIGN;
    unsigned int k;
    float r = warp_quadrant(warp_flip(x, sign), &k);
    float r2 = r * r;
    float s = r + (r * r2) * (-0.16666654f + r2 * (0.008332133f + r2 * -1.9511458e-4f));
    float c = (1.0f - 0.5f * r2) +
              (r2 * r2) * (0.041666646f + r2 * (-0.0013887278f + r2 * 2.4428786e-5f));
    bool odd = (k & 1u) == 1u;
    *sin_x = warp_flip(odd ? c : s, ((k & 2u) << 30) ^ sign);
    *cos_x = warp_flip(odd ? s : c, ((k + 1u) & 2u) << 30);
}

__device__ inline float warp_sin(float x) {
    float s, c;
    warp_sin_cos(x, &s, &c);
    return s;
}

__device__ inline float warp_cos(float x) {
    float s, c;
    warp_sin_cos(x, &s, &c);
    return c;
}

__device__ inline float warp_sqrt(float x) { return sqrtf(x); }

__device__ inline float warp_power_of_two(int n) {
    return warp_float(((unsigned int)n + 127u) << 23);
}

__device__ inline float warp_exp(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float shifted = x * 1.44269504f + WARP_ROUND;
    float k = shifted - WARP_ROUND;
    float r = (x - k * 0.693359375f) - k * -2.1219444e-4f;
    float tail =
        0.49999994f + r * (0.1666652f + r * (0.041668393f + r * (0.008368781f + r * 0.0013814467f)));
    float p = 1.0f + (r + (r * r) * tail);
    int n = (int)(warp_bits(shifted) - warp_bits(WARP_ROUND));
    int half = n >> 1;
    // Unsigned, as n means nothing for a NaN and signed overflow would be undefined.
    int rest = (int)((unsigned int)n - (unsigned int)half);
    return (p * warp_power_of_two(half)) * warp_power_of_two(rest);
}

__device__ inline float warp_ln(float x) {
    bool subnormal = x < 1.17549435e-38f;
    float scaled = subnormal ? x * 8388608.0f : x;
    int shift = subnormal ? 23 : 0;
    unsigned int bits = warp_bits(scaled) - WARP_SQRT_HALF_BITS;
    float e = (float)(((int)bits >> 23) - shift);
    float f = warp_float((bits & 0x007fffffu) + WARP_SQRT_HALF_BITS) - 1.0f;
    float f2 = f * f;
    float high = 0.1421952f +
                 f * (-0.12405544f + f * (0.11888378f + f * (-0.1167605f + f * 0.06746635f)));
    float tail = (f * f2) *
                 (0.33333313f + f * (-0.2500001f + f * (0.2000212f + f * (-0.16667996f + f * high))));
    float y = (f + ((tail + e * -2.1219444e-4f) - 0.5f * f2)) + e * 0.693359375f;
    y = x < warp_float(0x7f800000u) ? y : x;
    y = x == 0.0f ? warp_float(0xff800000u) : y;
    return x < 0.0f ? warp_float(0x7fc00000u) : y;
}

__device__ inline float warp_tanh(float x) {
    unsigned int sign = warp_bits(x) & WARP_SIGN;
    float a = warp_flip(x, sign);
    float y = a * a;
    float p = 0.0038703126f + y * (2.8046014e-5f + y * (3.067143e-8f + y * -1.2261977e-11f));
    float q = 0.027253162f + y * (3.9420798e-4f + y * 1.2899754e-6f);
    float t = (a * (1.0f + y * (0.13681519f + y * p))) / (1.0f + y * (0.47014853f + y * q));
    t = t > 1.0f ? 1.0f : t;
    return warp_flip(a > 9.01f ? 1.0f : t, sign);
}

__device__ inline float warp_less_turns(float x, float turns) {
    return ((x - turns * 6.28125f) - turns * 0.0019350052f) - turns * 3.019916e-7f;
}

__device__ inline float warp_wrap_angle(float x) {
    float r = warp_less_turns(x, (x * 0.15915494f + WARP_ROUND) - WARP_ROUND);
    float again = r > WARP_PI ? 1.0f : 0.0f;
    again = r < -WARP_PI ? -1.0f : again;
    return warp_clamp(warp_less_turns(r, again), WARP_PI);
}

__device__ inline float warp_modulo(float x, float m) {
    float k = (x / m + WARP_ROUND) - WARP_ROUND;
    float high = warp_float(warp_bits(m) & 0xfffff000u);
    float r = (x - k * high) - k * (m - high);
    r = r < 0.0f ? r + m : r;
    r = r >= m ? 0.0f : r;
    return r < 0.0f ? 0.0f : r;
}
