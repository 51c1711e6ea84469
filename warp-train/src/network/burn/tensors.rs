//! A flat vector of a module's parameters as named tensors; bit-exact out and in.

use super::parameters::ParameterSpec;
use crate::error::PolicyError;
use crate::model::{NamedTensor, transpose};
use crate::optimiser::Optimiser;

/// The flat vector `values` as tensors named `<name><suffix>`.
pub(super) fn to_named(specs: &[ParameterSpec], values: &[f32], suffix: &str) -> Vec<NamedTensor> {
    let named = |spec: &ParameterSpec| NamedTensor {
        name: format!("{}{suffix}", spec.name),
        shape: outer_shape(spec),
        data: if spec.transposed {
            transpose(&values[spec.range()], spec.shape[0], spec.shape[1])
        } else {
            values[spec.range()].to_vec()
        },
    };
    specs.iter().map(named).collect()
}

/// The flat vectors, one for each suffix, from `tensors`, which must hold exactly those tensors in
/// any order.
pub(super) fn from_named<const K: usize>(
    specs: &[ParameterSpec],
    tensors: &[NamedTensor],
    suffixes: [&str; K],
) -> Result<[Vec<f32>; K], PolicyError> {
    let n_values = specs.iter().map(ParameterSpec::len).sum();
    let mut flat = [(); K].map(|()| vec![0.0; n_values]);
    let mut left: Vec<&NamedTensor> = tensors.iter().collect();
    for (flat, suffix) in flat.iter_mut().zip(suffixes) {
        for spec in specs {
            let name = format!("{}{suffix}", spec.name);
            let Some(i) = left.iter().position(|tensor| tensor.name == name) else {
                let (shape, n_found) = (outer_shape(spec), tensors.len());
                return Err(PolicyError::MissingTensor { name, shape, n_found });
            };
            fill(&mut flat[spec.range()], spec, left.swap_remove(i))?;
        }
    }
    match left.first() {
        Some(extra) => Err(PolicyError::UnknownTensor { name: extra.name.clone() }),
        None => Ok(flat),
    }
}

fn fill(target: &mut [f32], spec: &ParameterSpec, tensor: &NamedTensor) -> Result<(), PolicyError> {
    let expected = outer_shape(spec);
    if tensor.shape != expected || tensor.data.len() != spec.len() {
        return Err(PolicyError::WrongShape {
            name: tensor.name.clone(),
            found: tensor.shape.clone(),
            n_values: tensor.data.len(),
            expected,
        });
    }
    if spec.transposed {
        target.copy_from_slice(&transpose(&tensor.data, spec.shape[1], spec.shape[0]));
    } else {
        target.copy_from_slice(&tensor.data);
    }
    Ok(())
}

/// The optimiser's moments as tensors.
pub(super) fn optimizer_tensors(
    specs: &[ParameterSpec],
    optimiser: &Optimiser,
) -> Vec<NamedTensor> {
    let mut tensors = to_named(specs, &optimiser.exp_avg, ".exp_avg");
    tensors.extend(to_named(specs, &optimiser.exp_avg_sq, ".exp_avg_sq"));
    tensors
}

fn outer_shape(spec: &ParameterSpec) -> Vec<usize> {
    let mut shape = spec.shape.clone();
    if spec.transposed {
        shape.reverse();
    }
    shape
}
