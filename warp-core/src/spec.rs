//! The spec of an environment, its outside view: groups of agents, spaces and time limit.

use crate::error::{Error, Result};
use crate::space::Space;

/// Maximum number of groups of agents in an environment.
pub const MAX_GROUPS: usize = 8;

/// Maximum number of agents in a group: trainers keep a list of them.
const MAX_AGENTS: usize = 1 << 24;

/// The outside of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvSpec {
    /// The name it is registered under.
    pub name: String,
    /// Its groups of agents, at least one; agents are numbered group after group.
    pub groups: Vec<GroupSpec>,
    /// When an episode ends at the latest.
    pub time_limit: TimeLimit,
    /// Names of the episode statistics that the body writes, f32 each; all different.
    pub statistics: Vec<String>,
    /// What a centralised critic sees; `None`: no such observation.
    pub global_observation: Option<Space>,
}

/// A group of agents that share an observation and an action space.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSpec {
    /// Its name, for example `tagger`: letters of ASCII, digits, `_` and `-`.
    pub name: String,
    /// Number of agents, 1 to 2^24.
    pub n_agents: usize,
    /// What one agent observes.
    pub observation: Space,
    /// What one agent does.
    pub action: Space,
    /// Whether agents may leave before the episode ends; then `StepOut::alive` is theirs to write.
    pub mortal: bool,
}

/// When and how an episode is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimit {
    /// Steps in an episode at most, at least 1.
    pub steps: u32,
    /// What it counts as.
    pub ends: LimitEnds,
}

/// Whether an episode that reaches its time limit is terminated or truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitEnds {
    /// Cut from outside: the value of the last observation is bootstrapped.
    Truncated,
    /// Part of the game: nothing follows. The framework sets `terminated` at the limit.
    Terminated,
}

impl TimeLimit {
    /// No limit: an episode continues until it ends by itself, or for 2^31 - 1 steps.
    pub const UNLIMITED: TimeLimit =
        TimeLimit { steps: i32::MAX as u32, ends: LimitEnds::Truncated };
}

impl EnvSpec {
    /// The environment `name` of one agent, the only one of the group `group`, without statistics.
    #[must_use]
    pub fn one_agent(
        name: &str,
        group: &str,
        observation: Space,
        action: Space,
        time_limit: TimeLimit,
    ) -> Self {
        let name = name.to_string();
        let group =
            GroupSpec { name: group.into(), n_agents: 1, observation, action, mortal: false };
        let (groups, statistics) = (vec![group], Vec::new());
        EnvSpec { name, groups, time_limit, statistics, global_observation: None }
    }

    /// `width`: the observation's as it is compiled in; 0: it is not.
    pub(crate) fn check_width(&self, width: usize, of_scalars: bool) -> Result<()> {
        let group = &self.groups[0];
        let lone = self.groups.len() == 1 && group.n_agents == 1;
        let reason = match group.observation_width() {
            _ if width == 0 => return Ok(()),
            _ if !(lone && of_scalars) => "needs a state of scalars and only one agent".into(),
            observed if observed == width => return Ok(()),
            observed => format!("differs from the width of its observation, {observed}"),
        };
        let reason = format!("OBSERVATION_WIDTH = {width} {reason}");
        Err(Error::InvalidSpec { env: self.name.clone(), reason })
    }

    /// The index of the group called `name`.
    #[must_use]
    pub fn group_index(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|g| g.name == name)
    }

    /// Agents of all groups together.
    #[must_use]
    pub fn n_agents(&self) -> usize {
        self.groups.iter().map(|g| g.n_agents).sum()
    }

    /// The number of the first agent of `group`.
    #[must_use]
    pub fn first_agent(&self, group: usize) -> usize {
        self.groups[..group].iter().map(|g| g.n_agents).sum()
    }

    /// Checks that the spec does not contradict itself.
    ///
    /// # Errors
    /// A sentence with the offending value.
    pub fn validate(&self) -> Result<()> {
        let fail = |reason: String| Err(Error::InvalidSpec { env: self.name.clone(), reason });
        if self.groups.is_empty() || self.groups.len() > MAX_GROUPS {
            return fail(format!(
                "{} groups, but 1 to {MAX_GROUPS} are possible",
                self.groups.len()
            ));
        }
        if self.time_limit.steps == 0 {
            return fail("the time limit is 0 steps".into());
        }
        for (i, group) in self.groups.iter().enumerate() {
            if self.groups[..i].iter().any(|other| other.name == group.name) {
                return fail(format!("two groups are named \"{}\"", group.name));
            }
            group.validate(&self.name)?;
        }
        for (i, name) in self.statistics.iter().enumerate() {
            if name.is_empty() {
                return fail("a statistic has no name".into());
            }
            if self.statistics[..i].contains(name) {
                return fail(format!("two statistics are named \"{name}\""));
            }
        }
        self.global_observation.as_ref().map_or(Ok(()), |space| space.validate(&self.name))
    }
}

impl GroupSpec {
    /// Number of f32 in one agent's observation.
    #[must_use]
    pub fn observation_width(&self) -> usize {
        self.observation.flatten().width
    }

    /// Number of u8 in one agent's action mask; 0: no mask.
    #[must_use]
    pub fn mask_width(&self) -> usize {
        self.observation.flatten().action_mask.unwrap_or(0)
    }

    fn validate(&self, env: &str) -> Result<()> {
        let fail = |reason: String| Err(Error::InvalidSpec { env: env.into(), reason });
        if !is_key(&self.name) {
            return fail(format!(
                "a group is named {:?}, but names are keys of files, metrics and arrays: use letters \
                 of ASCII, digits, _ and -",
                self.name
            ));
        }
        if !(1..=MAX_AGENTS).contains(&self.n_agents) {
            let (name, n) = (&self.name, self.n_agents);
            return fail(format!(
                "group \"{name}\" has {n} agents, but 1 to {MAX_AGENTS} are possible"
            ));
        }
        self.observation.validate(env)?;
        self.action.validate(env)?;
        if matches!(self.action, Space::Dict(_)) {
            return fail(format!("group \"{}\" has a Dict as its action space", self.name));
        }
        let (mask, logits) = (self.mask_width(), self.action.head_sizes().iter().sum());
        if mask != 0 && mask != logits {
            return fail(format!(
                "group \"{}\" has an action mask of width {mask} for {logits} actions",
                self.name
            ));
        }
        Ok(())
    }
}

/// Whether a name can be a bare key of TOML and a part of a longer name.
fn is_key(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.bytes().all(plain)
}
