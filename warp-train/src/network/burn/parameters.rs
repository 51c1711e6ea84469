//! A module's float parameters as one flat vector: names, order, and the way in and out.
//!
//! The order is that in which burn visits the module; each parameter is stored in the flat vector
//! in burn's own layout (a linear weight is `[inputs, outputs]`).

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};

use crate::error::PolicyError;

/// One parameter's place in the flat vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParameterSpec {
    /// Path in the module, such as `actor.0.weight`.
    pub(super) name: String,
    /// Shape in burn's layout.
    pub(super) shape: Vec<usize>,
    /// First element in the flat vector.
    pub(super) start: usize,
    /// Whether this is a linear layer's weight, which torch keeps transposed.
    pub(super) transposed: bool,
}

impl ParameterSpec {
    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Its slice of the flat vector.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.len()
    }
}

/// Names, shapes and values of all float parameters of `module`.
pub(super) fn read<N: Module>(module: &N) -> Result<(Vec<ParameterSpec>, Vec<f32>), PolicyError> {
    let mut reader = Reader::default();
    module.visit(&mut reader);
    match reader.failure {
        Some(error) => Err(error),
        None => Ok((reader.specs, reader.values)),
    }
}

#[derive(Default)]
struct Reader {
    path: Vec<(String, bool)>,
    specs: Vec<ParameterSpec>,
    values: Vec<f32>,
    failure: Option<PolicyError>,
}

impl ModuleVisitor for Reader {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.push((name.to_owned(), container_type == "Struct:Linear"));
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let names: Vec<&str> = self.path.iter().map(|(name, _)| name.as_str()).collect();
        let in_linear = self.path.iter().rev().take(2).any(|(_, linear)| *linear);
        let spec = ParameterSpec {
            name: names.join("."),
            shape: param.val().dims().to_vec(),
            start: self.values.len(),
            transposed: in_linear && D == 2,
        };
        match floats(param.val(), &spec.name) {
            Ok(values) => self.values.extend(values),
            Err(error) => self.failure = Some(error),
        }
        self.specs.push(spec);
    }
}

/// `module` with its parameters set from the flat vector `values`.
pub(super) fn write<N: Module>(module: N, values: &[f32]) -> N {
    module.map(&mut Writer { rest: values })
}

struct Writer<'a> {
    rest: &'a [f32],
}

impl ModuleMapper for Writer<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|old| {
            let (values, rest) = self.rest.split_at(old.shape().num_elements());
            self.rest = rest;
            let device = old.device();
            Tensor::from_data(TensorData::new(values.to_vec(), old.shape()), &device)
        })
    }
}

/// Copies the gradients of `module`'s parameters into `flat`; a frozen parameter's are zero.
pub(super) fn read_gradients<N: Module>(
    module: &N,
    gradients: &Gradients,
    flat: &mut [f32],
) -> Result<(), PolicyError> {
    let mut reader = GradientReader { gradients, rest: flat, failure: None };
    module.visit(&mut reader);
    reader.failure.map_or(Ok(()), Err)
}

struct GradientReader<'a> {
    gradients: &'a Gradients,
    rest: &'a mut [f32],
    failure: Option<PolicyError>,
}

impl ModuleVisitor for GradientReader<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        let rest = std::mem::take(&mut self.rest);
        let (target, rest) = rest.split_at_mut(value.shape().num_elements());
        self.rest = rest;
        match value.grad(self.gradients).map(|gradient| floats(gradient, "a gradient")) {
            Some(Ok(values)) => target.copy_from_slice(&values),
            Some(Err(error)) => self.failure = Some(error),
            None => target.fill(0.0),
        }
    }
}

/// A tensor's values, row-major.
pub(super) fn floats<const D: usize>(
    tensor: Tensor<D>,
    what: &str,
) -> Result<Vec<f32>, PolicyError> {
    tensor.into_data().try_into_vec::<f32>().map_err(|error| PolicyError::Tensor {
        what: what.to_owned(),
        reason: format!("{error:?}"),
    })
}

/// A tensor f32 `[rows, columns]` from row-major values.
pub(super) fn matrix(values: &[f32], columns: usize, device: &Device) -> Tensor<2> {
    let rows = values.len() / columns;
    Tensor::from_data(TensorData::new(values.to_vec(), [rows, columns]), device)
}
