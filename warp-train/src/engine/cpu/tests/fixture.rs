//! A policy with a small network and a memory of random transitions.

use super::reference::Reference;
use crate::algorithm::{Algorithm, Algorithms, Learns, Planned, PolicyPlan};
use crate::config::policies::plan_policies;
use crate::config::{Shards, Sharing};
use crate::engine::cpu::{CpuEngine, Place};
use crate::memory::{TERMINATED, TRUNCATED, Transition};
use crate::run::gradcheck::replay::{Row, noise, wide};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use warp_core::toml::Table;
use warp_core::{EnvSpec, Space, TimeLimit};

/// Numbers per observation.
const OBS: usize = 3;
/// Replicas and agents in each.
const REPLICAS: usize = 3;
const AGENTS: usize = 2;
/// Steps in the memory.
const STEPS: usize = 20;

/// Keys that all fixtures have, unless they set them themselves.
const KEYS: &str = r#"
hidden = [5, 4]
batch_size = 16
learning_rate = 1e-2
gamma = 0.9
tau = 0.3
"#;

/// An algorithm, its engine, and the policy that they are of.
#[derive(Debug)]
pub(super) struct Fixture {
    pub(super) policy: PolicyPlan,
    pub(super) algorithm: Box<dyn Algorithm>,
    pub(super) engine: CpuEngine,
}

/// Actions of two elements.
pub(super) fn arm() -> EnvSpec {
    let action = Space::Box { low: vec![-1.0, -2.0], high: vec![1.0, 3.0], shape: vec![2] };
    spec(Space::unbounded(OBS), action)
}

/// One of four choices.
pub(super) fn choices() -> EnvSpec {
    spec(Space::unbounded(OBS), Space::Discrete { n: 4 })
}

/// One of four choices, some of which are forbidden.
pub(super) fn masked_choices() -> EnvSpec {
    let mask = Space::boxed(0.0, 1.0, &[4]);
    let parts = [("action_mask", mask), ("state", Space::unbounded(OBS))];
    let observation = Space::Dict(parts.map(|(name, part)| (name.to_string(), part)).to_vec());
    spec(observation, Space::Discrete { n: 4 })
}

fn spec(observation: Space, action: Space) -> EnvSpec {
    let mut spec = EnvSpec::one_agent("toy", "all", observation, action, TimeLimit::UNLIMITED);
    spec.groups[0].n_agents = AGENTS;
    spec
}

impl Fixture {
    /// The policy that `keys` describe in `spec`, with a full memory.
    pub(super) fn new(spec: &EnvSpec, keys: &str) -> Self {
        Self::of_shards(spec, keys, 1)
    }

    /// Follows updates where most agents have left the game: for some samples, no try finds one that has not.
    pub(super) fn follows_few(spec: &EnvSpec, keys: &str) {
        let mut fixture = Self::empty(spec, &format!("batch_size = 60\n{keys}"), 1);
        fixture.fill(spec, 0.1);
        fixture.follows(4);
        let weights = fixture.column("weight").concat();
        assert!(weights.contains(&0.0) && weights.contains(&1.0), "{weights:?}");
    }

    /// The same with a memory of so many shards.
    pub(super) fn of_shards(spec: &EnvSpec, keys: &str, shards: usize) -> Self {
        let mut fixture = Self::empty(spec, keys, shards);
        fixture.fill(spec, 0.9);
        fixture
    }

    fn empty(spec: &EnvSpec, keys: &str, shards: usize) -> Self {
        let mut table: Table = KEYS.parse().unwrap();
        table.extend(keys.parse::<Table>().unwrap());
        let algorithms = Algorithms::of(&warp_func::Registry::new());
        let policy = plan_policies(&algorithms, &table, &[], spec, 1000).unwrap().remove(0);
        let Learns::FromReplay(plan) = policy.algorithm.learns else {
            panic!("{keys}: learns from rollouts")
        };
        let Planned { plan, algorithm } = plan(&policy, spec).unwrap();
        let n_rows = REPLICAS * AGENTS;
        let place = Place {
            seed: 11,
            policy: 1,
            n_rows,
            n_agents: AGENTS,
            first_agent: 3,
            first_replica: 0,
        };
        let shards = Shards { first: 0, here: shards, total: shards };
        let sharing = Sharing { shards, ..Sharing::default() };
        let engine = CpuEngine::new(plan, place, &sharing, policy.config.activation, 2).unwrap();
        Self { policy, algorithm, engine }
    }

    /// Fills the memory; `in_game` is the share of agents that have not left.
    fn fill(&mut self, spec: &EnvSpec, in_game: f64) {
        let rng = &mut StdRng::seed_from_u64(5);
        (0..STEPS).for_each(|_| self.store(spec, in_game, rng));
    }

    /// Stores a random step of all rows; some episodes end, some agents have left.
    fn store(&mut self, spec: &EnvSpec, in_game: f64, rng: &mut StdRng) {
        let n_rows = REPLICAS * AGENTS;
        let n_choices = spec.groups[0].action.head_sizes().first().copied().unwrap_or(0);
        let masked = spec.groups[0].mask_width() > 0;
        let mut random =
            |n: usize| -> Vec<f32> { (0..n).map(|_| rng.random_range(-1.0..1.0_f32)).collect() };
        let (obs, next_obs) = (random(n_rows * OBS), random(n_rows * OBS));
        let (reward, elements) = (random(n_rows), random(n_rows * 2));
        let chosen: Vec<usize> = (0..n_rows).map(|_| rng.random_range(0..4)).collect();
        // What is chosen is allowed, and now and then nothing else is.
        let n_flags = if masked { n_rows * 4 } else { 0 };
        let mut allowed = |i: usize| u8::from(chosen[i / 4] == i % 4 || rng.random_bool(0.4));
        let mask: Vec<u8> = (0..n_flags).map(&mut allowed).collect();
        let next_mask: Vec<u8> = (0..n_flags).map(&mut allowed).collect();
        let action = match n_choices {
            0 => elements,
            _ => chosen.iter().map(|choice| *choice as f32).collect(),
        };
        let end = |number| [TERMINATED, TRUNCATED, 0, 0, 0][number];
        let ends: Vec<u8> = (0..n_rows).map(|_| end(rng.random_range(0..5))).collect();
        let alive: Vec<u8> = (0..n_rows).map(|_| u8::from(rng.random_bool(in_game))).collect();
        self.engine.memory_mut().store(&Transition {
            obs: &obs,
            action: &action,
            reward: &reward,
            next_obs: &next_obs,
            ends: &ends,
            alive: &alive,
            mask: &mask,
            next_mask: &next_mask,
        });
    }

    /// The rows of the column called `name`; none if there is no such column.
    pub(super) fn column(&self, name: &str) -> Vec<Vec<f64>> {
        let columns = &self.engine.plan().columns;
        let Some(index) = columns.iter().position(|column| column.name == name) else {
            return Vec::new();
        };
        let rows = self.engine.columns[index].chunks(columns[index].width);
        rows.map(wide).collect()
    }

    /// The batch that was drawn last.
    pub(super) fn batch(&self) -> Vec<Row> {
        let of = |name: &str| self.column(name);
        let (obs, action, next_obs) = (of("obs"), of("action"), of("next_obs"));
        let (reward, discount, weight) = (of("reward"), of("discount"), of("weight"));
        let allowed = |rows: &[Vec<f64>], row: usize| -> Vec<bool> {
            rows.get(row).map_or(Vec::new(), |row| row.iter().map(|x| *x == 1.0).collect())
        };
        let (mask, next_mask) = (of("mask"), of("next_mask"));
        let drawn = |column: &str, row: usize| {
            noise(self.engine.plan(), &self.engine.place, self.engine.updates(), column, row)
        };
        let row = |row: usize| Row {
            obs: obs[row].clone(),
            action: action[row].clone(),
            reward: reward[row][0],
            discount: discount[row][0],
            next_obs: next_obs[row].clone(),
            weight: weight[row][0],
            mask: allowed(&mask, row),
            next_mask: allowed(&next_mask, row),
            noise: drawn("sampled_action", row),
            next_noise: drawn("next_action", row),
        };
        let batch: Vec<Row> = (0..obs.len()).map(row).collect();
        // Some end for good, others go on.
        assert!(batch.iter().any(|row| row.discount == 0.0));
        assert!(batch.iter().any(|row| row.discount > 0.0));
        batch
    }

    /// Some updates, each compared with the slow one of the same state.
    pub(super) fn follows(&mut self, n_updates: usize) {
        for _ in 0..n_updates {
            let mut expected = Reference::of(self);
            let variant = self.algorithm.variant(self.engine.updates());
            self.algorithm.update(&mut self.engine, variant).unwrap();
            expected.update(self, variant);
            expected.compare(&Reference::of(self));
            self.engine.finish_update().unwrap();
        }
    }
}
