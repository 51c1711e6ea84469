//! Names that a text cannot use, since C++, its library or the generated code has them.

/// Words that C++ keeps for itself and that are names in Rust, if need be behind `r#`.
const WORDS: &str = "\
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t \
    class compl const const_cast constexpr continue decltype default delete do double \
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long \
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public \
    register reinterpret_cast return short signed sizeof static static_assert static_cast struct \
    switch template this thread_local throw true try typedef typeid typename union unsigned using \
    virtual void volatile wchar_t while xor xor_eq";

/// Names that CUDA has, and macros.
const KEPT: &str = "\
    threadIdx blockIdx blockDim gridDim warpSize min max abs assert NULL EOF errno stdin stdout \
    stderr signbit isnan isinf isfinite linux unix BUFSIZ CHAR_BIT EXIT_FAILURE EXIT_SUCCESS \
    FLT_EPSILON FLT_MAX FLT_MIN HUGE_VAL INFINITY INT_MAX INT_MIN LONG_MAX LONG_MIN M_E M_PI NAN \
    RAND_MAX UINT_MAX";

/// Functions that generated code calls, which a variable would hide.
const CALLED: &str = "\
    fabsf floorf ceilf truncf roundf copysignf fmodf sqrtf fmaf fminf fmaxf";

/// Functions of C's library and of CUDA that take numbers: a function with such a name and the same
/// parameters would be declared twice. Those of floats exist with an `f` behind them, too.
const FLOATS: &str = "\
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 \
    expm1 fabs fdim floor fma fmax fmin fmod hypot j0 j1 lgamma log log10 log1p log2 logb \
    nearbyint nextafter pow remainder rint round rsqrt scalb sin sinh sqrt tan tanh tgamma trunc \
    y0 y1";
const LIBRARY: &str = "\
    abort alarm atexit clock clock64 close div dup exit ffs fork getchar getpid isalnum isalpha \
    isatty isdigit islower ispunct isspace isupper kill labs ldexp ldiv llabs lldiv llround \
    llrint lrint lround mul24 nice norm normcdf pause putchar raise rand random saturate sincos \
    sleep srand srandom sync tolower toupper umax umin umul24 usleep";

/// What CUDA has vectors of, which are called so with their dimension behind it.
const VECTORS: &str = "\
    char double float int long longlong short uchar uint ulong ulonglong ushort";

/// Names of the text around a body.
const AROUND: &str = "\
    Env State Params Actions StepOut Observation N_GROUPS reset step observe main work groups \
    fields tables seed terminated truncated finish leads";

/// Whether a word is in a list.
fn within(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|other| other == word)
}

/// Whether a name begins as those do that compilers and the framework keep for themselves.
fn framework(name: &str) -> bool {
    ["__", "warp_", "Warp", "WARP_"].iter().any(|start| name.starts_with(start))
}

/// A Rust name as C takes it: letters that are not ASCII, which NVRTC refuses, become their numbers.
pub(crate) fn c_name(name: &str) -> String {
    let name = name.strip_prefix("r#").unwrap_or(name);
    if within(WORDS, name) || within(KEPT, name) {
        return format!("{name}_");
    }
    let letter = |c: char| match c.is_ascii() {
        true => c.to_string(),
        false => format!("u{:x}", u32::from(c)),
    };
    name.chars().map(letter).collect()
}

/// Whether C++ takes a name as it is.
pub(crate) fn is_name(name: &str) -> bool {
    name.is_ascii() && !within(WORDS, name)
}

/// [`c_name`] of a variable.
pub(super) fn local_name(name: &str) -> String {
    let plain = c_name(name);
    if within(CALLED, &plain) || framework(&plain) { format!("{plain}_") } else { plain }
}

/// Whether CUDA has a type with a name.
fn is_type(name: &str) -> bool {
    let of = name.strip_suffix(['1', '2', '3', '4']);
    name == "dim3" || of.is_some_and(|of| within(VECTORS, of))
}

/// [`c_name`] of a function, a constant, a struct or an enum.
pub(super) fn item_name(name: &str) -> String {
    let plain = local_name(name);
    let float = within(FLOATS, plain.strip_suffix('f').unwrap_or(&plain));
    let function = float || within(FLOATS, &plain) || within(LIBRARY, &plain);
    let taken = function || is_type(&plain);
    if taken { format!("{plain}_") } else { plain }
}

/// Whether the text around a body has a name.
pub(super) fn around(name: &str) -> bool {
    within(AROUND, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_get_an_underscore() {
        assert_eq!([c_name("int"), c_name("rand"), c_name("union")], ["int_", "rand", "union_"]);
        assert_eq!([c_name("r#try"), c_name("r#type"), c_name("Δθ")], ["try_", "type", "u394u3b8"]);
        assert_eq!(
            [local_name("fabsf"), local_name("warp_min"), local_name("rand")].join(" "),
            "fabsf_ warp_min_ rand"
        );
        let items =
            ["rand", "floor", "floorf", "__x", "fabsf", "WarpDraw", "half", "cf"].map(item_name);
        assert_eq!(items.join(" "), "rand_ floor_ floorf_ __x_ fabsf_ WarpDraw_ half cf");
        let types = ["dim3", "float4", "ulonglong2", "float5", "point2"].map(item_name);
        assert_eq!(types.join(" "), "dim3_ float4_ ulonglong2_ float5 point2");
    }
}
