//! Builds a [`Plan`]: hands out ids, and declares what every off-policy algorithm has.

use super::plan::*;
use crate::algorithm::{PolicyConfig, PolicyPlan, Schedule};
use crate::error::{Error, Result};
use crate::loss::row::RowFunction;
use crate::model::Perceptron;
use warp_core::{EnvSpec, Space};

/// A plan that is being declared.
#[derive(Debug, Default)]
pub struct PlanBuilder {
    columns: Vec<Column>,
    models: Vec<Model>,
    passes: Vec<Pass>,
    rows: Vec<Rows>,
    optimisers: Vec<Optimiser>,
    cells: Vec<Cell>,
    figures: Vec<Figure>,
}

/// What an off-policy algorithm begins with: the memory's and acting's columns, and common cells.
#[derive(Debug, Clone, Copy)]
pub struct Common {
    /// Acting's columns.
    pub acting: Acting,
    /// The memory's batch.
    pub replay: Replay,
    /// 1 / batch size.
    pub inv_batch_size: CellId,
    /// Step size.
    pub learning_rate: CellId,
    /// The critics', where it is not the same.
    pub critic_rate: CellId,
    /// Share by which targets follow.
    pub tau: CellId,
    /// Numbers per observation.
    pub obs_width: usize,
    /// Numbers per action: elements of a box, or 1.
    pub action_width: usize,
    /// Choices of a discrete action; 0 for a box.
    pub n_choices: usize,
    /// Which choices are allowed; all of them without masks.
    pub allowed: Allowed,
}

/// Columns with the allowed choices, f32 `[choices]`.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// To an agent that acts.
    pub acting: ColumnId,
    /// Where a sample's action was taken.
    pub now: ColumnId,
    /// After that action.
    pub next: ColumnId,
}

/// Lowest and highest values of a box's elements.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// f32 `[1, elements]`.
    pub low: ColumnId,
    /// f32 `[1, elements]`.
    pub high: ColumnId,
}

/// A pass with a backward pass that gives gradients of its model's parameters.
#[derive(Debug, Clone, Copy)]
pub struct LearningPass {
    /// The pass.
    pub pass: PassId,
    /// Its outputs.
    pub output: ColumnId,
    /// Where the derivatives by its outputs are to be written.
    pub d_output: ColumnId,
}

/// A pass with a backward pass that gives derivatives by one of its inputs, and none by parameters.
#[derive(Debug, Clone, Copy)]
pub struct InputGradientPass {
    /// The pass.
    pub pass: PassId,
    /// Its outputs.
    pub output: ColumnId,
    /// Where the derivatives by its outputs are to be written.
    pub d_output: ColumnId,
    /// Where the derivatives by its input are.
    pub d_input: ColumnId,
}

impl PlanBuilder {
    /// A column of zeros, f32 `[rows, width]`.
    pub fn column(&mut self, name: &str, rows: RowsOf, width: usize) -> ColumnId {
        let (name, start) = (name.to_string(), vec![0.0; width]);
        self.columns.push(Column { name, rows, width, start, kept: false });
        ColumnId(self.columns.len() - 1)
    }

    /// A batch column of one number per row.
    pub fn number(&mut self, name: &str) -> ColumnId {
        self.column(name, RowsOf::Batch, 1)
    }

    /// A column of one row that all rows share, f32 `[numbers.len()]`, which starts as `numbers`.
    pub fn shared(&mut self, name: &str, numbers: &[f32]) -> ColumnId {
        let id = self.column(name, RowsOf::Shared, numbers.len());
        self.columns[id.0].start = numbers.to_vec();
        id
    }

    /// An acting column that persists from iteration to iteration.
    pub fn kept(&mut self, name: &str, width: usize, start: f32) -> ColumnId {
        let id = self.column(name, RowsOf::Acting, width);
        let column = &mut self.columns[id.0];
        (column.start, column.kept) = (vec![start; width], true);
        id
    }

    /// A network's initial parameters, generated from the run's seed.
    pub fn model(&mut self, name: &str, network: Perceptron) -> ModelId {
        self.models.push(Model { name: name.into(), network, target_of: None });
        ModelId(self.models.len() - 1)
    }

    /// A model that starts equal to `source` and follows it.
    pub fn target(&mut self, source: ModelId) -> ModelId {
        let Model { name, network, .. } = self.models[source.0].clone();
        let name = format!("{name}_target");
        self.models.push(Model { name, network, target_of: Some(source) });
        ModelId(self.models.len() - 1)
    }

    /// A pass without a backward pass, whose output is a new column called `name`.
    pub fn pass(&mut self, name: &str, model: ModelId, inputs: &[ColumnId]) -> PassId {
        let rows = inputs.first().map_or(RowsOf::Batch, |input| self.columns[input.0].rows);
        let output = self.column(name, rows, self.models[model.0].network.outputs);
        self.passes.push(Pass { model, inputs: inputs.to_vec(), output, back: None });
        PassId(self.passes.len() - 1)
    }

    /// A pass with a backward pass, which gives gradients of the model's parameters.
    pub fn pass_and_back(
        &mut self,
        name: &str,
        model: ModelId,
        inputs: &[ColumnId],
    ) -> LearningPass {
        let pass = self.pass(name, model, inputs);
        let output = self.output(pass);
        let Column { rows, width, .. } = self.columns[output.0];
        let d_output = self.column(&format!("d_{name}"), rows, width);
        self.passes[pass.0].back = Some(Back { d_output, d_input: None });
        LearningPass { pass, output, d_output }
    }

    /// A pass with a backward pass to its input number `input`: it gives derivatives by that input, and leaves the
    /// model's parameters alone.
    pub fn pass_and_back_to(
        &mut self,
        name: &str,
        model: ModelId,
        inputs: &[ColumnId],
        input: usize,
    ) -> InputGradientPass {
        let LearningPass { pass, output, d_output } = self.pass_and_back(name, model, inputs);
        let Column { rows, width, .. } = self.columns[inputs[input].0];
        let d_input = self.column(&format!("d_input_of_{name}"), rows, width);
        let to = DerivativeOfInput { input, column: d_input };
        self.passes[pass.0].back = Some(Back { d_output, d_input: Some(to) });
        InputGradientPass { pass, output, d_output, d_input }
    }

    /// A pass's outputs.
    pub fn output(&self, pass: PassId) -> ColumnId {
        self.passes[pass.0].output
    }

    /// A row function with its cells and columns, in its order.
    pub fn rows(
        &mut self,
        function: &'static RowFunction,
        cells: &[CellId],
        reads: &[ColumnId],
        writes: &[ColumnId],
    ) -> RowsId {
        let (cells, reads, writes) = (cells.to_vec(), reads.to_vec(), writes.to_vec());
        self.rows.push(Rows { function, cells, reads, writes });
        RowsId(self.rows.len() - 1)
    }

    /// A number that is set before each iteration.
    pub fn cell(&mut self, name: &str, value: Schedule) -> CellId {
        self.cells.push(Cell { name: name.into(), value });
        CellId(self.cells.len() - 1)
    }

    /// A number that stays.
    pub fn constant(&mut self, name: &str, value: f64) -> CellId {
        self.cell(name, Schedule::constant(value))
    }

    /// A cell with the amount of exploration: none for a policy that does not learn.
    pub fn exploration(&mut self, name: &str, value: &Schedule, policy: &PolicyPlan) -> CellId {
        match policy.config.to_train {
            true => self.cell(name, value.clone()),
            false => self.constant(name, 0.0),
        }
    }

    /// Models that are moved together, with the policy's constants.
    pub fn optimiser(
        &mut self,
        name: &str,
        models: &[ModelId],
        learning_rate: CellId,
        policy: &PolicyPlan,
    ) -> OptimiserId {
        // A number alone: the configuration is checked.
        let (config, max_grad_norm) =
            (policy.optimiser_config(), policy.config.max_grad_norm.at(0));
        let (name, models) = (name.into(), models.to_vec());
        self.optimisers.push(Optimiser { name, models, learning_rate, config, max_grad_norm });
        OptimiserId(self.optimisers.len() - 1)
    }

    /// As [`PlanBuilder::optimiser`], without weight decay: for models that are no networks.
    pub fn optimiser_without_decay(
        &mut self,
        name: &str,
        models: &[ModelId],
        learning_rate: CellId,
        policy: &PolicyPlan,
    ) -> OptimiserId {
        let id = self.optimiser(name, models, learning_rate, policy);
        self.optimisers[id.0].config.weight_decay = 0.0;
        id
    }

    /// The mean of a batch column of width 1, as metrics report it.
    pub fn figure(&mut self, name: &'static str, column: ColumnId) -> FigureId {
        self.figures.push(Figure { name, column });
        FigureId(self.figures.len() - 1)
    }

    /// Declares what every off-policy algorithm has.
    ///
    /// # Errors
    /// The action space has several heads (`MultiDiscrete`).
    pub fn common(&mut self, policy: &PolicyPlan, spec: &EnvSpec) -> Result<Common> {
        let keys = &policy.config;
        let group = policy.group(spec);
        let (obs_width, mask_width) = (group.observation_width(), group.mask_width());
        let heads = policy.layout.head_sizes();
        if heads.len() > 1 {
            return Err(Error::Invalid(format!(
                "policy \"{}\": {} supports a Discrete action or a Box, but the actions of group \
                 \"{}\" are {}",
                policy.name, policy.algorithm.name, group.name, group.action
            )));
        }
        let n_choices = heads.first().copied().unwrap_or(0);
        let action_width = policy.layout.action_width();
        let masked = mask_width > 0;
        let obs = self.column("obs_acting", RowsOf::Acting, obs_width);
        let mask = masked.then(|| self.column("mask_acting", RowsOf::Acting, mask_width));
        let begins = self.kept("begins", 1, 1.0);
        let action = self.column("action_acting", RowsOf::Acting, action_width);
        let env_action = self.column("env_action", RowsOf::Acting, action_width);
        let replay = self.replay(keys, obs_width, action_width, masked.then_some(mask_width));
        let learning_rate = self.cell("learning_rate", keys.learning_rate.clone());
        let critic_rate = keys.critic_learning_rate.as_ref();
        let critic_rate = critic_rate
            .map_or(learning_rate, |rate| self.cell("critic_learning_rate", rate.clone()));
        let all = self.shared("all", &vec![1.0; n_choices.max(1)]);
        let allowed = Allowed {
            acting: mask.unwrap_or(all),
            now: replay.mask.unwrap_or(all),
            next: replay.next_mask.unwrap_or(all),
        };
        let inv_batch_size = self.constant("inv_batch_size", 1.0 / keys.batch_size as f64);
        let random = self.constant("random", 0.0);
        Ok(Common {
            acting: Acting { obs, mask, begins, action, env_action, random },
            replay,
            allowed,
            inv_batch_size,
            learning_rate,
            critic_rate,
            tau: self.constant("tau", keys.tau),
            obs_width,
            action_width,
            n_choices,
        })
    }

    /// The memory's batch.
    fn replay(
        &mut self,
        keys: &PolicyConfig,
        obs_width: usize,
        action_width: usize,
        mask_width: Option<usize>,
    ) -> Replay {
        let error = self.number("error");
        let priority = keys.prioritised.then(|| Priority {
            alpha: self.constant("priority_alpha", keys.priority_alpha),
            beta: self.cell("priority_beta", keys.priority_beta.clone()),
        });
        Replay {
            capacity: keys.buffer_size,
            n_step: keys.n_step,
            gamma: self.cell("gamma", keys.gamma.clone()),
            obs: self.column("obs", RowsOf::Batch, obs_width),
            action: self.column("action", RowsOf::Batch, action_width),
            reward: self.number("reward"),
            discount: self.number("discount"),
            next_obs: self.column("next_obs", RowsOf::Batch, obs_width),
            next_mask: mask_width.map(|width| self.column("next_mask", RowsOf::Batch, width)),
            mask: mask_width.map(|width| self.column("mask", RowsOf::Batch, width)),
            weight: self.number("weight"),
            error,
            priority,
        }
    }

    /// The bounds of a policy's box.
    ///
    /// # Errors
    /// The action space is not a `Box`.
    pub fn bounds(&mut self, policy: &PolicyPlan, spec: &EnvSpec) -> Result<Bounds> {
        let group = policy.group(spec);
        match &group.action {
            Space::Box { low, high, .. } => {
                Ok(Bounds { low: self.shared("low", low), high: self.shared("high", high) })
            }
            other => Err(Error::Invalid(format!(
                "policy \"{}\": {} needs actions in a Box, but the actions of group \"{}\" are \
                 {other}",
                policy.name, policy.algorithm.name, group.name
            ))),
        }
    }

    /// A perceptron with the policy's hidden layers.
    pub fn perceptron(policy: &PolicyPlan, inputs: usize, outputs: usize) -> Perceptron {
        let keys = &policy.config;
        Perceptron {
            inputs,
            hidden: keys.hidden.clone(),
            activation: keys.activation,
            layer_norm: keys.layer_norm,
            outputs,
            init: keys.init,
            gain: 1.0,
            bias: Vec::new(),
        }
    }

    /// The number of choices, where there are some.
    ///
    /// # Errors
    /// The action space is not `Discrete`.
    pub fn choices(policy: &PolicyPlan, spec: &EnvSpec, common: &Common) -> Result<usize> {
        if common.n_choices > 0 {
            return Ok(common.n_choices);
        }
        let group = policy.group(spec);
        Err(Error::Invalid(format!(
            "policy \"{}\": {} needs a Discrete action, but the actions of group \"{}\" are {}",
            policy.name, policy.algorithm.name, group.name, group.action
        )))
    }

    /// The whole plan.
    pub fn finish(self, policy: &PolicyPlan, common: &Common, greedy: Greedy) -> Plan {
        let Self { columns, models, passes, rows, optimisers, cells, figures } = self;
        let Common { acting, replay, .. } = *common;
        let batch_size = policy.config.batch_size;
        Plan {
            batch_size,
            columns,
            models,
            passes,
            rows,
            optimisers,
            cells,
            figures,
            acting,
            replay,
            greedy,
        }
    }
}
