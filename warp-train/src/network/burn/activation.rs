//! Hidden-layer activations of tensors, with a fast `tanh` for tensors on the CPU.
//!
//! burn-flex calls libm's scalar `tanh` for each element, and again in the backward pass: half of a
//! small network's training time. Here the values are taken out of the tensor, go through a
//! polynomial that the compiler vectorises, and come back; the derivative enters the graph as a
//! constant factor.

use crate::model::Activation;
use burn::tensor::{Device, Tensor, TensorData};

impl Activation {
    /// The activation of each element of `x`, a tensor of burn's, f32 `[rows, width]`.
    #[must_use]
    pub fn apply(self, x: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Relu => burn::tensor::activation::relu(x),
            Self::Tanh => fast_tanh(x),
        }
    }
}

/// `tanh` by our own polynomial where the values lie in this machine's memory, else burn's.
fn fast_tanh(x: Tensor<2>) -> Tensor<2> {
    let device = x.device();
    let plain = device.clone().without_autodiff();
    if plain != Device::flex() {
        return x.tanh();
    }
    if !device.is_autodiff() {
        let mut data = x.into_data();
        return match data.as_mut_slice::<f32>() {
            Ok(values) => {
                tanh_in_place(values);
                Tensor::from_data(data, &plain)
            }
            Err(_) => Tensor::from_data(data, &plain).tanh(),
        };
    }
    let inner = x.clone().without_autodiff();
    let mut data = inner.to_data();
    let Ok(values) = data.as_mut_slice::<f32>() else { return x.tanh() };
    tanh_in_place(values);
    let slope: Vec<f32> = values.iter().map(|y| 1.0 - y * y).collect();
    let slope = Tensor::<2>::from_data(TensorData::new(slope, data.shape().clone()), &plain);
    let y = Tensor::<2>::from_data(data, &plain);
    // x - inner is exactly zero, so the value is exactly y and the derivative exactly the slope.
    (x - inner) * slope + y
}

fn tanh_in_place(values: &mut [f32]) {
    for value in values {
        *value = tanh(*value);
    }
}

/// `tanh` as Eigen's rational approximation of degree 13 over 6: within 4e-7 of the true value
/// everywhere, odd, and never beyond 1 in magnitude. No branch and no table, so it vectorises.
#[inline]
fn tanh(x: f32) -> f32 {
    // Beyond this tanh rounds to one; NaN passes through `clamp`.
    let x = x.clamp(-7.905_311, 7.905_311);
    let x2 = x * x;
    let p = -2.760_768_5e-16_f32;
    let p = p * x2 + 2.000_188e-13;
    let p = p * x2 - 8.604_672e-11;
    let p = p * x2 + 5.122_297_1e-8;
    let p = p * x2 + 1.485_722_4e-5;
    let p = p * x2 + 6.372_619_3e-4;
    let p = p * x2 + 4.893_524_6e-3;
    let q = 1.198_258_4e-6_f32;
    let q = q * x2 + 1.185_347e-4;
    let q = q * x2 + 2.268_434_6e-3;
    let q = q * x2 + 4.893_525e-3;
    ((x * p) / q).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_close_to_the_true_value_everywhere() {
        for i in -40_000..=40_000 {
            let x = i as f32 * 5e-4;
            let truth = f64::from(x).tanh();
            let error = (f64::from(tanh(x)) - truth).abs();
            assert!(error < 4e-7, "tanh({x}) is off by {error}");
            assert!(tanh(x).abs() <= 1.0);
        }
        assert!(tanh(f32::NAN).is_nan());
        assert_eq!(tanh(f32::INFINITY), 1.0);
        assert_eq!(tanh(0.0), 0.0);
    }

    #[test]
    fn value_and_gradient_agree_with_burns_tanh() {
        let data: Vec<f32> = (0..24).map(|i| (i as f32 - 12.0) * 0.3).collect();
        let data = TensorData::new(data, [6, 4]);
        let x = Tensor::<2>::from_data(data.clone(), &Device::flex().autodiff()).require_grad();
        let ours = fast_tanh(x.clone());
        let gradient = x.grad(&ours.clone().sum().backward()).unwrap().into_data();
        let truth = x.clone().tanh();
        let expected = x.grad(&truth.clone().sum().backward()).unwrap().into_data();
        let close = |a: &TensorData, b: &TensorData| {
            let (a, b) = (a.as_slice::<f32>().unwrap(), b.as_slice::<f32>().unwrap());
            a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6)
        };
        assert!(close(&gradient, &expected));
        let plain = fast_tanh(Tensor::<2>::from_data(data, &Device::flex())).into_data();
        assert_eq!(ours.into_data(), plain);
        assert!(close(&plain, &truth.into_data()));
    }
}
