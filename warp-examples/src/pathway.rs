//! The way that a policy takes across a landscape of catalysis, beside the best there is.

use anyhow::Result;
use serde::Serialize;
use std::ops::ControlFlow;
use warp_core::Config;
use warp_core::toml::Table;
use warp_envs::catalysis::{Catalysis, CatalysisConfig, CatalysisTwoAtoms, Landscape};
use warp_func::Registry;
use warp_func::drawing::View;
use warp_train::episode::{EpisodeOptions, play_episode};
use warp_train::{Learner, TrainConfig};

/// A way from reactant to product, or as far as the policy came.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pathway {
    /// Whether it ends at the product.
    pub reached_goal: bool,
    /// Steps.
    pub steps: usize,
    /// Sum of the rewards.
    pub episode_return: f64,
    /// Sum of the rewards, discounted by the policy's `gamma`.
    pub discounted_return: f64,
    /// By how much the highest energy on the way exceeds that of the start, eV.
    pub barrier_ev: f64,
    /// The best there is, from a search over the whole landscape.
    pub best: Option<Best>,
}

/// The best ways; each number by itself, so they need not belong to one way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// The highest sum of rewards.
    pub episode_return: f64,
    /// Steps of the way with that sum.
    pub steps: usize,
    /// The highest discounted sum.
    pub discounted_return: f64,
    /// The lowest barrier, eV.
    pub barrier_ev: f64,
}

/// Names of the state's arrays, x, y and z of each atom, in the environment called `env`; `None`: it
/// is none of catalysis.
#[must_use]
pub fn coordinates(env: &str) -> Option<&'static [&'static str]> {
    match env {
        _ if env == <Catalysis as warp_core::Env>::NAME => Some(&["x", "y", "z"]),
        _ if env == <CatalysisTwoAtoms as warp_core::Env>::NAME => {
            Some(&["x1", "y1", "z1", "x2", "y2", "z2"])
        }
        _ => None,
    }
}

/// The state that `view` shows, x, y and z of each atom; `None`: it shows an environment that is none of
/// catalysis.
#[must_use]
pub fn state(view: &View<'_>) -> Option<Vec<i32>> {
    let coordinate = |name: &&str| view.array::<i32>(name)?.first().copied();
    coordinates(&view.spec().name)?.iter().map(coordinate).collect()
}

/// The landscape of the environment called `env` with the configuration `config`; `None`: it has
/// none.
///
/// # Errors
/// A configuration or file that does not fit (any more).
pub fn landscape(env: &str, config: &Table) -> Result<Option<Landscape>> {
    let Some(names) = coordinates(env) else { return Ok(None) };
    let config = CatalysisConfig::from_table(config)?;
    Ok(Some(Landscape::open(&config, names.len() / 3)?))
}

impl Pathway {
    /// The way that `learner` takes in one episode; `None` in an environment without a landscape.
    ///
    /// # Errors
    /// A configuration or file that does not fit, or a policy that cannot act.
    pub fn walk(
        learner: &mut dyn Learner,
        config: &TrainConfig,
        registry: &Registry,
        options: &EpisodeOptions,
    ) -> Result<Option<Self>> {
        let env = &config.run.env_id;
        let Some(landscape) = landscape(env, &config.env)? else { return Ok(None) };
        let (mut states, mut rewards) = (Vec::new(), Vec::new());
        let group = &config.spec.groups[0].name;
        play_episode(learner, config, registry, options, &mut |envs, _| {
            let view = View::new(envs, &config.env);
            states.extend(state(&view));
            rewards.push(view.number(&format!("reward.{group}")).map_or(0.0, f64::from));
            Ok::<_, anyhow::Error>(ControlFlow::Continue(()))
        })?;
        // What is in the array at the start belongs to no step.
        let gamma = config.policies[0].config.gamma.at(config.run.total_steps);
        let discounted = rewards[1..].iter().rev().fold(0.0, |after, r| r + gamma * after);
        let energies = || states.iter().filter_map(|state| landscape.energy(state));
        let start = energies().next().unwrap_or(0.0);
        Ok(Some(Self {
            reached_goal: states.last() == Some(&landscape.setting.goal),
            steps: rewards.len() - 1,
            episode_return: rewards[1..].iter().sum(),
            discounted_return: discounted,
            barrier_ev: energies().fold(start, f64::max) - start,
            best: landscape.optimum(gamma.min(MOST_GAMMA)).map(|best| Best {
                episode_return: best.best_return,
                steps: best.path.len() - 1,
                discounted_return: best.best_value,
                barrier_ev: best.barrier,
            }),
        }))
    }

    /// As lines for people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Self { steps, episode_return, discounted_return, barrier_ev, .. } = self;
        let end = if self.reached_goal { "reaches the goal" } else { "misses the goal" };
        let mut lines = vec![format!(
            "path  {end} after {steps} steps  return {episode_return:.3}  discounted \
             {discounted_return:.3}  barrier {barrier_ev:.3} eV"
        )];
        if let Some(best) = &self.best {
            lines.push(format!(
                "best path  {} steps  return {:.3}  discounted {:.3} (the policy has {:.1} % of it)  \
                 lowest barrier {:.3} eV",
                best.steps,
                best.episode_return,
                best.discounted_return,
                100.0 * discounted_return / best.discounted_return,
                best.barrier_ev
            ));
        }
        lines
    }
}

/// A policy may have a discount of 1, with which value iteration never ends.
const MOST_GAMMA: f64 = 1.0 - 1e-9;
