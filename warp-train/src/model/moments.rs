//! Gradients from the first moments of Adam.

use super::NamedTensor;
use crate::error::{Error, Result};

/// The gradient that first moments hold a tenth of, in the order of `weights`.
///
/// # Errors
/// A moment that is missing.
pub(crate) fn from_moments(
    weights: &[NamedTensor],
    moments: &[NamedTensor],
) -> Result<Vec<NamedTensor>> {
    let of = |weight: &NamedTensor| {
        let name = format!("{}.exp_avg", weight.name);
        let moment = moments.iter().find(|moment| moment.name == name).ok_or_else(|| {
            Error::Invalid(format!("tensor \"{name}\" is missing in the optimiser's state"))
        })?;
        let data = moment.data.iter().map(|tenth| tenth * 10.0).collect();
        Ok(NamedTensor { data, ..weight.clone() })
    };
    weights.iter().map(of).collect()
}
