// An operand of a product: element `p` along the sum of line `i` lies at `from[at(i, p)]`, where there are
// so many lines; further ones are `beyond`.
template <class F> struct WideOperand {
    const float* from;
    unsigned int lines;
    float beyond;
    F at;
    __device__ inline float operator()(int i, unsigned int p) const {
        return i < lines ? from[at(i, p)] : beyond;
    }
};
template <class F>
__device__ inline WideOperand<F> wide_operand(const float* from, unsigned int lines, F at,
                                              float beyond = 0.0f) {
    return {from, lines, beyond, at};
}
