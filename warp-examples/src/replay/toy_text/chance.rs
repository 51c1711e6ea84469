//! One replica whose chance is chosen: a state is loaded, and a step of the run is sought whose draws
//! are the wanted ones.

use super::super::case::Case;
use super::super::compare::{Mode, Tallies};
use super::super::plan::{Place, Tolerance, Treatment};
use anyhow::{Result, anyhow, ensure};
use warp_core::{Draw, Purpose};
use warp_data::ArrayId;
use warp_func::{VecEnv, VecOptions, registry::Entry};

/// Steps of a run that are looked through.
const STEPS: u32 = 1 << 31;

/// The replica, and what was found.
pub(super) struct Chance {
    env: Box<dyn VecEnv>,
    tallies: Tallies,
}

/// A state, and what is done in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before<'s> {
    /// State fields and their values.
    pub(super) state: &'s [(&'s str, i32)],
    /// Steps since the episode began.
    pub(super) timestep: u32,
    /// What is done.
    pub(super) action: i32,
}

impl Chance {
    pub(super) fn new(entry: &Entry, case: &Case) -> Result<Self> {
        let options = VecOptions { auto_reset: false, ..VecOptions::default() };
        let env = entry.make(&case.config, &options)?;
        Ok(Self { env, tallies: Tallies::default() })
    }

    pub(super) fn finish(mut self) -> Result<Tallies> {
        self.env.sync()?;
        Ok(self.tallies)
    }

    /// A step of the run whose draws for `purpose` are `wanted`; the first is 1.
    fn seek(&self, purpose: Purpose, wanted: impl Fn(Draw) -> bool) -> Result<u32> {
        let seed = self.env.options().seed;
        let found = (1..STEPS).find(|step| wanted(Draw::new(seed, 0, *step, purpose)));
        found.ok_or_else(|| anyhow!("no step of a run draws what was recorded"))
    }

    /// Starts an episode with draws that are `wanted`.
    pub(super) fn start(&mut self, wanted: impl Fn(Draw) -> bool) -> Result<()> {
        let step = self.seek(Purpose::Reset, wanted)?;
        self.env.set_run_step(step);
        Ok(self.env.reset()?)
    }

    /// Puts the replica into a state.
    pub(super) fn load(&mut self, before: Before<'_>) -> Result<()> {
        self.env.reset()?;
        for (name, value) in before.state {
            let id = self.field(name)?;
            self.env.store_mut().slice_mut::<i32>(id)[0] = *value;
        }
        let length = self.env.ids().episode_length;
        self.env.store_mut().slice_mut::<u32>(length)[0] = before.timestep;
        Ok(self.env.observe()?)
    }

    /// Does something in the present state, with draws that are `wanted`.
    pub(super) fn act(&mut self, action: i32, wanted: impl Fn(Draw) -> bool) -> Result<()> {
        // A step is counted before it is taken.
        let step = self.seek(Purpose::Step, wanted)?;
        self.env.set_run_step(step - 1);
        self.env.actions_mut(0)?.discrete()[0] = action;
        Ok(self.env.step()?)
    }

    /// As [`Chance::load`], then [`Chance::act`].
    pub(super) fn step(&mut self, before: Before<'_>, wanted: impl Fn(Draw) -> bool) -> Result<()> {
        self.load(before)?;
        self.act(before.action, wanted)
    }

    fn field(&self, name: &str) -> Result<ArrayId> {
        let named = |id: &&ArrayId| self.env.store().array(**id).name() == name;
        let found = self.env.ids().state.iter().find(named).copied();
        found.ok_or_else(|| anyhow!("the environment has no state field \"{name}\""))
    }

    /// A number of the state.
    pub(super) fn state(&self, name: &str) -> Result<f64> {
        Ok(f64::from(self.env.store().slice::<i32>(self.field(name)?)[0]))
    }

    /// What the agent sees.
    pub(super) fn observation(&self) -> Vec<f64> {
        let seen = self.env.store().slice::<f32>(self.env.ids().obs[0]);
        seen.iter().map(|x| f64::from(*x)).collect()
    }

    /// The place of the 1 in a one-hot observation, NaN if it is none.
    pub(super) fn one_hot(&self) -> f64 {
        let seen = self.observation();
        let ones = seen.iter().filter(|x| **x == 1.0).count();
        match seen.iter().position(|x| *x == 1.0) {
            Some(place) if ones == 1 && seen.iter().sum::<f64>() == 1.0 => place as f64,
            _ => f64::NAN,
        }
    }

    /// What the agent may do.
    pub(super) fn mask(&self) -> Result<Vec<f64>> {
        let id = self.env.ids().action_mask[0];
        let id = id.ok_or_else(|| anyhow!("the environment has no action mask"))?;
        Ok(self.env.store().slice::<u8>(id).iter().map(|x| f64::from(*x)).collect())
    }

    /// Reward, terminated and truncated of the last step.
    pub(super) fn outcome(&self) -> [f64; 3] {
        let (store, ids) = (self.env.store(), self.env.ids());
        let flag = |id| f64::from(store.slice::<u8>(id)[0]);
        [f64::from(store.slice::<f32>(ids.reward[0])[0]), flag(ids.terminated), flag(ids.truncated)]
    }

    /// Steps since the episode began.
    pub(super) fn elapsed(&self) -> f64 {
        f64::from(self.env.store().slice::<u32>(self.env.ids().episode_length)[0])
    }

    /// Compares `seen` with row `row` of the array `name`.
    pub(super) fn expect(
        &mut self,
        name: &str,
        row: usize,
        expected: &[f64],
        seen: &[f64],
    ) -> Result<()> {
        self.compare(name, Mode::Teacher, Tolerance::EXACT, row, expected, seen)
    }

    /// As [`Chance::expect`], for what follows from the configuration.
    pub(super) fn follows(
        &mut self,
        name: &str,
        row: usize,
        expected: &[f64],
        seen: &[f64],
    ) -> Result<()> {
        // Probabilities are f32 here.
        self.compare(name, Mode::Config, Tolerance::within(1e-6), row, expected, seen)
    }

    fn compare(
        &mut self,
        name: &str,
        mode: Mode,
        tolerance: Tolerance,
        row: usize,
        expected: &[f64],
        seen: &[f64],
    ) -> Result<()> {
        ensure!(
            expected.len() == seen.len(),
            "array \"{name}\" has {} elements per row, but {} are needed",
            expected.len(),
            seen.len()
        );
        let tally = self.tallies.index(name, mode, tolerance);
        for (element, (expected, seen)) in expected.iter().zip(seen).enumerate() {
            let place = Place { row, agent: 0, element };
            let plain = Treatment::Plain;
            self.tallies.element(tally, place, tolerance.bound, plain, *expected, *seen);
        }
        Ok(())
    }
}
