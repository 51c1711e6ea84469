//! Checkpoints: a folder per step that is either complete and verified, or refused.
//!
//! `<12-digit step>/{weights,optimizer,state}.safetensors`, `memory.safetensors` where policies have a
//! replay memory, and `manifest.json`, which holds a digest
//! of each file and of itself. Nothing in them depends on the clock, a path or a random order: same run, same
//! bytes. A folder is written under another name and renamed when it is complete, and renamed again before it is
//! deleted. What holds a number that is not finite is neither saved nor opened.

pub(crate) mod encoding;
pub(crate) mod env_state;
pub(crate) mod snapshot;

use crate::digest::digest;
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::durable;
use crate::world::World;
use encoding::{decode, decode_memory, dtype, encode, encode_memory};
use safetensors::{SafeTensors, serialize};
use serde::{Deserialize, Serialize};
pub use snapshot::Counters;
use snapshot::Snapshot;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use warp_core::DType;
use warp_data::file;
use warp_func::VecEnv;

/// Version of the layout described above.
const FORMAT: u32 = 1;
const WEIGHTS: &str = "weights.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.safetensors";
/// Only of policies that have a memory.
const MEMORY: &str = "memory.safetensors";
const MANIFEST: &str = "manifest.json";

/// A checkpoint's manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the layout.
    pub format: u32,
    /// Version of the crate that wrote it.
    pub version: String,
    /// The environment's name.
    pub env_id: String,
    /// The run's seed.
    pub seed: u64,
    /// Iterations done.
    pub iteration: u64,
    /// Environment steps done.
    pub env_steps: u64,
    /// Steps done by every replica: part of the counter of all random numbers.
    pub run_step: u32,
    /// Optimiser steps by policy.
    pub optimizer_steps: BTreeMap<String, u64>,
    /// SHA-256 of each file, in hexadecimal.
    pub files: BTreeMap<String, String>,
    /// SHA-256 of this file with this field empty.
    pub digest: String,
}

impl Manifest {
    /// As it is written, with its digest set.
    fn sealed(mut self) -> serde_json::Result<String> {
        let encode = |this: &Self| Ok(serde_json::to_string_pretty(this)? + "\n");
        self.digest.clear();
        self.digest = digest(encode(&self)?.as_bytes());
        encode(&self)
    }
}

/// A checkpoint in memory, verified.
#[derive(Debug)]
pub struct Checkpoint {
    /// Its folder.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// The learner's part.
    pub learner: LearnerState,
    state: Vec<u8>,
}

/// Writes a checkpoint into `folder` (the run's `checkpoints`) and returns its path.
///
/// # Errors
/// A learner that diverged, of which nothing is written; a folder that can't be written.
pub fn save(folder: &Path, snapshot: &Snapshot) -> Result<PathBuf> {
    let Snapshot { counters, learner, envs, run_step } = snapshot;
    learner.check_finite().map_err(|reason| Error::diverged(counters.env_steps, reason))?;
    let arrays = envs.arrays()?;
    let state: Vec<_> = arrays.iter().map(|(name, view)| (name.as_str(), view)).collect();
    let mut contents = vec![
        (WEIGHTS, encode(&learner.weights, &learner.statistics)?),
        (OPTIMIZER, encode(&learner.optimizer, &[])?),
        (STATE, serialize(state, None).map_err(broken(counters))?),
    ];
    if !learner.numbers.is_empty() {
        contents.push((MEMORY, encode_memory(&learner.numbers, &learner.flags)?));
    }
    let manifest = Manifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").into(),
        env_id: counters.env_id.clone(),
        seed: counters.seed,
        iteration: counters.iteration,
        env_steps: counters.env_steps,
        run_step: *run_step,
        optimizer_steps: learner.optimizer_steps.iter().cloned().collect(),
        files: contents.iter().map(|(name, bytes)| ((*name).into(), digest(bytes))).collect(),
        digest: String::new(),
    };
    let target = folder.join(format!("{:012}", counters.env_steps));
    let manifest = manifest.sealed().map_err(broken(counters))?;
    let same = |found: Checkpoint| found.manifest.sealed().is_ok_and(|text| text == manifest);
    if Checkpoint::open(&target).is_ok_and(same) {
        // To replace it by itself would leave a moment without it.
        return Ok(target);
    }
    let partial = durable::partial(&target);
    durable::delete(&partial)?;
    std::fs::create_dir_all(&partial).map_err(|e| Error::file("cannot create", &partial, e))?;
    for (name, bytes) in &contents {
        durable::write_synced(&partial.join(name), bytes)?;
    }
    durable::write_synced(&partial.join(MANIFEST), manifest.as_bytes())?;
    durable::sync_folder(&partial)?;
    durable::remove(&target)?;
    durable::rename(&partial, &target)?;
    Ok(target)
}

/// Deletes all but the newest `keep` checkpoints and those that stay anyway, and what an interrupted write left.
///
/// Of the older ones only those of a regular step are kept: what an earlier end of the run left
/// would not be there had it run through.
///
/// # Errors
/// A folder that can't be deleted.
pub fn prune(
    folder: &Path,
    keep: usize,
    is_regular: impl Fn(u64) -> bool,
    stays: impl Fn(u64) -> bool,
) -> Result<()> {
    durable::sweep(folder)?;
    let all = list(folder)?;
    let mut older = all.iter().rev().skip(1);
    let mut kept = 1;
    older.try_for_each(|(step, path)| {
        kept += usize::from(is_regular(*step));
        let stays = stays(*step) || (is_regular(*step) && kept <= keep);
        if stays { Ok(()) } else { durable::remove(path) }
    })
}

/// The checkpoints in `folder`, oldest first, with their steps.
///
/// # Errors
/// A folder that can't be read.
pub fn list(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let step = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let digits = name.len() == 12 && name.bytes().all(|b| b.is_ascii_digit());
        Some((digits.then(|| name.parse().ok())??, path))
    };
    let mut all: Vec<_> = entries(folder)?.into_iter().filter_map(step).collect();
    all.sort();
    Ok(all)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => Ok(entries.filter_map(|e| e.ok().map(|e| e.path())).collect()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::file("cannot read", folder, e)),
    }
}

impl Checkpoint {
    /// Reads and verifies the newest checkpoint in `folder`; if a run in training removes it meanwhile, a newer one.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn newest(folder: &Path) -> Result<Self> {
        let mut newest = list(folder)?.pop();
        while let Some((_, path)) = newest {
            let opened = Self::open(&path);
            newest = list(folder)?.pop();
            if opened.is_ok() || newest.as_ref().is_some_and(|(_, now)| *now == path) {
                return opened;
            }
        }
        Err(Error::file("cannot open a checkpoint in", folder, "there is none"))
    }

    /// Reads and verifies the checkpoint of `step` in `folder`.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn at(folder: &Path, step: u64) -> Result<Self> {
        let all = list(folder)?;
        if let Some((_, path)) = all.iter().find(|(at, _)| *at == step) {
            return Self::open(path);
        }
        let steps: Vec<String> = all.iter().map(|(at, _)| at.to_string()).collect();
        let steps = if steps.is_empty() { "none".into() } else { steps.join(", ") };
        let reason = format!("there is none of step {step}; there are {steps}");
        Err(Error::file("cannot open a checkpoint in", folder, reason))
    }

    /// Reads and verifies the checkpoint `path`, all files first.
    ///
    /// # Errors
    /// A file that is missing, cut or changed.
    pub fn open(path: &Path) -> Result<Self> {
        let read = |name: &str| {
            let most = if name == MANIFEST { file::CONFIGURATION } else { file::TENSORS };
            file::read(&path.join(name), most)
                .map_err(|e| Error::damaged(path, format!("{name}: {e}")))
        };
        let text = read(MANIFEST)?;
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|e| Error::damaged(path, format!("{MANIFEST}: {e}")))?;
        if manifest.format != FORMAT {
            let reason = format!("it has format {}, this build reads {FORMAT}", manifest.format);
            return Err(Error::damaged(path, reason));
        }
        if manifest.clone().sealed().ok().is_none_or(|whole| whole.as_bytes() != text) {
            let reason = format!("{MANIFEST} has been changed: its digest does not match");
            return Err(Error::damaged(path, reason));
        }
        let verified = |name: &str| {
            let bytes = read(name)?;
            let (found, expected) = (digest(&bytes), manifest.files.get(name));
            if expected == Some(&found) {
                return Ok(bytes);
            }
            let expected = expected.map_or("none", String::as_str);
            let reason = format!("{name} has the digest {found}, the manifest says {expected}");
            Err(Error::damaged(path, reason))
        };
        let (weights, optimizer, state) =
            (verified(WEIGHTS)?, verified(OPTIMIZER)?, verified(STATE)?);
        let (weights, statistics) = decode(&weights).map_err(|e| Error::damaged(path, e))?;
        let (optimizer, _) = decode(&optimizer).map_err(|e| Error::damaged(path, e))?;
        let (numbers, flags) = match manifest.files.contains_key(MEMORY) {
            true => decode_memory(&verified(MEMORY)?).map_err(|e| Error::damaged(path, e))?,
            false => (Vec::new(), Vec::new()),
        };
        let learner = LearnerState {
            numbers,
            flags,
            weights,
            optimizer,
            statistics,
            optimizer_steps: manifest.optimizer_steps.clone().into_iter().collect(),
        };
        learner.check_finite().map_err(|reason| Error::damaged(path, reason))?;
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        if name != Some(format!("{:012}", manifest.env_steps)) {
            let reason = format!("its manifest is of step {}", manifest.env_steps);
            return Err(Error::damaged(path, reason));
        }
        Ok(Self { path: path.into(), manifest, learner, state })
    }

    /// Puts the environments where they were.
    ///
    /// # Errors
    /// An array that is missing or of another shape or type, or whatever went wrong on a device.
    pub fn restore_envs(&self, envs: &mut dyn VecEnv, world: &World) -> Result<()> {
        let damaged = |reason: String| Error::damaged(&self.path, format!("{STATE}: {reason}"));
        let tensors = SafeTensors::deserialize(&self.state).map_err(|e| damaged(e.to_string()))?;
        let ids: Vec<_> = envs.ids().persistent().collect();
        for id in ids {
            let array = envs.store().array(id).clone();
            let (name, shape) = (array.name().to_string(), array.shape().to_vec());
            let view = tensors.tensor(&name).map_err(|e| damaged(e.to_string()))?;
            let shape = of_all_ranks(shape, world);
            if view.shape() != shape || view.dtype() != dtype(array.dtype()) {
                return Err(damaged(format!(
                    "array \"{name}\" is {:?} {:?}, the environments need {} {shape:?}",
                    view.dtype(),
                    view.shape(),
                    array.dtype()
                )));
            }
            // This rank's replicas.
            let bytes = &view.data()[world.share(view.data().len())];
            let words =
                || bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            let mut store = envs.store_mut();
            match array.dtype() {
                DType::F32 => fill(store.slice_mut(id), words().map(f32::from_bits)),
                DType::I32 => fill(store.slice_mut(id), words().map(|w| w as i32)),
                DType::U32 => fill(store.slice_mut(id), words()),
                DType::U8 => fill(store.slice_mut(id), bytes.iter().copied()),
            }
        }
        envs.set_run_step(self.manifest.run_step);
        Ok(envs.observe()?)
    }
}

/// The shape of an array with the replicas of all ranks.
fn of_all_ranks(mut shape: Vec<usize>, world: &World) -> Vec<usize> {
    if let Some(rows) = shape.first_mut() {
        *rows *= world.size();
    }
    shape
}

fn fill<T>(target: &mut [T], values: impl Iterator<Item = T>) {
    target.iter_mut().zip(values).for_each(|(to, value)| *to = value);
}

fn broken<E: std::fmt::Display>(counters: &Counters) -> impl FnOnce(E) -> Error {
    let step = counters.env_steps;
    move |e| Error::Broken { step, reason: format!("a checkpoint can't be encoded: {e}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NamedTensor;
    use crate::model::Statistic;

    /// A checkpoint whose digests fit, with these weights, moments and statistics.
    fn written(folder: &Path, [weight, moment, mean]: [f64; 3]) -> PathBuf {
        let tensor = |x: f64| {
            [NamedTensor {
                name: "a.actor.0.bias".into(),
                shape: vec![2],
                data: vec![1.0, x as f32],
            }]
        };
        let statistic = Statistic { name: "a.obs_mean".into(), shape: vec![1], data: vec![mean] };
        let path = folder.join("000000000007");
        std::fs::create_dir_all(&path).unwrap();
        let contents = [
            (WEIGHTS, encode(&tensor(weight), &[statistic]).unwrap()),
            (OPTIMIZER, encode(&tensor(moment), &[]).unwrap()),
            (STATE, encode(&[], &[]).unwrap()),
        ];
        let manifest = Manifest {
            format: FORMAT,
            version: "0".into(),
            env_id: "none".into(),
            seed: 0,
            iteration: 1,
            env_steps: 7,
            run_step: 1,
            optimizer_steps: BTreeMap::new(),
            files: contents.iter().map(|(name, bytes)| ((*name).into(), digest(bytes))).collect(),
            digest: String::new(),
        };
        for (name, bytes) in &contents {
            std::fs::write(path.join(name), bytes).unwrap();
        }
        std::fs::write(path.join(MANIFEST), manifest.sealed().unwrap()).unwrap();
        path
    }

    #[test]
    fn numbers_that_are_not_finite_are_not_opened() {
        let folder = std::env::temp_dir().join(format!("warp-finite-{}", std::process::id()));
        Checkpoint::open(&written(&folder, [0.5, 0.0, -3.0])).unwrap();
        for (numbers, words) in [
            ([f64::NAN, 0.0, 0.0], "\"a.actor.0.bias\" holds NaN as its element 1"),
            ([0.0, f64::INFINITY, 0.0], "holds inf"),
            ([0.0, 0.0, f64::NEG_INFINITY], "\"a.obs_mean\" holds -inf as its element 0"),
        ] {
            let error = Checkpoint::open(&written(&folder, numbers)).unwrap_err();
            assert!(error.is_users() && error.to_string().contains(words), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
