//! Records of a run beside its `metrics.jsonl`: TensorBoard's event files and `curves.png`.
//!
//! `RUN/tensorboard/` holds a file per process. Every figure of an iteration is a scalar over
//! environment steps, called as in `metrics.jsonl` with `/` between its parts; the actions of the
//! rollout are histograms; the configuration is a text and, key by key, the hyper-parameters.

mod actions;
pub mod array_log;
pub mod bands;
pub mod charts;
pub mod curves;
mod event;
mod event_file;
pub mod fleet;
pub mod fleet_events;
mod fleet_lines;
pub mod history;
pub mod kernels;
pub mod learning;
mod pick;
mod pixels;
mod proto;
pub mod seeds;
pub mod setting;
mod ticks;
pub mod trace;

pub use event_file::{crc32c, read_frames};

use anyhow::Result;
use event::{Parameter, When};
use event_file::EventFile;
use proto::Value;
use std::sync::Arc;
use warp_core::toml::{Table, Value as Toml};
use warp_train::callback::{Callback, End, Flow};
use warp_train::metrics::IterationMetrics;
use warp_train::run::BackgroundWriter;
use warp_train::{Error, Run, Trainer};

/// The events of a run, written as it goes by the thread that writes its lines and checkpoints.
#[derive(Debug)]
pub struct Records {
    events: BackgroundWriter<EventFile>,
}

impl Records {
    /// Begins the records of `run`, or continues them after the step that `trainer` is at.
    /// `config_toml` is the run's complete configuration.
    ///
    /// # Errors
    /// A folder that can't be written.
    pub fn open(run: &Run, trainer: &Trainer, config_toml: &str) -> Result<Self> {
        let at = trainer.env_steps();
        let mut events = EventFile::create(&run.folder().join("tensorboard"))?;
        let now = When::now(at);
        let table = config_toml.parse::<Table>().unwrap_or_default();
        let about = now.summary(vec![
            event::text("config", &format!("```toml\n{config_toml}```\n")),
            event::hyper_parameters(&parameters(&table), now.wall_time),
        ]);
        let start = When { step: at + 1, ..now }.session_start();
        // Nothing is there to be purged when the run begins.
        let start = (at > 0).then_some(start);
        let first = [now.file_version()].into_iter().chain(start).chain([about]);
        events.write(first)?;
        Ok(Self { events: run.writer_for(events) })
    }

    /// Has written what happened in iteration `number` of `done`, if it is one of those that are recorded: every one up
    /// to the 1,000th, every tenth up to the 10,000th, and so on, and those with an evaluation.
    fn log(
        &self,
        done: &Arc<[IterationMetrics]>,
        number: usize,
        trainer: &Trainer,
    ) -> warp_train::Result<()> {
        let metrics = &done[number];
        if !is_recorded(metrics.iteration) && metrics.evaluation.is_none() {
            return Ok(());
        }
        let mut values = Vec::new();
        let collected = trainer.rollout().map_or(&[][..], |rollout| &rollout.policies);
        for (plan, policy) in trainer.config().policies.iter().zip(collected) {
            let histograms = actions::histograms(policy);
            for (head, histogram) in histograms.iter().enumerate() {
                let several = histograms.len() > 1;
                let head = if several { format!("/{head}") } else { String::new() };
                values.push(histogram.value(&format!("actions/{}{head}", plan.name)));
            }
        }
        let (now, done) = (When::now(metrics.env_steps), done.clone());
        let write = move |events: &mut EventFile| {
            let mut all = scalars(&done[number])?;
            all.extend(values);
            events.write([now.summary(all)])
        };
        self.events.give(|events| write(events).map_err(|e| Error::Callback(e.into())))
    }

    /// Notes that the run is over.
    fn finish(&self, env_steps: u64) -> warp_train::Result<()> {
        let now = When::now(env_steps);
        let write = move |events: &mut EventFile| {
            events.write([now.summary(vec![event::session_end(now.wall_time)])])
        };
        self.events.give(move |events| write(events).map_err(|e| Error::Callback(e.into())))
    }
}

/// Every figure of an iteration.
fn scalars(metrics: &IterationMetrics) -> Result<Vec<Value>> {
    let mut values = Vec::new();
    flatten("", &serde_json::to_value(metrics)?, &mut |tag, number| {
        // Alone, a figure without a group would be one in TensorBoard's page.
        let tag = if tag.contains('/') { tag.into() } else { format!("run/{tag}") };
        values.push(event::scalar(&tag, number));
    });
    Ok(values)
}

impl Callback for Records {
    fn iteration(
        &mut self,
        trainer: &Trainer,
        done: &Arc<[IterationMetrics]>,
    ) -> warp_train::Result<Flow> {
        (0..done.len()).try_for_each(|number| self.log(done, number, trainer))?;
        Ok(Flow::Continue(()))
    }

    fn end(&mut self, trainer: &Trainer, end: End) -> warp_train::Result<()> {
        if end == End::Complete {
            self.finish(trainer.env_steps())?;
        }
        self.events.wait()
    }
}

/// Whether an iteration, counted from 1, is recorded; depends on nothing else.
fn is_recorded(iteration: u64) -> bool {
    let magnitude = iteration.checked_ilog10().unwrap_or(0);
    iteration.is_multiple_of(10_u64.pow(magnitude.saturating_sub(2)))
}

/// All numbers in a JSON value, called by their keys from the outermost inwards.
fn flatten(tag: &str, value: &serde_json::Value, found: &mut dyn FnMut(&str, f64)) {
    match value {
        serde_json::Value::Object(parts) => {
            for (key, part) in parts {
                let tag = if tag.is_empty() { key.clone() } else { format!("{tag}/{key}") };
                flatten(&tag, part, found);
            }
        }
        _ => {
            if let Some(number) = value.as_f64() {
                found(tag, number);
            }
        }
    }
}

/// All keys of a configuration with their values; lists as they are written.
fn parameters(table: &Table) -> Vec<(String, Parameter)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let parameter = match value {
            Toml::Table(inner) => {
                let inner = parameters(inner).into_iter();
                found.extend(inner.map(|(name, value)| (format!("{key}.{name}"), value)));
                continue;
            }
            Toml::Integer(number) => Parameter::Number(*number as f64),
            Toml::Float(number) => Parameter::Number(*number),
            Toml::Boolean(on) => Parameter::Switch(*on),
            Toml::String(text) => Parameter::Text(text.clone()),
            other => Parameter::Text(other.to_string()),
        };
        found.push((key.clone(), parameter));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_are_recorded_more_sparsely() {
        let recorded = |range: std::ops::RangeInclusive<u64>| range.filter(|i| is_recorded(*i));
        assert_eq!(recorded(1..=999).count(), 999);
        assert_eq!(recorded(1000..=9999).count(), 900);
        assert_eq!(recorded(10_000..=99_999).count(), 900);
        assert_eq!(recorded(1..=10_000_000).count(), 999 + 4 * 900 + 1);
    }

    #[test]
    fn a_configuration_is_flattened() {
        let table = "a = 1\nb = [1, 2]\n[env]\nc = true\nd = 'x'\n".parse::<Table>().unwrap();
        let text = |text: &str| Parameter::Text(text.into());
        let wanted = [
            ("a", Parameter::Number(1.0)),
            ("b", text("[1, 2]")),
            ("env.c", Parameter::Switch(true)),
            ("env.d", text("x")),
        ];
        let found = parameters(&table);
        assert!(found.iter().map(|(k, v)| (k.as_str(), v.clone())).eq(wanted));
    }
}
