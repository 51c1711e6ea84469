// Numbers of somebody else's, whatever their type and strides.

// The place of an element of a row.
__device__ inline long long warp_given_at(const GivenArgs& given, unsigned int row, unsigned int element) {
    long long at = (long long)given.start + (long long)row * (long long)given.strides.row;
    unsigned int left = element;
    for (int d = 2; d >= 0; --d) {
        at += (long long)(left % given.strides.size[d]) * given.strides.step[d];
        left /= given.strides.size[d];
    }
    return at;
}

// Element `i` of a number's kind, which is as DLPack has it: 0 whole, 1 whole and not negative, 2 real.
__device__ inline long long warp_whole(const GivenArgs& given, long long i) {
    const void* from = given.from;
    switch (given.kind * 256u + given.bits) {
        case 8u: return ((const signed char*)from)[i];
        case 16u: return ((const short*)from)[i];
        case 32u: return ((const int*)from)[i];
        case 64u: return ((const long long*)from)[i];
        case 256u + 8u: return ((const unsigned char*)from)[i];
        case 256u + 16u: return ((const unsigned short*)from)[i];
        case 256u + 32u: return ((const unsigned int*)from)[i];
        // Beyond what is whole and has a sign, all are outside any space.
        default: return ((const long long*)from)[i];
    }
}

__device__ inline float warp_real(const GivenArgs& given, long long i) {
    if (given.kind != 2u) return (float)warp_whole(given, i);
    return given.bits == 64u ? (float)((const double*)given.from)[i] : ((const float*)given.from)[i];
}
