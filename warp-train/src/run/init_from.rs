//! What a configuration's `init_from` names: a policy of another run, by its weights and what it normalises by.

use crate::algorithm::{PolicyConfig, PolicyPlan};
use crate::config::TrainConfig;
use crate::engine::{REPLAY_HEAD, UPDATES};
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::checkpoint::Checkpoint;
use crate::run::fleet::Fleet;
use crate::run::{Place, Run};
use std::path::Path;
use std::sync::Arc;
use warp_core::Config;
use warp_core::toml::{Table, Value};

/// Keys that say what a network's weights and outputs mean, though not how many there are.
const MEANING: [&str; 2] = ["activation", "action_distribution"];
/// Statistics of the run that they come from: returns on the way belong to its replicas, counters to its
/// replay memory.
const OF_THE_RUN: [&str; 3] = ["discounted_return", UPDATES, REPLAY_HEAD];

/// Reads what `init_from` names, for all policies of `config`, into `config.begun`.
///
/// # Errors
/// A run or checkpoint that can't be opened, a policy that it does not have, or one that is another
/// function of the same weights.
pub fn read(config: &mut TrainConfig) -> Result<()> {
    let mut begun = LearnerState::default();
    for plan in &config.policies {
        if let Some(place) = &plan.config.init_from {
            Source::open(place, plan, config)?.add_to(&mut begun)?;
        }
    }
    config.begun = (begun != LearnerState::default()).then(|| Arc::new(begun));
    Ok(())
}

/// A policy of another run.
struct Source<'a> {
    place: &'a str,
    plan: &'a PolicyPlan,
    config: &'a TrainConfig,
    checkpoint: Checkpoint,
    /// What it is called there.
    policy: String,
    /// The configuration of its run; a checkpoint that lies by itself has none.
    table: Option<Table>,
}

impl<'a> Source<'a> {
    fn open(place: &'a str, plan: &'a PolicyPlan, config: &'a TrainConfig) -> Result<Self> {
        let checkpoint = checkpoint(place, plan)?;
        // An optimiser's name follows its policy's, which has no dot, where there are several.
        let policy = |name: &String| name.split('.').next().unwrap_or(name).to_string();
        let mut policies: Vec<_> = checkpoint.manifest.optimizer_steps.keys().map(policy).collect();
        policies.dedup();
        let policy = match &policies[..] {
            [only] => only.clone(),
            _ if policies.contains(&plan.name) => plan.name.clone(),
            _ => {
                let known = policies.join(", ");
                let reason = format!("it has the policies {known} and none called {}", plan.name);
                return Err(refused(plan, place, &reason));
            }
        };
        let folder = checkpoint.path.parent().and_then(Path::parent);
        let text = folder.and_then(|folder| Run::config(folder).ok());
        let table = text.and_then(|text| text.parse::<Table>().ok());
        let source = Self { place, plan, config, checkpoint, policy, table };
        source.check_meaning()?;
        Ok(source)
    }

    /// What its run's configuration says of a key, of the policy or of all of them.
    fn given(&self, key: &str) -> Option<&Value> {
        let table = self.table.as_ref()?;
        let own = table.get("policy").and_then(|policies| policies.get(&self.policy));
        own.and_then(|own| own.get(key)).or_else(|| table.get(key))
    }

    /// The algorithm that its run names, or that of runs that name none.
    fn algorithm(&self) -> String {
        let named = self.given("algorithm").and_then(Value::as_str);
        named.map_or_else(|| PolicyConfig::default().algorithm, ToString::to_string)
    }

    /// Weights do not say what they are for; the run's configuration does.
    fn check_meaning(&self) -> Result<()> {
        if self.table.is_none() {
            return Ok(());
        }
        // What an algorithm does not read is not written down, or is another policy's.
        let algorithm = self.config.algorithms.get(&self.algorithm())?;
        let defaults = PolicyConfig::of(algorithm, 0);
        for key in MEANING {
            let there = self.given(key).filter(|_| algorithm.reads(key)).cloned();
            let there = there.or_else(|| defaults.get(key));
            let there = there.as_ref().and_then(Value::as_str).unwrap_or_default();
            let here = self.plan.config.get(key);
            if here.as_ref().and_then(Value::as_str) != Some(there) {
                let here = here.map_or_else(String::new, |here| here.to_string());
                let reason = format!("its {key} is \"{there}\", but here it is {here}");
                return Err(self.refused(&reason));
            }
        }
        Ok(())
    }

    /// An error, which begins with what matters most: another environment, or another algorithm.
    fn refused(&self, reason: &str) -> Error {
        let here = [&self.config.run.env_id[..], self.plan.algorithm.name];
        let algorithm = self.algorithm();
        let env = self.given("env_id").and_then(Value::as_str).unwrap_or(here[0]);
        let there = [env, &algorithm];
        let other = match self.table.is_some() && there != here {
            true => format!(
                "it comes from {} with {}, but this is {} with {}; ",
                there[0], there[1], here[0], here[1]
            ),
            false => String::new(),
        };
        refused(self.plan, self.place, &format!("{other}{reason}"))
    }

    /// Adds weights and statistics under the name that the policy has here.
    fn add_to(&self, begun: &mut LearnerState) -> Result<()> {
        let (name, learner) = (&self.plan.name, &self.checkpoint.learner);
        let (weights, _, _) = learner.of_policy(&self.policy);
        let mut statistics = learner.statistics_of_policy(&self.policy);
        statistics.retain(|statistic| !OF_THE_RUN.contains(&&statistic.name[..]));
        let normalises = statistics.iter().any(|statistic| statistic.name == "obs_count");
        if normalises != self.plan.config.norm_obs {
            let reason = match normalises {
                true => {
                    "it was trained with norm_obs = true, so this run needs norm_obs = true, too"
                }
                false => {
                    "it was trained with norm_obs = false, so this run needs norm_obs = false, too"
                }
            };
            return Err(self.refused(reason));
        }
        begun.add_policy(name, weights, Vec::new(), 0);
        begun.add_statistics(name, statistics);
        Ok(())
    }
}

/// The checkpoint that `place` names: one by itself, or one of a run.
fn checkpoint(place: &str, plan: &PolicyPlan) -> Result<Checkpoint> {
    let folder = Path::new(place);
    if folder.join("manifest.json").exists() {
        return Checkpoint::open(folder);
    }
    let place_of_run = Place::parse(folder);
    if !place_of_run.folder.is_dir() {
        let reason = format!("there is no folder \"{}\"", place_of_run.folder.display());
        return Err(refused(plan, place, &reason));
    }
    if Fleet::is_in(&place_of_run.folder) {
        let reason = "it is a fleet, whose runs have no checkpoints; train one of them by itself";
        return Err(refused(plan, place, reason));
    }
    place_of_run.checkpoint()
}

fn refused(plan: &PolicyPlan, place: &str, reason: &str) -> Error {
    Error::Invalid(format!("policy \"{}\" can't start from \"{place}\": {reason}", plan.name))
}
