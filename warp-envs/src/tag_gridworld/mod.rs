//! Tag on a grid: taggers hunt one runner, all of them moving one cell per step.
//!
//! Rules of WarpDrive's `TagGridWorld` (Lan, Srinivasa, Wang and Zheng, 2021, arXiv:2108.13976;
//! version 2.7.1). Cells are `0..=grid_length` on both axes, so there are `(grid_length + 1)^2`.
//!
//! **Agents**: group `tagger`, numbers `0..num_taggers`, and group `runner`, one agent, the last number.
//!
//! **Actions**, `Discrete(5)`: 0 stay, 1 x + 1, 2 x - 1, 3 y + 1, 4 y - 1. A move off the grid leaves
//! the agent where it is and costs it `wall_hit_penalty`.
//!
//! **The end**: a tagger stands on the runner's cell after everyone has moved (agents that swap
//! cells pass each other), or `episode_length` steps are over. Both count as terminated, since the
//! horizon is part of the game and agents see the time.
//!
//! **Rewards**: at a catch every tagger, near or far, gets `tag_reward_for_tagger`, and the runner
//! loses `tag_penalty_for_runner`; in any other step a tagger loses `step_cost_for_tagger` and the
//! runner gains as much.
//!
//! **Observation** with N agents, all elements within 0 and 1:
//!
//! | full: index | element | partial: index | element |
//! |---|---|---|---|
//! | 0 .. N | x of every agent / `grid_length` | 0, 1 | own x and y / `grid_length` |
//! | N .. 2N | y of every agent / `grid_length` | 2, 3 | x and y / `grid_length` of the runner, or, for the runner, of the nearest tagger (the lowest number of several) |
//! | 2N .. 3N | 1 for the runner, else 0 | 4 | 1 for the runner, else 0 |
//! | 3N .. 4N | 1 at the own number, else 0 | 5 | time / `episode_length` |
//! | 4N | time / `episode_length` | | |
//!
//! **Statistic**: `tags`, 1 if the runner was caught, else 0.
//!
//! **Deviation**: starts are drawn afresh by default, where the original has one start for all
//! replicas and episodes (here `placement = "original"`), and its class with a pool five for each axis, whose
//! distribution `placement = "original_pool"` has.

mod step;

use warp_core::{
    Actions, Draw, Env, EnvSpec, Error, GroupSpec, Kernel, Layout, LimitEnds, Observation, Result,
    Space, StepOut, Table, TableData, TimeLimit, View, in_range,
};

/// Taggers at most; more would be a slip.
const MAX_TAGGERS: u32 = 100_000;
/// Cells are numbered with 32 bits.
const MAX_GRID_LENGTH: u32 = 65_534;
/// Rewards at most, so that sums stay finite.
const MAX_REWARD: f32 = 1e9;
/// Number of the group of taggers.
const TAGGER: usize = 0;
/// Number of the runner's group.
const RUNNER: usize = 1;
/// Starts are drawn from all cells.
const ANYWHERE: i32 = 0;
/// Starts are the tables `start_x` and `start_y`.
const FIXED: i32 = 1;
/// Taggers start in cells off the edge, the runner at (0, 0).
const INNER: i32 = 2;

warp_core::choices! {
    /// Where agents start.
    pub enum Placement {
        /// Anywhere: every cell is equally likely, but no tagger stands on the runner's.
        Random = "random",
        /// Taggers in the middle, the runner in the corner (0, 0).
        Original = "original",
        /// Taggers in random cells off the edge, the runner in the corner (0, 0).
        OriginalPool = "original_pool",
    }
}

warp_core::config! {
    /// The configuration of [`TagGridworld`].
    pub struct TagGridworldConfig {
        /// Number of taggers, at least 1; there is always one runner.
        pub num_taggers: u32 = 10,
        /// Highest coordinate; cells are 0 to grid_length on both axes.
        pub grid_length: u32 = 10,
        /// Maximum number of steps in an episode.
        pub episode_length: u32 = 100,
        /// Where agents start: "random" chooses random cells, where no tagger starts on the runner's; "original" puts
        /// all taggers into the middle and the runner at (0, 0); "original_pool" chooses random cells off the edge for
        /// taggers, with coordinates from 1 to grid_length - 1, and puts the runner at (0, 0).
        pub placement: Placement = Placement::Random,
        /// Start x of every agent, the runner last; overrides placement. Unset: see placement.
        pub starting_location_x: Option<Vec<i32>> = None,
        /// Start y of every agent, the runner last; needed if starting_location_x is set.
        pub starting_location_y: Option<Vec<i32>> = None,
        /// Penalty for a move off the grid, 0 or more.
        pub wall_hit_penalty: f32 = 0.1,
        /// Reward of every tagger when the runner is caught.
        pub tag_reward_for_tagger: f32 = 10.0,
        /// Penalty of the runner when it is caught, 0 or more.
        pub tag_penalty_for_runner: f32 = 2.0,
        /// Cost of a step without a catch to a tagger, and gain of the runner, 0 or more.
        pub step_cost_for_tagger: f32 = 0.01,
        /// Whether agents see everyone, or only themselves and one other.
        pub use_full_observation: bool = true,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct TagGridworldParams {
        /// Number of taggers.
        n_taggers: i32,
        /// Highest coordinate.
        grid_length: i32,
        /// Steps in an episode.
        episode_length: i32,
        /// Where agents start: `ANYWHERE`, `FIXED` or `INNER`.
        starts: i32,
        /// 1: agents see everyone; 0: themselves and one other.
        use_full_observation: i32,
        /// What a move off the grid costs.
        wall_hit_penalty: f32,
        /// What every tagger gets at a catch.
        tag_reward_for_tagger: f32,
        /// What the runner loses at a catch.
        tag_penalty_for_runner: f32,
        /// What any other step costs a tagger and brings the runner.
        step_cost_for_tagger: f32,
    }
}

warp_core::state! {
    /// Where everyone is; taggers first, the runner last.
    pub struct TagGridworldState {
        /// Column of each agent, 0 to `grid_length`.
        loc_x: [i32; n_agents],
        /// Row of each agent, 0 to `grid_length`.
        loc_y: [i32; n_agents],
        /// Steps since the episode began.
        timestep: i32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct TagGridworld {
    params: TagGridworldParams,
    tables: Tables,
}

/// Start of every agent, i32 `[n_agents]`; zeros if starts are drawn.
#[derive(Debug, Clone)]
struct Tables {
    start_x: Vec<i32>,
    start_y: Vec<i32>,
}

impl TagGridworld {
    fn n_agents(&self) -> usize {
        self.params.n_taggers as usize + 1
    }
}

fn check(config: &TagGridworldConfig) -> Result<()> {
    in_range("num_taggers", config.num_taggers, 1, MAX_TAGGERS)?;
    in_range("grid_length", config.grid_length, 1, MAX_GRID_LENGTH)?;
    in_range("episode_length", config.episode_length, 1, i32::MAX as u32)?;
    in_range("wall_hit_penalty", config.wall_hit_penalty, 0.0, MAX_REWARD)?;
    in_range("tag_reward_for_tagger", config.tag_reward_for_tagger, -MAX_REWARD, MAX_REWARD)?;
    in_range("tag_penalty_for_runner", config.tag_penalty_for_runner, 0.0, MAX_REWARD)?;
    in_range("step_cost_for_tagger", config.step_cost_for_tagger, 0.0, MAX_REWARD)
}

/// Start of every agent on one axis, if it is fixed.
fn start(
    config: &TagGridworldConfig,
    key: &str,
    given: Option<&Vec<i32>>,
) -> Result<Option<Vec<i32>>> {
    let n_taggers = config.num_taggers as usize;
    let Some(given) = given else {
        let middle = (config.grid_length / 2) as i32;
        let original = || [vec![middle; n_taggers], vec![0]].concat();
        return Ok((config.placement == Placement::Original).then(original));
    };
    if given.len() != n_taggers + 1 {
        let reason = format!("{n_taggers} taggers and a runner need {} numbers", n_taggers + 1);
        return Err(Error::invalid(key, format!("{given:?}"), reason));
    }
    given.iter().try_for_each(|at| in_range(key, *at, 0, config.grid_length as i32))?;
    Ok(Some(given.clone()))
}

impl Env for TagGridworld {
    const NAME: &'static str = "tag_gridworld";
    type Config = TagGridworldConfig;
    type Params = TagGridworldParams;
    type State = TagGridworldState<'static>;

    fn new(config: &TagGridworldConfig) -> Result<Self> {
        check(config)?;
        let (x, y) = (&config.starting_location_x, &config.starting_location_y);
        if x.is_some() != y.is_some() {
            let missing = if x.is_some() { "starting_location_y" } else { "starting_location_x" };
            return Err(Error::invalid(missing, "unset", "is needed when the other axis is set"));
        }
        let start_x = start(config, "starting_location_x", x.as_ref())?;
        let start_y = start(config, "starting_location_y", y.as_ref())?;
        if start_x.is_none() && config.placement == Placement::OriginalPool {
            in_range("grid_length", config.grid_length, 2, MAX_GRID_LENGTH)?;
        }
        let params = TagGridworldParams {
            n_taggers: config.num_taggers as i32,
            grid_length: config.grid_length as i32,
            episode_length: config.episode_length as i32,
            starts: match config.placement {
                _ if start_x.is_some() => FIXED,
                Placement::OriginalPool => INNER,
                Placement::Random | Placement::Original => ANYWHERE,
            },
            use_full_observation: i32::from(config.use_full_observation),
            wall_hit_penalty: config.wall_hit_penalty,
            tag_reward_for_tagger: config.tag_reward_for_tagger,
            tag_penalty_for_runner: config.tag_penalty_for_runner,
            step_cost_for_tagger: config.step_cost_for_tagger,
        };
        let drawn = || vec![0; config.num_taggers as usize + 1];
        let (start_x, start_y) = (start_x.unwrap_or_else(drawn), start_y.unwrap_or_else(drawn));
        Ok(Self { params, tables: Tables { start_x, start_y } })
    }

    fn spec(&self) -> EnvSpec {
        let width = if self.params.use_full_observation == 1 { 4 * self.n_agents() + 1 } else { 6 };
        let group = |name: &str, n_agents| GroupSpec {
            name: name.into(),
            n_agents,
            observation: Space::boxed(0.0, 1.0, &[width]),
            action: Space::Discrete { n: 5 },
            mortal: false,
        };
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![group("tagger", self.params.n_taggers as usize), group("runner", 1)],
            time_limit: TimeLimit {
                steps: self.params.episode_length as u32,
                ends: LimitEnds::Terminated,
            },
            statistics: vec!["tags".into()],
            global_observation: None,
        }
    }

    fn params(&self) -> &TagGridworldParams {
        &self.params
    }

    fn tables(&self) -> Vec<Table<'_>> {
        let table =
            |name, data| Table { name, shape: vec![self.n_agents()], data: TableData::I32(data) };
        let Tables { start_x, start_y } = &self.tables;
        vec![table("start_x", start_x), table("start_y", start_y)]
    }

    fn dims(&self) -> Vec<(&'static str, usize)> {
        vec![("n_agents", self.n_agents())]
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "tag_gridworld/step.cu", text, layout: Layout::TeamPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut View<'_, Self>, draw: &mut Draw) {
        step::reset(self, state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &View<'_, Self>, out: &mut Observation<'_>) {
        step::observe(&self.params, state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut View<'_, Self>,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, state, actions, out);
    }
}
