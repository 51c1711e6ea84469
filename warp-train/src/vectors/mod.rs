//! Work on many numbers, compiled for every vector width and run with the widest that the machine has.
//!
//! Each kind of work is a [`Work`]; its elements do not depend on each other, or are summed in an order
//! that the width does not change, so results have the same bits for every vector width.
#![expect(unsafe_code, reason = "calls functions compiled for vector units found at run time")]

mod transpose;

pub(crate) use transpose::{Matrix, transpose};

/// Something to be done; inlined into a function per vector width.
pub(crate) trait Work {
    /// What comes of it.
    type Output;

    /// Does it. Implementations are always inlined.
    fn run(self) -> Self::Output;
}

/// Does `work` with the widest vectors there are.
#[inline]
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the features were just found.
            return unsafe { run_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the features were just found.
            return unsafe { run_avx2(work) };
        }
    }
    work.run()
}

/// Whether [`run`] has vector units that multiply and add with one rounding.
pub(crate) fn fuses() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn run_avx512<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}
