//! Exponentials and logarithms with the bits of glibc's `expf` and `logf`, but without branches and calls, so that a
//! loop over many numbers becomes vectors.
//!
//! Formulas and constants are those of Arm's optimized routines, which glibc has, too: a range reduction, a table and
//! a polynomial in f64, where products and sums are fused. Where the machine can't fuse them, the platform's functions
//! are called.

use std::f64::consts::{LN_2, SQRT_2};

/// `2^(i / 32)`.
const ROOTS: [f64; 32] = [
    1.0,
    1.0218971486541166,
    1.0442737824274138,
    1.0671404006768237,
    1.0905077326652577,
    1.1143867425958924,
    1.1387886347566916,
    1.1637248587775775,
    1.189207115002721,
    1.215247359980469,
    1.241857812073484,
    1.2690509571917332,
    1.2968395546510096,
    1.3252366431597413,
    1.3542555469368927,
    1.383909881963832,
    SQRT_2,
    1.4451808069770467,
    1.4768261459394993,
    1.5091644275934228,
    1.5422108254079407,
    1.5759808451078865,
    1.6104903319492543,
    1.645755478153965,
    1.681792830507429,
    1.718619298122478,
    1.7562521603732995,
    1.7947090750031072,
    1.8340080864093424,
    1.8741676341103,
    1.9152065613971474,
    1.9571441241754002,
];
const N_ROOTS: u64 = ROOTS.len() as u64;
/// 32 / ln 2.
const PER_E: f64 = 46.16624130844683;
/// `2^(r / 32) - 1` from the third power of r down to the first.
const EXP: [f64; 3] = [1.6938359250920212e-6, 2.3459809789509004e-4, 2.1660849396613134e-2];
/// `x + ROUND` has the integer nearest to x in its low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Bits of an f64's fraction above those that count the roots.
const SHIFT: u32 = 47;

/// Centres of sixteen parts of an octave: one over each, and its logarithm.
const CENTRES: [[f64; 2]; 16] = [
    [1.398907162146528, -0.33569133332882284],
    [1.3403141896637998, -0.2929040563774074],
    [1.286432210124115, -0.2518726580937369],
    [1.2367150214269895, -0.21245868807117255],
    [1.1906977166711752, -0.17453945183745634],
    [1.1479821020556429, -0.1380057072319758],
    [1.1082251448272158, -0.10275976698545139],
    [1.0711297413057381, -0.06871392447020525],
    [1.036437278977283, -0.0357891387398228],
    [1.0, 0.0],
    [0.9492859795739057, 0.05204517742929496],
    [0.8951049428609004, 0.11081431298787942],
    [0.8476821620351103, 0.1652495223695143],
    [0.8050314851692001, 0.21687389031699977],
    [0.7664671008843108, 0.2659635028121397],
    [0.731428603316328, 0.3127556664073557],
];
/// Bits of the f32 at which the octave begins.
const OCTAVE: u32 = 0x3f33_0000;
/// `ln(1 + r) - r` from the fourth power of r down to the second.
const LN: [f64; 3] = [-0.25089342214237154, 0.333456765744066, -0.4999997485802103];

/// e to the power `x`.
#[inline(always)]
pub(super) fn exp<const FUSED: bool>(x: f32) -> f32 {
    if !FUSED {
        return x.exp();
    }
    // Beyond them the result is infinite or 0.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = f64::from(if x < -104.0 { -104.0 } else { x });
    let shifted = PER_E.mul_add(x, ROUND);
    let r = PER_E.mul_add(x, -(shifted - ROUND));
    let k = shifted.to_bits();
    let root = ROOTS[(k % N_ROOTS) as usize].to_bits();
    let scale = f64::from_bits(root.wrapping_add((k - k % N_ROOTS) << SHIFT));
    let high = EXP[0].mul_add(r, EXP[1]);
    (high.mul_add(r * r, EXP[2].mul_add(r, 1.0)) * scale) as f32
}

/// Natural logarithm of `x`, which is a normal number, infinite or NaN, and not negative.
#[inline(always)]
pub(super) fn ln<const FUSED: bool>(x: f32) -> f32 {
    if !FUSED {
        return x.ln();
    }
    let above = x.to_bits().wrapping_sub(OCTAVE);
    let octave = f64::from(above as i32 >> 23);
    let [inverse, logarithm] = CENTRES[(above >> 19) as usize % CENTRES.len()];
    let m = f32::from_bits(x.to_bits().wrapping_sub(above & 0xff80_0000));
    let r = f64::from(m).mul_add(inverse, -1.0);
    let whole = octave.mul_add(LN_2, logarithm) + r;
    let r_2 = r * r;
    let tail = LN[0].mul_add(r_2, LN[1].mul_add(r, LN[2]));
    let y = tail.mul_add(r_2, whole) as f32;
    if x < f32::INFINITY { y } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positive numbers over the range of f32, in all octaves.
    fn positive() -> impl Iterator<Item = f32> {
        (0x0080_0000..0x7f80_0000_u32).step_by(4093).map(f32::from_bits)
    }

    /// By f64, half a unit in the last place and a little.
    fn is_near(found: f32, truth: f64) -> bool {
        let unit =
            f64::from(f32::from_bits(((truth.abs() as f32).to_bits() & 0x7f80_0000).max(1 << 23)));
        (f64::from(found) - truth).abs() <= 0.51 * unit * f64::from(f32::EPSILON)
    }

    #[test]
    fn exponentials_are_right_to_the_last_place() {
        let arguments = positive().flat_map(|x| [x, -x]).filter(|x| x.abs() < 88.7);
        for x in arguments {
            let (found, truth) = (exp::<true>(x), f64::from(x).exp());
            assert!(is_near(found, truth), "{x}: {found} {truth}");
        }
        let ends = [f32::INFINITY, 88.8, -104.1, f32::NEG_INFINITY].map(exp::<true>);
        assert_eq!(ends, [f32::INFINITY, f32::INFINITY, 0.0, 0.0]);
        assert!(exp::<true>(f32::NAN).is_nan());
        assert_eq!(exp::<true>(-0.0), 1.0);
    }

    #[test]
    fn logarithms_are_right_to_the_last_place() {
        for x in positive() {
            let (found, truth) = (ln::<true>(x), f64::from(x).ln());
            // Near 1 an error is a part of the argument's distance from it, not of the last place.
            let near_one = (f64::from(found) - truth).abs() <= 1e-7 * truth.abs();
            assert!(is_near(found, truth) || near_one, "{x}: {found} {truth}");
        }
        assert_eq!((ln::<true>(1.0), ln::<true>(f32::INFINITY)), (0.0, f32::INFINITY));
        assert!(ln::<true>(f32::NAN).is_nan());
    }

    /// Where the platform is glibc on a machine that fuses, whose functions these are.
    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
    fn bits_are_those_of_glibc() {
        use std::io::Write;
        if !crate::vectors::fuses() {
            // Past the harness, which shows nothing of tests that pass.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: bits_are_those_of_glibc: no fused arithmetic"
            );
            return;
        }
        for x in positive() {
            for x in [x, -x] {
                assert_eq!(exp::<true>(x).to_bits(), exp::<false>(x).to_bits(), "exp({x})");
            }
            assert_eq!(ln::<true>(x).to_bits(), ln::<false>(x).to_bits(), "ln({x})");
        }
    }
}
