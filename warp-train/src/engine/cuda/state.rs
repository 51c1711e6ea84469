//! What an engine on a GPU knows, to the host and back: parameters without their padding, the replay
//! memory, counters and figures.

use super::layer::{Layer, Norm};
use super::layout::ModelShape;
use super::memory::{COUNTERS, FAULT, HEAD, Memory, NOTHING_ALLOWED, SIZE, UPDATES};
use super::{CudaEngine, EngineState};
use crate::algorithm::ColumnId;
use crate::error::{Error, Result};
use crate::model::NamedTensor;
use warp_data::cuda::DeviceArray;

/// What can go wrong in a run without the host.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A gradient was not finite.
    Gradient,
    /// A mask forbade everything.
    NothingAllowed { row: usize },
}

impl CudaEngine {
    /// Weights, moments, step counts and the number of updates of a run: what is small.
    pub(crate) fn weights(&self, run: usize) -> Result<EngineState> {
        let memory = &self.memories[run];
        let counters = memory.counters.pull::<u32>()?;
        let (weights, first, second) = (
            memory.parameters.pull::<f32>()?,
            memory.exp_avg.pull::<f32>()?,
            memory.exp_avg_sq.pull::<f32>()?,
        );
        let mut state = EngineState {
            updates: u64::from(counters[UPDATES]),
            head: u64::from(counters[HEAD]),
            ..EngineState::default()
        };
        for index in 0..self.plan.models.len() {
            state.weights.extend(self.named(index, &weights, ""));
        }
        for (optimiser, steps) in self.plan.optimisers.iter().zip(&counters[COUNTERS.len()..]) {
            for id in &optimiser.models {
                state.moments.extend(self.named(id.0, &first, ".exp_avg"));
                state.moments.extend(self.named(id.0, &second, ".exp_avg_sq"));
            }
            state.steps.push((optimiser.name.clone(), u64::from(*steps)));
        }
        Ok(state)
    }

    /// All that a run needs to go on.
    pub(crate) fn state(&self, run: usize) -> Result<EngineState> {
        let memory = &self.memories[run];
        let mut state = self.weights(run)?;
        let size = memory.counters.pull::<u32>()?[SIZE] as usize;
        for (column, array) in self.plan.columns.iter().zip(&memory.columns) {
            if column.kept {
                let data = array.pull::<f32>()?;
                let shape = vec![data.len() / column.width, column.width];
                state.numbers.push(NamedTensor { name: column.name.clone(), shape, data });
            }
        }
        let (numbers, flags) = memory.ring.arrays(size)?;
        state.numbers.extend(numbers);
        state.numbers.extend(memory.priorities.arrays([size, self.setting.place.n_rows])?);
        state.flags = flags;
        Ok(state)
    }

    /// Takes over what [`CudaEngine::state`] gave, of each run. A state without memory leaves the memory empty.
    ///
    /// # Errors
    /// A tensor that is missing or of another shape.
    pub(crate) fn load(&mut self, states: &[EngineState]) -> Result<()> {
        states.iter().enumerate().try_for_each(|(run, state)| self.load_run(run, state))?;
        self.pack()
    }

    fn load_run(&self, run: usize, state: &EngineState) -> Result<()> {
        let memory = &self.memories[run];
        let all: Vec<usize> = (0..self.plan.models.len()).collect();
        memory.parameters.push(&self.flat(&state.weights, "", &all)?)?;
        let fresh = state.steps.iter().all(|(_, n)| *n == 0);
        let optimised = self.plan.optimisers.iter().flat_map(|o| &o.models);
        let optimised: Vec<usize> = optimised.map(|id| id.0).filter(|_| !fresh).collect();
        memory.exp_avg.push(&self.flat(&state.moments, ".exp_avg", &optimised)?)?;
        memory.exp_avg_sq.push(&self.flat(&state.moments, ".exp_avg_sq", &optimised)?)?;
        let steps = self.plan.optimisers.iter().map(|optimiser| {
            let found = state.steps.iter().find(|(name, _)| *name == optimiser.name);
            found.map_or(0, |(_, n)| *n as u32)
        });
        let steps: Vec<u32> = steps.collect();
        let size = if state.numbers.is_empty() { 0 } else { self.load_memory(memory, state)? };
        memory.priorities.load(state, size * self.setting.place.n_rows)?;
        let head = if size == 0 { 0 } else { state.head as u32 };
        self.push_counters(run, [state.updates as u32, head, size as u32], &steps)
    }

    /// Returns the number of steps in the memory.
    fn load_memory(&self, memory: &Memory, state: &EngineState) -> Result<usize> {
        let missing = |name: &str, len: usize| {
            Error::Invalid(format!(
                "the array \"{name}\" of {len} elements is missing or of another size"
            ))
        };
        for (column, array) in self.plan.columns.iter().zip(&memory.columns) {
            if !column.kept {
                continue;
            }
            let found = state.numbers.iter().find(|tensor| tensor.name == column.name);
            let found = found.filter(|tensor| tensor.data.len() == array.len());
            array.push(&found.ok_or_else(|| missing(&column.name, array.len()))?.data)?;
        }
        let reward = state.numbers.iter().find(|tensor| tensor.name == "replay.reward");
        let size = reward.and_then(|tensor| tensor.shape.first()).copied().unwrap_or(0);
        let steps = memory.ring.steps;
        if size > steps || state.head as usize >= steps {
            return Err(Error::Invalid(format!(
                "the replay memory has {size} steps and its next place is {}, but it contains {steps}",
                state.head
            )));
        }
        memory.ring.load(&state.numbers, &state.flags, size)?;
        Ok(size)
    }

    /// Sets a run's counters: of updates, and where its replay memory goes on and how many steps it has.
    pub(super) fn push_counters(
        &self,
        run: usize,
        [updates, head, size]: [u32; 3],
        steps: &[u32],
    ) -> Result<()> {
        let seed = self.seeds[run];
        let mut counters = vec![seed as u32, (seed >> 32) as u32, self.setting.place.first_replica];
        counters.extend([updates, head, size, 0]);
        counters.extend(steps);
        counters.push(self.setting.ranks.rank() as u32);
        Ok(self.memories[run].counters.push(&counters)?)
    }

    /// What went wrong in a run on the device, if anything did.
    pub(crate) fn fault(&self, run: usize) -> Result<Option<Fault>> {
        let fault = self.memories[run].counters.pull::<u32>()?[FAULT];
        Ok(match fault {
            0 => None,
            _ if fault & NOTHING_ALLOWED > 0 => {
                Some(Fault::NothingAllowed { row: (fault & !NOTHING_ALLOWED) as usize })
            }
            _ => Some(Fault::Gradient),
        })
    }

    /// A column's numbers, of the first run.
    pub(crate) fn column(&self, id: ColumnId) -> Result<Vec<f32>> {
        Ok(self.memories[0].columns[id.0].pull()?)
    }

    /// Sets a column's numbers of the first run.
    pub(crate) fn set_column(&self, id: ColumnId, numbers: &[f32]) -> Result<()> {
        Ok(self.memories[0].columns[id.0].push(numbers)?)
    }

    /// The tensors of a model that lie as the parameters do, with `suffix` behind their names.
    fn named(&self, index: usize, flat: &[f32], suffix: &str) -> Vec<NamedTensor> {
        let mut tensors = Vec::new();
        self.each_tensor(index, suffix, |name, shape, place| {
            let data = place.map(|at| flat[at]).collect();
            tensors.push(NamedTensor { name, shape, data });
        });
        tensors
    }

    /// All parameters, from those of `models` among `tensors`; the others are 0.
    fn flat(&self, tensors: &[NamedTensor], suffix: &str, models: &[usize]) -> Result<Vec<f32>> {
        let (mut flat, mut wrong) = (vec![0.0; self.layout.n_parameters], None);
        for index in models {
            self.each_tensor(*index, suffix, |name, shape, place| {
                let found = tensors.iter().find(|tensor| tensor.name == name);
                match found.filter(|tensor| tensor.shape == shape) {
                    Some(found) => place.zip(&found.data).for_each(|(at, x)| flat[at] = *x),
                    None => {
                        wrong.get_or_insert(format!(
                            "tensor \"{name}\" {shape:?} is missing or of another shape"
                        ));
                    }
                }
            });
        }
        wrong.map_or(Ok(flat), |reason| Err(Error::Invalid(reason)))
    }

    /// Calls `of` with the name, shape and places of each of a model's tensors.
    fn each_tensor(
        &self,
        index: usize,
        suffix: &str,
        mut of: impl FnMut(String, Vec<usize>, Box<dyn Iterator<Item = usize>>),
    ) {
        let (model, ModelShape { layers, norms, .. }) =
            (&self.plan.models[index], &self.layout.models[index]);
        let half = self.layout.half;
        for (l, layer) in layers.iter().copied().enumerate() {
            let Layer { inputs, outputs, bias, .. } = layer;
            let prefix = format!("{}.{}", model.name, model.network.layer_name(l));
            let row = move |output: usize| (0..inputs).map(move |i| layer.place(half, output, i));
            let places = Box::new((0..outputs).flat_map(row));
            of(format!("{prefix}.weight{suffix}"), vec![outputs, inputs], places);
            of(format!("{prefix}.bias{suffix}"), vec![outputs], Box::new(bias..bias + outputs));
            let Some(Norm { gain, shift }) = norms.get(l) else { continue };
            for (part, Layer { bias, .. }) in [("weight", *gain), ("bias", *shift)] {
                let name = format!("{}.norm.{l}.{part}{suffix}", model.name);
                of(name, vec![outputs], Box::new(bias..bias + outputs));
            }
        }
    }

    /// Means of figures from their sums and how often each was taken; those that nobody took are left out.
    pub(crate) fn read_figures(&self, sums: &[f64]) -> Vec<(&'static str, f64)> {
        let (sums, _) = sums.as_chunks::<2>();
        let figures = self.plan.figures.iter().zip(sums);
        let taken = figures.filter(|(_, [_, n])| *n > 0.0);
        taken.map(|(figure, [sum, n])| (figure.name, sum / n)).collect()
    }

    /// Where figures are summed, of one run after the other.
    pub(crate) fn figures_array(&self) -> &DeviceArray {
        &self.figures
    }

    /// Begins new sums of figures.
    pub(crate) fn clear_figures(&self) -> Result<()> {
        Ok(self.figures.clear()?)
    }
}
