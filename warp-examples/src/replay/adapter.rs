//! What differs between environments: how a recording is mapped onto an environment's arrays.
//!
//! An adapter makes the configuration from the recorded one and writes the [`Plan`]. The steps that
//! adapters share are here: state fields by name or from one matrix, and per-group arrays.

use super::case::Case;
use super::plan::{Check, Origin, Plan, Rule, Seen, Tolerance, Track};
use anyhow::{Result, anyhow, ensure};
use toml::Table;
use warp_core::EnvSpec;
use warp_core::by_value::element_of;
use warp_data::{ArrayId, Store};
use warp_envs::numpy::Recorded;
use warp_func::VecEnv;

/// How recordings of one environment, or of several alike, are replayed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adapter {
    /// The environment's configuration.
    pub(super) config: fn(&Case) -> Result<Table>,
    /// What is loaded, done and compared.
    pub(super) plan: fn(&Case, &Table, &dyn VecEnv) -> Result<Plan>,
}

/// The recorded configuration over the original's defaults, which need not be ours.
pub(super) fn over_defaults(case: &Case, defaults: Table) -> Table {
    let mut config = defaults;
    config.extend(case.config.clone());
    config
}

/// A plan in the making.
pub(super) struct Draft<'a> {
    /// The case.
    pub(super) case: &'a Case,
    /// The environment's arrays.
    pub(super) store: &'a Store,
    /// The environment from outside.
    pub(super) spec: &'a EnvSpec,
    env: &'a dyn VecEnv,
    /// For every agent of ours its number in the recording.
    pub(super) order: Vec<usize>,
    /// The plan so far.
    pub(super) plan: Plan,
}

/// A group's part of a recorded array: its number, the array of the store, elements per agent.
#[derive(Debug, Clone, Copy)]
struct Part {
    group: usize,
    array: ArrayId,
    width: usize,
}

/// For an agent (by its number in the recording) and one of our elements: which of the recorded.
pub(super) type Features<'f> = &'f dyn Fn(usize, usize) -> usize;

/// Elements stand as they were recorded.
pub(super) const AS_RECORDED: Features<'static> = &|_, element| element;

impl<'a> Draft<'a> {
    /// A plan for `transitions`; `chained`: the rows follow one another in one episode.
    pub(super) fn new(
        case: &'a Case,
        env: &'a dyn VecEnv,
        transitions: usize,
        chained: bool,
    ) -> Result<Self> {
        ensure!(transitions > 0, "it contains no transitions");
        let length = |t| if chained { u32::try_from(t) } else { Ok(0) };
        let timesteps = (0..transitions).map(length).collect::<Result<_, _>>();
        let timesteps = timesteps.map_err(|_| anyhow!("{transitions} steps are too many"))?;
        let order = (0..env.spec().n_agents()).collect();
        let (store, spec) = (env.store(), env.spec());
        let plan = Plan { transitions, timesteps, ..Plan::default() };
        Ok(Self { case, store, spec, env, order, plan })
    }

    /// The names of the environment's state fields.
    pub(super) fn fields(&self) -> Vec<(String, ArrayId)> {
        let name = |id: &ArrayId| (self.store.array(*id).name().to_string(), *id);
        self.env.ids().state.iter().map(name).collect()
    }

    /// A state field recorded under its own name, `[T + 1, ...]`: loaded and compared. With
    /// `per_agent`, its elements are agents.
    pub(super) fn field(
        &mut self,
        name: &str,
        id: ArrayId,
        per_agent: bool,
        teacher: Tolerance,
        free: Tolerance,
        rule: Rule,
    ) -> Result<()> {
        // Arrays in a state by value have a field per element and are recorded as one array.
        let (name, element) = element_of(name);
        let recorded = self.case.rows(name, self.plan.transitions + 1)?;
        let len = self.store.array(id).row_len();
        match element {
            Some(_) => expect_row_len(name, recorded, self.elements(name))?,
            None => expect_row_len(name, recorded, len)?,
        }
        let agents = per_agent && len == self.order.len();
        let place = |i: usize| match agents {
            _ if let Some(flat) = element => Origin { flat, agent: 0, element: flat },
            true => Origin { flat: self.order[i], agent: self.order[i], element: 0 },
            false => Origin { flat: i, agent: 0, element: i },
        };
        let origin = (0..len).map(place).collect();
        let track = Track::gather(name, recorded, self.store, id, origin)?;
        self.plan.loads.push(track.clone());
        let check = Check::new(name, track, teacher, Some(free));
        self.plan.checks.push(Check { after: 1, rule, ..check });
        Ok(())
    }

    /// How many elements the array `name` of a state by value has.
    fn elements(&self, name: &str) -> usize {
        self.fields().iter().filter(|(field, _)| element_of(field).0 == name).count()
    }

    /// The tracks of a recorded array that has a part per group: either one array for all agents,
    /// `[rows, ...]`, or one per group, called `<name>.<group>`.
    pub(super) fn grouped(
        &self,
        name: &str,
        rows: usize,
        ids: &[ArrayId],
        features: Features<'_>,
    ) -> Result<Vec<(String, Track)>> {
        let part = |(group, array): (usize, &ArrayId)| {
            let width = self.store.array(*array).row_len() / self.spec.groups[group].n_agents;
            Part { group, array: *array, width }
        };
        let parts: Vec<Part> = ids.iter().enumerate().map(part).collect();
        let own = |part: &Part| format!("{name}.{}", self.spec.groups[part.group].name);
        if self.case.find(name).is_none() && self.case.find(&own(&parts[0])).is_some() {
            let track = |part: &Part| Ok((own(part), self.group_alone(&own(part), rows, *part)?));
            return parts.iter().map(track).collect();
        }
        let recorded = self.case.rows(name, rows)?;
        let n_agents = |part: &Part| self.spec.groups[part.group].n_agents;
        let needed = parts.iter().map(|p| n_agents(p) * p.width).sum();
        expect_row_len(name, recorded, needed)?;
        let width = parts[0].width;
        ensure!(
            parts.iter().all(|p| p.width == width),
            "the groups differ in array \"{name}\": it must be recorded as {}",
            parts.iter().map(own).collect::<Vec<_>>().join(", ")
        );
        let track = |part: &Part| {
            let first = self.spec.first_agent(part.group);
            let agent = |i: usize| self.order[first + i / width];
            let place = |i: usize| {
                let element = features(agent(i), i % width);
                Origin { flat: agent(i) * width + element, agent: agent(i), element }
            };
            let origin = (0..n_agents(part) * width).map(place).collect();
            let track = Track::gather(name, recorded, self.store, part.array, origin)?;
            Ok((name.to_string(), track))
        };
        parts.iter().map(track).collect()
    }

    fn group_alone(&self, name: &str, rows: usize, part: Part) -> Result<Track> {
        let recorded = self.case.rows(name, rows)?;
        let len = self.store.array(part.array).row_len();
        expect_row_len(name, recorded, len)?;
        let place = |i| Origin { flat: i, agent: i / part.width, element: i % part.width };
        let origin = (0..len).map(place).collect();
        Track::gather(name, recorded, self.store, part.array, origin)
    }

    /// The recorded `actions`.
    pub(super) fn actions(&mut self) -> Result<()> {
        let ids = &self.env.ids().action;
        let tracks = self.grouped("actions", self.plan.transitions, ids, AS_RECORDED)?;
        for (name, track) in tracks {
            self.used(&name);
            self.plan.actions.push(track);
        }
        Ok(())
    }

    /// The recorded `rewards`.
    pub(super) fn rewards(
        &mut self,
        teacher: Tolerance,
        free: Option<Tolerance>,
        rule: impl Fn() -> Rule,
    ) -> Result<()> {
        let ids = &self.env.ids().reward;
        let tracks = self.grouped("rewards", self.plan.transitions, ids, AS_RECORDED)?;
        let check = |(name, track): (String, Track)| Check {
            rule: rule(),
            ..Check::new(&name, track, teacher, free)
        };
        self.plan.checks.extend(tracks.into_iter().map(check));
        Ok(())
    }

    /// The recorded `observations`: of every state (`chained`), or of what each transition leads to.
    pub(super) fn observations(
        &mut self,
        chained: bool,
        features: Features<'_>,
        teacher: Tolerance,
        free: Option<Tolerance>,
        loose: (&'static [usize], f64),
        rule: impl Fn() -> Rule,
    ) -> Result<()> {
        let ids = &self.env.ids().obs;
        let after = usize::from(chained);
        let rows = self.plan.transitions + after;
        let tracks = self.grouped("observations", rows, ids, features)?;
        let check = |(name, track): (String, Track)| Check {
            after,
            observed: chained,
            rule: rule(),
            loose,
            ..Check::new(&name, track, teacher, free)
        };
        self.plan.checks.extend(tracks.into_iter().map(check));
        Ok(())
    }

    /// The recorded flags `name`, one per transition: terminated or truncated.
    pub(super) fn done(&mut self, name: &str, free: bool, rule: Rule) -> Result<()> {
        let recorded = self.case.rows(name, self.plan.transitions)?;
        expect_row_len(name, recorded, 1)?;
        let origin = vec![Origin { flat: 0, agent: 0, element: 0 }];
        let track = Track::gather(name, recorded, self.store, self.env.ids().terminated, origin)?;
        let check = Check::new(name, track, Tolerance::EXACT, free.then_some(Tolerance::EXACT));
        self.plan.checks.push(Check { seen: Seen::Done, rule, ..check });
        Ok(())
    }

    /// The number of steps so far, for a state field that holds it.
    pub(super) fn load_timestep(&mut self, id: ArrayId) {
        let values = self.plan.timesteps.iter().map(|t| f64::from(*t));
        let track = Track::constant(self.store, id, values);
        self.plan.loads.push(track);
    }

    /// Notes that a recorded array was put to use.
    pub(super) fn used(&mut self, name: &str) {
        self.plan.used.push(name.into());
    }

    /// The arrays that say who of a group is alive, of the groups that have one.
    pub(super) fn alive(&self) -> Vec<(usize, ArrayId)> {
        let each = self.env.ids().alive.iter().enumerate();
        each.filter_map(|(group, id)| Some((group, (*id)?))).collect()
    }
}

/// Refuses a recorded array whose rows have another length.
pub(super) fn expect_row_len(name: &str, recorded: &Recorded, len: usize) -> Result<()> {
    let (seen, shape) = (recorded.row_len(), &recorded.shape);
    ensure!(
        seen == len,
        "array \"{name}\" of shape {shape:?} has {seen} elements per row, but {len} are needed"
    );
    Ok(())
}
