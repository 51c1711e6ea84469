//! The whole file: environment, trainer, policies, saving.

use super::section::Section;
use super::tree::Node;
use super::{Translated, policy, world};
use anyhow::{Context, Result, bail};
use warp_core::toml::Value;
use warp_func::Registry;

/// The trainer's part: who steps how long.
struct Trainer {
    seed: Option<u64>,
    num_envs: usize,
    num_steps: usize,
    /// Environment steps in all.
    total_steps: u128,
}

pub(super) fn translate(root: &Node, registry: &Registry) -> Result<Translated> {
    let mut without_effect = Vec::new();
    let notes = &mut without_effect;
    let mut top = Section::new("", Some(root))?;
    let mut saving = top.section("saving")?;
    let (name, other) = (top.take("name"), saving.take("name"));
    if name.is_some() && other.is_some() {
        notes.push("saving.name".into());
    }
    let named = name.map(|node| ("name", node)).or(other.map(|node| ("saving.name", node)));
    let named = named.context("the file has no key name, which says what environment it is for")?;
    let env = top.section("env")?;
    let place = world::place(&top, named, env, registry, notes)?;
    let (_, spec) = place.entry.describe(&place.env)?;
    let (shared, policies) = policy::policies(top.section("policy")?, &spec, notes)?;
    let trainer = trainer(top.section("trainer")?, spec.time_limit.steps, notes)?;
    sampler(top.section("sampler")?, notes)?;
    let saved = saving.get_or("model_params_save_freq", 1000_u64)?;
    saving.ignore(&["metrics_log_freq", "basedir", "tag", "use_wandb"], notes);
    saving.finish()?;
    top.finish()?;
    if trainer.seed.is_some() && place.seed.is_some() {
        notes.push("env.seed".into());
    }
    let mut table = place.start;
    table.extend(shared);
    let seed = trainer.seed.or(place.seed).unwrap_or(0);
    let iteration = trainer.num_envs as u128 * trainer.num_steps as u128;
    for (key, value) in [
        ("seed", u128::from(seed)),
        ("num_envs", trainer.num_envs as u128),
        ("num_steps", trainer.num_steps as u128),
        ("total_steps", trainer.total_steps),
        ("checkpoint_steps", u128::from(saved).saturating_mul(iteration)),
    ] {
        // TOML's numbers end at 2^63, and no run gets there.
        table.insert(key.into(), Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
    }
    table.insert("env_id".into(), place.entry.name.into());
    table.insert("env".into(), place.env.into());
    table.insert("policy".into(), policies.into());
    Ok(Translated { table, without_effect })
}

/// Translates the section `trainer`; episodes have `episode_length` steps.
fn trainer(
    mut section: Section<'_>,
    episode_length: u32,
    notes: &mut Vec<String>,
) -> Result<Trainer> {
    not_built(&mut section, notes)?;
    let num_envs = section.get_or("num_envs", 10_usize)?;
    let episodes = section.get_or("num_episodes", 10_000_u64)?;
    let batch = section.get_or("train_batch_size", 10_000_usize)?;
    let seed = section.get("seed")?;
    section.ignore(&["env_backend"], notes);
    if num_envs == 0 {
        bail!(section.invalid("num_envs", "must be at least 1"));
    }
    let num_steps = batch / num_envs;
    if num_steps == 0 {
        let reason = format!("{num_envs} replicas (num_envs) make at least as many steps");
        bail!(section.invalid("train_batch_size", &reason));
    }
    // As the original counts: whole batches, and what does not fill a row of replicas is not stepped.
    let iterations = u128::from(episodes) * u128::from(episode_length) / batch as u128;
    if iterations == 0 {
        let reason = format!(
            "episodes of {episode_length} steps give less than one train_batch_size, {batch} steps"
        );
        bail!(section.invalid("num_episodes", &reason));
    }
    let total_steps = iterations.saturating_mul(num_envs as u128 * num_steps as u128);
    section.finish()?;
    Ok(Trainer { seed, num_envs, num_steps, total_steps })
}

/// Refuses what means something that this program can't do yet.
fn not_built(section: &mut Section<'_>, notes: &mut Vec<String>) -> Result<()> {
    if section.get_or("num_gpus", 1_i32)? > 1 {
        bail!(section.invalid("num_gpus", "training on several GPUs is not built yet"));
    }
    if section.get_or("n_step", 1_i32)? > 1 {
        let reason = "returns over n steps belong to DDPG, which is not built yet";
        bail!(section.invalid("n_step", reason));
    }
    if section.get_or("neg_pos_env_ratio", -1.0)? > 0.0 {
        let reason = "learning from a selection of replicas is not built yet";
        bail!(section.invalid("neg_pos_env_ratio", reason));
    }
    if section.get_or("evaluator", false)? {
        let reason = "evaluation during training is not built yet; warp eval evaluates a run";
        bail!(section.invalid("evaluator", reason));
    }
    section.ignore(&["num_gpus", "n_step", "neg_pos_env_ratio", "evaluator"], notes);
    Ok(())
}

/// Exploration noise, which DDPG alone uses.
fn sampler(mut section: Section<'_>, notes: &mut Vec<String>) -> Result<()> {
    let mut params = section.section("params")?;
    params.ignore(&["damping", "stddev", "scale"], notes);
    params.finish()?;
    section.finish()
}
