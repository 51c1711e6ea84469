//! What a body may call that is not its own: methods of numbers, `math`, `Draw`.

use crate::ir::{Builtin, Form};
use crate::types::Ty;

/// What a call means.
pub(crate) struct Signature {
    pub(crate) builtin: Builtin,
    /// Types of the arguments, the receiver's left out.
    pub(crate) args: Vec<Ty>,
    pub(crate) output: Ty,
}

fn signature(name: impl Into<String>, args: Vec<Ty>, output: Ty) -> Signature {
    Signature { builtin: Builtin { name: name.into(), form: Form::Call }, args, output }
}

/// A method of `f32`, or why there is none.
pub(crate) fn float_method(name: &str) -> Result<Signature, String> {
    use Ty::{Bool, F32, U32};
    let one = |c: &str| Ok(signature(c, vec![], F32));
    match name {
        "abs" => one("fabsf"),
        "floor" => one("floorf"),
        "ceil" => one("ceilf"),
        "trunc" => one("truncf"),
        "round" => one("roundf"),
        "sqrt" => one("warp_sqrt"),
        "signum" => one("warp_signum"),
        "copysign" => Ok(signature("copysignf", vec![F32], F32)),
        "clamp" => Ok(signature("warp_clamp", vec![F32, F32], F32)),
        "to_bits" => Ok(signature("warp_bits", vec![], U32)),
        "is_nan" => Ok(signature("warp_is_nan", vec![], Bool)),
        "is_finite" => Ok(signature("warp_is_finite", vec![], Bool)),
        "is_infinite" => Ok(signature("warp_is_infinite", vec![], Bool)),
        "is_sign_negative" => Ok(signature("warp_is_negative", vec![], Bool)),
        "min" | "max" => Err(format!(
            "`f32::{name}` leaves the sign of zero open; use `math::{name}`, which is defined \
             everywhere"
        )),
        "sin" | "cos" | "sin_cos" | "exp" | "ln" | "tanh" => Err(format!(
            "`f32::{name}` differs from machine to machine; use `math::{name}`, which does not"
        )),
        "rem_euclid" => {
            Err("`f32::rem_euclid` does not exist on the device; use `math::modulo`".into())
        }
        "mul_add" => Err("fused operations are not supported; write `a * b + c`".into()),
        "powf" | "powi" => Err(format!(
            "`f32::{name}` differs from machine to machine; write the products, or \
             `math::exp(y * math::ln(x))`"
        )),
        _ => Err(format!("`f32::{name}` is not among the float methods that a body may call")),
    }
}

/// A method of an integer, or why there is none.
pub(crate) fn int_method(ty: &Ty, name: &str) -> Result<Signature, String> {
    let own = || ty.clone();
    let unsigned = || match ty {
        Ty::I32 => Ty::U32,
        Ty::I64 => Ty::U64,
        other => other.clone(),
    };
    let two = || Ok(signature(format!("warp_{name}"), vec![own()], own()));
    let one = |output: Ty| Ok(signature(format!("warp_{name}"), vec![], output));
    const BITS: [&str; 13] = [
        "count_ones",
        "count_zeros",
        "leading_zeros",
        "trailing_zeros",
        "rotate_left",
        "rotate_right",
        "saturating_add",
        "wrapping_add",
        "wrapping_sub",
        "wrapping_mul",
        "wrapping_neg",
        "wrapping_shl",
        "wrapping_shr",
    ];
    if *ty == Ty::Usize && BITS.contains(&name) {
        return Err(format!(
            "usize has 32 bits on a GPU, so `{name}` would differ; cast to u32 or u64 first"
        ));
    }
    match name {
        "min" | "max" | "wrapping_add" | "wrapping_sub" | "wrapping_mul" | "saturating_add"
        | "saturating_sub" | "rem_euclid" | "div_euclid" => two(),
        "clamp" => Ok(signature("warp_clamp", vec![own(), own()], own())),
        "wrapping_neg" => one(own()),
        "abs" | "signum" if ty.is_signed() => one(own()),
        "unsigned_abs" if ty.is_signed() => one(unsigned()),
        "abs_diff" => Ok(signature("warp_abs_diff", vec![own()], unsigned())),
        "count_ones" | "count_zeros" | "leading_zeros" | "trailing_zeros" => one(Ty::U32),
        "rotate_left" | "rotate_right" | "wrapping_shl" | "wrapping_shr" | "pow" => {
            Ok(signature(format!("warp_{name}"), vec![Ty::U32], own()))
        }
        _ if name.starts_with("checked_") || name.starts_with("overflowing_") => Err(format!(
            "`{name}` is not supported in a body; compare first, or use `wrapping_` or \
             `saturating_`"
        )),
        _ => Err(format!(
            "`{}::{name}` is not among the integer methods that a body may call",
            ty.rust()
        )),
    }
}

/// A function of `warp_core::math`.
pub(crate) fn math(name: &str) -> Option<Signature> {
    use Ty::F32;
    // A GPU has one exponential.
    let name = if name == "platform_exp" { "exp" } else { name };
    let n = match name {
        "sin" | "cos" | "sqrt" | "exp" | "ln" | "tanh" | "wrap_angle" => 1,
        "modulo" => 2,
        "min" | "max" => 2,
        "sin_cos" => {
            let builtin = Builtin { name: "warp_sin_cos".into(), form: Form::SinCos };
            let output = Ty::Tuple(vec![F32, F32]);
            return Some(Signature { builtin, args: vec![F32], output });
        }
        _ => return None,
    };
    Some(signature(format!("warp_{name}"), vec![F32; n], F32))
}

/// A method of `Draw`.
pub(crate) fn draw(name: &str) -> Option<Signature> {
    use Ty::{F32, U32};
    let (c, args, output) = match name {
        "uniform" => ("warp_draw_uniform", vec![], F32),
        "uniform_in" => ("warp_draw_uniform_in", vec![F32, F32], F32),
        "below" => ("warp_draw_below", vec![U32], U32),
        "normal" => ("warp_draw_normal", vec![], F32),
        "next_u32" => ("warp_draw_u32", vec![], U32),
        "agent" => ("warp_draw_agent", vec![U32], Ty::Draw),
        _ => return None,
    };
    let form = if name == "agent" { Form::Stream } else { Form::Draws };
    Some(Signature { builtin: Builtin { name: c.into(), form }, args, output })
}

/// A constant of the standard library: its type and its value in C.
pub(crate) fn constant(ty: &str, name: &str) -> Option<(Ty, String)> {
    let float = |value: f32| Some((Ty::F32, crate::literal::float(value)));
    match (ty, name) {
        ("f32", "MAX") => float(f32::MAX),
        ("f32", "MIN") => float(f32::MIN),
        ("f32", "MIN_POSITIVE") => float(f32::MIN_POSITIVE),
        ("f32", "EPSILON") => float(f32::EPSILON),
        ("f32", "INFINITY") => float(f32::INFINITY),
        ("f32", "NEG_INFINITY") => float(f32::NEG_INFINITY),
        ("f32", "NAN") => float(f32::NAN),
        ("i32", "MAX") => Some((Ty::I32, "2147483647".into())),
        ("i32", "MIN") => Some((Ty::I32, "(-2147483647 - 1)".into())),
        ("u32", "MAX") => Some((Ty::U32, "4294967295u".into())),
        ("i64", "MAX") => Some((Ty::I64, "9223372036854775807ll".into())),
        ("i64", "MIN") => Some((Ty::I64, "(-9223372036854775807ll - 1)".into())),
        ("u64", "MAX") => Some((Ty::U64, "18446744073709551615ull".into())),
        ("u8", "MAX") => Some((Ty::U8, "255".into())),
        ("u32", "MIN") => Some((Ty::U32, "0u".into())),
        ("u64", "MIN") => Some((Ty::U64, "0ull".into())),
        ("u8" | "usize", "MIN") => Some((crate::infer::primitive(ty)?, "0".into())),
        ("i32" | "u32", "BITS") => Some((Ty::U32, "32u".into())),
        ("i64" | "u64", "BITS") => Some((Ty::U32, "64u".into())),
        ("u8", "BITS") => Some((Ty::U32, "8u".into())),
        ("consts", name) => {
            use std::f32::consts as c;
            float(match name {
                "PI" => c::PI,
                "TAU" => c::TAU,
                "FRAC_PI_2" => c::FRAC_PI_2,
                "FRAC_PI_3" => c::FRAC_PI_3,
                "FRAC_PI_4" => c::FRAC_PI_4,
                "FRAC_PI_6" => c::FRAC_PI_6,
                "FRAC_PI_8" => c::FRAC_PI_8,
                "FRAC_1_PI" => c::FRAC_1_PI,
                "FRAC_2_PI" => c::FRAC_2_PI,
                "E" => c::E,
                "LN_2" => c::LN_2,
                "LN_10" => c::LN_10,
                "LOG2_E" => c::LOG2_E,
                "LOG10_E" => c::LOG10_E,
                "SQRT_2" => c::SQRT_2,
                "FRAC_1_SQRT_2" => c::FRAC_1_SQRT_2,
                _ => return None,
            })
        }
        _ => None,
    }
}
