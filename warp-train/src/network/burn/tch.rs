//! Burn's networks on an NVIDIA GPU: the only file that knows LibTorch.
//!
//! Observations, outputs, parameters and gradients are the project's own arrays, which burn's tensors see
//! without a copy.
//!
//! LibTorch works on the legacy default stream, everything else on the device's own, which does not wait
//! for that one. So every piece of LibTorch's work is enclosed by two events: it waits for all work
//! started before, and all later work waits for it. That also makes it safe for LibTorch to reuse freed
//! memory.
#![expect(unsafe_code, reason = "tensors over memory that LibTorch does not own")]
#![expect(
    deprecated,
    reason = "burn-tch: there is no other way to an NVIDIA GPU that builds offline"
)]

use super::network::{ActorCritic, PolicyNetwork};
use super::parameters::{ParameterSpec, read};
use crate::error::{Error, Result, of_policy};
use crate::network::foreign::{ForeignNetwork, ForeignParts};
use burn::backend::LibTorch;
use burn::backend::libtorch::TchTensor;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use warp_data::cuda::cudarc::driver::{CudaEvent, CudaStream, DriverError};
use warp_data::cuda::{Device as Gpu, DeviceArray};

unsafe extern "C" {
    /// Of burn-tch: names something in LibTorch's CUDA library, so that the linker keeps it.
    fn dummy_cuda_dependency();
}

/// An error if LibTorch has no GPU.
pub(crate) fn find_gpu() -> Result<()> {
    // SAFETY: asks LibTorch for the width of a warp.
    unsafe { dummy_cuda_dependency() };
    if tch::Cuda::is_available() {
        return Ok(());
    }
    Err(Error::Invalid(
        "LibTorch finds no GPU: libtorch_cuda.so and the CUDA libraries that it needs must be on \
         the loader's path (LD_LIBRARY_PATH)"
            .into(),
    ))
}

/// The network of one policy, whose parameters are views of the device's.
pub(crate) fn make(parts: &ForeignParts<'_>) -> Result<Box<dyn ForeignNetwork>> {
    let plan = parts.plan;
    let config = plan.network(parts.spec);
    let n_outputs = config.layout.output_width();
    let network = ActorCritic::new(&config, 0, &Device::flex()).map_err(of_policy(&plan.name))?;
    let network = network.valid();
    let (specs, _) = read(&network).map_err(of_policy(&plan.name))?;
    let gpu = parts.parameters.device().clone();
    let streams = Streams::new(&gpu)?;
    let place = |spec: &ParameterSpec| {
        let found = parts.places.iter().find(|(name, _)| *name == spec.name);
        let (_, range) = found.ok_or_else(|| {
            Error::Invalid(format!("parameter \"{}\" has no place on the GPU", spec.name))
        })?;
        Ok(Place { start: range.start, shape: spec.shape.clone(), transposed: spec.transposed })
    };
    let places = specs.iter().map(place).collect::<Result<Vec<_>>>()?;
    let views = places.iter().map(|place| place.view(parts.parameters)).collect::<Result<Vec<_>>>();
    let network = network.map(&mut Viewer { views: views?.into_iter() });
    let width = config.observation_width;
    let parameters = parts.parameters.clone();
    let graph = None;
    Ok(Box::new(TorchNetwork { network, places, parameters, streams, width, n_outputs, graph }))
}

/// An actor-critic on LibTorch's tensors.
#[derive(Debug)]
struct TorchNetwork {
    network: ActorCritic,
    places: Vec<Place>,
    /// What the network's parameters are views of: kept as long as they.
    #[expect(dead_code, reason = "held for its memory")]
    parameters: DeviceArray,
    streams: Streams,
    width: usize,
    n_outputs: usize,
    /// Of the last forward pass that learns: leaves, outputs and values.
    graph: Option<(ActorCritic, Tensor<2>, Tensor<2>)>,
}

impl ForeignNetwork for TorchNetwork {
    fn forward(
        &mut self,
        x: &DeviceArray,
        at: usize,
        rows: usize,
        outs: &DeviceArray,
        learns: bool,
    ) -> Result<()> {
        let input = view(x, at, &[rows, self.width], &[self.width, 1])?;
        let outs = view(outs, 0, &[rows, self.n_outputs + 1], &[self.n_outputs + 1, 1])?;
        self.streams.torch_waits()?;
        guarded(|| self.run(tensor(input), &outs, learns))?;
        self.streams.device_waits()
    }

    fn backward(&mut self, d_outs: &DeviceArray, gradient: &DeviceArray, adds: bool) -> Result<()> {
        let Some((network, policy, values)) = self.graph.take() else {
            return Err(Error::Invalid(
                "a backward pass needs a forward pass in training mode".into(),
            ));
        };
        let (rows, row) = (policy.dims()[0], self.n_outputs + 1);
        let columns = |from: usize, n: usize| view(d_outs, from, &[rows, n], &[row, 1]);
        let (d_policy, d_values) = (columns(0, self.n_outputs)?, columns(self.n_outputs, 1)?);
        self.streams.torch_waits()?;
        guarded(|| {
            let (d_policy, d_values) = (tensor::<2>(d_policy), tensor::<2>(d_values));
            let kept = (d_policy.clone(), d_values.clone());
            // A scalar whose gradient by the outputs is the one that is given.
            let gradients = ((policy * d_policy).sum() + (values * d_values).sum()).backward();
            drop(kept);
            let (gradients, places, failure) = (&gradients, self.places.iter(), None);
            let mut copier = Copier { gradients, places, to: gradient, adds, failure };
            network.visit(&mut copier);
            copier.failure.map_or(Ok(()), Err)
        })?;
        self.streams.device_waits()
    }
}

impl TorchNetwork {
    /// Runs the network; `outs` `[rows, n_outputs + 1]` gets outputs and values.
    fn run(&mut self, input: Tensor<2>, outs: &tch::Tensor, learns: bool) -> Result<()> {
        // A second handle, so that no operation works in place on what is not LibTorch's.
        let kept = input.clone();
        let (policy, values) = if learns {
            let network = self.network.clone().train();
            let (policy, values) = network.forward(input.autodiff());
            let plain = (policy.clone().without_autodiff(), values.clone().without_autodiff());
            self.graph = Some((network, policy, values));
            plain
        } else {
            self.network.forward(input)
        };
        let both = [torch(policy)?, torch(values)?];
        drop(kept);
        tch::Tensor::f_cat_out(outs, &both, 1).map(drop).map_err(failed)
    }
}

/// Does LibTorch's work, whose failures burn turns into panics, and turns them back.
fn guarded(work: impl FnOnce() -> Result<()>) -> Result<()> {
    let caught = catch_unwind(AssertUnwindSafe(work));
    caught.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it failed");
        let first = words.lines().next().unwrap_or_default();
        Err(Error::Invalid(format!(
            "LibTorch: {first} (if memory is short, lower num_envs, num_steps or hidden)"
        )))
    })
}

/// Where a parameter lies in the flat vector, and how burn sees it.
#[derive(Debug, Clone)]
struct Place {
    start: usize,
    /// Burn's: `[inputs, outputs]` for weights, which lie there as `[outputs, inputs]`.
    shape: Vec<usize>,
    transposed: bool,
}

impl Place {
    fn view(&self, array: &DeviceArray) -> Result<tch::Tensor> {
        let strides = match (&self.shape[..], self.transposed) {
            ([inputs, _], true) => vec![1, *inputs],
            ([_, outputs], false) => vec![*outputs, 1],
            _ => vec![1; self.shape.len()],
        };
        view(array, self.start, &self.shape, &strides)
    }
}

/// Puts views into a module, in the order in which burn visits it.
struct Viewer<I> {
    views: I,
}

impl<I: Iterator<Item = tch::Tensor>> ModuleMapper for Viewer<I> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.views.next() {
            Some(view) => param.map(|_| tensor(view)),
            None => param,
        }
    }
}

/// Writes or adds a module's gradients to their places, in the same order.
struct Copier<'a> {
    gradients: &'a Gradients,
    places: std::slice::Iter<'a, Place>,
    to: &'a DeviceArray,
    adds: bool,
    failure: Option<Error>,
}

impl Copier<'_> {
    fn copy<const D: usize>(&self, place: &Place, gradient: Option<Tensor<D>>) -> Result<()> {
        let mut to = place.view(self.to)?;
        match gradient {
            Some(gradient) if self.adds => to.f_add_(&torch(gradient)?).map(drop),
            Some(gradient) => {
                to.copy_(&torch(gradient)?);
                Ok(())
            }
            None if self.adds => Ok(()),
            None => to.f_zero_().map(drop),
        }
        .map_err(failed)
    }
}

impl ModuleVisitor for Copier<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(place) = self.places.next() else { return };
        if let Err(error) = self.copy(place, param.val().grad(self.gradients)) {
            self.failure.get_or_insert(error);
        }
    }
}

/// LibTorch's stream and the device's, and what each waits for.
#[derive(Debug)]
struct Streams {
    device: Arc<CudaStream>,
    torch: Arc<CudaStream>,
    of_device: CudaEvent,
    of_torch: CudaEvent,
}

impl Streams {
    fn new(gpu: &Gpu) -> Result<Self> {
        let event = || gpu.context().new_event(None).map_err(stream_failed);
        let (device, torch) = (gpu.stream().clone(), gpu.context().default_stream());
        Ok(Self { device, torch, of_device: event()?, of_torch: event()? })
    }

    /// LibTorch's next work waits for what the device was given.
    fn torch_waits(&self) -> Result<()> {
        self.of_device.record(&self.device).map_err(stream_failed)?;
        self.torch.wait(&self.of_device).map_err(stream_failed)
    }

    /// The device's next work waits for what LibTorch was given.
    fn device_waits(&self) -> Result<()> {
        self.of_torch.record(&self.torch).map_err(stream_failed)?;
        self.device.wait(&self.of_torch).map_err(stream_failed)
    }
}

/// A tensor of LibTorch's over elements of an array from `at` on; nothing is copied.
fn view(array: &DeviceArray, at: usize, shape: &[usize], strides: &[usize]) -> Result<tch::Tensor> {
    let last: usize = shape.iter().zip(strides).map(|(n, by)| n.saturating_sub(1) * by).sum();
    let empty = shape.contains(&0);
    if array.dtype() != warp_core::DType::F32 || (!empty && at + last >= array.len()) {
        return Err(Error::Invalid(format!(
            "array \"{}\" of {} elements can't be seen as {shape:?} from element {at} on",
            array.name(),
            array.len()
        )));
    }
    let signed = |numbers: &[usize]| numbers.iter().map(|n| *n as i64).collect::<Vec<_>>();
    let address = (array.ptr() + 4 * at as u64) as *const u8;
    let device = tch::Device::Cuda(array.device().info().ordinal);
    // SAFETY: all elements lie within the array, as checked above. It lives longer than the tensor:
    // views of a rollout are dropped before the call that got the array returns, and those of the
    // parameters lie in the struct that keeps the array.
    let tensor = unsafe {
        tch::Tensor::f_from_blob(
            address,
            &signed(shape),
            &signed(strides),
            tch::Kind::Float,
            device,
        )
    };
    tensor.map_err(failed)
}

fn tensor<const D: usize>(tensor: tch::Tensor) -> Tensor<D> {
    Tensor::from_primitive::<LibTorch>(TchTensor::new(tensor))
}

fn torch<const D: usize>(tensor: Tensor<D>) -> Result<tch::Tensor> {
    let primitive = tensor.try_into_primitive::<LibTorch>();
    let elsewhere = |e| Error::Invalid(format!("a tensor is not LibTorch's: {e:?}"));
    primitive.map(|primitive| primitive.tensor).map_err(elsewhere)
}

fn failed(error: tch::TchError) -> Error {
    Error::Invalid(format!("LibTorch: {error}"))
}

fn stream_failed(error: DriverError) -> Error {
    Error::Invalid(format!("ordering LibTorch's work with the GPU's: {error}"))
}
