//! Simulators that are registered by what makes them: known and made by name, refused what needs a body.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod worlds;

use warp_core::toml::Table;
use warp_core::{Env, EnvSpec};
use warp_func::{CpuVecEnv, Error, Maker, Registry, Result, Start, VecEnv, VecOptions};
use worlds::run;
use worlds::scalars::{Cart, RoadConfig};

/// Makes what its functions say; any `VecEnv` will do, so the executor of an `Env` does.
struct Carts {
    spec: fn(EnvSpec) -> EnvSpec,
    options: fn(VecOptions) -> VecOptions,
}

/// Makes what it is asked for.
const HONEST: Carts = Carts { spec: |spec| spec, options: |options| options };

impl Maker for Carts {
    type Config = RoadConfig;

    fn spec(&self, config: &RoadConfig) -> Result<EnvSpec> {
        Ok((self.spec)(Cart::new(config)?.spec()))
    }

    fn make(&self, config: &RoadConfig, options: &VecOptions) -> Result<Box<dyn VecEnv>> {
        Ok(Box::new(CpuVecEnv::new(Cart::new(config)?, (self.options)(options.clone()))?))
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

#[test]
fn what_is_made_is_what_was_described_and_asked_for() {
    let refused = |maker: Carts, options: &VecOptions| {
        let registry = Registry::new().with_maker("mill", maker);
        let made = registry.get("mill").unwrap().make(&Table::new(), options);
        made.map(drop).unwrap_err().to_string()
    };
    let wider = |mut spec: EnvSpec| {
        spec.groups[0].n_agents += 1;
        spec
    };
    let words = refused(Carts { spec: wider, ..HONEST }, &options());
    assert!(words.contains("groups differ from its maker's spec"), "{words}");
    let fewer = |options| VecOptions { n_envs: 2, ..options };
    let words = refused(Carts { options: fewer, ..HONEST }, &options());
    assert!(words.contains("n_envs: 2") && words.contains("n_envs: 6"), "{words}");
    let words = refused(HONEST, &VecOptions { n_envs: 0, ..options() });
    assert!(words.contains("at least one replica"), "{words}");
}
