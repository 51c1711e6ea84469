// What text that `warp translate` has made calls: the operations of Rust that C++ has no operator for,
// arrays as values, and slices.
#pragma once
#include "math.cuh"
#include "team.cuh"

// NVRTC lacks the built-in infinity, older host compilers the cast of bits.
#ifdef WARP_HOST
#define WARP_INFINITY __builtin_huge_valf()
#define WARP_NAN __builtin_nanf("")
#else
#define WARP_INFINITY __builtin_bit_cast(float, 0x7f800000u)
#define WARP_NAN __builtin_bit_cast(float, 0x7fc00000u)
#endif

// Indices are checked but in the GPU's release build: one that is too large stops the program.
#ifdef WARP_RELEASE
#define WARP_CHECK(holds) ((void)0)
#define WARP_INDEX(i, len) (i)
#else
__device__ inline void warp_check(bool holds) {
#ifdef WARP_HOST
    if (!holds) __builtin_trap();
#else
    if (!holds) __trap();
#endif
}
__device__ inline unsigned int warp_index(unsigned int i, unsigned int len) {
    warp_check(i < len);
    return i;
}
#define WARP_CHECK(holds) warp_check(holds)
#define WARP_INDEX(i, len) warp_index(i, len)
#endif

// An array that is copied and returned like a number.
template <class T, unsigned int N>
struct WarpArray {
    T at[N == 0 ? 1 : N];
    __device__ T& operator[](unsigned int i) { return at[WARP_INDEX(i, N)]; }
    __device__ const T& operator[](unsigned int i) const { return at[WARP_INDEX(i, N)]; }
};

template <class T, unsigned int N>
__device__ inline WarpArray<T, N> warp_filled(T value) {
    WarpArray<T, N> array;
#pragma unroll
    for (unsigned int i = 0u; i < N; ++i) array.at[i] = value;
    return array;
}

// A constant array as such a value.
template <class T, unsigned int N>
__device__ inline WarpArray<T, N> warp_copied(const T (&from)[N]) {
    WarpArray<T, N> array;
#pragma unroll
    for (unsigned int i = 0u; i < N; ++i) array.at[i] = from[i];
    return array;
}

// Elements that are somebody else's.
template <class T>
struct WarpSlice {
    T* at;
    unsigned int len;
    __device__ T& operator[](unsigned int i) const { return at[WARP_INDEX(i, len)]; }
    __device__ operator WarpSlice<const T>() const { return {at, len}; }
};

template <class T>
struct WarpSlice<const T> {
    const T* at;
    unsigned int len;
    __device__ const T& operator[](unsigned int i) const { return at[WARP_INDEX(i, len)]; }
};

template <class T>
__device__ inline WarpSlice<T> warp_slice(T* at, unsigned int len) {
    return {at, len};
}

template <class T, unsigned int N>
__device__ inline WarpSlice<T> warp_slice(WarpArray<T, N>& array) {
    return {array.at, N};
}

template <class T, unsigned int N>
__device__ inline WarpSlice<const T> warp_slice(const WarpArray<T, N>& array) {
    return {array.at, N};
}

template <class T, unsigned int N>
__device__ inline WarpSlice<const T> warp_slice(const T (&array)[N]) {
    return {array, N};
}

// Elements low up to but without high.
template <class T>
__device__ inline WarpSlice<T> warp_part(WarpSlice<T> slice, unsigned int low, unsigned int high) {
    WARP_CHECK(low <= high && high <= slice.len);
    return {slice.at + low, high - low};
}

// The element with this number; the first of numbers below 0, the last of those beyond the end.
template <class T>
__device__ inline T warp_clamped(WarpSlice<T> slice, unsigned int i) {
    return slice.at[i < slice.len ? i : slice.len - 1u];
}
template <class T>
__device__ inline T warp_clamped(WarpSlice<T> slice, int i) {
    return warp_clamped(slice, i < 0 ? 0u : (unsigned int)i);
}

template <class A, class B>
struct WarpTuple2 {
    A _0;
    B _1;
};
template <class A, class B, class C>
struct WarpTuple3 {
    A _0;
    B _1;
    C _2;
};
template <class A, class B, class C, class D>
struct WarpTuple4 {
    A _0;
    B _1;
    C _2;
    D _3;
};

// Floats.

__device__ inline bool warp_is_nan(float x) { return x != x; }
__device__ inline bool warp_is_finite(float x) { return (warp_bits(x) & 0x7f800000u) != 0x7f800000u; }
__device__ inline bool warp_is_infinite(float x) { return (warp_bits(x) & 0x7fffffffu) == 0x7f800000u; }
__device__ inline bool warp_is_negative(float x) { return (warp_bits(x) & WARP_SIGN) != 0u; }
// A NaN stays one; each zero has its sign's 1.
__device__ inline float warp_signum(float x) {
    return x != x ? x : warp_float((warp_bits(x) & WARP_SIGN) | 0x3f800000u);
}

// Numbers of any type.

template <class T>
__device__ inline T warp_clamp(T x, T low, T high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

// `as` from a float: cut towards zero, kept within the type; of a NaN 0.

__device__ inline int warp_to_int(float x) {
    if (x >= 2147483648.0f) return 2147483647;
    if (x < -2147483648.0f) return -2147483647 - 1;
    return x != x ? 0 : (int)x;
}
__device__ inline unsigned int warp_to_uint(float x) {
    if (x >= 4294967296.0f) return 4294967295u;
    return x > 0.0f ? (unsigned int)x : 0u;
}
__device__ inline long long warp_to_long(float x) {
    if (x >= 9223372036854775808.0f) return 9223372036854775807ll;
    if (x < -9223372036854775808.0f) return -9223372036854775807ll - 1;
    return x != x ? 0ll : (long long)x;
}
__device__ inline unsigned long long warp_to_ulong(float x) {
    if (x >= 18446744073709551616.0f) return 18446744073709551615ull;
    return x > 0.0f ? (unsigned long long)x : 0ull;
}
__device__ inline unsigned char warp_to_byte(float x) {
    if (x >= 255.0f) return 255;
    return x > 0.0f ? (unsigned char)x : (unsigned char)0;
}

// Integers. Arithmetic that may wrap around is done without a sign.

template <class T>
struct WarpUnsigned {
    typedef T Type;
    static constexpr bool SIGNED = false;
};
template <>
struct WarpUnsigned<int> {
    typedef unsigned int Type;
    static constexpr bool SIGNED = true;
};
template <>
struct WarpUnsigned<long long> {
    typedef unsigned long long Type;
    static constexpr bool SIGNED = true;
};

// Between T's lowest and highest number lies all of its unsigned twin.
template <class T>
__device__ constexpr T warp_highest() {
    typedef typename WarpUnsigned<T>::Type U;
    return (T)(WarpUnsigned<T>::SIGNED ? (U)~(U)0 >> 1 : (U)~(U)0);
}
template <class T>
__device__ constexpr T warp_lowest() {
    return WarpUnsigned<T>::SIGNED ? (T)(-warp_highest<T>() - 1) : (T)0;
}

// Smaller and larger of two integers.
template <class T>
__device__ inline T warp_min(T a, T b) {
    return a < b ? a : b;
}
template <class T>
__device__ inline T warp_max(T a, T b) {
    return a > b ? a : b;
}
template <class T>
__device__ inline T warp_wrapping_add(T a, T b) {
    typedef typename WarpUnsigned<T>::Type U;
    return (T)(U)((U)a + (U)b);
}
template <class T>
__device__ inline T warp_wrapping_sub(T a, T b) {
    typedef typename WarpUnsigned<T>::Type U;
    return (T)(U)((U)a - (U)b);
}
template <class T>
__device__ inline T warp_wrapping_mul(T a, T b) {
    typedef typename WarpUnsigned<T>::Type U;
    return (T)(U)((U)a * (U)b);
}
// Whether `high`, which is above `i`, is more than a step above it.
template <class T>
__device__ inline bool warp_more(T i, T high, unsigned int step) {
    typedef typename WarpUnsigned<T>::Type U;
    return (U)((U)high - (U)i) > step;
}
template <class T>
__device__ inline T warp_wrapping_neg(T a) {
    return warp_wrapping_sub((T)0, a);
}
template <class T>
__device__ inline T warp_wrapping_shl(T a, unsigned int n) {
    typedef typename WarpUnsigned<T>::Type U;
    return (T)(U)((U)a << (n & (8u * (unsigned int)sizeof(T) - 1u)));
}
template <class T>
__device__ inline T warp_wrapping_shr(T a, unsigned int n) {
    return (T)(a >> (n & (8u * (unsigned int)sizeof(T) - 1u)));
}
template <class T>
__device__ inline T warp_saturating_add(T a, T b) {
    if (b < (T)0) return a < (T)(warp_lowest<T>() - b) ? warp_lowest<T>() : (T)(a + b);
    return a > (T)(warp_highest<T>() - b) ? warp_highest<T>() : (T)(a + b);
}
template <class T>
__device__ inline T warp_saturating_sub(T a, T b) {
    if (b < (T)0) return a > (T)(warp_highest<T>() + b) ? warp_highest<T>() : (T)(a - b);
    return a < (T)(warp_lowest<T>() + b) ? warp_lowest<T>() : (T)(a - b);
}
template <class T>
__device__ inline T warp_abs(T a) {
    return a < (T)0 ? -a : a;
}
template <class T>
__device__ inline T warp_signum(T a) {
    return (T)((a > (T)0) - (a < (T)0));
}
template <class T>
__device__ inline typename WarpUnsigned<T>::Type warp_unsigned_abs(T a) {
    typedef typename WarpUnsigned<T>::Type U;
    return a < (T)0 ? (U)0 - (U)a : (U)a;
}
template <class T>
__device__ inline typename WarpUnsigned<T>::Type warp_abs_diff(T a, T b) {
    typedef typename WarpUnsigned<T>::Type U;
    return (U)(a < b ? (U)b - (U)a : (U)a - (U)b);
}
// The remainder that is not negative.
template <class T>
__device__ inline T warp_rem_euclid(T a, T b) {
    T rest = (T)(a % b);
    if (rest < (T)0) rest = (T)(b < (T)0 ? rest - b : rest + b);
    return rest;
}
template <class T>
__device__ inline T warp_div_euclid(T a, T b) {
    T whole = (T)(a / b);
    if ((T)(a % b) < (T)0) whole = (T)(b < (T)0 ? whole + 1 : whole - 1);
    return whole;
}
template <class T>
__device__ inline T warp_pow(T base, unsigned int n) {
    T result = (T)1;
    for (unsigned int i = 0u; i < n; ++i) result = (T)(result * base);
    return result;
}
template <class T>
__device__ inline unsigned int warp_count_ones(T a) {
    typename WarpUnsigned<T>::Type bits = (typename WarpUnsigned<T>::Type)a;
    unsigned int n = 0u;
    for (; bits != 0; bits = (typename WarpUnsigned<T>::Type)(bits & (bits - 1))) ++n;
    return n;
}
template <class T>
__device__ inline unsigned int warp_count_zeros(T a) {
    return 8u * (unsigned int)sizeof(T) - warp_count_ones(a);
}
template <class T>
__device__ inline unsigned int warp_leading_zeros(T a) {
    typedef typename WarpUnsigned<T>::Type U;
    unsigned int n = 8u * (unsigned int)sizeof(T);
    for (U bits = (U)a; bits != 0; bits = (U)(bits >> 1)) --n;
    return n;
}
template <class T>
__device__ inline unsigned int warp_trailing_zeros(T a) {
    typedef typename WarpUnsigned<T>::Type U;
    U bits = (U)a;
    return bits == 0 ? 8u * (unsigned int)sizeof(T) : warp_count_ones((U)((bits & ((U)0 - bits)) - (U)1));
}
template <class T>
__device__ inline T warp_rotate_left(T a, unsigned int n) {
    typedef typename WarpUnsigned<T>::Type U;
    constexpr unsigned int width = 8u * (unsigned int)sizeof(T);
    n &= width - 1u;
    return n == 0u ? a : (T)(U)((U)((U)a << n) | (U)((U)a >> (width - n)));
}
template <class T>
__device__ inline T warp_rotate_right(T a, unsigned int n) {
    return warp_rotate_left(a, (8u * (unsigned int)sizeof(T) - n) & (8u * (unsigned int)sizeof(T) - 1u));
}

// Teams.

// Adds to what others of the team may add to.
template <class T>
__device__ inline void warp_team_add(T* place, T value) {
    warp_atomic_add((int*)place, (int)value);
}

// The least of what the threads bring.
#if WARP_TEAM == 1
__device__ inline long long warp_team_least(long long own) { return own; }
#else
// The least of the lanes that differ in their lowest bits alone, `lanes` of them.
__device__ inline long long warp_lanes_least(unsigned int mask, int lanes, long long own) {
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
        long long other = __shfl_xor_sync(mask, own, apart);
        own = other < own ? other : own;
    }
    return own;
}
#if WARP_TEAM <= 32
__device__ inline long long warp_team_least(long long own) {
    warp_keep_order();
    own = warp_lanes_least(warp_lanes(), WARP_TEAM, own);
    warp_keep_order();
    return own;
}
#else
__device__ inline long long warp_team_least(long long own) {
    __shared__ long long least_of[WARP_TEAM / 32];
    own = warp_lanes_least(0xffffffffu, 32, own);
    // Those who still read what the last call brought come first.
    __syncthreads();
    if (threadIdx.x % 32u == 0u) least_of[threadIdx.x / 32u] = own;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < WARP_TEAM / 32; ++i) own = least_of[i] < own ? least_of[i] : own;
    return own;
}
#endif
#endif

// Elements that are written together: 16 bytes.
template <class T>
struct alignas(16) WarpFour {
    T at[16 / sizeof(T)];
};

// Writes element(row, column) to all of [rows, width]: neighbouring threads write neighbouring places,
// and 16 bytes at a time where rows allow it.
template <class T, class Element>
__device__ inline void warp_team_fill(T* out, unsigned int rows, unsigned int width, Element element) {
    constexpr int together = 16 / (int)sizeof(T);
    // With a sign, so that the compiler knows that places do not wrap around.
    int n = (int)(rows * width), w = (int)width;
    bool aligned = n % together == 0 && ((unsigned long long)out & 15ull) == 0ull;
    if (WARP_TEAM > 1 && w >= together && aligned) {
        for (int i = together * warp_first(); i < n; i += together * warp_stride()) {
            int row = i / w, first = i - row * w;
            WarpFour<T> four;
#pragma unroll
            for (int k = 0; k < together; ++k) {
                int column = first + k;
                // No four lie in two rows if rows are made of fours.
                bool next = w % together != 0 && column >= w;
                four.at[k] = element(next ? row + 1 : row, next ? column - w : column);
            }
            *(WarpFour<T>*)(out + i) = four;
        }
    } else {
        for (int i = warp_first(); i < n; i += warp_stride()) {
            int row = i / w;
            out[i] = element(row, i - row * w);
        }
    }
}
