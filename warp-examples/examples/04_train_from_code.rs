//! Training without the command: configure, train with a callback, evaluate.
//!
//! `cargo run --release -p warp-examples --example 04_train_from_code`

use warp_examples::settings;
use warp_sample::Mode;
use warp_train::callback::{Callback, EarlyStop, Flow};
use warp_train::evaluate::{EvalOptions, Evaluation};
use warp_train::native::NativeLearner;
use warp_train::run::{Evaluator, train};
use warp_train::{Result, Trainer};

/// Prints what every evaluation came to.
struct Print;

impl Callback for Print {
    fn evaluation(&mut self, trainer: &Trainer, evaluation: &Evaluation) -> Result<Flow> {
        let (steps, mean) = (trainer.env_steps(), evaluation.mean_episode_return);
        println!("{steps:>7} steps: mean return {mean:.1}");
        Ok(Flow::Continue(()))
    }
}

fn main() -> anyhow::Result<()> {
    let registry = warp_envs::registry();
    let keys = ["num_envs=16", "learning_rate=0.002", "eval_steps=20000", "stop_at_return=475"];
    let config = settings::configure("cartpole", &keys.map(String::from), &registry)?;
    let threads = 2;
    let learner = NativeLearner::new(&config, threads)?;
    let mut trainer = Trainer::new(config, &registry, Box::new(learner), threads)?;
    let evaluator = Evaluator { registry: &registry, threads };
    let end = train(&mut trainer, evaluator, &mut [&mut Print, &mut EarlyStop])?;
    println!("{end:?} after {} steps", trainer.env_steps());
    let options = EvalOptions { episodes: 100, mode: Mode::Greedy, random: Vec::new(), threads };
    let evaluation = trainer.evaluate(&registry, &options)?;
    println!("100 greedy episodes: mean return {:.1}", evaluation.mean_episode_return);
    Ok(())
}
