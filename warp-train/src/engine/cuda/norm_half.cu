// Normalises hidden layers in half precision, among a tile's numbers in shared memory: a warp takes a row at a time. Blocks
// that share a pass do so each with its own copy, and each keeps some of the rows.

// A layer's normalisation of a tile's rows, of whose columns the first `width` are real.
struct NormOf {
    // From the tile's first row, if they are kept: numbers of mean 0 and deviation 1, as the forward pass has operands; and
    // one over the deviation.
    Half* unit;
    float* inverse;
    const float *gain, *shift;
    int width;
};

// What is kept of the way back, from the tile's first row, if it is: what derivatives by gains and shifts are summed of,
// and derivatives by the layer's sums.
struct KeptOfNorm {
    Kept *gains, *shifts, *sums;
};

// The sum of what the lanes of a warp have, in a fixed order; every lane gets it.
__device__ inline float sum_of_lanes(float x) {
#pragma unroll
    for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(~0u, x, other);
    return x;
}

// Two operands of the forward pass.
__device__ inline float2 numbers_of_two(unsigned int two) {
    if (BF16) return make_float2(low_of_two(two), high_of_two(two));
    float2 numbers;
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(numbers.x), "=f"(numbers.y) : "r"(two));
    return numbers;
}

// What a lane has of N numbers: two neighbours of every 64.
template <int N>
struct OfLane {
    static constexpr int PAIRS = (N + 63) / 64;
    static __device__ inline int column(int i) { return 64 * i + threadIdx.x % 32 * 2; }
    static __device__ inline bool exists(int i) { return N % 64 == 0 || column(i) < N; }
};

// Gains and shifts of a lane's numbers; those of padding are 0.
template <int N>
struct GainsOfLane {
    float2 gain[OfLane<N>::PAIRS], shift[OfLane<N>::PAIRS];
    __device__ inline GainsOfLane(const NormOf& of) {
#pragma unroll
        for (int i = 0; i < OfLane<N>::PAIRS; ++i) {
            gain[i] = shift[i] = make_float2(0.0f, 0.0f);
            if (!OfLane<N>::exists(i)) continue;
            gain[i] = *(const float2*)(of.gain + OfLane<N>::column(i));
            shift[i] = *(const float2*)(of.shift + OfLane<N>::column(i));
        }
    }
    __device__ inline float2 of(int i, float2 unit) const {
        return make_float2(unit.x * gain[i].x + shift[i].x, unit.y * gain[i].y + shift[i].y);
    }
};

// Sums in y [TILE_ROWS, N + 8] become activated outputs, which are kept in `outputs`, if they are.
template <int N, Epilogue EPILOGUE>
__device__ __noinline__ void normalise(Half* y, NormOf of, Kept* outputs) {
    typedef OfLane<N> Lane;
    const GainsOfLane<N> gains(of);
    for (int row = threadIdx.x / 32; row < TILE_ROWS; row += N_WARPS) {
        Half* here = y + row * (N + 8);
        float2 x[Lane::PAIRS];
        float sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (int i = 0; i < Lane::PAIRS; ++i) {
            x[i] = make_float2(0.0f, 0.0f);
            if (Lane::exists(i)) x[i] = numbers_of_two(*(const unsigned int*)(here + Lane::column(i)));
            sum += x[i].x + x[i].y;
        }
        float mean = sum_of_lanes(sum) / (float)of.width;
#pragma unroll
        for (int i = 0; i < Lane::PAIRS; ++i) {
            // Padding has no part in it.
            x[i].x = Lane::column(i) < of.width ? x[i].x - mean : 0.0f;
            x[i].y = Lane::column(i) + 1 < of.width ? x[i].y - mean : 0.0f;
            squares += x[i].x * x[i].x + x[i].y * x[i].y;
        }
        float inverse = 1.0f / sqrtf(sum_of_lanes(squares) / (float)of.width + NORM_EPSILON);
        bool keeps = row % SHARE == SHARER;
        if (of.inverse && keeps && threadIdx.x % 32 == 0) of.inverse[row] = inverse;
#pragma unroll
        for (int i = 0; i < Lane::PAIRS; ++i) {
            if (!Lane::exists(i)) continue;
            // Both ways see the same numbers.
            unsigned int unit = two_halves<false>(x[i].x * inverse, x[i].y * inverse);
            float2 h = gains.of(i, numbers_of_two(unit));
            h.x = activated(EPILOGUE, h.x);
            h.y = activated(EPILOGUE, h.y);
            *(unsigned int*)(here + Lane::column(i)) = two_halves<false>(h.x, h.y);
            if (of.unit && keeps) *(unsigned int*)(of.unit + row * N + Lane::column(i)) = unit;
            if (outputs && keeps) *(unsigned int*)(outputs + row * N + Lane::column(i)) = two_halves<true>(h.x, h.y);
        }
    }
}

// Derivatives d [TILE_ROWS, N + 8] by activated outputs become those by sums.
template <int N, Epilogue SLOPE>
__device__ __noinline__ void normalise_back(Half* d, NormOf of, KeptOfNorm kept) {
    typedef OfLane<N> Lane;
    const GainsOfLane<N> gains(of);
    for (int row = threadIdx.x / 32; row < TILE_ROWS; row += N_WARPS) {
        Half* here = d + row * (N + 8);
        float2 unit[Lane::PAIRS], by_unit[Lane::PAIRS];
        float inverse = of.inverse[row], sum = 0.0f, along = 0.0f;
        bool keeps = kept.gains && row % SHARE == SHARER;
#pragma unroll
        for (int i = 0; i < Lane::PAIRS; ++i) {
            unit[i] = by_unit[i] = make_float2(0.0f, 0.0f);
            if (!Lane::exists(i)) continue;
            unit[i] = numbers_of_two(*(const unsigned int*)(of.unit + row * N + Lane::column(i)));
        }
#pragma unroll
        for (int i = 0; i < Lane::PAIRS; ++i) {
            if (!Lane::exists(i)) continue;
            unsigned int two = *(const unsigned int*)(here + Lane::column(i));
            float2 y = gains.of(i, unit[i]);
            if (SLOPE == TANH_SLOPE) y = make_float2(warp_tanh(y.x), warp_tanh(y.y));
            float low = sloped(SLOPE, low_of_two(two), y.x), high = sloped(SLOPE, high_of_two(two), y.y);
            if (keeps) {
                *(unsigned int*)(kept.shifts + row * N + Lane::column(i)) = two_halves<true>(low, high);
                *(unsigned int*)(kept.gains + row * N + Lane::column(i)) = two_halves<true>(low * unit[i].x, high * unit[i].y);
            }
            by_unit[i] = make_float2(low * gains.gain[i].x, high * gains.gain[i].y);
            sum += by_unit[i].x + by_unit[i].y;
            along += by_unit[i].x * unit[i].x + by_unit[i].y * unit[i].y;
        }
        float mean = sum_of_lanes(sum) / (float)of.width;
        along = sum_of_lanes(along) / (float)of.width;
#pragma unroll
        for (int i = 0; i < Lane::PAIRS; ++i) {
            if (!Lane::exists(i)) continue;
            float low = inverse * (by_unit[i].x - mean - unit[i].x * along);
            float high = inverse * (by_unit[i].y - mean - unit[i].y * along);
            low = Lane::column(i) < of.width ? low : 0.0f;
            high = Lane::column(i) + 1 < of.width ? high : 0.0f;
            unsigned int two = two_halves<true>(low, high);
            *(unsigned int*)(here + Lane::column(i)) = two;
            if (kept.sums && row % SHARE == SHARER) *(unsigned int*)(kept.sums + row * N + Lane::column(i)) = two;
        }
    }
}
