//! `warp scale`: finds the numbers of replicas and steps with which a run trains fastest here, by measurement.
//!
//! Each key in turn is doubled and halved for as long as training gets faster. A direction ends if memory does not
//! suffice, and the search ends when the time is over or the user stops it. The keys change how a policy learns,
//! not only how fast, so the result is only a configuration to try.

use super::stop::Stop;
use super::{Device, learner_on, options, print_json, say, tell, thread_count};
use crate::output::short;
use crate::{Outcome, settings};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use warp_func::Registry;
use warp_train::config::PolicyPlan;
use warp_train::run::write_whole;
use warp_train::{TrainConfig, Trainer};

/// The keys to vary, in this order.
const KEYS: [&str; 4] = ["num_envs", "num_steps", "num_minibatches", "batch_size"];
/// The smallest ratio that counts as faster; less is noise.
const BETTER: f64 = 1.02;
/// Number of steps in one direction without an improvement after which it is abandoned.
const MOST_IDLE_TRIALS: usize = 2;
/// Characters of the longest bar.
const BAR: f64 = 40.0;

/// Find the number of replicas and the rollout length that train fastest on this machine.
#[derive(Debug, Clone, Args)]
pub struct ScaleArgs {
    /// An environment's name, or a configuration file.
    #[arg(value_name = "ENV | FILE.toml | FILE.yaml")]
    pub target: String,
    /// The file to write: the configuration with the values found.
    #[arg(short, long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
    /// Largest value to try for any key.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = options::count)]
    pub most: usize,
    /// Seconds to measure each trial, after two iterations of warm-up.
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = options::seconds)]
    pub seconds: f64,
    /// Seconds for the whole search: no trial starts that would exceed them, judging by the longest trial so far.
    /// Compiling for a GPU counts, too.
    #[arg(long, value_name = "S", default_value_t = 300.0, value_parser = options::seconds)]
    pub limit: f64,
    /// Device: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Learner: auto, native, or burn (in a build with that feature).
    #[arg(long, default_value = "auto")]
    pub backend: String,
    /// Number of threads; 0: one per core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = options::threads)]
    pub threads: usize,
    /// Set a key of the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print one JSON object to standard output.
    #[arg(long)]
    pub json: bool,
}

/// Values of the keys.
type Values = BTreeMap<&'static str, usize>;

/// Measures a rate; nothing if the search should end.
type Measure<'a> = dyn FnMut(&Values) -> Result<Option<f64>> + 'a;

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Trial {
    values: Values,
    /// Environment steps per second.
    steps_per_second: f64,
}

/// What has been measured.
#[derive(Debug, Default)]
struct Search {
    trials: Vec<Trial>,
    /// Why each direction ended, in a sentence.
    limits: Vec<String>,
    /// Whether it ended before everything was tried.
    is_cut: bool,
}

/// Runs the command.
///
/// # Errors
/// A configuration that does not fit or can't be trained at all, or a file that can't be written.
pub fn execute(args: &ScaleArgs, registry: &Registry) -> Result<Outcome> {
    if let Some(path) = &args.out {
        check_folder(path)?;
    }
    let config = settings::configure(&args.target, &args.set, registry)?;
    let entry = registry.get(&config.run.env_id)?;
    let (device, why) = Device::for_training(&args.device, &args.backend, entry)?;
    if !why.is_empty() {
        tell(&why);
    }
    let on_device = device.registry(registry);
    let stop = Stop::listen()?;
    let mut clock = Clock { began: Instant::now(), limit: args.limit, longest: 0.0 };
    let mut search = Search::default();
    search.run(beginning(&config), args.most, &mut |values| {
        if stop.is_asked() || !clock.has_time() {
            return Ok(None);
        }
        let config = during(configure(args, values, registry)?);
        let rate = clock.time(|| rate(args, config, &device, &on_device, &stop))?;
        tell(&format!("{}: {}steps/s", text(values), short(rate)));
        Ok(Some(rate))
    })?;
    let best = search.best().context("nothing was measured")?.clone();
    if let Some(path) = &args.out {
        let config = configure(args, &best.values, registry)?;
        write_whole(path, config.to_toml_as_given(entry.fields))?;
    }
    if args.json {
        let Search { trials, limits, is_cut } = search;
        let all = serde_json::json!({ "best": best, "trials": trials, "limits": limits, "is_cut": is_cut });
        print_json(&all)?;
    } else {
        search.lines().iter().try_for_each(|line| say(line))?;
        if let Some(path) = &args.out {
            say(&format!("the configuration is in {}", path.display()))?;
        }
    }
    Ok(stop.asked_by().map_or(Outcome::Done, |signal| Outcome::Interrupted { signal }))
}

/// Checks, before minutes of measuring, that a file can be written there.
fn check_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("--out {}: there is no folder \"{}\"", path.display(), folder.display());
    }
    if path.is_dir() {
        bail!("--out {}: it is a folder, and a file is needed", path.display());
    }
    Ok(())
}

/// The time available for trials.
struct Clock {
    began: Instant,
    /// Seconds.
    limit: f64,
    /// Seconds of the longest trial so far.
    longest: f64,
}

impl Clock {
    /// Whether a trial as long as the longest would end in time.
    fn has_time(&self) -> bool {
        self.began.elapsed().as_secs_f64() + self.longest <= self.limit
    }

    /// Runs a trial.
    fn time<T>(&mut self, trial: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = trial();
        self.longest = self.longest.max(began.elapsed().as_secs_f64());
        done
    }
}

/// The configuration with these values.
fn configure(args: &ScaleArgs, values: &Values, registry: &Registry) -> Result<TrainConfig> {
    let set = |(key, value): (&&str, &usize)| format!("{key}={value}");
    let sets: Vec<String> = args.set.iter().cloned().chain(values.iter().map(set)).collect();
    settings::configure_again(&args.target, &sets, registry)
}

/// The keys that some policy reads, with their values.
fn beginning(config: &TrainConfig) -> Values {
    let reads = |key: &str| config.policies.iter().any(|plan| plan.algorithm.reads(key));
    let of_policy = |of: fn(&PolicyPlan) -> usize| config.policies.first().map_or(1, of);
    let all = [
        (KEYS[0], Some(config.run.num_envs)),
        (KEYS[1], Some(config.run.num_steps)),
        (KEYS[2], reads(KEYS[2]).then(|| of_policy(|plan| plan.config.num_minibatches))),
        (KEYS[3], reads(KEYS[3]).then(|| of_policy(|plan| plan.config.batch_size))),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// The configuration to measure: learning from the first iteration on, without an end.
fn during(mut config: TrainConfig) -> TrainConfig {
    for plan in &mut config.policies {
        plan.config.learning_starts = 0;
    }
    config.run.checkpoint_steps = Some(0);
    config.run.eval_steps = 0;
    config.run.log_arrays = Vec::new();
    config
}

/// Environment steps per second of a run, measured for a shorter time if the user stops the search.
fn rate(
    args: &ScaleArgs,
    config: TrainConfig,
    device: &Device,
    registry: &Registry,
    stop: &Stop,
) -> Result<f64> {
    let threads = thread_count(args.threads);
    let learner = learner_on(device, &args.backend, &config, threads)?;
    let mut trainer = Trainer::new(config, registry, learner, threads)?;
    // Compile time is not iteration time, by which `advance` decides how many iterations to do at once.
    trainer.prepare()?;
    trainer.iterate_times(2)?;
    let (before, started) = (trainer.env_steps(), Instant::now());
    trainer.advance(u64::MAX)?;
    while started.elapsed().as_secs_f64() < args.seconds && !stop.is_asked() {
        trainer.advance(u64::MAX)?;
    }
    Ok((trainer.env_steps() - before) as f64 / started.elapsed().as_secs_f64())
}

impl Search {
    /// Searches for the fastest values from `values` on, until nothing is left to try or `measure` returns nothing.
    ///
    /// # Errors
    /// A first configuration that can't be measured.
    fn run(&mut self, mut values: Values, most: usize, measure: &mut Measure<'_>) -> Result<()> {
        let Some(steps_per_second) = measure(&values)? else {
            self.is_cut = true;
            return Ok(());
        };
        self.trials.push(Trial { values: values.clone(), steps_per_second });
        for key in KEYS.into_iter().filter(|key| values.contains_key(key)).collect::<Vec<_>>() {
            let start = values.clone();
            for double in [true, false] {
                self.follow(&start, key, double, most, measure);
            }
            if let Some(best) = self.best() {
                values.clone_from(&best.values);
            }
        }
        Ok(())
    }

    /// Doubles or halves a key from `start` on, for as long as it pays.
    fn follow(
        &mut self,
        start: &Values,
        key: &'static str,
        double: bool,
        most: usize,
        measure: &mut Measure<'_>,
    ) {
        let mut values = start.clone();
        let mut best = self.best().map_or(0.0, |trial| trial.steps_per_second);
        let mut idle = 0;
        while idle < MOST_IDLE_TRIALS {
            let value = values[key];
            let next = if double { value.saturating_mul(2) } else { value / 2 };
            if next == 0 || next > most {
                return;
            }
            values.insert(key, next);
            match measure(&values) {
                Ok(None) => {
                    self.is_cut = true;
                    return;
                }
                Ok(Some(steps_per_second)) => {
                    self.trials.push(Trial { values: values.clone(), steps_per_second });
                    idle = if steps_per_second > BETTER * best { 0 } else { idle + 1 };
                    best = best.max(steps_per_second);
                }
                Err(error) => {
                    self.limits.push(format!("{key} = {next}: {error:#}"));
                    return;
                }
            }
        }
    }

    /// The fastest trial; among trials that differ only by noise, the first.
    fn best(&self) -> Option<&Trial> {
        self.trials.iter().reduce(|best, trial| {
            let is_better = trial.steps_per_second > BETTER * best.steps_per_second;
            if is_better { trial } else { best }
        })
    }

    /// All trials as a curve, what ended the search, and what was found.
    fn lines(&self) -> Vec<String> {
        let (Some(best), Some(first)) = (self.best(), self.trials.first()) else {
            return Vec::new();
        };
        let width = self.trials.iter().map(|trial| text(&trial.values).len()).max().unwrap_or(0);
        let line = |trial: &Trial| {
            let share = trial.steps_per_second / best.steps_per_second;
            let bar = "#".repeat((BAR * share).round() as usize);
            let rate = format!("{}steps/s", short(trial.steps_per_second));
            format!("{:<width$}  {rate:>16}  {bar}", text(&trial.values))
        };
        let mut lines: Vec<String> = self.trials.iter().map(line).collect();
        lines.extend(self.limits.iter().cloned());
        if self.is_cut {
            lines.push("search incomplete: it was stopped, or reached its --limit".into());
        }
        let times = best.steps_per_second / first.steps_per_second;
        lines.push(format!(
            "fastest: {}, {times:.2} times the rate of the given configuration; these keys also \
             change how it learns",
            text(&best.values)
        ));
        lines
    }
}

/// The values in the form that --set accepts.
fn text(values: &Values) -> String {
    let order = KEYS.iter().filter_map(|key| Some(format!("{key}={}", values.get(key)?)));
    order.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn values(num_envs: usize, num_steps: usize) -> Values {
        Values::from([(KEYS[0], num_envs), (KEYS[1], num_steps)])
    }

    #[test]
    fn the_top_of_a_hill_is_found() {
        // Best at 256 replicas and 16 steps.
        let hill = |x: f64, top: f64| 1.0 / (1.0 + (x.log2() - top.log2()).abs());
        let mut search = Search::default();
        let mut n = 0;
        search
            .run(values(32, 64), 1 << 20, &mut |at| {
                n += 1;
                Ok(Some(1e6 * hill(at[KEYS[0]] as f64, 256.0) * hill(at[KEYS[1]] as f64, 16.0)))
            })
            .unwrap();
        assert_eq!(search.best().unwrap().values, values(256, 16));
        assert!(n < 16 && search.trials.len() == n && search.limits.is_empty(), "{n}");
        let lines = search.lines();
        assert_eq!(lines.len(), n + 1);
        assert!(
            lines[n].starts_with("fastest: num_envs=256 num_steps=16, 12.00 times"),
            "{lines:?}"
        );
    }

    #[test]
    fn memory_and_the_largest_value_end_a_direction() {
        let mut search = Search::default();
        search
            .run(values(4, 4), 16, &mut |at| {
                if at[KEYS[0]] > 8 {
                    bail!("too little memory");
                }
                Ok(Some((at[KEYS[0]] * at[KEYS[1]]) as f64))
            })
            .unwrap();
        assert_eq!(search.best().unwrap().values, values(8, 16));
        assert_eq!(search.limits, ["num_envs = 16: too little memory"]);
        assert!(!search.is_cut);
        let mut none = Search::default();
        assert!(none.run(values(4, 4), 16, &mut |_| bail!("nothing fits")).is_err());
    }

    #[test]
    fn what_was_best_so_far_stays_when_time_is_over() {
        let mut search = Search::default();
        let mut left = 3;
        search
            .run(values(4, 4), 1 << 20, &mut |at| {
                left -= 1;
                Ok((left >= 0).then_some((at[KEYS[0]] * at[KEYS[1]]) as f64))
            })
            .unwrap();
        assert!(search.is_cut && search.trials.len() == 3);
        assert_eq!(search.best().unwrap().values, values(16, 4));
        let mut clock = Clock { began: Instant::now(), limit: 1000.0, longest: 0.0 };
        assert!(clock.has_time() && clock.time(|| 7) == 7);
        clock.longest = 2000.0;
        assert!(!clock.has_time());
    }
}
