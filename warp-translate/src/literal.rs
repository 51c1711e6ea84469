//! Numbers as C++ writes them, with the same bits.

use crate::types::Ty;

/// A float of any value.
pub(crate) fn float(value: f32) -> String {
    if value.is_nan() {
        return "WARP_NAN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "WARP_INFINITY".into() } else { "-WARP_INFINITY".into() };
    }
    let plain = format!("{value:?}");
    let short = if plain.len() > 14 { format!("{value:e}") } else { plain };
    written(&short)
}

/// A float as it was written in Rust, without underscores and suffix.
pub(crate) fn written(digits: &str) -> String {
    let mut text = digits.to_string();
    if text.ends_with('.') {
        text.push('0');
    }
    if !text.contains(['.', 'e', 'E']) {
        text.push_str(".0");
    }
    // A compiler may round to f64 first; where that leads elsewhere the number is said exactly.
    let (exact, twice) = (text.parse::<f32>(), text.parse::<f64>());
    match (exact, twice) {
        (Ok(exact), Ok(twice)) if exact.to_bits() != (twice as f32).to_bits() => {
            let (mantissa, exponent) = (exact.to_bits() & 0x7f_ffff, exact.to_bits() >> 23 & 0xff);
            let mantissa = if exponent == 0 { mantissa } else { mantissa | 0x80_0000 };
            format!("0x{mantissa:x}p{}f", exponent.max(1) as i32 - 150)
        }
        _ => format!("{text}f"),
    }
}

/// An integer literal of a type.
pub(crate) fn int(value: u128, hex: bool, ty: &Ty) -> String {
    let suffix = match ty {
        Ty::U32 | Ty::Usize => "u",
        Ty::I64 => "ll",
        Ty::U64 => "ull",
        _ => "",
    };
    if hex { format!("0x{value:x}{suffix}") } else { format!("{value}{suffix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_digits_and_their_bits() {
        assert_eq!(written("0.20943951"), "0.20943951f");
        assert_eq!(written("2."), "2.0f");
        assert_eq!(written("1e-10"), "1e-10f");
        assert_eq!(written("3"), "3.0f");
        // Half-way between two floats but for its last digits: f64 rounds it onto the half.
        let twice = "1.00000017881393432617187499";
        assert_eq!(twice.parse::<f32>().unwrap().to_bits(), 0x3f80_0001);
        assert_eq!(written(twice), "0x800001p-23f");
        assert_eq!(float(f32::MAX), "3.4028235e38f");
        assert_eq!(float(std::f32::consts::PI), "3.1415927f");
        assert_eq!(float(f32::NEG_INFINITY), "-WARP_INFINITY");
        assert_eq!(float(f32::NAN), "WARP_NAN");
    }

    #[test]
    fn integers_have_the_suffix_of_their_type() {
        assert_eq!(int(7, false, &Ty::I32), "7");
        assert_eq!(int(255, true, &Ty::U32), "0xffu");
        assert_eq!(int(1, false, &Ty::U64), "1ull");
        assert_eq!(int(1, false, &Ty::U8), "1");
    }
}
