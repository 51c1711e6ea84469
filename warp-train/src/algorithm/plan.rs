//! Plans, which an algorithm declares before anything is allocated: columns, models, passes, row functions,
//! optimisers, cells and figures, each named by an id.
//!
//! An engine reads the plan, allocates the memory and compiles the kernels; the algorithm then requests
//! operations by id, in order.

use crate::algorithm::Schedule;
use crate::error::{Error, Result};
use crate::loss::row::RowFunction;
use crate::model::Perceptron;
use crate::optimiser::OptimiserConfig;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) usize);
    )*};
}

ids! {
    /// A column of numbers.
    ColumnId
    /// A network's parameters.
    ModelId
    /// A model run on some columns.
    PassId
    /// A row function with its columns.
    RowsId
    /// Models that take a step together.
    OptimiserId
    /// A number that may change from update to update.
    CellId
    /// A figure that metrics report.
    FigureId
}

/// Which rows a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowsOf {
    /// One per agent that acts: `[n_envs * n_agents, width]`.
    Acting,
    /// One per sample of a batch: `[batch_size, width]`.
    Batch,
    /// One that every row reads: `[1, width]`.
    Shared,
}

/// Named numbers, f32 `[rows, width]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// What it is called in messages and, if it is kept, in checkpoints.
    pub name: String,
    /// Its rows.
    pub rows: RowsOf,
    /// Numbers per row, at least 1.
    pub width: usize,
    /// What it starts with in every row; [`RowsOf::Shared`] columns may give a number per element.
    pub start: Vec<f32>,
    /// Whether it persists from one iteration to the next, and so belongs in a checkpoint.
    pub kept: bool,
}

/// A network's parameters under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Prefix of its tensors' names.
    pub name: String,
    /// Its layers.
    pub network: Perceptron,
    /// The model that it starts equal to and follows; it is never optimised then.
    pub target_of: Option<ModelId>,
}

/// What a backward pass is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gradients {
    /// The model's parameters.
    OfParameters,
    /// The input that the pass names; the parameters' gradients stay as they are.
    OfInput,
}

/// A model run on the inputs of some columns, beside each other in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// Whose parameters.
    pub model: ModelId,
    /// Columns of the same rows, whose widths add up to the model's inputs; none for a model without
    /// inputs, whose outputs are its biases.
    pub inputs: Vec<ColumnId>,
    /// Where the outputs go.
    pub output: ColumnId,
    /// The backward pass, if there is one.
    pub back: Option<Back>,
}

impl Pass {
    /// Whether its backward pass gives derivatives by its model's parameters.
    pub fn learns(&self) -> bool {
        self.back.as_ref().is_some_and(|back| back.d_input.is_none())
    }

    /// Where its backward pass writes derivatives by an input, if it does.
    pub(crate) fn d_input(&self) -> Option<DerivativeOfInput> {
        self.back.as_ref()?.d_input
    }
}

/// A pass's backward part.
#[derive(Debug, Clone, PartialEq)]
pub struct Back {
    /// Derivatives by the outputs, of the same width.
    pub d_output: ColumnId,
    /// Where derivatives by an input go: its number among the pass's inputs, and a column of its width. There are
    /// none by parameters then.
    pub d_input: Option<DerivativeOfInput>,
}

/// Where derivatives by one of a pass's inputs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DerivativeOfInput {
    /// Its number among the pass's inputs.
    pub input: usize,
    /// A column of its width.
    pub column: ColumnId,
}

/// A row function with what it reads and writes.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The function.
    pub function: &'static RowFunction,
    /// Its cells, in its order.
    pub cells: Vec<CellId>,
    /// Columns that it reads, in its order.
    pub reads: Vec<ColumnId>,
    /// Columns that it writes, in its order; at least one, and all of the same rows.
    pub writes: Vec<ColumnId>,
}

/// Models that are moved together: one norm, one step count.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimiser {
    /// What its step count is called in checkpoints.
    pub name: String,
    /// Whose parameters.
    pub models: Vec<ModelId>,
    /// Step size.
    pub learning_rate: CellId,
    /// The rule of its steps, with its constants.
    pub config: OptimiserConfig,
    /// Largest norm of the models' gradients together; 0: not clipped.
    pub max_grad_norm: f64,
}

/// A number that the host sets before each iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What it is called in messages.
    pub name: String,
    /// Its value by environment steps done.
    pub value: Schedule,
}

/// A figure that metrics report: the mean of a column over its rows, and over the updates that took it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What metrics call it.
    pub name: &'static str,
    /// A batch column of width 1.
    pub column: ColumnId,
}

/// What acting writes and reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Acting {
    /// What agents see, written before each step.
    pub obs: ColumnId,
    /// 1 for an action that is allowed, else 0; only where the environment has masks.
    pub mask: Option<ColumnId>,
    /// 1 where the agent's episode begins with this step, else 0.
    pub begins: ColumnId,
    /// What the algorithm learns from: the number of a discrete action, or elements within -1 to 1.
    pub action: ColumnId,
    /// What the environment gets: the same number, or elements within their bounds.
    pub env_action: ColumnId,
    /// 1 while actions are random, before learning starts; engines set it.
    pub random: CellId,
}

/// A replay memory, and where a batch of it goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// Transitions that it holds; rounded down to whole steps of all acting rows, at least one step.
    pub capacity: usize,
    /// Steps whose rewards are summed, at least 1; fewer where an episode ends.
    pub n_step: usize,
    /// Discount per step.
    pub gamma: CellId,
    /// Observation, batch `[width]`.
    pub obs: ColumnId,
    /// Action as it was learned from, batch `[width]`.
    pub action: ColumnId,
    /// Discounted sum of up to `n_step` rewards, batch `[1]`.
    pub reward: ColumnId,
    /// `gamma` to the power of the steps summed; 0 where the episode terminated, batch `[1]`.
    pub discount: ColumnId,
    /// Observation after those steps, the last one of an episode included, batch `[width]`.
    pub next_obs: ColumnId,
    /// Mask of the actions after those steps, batch `[width]`; all allowed where an episode terminated.
    pub next_mask: Option<ColumnId>,
    /// Mask of the action, batch `[width]`.
    pub mask: Option<ColumnId>,
    /// What a sample counts for, batch `[1]`: 1, or its importance where samples have priorities.
    pub weight: ColumnId,
    /// Magnitude of each sample's error, batch `[1]`, which algorithms write.
    pub error: ColumnId,
    /// Sampling by the errors; none: all samples are equally likely.
    pub priority: Option<Priority>,
}

/// Prioritised sampling (Schaul et al., 2016).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Priority {
    /// Power of the error.
    pub alpha: CellId,
    /// Power of the importance weights.
    pub beta: CellId,
}

/// How a policy acts when nothing is explored: what evaluation runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Greedy {
    /// The acting pass.
    pub pass: PassId,
    /// Converts its output f32 `[width]` to what the policy's action layout reads: logits, or means and
    /// log standard deviations; without cells and random numbers. None: the output already has that
    /// form.
    pub outputs: Option<&'static RowFunction>,
}

/// All that an algorithm declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Samples per batch.
    pub batch_size: usize,
    /// Columns, by id.
    pub columns: Vec<Column>,
    /// Models, by id.
    pub models: Vec<Model>,
    /// Passes, by id.
    pub passes: Vec<Pass>,
    /// Row functions, by id.
    pub rows: Vec<Rows>,
    /// Optimisers, by id.
    pub optimisers: Vec<Optimiser>,
    /// Cells, by id.
    pub cells: Vec<Cell>,
    /// Figures, by id.
    pub figures: Vec<Figure>,
    /// Acting's columns.
    pub acting: Acting,
    /// The memory.
    pub replay: Replay,
    /// How to act greedily.
    pub greedy: Greedy,
}

impl Plan {
    /// The model that the policy acts by when nothing is explored.
    #[must_use]
    pub fn acting_model(&self) -> &Model {
        &self.models[self.passes[self.greedy.pass.0].model.0]
    }

    /// Checks that everything fits together, so that no engine is asked for what is not there.
    ///
    /// # Errors
    /// The first piece that does not fit.
    pub(crate) fn check(&self) -> Result<()> {
        self.rows.iter().try_for_each(|rows| self.check_rows(rows))?;
        self.passes.iter().try_for_each(|pass| self.check_pass(pass))?;
        for Figure { name, column } in &self.figures {
            let column = &self.columns[column.0];
            if column.width != 1 || column.rows != RowsOf::Batch {
                let column = &column.name;
                return refused(format!(
                    "figure {name} takes {column}, which has no number per sample"
                ));
            }
        }
        Ok(())
    }

    /// Checks that passes have the gradients that are wanted: of parameters, for which engines keep what those of an
    /// input do not need, or of an input, for which a column must be there.
    ///
    /// # Errors
    /// The first pass that has none.
    pub(crate) fn check_backward(&self, passes: &[PassId], want: Gradients) -> Result<()> {
        let (has, what): (fn(&Pass) -> bool, _) = match want {
            Gradients::OfParameters => (Pass::learns, "parameters"),
            Gradients::OfInput => (|pass| pass.d_input().is_some(), "an input"),
        };
        match passes.iter().map(|id| &self.passes[id.0]).find(|pass| !has(pass)) {
            Some(pass) => refused(format!(
                "the pass to {} has no derivatives by {what}",
                self.columns[pass.output.0].name
            )),
            None => Ok(()),
        }
    }

    fn check_rows(&self, rows: &Rows) -> Result<()> {
        let RowFunction { name, cells, reads, writes, .. } = rows.function;
        for (what, declared, given) in [
            ("cells", cells.len(), rows.cells.len()),
            ("columns to read", reads.len(), rows.reads.len()),
            ("columns to write", writes.len(), rows.writes.len()),
        ] {
            if declared != given {
                return refused(format!(
                    "row function {name} has {declared} {what}, but {given} are given"
                ));
            }
        }
        let Some(first) = rows.writes.first() else {
            return refused(format!("row function {name} writes nothing"));
        };
        let of = self.columns[first.0].rows;
        let fits = |id: &&ColumnId| {
            let rows = self.columns[id.0].rows;
            rows == of || rows == RowsOf::Shared
        };
        let wrong = rows.reads.iter().find(|id| !fits(id));
        let twice = |id: &&ColumnId| {
            let others = rows.writes.iter().chain(&rows.reads).filter(|other| other == id).count();
            others > 1 || self.columns[id.0].rows != of
        };
        match wrong.or_else(|| rows.writes.iter().find(twice)) {
            Some(id) => refused(format!(
                "row function {name}: column {} has a different number of rows, or is given twice",
                self.columns[id.0].name
            )),
            None => Ok(()),
        }
    }

    fn check_pass(&self, pass: &Pass) -> Result<()> {
        let Model { name, network, .. } = &self.models[pass.model.0];
        let width = |id: ColumnId| self.columns[id.0].width;
        let inputs: usize = pass.inputs.iter().map(|id| width(*id)).sum();
        if inputs != network.inputs || width(pass.output) != network.outputs {
            return refused(format!(
                "a pass of {name} has {inputs} inputs and {} outputs, but the network has {} and {}",
                width(pass.output),
                network.inputs,
                network.outputs
            ));
        }
        let rows = self.columns[pass.output.0].rows;
        match pass.inputs.iter().find(|id| self.columns[id.0].rows != rows) {
            Some(id) => refused(format!(
                "a pass of {name}: {} has a different number of rows",
                self.columns[id.0].name
            )),
            None => Ok(()),
        }
    }

    /// Rows of a column, where so many act at a time.
    pub(crate) fn n_rows(&self, rows: RowsOf, acting: usize) -> usize {
        match rows {
            RowsOf::Acting => acting,
            RowsOf::Batch => self.batch_size,
            RowsOf::Shared => 1,
        }
    }

    /// Bytes that columns and passes take.
    pub(crate) fn bytes(&self, acting: usize) -> u128 {
        let of = |rows: RowsOf, numbers: usize| {
            (self.n_rows(rows, acting) as u128).saturating_mul(4 * numbers as u128)
        };
        let columns = self.columns.iter().map(|column| of(column.rows, column.width));
        let passes = self.passes.iter().map(|pass| {
            let network = &self.models[pass.model.0].network;
            // Inputs and their derivatives, and what each hidden layer gives.
            let kept = 2 * network.inputs + network.hidden.iter().sum::<usize>();
            of(self.columns[pass.output.0].rows, kept)
        });
        columns.chain(passes).fold(0, u128::saturating_add)
    }
}

fn refused(reason: String) -> Result<()> {
    Err(Error::Invalid(format!("an algorithm's plan does not fit together: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrainConfig;
    use crate::engine::off_policy::planned;

    #[test]
    fn a_plan_that_does_not_fit_together_is_refused() {
        let table = "env_id = \"pendulum\"\nalgorithm = \"sac\"".parse().unwrap();
        let config = TrainConfig::resolve(&table, &warp_envs::registry()).unwrap();
        let plan = planned(&config, &config.policies[0]).unwrap().plan;
        let error = |change: &dyn Fn(&mut Plan)| {
            let mut plan = plan.clone();
            change(&mut plan);
            plan.check().unwrap_err().to_string()
        };
        plan.check().unwrap();
        let said = error(&|plan| plan.rows[0].cells.clear());
        assert!(said.contains("has 2 cells, but 0 are given"), "{said}");
        let said = error(&|plan| plan.passes[0].inputs.clear());
        assert!(said.contains("has 0 inputs and"), "{said}");
        let two = plan.rows.iter().position(|rows| rows.writes.len() > 1).unwrap();
        let said = error(&|plan| plan.rows[two].writes[1] = plan.rows[two].writes[0]);
        assert!(said.contains("is given twice"), "{said}");
        let said = error(&|plan| plan.figures[0].column = plan.acting.obs);
        assert!(said.contains("no number per sample"), "{said}");
    }

    #[test]
    fn passes_have_the_gradients_that_are_wanted() {
        let table = "env_id = \"pendulum\"\nalgorithm = \"sac\"".parse().unwrap();
        let config = TrainConfig::resolve(&table, &warp_envs::registry()).unwrap();
        let plan = planned(&config, &config.policies[0]).unwrap().plan;
        let find = |is: &dyn Fn(&Pass) -> bool| PassId(plan.passes.iter().position(is).unwrap());
        let forward = find(&|pass| pass.back.is_none());
        let learning = find(&Pass::learns);
        let of_input = find(&|pass| pass.d_input().is_some());
        plan.check_backward(&[learning], Gradients::OfParameters).unwrap();
        plan.check_backward(&[of_input], Gradients::OfInput).unwrap();
        for (passes, want, what) in [
            ([learning, forward], Gradients::OfParameters, "parameters"),
            ([learning, of_input], Gradients::OfParameters, "parameters"),
            ([of_input, forward], Gradients::OfInput, "an input"),
            ([of_input, learning], Gradients::OfInput, "an input"),
        ] {
            let said = plan.check_backward(&passes, want).unwrap_err().to_string();
            assert!(said.contains(&format!("has no derivatives by {what}")), "{said}");
        }
    }
}
