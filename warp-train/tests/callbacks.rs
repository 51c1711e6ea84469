//! When callbacks are called, and what they can do.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

use std::sync::Arc;
use warp_train::callback::{Callback, End, Flow, Stopped};
use warp_train::evaluate::Evaluation;
use warp_train::metrics::IterationMetrics;
use warp_train::native::NativeLearner;
use warp_train::run::{Evaluator, train};
use warp_train::{Error, Result, TrainConfig, Trainer};

/// Writes down what it hears; stops after `most` iterations.
struct Witness {
    heard: Vec<String>,
    most: u64,
}

impl Callback for Witness {
    fn start(&mut self, trainer: &Trainer) -> Result<Flow> {
        self.heard.push(format!("start {}", trainer.env_steps()));
        Ok(Flow::Continue(()))
    }

    fn iteration(&mut self, trainer: &Trainer, done: &Arc<[IterationMetrics]>) -> Result<Flow> {
        let last = done.last().unwrap();
        assert_eq!(last.env_steps, trainer.env_steps());
        self.heard.push(format!("iteration {}", last.iteration));
        let enough = last.iteration >= self.most;
        Ok(if enough { Flow::Break(Stopped::Asked) } else { Flow::Continue(()) })
    }

    fn evaluation(&mut self, trainer: &Trainer, evaluation: &Evaluation) -> Result<Flow> {
        self.heard.push(format!("evaluation {}, {}", trainer.env_steps(), evaluation.episodes));
        Ok(Flow::Continue(()))
    }

    fn checkpoint(&mut self, trainer: &Trainer) -> Result<()> {
        self.heard.push(format!("checkpoint {}", trainer.env_steps()));
        Ok(())
    }

    fn end(&mut self, _: &Trainer, end: End) -> Result<()> {
        self.heard.push(format!("end {end:?}"));
        Ok(())
    }
}

/// Fails at the first checkpoint.
struct Broken;

impl Callback for Broken {
    fn checkpoint(&mut self, _: &Trainer) -> Result<()> {
        Err(Error::Callback("the disk is full".into()))
    }
}

/// Trains a run of four iterations of 32 steps with these callbacks.
fn run(callbacks: &mut [&mut dyn Callback]) -> (Result<End>, u64) {
    let text = "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 8\ntotal_steps = 128\n\
                hidden = [4]\nnum_minibatches = 1\ncheckpoint_steps = 64\n\
                eval_steps = 96\neval_episodes = 3";
    let registry = warp_envs::registry();
    let config = TrainConfig::resolve(&text.parse().unwrap(), &registry).unwrap();
    let learner = Box::new(NativeLearner::new(&config, 1).unwrap());
    let mut trainer = Trainer::new(config, &registry, learner, 1).unwrap();
    let evaluator = Evaluator { registry: &registry, threads: 1 };
    let end = train(&mut trainer, evaluator, callbacks);
    (end, trainer.env_steps())
}

#[test]
fn every_event_is_heard_in_order() {
    let mut witness = Witness { heard: Vec::new(), most: u64::MAX };
    let (end, steps) = run(&mut [&mut witness]);
    assert_eq!((end.unwrap(), steps), (End::Complete, 128));
    let expected = [
        "start 0",
        "iteration 1",
        "iteration 2",
        "checkpoint 64",
        "iteration 3",
        "evaluation 96, 3",
        "iteration 4",
        "checkpoint 128",
        "end Complete",
    ];
    assert_eq!(witness.heard, expected);
}

#[test]
fn one_of_several_stops_a_run_and_the_others_hear_of_it() {
    let [mut first, mut second] = [2, u64::MAX].map(|most| Witness { heard: Vec::new(), most });
    let (end, steps) = run(&mut [&mut first, &mut second]);
    assert_eq!((end.unwrap(), steps), (End::Stopped(Stopped::Asked), 64));
    assert_eq!(first.heard, second.heard);
    assert_eq!(second.heard.last().unwrap(), "end Stopped(Asked)");
}

#[test]
fn what_a_callback_could_not_do_ends_the_run() {
    let mut witness = Witness { heard: Vec::new(), most: u64::MAX };
    let (end, steps) = run(&mut [&mut Broken, &mut witness]);
    let error = end.unwrap_err();
    assert!(error.is_users() && error.to_string() == "the disk is full", "{error}");
    assert_eq!((steps, witness.heard.last().unwrap().as_str()), (64, "iteration 2"));
}
