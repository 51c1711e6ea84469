//! The whole file: environment, trainer, policies, saving.

use super::section::Section;
use super::tree::Node;
use super::{Translated, policy, world};
use anyhow::{Context, Result, bail};
use warp_core::ConfigValue;
use warp_core::toml::{Table, Value};
use warp_func::Registry;
use warp_train::Schedule;

/// The trainer's part: who steps how long.
struct Trainer {
    seed: Option<u64>,
    num_envs: usize,
    num_steps: usize,
    /// Rewards that a return sums before the value of what follows.
    n_step: usize,
    /// Environment steps in all.
    total_steps: u128,
    /// Whether policies are evaluated whenever metrics are logged.
    evaluates: bool,
    /// Replicas without a goal that are learned from, for each with one.
    ratio: Option<f64>,
}

impl Trainer {
    /// Keys of evaluations, which come every `steps` steps and let each replica play an episode.
    fn evaluation(&self, steps: u128) -> impl Iterator<Item = (&'static str, u128)> {
        let keys = [("eval_steps", steps), ("eval_episodes", self.num_envs as u128)];
        keys.into_iter().filter(|_| self.evaluates)
    }
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
    let (key, node) = named.context("the file has no key name, which names the environment")?;
    let env = top.section("env")?;
    let place = world::place(&top, key, node, env, registry, notes)?;
    let (_, spec) = place.entry.describe(&place.env)?;
    let (mut shared, policies) = policy::policies(top.section("policy")?, &spec, notes)?;
    let has_ddpg = policy::is_ddpg(&shared) || policies.values().any(is_ddpg);
    let trainer = trainer(top.section("trainer")?, spec.time_limit.steps, has_ddpg, notes)?;
    let half_ranges = policy::half_ranges(&shared, &policies, &spec);
    let noise = sampler(top.section("sampler")?, &half_ranges)?;
    if has_ddpg {
        shared.extend(off_policy(&trainer, &noise));
    } else {
        notes.extend(noise.given());
    }
    match trainer.ratio {
        // DDPG draws from a memory.
        Some(_) if has_ddpg => notes.push("trainer.neg_pos_env_ratio".into()),
        Some(ratio) => drop(shared.insert("neg_pos_env_ratio".into(), ratio.into())),
        None => {}
    }
    let saved = saving.get_or("model_params_save_freq", 1000_u64)?;
    let logged = saving.get_or("metrics_log_freq", 100_u64)?;
    if logged == 0 {
        bail!(saving.invalid("metrics_log_freq", "must be at least 1"));
    }
    let basedir = saving.get_or("basedir", "/tmp".to_string())?;
    let tag = saving.get_or("tag", "experiment".to_string())?;
    saving.ignore(&["use_wandb"], notes);
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
        ("log_interval", u128::from(logged)),
    ]
    .into_iter()
    .chain(trainer.evaluation(u128::from(logged).saturating_mul(iteration)))
    {
        // TOML's numbers end at 2^63, and no run gets there.
        table.insert(key.into(), Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
    }
    table.insert("basedir".into(), basedir.into());
    table.insert("tag".into(), tag.into());
    table.insert("env_id".into(), place.entry.name.into());
    table.insert("env".into(), place.env.into());
    table.insert("policy".into(), policies.into());
    Ok(Translated { table, without_effect })
}

/// Translates the section `trainer`; episodes have `episode_length` steps.
fn trainer(
    mut section: Section<'_>,
    episode_length: u32,
    has_ddpg: bool,
    notes: &mut Vec<String>,
) -> Result<Trainer> {
    not_built(&mut section, notes)?;
    let num_envs = section.get_or("num_envs", 10_usize)?;
    let episodes = section.get_or("num_episodes", 10_000_u64)?;
    let batch = section.get_or("train_batch_size", 10_000_usize)?;
    let seed = section.get("seed")?;
    let n_step = section.get_or("n_step", 1_usize)?;
    let evaluates = section.get_or("evaluator", false)?;
    // Only above 0 it selects replicas.
    let ratio = section.get("neg_pos_env_ratio")?.filter(|ratio: &f64| *ratio > 0.0);
    if n_step > 1 && !has_ddpg {
        bail!(section.invalid("n_step", "n-step returns are only available with DDPG"));
    }
    section.ignore(&["env_backend"], notes);
    if num_envs == 0 {
        bail!(section.invalid("num_envs", "must be at least 1"));
    }
    let num_steps = batch / num_envs;
    if num_steps == 0 {
        let reason = format!("it must be at least the number of replicas, num_envs = {num_envs}");
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
    Ok(Trainer { seed, num_envs, num_steps, n_step, total_steps, evaluates, ratio })
}

/// Refuses what means something that this program can't do yet.
fn not_built(section: &mut Section<'_>, notes: &mut Vec<String>) -> Result<()> {
    if section.get_or("num_gpus", 1_i32)? > 1 {
        bail!(section.invalid("num_gpus", "for several GPUs use --gpus N, and leave this at 1"));
    }
    section.ignore(&["num_gpus"], notes);
    Ok(())
}

/// Exploration noise, which DDPG alone uses.
struct Noise {
    damping: Option<f64>,
    stddev: Option<Schedule>,
    scale: Option<f64>,
    /// Half of the distance between the bounds of actions, in whose own units the original's noise is.
    half_range: f64,
}

/// Translates the section `sampler`; `half_ranges` are those of the actions that noise is added to.
fn sampler(mut section: Section<'_>, half_ranges: &[f64]) -> Result<Noise> {
    let mut params = section.section("params")?;
    let noise = Noise {
        damping: params.get("damping")?,
        stddev: params.get("stddev")?,
        scale: params.get("scale")?,
        half_range: half_ranges.first().copied().unwrap_or(1.0),
    };
    if half_ranges.len() > 1 {
        let list = half_ranges.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        bail!(
            "sampler.params: this noise is in the actions' own units, but noise_std is in half-ranges of the \
             actions, and these differ: {list}"
        );
    }
    params.finish()?;
    section.finish()?;
    Ok(noise)
}

/// Whether a policy's own table names DDPG.
fn is_ddpg(policy: &Value) -> bool {
    policy.as_table().is_some_and(policy::is_ddpg)
}

impl Noise {
    /// What is set of it, by its full names.
    fn given(&self) -> impl Iterator<Item = String> {
        let given = [
            ("damping", self.damping.is_some()),
            ("stddev", self.stddev.is_some()),
            ("scale", self.scale.is_some()),
        ];
        let given = given.into_iter().filter(|(_, given)| *given);
        given.map(|(name, _)| format!("sampler.params.{name}"))
    }
}

/// What DDPG needs of the trainer and the sampler.
fn off_policy(trainer: &Trainer, noise: &Noise) -> Table {
    // Here noise is added to actions scaled to -1 to 1.
    let scale = noise.scale.unwrap_or(1.0) / noise.half_range;
    let stddev = noise.stddev.clone().unwrap_or_else(|| Schedule::constant(0.2));
    let integer = |n: usize| Value::Integer(i64::try_from(n).unwrap_or(i64::MAX));
    let batch = trainer.num_envs.saturating_mul(trainer.num_steps);
    let keys = [
        ("noise", "ou".into()),
        ("noise_damping", noise.damping.unwrap_or(0.15).into()),
        ("noise_std", stddev.scaled(scale).to_value().unwrap_or_else(|| (0.2 * scale).into())),
        // One update with as many samples as a rollout has, as in the original; but of all that is kept.
        ("train_freq", integer(trainer.num_steps)),
        ("batch_size", integer(batch)),
        ("n_step", integer(trainer.n_step)),
    ];
    keys.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::{EnvSpec, GroupSpec, LimitEnds, Space, TimeLimit};

    #[test]
    fn noise_on_actions_of_several_half_ranges_is_refused() {
        let group = |name: &str, low: f32, high: f32| GroupSpec {
            name: name.into(),
            n_agents: 1,
            observation: Space::unbounded(1),
            action: Space::boxed(low, high, &[2]),
            mortal: false,
        };
        let spec = EnvSpec {
            name: "two".into(),
            groups: vec![group("arm", -2.0, 2.0), group("leg", 0.0, 0.5)],
            time_limit: TimeLimit { steps: 9, ends: LimitEnds::Truncated },
            statistics: Vec::new(),
            global_observation: None,
        };
        let half_ranges = |shared: &str, policies: &str| {
            policy::half_ranges(&shared.parse().unwrap(), &policies.parse().unwrap(), &spec)
        };
        let both = half_ranges("algorithm = \"ddpg\"", "shared = { groups = [\"arm\", \"leg\"] }");
        assert_eq!(both, [0.25, 2.0]);
        // What does not explore by noise does not count.
        let arm = "arm = { groups = [\"arm\"], algorithm = \"ddpg\" }";
        let leg = "leg = { groups = [\"leg\"], algorithm = \"a2c\" }";
        assert_eq!(half_ranges("", &format!("{arm}\n{leg}")), [2.0]);
        let read =
            |half_ranges: &[f64]| sampler(Section::new("sampler", None).unwrap(), half_ranges);
        assert_eq!(read(&[2.0]).unwrap().half_range, 2.0);
        assert_eq!(read(&[]).unwrap().half_range, 1.0);
        let error = read(&both).err().unwrap().to_string();
        let expected = "sampler.params: this noise is in the actions' own units, but noise_std is in half-ranges \
                        of the actions, and these differ: 0.25, 2";
        assert_eq!(error, expected);
    }
}
