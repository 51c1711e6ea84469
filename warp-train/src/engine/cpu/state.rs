//! What an engine knows, for a checkpoint, and back.

use super::CpuEngine;
use crate::algorithm::Column;
use crate::engine::EngineState;
use crate::model::NamedTensor;

impl CpuEngine {
    /// All that is needed to go on, with the rows here.
    pub(crate) fn state(&self) -> EngineState {
        let mut state = EngineState { updates: self.updates, ..EngineState::default() };
        for model in &self.models {
            state.weights.extend(model.named(&model.parameters, ""));
        }
        for (optimiser, moments) in self.plan.optimisers.iter().zip(&self.moments) {
            for ((id, first), second) in
                optimiser.models.iter().zip(&moments.exp_avg).zip(&moments.exp_avg_sq)
            {
                let model = &self.models[id.0];
                state.moments.extend(model.named(first, ".exp_avg"));
                state.moments.extend(model.named(second, ".exp_avg_sq"));
            }
            state.steps.push((optimiser.name.clone(), moments.optimiser.n_steps()));
        }
        for (column, numbers) in self.kept() {
            state.numbers.push(NamedTensor {
                name: column.name.clone(),
                shape: vec![numbers.len() / column.width, column.width],
                data: numbers.clone(),
            });
        }
        let (numbers, flags) = self.memory.arrays();
        state.numbers.extend(numbers);
        (state.flags, state.head) = (flags, self.memory.head() as u64);
        state
    }

    fn kept(&self) -> impl Iterator<Item = (&Column, &Vec<f32>)> {
        let columns = self.plan.columns.iter().zip(&self.columns);
        columns.filter(|(column, _)| column.kept)
    }

    /// Puts a gradient, under the names of parameters, in place of a model's.
    ///
    /// # Errors
    /// A tensor that is missing or of another shape, in words.
    #[cfg(feature = "cuda")]
    pub(crate) fn set_gradient(
        &mut self,
        model: crate::algorithm::ModelId,
        tensors: &[NamedTensor],
    ) -> Result<(), String> {
        let model = &mut self.models[model.0];
        model.gradients = model.find(tensors, "")?;
        // Shards are summed: the first has it all.
        model.of_shards.iter_mut().for_each(|gradient| gradient.fill(0.0));
        if let Some(first) = model.of_shards.first_mut() {
            first.copy_from_slice(&model.gradients);
        }
        Ok(())
    }

    /// Takes over what [`CpuEngine::state`] gave. A state without memory leaves the memory as it is: that
    /// is enough to act.
    ///
    /// # Errors
    /// A tensor that is missing or of another shape, in words.
    pub(crate) fn load(&mut self, state: &EngineState) -> Result<(), String> {
        let known = |name: &str| self.models.iter().any(|model| model.owns(name));
        if let Some(strange) = state.weights.iter().find(|tensor| !known(&tensor.name)) {
            return Err(format!("tensor \"{}\" is none of its networks'", strange.name));
        }
        for model in &mut self.models {
            model.parameters = model.find(&state.weights, "")?;
            model.transpose();
        }
        if !state.steps.is_empty() {
            self.load_moments(state)?;
        }
        if !state.numbers.is_empty() {
            self.load_memory(state)?;
        }
        self.updates = state.updates;
        Ok(())
    }

    fn load_moments(&mut self, state: &EngineState) -> Result<(), String> {
        for (optimiser, moments) in self.plan.optimisers.iter().zip(&mut self.moments) {
            let steps = state.steps.iter().find(|(name, _)| *name == optimiser.name);
            let missing = || format!("the steps of optimiser \"{}\" are missing", optimiser.name);
            moments.optimiser.n_steps = steps.ok_or_else(missing)?.1;
            for (i, id) in optimiser.models.iter().enumerate() {
                let model = &self.models[id.0];
                moments.exp_avg[i] = model.find(&state.moments, ".exp_avg")?;
                moments.exp_avg_sq[i] = model.find(&state.moments, ".exp_avg_sq")?;
            }
        }
        Ok(())
    }

    fn load_memory(&mut self, state: &EngineState) -> Result<(), String> {
        for (column, numbers) in self.plan.columns.iter().zip(&mut self.columns) {
            if !column.kept {
                continue;
            }
            let found = state.numbers.iter().find(|array| array.name == column.name);
            let found = found.filter(|array| array.data.len() == numbers.len());
            let missing = || format!("column \"{}\" is missing or too short", column.name);
            numbers.copy_from_slice(&found.ok_or_else(missing)?.data);
        }
        self.memory.load(&state.numbers, &state.flags, state.head as usize)
    }
}
