//! Every algorithm and network path passes; a gradient that is wrong, however little, does not.

use super::*;
use crate::algorithm::{CellId, Engine, FigureId, Gradients, ModelId, OptimiserId, PassId, RowsId};
use crate::run::gradcheck::{BFLOAT_BOUND, CheckBatch};

/// Off-policy algorithms, their keys that change a loss, and networks of several shapes.
const CASES: [&str; 13] = [
    "env_id = \"cartpole\"\nalgorithm = \"dqn\"\nhidden = [9, 7]\nlayer_norm = true",
    "env_id = \"pendulum\"\nalgorithm = \"sac\"\nhidden = [8, 6]\nlayer_norm = true",
    "env_id = \"pendulum\"\nalgorithm = \"ddpg\"\nhidden = [7, 5]\nlayer_norm = true\nactivation = \"tanh\"",
    "env_id = \"cartpole\"\nalgorithm = \"dqn\"\nhidden = [9, 7]\ndouble = false",
    "env_id = \"acrobot\"\nalgorithm = \"dqn\"\nhidden = [8]\ndueling = true\nactivation = \"tanh\"",
    "env_id = \"pendulum\"\nalgorithm = \"ddpg\"\nhidden = [8, 6]",
    "env_id = \"pendulum\"\nalgorithm = \"td3\"\nhidden = [7, 5]",
    "env_id = \"pendulum\"\nalgorithm = \"td3\"\nhidden = [7, 5]\natoms = 5\nvalue_min = -9\nvalue_max = 2",
    "env_id = \"continuous_mountain_car\"\nalgorithm = \"td3\"\nhidden = []\nprioritised = true",
    "env_id = \"pendulum\"\nalgorithm = \"sac\"\nhidden = [8, 6]",
    "env_id = \"pendulum\"\nalgorithm = \"sac\"\nhidden = [6]\nalpha = 0.2\nactivation = \"tanh\"\n\
     log_std_min = -0.2\nlog_std_max = 0.1\nmax_grad_norm = 0.01",
    "env_id = \"acrobot\"\nalgorithm = \"sac\"\nhidden = [8, 5]",
    "env_id = \"tag_gridworld\"\nalgorithm = \"sac\"\nhidden = [6]\ntarget_entropy = 0.4\n\
     [policy.all]\ngroups = [\"tagger\", \"runner\"]",
];

/// The same networks with another batch.
const OPTIONS: CheckOptions = CheckOptions { rows: 20, seed: 3 };

fn config(keys: &str) -> TrainConfig {
    let config = TrainConfig::resolve(&keys.parse().unwrap(), &warp_envs::registry()).unwrap();
    CheckBatch::shorten(config, OPTIONS.rows)
}

#[test]
fn every_algorithm_passes() {
    for keys in CASES {
        let config = config(keys);
        let found = compare_replay(&config, &warp_envs::registry(), OPTIONS).unwrap();
        assert!(found.iter().all(Comparison::passed), "{keys}: {found:#?}");
        // Each model that learns, and no comparison of nothing with nothing.
        let Planned { plan, .. } = planned(&config, &config.policies[0]).unwrap();
        for model in plan.models.iter().filter(|model| model.target_of.is_none()) {
            let of_model = |c: &&Comparison| c.tensor.starts_with(&format!("{}.", model.name));
            let worst = found.iter().filter(of_model).map(|c| c.error).max_by(f64::total_cmp);
            // A lone number may be exact.
            let alone = model.network.n_parameters() == 1;
            assert!(worst.is_some_and(|worst| worst > 0.0 || alone), "{keys}: {}", model.name);
        }
        assert!(found.iter().any(|c| c.tensor == "loss" && c.error > 0.0), "{keys}: {found:#?}");
    }
}

/// An engine that writes one output of a row function wrong by a factor; whether it calls itself half.
struct Wrong {
    engine: CpuEngine,
    function: &'static str,
    factor: f32,
    half: bool,
}

impl Engine for Wrong {
    fn sample(&mut self) -> Result<()> {
        self.engine.sample()
    }

    fn forward(&mut self, passes: &[PassId]) -> Result<()> {
        self.engine.forward(passes)
    }

    fn backward(&mut self, passes: &[PassId], want: Gradients) -> Result<()> {
        self.engine.backward(passes, want)
    }

    fn rows(&mut self, rows: RowsId) -> Result<()> {
        self.engine.rows(rows)?;
        let rows = self.engine.plan().rows[rows.0].clone();
        if rows.function.name == self.function {
            self.engine.column_mut(rows.writes[0]).iter_mut().for_each(|x| *x *= self.factor);
        }
        Ok(())
    }

    fn step(&mut self, optimiser: OptimiserId) -> Result<()> {
        self.engine.step(optimiser)
    }

    fn polyak_update(&mut self, targets: &[ModelId], tau: CellId) -> Result<()> {
        self.engine.polyak_update(targets, tau)
    }

    fn figures(&mut self, figures: &[FigureId]) -> Result<()> {
        self.engine.figures(figures)
    }
}

impl Probe for Wrong {
    fn backend(&self) -> &'static str {
        "wrong"
    }

    fn bound(&self) -> f64 {
        if self.half { BFLOAT_BOUND } else { BOUND }
    }

    fn begin(&mut self, weights: &[NamedTensor]) -> Result<()> {
        self.engine.begin(weights)
    }

    fn set_column(&mut self, id: ColumnId, numbers: &[f32]) -> Result<()> {
        self.engine.set_column(id, numbers)
    }

    fn column(&self, id: ColumnId) -> Result<Vec<f32>> {
        Probe::column(&self.engine, id)
    }

    fn state(&self) -> Result<EngineState> {
        Probe::state(&self.engine)
    }
}

/// What a wrong row function makes of the policies' comparisons: the objectives that fail.
fn failures(keys: &str, function: &'static str, factor: f32, half: bool) -> Vec<&'static str> {
    let wrong = |config: &TrainConfig, index| -> Result<Vec<Box<dyn Probe>>> {
        Ok(vec![Box::new(Wrong { engine: on_processor(config, index)?, function, factor, half })])
    };
    let registry = warp_envs::registry();
    let found = compare_beside(&config(keys), &registry, OPTIONS, &wrong).unwrap();
    let failed = found.iter().filter(|c| !c.passed());
    assert!(failed.clone().all(|c| c.backend == "wrong" || c.against == "wrong"));
    let mut failed: Vec<_> = failed.map(|c| c.loss).collect();
    failed.dedup();
    failed
}

#[test]
fn a_wrong_gradient_is_found_where_it_is() {
    let [dqn, .., sac, _, discrete, _] = CASES;
    for (keys, function, objective) in [
        (dqn, "loss", "q"),
        (sac, "critic_loss", "critics"),
        (sac, "actor_gradient", "actor"),
        (sac, "temperature_loss", "temperature"),
        (discrete, "actor_loss", "actor"),
    ] {
        assert_eq!(failures(keys, function, 1.001, false), [objective]);
        assert_eq!(failures(keys, function, 1.1, true), [objective]);
        assert!(failures(keys, function, 1.0, false).is_empty());
    }
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let refused = |keys: &str, options| {
        let found = compare_replay(&config(keys), &warp_envs::registry(), options);
        found.unwrap_err().to_string()
    };
    let error = refused(CASES[0], CheckOptions { rows: 0, seed: 0 });
    assert!(error.contains("rows = 0"), "{error}");
    let error = refused("env_id = \"cartpole\"", OPTIONS);
    assert!(error.contains("learns from rollouts"), "{error}");
}
