//! Recordings of any environment, by the names of its own arrays.
//!
//! The state is one array per field, `[T + 1, ...]`, called as the field; or one matrix `state`,
//! `[T + 1, S]`, whose columns are the fields in their order; or, for transitions that do not
//! follow one another, `state` and `next_state`, `[T, S]`. Beside it stand `actions`, `rewards` and
//! `observations` (or `actions.<group>` and so on) and `done` (`terminated` beside `next_state`).
//! A field `timestep` may be left out.

use super::adapter::{AS_RECORDED, Adapter, Draft, expect_row_len};
use super::case::Case;
use super::plan::{Check, Origin, Plan, Rule, Tolerance, Track, Treatment};
use anyhow::{Result, ensure};
use toml::Table;
use warp_core::DType;
use warp_func::VecEnv;

/// The adapter for environments that have none of their own.
pub(super) const ADAPTER: Adapter = Adapter { config: |case| Ok(case.config.clone()), plan };

/// How the columns of `state` and the elements of an observation are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Bound of real numbers after one step.
    pub(super) bound: f64,
    /// Bound of the state when it runs free.
    pub(super) free_bound: f64,
    /// Transitions that are followed without loading.
    pub(super) free_transitions: usize,
    /// Columns of the state that are angles, compared modulo a full turn.
    pub(super) angles: &'static [usize],
    /// Columns of the state with a bound of their own after one step, and that bound.
    pub(super) loose_state: (&'static [usize], f64),
    /// Elements of an observation with a bound of their own, and that bound.
    pub(super) loose_observation: (&'static [usize], f64),
}

impl Rules {
    /// One bound for everything.
    pub(super) const PLAIN: Rules = Rules {
        bound: 1e-5,
        free_bound: 1e-3,
        free_transitions: usize::MAX,
        angles: &[],
        loose_state: (&[], 0.0),
        loose_observation: (&[], 0.0),
    };

    /// The bounds of a state field, after one step and running free.
    fn bounds(&self, dtype: DType) -> (Tolerance, Tolerance) {
        match dtype {
            DType::F32 => (Tolerance::within(self.bound), Tolerance::within(self.free_bound)),
            _ => (Tolerance::EXACT, Tolerance::EXACT),
        }
    }
}

fn plan(case: &Case, _config: &Table, env: &dyn VecEnv) -> Result<Plan> {
    plan_by_names(case, env, &Rules::PLAIN)
}

/// The plan for a recording in the form that this file describes.
pub(super) fn plan_by_names(case: &Case, env: &dyn VecEnv, rules: &Rules) -> Result<Plan> {
    let chained = case.find("next_state").is_none();
    let transitions = if chained { case.steps } else { case.array("state")?.rows() };
    let mut draft = Draft::new(case, env, transitions, chained)?;
    if case.find("state").is_some() {
        matrix(&mut draft, chained, rules)?;
    } else {
        fields(&mut draft, rules)?;
    }
    draft.actions()?;
    let within = Tolerance::within(rules.bound);
    draft.observations(chained, AS_RECORDED, within, None, rules.loose_observation, plain)?;
    draft.rewards(Tolerance::scaled(rules.bound), None, plain)?;
    draft.done(if chained { "done" } else { "terminated" }, false, plain())?;
    draft.plan.free_transitions = if chained { rules.free_transitions.min(transitions) } else { 0 };
    Ok(draft.plan)
}

/// Every state field from the array of its name.
fn fields(draft: &mut Draft<'_>, rules: &Rules) -> Result<()> {
    for (name, id) in draft.fields() {
        if name == "timestep" && draft.case.find(&name).is_none() {
            draft.load_timestep(id);
            continue;
        }
        let (teacher, free) = rules.bounds(draft.store.array(id).dtype());
        draft.field(&name, id, false, teacher, free, plain())?;
    }
    Ok(())
}

/// All state fields from the matrix `state`, column after column.
fn matrix(draft: &mut Draft<'_>, chained: bool, rules: &Rules) -> Result<()> {
    let (case, store, transitions) = (draft.case, draft.store, draft.plan.transitions);
    let before = case.rows("state", transitions + usize::from(chained))?;
    let name = if chained { "state" } else { "next_state" };
    let after = case.shaped(name, &before.shape)?;
    let mut column = 0;
    for (field, id) in draft.fields() {
        if field == "timestep" {
            draft.load_timestep(id);
            continue;
        }
        let len = store.array(id).row_len();
        ensure!(
            column + len <= before.row_len(),
            "array \"state\" of shape {:?} has no column for the state field \"{field}\"",
            before.shape
        );
        let place = |i| Origin { flat: i, agent: 0, element: i };
        let origin: Vec<Origin> = (column..column + len).map(place).collect();
        let mut load = Track::gather("state", before, store, id, origin.clone())?;
        if rules.angles.contains(&column) {
            // In f64, before the cast: many turns in an f32 would cost more than the tolerance.
            let tau = std::f64::consts::TAU;
            load.data.iter_mut().for_each(|angle| *angle -= tau * (*angle / tau).round());
        }
        draft.plan.loads.push(load);
        let track = Track::gather(name, after, store, id, origin)?;
        let (teacher, free) = rules.bounds(store.array(id).dtype());
        let angles = rules.angles;
        draft.plan.checks.push(Check {
            after: usize::from(chained),
            loose: rules.loose_state,
            rule: Box::new(move |place| match angles.contains(&place.element) {
                true => Treatment::Modulo(std::f64::consts::TAU),
                false => Treatment::Plain,
            }),
            ..Check::new(name, track, teacher, Some(free))
        });
        column += len;
    }
    draft.used("state");
    expect_row_len("state", before, column)
}

fn plain() -> Rule {
    Box::new(|_| Treatment::Plain)
}
