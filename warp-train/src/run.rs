//! A run's folder: `config.toml`, `metrics.jsonl`, `summary.json`, `checkpoints/`.

use crate::checkpoint::{self, Checkpoint};
use crate::error::{Error, Result};
use crate::metrics::{IterationMetrics, RecentReturn, StepRates};
use crate::trainer::Trainer;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;
use warp_data::file;

/// An open run folder.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    metrics: File,
    started: Instant,
    /// Environment steps done before this process.
    first_step: u64,
    recent: RecentReturn,
}

/// `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The environment's name.
    pub env: String,
    /// The algorithm.
    pub algorithm: String,
    /// The device.
    pub device: String,
    /// The learner.
    pub backend: String,
    /// The run's seed.
    pub seed: u64,
    /// Environment steps done, summed over replicas.
    pub env_steps: u64,
    /// Agent steps done.
    pub agent_steps: u64,
    /// Environment steps that the process that ended the run did itself; fewer than `env_steps` if it
    /// continued one.
    pub part_env_steps: u64,
    /// Wall time of that process, from its first iteration on: what `part_env_steps` took.
    pub seconds: f64,
    /// Environment steps per second in that process, its first iteration excluded.
    pub env_steps_per_second: f64,
    /// The same for each phase alone.
    pub steps_per_second: StepRates,
    /// Mean return of the last 100 or more episodes; `None` if none has ended.
    pub mean_episode_return: Option<f64>,
    /// Version of the crate.
    pub version: String,
}

impl Run {
    /// The default folder: `runs/<env>-<algorithm>-s<seed>`, with a number added if it is taken.
    #[must_use]
    pub fn free_folder(env: &str, algorithm: &str, seed: u64) -> PathBuf {
        let base = PathBuf::from("runs").join(format!("{env}-{algorithm}-s{seed}"));
        let numbered = |n: u32| PathBuf::from(format!("{}-{n}", base.display()));
        let mut all = std::iter::once(base.clone()).chain((2..).map(numbered));
        all.find(|folder| !folder.exists()).unwrap_or(base)
    }

    /// Makes the folder of a new run.
    ///
    /// # Errors
    /// A folder that holds a run already or can't be written.
    pub fn create(folder: &Path, config_toml: &str) -> Result<Self> {
        Self::check_free(folder)?;
        let checkpoints = folder.join("checkpoints");
        std::fs::create_dir_all(&checkpoints)
            .map_err(|e| Error::file("cannot create", &checkpoints, e))?;
        write_whole(&folder.join("config.toml"), config_toml)?;
        Self::open_metrics(folder)
    }

    /// Checks that no run is in `folder`.
    ///
    /// # Errors
    /// What of a run lies there.
    pub fn check_free(folder: &Path) -> Result<()> {
        let parts = ["config.toml", "metrics.jsonl", "summary.json", "checkpoints", "tensorboard"];
        let Some(part) = parts.iter().find(|part| folder.join(part).exists()) else {
            return Ok(());
        };
        let reason = format!("it holds a run already ({part}); continue it with --resume");
        Err(Error::file("cannot start a run in", folder, reason))
    }

    /// Opens the folder of a run that is to be continued from `checkpoint`; what it logged after
    /// that is removed.
    ///
    /// # Errors
    /// A folder that can't be written.
    pub fn reopen(folder: &Path, config_toml: &str, checkpoint: &Checkpoint) -> Result<Self> {
        let path = folder.join("metrics.jsonl");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let done = |line: &&str| {
            let value: Option<serde_json::Value> = serde_json::from_str(line).ok();
            let step = value.as_ref().and_then(|v| v.get("env_steps")?.as_u64());
            step.is_some_and(|step| step <= checkpoint.manifest.env_steps)
        };
        let kept: String = text.lines().filter(done).flat_map(|line| [line, "\n"]).collect();
        write_whole(&path, &kept)?;
        write_whole(&folder.join("config.toml"), config_toml)?;
        let mut run = Self::open_metrics(folder)?;
        run.first_step = checkpoint.manifest.env_steps;
        // The mean return goes on over the episodes before the interruption.
        for line in kept.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            let mean = line["episode_return"]["mean"].as_f64();
            if let (Some(n), Some(mean)) = (line["episodes"].as_u64(), mean) {
                run.recent.add(n, mean);
            }
        }
        Ok(run)
    }

    fn open_metrics(folder: &Path) -> Result<Self> {
        let path = folder.join("metrics.jsonl");
        let metrics = File::options().create(true).append(true).open(&path);
        Ok(Self {
            folder: folder.into(),
            metrics: metrics.map_err(|e| Error::file("cannot write", &path, e))?,
            started: Instant::now(),
            first_step: 0,
            recent: RecentReturn::default(),
        })
    }

    /// The configuration of the run in `folder`.
    ///
    /// # Errors
    /// No such folder, or one without a run.
    pub fn config(folder: &Path) -> Result<String> {
        let path = folder.join("config.toml");
        file::read_text(&path, file::CONFIGURATION)
            .map_err(|e| Error::file("cannot read a run's", &path, e))
    }

    /// Keeps the configuration of the run in `folder` as `config-<12-digit step>.toml`: what held until
    /// then, before another takes its place.
    ///
    /// # Errors
    /// A folder that can't be written.
    pub fn keep_config(folder: &Path, env_steps: u64) -> Result<()> {
        let path = folder.join(format!("config-{env_steps:012}.toml"));
        // There already: the run was continued from this step before, and did not get further.
        if path.exists() { Ok(()) } else { write_whole(&path, &Self::config(folder)?) }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a run's checkpoints.
    #[must_use]
    pub fn checkpoints(folder: &Path) -> PathBuf {
        folder.join("checkpoints")
    }

    /// Appends a line to `metrics.jsonl`.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn log(&mut self, metrics: &IterationMetrics) -> Result<()> {
        if let Some(spread) = metrics.episodes.episode_return {
            self.recent.add(metrics.episodes.episodes, spread.mean);
        }
        let path = || self.folder.join("metrics.jsonl");
        let line = serde_json::to_string(metrics)
            .map_err(|e| Error::file("cannot encode a line of", &path(), e))?;
        let written = self.metrics.write_all((line + "\n").as_bytes());
        written.map_err(|e| Error::file("cannot write", &path(), e))
    }

    /// Mean return of the last 100 or more episodes; `None` if none has ended.
    #[must_use]
    pub fn recent_return(&self) -> Option<f64> {
        self.recent.mean()
    }

    /// Seconds since the run was created or continued.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Writes a checkpoint and deletes the oldest ones.
    ///
    /// # Errors
    /// A folder that can't be written.
    pub fn checkpoint(&self, trainer: &Trainer) -> Result<PathBuf> {
        let folder = Self::checkpoints(&self.folder);
        let state = trainer.learner().state();
        let path = checkpoint::save(&folder, &trainer.counters(), &state, trainer.envs())?;
        let config = trainer.config();
        let is_regular = |step: u64| config.is_checkpoint_step(step);
        checkpoint::prune(&folder, config.run.keep_checkpoints, is_regular)?;
        Ok(path)
    }

    /// Writes `summary.json`.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn summarise(&self, trainer: &Trainer, device: &str) -> Result<Summary> {
        let (phases, steps) = trainer.phases();
        let rates = phases.rates(steps);
        let summary = Summary {
            env: trainer.config().run.env_id.clone(),
            algorithm: trainer.config().algorithm(),
            device: device.into(),
            backend: trainer.learner().backend().into(),
            seed: trainer.config().run.seed,
            env_steps: trainer.env_steps(),
            agent_steps: trainer.agent_steps(),
            part_env_steps: trainer.env_steps() - self.first_step,
            seconds: self.seconds(),
            env_steps_per_second: rates.total,
            steps_per_second: rates,
            mean_episode_return: self.recent_return(),
            version: env!("CARGO_PKG_VERSION").into(),
        };
        let path = self.folder.join("summary.json");
        let text = serde_json::to_string_pretty(&summary)
            .map_err(|e| Error::file("cannot encode", &path, e))?;
        write_whole(&path, &(text + "\n"))?;
        Ok(summary)
    }
}

/// Writes a file under another name and renames it, so that it is never seen half-written.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<()> {
    let partial = path.with_extension("partial");
    checkpoint::write_synced(&partial, text.as_bytes())?;
    std::fs::rename(&partial, path).map_err(|e| Error::file("cannot write", path, e))
}
