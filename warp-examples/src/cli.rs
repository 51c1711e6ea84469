//! The command line: what can be said, and which command it goes to.

use crate::Outcome;
use crate::commands::{
    Device, bench, config, envs, episode, eval, export, gradcheck, info, league, plot, render,
    report, scale, top, train, translate, watch,
};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use warp_func::Registry;

/// End-to-end reinforcement learning on one machine.
#[derive(Debug, Parser)]
#[command(name = "warp", version, about, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train policies.
    Train(train::TrainArgs),
    /// Evaluate the policies of a run.
    Eval(eval::EvalArgs),
    /// Plot the learning curves of runs.
    Plot(plot::PlotArgs),
    /// Compare the scores of runs, with confidence intervals.
    Report(report::ReportArgs),
    /// Draw an episode of a run.
    Render(render::RenderArgs),
    /// Write episodes of a run to a file, as arrays.
    Episode(episode::EpisodeArgs),
    /// Write a policy of a run as an ONNX file.
    Export(export::ExportArgs),
    /// Play an episode of a run in the terminal.
    Watch(watch::WatchArgs),
    /// Show who beats whom among older versions of a run's policies.
    League(league::LeagueArgs),
    /// Show the progress of runs.
    Top(top::TopArgs),
    /// Measure how fast an environment runs or trains.
    Bench(bench::BenchArgs),
    /// Find the number of replicas and the rollout length that train fastest on this machine.
    Scale(scale::ScaleArgs),
    /// Check gradients against finite differences.
    Gradcheck(gradcheck::GradcheckArgs),
    /// Replay recorded trajectories and compare them with the environment.
    Replay(ReplayArgs),
    /// Generate the CUDA code of environments from their Rust code.
    Translate(translate::TranslateArgs),
    /// Compare environments on the CPU and on the GPU, bit for bit.
    #[cfg(feature = "cuda")]
    Parity(crate::commands::parity::ParityArgs),
    /// Show whether this machine can train on a GPU.
    Info(info::InfoArgs),
    /// List the environments.
    Envs(envs::EnvsArgs),
    /// Print an environment's default configuration.
    Config(config::ConfigArgs),
}

/// `warp replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Recordings, each with its .json file next to it; either file may be named.
    #[arg(required = true, value_name = "FILE.npz")]
    files: Vec<PathBuf>,
    /// Folder with the published data that recordings of some environments need.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Device: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print one JSON object to standard output.
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(crate) fn execute(self, registry: &Registry) -> anyhow::Result<Outcome> {
        match self {
            Command::Train(args) => train::execute(&args, registry),
            Command::Eval(args) => eval::execute(&args, registry),
            Command::Plot(args) => plot::execute(&args, registry),
            Command::Report(args) => report::execute(&args, registry),
            Command::Render(args) => render::execute(&args, registry),
            Command::Episode(args) => episode::execute(&args, registry),
            Command::League(args) => league::execute(&args, registry),
            Command::Top(args) => top::execute(&args, registry),
            Command::Export(args) => export::execute(&args, registry),
            Command::Watch(args) => watch::execute(&args, registry),
            Command::Bench(args) => bench::execute(&args, registry),
            Command::Scale(args) => scale::execute(&args, registry),
            Command::Gradcheck(args) => gradcheck::execute(&args, registry),
            Command::Translate(args) => translate::execute(&args),
            Command::Info(args) => info::execute(&args),
            #[cfg(feature = "cuda")]
            Command::Parity(args) => crate::commands::parity::execute(&args, registry),
            Command::Envs(args) => envs::execute(&args, registry),
            Command::Config(args) => config::execute(&args, registry),
            Command::Replay(args) => {
                let data = args.data.as_deref();
                let registry = &Device::choose(&args.device)?.registry(registry);
                let passed = crate::replay::run(registry, &args.files, data, args.json)?;
                Ok(if passed { Outcome::Done } else { Outcome::Failed })
            }
        }
    }
}
