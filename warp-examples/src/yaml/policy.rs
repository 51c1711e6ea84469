//! A policy of the original in this program's keys.

use super::section::Section;
use anyhow::{Result, bail};
use warp_core::toml::{Table, Value};
use warp_core::{ConfigValue, EnvSpec, GroupSpec, Space};
use warp_train::Schedule;

/// The tag of a policy that acts for everyone.
const SHARED: &str = "shared";
/// Why a file of the original's weights is refused.
const FOREIGN_WEIGHTS: &str = "weights of the original can't be read here; a run's folder can";
/// The algorithm of policies that explore by noise.
const DDPG: &str = "ddpg";

/// What all policies have in common, and each by its tag with the rest.
pub(super) fn policies(
    mut section: Section<'_>,
    spec: &EnvSpec,
    without_effect: &mut Vec<String>,
) -> Result<(Table, Table)> {
    let mut policies: Vec<(&str, Table)> = Vec::new();
    for tag in section.rest().map(|entry| entry.key.as_str()).collect::<Vec<_>>() {
        let one = section.section(tag)?;
        let mut keys = translate(one, without_effect)?;
        keys.insert("groups".into(), groups(&section, tag, spec)?);
        policies.push((tag, keys));
    }
    let Some((_, first)) = policies.first() else {
        bail!("the file has no policy, such as policy.{SHARED}");
    };
    let mut common = first.clone();
    common.retain(|key, value| {
        key != "groups" && policies.iter().all(|(_, keys)| keys.get(key) == Some(value))
    });
    for (_, keys) in &mut policies {
        keys.retain(|key, _| !common.contains_key(key));
    }
    let named = policies.into_iter().map(|(tag, keys)| (tag.to_string(), keys.into()));
    Ok((common, named.collect()))
}

/// The groups that the policy called `tag` acts for: all, or the one of its name.
fn groups(section: &Section<'_>, tag: &str, spec: &EnvSpec) -> Result<Value> {
    let names: Vec<Value> = spec.groups.iter().map(|group| group.name.as_str().into()).collect();
    if tag == SHARED {
        return Ok(names.into());
    }
    if spec.group_index(tag).is_some() {
        return Ok(vec![Value::from(tag)].into());
    }
    let groups: Vec<&str> = spec.groups.iter().map(|group| group.name.as_str()).collect();
    let reason = format!(
        "{} has no agents \"{tag}\"; policies are \"{SHARED}\" or {}",
        spec.name,
        groups.join(", ")
    );
    Err(section.invalid(tag, &reason))
}

/// Whether a policy's keys say that it learns by DDPG.
pub(super) fn is_ddpg(keys: &Table) -> bool {
    keys.get("algorithm").and_then(Value::as_str) == Some(DDPG)
}

/// The half-ranges of actions that policies of DDPG choose, each once; none of unbounded ones, which DDPG
/// refuses.
pub(super) fn half_ranges(shared: &Table, policies: &Table, spec: &EnvSpec) -> Vec<f64> {
    let explores = |keys: &&Table| is_ddpg(shared) || is_ddpg(keys);
    let named = |keys: &Table| keys.get("groups").and_then(Value::as_array).cloned();
    let groups = policies.values().filter_map(Value::as_table).filter(explores).filter_map(named);
    let groups: Vec<Value> = groups.flatten().collect();
    let acts = |group: &&GroupSpec| groups.iter().any(|name| name.as_str() == Some(&group.name));
    let mut found = Vec::new();
    for group in spec.groups.iter().filter(acts) {
        let Space::Box { low, high, .. } = &group.action else { continue };
        let half = |(low, high): (&f32, &f32)| (f64::from(*high) - f64::from(*low)) / 2.0;
        found.extend(low.iter().zip(high).map(half).filter(|half| half.is_finite() && *half > 0.0));
    }
    found.sort_by(f64::total_cmp);
    found.dedup();
    found
}

fn translate(mut section: Section<'_>, without_effect: &mut Vec<String>) -> Result<Table> {
    let is_ppo = match algorithm(&mut section)? {
        Original::Ddpg => return ddpg(section, without_effect),
        original => original == Original::Ppo,
    };
    let mut keys = Table::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            keys.insert(key.into(), value);
        }
    };
    set("algorithm", Some(if is_ppo { "ppo" } else { "a2c" }.into()));
    set("to_train", Some(section.get_or("to_train", false)?.into()));
    let schedule = |value: f64| Schedule::constant(value);
    let learning_rate = section.get_or("lr", schedule(1e-4))?;
    set("learning_rate", learning_rate.to_value());
    let vf_coef = section.get_or("vf_loss_coeff", schedule(0.01))?.to_value();
    // The loss here is half the mean squared error in PPO, the whole in A2C.
    set("vf_coef", if is_ppo { vf_coef.map(doubled) } else { vf_coef });
    set("ent_coef", section.get_or("entropy_coeff", schedule(0.05))?.to_value());
    set("max_grad_norm", Some(max_grad_norm(&mut section)?.into()));
    set("norm_adv", Some(section.get_or("normalize_advantage", false)?.into()));
    set("norm_return", Some(section.get_or("normalize_return", false)?.into()));
    set("gamma", Some(section.get_or("gamma", 0.98)?.into()));
    set("gae_lambda", Some(1.0.into()));
    set("adam_eps", Some(1e-8.into()));
    if is_ppo {
        set("clip_coef", Some(section.get_or("clip_param", 0.01)?.into()));
        set("clip_vloss", Some(false.into()));
        set("update_epochs", Some(1.into()));
        set("num_minibatches", Some(1.into()));
    } else {
        section.ignore(&["clip_param"], without_effect);
    }
    section.ignore(&["tau"], without_effect);
    let model = section.section("model")?;
    keys.extend(network(model, without_effect)?);
    section.finish()?;
    Ok(keys)
}

/// The original's algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Original {
    A2c,
    Ppo,
    Ddpg,
}

fn algorithm(section: &mut Section<'_>) -> Result<Original> {
    let name = section.get_or("algorithm", "A2C".to_string())?;
    match name.as_str() {
        "A2C" => Ok(Original::A2c),
        "PPO" => Ok(Original::Ppo),
        "DDPG" => Ok(Original::Ddpg),
        _ => bail!(section.invalid("algorithm", "expected \"A2C\", \"PPO\" or \"DDPG\"")),
    }
}

/// A policy that learns by DDPG, whose actor and critic may have settings of their own.
fn ddpg(mut section: Section<'_>, without_effect: &mut Vec<String>) -> Result<Table> {
    let mut keys = Table::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            keys.insert(key.into(), value);
        }
    };
    set("algorithm", Some(DDPG.into()));
    set("to_train", Some(section.get_or("to_train", false)?.into()));
    if section.is_mapping("lr") {
        let mut rates = section.section("lr")?;
        let schedule = Schedule::constant(1e-4);
        set("learning_rate", rates.get_or("actor", schedule.clone())?.to_value());
        set("critic_learning_rate", rates.get_or("critic", schedule)?.to_value());
        rates.finish()?;
    } else {
        set("learning_rate", section.get_or("lr", Schedule::constant(1e-4))?.to_value());
    }
    set("max_grad_norm", Some(max_grad_norm(&mut section)?.into()));
    if section.get_or("normalize_return", false)? {
        bail!(section.invalid("normalize_return", "DDPG does not use returns here"));
    }
    set("gamma", Some(section.get_or("gamma", 0.98)?.into()));
    set("adam_eps", Some(1e-8.into()));
    set("learning_starts", Some(0.into()));
    let Some(tau) = section.get::<f64>("tau")? else {
        bail!(section.invalid("tau", "DDPG needs it"));
    };
    set("tau", Some(tau.into()));
    section.ignore(&["normalize_advantage", "vf_loss_coeff", "entropy_coeff"], without_effect);
    let model = section.section("model")?;
    keys.extend(ddpg_network(model, without_effect)?);
    section.finish()?;
    Ok(keys)
}

/// The network of actor and critic, each of its own weights but of one shape.
fn ddpg_network(mut model: Section<'_>, without_effect: &mut Vec<String>) -> Result<Table> {
    if !model.is_mapping("actor") {
        let mut keys = network(model, without_effect)?;
        keys.remove("shared_trunk");
        return Ok(keys);
    }
    let weights = ddpg_weights(&mut model)?;
    let (mut actor, mut critic) = (model.section("actor")?, model.section("critic")?);
    let actor_keys = layers(&mut actor, "fully_connected_actor", without_effect)?;
    let critic_keys = layers(&mut critic, "fully_connected_action_value_critic", without_effect)?;
    if actor_keys != critic_keys {
        bail!(critic.invalid("fc_dims", "actor and critic must have the same layer widths here"));
    }
    actor.finish()?;
    critic.finish()?;
    model.finish()?;
    let mut keys = actor_keys;
    keys.extend(weights.map(|run| ("init_from".to_string(), run.into())));
    Ok(keys)
}

/// The run whose weights actor and critic begin with; here both lie in one.
fn ddpg_weights(model: &mut Section<'_>) -> Result<Option<String>> {
    let mut files = model.section("model_ckpt_filepath")?;
    let mut given = |part| -> Result<String> { Ok(files.get(part)?.unwrap_or_default()) };
    let (actor, critic) = (given("actor")?, given("critic")?);
    for (part, path) in [("actor", &actor), ("critic", &critic)] {
        if path.ends_with(".state_dict") {
            bail!(files.invalid(part, FOREIGN_WEIGHTS));
        }
    }
    if actor != critic {
        let reason = "actor and critic begin with one run's weights here: both name its folder";
        bail!(files.invalid("critic", reason));
    }
    files.finish()?;
    Ok((!actor.is_empty()).then_some(actor))
}

/// A part's layers. What scales an actor's actions to their bounds follows from the environment here; the
/// original's scales the mean alone, not the noise.
fn layers(part: &mut Section<'_>, kind: &str, without_effect: &mut Vec<String>) -> Result<Table> {
    if let Some(other) = part.get::<String>("type")?.filter(|other| other != kind) {
        bail!(part.invalid("type", &format!("{other} is not a network of DDPG: use {kind}")));
    }
    let hidden = part.get_or("fc_dims", vec![64_usize, 64])?;
    part.ignore(&["output_w", "output_b"], without_effect);
    let keys = [
        ("hidden", hidden.to_value().unwrap_or_else(|| Value::Array(Vec::new()))),
        ("activation", "relu".into()),
        ("init", "kaiming".into()),
    ];
    Ok(keys.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
}

/// 0: not clipped.
fn max_grad_norm(section: &mut Section<'_>) -> Result<f64> {
    let norm = section.get_or("max_grad_norm", 0.5)?;
    if !section.get_or("clip_grad_norm", true)? {
        return Ok(0.0);
    }
    if norm > 0.0 {
        return Ok(norm);
    }
    bail!(section.invalid("max_grad_norm", "must be above 0 where clip_grad_norm is true"))
}

fn network(mut model: Section<'_>, without_effect: &mut Vec<String>) -> Result<Table> {
    if let Some(kind) = model.get::<String>("type")?.filter(|kind| kind != "fully_connected") {
        bail!(
            model.invalid("type", &format!("{kind} is not a network of A2C: use fully_connected"))
        );
    }
    let weights = model.get::<String>("model_ckpt_filepath")?.filter(|path| !path.is_empty());
    if weights.as_ref().is_some_and(|path| path.ends_with(".state_dict")) {
        bail!(model.invalid("model_ckpt_filepath", FOREIGN_WEIGHTS));
    }
    let init = match model.get::<String>("init_method")?.as_deref() {
        None => "kaiming",
        Some("xavier") => "xavier",
        Some(_) => bail!(model.invalid("init_method", "expected \"xavier\", or none for torch's")),
    };
    let hidden = model.get_or("fc_dims", vec![64_usize, 64])?;
    model.ignore(&["output_w", "output_b"], without_effect);
    model.finish()?;
    let keys = [
        ("hidden", hidden.to_value().unwrap_or_else(|| Value::Array(Vec::new()))),
        ("activation", "relu".into()),
        ("shared_trunk", true.into()),
        ("init", init.into()),
    ];
    let weights = weights.map(|path| ("init_from", path.into()));
    Ok(keys.into_iter().chain(weights).map(|(key, value)| (key.to_string(), value)).collect())
}

/// A coefficient, or each value of a schedule, times two.
fn doubled(value: Value) -> Value {
    let twice = |value: &Value| value.as_float().map_or(value.clone(), |x| (2.0 * x).into());
    let Value::Array(points) = &value else { return twice(&value) };
    let point = |point: &Value| match point.as_array().map(Vec::as_slice) {
        Some([step, value]) => vec![step.clone(), twice(value)].into(),
        _ => point.clone(),
    };
    Value::Array(points.iter().map(point).collect())
}
