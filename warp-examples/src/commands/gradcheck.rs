//! `warp gradcheck`: whether gradients are right, every parameter against finite differences.
//!
//! The networks are those of the default configurations; observations and actions come from a short
//! rollout, and losses are PPO's and A2C's.

use super::{print_json, say};
use crate::{Outcome, settings};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use warp_func::Registry;
use warp_train::TrainConfig;
use warp_train::burn::BurnLearner;
use warp_train::gradcheck::{BOUND, Comparison, Scene, SceneOptions, compare};
use warp_train::native::NativeLearner;

/// Check gradients against finite differences.
#[derive(Debug, Clone, Args)]
pub struct GradcheckArgs {
    /// An environment's name, or a configuration file; all environments if there is none.
    #[arg(value_name = "ENV | FILE.toml")]
    pub target: Option<String>,
    /// Rows of the minibatch.
    #[arg(long, value_name = "N", default_value_t = 48)]
    pub rows: usize,
    /// Changes a key of the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// One JSON object on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command; [`Outcome::Failed`] if a gradient is wrong.
///
/// # Errors
/// A configuration that does not fit.
pub fn execute(args: &GradcheckArgs, registry: &Registry) -> Result<Outcome> {
    let targets: Vec<String> = match &args.target {
        Some(target) => vec![target.clone()],
        None => registry.entries().map(|entry| entry.name.to_string()).collect(),
    };
    let mut passed = true;
    let mut all = Vec::new();
    for target in targets {
        let config = Scene::shorten(settings::configure(&target, &args.set, registry)?);
        let found = check(&config, args.rows, registry)?;
        passed &= found.iter().all(Comparison::passed);
        if args.json {
            all.push(json!({ "env": config.run.env_id, "comparisons": found }));
        } else {
            print(&config, &found)?;
        }
    }
    if args.json {
        print_json(&json!({ "passed": passed, "bound": BOUND, "environments": all }))?;
    } else {
        let bound = format!("the bound of {BOUND:.0e}");
        say(&if passed {
            format!("all gradients agree within {bound}")
        } else {
            format!("FAILED: a gradient differs by more than {bound}")
        })?;
    }
    Ok(if passed { Outcome::Done } else { Outcome::Failed })
}

fn check(config: &TrainConfig, rows: usize, registry: &Registry) -> Result<Vec<Comparison>> {
    let mut native = NativeLearner::new(config, 1)?;
    let options = SceneOptions { rows, seed: config.run.seed };
    let scenes = Scene::collect(config, registry, &mut native, options)?;
    let mut burn = BurnLearner::new(config, 1)?;
    Ok(compare(config, &scenes, &mut [&mut native, &mut burn])?)
}

/// A line per tensor and loss, a column per pair of backends.
fn print(config: &TrainConfig, found: &[Comparison]) -> Result<()> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for comparison in found {
        let pair = (comparison.backend, comparison.against);
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    say(&format!("{}: largest difference of each gradient, relative", config.run.env_id))?;
    let heads: String = pairs.iter().map(|(a, b)| format!("{:>22}", format!("{a}/{b}"))).collect();
    say(&format!("  {:<40}{heads}", "policy, loss, tensor"))?;
    for one in found.iter().filter(|c| (c.backend, c.against) == pairs[0]) {
        let same = |c: &&Comparison| {
            (&c.policy, c.loss, &c.tensor) == (&one.policy, one.loss, &one.tensor)
        };
        let cell = |pair: &(&str, &str)| {
            let cell = found.iter().filter(same).find(|c| (c.backend, c.against) == *pair);
            let mark = |c: &Comparison| if c.passed() { "" } else { " !" };
            cell.map_or(String::new(), |c| format!("{:.1e}{}", c.error, mark(c)))
        };
        let cells: String = pairs.iter().map(|pair| format!("{:>22}", cell(pair))).collect();
        let name = format!("{} {} {} {:?}", one.policy, one.loss, one.tensor, one.shape);
        say(&format!("  {name:<40}{cells}"))?;
    }
    Ok(())
}
