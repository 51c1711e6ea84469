//! A recorded episode, put back into an environment moment by moment.

use super::{CONFIG, STEPS, is_of_step};
use crate::settings;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use warp_data::{DType, file};
use warp_envs::numpy::{Recorded, read_npz};
use warp_func::{Registry, Start, VecEnv, VecOptions};
use warp_train::TrainConfig;
use warp_train::config::drop_foreign_keys;

/// The episodes of a file.
#[derive(Debug)]
pub struct Recording {
    arrays: BTreeMap<String, Recorded>,
    /// The configuration of the run that they are of.
    pub config: TrainConfig,
}

impl Recording {
    /// Reads a file that `warp episode` wrote.
    ///
    /// # Errors
    /// A file that can't be read, or holds something else.
    pub fn read(path: &Path, registry: &Registry) -> Result<Self> {
        let place = || format!("recording \"{}\"", path.display());
        let bytes = file::read(path, file::ARRAYS);
        let bytes = bytes.map_err(|e| anyhow!("it cannot be read: {e}")).with_context(place)?;
        let arrays = read_npz(&bytes).with_context(place)?;
        let config = config(&arrays, registry).with_context(place)?;
        Ok(Self { arrays, config })
    }

    /// Shows each moment of episode number `episode` to `look`, in an environment on the host that is where the
    /// recorded one was, until it breaks.
    ///
    /// # Errors
    /// An unknown episode, an array of the state that is missing or of another size, or the error of `look`.
    pub fn play(
        &self,
        episode: usize,
        registry: &Registry,
        look: &mut dyn FnMut(&dyn VecEnv) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let steps = &self.array(STEPS)?.data;
        let Some(steps) = steps.get(episode) else {
            bail!("--episode {episode}: the recording has {}, from 0 on", steps.len());
        };
        let entry = registry.get(&self.config.run.env_id)?;
        // Where it starts is overwritten.
        let options = VecOptions { start: Start::Fresh, ..VecOptions::default() };
        let mut envs = entry.make(&self.config.env, &options)?;
        for moment in 0..=*steps as usize {
            self.restore(episode, moment, &mut *envs)?;
            if look(&*envs)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Puts `envs`, one replica, where the recorded one was.
    fn restore(&self, episode: usize, moment: usize, envs: &mut dyn VecEnv) -> Result<()> {
        let own = envs.ids().state.clone();
        let is_state: Vec<String> =
            own.iter().map(|id| envs.store().array(*id).name().to_string()).collect();
        let names: Vec<(String, DType, usize)> = envs
            .store()
            .arrays()
            .map(|array| (array.name().to_string(), array.dtype(), array.row_len()))
            .collect();
        let mut store = envs.store_mut();
        for (name, dtype, length) in names {
            let Some(array) = self.arrays.get(&name) else {
                ensure!(!is_state.contains(&name), "it lacks the array \"{name}\" of the state");
                continue;
            };
            // What happened in a step stands at the moment before it.
            let at = if is_of_step(&name) { moment.checked_sub(1) } else { Some(moment) };
            let Some(at) = at else { continue };
            let row = row(array, &name, [episode, at], length)?;
            match dtype {
                DType::F32 => fill(store.get_mut(&name)?, row, |x| x as f32),
                DType::I32 => fill(store.get_mut(&name)?, row, |x| x as i32),
                DType::U32 => fill(store.get_mut(&name)?, row, |x| x as u32),
                DType::U8 => fill(store.get_mut(&name)?, row, |x| x as u8),
            }
        }
        Ok(())
    }

    fn array(&self, name: &str) -> Result<&Recorded> {
        self.arrays.get(name).with_context(|| format!("it lacks the array \"{name}\""))
    }
}

/// The configuration in a recording.
fn config(arrays: &BTreeMap<String, Recorded>, registry: &Registry) -> Result<TrainConfig> {
    let lacks = |name: &str| format!("it lacks the array \"{name}\" that warp episode writes");
    arrays.get(STEPS).with_context(|| lacks(STEPS))?;
    let text = arrays.get(CONFIG).with_context(|| lacks(CONFIG))?;
    let text = String::from_utf8(text.data.iter().map(|byte| *byte as u8).collect());
    let mut table = settings::parse(&text.context("its configuration is not text")?)?;
    drop_foreign_keys(&mut table, registry);
    Ok(TrainConfig::resolve(&table, registry)?)
}

/// The numbers of one episode at one place.
fn row<'a>(array: &'a Recorded, name: &str, place: [usize; 2], length: usize) -> Result<&'a [f64]> {
    let [episode, at] = place;
    let [episodes, places] = [0, 1].map(|axis| array.shape.get(axis).copied().unwrap_or(0));
    let fits = episode < episodes && at < places && array.data.len() == episodes * places * length;
    ensure!(
        fits,
        "array \"{name}\" is {:?}, but {length} numbers of episode {episode} at {at} are needed",
        array.shape
    );
    Ok(&array.data[(episode * places + at) * length..][..length])
}

fn fill<T>(target: &mut [T], row: &[f64], of: impl Fn(f64) -> T) {
    target.iter_mut().zip(row).for_each(|(to, x)| *to = of(*x));
}
