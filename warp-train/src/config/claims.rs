//! Which agents policies claim by the key `groups`: whole groups, or some of one by number.

use crate::algorithm::AgentRange;
use crate::error::{Error, Result};
use std::ops::RangeInclusive;
use warp_core::{EnvSpec, GroupSpec};

/// Whose agents are whose, while policies are read.
pub(super) struct Claims<'a> {
    spec: &'a EnvSpec,
    /// The policy of each agent, by group.
    taken: Vec<Vec<Option<String>>>,
}

impl<'a> Claims<'a> {
    pub(super) fn new(spec: &'a EnvSpec) -> Self {
        let taken = spec.groups.iter().map(|group| vec![None; group.n_agents]).collect();
        Self { spec, taken }
    }

    /// The agents that policy `name` claims, in the order of the spec; `texts` is its key `groups`.
    ///
    /// # Errors
    /// Groups or agents that there are not, or that have a policy.
    pub(super) fn claim(&mut self, name: &str, texts: &[String]) -> Result<Vec<AgentRange>> {
        for text in texts {
            self.claim_one(name, text)?;
        }
        let own = |group: usize| {
            let agents = self.taken[group].iter().enumerate();
            let agents = agents.filter(|(_, policy)| policy.as_deref() == Some(name));
            AgentRange::of(group, agents.map(|(agent, _)| agent))
        };
        Ok((0..self.taken.len()).flat_map(own).collect())
    }

    /// Checks that there is a group for policy `name`, which names none.
    ///
    /// # Errors
    /// There is no group of that name.
    pub(super) fn check_own(&self, name: &str) -> Result<()> {
        match self.spec.group_index(name) {
            Some(_) => Ok(()),
            None => Err(Error::Invalid(format!(
                "policy \"{name}\" is that of no group, since {} has {}; policy.{name}.groups would say for which \
                 it acts",
                self.spec.name,
                self.known()
            ))),
        }
    }

    /// The groups that there are, in words.
    fn known(&self) -> String {
        let known: Vec<_> = self.spec.groups.iter().map(|g| g.name.as_str()).collect();
        let groups = if known.len() == 1 { "group" } else { "groups" };
        format!("the {groups} {}", known.join(", "))
    }

    fn claim_one(&mut self, name: &str, text: &str) -> Result<()> {
        let (group, numbers) = match text.split_once('[') {
            Some((group, rest)) => (group, Some(rest)),
            None => (text, None),
        };
        let Some(index) = self.spec.group_index(group) else {
            return Err(Error::Invalid(format!(
                "policy.{name}.groups names \"{text}\", but {} has {}",
                self.spec.name,
                self.known()
            )));
        };
        let n_agents = self.spec.groups[index].n_agents;
        let ranges = match numbers {
            None => vec![0..=n_agents - 1],
            Some(numbers) => parse(numbers).ok_or_else(|| {
                Error::Invalid(format!(
                    "policy.{name}.groups has \"{text}\": agents of a group are given as numbers \
                     and ranges in increasing order, as in {group}[0,2-4]"
                ))
            })?,
        };
        if let Some(range) = ranges.iter().find(|range| *range.end() >= n_agents) {
            return Err(Error::Invalid(format!(
                "policy.{name}.groups has \"{text}\", but there is no agent {}: group \"{group}\" has {}",
                range.end().max(&n_agents),
                match n_agents {
                    1 => "agent 0 alone".into(),
                    n => format!("the agents 0 to {}", n - 1),
                }
            )));
        }
        for agent in ranges.into_iter().flatten() {
            if let Some(other) = self.taken[index][agent].replace(name.to_string()) {
                let who = who(&self.spec.groups[index], numbers.map(|_| agent));
                return Err(Error::Invalid(match other == name {
                    true => format!("{who} is named twice in policy.{name}.groups"),
                    false => {
                        format!("{who} is claimed by policy \"{other}\" and by policy \"{name}\"")
                    }
                }));
            }
        }
        Ok(())
    }

    /// Refuses agents without a policy.
    ///
    /// # Errors
    /// The first of them.
    pub(super) fn check_complete(&self) -> Result<()> {
        for (group, policies) in self.spec.groups.iter().zip(&self.taken) {
            let Some(agent) = policies.iter().position(Option::is_none) else { continue };
            let some = policies.iter().any(Option::is_some);
            let who = who(group, some.then_some(agent));
            return Err(Error::Invalid(format!(
                "{who} has no policy; add it to the groups of one"
            )));
        }
        Ok(())
    }
}

/// A group, or one agent of it, in words.
fn who(group: &GroupSpec, agent: Option<usize>) -> String {
    match agent {
        Some(agent) => format!("agent {agent} of group \"{}\"", group.name),
        None => format!("group \"{}\"", group.name),
    }
}

/// What stands behind a group's bracket: `0,2-4]`. Nothing if it is no list of numbers in rising order.
fn parse(text: &str) -> Option<Vec<RangeInclusive<usize>>> {
    let number =
        |text: &str| -> Option<usize> { text.trim().parse::<u32>().ok().map(|n| n as usize) };
    let mut ranges: Vec<RangeInclusive<usize>> = Vec::new();
    for part in text.strip_suffix(']')?.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = number(first)?..=number(last)?;
        let rises = ranges.last().is_none_or(|before| before.end() < range.start());
        if range.is_empty() || !rises {
            return None;
        }
        ranges.push(range);
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrainConfig;

    /// A run of tag_continuous with four runners and two taggers.
    fn resolve(policies: &[(&str, &str)]) -> Result<TrainConfig> {
        let mut text =
            "env_id = \"tag_continuous\"\n[env]\nnum_runners = 4\nnum_taggers = 2".to_string();
        for (name, groups) in policies {
            text += &format!("\n[policy.{name}]\ngroups = {groups}");
        }
        TrainConfig::resolve(&text.parse().unwrap(), &warp_envs::registry())
    }

    fn of(config: &TrainConfig, policy: usize) -> Vec<(&str, Range<usize>)> {
        let ranges = config.policies[policy].agents.iter();
        ranges
            .map(|range| (config.spec.groups[range.group].name.as_str(), range.agents()))
            .collect()
    }

    use std::ops::Range;

    #[test]
    fn policies_act_for_whole_groups_and_for_some_of_their_agents() {
        let config = resolve(&[
            ("even", r#"["runner[0,2]", "tagger[1]"]"#),
            ("rest", r#"["tagger[0]", "runner[1, 3-3]"]"#),
        ]);
        let config = config.unwrap();
        let sorted = |mut parts: Vec<(&'static str, Range<usize>)>| {
            parts.sort_by_key(|(name, range)| (config.spec.group_index(name), range.start));
            parts
        };
        assert_eq!(
            of(&config, 0),
            sorted(vec![("runner", 0..1), ("runner", 2..3), ("tagger", 1..2)])
        );
        assert_eq!(
            of(&config, 1),
            sorted(vec![("runner", 1..2), ("runner", 3..4), ("tagger", 0..1)])
        );
        assert_eq!(config.policies[0].n_agents(), 3);
        // All agents of a group by number are the group.
        let config =
            resolve(&[("a", r#"["runner[0-1]", "runner[2-3]"]"#), ("tagger", "[]")]).unwrap();
        assert_eq!(of(&config, 0), [("runner", 0..4)]);
    }

    #[test]
    fn what_there_is_not_is_refused_in_a_sentence() {
        for (policies, words) in [
            (
                vec![("a", r#"["walker[0]"]"#)],
                "names \"walker[0]\", but tag_continuous has the groups",
            ),
            (
                vec![("a", r#"["runner[0-4]"]"#)],
                "no agent 4: group \"runner\" has the agents 0 to 3",
            ),
            (vec![("a", r#"["runner[9]"]"#)], "no agent 9"),
            (vec![("a", r#"["runner[2,1]"]"#)], "in increasing order, as in runner[0,2-4]"),
            (vec![("a", r#"["runner[]"]"#)], "numbers and ranges"),
            (vec![("a", r#"["runner[0"]"#)], "numbers and ranges"),
            (vec![("a", r#"["runner[-1]"]"#)], "numbers and ranges"),
            (
                vec![("a", r#"["runner"]"#), ("b", r#"["runner[3]", "tagger"]"#)],
                "agent 3 of group \"runner\" is claimed by policy \"a\" and by policy \"b\"",
            ),
            (
                vec![("a", r#"["runner", "runner[1]"]"#)],
                "agent 1 of group \"runner\" is named twice",
            ),
            (
                vec![("a", r#"["tagger", "runner[0-2]"]"#)],
                "agent 3 of group \"runner\" has no policy; add it to the groups of one",
            ),
            (vec![("a", r#"["tagger"]"#)], "group \"runner\" has no policy"),
        ] {
            let error = resolve(&policies).unwrap_err();
            assert!(error.is_users() && error.to_string().contains(words), "{error}");
        }
    }
}
