//! Tag in the plane. The original gives agents their numbers at random, so that everything per
//! agent is permuted to taggers first, runners after them, both in their recorded order; and where
//! its numbers hang on the last bit of a sine, the recording's `fragile_*` arrays say so.

use super::adapter::{AS_RECORDED, Adapter, Draft, over_defaults};
use super::case::Case;
use super::plan::{Check, Constant, Origin, Place, Plan, Rule, Tolerance, Track, Treatment};
use anyhow::{Result, bail, ensure};
use std::f64::consts::{FRAC_PI_2, TAU};
use std::rc::Rc;
use toml::{Table, toml};
use warp_data::ArrayId;
use warp_envs::numpy::Recorded;
use warp_func::VecEnv;

/// The adapter.
pub(super) const ADAPTER: Adapter = Adapter { config, plan };

/// The field with the flags that the observation of the same row shows: those of the row before.
const FLAGS_BEFORE: &str = "was_in_the_game";
/// The flags after the step's tags.
const FLAGS: &str = "still_in_the_game";
/// Features per other agent; the last feature of all is the time.
const BLOCKS: usize = 7;
/// The feature that is a difference of headings, in full turns.
const HEADING: usize = 4;
/// Bound of rewards, observations, and of the state after one step.
const BOUND: Tolerance = Tolerance::within(1e-5);
/// Bound of the state when it runs free.
const FREE_BOUND: Tolerance = Tolerance::within(1e-3);

/// The original's defaults.
fn config(case: &Case) -> Result<Table> {
    let mut defaults = toml! {
        num_taggers = 1
        num_runners = 10
        grid_length = 10.0
        episode_length = 100
        max_speed = 1.0
        skill_level_runner = 1.0
        skill_level_tagger = 1.0
        max_acceleration = 1.0
        min_acceleration = -1.0
        num_acceleration_levels = 10
        num_turn_levels = 10
        edge_hit_penalty = 0.0
        use_full_observation = true
        num_other_agents_observed = 2
        tagging_distance = 0.01
        tag_reward_for_tagger = 1.0
        step_penalty_for_tagger = 0.0
        tag_penalty_for_runner = -1.0
        step_reward_for_runner = 0.0
        end_of_game_reward_for_runner = 1.0
        runner_exits_game_after_tagged = true
    };
    defaults.insert("max_turn".into(), FRAC_PI_2.into());
    defaults.insert("min_turn".into(), (-FRAC_PI_2).into());
    Ok(over_defaults(case, defaults))
}

fn number(config: &Table, key: &str) -> f64 {
    let value = config.get(key);
    value.and_then(|v| v.as_float().or_else(|| v.as_integer().map(|i| i as f64))).unwrap_or(0.0)
}

fn plan(case: &Case, config: &Table, env: &dyn VecEnv) -> Result<Plan> {
    let mut draft = Draft::new(case, env, case.steps, true)?;
    draft.order = order(&draft)?;
    let fragile = Rc::new(Fragile::read(&draft, config)?);
    for (name, id) in draft.fields() {
        match name.as_str() {
            FLAGS_BEFORE => flags_before(&mut draft, id)?,
            "timestep" if case.find(&name).is_none() => draft.load_timestep(id),
            _ => {
                let whole = [FLAGS, "num_runners", "timestep"].contains(&name.as_str());
                let bounds = if whole { [Tolerance::EXACT; 2] } else { [BOUND, FREE_BOUND] };
                let rule = fragile.state_rule(&name);
                draft.field(&name, id, true, bounds[0], bounds[1], rule)?;
            }
        }
    }
    alive(&mut draft, &fragile)?;
    draft.actions()?;
    observations(&mut draft, config, &fragile)?;
    draft.rewards(BOUND, Some(BOUND), || fragile.reward_rule())?;
    draft.done("done", true, fragile.tag_rule(0))?;
    draft.plan.constants = constants(&draft, config)?;
    for name in
        ["agent_types", "fragile_edge", "fragile_tag", "fragile_neighbors", "fragile_direction"]
    {
        draft.used(name);
    }
    // Where it hangs on a bit who is tagged, nothing is known of what follows.
    draft.plan.free_transitions = (0..case.steps).find(|t| fragile.tags(*t)).unwrap_or(case.steps);
    Ok(draft.plan)
}

/// For every agent of ours its number in the recording.
fn order(draft: &Draft<'_>) -> Result<Vec<usize>> {
    let n_agents = draft.order.len();
    let types = draft.case.shaped("agent_types", &[n_agents])?;
    let of = |kind: f64| (0..n_agents).filter(move |i| types.data[*i] == kind);
    let (taggers, runners) = (of(1.0).count(), of(0.0).count());
    let wanted = draft.spec.groups[0].n_agents;
    ensure!(
        taggers == wanted && taggers + runners == n_agents,
        "array \"agent_types\" names {taggers} taggers and {runners} runners, but its config {wanted} \
         and {}",
        n_agents - wanted
    );
    Ok(of(1.0).chain(of(0.0)).collect())
}

/// Loads the flags of the row before; at row 0 everyone is in the game.
fn flags_before(draft: &mut Draft<'_>, id: ArrayId) -> Result<()> {
    let n_agents = draft.order.len();
    let recorded = draft.case.shaped(FLAGS, &[draft.plan.transitions + 1, n_agents])?;
    let mut earlier = recorded.clone();
    earlier.data.truncate(recorded.data.len() - n_agents);
    earlier.data.splice(0..0, vec![1.0; n_agents]);
    let origin = draft.order.iter().map(|i| Origin { flat: *i, agent: *i, element: 0 }).collect();
    let track = Track::gather(FLAGS, &earlier, draft.store, id, origin)?;
    draft.plan.loads.push(track);
    Ok(())
}

/// The framework's own record of who is in the game.
fn alive(draft: &mut Draft<'_>, fragile: &Rc<Fragile>) -> Result<()> {
    let recorded = draft.case.shaped(FLAGS, &[draft.plan.transitions + 1, draft.order.len()])?;
    for (group, id) in draft.alive() {
        let first = draft.spec.first_agent(group);
        let agents = &draft.order[first..first + draft.spec.groups[group].n_agents];
        let origin = agents.iter().map(|i| Origin { flat: *i, agent: *i, element: 0 }).collect();
        let track = Track::gather(FLAGS, recorded, draft.store, id, origin)?;
        draft.plan.loads.push(track.clone());
        let check = Check::new(FLAGS, track, Tolerance::EXACT, Some(Tolerance::EXACT));
        draft.plan.checks.push(Check { after: 1, rule: fragile.tag_rule(1), ..check });
    }
    Ok(())
}

fn observations(draft: &mut Draft<'_>, config: &Table, fragile: &Rc<Fragile>) -> Result<()> {
    let n_agents = draft.order.len();
    let full = config.get("use_full_observation").and_then(toml::Value::as_bool).unwrap_or(true);
    let seen = draft.case.array("observations")?.shape.last().map_or(0, |width| width / BLOCKS);
    ensure!(
        !full || seen == n_agents - 1,
        "array \"observations\" shows {seen} others per agent, but there are {}",
        n_agents - 1
    );
    let position = |agent: usize| draft.order.iter().position(|i| *i == agent).unwrap_or(0);
    let positions: Vec<usize> = (0..n_agents).map(position).collect();
    let order = draft.order.clone();
    // Ours of slot s is the s-th other agent in our order; theirs is the s-th in the recorded one.
    let full_features = |agent: usize, element: usize| {
        let (block, slot) = (element / seen, element % seen);
        if block == BLOCKS {
            return element;
        }
        let other = order[slot + usize::from(slot >= positions[agent])];
        block * seen + other - usize::from(other > agent)
    };
    let features = if full { &full_features } else { AS_RECORDED };
    let rule = || fragile.observation_rule(full, seen);
    draft.observations(true, features, BOUND, None, (&[], 0.0), rule)
}

/// What the recording says of numbers that follow from the configuration.
fn constants(draft: &Draft<'_>, config: &Table) -> Result<Vec<Constant>> {
    let types = &draft.case.array("agent_types")?.data;
    let per_agent = |tagger: &str, runner: &str| -> Vec<f64> {
        let (tagger, runner) = (number(config, tagger), number(config, runner));
        types.iter().map(|kind| if *kind == 1.0 { tagger } else { runner }).collect()
    };
    let levels = |what: &str, levels: &str| {
        let [low, high] = ["min", "max"].map(|end| number(config, &format!("{end}_{what}")));
        let n = number(config, levels) as usize;
        let step = (high - low) / (n.max(2) - 1) as f64;
        let level = |i: usize| low + step * i as f64;
        std::iter::once(0.0).chain((0..n).map(level)).collect::<Vec<_>>()
    };
    let expected = [
        ("skill_levels", per_agent("skill_level_tagger", "skill_level_runner")),
        ("step_rewards", per_agent("step_penalty_for_tagger", "step_reward_for_runner")),
        ("acceleration_actions", levels("acceleration", "num_acceleration_levels")),
        ("turn_actions", levels("turn", "num_turn_levels")),
    ];
    let constant = |(name, expected): (&str, Vec<f64>)| {
        let recorded = draft.case.shaped(name, &[expected.len()])?.data.clone();
        Ok(Constant { name: name.into(), recorded, expected, tolerance: BOUND })
    };
    expected.into_iter().filter(|(name, _)| draft.case.find(name).is_some()).map(constant).collect()
}

/// Entries whose value hangs on the last bit of a sine or a distance.
struct Fragile {
    n_agents: usize,
    /// `[T, N]`: the position before it was clipped lies at a wall.
    edge: Vec<f64>,
    /// `[T, N]`: a distance lies at the tagging distance, or two taggers are equally near.
    tag: Vec<f64>,
    /// `[T + 1, N]`: some of the nearest are equally near.
    neighbors: Vec<f64>,
    /// `[T + 1, N]`: the heading lies at 0, or a full turn.
    direction: Vec<f64>,
    edge_hit_penalty: f64,
}

impl Fragile {
    fn read(draft: &Draft<'_>, config: &Table) -> Result<Fragile> {
        let (steps, n_agents) = (draft.plan.transitions, draft.order.len());
        let flags = |name: &str, rows: usize| -> Result<Vec<f64>> {
            if draft.case.find(name).is_none() {
                return Ok(Vec::new());
            }
            let Recorded { data, .. } = draft.case.shaped(name, &[rows, n_agents])?;
            if let Some(other) = data.iter().find(|flag| **flag != 0.0 && **flag != 1.0) {
                bail!("array \"{name}\" holds {other}, which is neither 0 nor 1");
            }
            Ok(data.clone())
        };
        Ok(Fragile {
            n_agents,
            edge: flags("fragile_edge", steps)?,
            tag: flags("fragile_tag", steps)?,
            neighbors: flags("fragile_neighbors", steps + 1)?,
            direction: flags("fragile_direction", steps + 1)?,
            edge_hit_penalty: number(config, "edge_hit_penalty"),
        })
    }

    fn set(&self, flags: &[f64], row: usize, agent: usize) -> bool {
        flags.get(row * self.n_agents + agent).is_some_and(|flag| *flag != 0.0)
    }

    fn any(&self, flags: &[f64], row: usize) -> bool {
        (0..self.n_agents).any(|agent| self.set(flags, row, agent))
    }

    /// Whether it hangs on a bit who is tagged in transition `t`.
    fn tags(&self, t: usize) -> bool {
        self.any(&self.tag, t)
    }

    /// The rule for an array whose row `t + after` depends on who is tagged in transition `t`.
    fn tag_rule(self: &Rc<Self>, after: usize) -> Rule {
        let this = Rc::clone(self);
        Box::new(move |at| match at.row.checked_sub(after).is_some_and(|t| this.tags(t)) {
            true => Treatment::Skip,
            false => Treatment::Plain,
        })
    }

    fn state_rule(self: &Rc<Self>, field: &str) -> Rule {
        let this = Rc::clone(self);
        match field {
            "direction" => Box::new(move |at| match this.set(&this.direction, at.row, at.agent) {
                true => Treatment::Modulo(TAU),
                false => Treatment::Plain,
            }),
            "edge_hit_reward_penalty" => Box::new(move |at| this.edge_treatment(at, 1)),
            FLAGS | "num_runners" => self.tag_rule(1),
            _ => Box::new(|_| Treatment::Plain),
        }
    }

    fn edge_treatment(&self, at: Place, after: usize) -> Treatment {
        match at.row.checked_sub(after).is_some_and(|t| self.set(&self.edge, t, at.agent)) {
            true => Treatment::Offset(self.edge_hit_penalty),
            false => Treatment::Plain,
        }
    }

    fn reward_rule(self: &Rc<Self>) -> Rule {
        let this = Rc::clone(self);
        Box::new(move |at| match this.tags(at.row) {
            true => Treatment::Skip,
            false => this.edge_treatment(at, 0),
        })
    }

    /// The rule for observations that show `seen` others in blocks of one feature each.
    fn observation_rule(self: &Rc<Self>, full: bool, seen: usize) -> Rule {
        let this = Rc::clone(self);
        Box::new(move |at| {
            if at.element >= BLOCKS * seen {
                return Treatment::Plain;
            }
            let (block, slot) = (at.element / seen, at.element % seen);
            if !full && this.set(&this.neighbors, at.row, at.agent) {
                return Treatment::Skip;
            }
            // A partial observation does not say whom it shows.
            let other = slot + usize::from(slot >= at.agent);
            let turns = |agent| this.set(&this.direction, at.row, agent);
            let shown = if full { turns(other) } else { this.any(&this.direction, at.row) };
            match block == HEADING && (shown || turns(at.agent)) {
                true => Treatment::Modulo(1.0),
                false => Treatment::Plain,
            }
        })
    }
}
