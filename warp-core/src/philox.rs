//! Philox4x32-10, the counter-based generator of all random numbers.
//!
//! A block of random bits is a pure function of a counter and a key, so random numbers need no
//! state, do not depend on the order in which threads run, and are the same on every device.
//! [`crate::draw`] defines the contents of counter and key; `philox.cuh` ([`PHILOX_CUH`]) is the
//! same function in CUDA C++.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011;
//! tested against the known-answer vectors of their library, Random123.

/// This module's functions in CUDA C++, named `warp_philox4x32_10` and `warp_uniform`.
pub const PHILOX_CUH: &str = include_str!("philox.cuh");

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: u32 = 10;

#[inline(always)]
fn round(c: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let a = u64::from(MULTIPLIERS[0]) * u64::from(c[0]);
    let b = u64::from(MULTIPLIERS[1]) * u64::from(c[2]);
    let high = |product: u64| (product >> 32) as u32;
    [high(b) ^ c[1] ^ key[0], b as u32, high(a) ^ c[3] ^ key[1], a as u32]
}

/// Four random words for one counter and one key: ten rounds of Philox4x32.
#[inline(always)]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let mut c = counter;
    let mut k = key;
    for _ in 0..ROUNDS {
        c = round(c, k);
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

/// A float in [0, 1) from the word's top 24 bits: every multiple of 2^-24 is equally likely, none
/// is rounded.
#[inline(always)]
pub fn uniform_f32(word: u32) -> f32 {
    // Through i32, which has a vector instruction where u32 has none; 24 bits are never negative.
    (word >> 8) as i32 as f32 * (1.0 / 16_777_216.0)
}

/// An integer in 0..n (0 for n = 0): the upper half of the product of n and a random word; see [`crate::Draw::below`].
#[inline(always)]
pub fn below(word: u32, n: u32) -> u32 {
    ((u64::from(word) * u64::from(n)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kat_vectors` of Random123, the three of philox4x32 with 10 rounds.
    #[test]
    fn random123_known_answers() {
        let ones = u32::MAX;
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([ones; 4], [ones; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32_10(counter, key), expected);
        }
    }

    #[test]
    fn uniform_is_half_open() {
        assert_eq!(uniform_f32(0), 0.0);
        assert_eq!(uniform_f32(255), 0.0);
        assert_eq!(uniform_f32(256), 1.0 / 16_777_216.0);
        assert_eq!(uniform_f32(1 << 31), 0.5);
        assert_eq!(uniform_f32(u32::MAX), 1.0 - 1.0 / 16_777_216.0);
    }
}
