//! Chosen arrays of a run's environments, recorded during training: a file of arrays for each record.
//!
//! A file contains what the arrays are at the end of an iteration, `[replicas, ...]`, and the numbers of those
//! replicas. What led there, step by step, stays in a GPU's kernels; `warp episode` records that.

use crate::episode::{is_of_reset, is_of_step};
use anyhow::{Result, bail};
use std::path::PathBuf;
use warp_data::{DType, Log, Store};
use warp_envs::numpy::{Numeric, Written, write_npz};
use warp_train::callback::{Callback, End};
use warp_train::run::array_files::array_file;
use warp_train::run::{BackgroundWriter, write_whole};
use warp_train::{Error, Run, Trainer};

/// The key that says which arrays, and the one that says of which replicas.
const KEY: &str = "log_arrays";
const REPLICAS: &str = "log_replicas";

/// Records the arrays that a run's configuration names, by the thread that writes its lines and checkpoints.
#[derive(Debug)]
pub struct ArrayLog {
    /// Room for one record; nothing if there is nothing to record.
    log: Option<Log>,
    /// The run's folder.
    folder: BackgroundWriter<PathBuf>,
}

impl ArrayLog {
    /// Records of `run`, which `trainer` trains.
    ///
    /// # Errors
    /// As [`check`], or a folder that can't be written.
    pub fn open(run: &Run, trainer: &Trainer) -> Result<Self> {
        let log = room(trainer)?;
        if log.is_some() {
            let file = array_file(run.folder(), 0);
            let folder = file.parent().unwrap_or(run.folder());
            std::fs::create_dir_all(folder).map_err(|e| Error::file("cannot create", folder, e))?;
        }
        Ok(Self { log, folder: run.writer_for(run.folder().to_path_buf()) })
    }

    fn record(&mut self, trainer: &Trainer) -> Result<Option<Vec<Written>>> {
        let Some(log) = &mut self.log else { return Ok(None) };
        let run = &trainer.config().run;
        let store = trainer.envs().store();
        log.clear();
        log.record(store)?;
        let mut arrays = Vec::new();
        for name in &run.log_arrays {
            arrays.push(recorded(log, store, name, run.log_replicas.len())?);
        }
        let numbers = run.log_replicas.iter().flat_map(|n| (*n as u32).to_le_bytes()).collect();
        arrays.push(Written {
            name: REPLICAS.into(),
            dtype: Numeric::U32,
            shape: vec![run.log_replicas.len()],
            bytes: numbers,
        });
        Ok(Some(arrays))
    }
}

impl Callback for ArrayLog {
    fn arrays(&mut self, trainer: &Trainer) -> warp_train::Result<()> {
        let failed = |e: anyhow::Error| Error::Callback(e.into());
        let Some(arrays) = self.record(trainer).map_err(failed)? else { return Ok(()) };
        let step = trainer.env_steps();
        self.folder.give_large(move |folder| {
            let bytes = write_npz(&arrays).map_err(|e| Error::Callback(e.into()))?;
            write_whole(&array_file(folder, step), bytes)
        })
    }

    fn end(&mut self, _trainer: &Trainer, _end: End) -> warp_train::Result<()> {
        self.folder.wait()
    }
}

/// Checks that the arrays and replicas that are to be recorded are there.
///
/// # Errors
/// One that is not, with those that are.
pub fn check(trainer: &Trainer) -> Result<()> {
    room(trainer).map(|_| ())
}

/// Room for one record of what is to be recorded, if anything is.
fn room(trainer: &Trainer) -> Result<Option<Log>> {
    let (config, store) = (trainer.config(), trainer.envs().store());
    let names: Vec<&str> = config.run.log_arrays.iter().map(String::as_str).collect();
    // Other ranks have other replicas, and no folder.
    if names.is_empty() || !config.world.is_first() {
        return Ok(None);
    }
    let known = recordable(trainer);
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        let why = match store.id(unknown).is_ok() && is_of_step(unknown) {
            true => format!("\"{unknown}\" can't be recorded on a GPU, use warp episode for it"),
            false => format!("there is no array \"{unknown}\" to record"),
        };
        bail!("{KEY}: {why}; there are {}", known.join(", "));
    }
    let n = trainer.envs().options().n_envs;
    if let Some(replica) = config.run.log_replicas.iter().find(|replica| **replica >= n) {
        let whose = if config.world.is_alone() { "" } else { " on the first rank" };
        bail!("{REPLICAS}: there is no replica {replica}{whose}; there are 0 to {}", n - 1);
    }
    Ok(Some(Log::new(store, &names, &config.run.log_replicas, 1)?))
}

/// The arrays that can be recorded: those that are up to date when an iteration is over, on this device.
fn recordable(trainer: &Trainer) -> Vec<&str> {
    let (envs, ids) = (trainer.envs(), trainer.envs().ids());
    let lasting: Vec<_> = ids.persistent().chain(ids.obs.iter().copied()).collect();
    let on_gpu = lasting.into_iter().map(|id| envs.store().array(id).name());
    if !trainer.envs_are_on_host() {
        return on_gpu.collect();
    }
    envs.store().arrays().map(|array| array.name()).filter(|name| !is_of_reset(name)).collect()
}

/// What was recorded of the array `name`.
fn recorded(log: &Log, store: &Store, name: &str, n_replicas: usize) -> Result<Written> {
    let array = store.array(store.id(name)?);
    let (dtype, bytes) = match array.dtype() {
        DType::F32 => (Numeric::F32, little_end_first(log.get::<f32>(name)?, |x| x.to_le_bytes())),
        DType::I32 => (Numeric::I32, little_end_first(log.get::<i32>(name)?, |x| x.to_le_bytes())),
        DType::U32 => (Numeric::U32, little_end_first(log.get::<u32>(name)?, |x| x.to_le_bytes())),
        DType::U8 => (Numeric::U8, log.get::<u8>(name)?.to_vec()),
    };
    let shape = [&[n_replicas], &array.shape()[1..]].concat();
    Ok(Written { name: name.into(), dtype, shape, bytes })
}

fn little_end_first<T>(numbers: &[T], of: impl Fn(&T) -> [u8; 4]) -> Vec<u8> {
    numbers.iter().flat_map(of).collect()
}
