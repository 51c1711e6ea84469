//! Element-wise functions, compiled for the vector width found at run time.
#![expect(unsafe_code, reason = "calls functions compiled for vector units found at run time")]

use super::perceptron::tanh_each;

/// tanh of each element; the same bits on every machine.
pub(super) fn tanh(values: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the features were just found.
            return unsafe { tanh_avx512(values) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just found.
            return unsafe { tanh_avx2(values) };
        }
    }
    tanh_each(values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn tanh_avx512(values: &mut [f32]) {
    tanh_each(values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn tanh_avx2(values: &mut [f32]) {
    tanh_each(values);
}
