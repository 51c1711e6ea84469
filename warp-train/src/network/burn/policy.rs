//! A policy: a network, its parameters as one flat vector, their gradient, and its optimiser.

use burn::tensor::Device;

use super::backward::{Work, check_shapes};
use super::chunks::{chunk_rows, for_each};
use super::parameters::{self, ParameterSpec, floats, matrix};
use super::tensors;
use super::{ActorCritic, PolicyNetwork};
use crate::error::{PolicyError, check_length};
use crate::loss::{Loss, LossMetrics, LossSums, Minibatch};
use crate::model::{NetworkConfig, PolicyTensors, check_width};
use crate::network::StepSizes;
use crate::optimiser::{Moved, Optimiser, OptimiserConfig, limit, squared_norm};
use warp_sample::ActionLayout;

/// A trainable policy on burn; see the module's page for how results stay independent of `threads`.
#[derive(Debug)]
pub struct BurnPolicy<N: PolicyNetwork = ActorCritic> {
    /// Without autodiff: each gradient chunk makes its own graph from a copy.
    network: N,
    observation_width: usize,
    layout: ActionLayout,
    device: Device,
    specs: Vec<ParameterSpec>,
    parameters: Vec<f32>,
    gradients: Vec<f32>,
    optimiser: Optimiser,
    chunks: Vec<Chunk>,
}

/// One chunk's results, kept so that their memory is reused.
#[derive(Debug, Default)]
struct Chunk {
    gradients: Vec<f32>,
    sums: LossSums,
}

impl BurnPolicy<ActorCritic> {
    /// An [`ActorCritic`] on the CPU, initialised from `seed`.
    ///
    /// # Errors
    /// [`PolicyError::InvalidConfig`] if a width or a constant is outside its range.
    pub fn new(
        config: &NetworkConfig,
        optimiser: OptimiserConfig,
        seed: u64,
    ) -> Result<Self, PolicyError> {
        let device = Device::flex();
        let network = ActorCritic::new(config, seed, &device)?;
        Self::from_network(
            network,
            config.observation_width,
            config.layout.clone(),
            optimiser,
            &device,
        )
    }
}

impl<N: PolicyNetwork> BurnPolicy<N> {
    /// A policy with any network, whose parameters are on `device`.
    ///
    /// # Errors
    /// [`PolicyError::InvalidConfig`] if a width or a constant is outside its range,
    /// [`PolicyError::Tensor`] if a parameter isn't f32.
    pub fn from_network(
        network: N,
        observation_width: usize,
        layout: ActionLayout,
        optimiser: OptimiserConfig,
        device: &Device,
    ) -> Result<Self, PolicyError> {
        check_width(observation_width)?;
        let network = network.valid();
        let (specs, parameters) = parameters::read(&network)?;
        Ok(Self {
            network,
            observation_width,
            layout,
            device: device.clone().without_autodiff(),
            optimiser: Optimiser::new(optimiser, parameters.len())?,
            gradients: vec![0.0; parameters.len()],
            specs,
            parameters,
            chunks: Vec::new(),
        })
    }

    /// Numbers per observation.
    #[must_use]
    pub fn observation_width(&self) -> usize {
        self.observation_width
    }

    /// What outputs and actions are.
    #[must_use]
    pub fn layout(&self) -> &ActionLayout {
        &self.layout
    }

    /// Number of trainable values.
    #[must_use]
    pub fn n_parameters(&self) -> usize {
        self.parameters.len()
    }

    /// Steps that the optimiser has made.
    #[must_use]
    pub fn n_steps(&self) -> u64 {
        self.optimiser.n_steps()
    }

    /// The gradient that [`Self::gradients`] left, f32 `[n_parameters]`.
    #[must_use]
    pub fn gradient_buffer(&self) -> &[f32] {
        &self.gradients
    }

    /// The gradient that [`Self::gradients`] left and [`Self::step`] will follow, f32
    /// `[n_parameters]`: the place to average over devices.
    pub fn gradient_buffer_mut(&mut self) -> &mut [f32] {
        &mut self.gradients
    }

    /// Runs the network on `observations` f32 `[n_rows, observation_width]` and fills `outputs`
    /// f32 `[n_rows, output_width]` and `values` f32 `[n_rows]`.
    ///
    /// # Errors
    /// [`PolicyError::WrongLength`] or, for a network of the user's own,
    /// [`PolicyError::WrongOutput`].
    pub fn forward(
        &self,
        observations: &[f32],
        n_rows: usize,
        threads: usize,
        outputs: &mut [f32],
        values: &mut [f32],
    ) -> Result<(), PolicyError> {
        let (width, output_width) = (self.observation_width, self.layout.output_width());
        check_length("observations", observations.len(), n_rows, width)?;
        check_length("outputs", outputs.len(), n_rows, output_width)?;
        check_length("values", values.len(), n_rows, 1)?;
        let rows = chunk_rows(n_rows);
        let chunks = observations.chunks(rows * width);
        let outputs = outputs.chunks_mut(rows * output_width).zip(values.chunks_mut(rows));
        for_each(chunks.zip(outputs), threads, |(observations, (outputs, values))| {
            let input = matrix(observations, width, &self.device);
            let (policy, value) = self.network.forward(input);
            check_shapes(&policy.dims(), &value.dims(), values.len(), output_width)?;
            outputs.copy_from_slice(&floats(policy, "policy outputs")?);
            values.copy_from_slice(&floats(value, "values")?);
            Ok(())
        })
    }

    /// Computes the gradient of `loss` over `minibatch` into [`Self::gradient_buffer_mut`].
    ///
    /// Means are weighted means over the whole minibatch. If all weights are zero, so are gradient
    /// and metrics.
    ///
    /// # Errors
    /// [`PolicyError::WrongLength`], [`PolicyError::InvalidAction`], [`PolicyError::InvalidWeight`];
    /// for a network of the user's own also [`PolicyError::WrongOutput`].
    pub fn gradients(
        &mut self,
        minibatch: &Minibatch<'_>,
        loss: &Loss,
        threads: usize,
    ) -> Result<LossMetrics, PolicyError> {
        minibatch.check(self.observation_width, &self.layout, loss)?;
        let (n_rows, rows) = (minibatch.n_rows(), chunk_rows(minibatch.n_rows()));
        let n_chunks = n_rows.div_ceil(rows);
        if self.chunks.len() < n_chunks {
            self.chunks.resize_with(n_chunks, Chunk::default);
        }
        let work = Work {
            network: &self.network,
            device: &self.device,
            observation_width: self.observation_width,
            layout: &self.layout,
            loss,
            total_weight: minibatch.total_weight(),
        };
        let n_parameters = self.parameters.len();
        let chunks = &mut self.chunks[..n_chunks];
        for_each(chunks.iter_mut().enumerate(), threads, |(i, chunk)| {
            let range = i * rows..n_rows.min((i + 1) * rows);
            chunk.gradients.resize(n_parameters, 0.0);
            let part = minibatch.rows(range, work.observation_width, work.layout);
            chunk.sums = work.chunk(&part, &mut chunk.gradients)?;
            Ok(())
        })?;
        self.gradients.fill(0.0);
        let mut sums = LossSums::default();
        for chunk in chunks {
            sums.add(&chunk.sums);
            let pairs = self.gradients.iter_mut().zip(&chunk.gradients);
            pairs.for_each(|(total, part)| *total += part);
        }
        Ok(sums.means(loss, work.total_weight))
    }

    /// Makes one step of the optimiser along the gradient buffer, and returns the norm before clipping.
    ///
    /// # Errors
    /// [`PolicyError::NonFiniteGradient`]; then nothing has changed.
    pub fn step(&mut self, sizes: &StepSizes) -> Result<f64, PolicyError> {
        let norm = squared_norm(&self.gradients).sqrt();
        let prepared = self.optimiser.begin(norm, limit(sizes.max_grad_norm))?;
        let Optimiser { exp_avg, exp_avg_sq, .. } = &mut self.optimiser;
        for spec in &self.specs {
            let of_value = ["critic.", "value_head."];
            let is_critic = of_value.iter().any(|part| spec.name.starts_with(part));
            let rate = if is_critic { sizes.critic_learning_rate } else { sizes.learning_rate };
            prepared.of(rate).apply(Moved {
                parameters: &mut self.parameters[spec.range()],
                gradients: &self.gradients[spec.range()],
                exp_avg: &mut exp_avg[spec.range()],
                exp_avg_sq: &mut exp_avg_sq[spec.range()],
            });
        }
        self.write_network();
        Ok(norm)
    }

    /// Weights, optimiser state and step count.
    #[must_use]
    pub fn tensors(&self) -> PolicyTensors {
        PolicyTensors {
            weights: tensors::to_named(&self.specs, &self.parameters, ""),
            optimizer: tensors::optimizer_tensors(&self.specs, &self.optimiser),
            n_steps: self.optimiser.n_steps,
        }
    }

    /// Takes over weights, optimiser state and step count, bit by bit.
    ///
    /// # Errors
    /// [`PolicyError::MissingTensor`], [`PolicyError::UnknownTensor`] or
    /// [`PolicyError::WrongShape`]; then nothing has changed.
    pub fn load_tensors(&mut self, tensors: &PolicyTensors) -> Result<(), PolicyError> {
        let [weights] = tensors::from_named(&self.specs, &tensors.weights, [""])?;
        let suffixes = [".exp_avg", ".exp_avg_sq"];
        let [exp_avg, exp_avg_sq] = tensors::from_named(&self.specs, &tensors.optimizer, suffixes)?;
        self.optimiser.exp_avg = exp_avg;
        self.optimiser.exp_avg_sq = exp_avg_sq;
        self.optimiser.n_steps = tensors.n_steps;
        self.parameters = weights;
        self.write_network();
        Ok(())
    }

    fn write_network(&mut self) {
        self.network = parameters::write(self.network.clone(), &self.parameters);
    }
}
