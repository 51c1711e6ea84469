//! Training without the command: configure, iterate, evaluate.
//!
//! `cargo run --release -p warp-examples --example 04_train_from_code`

use warp_examples::settings;
use warp_sample::Mode;
use warp_train::Trainer;
use warp_train::evaluate::{EvalOptions, evaluate};
use warp_train::native::NativeLearner;

fn main() -> anyhow::Result<()> {
    let registry = warp_envs::registry();
    let sets = ["num_envs=16".to_string(), "learning_rate=0.002".to_string()];
    let config = settings::configure("cartpole", &sets, &registry)?;
    let threads = 2;
    let learner = NativeLearner::new(&config, threads)?;
    let mut trainer = Trainer::new(config, &registry, Box::new(learner), threads)?;
    while trainer.env_steps() < 200_000 {
        let metrics = trainer.iterate()?;
        if let (0, Some(r)) = (metrics.iteration % 10, metrics.episodes.episode_return) {
            println!("{:>7} steps: mean return {:.1}", metrics.env_steps, r.mean);
        }
    }
    // A learner of its own, so that the trainer could go on.
    let config = trainer.config().clone();
    let mut learner = NativeLearner::new(&config, threads)?;
    warp_train::Learner::load_state(&mut learner, &trainer.learner().state())?;
    let options = EvalOptions { episodes: 100, mode: Mode::Greedy, random: Vec::new(), threads };
    let evaluation = evaluate(&mut learner, &config, &registry, &options)?;
    println!("100 greedy episodes: mean return {:.1}", evaluation.mean_episode_return);
    Ok(())
}
