//! The policies of a league as one learner, made of several.

use super::{League, Match, belongs, put};
use crate::algorithm::{PolicyFigures, PolicyPlan};
use crate::config::{LeagueConfig, TrainConfig};
use crate::engine::rollout::Rollout;
use crate::engine::rollout::normalise::Normaliser;
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::evaluator::Evaluator;
use crate::run::learner::Learner;
use std::path::Path;
use warp_func::VecEnv;

/// What replicas have on the way belongs to them, whoever acts there.
const OF_REPLICAS: &str = "discounted_return";

/// Two policies that learn against each other and against older versions of each other.
pub struct LeagueLearner {
    config: TrainConfig,
    league: League,
    /// Of the policies that play against each other.
    names: [String; 2],
    /// One that trains both, then one for each side that trains it alone, where older selves play.
    members: Vec<Box<dyn Learner>>,
    /// The policies as they are, but for what the member at work has done since it began.
    main: LearnerState,
    /// What the member at work plays; none: no member has the policies as they are.
    at_work: Option<Match>,
}

impl std::fmt::Debug for LeagueLearner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeagueLearner").field("names", &self.names).finish_non_exhaustive()
    }
}

impl LeagueLearner {
    /// The policies of `config`, which has a league; `make` makes a learner for a configuration without one.
    ///
    /// # Errors
    /// A configuration without a league, several ranks, or what `make` can't make.
    pub fn new<E: From<Error>>(
        config: &TrainConfig,
        mut make: impl FnMut(&TrainConfig) -> std::result::Result<Box<dyn Learner>, E>,
    ) -> std::result::Result<Self, E> {
        let none = || Error::Invalid("the configuration has no table [league]".into());
        let league = League::new(config)?.ok_or_else(none)?;
        if !config.world.is_alone() {
            let reason =
                "a league is trained by one process on one device, without --gpus and --nodes";
            return Err(Error::Invalid(reason.into()).into());
        }
        let sides = LeagueConfig::sides(&config.policies)?;
        let plain = config.with_league(None)?;
        let mut members = vec![make(&plain)?];
        if league.keys.plays_older() {
            for side in 0..2 {
                let mut alone = plain.clone();
                alone.policies[sides[1 - side]].config.to_train = false;
                members.push(make(&alone)?);
            }
        }
        let names = sides.map(|index| config.policies[index].name.clone());
        let main = members[0].state();
        let config = config.clone();
        Ok(Self { config, league, names, members, main, at_work: None })
    }

    /// The league.
    #[must_use]
    pub fn league(&self) -> &League {
        &self.league
    }

    /// Takes the league's snapshots up to `step` from a run's folder of checkpoints.
    ///
    /// # Errors
    /// A snapshot that is missing or damaged, or a table that can't be read.
    pub fn restore(&mut self, checkpoints: &Path, step: u64) -> Result<()> {
        self.league.restore(&self.config, checkpoints, step)
    }

    /// Plays the games that are due after `env_steps` environment steps; whether there were any.
    ///
    /// # Errors
    /// A policy that diverged, or environments that can't be made.
    pub fn play(&mut self, env_steps: u64, evaluator: Evaluator<'_>) -> Result<bool> {
        self.begin(env_steps);
        if self.league.due().is_empty() {
            return Ok(false);
        }
        self.settle();
        self.league.play(&mut *self.members[0], &self.main, &self.config, evaluator)
    }

    /// Keeps the policies as they begin.
    fn begin(&mut self, env_steps: u64) {
        if env_steps == 0 && self.league.snapshots.is_empty() {
            let state = self.state();
            self.league.keep(&self.config, 0, &state);
        }
    }

    /// Takes over what the member at work has done.
    fn settle(&mut self) {
        self.main = self.state();
        self.at_work = None;
    }

    /// Puts the policies that are to play into the member that trains them, and gives it.
    fn face(&mut self, playing: Match) -> Result<&mut dyn Learner> {
        if self.at_work != Some(playing) {
            self.settle();
            let mut state = self.main.clone();
            if let Match::Older { side, opponent } = playing {
                put(&mut state, &self.names[1 - side], &self.league.snapshots[opponent].state);
            }
            self.members[member_of(playing)].load_state(&state)?;
            self.at_work = Some(playing);
        }
        Ok(&mut *self.members[member_of(playing)])
    }

    /// The policies as they are, in the member that trains both.
    fn latest(&mut self) -> Result<&mut dyn Learner> {
        self.face(Match::Latest)
    }

    /// How many iterations from `progress` on the same policies play, `most` at most: none is kept on the way.
    fn together(&self, progress: Progress, most: u64) -> Result<(Match, u64)> {
        let playing = self.league.match_of(progress.iteration)?;
        let each = self.config.steps_per_iteration();
        let mut n = 1;
        while n < most
            && !self.config.is_snapshot_step(progress.env_steps + n * each)
            && self.league.match_of(progress.iteration + n)? == playing
        {
            n += 1;
        }
        Ok((playing, n))
    }

    /// Takes away the figures of a policy that did not learn: they are of an older version of it.
    fn of_learners(&self, playing: Match, done: &mut [Iterated]) {
        let Match::Older { side, .. } = playing else { return };
        let is_older = |plan: &PolicyPlan| plan.name == self.names[1 - side];
        for one in done {
            let policies = self.config.policies.iter().zip(&mut one.policies);
            policies.filter(|(plan, _)| is_older(plan)).for_each(|(_, figures)| {
                *figures = PolicyFigures::default();
            });
        }
    }
}

/// Which learner trains these.
fn member_of(playing: Match) -> usize {
    match playing {
        Match::Latest => 0,
        Match::Older { side, .. } => 1 + side,
    }
}

/// `main` with what a member has done that trained `learned` against an older version of `other`.
fn merged(main: &LearnerState, done: &LearnerState, learned: &str, other: &str) -> LearnerState {
    let mut state = main.clone();
    for (tensors, new) in
        [(&mut state.weights, &done.weights), (&mut state.optimizer, &done.optimizer)]
    {
        for own in tensors.iter_mut().filter(|own| belongs(&own.name, learned)) {
            if let Some(new) = new.iter().find(|new| new.name == own.name) {
                own.data.clone_from(&new.data);
            }
        }
    }
    for own in state.optimizer_steps.iter_mut().filter(|own| own.0 == learned) {
        if let Some(new) = done.optimizer_steps.iter().find(|new| new.0 == learned) {
            own.1 = new.1;
        }
    }
    for own in &mut state.statistics {
        let on_the_way = belongs(&own.name, other) && own.name.ends_with(OF_REPLICAS);
        let new = done.statistics.iter().find(|new| new.name == own.name);
        if let Some(new) = new.filter(|_| on_the_way || belongs(&own.name, learned)) {
            own.data.clone_from(&new.data);
        }
    }
    state
}

impl Learner for LeagueLearner {
    fn backend(&self) -> &'static str {
        self.members[0].backend()
    }

    fn forward(
        &mut self,
        policy: usize,
        obs: &[f32],
        n_rows: usize,
        outputs: &mut [f32],
        values: &mut [f32],
    ) -> Result<()> {
        self.latest()?.forward(policy, obs, n_rows, outputs, values)
    }

    fn normaliser(&mut self, policy: usize) -> Result<Option<&Normaliser>> {
        self.latest()?.normaliser(policy)
    }

    fn most_iterations(&self) -> u64 {
        self.members.iter().map(|member| member.most_iterations()).min().unwrap_or(1)
    }

    fn iterate(
        &mut self,
        envs: &mut dyn VecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        self.begin(progress.env_steps);
        if n == 0 {
            // All memory is to be taken before anything is written.
            let prepare =
                |member: &mut Box<dyn Learner>| member.iterate(envs, progress, 0).map(|_| ());
            self.members.iter_mut().try_for_each(prepare)?;
        }
        let each = self.config.steps_per_iteration();
        let (mut all, mut done) = (Vec::new(), 0);
        while done < n {
            let from = progress.after(done, each);
            let (playing, together) = self.together(from, n - done)?;
            let mut new = self.face(playing)?.iterate(envs, from, together)?;
            self.of_learners(playing, &mut new);
            all.extend(new);
            done += together;
            let step = progress.env_steps + done * each;
            if self.config.is_snapshot_step(step) {
                let state = self.state();
                self.league.keep(&self.config, step, &state);
            }
        }
        Ok(all)
    }

    fn rollout(&self) -> Option<&Rollout> {
        self.members[member_of(self.at_work.unwrap_or(Match::Latest))].rollout()
    }

    fn rollout_bytes(&self) -> u128 {
        self.members.iter().map(|member| member.rollout_bytes()).sum()
    }

    fn path(&self) -> Option<&str> {
        self.members[member_of(self.at_work.unwrap_or(Match::Latest))].path()
    }

    fn state(&self) -> LearnerState {
        match self.at_work {
            None => self.main.clone(),
            Some(Match::Latest) => self.members[0].state(),
            Some(Match::Older { side, .. }) => {
                let done = self.members[1 + side].state();
                merged(&self.main, &done, &self.names[side], &self.names[1 - side])
            }
        }
    }

    fn load_state(&mut self, state: &LearnerState) -> Result<()> {
        self.members[0].load_state(state)?;
        self.at_work = Some(Match::Latest);
        Ok(())
    }

    fn as_league(&mut self) -> Option<&mut LeagueLearner> {
        Some(self)
    }

    fn league(&self) -> Option<&League> {
        Some(&self.league)
    }
}
