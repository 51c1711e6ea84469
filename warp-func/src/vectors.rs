//! Work compiled for each width of vector units, and run with the widest that the machine has.
//!
//! No instruction set changes a result: bodies never use fused multiply-add.
#![expect(unsafe_code, reason = "calls functions compiled for vector units found at run time")]

/// Something to be done, always inlined into a function per width. No closure may stand between it and the
/// bodies: that would keep them from being compiled for the caller's vectors.
pub(crate) trait Work {
    /// Does it.
    fn run(self);
}

/// Does `work` with the widest vectors there are.
pub(crate) fn widest<W: Work>(work: W) {
    #[cfg(target_arch = "x86_64")]
    {
        // The answers are cached by the standard library; asking costs a load and a test.
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
        {
            // SAFETY: the features were just found.
            return unsafe { run_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just found.
            return unsafe { run_avx2(work) };
        }
    }
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
fn run_avx512<W: Work>(work: W) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<W: Work>(work: W) {
    work.run();
}
