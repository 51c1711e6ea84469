//! The command line of `warp train`.

use crate::commands::options;
use crate::commands::ranks::RankArgs;
use clap::Args;
use std::path::{Path, PathBuf};

/// Train policies.
#[derive(Debug, Clone, Args)]
pub struct TrainArgs {
    /// An environment's name, or a configuration file.
    #[arg(value_name = "ENV | FILE.toml | FILE.yaml", required_unless_present = "resume")]
    pub target: Option<String>,
    /// Continue the run in this folder from its newest checkpoint, that of a step, or the one that did best in
    /// evaluations. Environment and configuration come from the run; --set changes what may change: the run's length,
    /// learning rates, coefficients and the like. Given a fleet's folder, complete the fleet, with any number of GPUs and
    /// processes
    #[arg(long, value_name = "RUN[@STEP | @best] | FLEET", conflicts_with_all = ["target", "envs", "seed", "out"])]
    pub resume: Option<PathBuf>,
    /// Device: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Learner: auto, native, or burn (in a build with that feature).
    #[arg(long, default_value = "auto")]
    pub backend: String,
    /// Number of environment replicas; short for --set num_envs=N.
    #[arg(long, value_name = "N", value_parser = options::whole::<usize>)]
    pub envs: Option<usize>,
    /// Number of environment steps, summed over replicas; short for --set total_steps=N.
    #[arg(long, value_name = "N", value_parser = options::whole::<u64>)]
    pub steps: Option<u64>,
    /// Seed; short for --set seed=S.
    #[arg(long, value_name = "S", value_parser = options::whole::<u64>)]
    pub seed: Option<u64>,
    /// Train several runs at once, a fleet: one for each of the seeds A to B - 1. GPUs (--gpus), machines (--nodes) and
    /// processes of a launcher share its runs.
    #[arg(long, value_name = "A..B", conflicts_with_all = ["seed", "resume"])]
    pub seeds: Option<String>,
    /// Train several runs at once: one for each value of a key, or for values sampled from a range,
    /// uniform(LOW,HIGH), log_uniform, int_uniform or int_log_uniform; may be given for several keys. Followed by "
    /// if KEY=V", it applies only where another swept key has that value.
    #[arg(long, value_name = "KEY=V,V,... | KEY=RANGE", conflicts_with = "resume")]
    pub sweep: Vec<String>,
    /// Samples from the ranges of --sweep, for each combination of the listed values.
    #[arg(long, value_name = "N", requires = "sweep", conflicts_with = "resume", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: Option<u32>,
    /// Seed of these samples.
    #[arg(
        long,
        value_name = "S",
        default_value_t = 0,
        requires = "sweep",
        conflicts_with = "resume"
    )]
    pub sweep_seed: u64,
    /// Successive halving: after each round of a sweep, the best one in N settings continues, and the next round is N
    /// times as long.
    #[arg(long, value_name = "N", requires = "sweep", conflicts_with = "resume", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub halving: Option<u32>,
    /// Number of threads; 0: one per core. Results do not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = options::threads)]
    pub threads: usize,
    /// Set a key of the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The run's folder; by default ENV-ALGORITHM-sSEED in the folder given by the keys basedir (runs) and tag.
    #[arg(long, value_name = "RUN")]
    pub out: Option<PathBuf>,
    /// Print the memory plan first (every array, the total and the memory that is left), and a breakdown of the
    /// start-up time.
    #[arg(short, long, conflicts_with_all = ["seeds", "sweep"])]
    pub verbose: bool,
    /// Write a trace of where the time goes, for Perfetto (ui.perfetto.dev), and print a summary at the end.
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["seeds", "sweep"])]
    pub profile: Option<PathBuf>,
    /// Show a dashboard instead of a progress line, if standard output is a terminal; in a build with the feature
    /// dashboard.
    #[arg(long, conflicts_with_all = ["seeds", "sweep"])]
    pub dashboard: bool,
    /// Several GPUs and machines.
    #[command(flatten)]
    pub ranks: RankArgs,
    /// What happens when a rank is lost.
    #[command(flatten)]
    pub restarts: RestartArgs,
}

impl TrainArgs {
    /// The options that are short for `--set`, as such.
    pub(in crate::commands) fn overrides(&self) -> impl Iterator<Item = String> {
        let envs = self.envs.map(|n| format!("num_envs={n}"));
        let steps = self.steps.map(|n| format!("total_steps={n}"));
        let seed = self.seed.map(|n| format!("seed={n}"));
        [envs, steps, seed].into_iter().flatten()
    }

    /// These arguments for what has begun in `folder`, where its configuration lies.
    pub(super) fn going_on_in(&self, folder: PathBuf) -> Self {
        Self {
            resume: Some(folder),
            target: None,
            envs: None,
            steps: None,
            seed: None,
            seeds: None,
            sweep: Vec::new(),
            samples: None,
            halving: None,
            set: Vec::new(),
            out: None,
            ..self.clone()
        }
    }
}

/// What happens when a rank is lost.
#[derive(Debug, Clone, Default, Args)]
pub struct RestartArgs {
    /// Restart at most N times, from the newest checkpoint, when a rank is lost (exit code 75) or the training process is
    /// killed. Training then runs in a child process. With several processes, give it to all.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = options::whole::<u32>)]
    pub restarts: u32,
    /// The process that watches over this one.
    #[arg(long, hide = true)]
    pub(super) supervisor: Option<u32>,
    /// The folder of a run or fleet that has begun before.
    #[arg(long, hide = true)]
    go_on_in: Option<PathBuf>,
}

impl RestartArgs {
    /// Whether this process is to watch over one that trains.
    pub(super) fn is_supervisor(&self) -> bool {
        self.restarts > 0 && self.supervisor.is_none()
    }

    /// The folder of what has begun before, if it was restarted.
    pub(super) fn go_on_in(&self) -> Option<&Path> {
        self.go_on_in.as_deref()
    }
}
