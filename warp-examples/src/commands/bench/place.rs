//! Where training is measured: device and learner, and runs that are made there.

use super::BenchArgs;
use crate::commands::{Device, learner_on, thread_count};
use anyhow::Result;
use std::time::Instant;
use warp_func::Registry;
use warp_train::{TrainConfig, Trainer};

/// Where training is measured.
pub(super) struct Place<'a> {
    pub device: &'a Device,
    /// Whose networks learn: "native" or "burn".
    pub backend: &'a str,
    pub threads: usize,
    /// The environments on the CPU.
    pub plain: &'a Registry,
    /// The environments on the device.
    registry: Registry,
}

impl<'a> Place<'a> {
    pub(super) fn new(device: &'a Device, args: &'a BenchArgs, registry: &'a Registry) -> Self {
        let backend = if args.backend == "auto" { "native" } else { &args.backend };
        let threads = thread_count(args.threads);
        Self { device, backend, threads, plain: registry, registry: device.registry(registry) }
    }

    /// A run before its first iteration, and the seconds that building it took.
    pub(super) fn trainer(&self, config: TrainConfig) -> Result<(Trainer, f64)> {
        let started = Instant::now();
        self.device.precompile(self.backend, &config, &self.registry);
        let learner = learner_on(self.device, self.backend, &config, self.threads)?;
        let trainer = Trainer::new(config, &self.registry, learner, self.threads)?;
        Ok((trainer, started.elapsed().as_secs_f64()))
    }
}
