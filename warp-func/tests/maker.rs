//! Simulators that are registered by what makes them: known and made by name, refused what needs a body.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod worlds;

use warp_core::toml::Table;
use warp_core::{Env, EnvSpec, Space};
use warp_data::{Store, StoreMut};
use warp_func::{
    ArrayIds, CpuVecEnv, EpisodeTotals, Error, Maker, Registry, Result, Start, VecEnv, VecOptions,
};
use worlds::crowd::Crowd;
use worlds::run;
use worlds::scalars::{Cart, RoadConfig};

type ChangeSpec = fn(EnvSpec) -> EnvSpec;
type ChangeIds = fn(&mut ArrayIds);

/// Makes what its functions say; any `VecEnv` will do, so the executor of an `Env` does.
struct Carts {
    spec: ChangeSpec,
    options: fn(VecOptions) -> VecOptions,
    ids: ChangeIds,
    unasked: usize,
}

/// Makes what it is asked for.
const HONEST: Carts =
    Carts { spec: |spec| spec, options: |options| options, ids: |_| {}, unasked: 0 };

/// Carts that number their arrays themselves, and need not be as many as they claim to be.
struct Renamed {
    carts: CpuVecEnv<Cart>,
    options: VecOptions,
    ids: ArrayIds,
}

impl VecEnv for Renamed {
    fn spec(&self) -> &EnvSpec {
        self.carts.spec()
    }
    fn options(&self) -> &VecOptions {
        &self.options
    }
    fn store(&self) -> &Store {
        self.carts.store()
    }
    fn store_mut(&mut self) -> StoreMut<'_> {
        self.carts.store_mut()
    }
    fn ids(&self) -> &ArrayIds {
        &self.ids
    }
    fn reset(&mut self) -> Result<()> {
        self.carts.reset()
    }
    fn step(&mut self) -> Result<()> {
        self.carts.step()
    }
    fn observe(&mut self) -> Result<()> {
        self.carts.observe()
    }
    fn run_step(&self) -> u32 {
        self.carts.run_step()
    }
    fn set_run_step(&mut self, step: u32) {
        self.carts.set_run_step(step);
    }
    fn take_episodes(&mut self) -> EpisodeTotals {
        self.carts.take_episodes()
    }
}

impl Maker for Carts {
    type Config = RoadConfig;

    fn spec(&self, config: &RoadConfig) -> Result<EnvSpec> {
        Ok((self.spec)(Cart::new(config)?.spec()))
    }

    fn make(&self, config: &RoadConfig, options: &VecOptions) -> Result<Box<dyn VecEnv>> {
        let options = (self.options)(options.clone());
        let more = VecOptions { n_envs: options.n_envs + self.unasked, ..options.clone() };
        let carts = CpuVecEnv::new(Cart::new(config)?, more)?;
        let mut ids = carts.ids().clone();
        (self.ids)(&mut ids);
        Ok(Box::new(Renamed { carts, options, ids }))
    }

    fn training(&self) -> Vec<&'static str> {
        vec!["gamma = 0.5"]
    }
}

fn options() -> VecOptions {
    VecOptions { n_envs: 6, seed: 3, ..VecOptions::default() }
}

#[test]
fn a_simulator_is_known_and_made_by_name() {
    let registry = Registry::new().with::<Cart>().with_maker("mill", HONEST);
    let entry = registry.get("mill").unwrap();
    assert_eq!((entry.name, &entry.training[..]), ("mill", &["gamma = 0.5"][..]));
    assert!(entry.kernel.is_none() && entry.notice.is_none() && entry.drawing.is_none());
    let (table, spec) = entry.describe(&"limit = 5".parse().unwrap()).unwrap();
    assert_eq!((table["limit"].as_integer(), spec.name.as_str()), (Some(5), "mill"));
    assert_eq!(spec.time_limit.steps, 5);
    assert!(entry.bytes_per_replica(&Table::new()).unwrap() > 0);
    let mut envs = entry.make(&Table::new(), &options()).unwrap();
    run(&mut *envs, 3);
    assert_eq!(envs.run_step(), 3);
    let wrong = entry.describe(&"limt = 5".parse().unwrap()).unwrap_err().to_string();
    assert!(wrong.contains("\"env.limt\"") && wrong.contains("\"env.limit\""), "{wrong}");
    let again = registry.with_maker("mill", HONEST);
    assert_eq!(again.entries().count(), 2, "one of the same name is replaced");
}

#[test]
fn what_needs_a_body_says_that_there_is_none() {
    let registry = Registry::new().with_maker("mill", HONEST);
    let (entry, config) = (registry.get("mill").unwrap(), Table::new());
    let pooled = VecOptions { start: Start::Pool, ..options() };
    for refused in [
        entry.check(&config, 3).unwrap_err(),
        entry.blueprint(&config).unwrap_err(),
        entry.bytes_per_pool_row(&config).unwrap_err(),
        entry.make(&config, &pooled).map(drop).unwrap_err(),
    ] {
        assert_eq!(refused, Error::Foreign { env: "mill".into() });
        assert!(refused.to_string().contains("\"mill\" is a simulator of its own"));
    }
}

fn refused(maker: Carts, options: &VecOptions) -> String {
    let registry = Registry::new().with_maker("mill", maker);
    let made = registry.get("mill").unwrap().make(&Table::new(), options);
    made.map(drop).unwrap_err().to_string()
}

#[test]
fn what_is_made_is_what_was_described_and_asked_for() {
    let described: [(ChangeSpec, &str); 4] = [
        (|mut spec| (spec.groups[0].n_agents += 1, spec).1, "groups"),
        (|mut spec| (spec.time_limit.steps += 1, spec).1, "time limit"),
        (|spec| EnvSpec { statistics: vec!["score".into()], ..spec }, "statistics"),
        (
            |spec| EnvSpec { global_observation: Some(Space::unbounded(1)), ..spec },
            "global observations",
        ),
    ];
    for (spec, part) in described {
        let words = refused(Carts { spec, ..HONEST }, &options());
        assert!(words.contains(part) && words.contains("differ from its maker's spec"), "{words}");
    }
    let fewer = |options| VecOptions { n_envs: 2, ..options };
    let words = refused(Carts { options: fewer, ..HONEST }, &options());
    assert!(words.contains("n_envs: 2") && words.contains("n_envs: 6"), "{words}");
    let words = refused(HONEST, &VecOptions { n_envs: 0, ..options() });
    assert!(words.contains("at least one replica"), "{words}");
}

#[test]
fn arrays_that_trainers_would_misread_are_refused() {
    let arrays: [(ChangeIds, &str); 5] = [
        (
            |ids| ids.obs[0] = ids.reward[0],
            "array \"obs.driver\" is f32 [6, 1], but has to be f32 [6, 1, 2]",
        ),
        (
            |ids| ids.truncated = ids.episode_length,
            "array \"truncated\" is u32 [6], but has to be u8 [6]",
        ),
        (
            |ids| ids.action.clear(),
            "array \"action.driver\" is missing, but has to be i32 [6, 1, 1]",
        ),
        (
            |ids| ids.alive[0] = Some(ids.terminated),
            "array \"alive.driver\" is u8 [6], but has to be missing",
        ),
        (
            |ids| ids.statistic = Some(ids.reward[0]),
            "array \"statistic\" is f32 [6, 1], but has to be missing",
        ),
    ];
    for (ids, expected) in arrays {
        let words = refused(Carts { ids, ..HONEST }, &options());
        assert!(words.contains(expected), "{words}");
    }
    let words = refused(Carts { unasked: 1, ..HONEST }, &options());
    let expected = "array \"obs.driver\" is f32 [7, 1, 2], but has to be f32 [6, 1, 2]";
    assert!(words.contains(expected), "{words}");
}

#[test]
fn a_spec_that_contradicts_itself_is_not_described() {
    let registry = Registry::new().with::<Crowd>();
    for (prey, part) in [(0, "has 0 agents"), (u32::MAX, "has 4294967295 agents, but 1 to")] {
        let config = Table::from_iter([("prey".to_string(), i64::from(prey).into())]);
        let entry = registry.get("crowd").unwrap();
        let errors =
            [entry.describe(&config).unwrap_err(), entry.bytes_per_replica(&config).unwrap_err()];
        for error in errors.map(|error| error.to_string()) {
            assert!(error.contains("group \"prey\"") && error.contains(part), "{error}");
        }
    }
}
