//! Environments whose numbers are not finite: the run ends, and says whose they were.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use runs::AnyLearner;
use warp_core::toml::Table;
use warp_core::{
    Actions, Draw, Env, EnvSpec, LimitEnds, Observation, Result, Space, StepOut, TimeLimit,
};
use warp_func::Registry;
use warp_train::{TrainConfig, Trainer};

warp_core::config! {
    /// Configuration of [`Spoilt`].
    pub(crate) struct SpoiltConfig {
        /// 1: a reward is NaN; 2: a reward is infinite; 3: an observation is NaN.
        pub(crate) what: u32 = 0,
        /// Steps in an episode.
        pub(crate) limit: u32 = 100,
    }
}
warp_core::params! {
    /// What all replicas share.
    pub(crate) struct SpoiltParams { what: u32 }
}
warp_core::state! {
    /// The time.
    pub(crate) struct SpoiltState { clock: u32 }
}

/// Fails in the third step of every episode.
#[derive(Debug)]
struct Spoilt {
    params: SpoiltParams,
    limit: u32,
}

impl Env for Spoilt {
    const NAME: &'static str = "spoilt";
    type Config = SpoiltConfig;
    type Params = SpoiltParams;
    type State = SpoiltState;

    fn new(config: &SpoiltConfig) -> Result<Self> {
        Ok(Self { params: SpoiltParams { what: config.what }, limit: config.limit })
    }

    fn spec(&self) -> EnvSpec {
        let limit = TimeLimit { steps: self.limit, ends: LimitEnds::Truncated };
        EnvSpec::one_agent("spoilt", "one", Space::unbounded(2), Space::Discrete { n: 2 }, limit)
    }

    fn params(&self) -> &SpoiltParams {
        &self.params
    }

    fn reset(&self, state: &mut SpoiltState, _: &mut Draw) {
        state.clock = 0;
    }

    fn observe(&self, state: &SpoiltState, out: &mut Observation<'_>) {
        let spoilt = state.clock >= 3 && self.params.what == 3;
        out.obs[0].copy_from_slice(&[0.5, if spoilt { f32::NAN } else { 0.0 }]);
    }

    fn step(&self, s: &mut SpoiltState, _: &Actions<'_>, _: &mut Draw, out: &mut StepOut<'_>) {
        s.clock += 1;
        out.reward[0][0] = match (s.clock, self.params.what) {
            (3, 1) => f32::NAN,
            (3, 2) => f32::INFINITY,
            _ => 1.0,
        };
    }
}

#[test]
fn numbers_of_the_environment_that_are_not_finite_are_named() {
    let registry = Registry::new().with::<Spoilt>();
    let rewards = "the environment's rewards are not finite: those of group \"one\"";
    for (keys, words) in [
        ("what = 1", format!("{rewards} of replica 0 sum to NaN")),
        ("what = 2", format!("{rewards} of replica 0 sum to inf")),
        ("what = 1\nlimit = 4", format!("{rewards} in episodes that ended sum to NaN")),
        ("what = 3", "group \"one\" of replica 0 sees NaN".to_string()),
    ] {
        let base = "env_id = \"spoilt\"\nnum_envs = 4\nnum_steps = 8\nhidden = [4]\n[env]\n";
        let table: Table = format!("{base}{keys}").parse().unwrap();
        let config = TrainConfig::resolve(&table, &registry).unwrap();
        let learner = Box::new(AnyLearner::new(&config, 1).unwrap());
        let mut trainer = Trainer::new(config, &registry, learner, 1).unwrap();
        let error = trainer.iterate_times(2).unwrap_err().to_string();
        assert!(error.starts_with("the run failed at step 0: "), "{error}");
        assert!(error.contains(&words), "{error}");
    }
}
