//! The progress of a run: a bar on a terminal, otherwise an occasional line.

use crate::output::{plain, short, tell};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warp_train::callback::{Callback, End, Flow};
use warp_train::metrics::{IterationMetrics, RecentReturns};
use warp_train::{Result, Trainer};

/// Between two updates of a bar: updating faster than the eye sees costs time and shows no more.
const SHOWN_EVERY: Duration = Duration::from_millis(50);
/// Seconds between lines if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    first: u64,
    started: Instant,
    last: Instant,
}

impl Progress {
    /// From step `first` to step `total`.
    pub(super) fn new(first: u64, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            let template = "{bar:30} {percent:>3}%  {msg}  {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_position(first);
            bar.reset_eta();
            bar
        });
        let now = Instant::now();
        Self { bar, total, first, started: now, last: now }
    }

    /// Shows that `steps` are done, with a short message, if an update is due.
    pub(super) fn show(&mut self, steps: u64, text: impl FnOnce() -> String) {
        let every = if self.bar.is_some() { SHOWN_EVERY } else { LINE_EVERY };
        if self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let text = text();
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = (steps - self.first) as f64 / seconds.max(1e-9);
        let message = format!("{text}  {}steps/s", short(rate));
        if let Some(bar) = &self.bar {
            bar.set_position(steps.min(self.total));
            bar.set_message(plain(&message).into_owned());
        } else {
            let left = (self.total.saturating_sub(steps)) as f64 / rate.max(1e-9);
            tell(&format!("{steps} of {} steps  {message}  {left:.0} s left", self.total));
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The progress of one run, with its mean return.
pub(super) struct ReturnBar {
    progress: Progress,
    recent: RecentReturns,
}

impl ReturnBar {
    /// For a run in the state of `trainer`; `recent` has the returns so far.
    pub(super) fn new(trainer: &Trainer, recent: &RecentReturns) -> Self {
        let (first, config) = (trainer.env_steps(), trainer.config());
        let progress = Progress::new(first, config.end_after(first));
        Self { progress, recent: recent.clone() }
    }
}

impl Callback for ReturnBar {
    fn iteration(&mut self, trainer: &Trainer, done: &Arc<[IterationMetrics]>) -> Result<Flow> {
        done.iter().for_each(|one| self.recent.add_iteration(&one.episodes));
        let recent = &self.recent;
        let text = || {
            let shown = recent.mean().map_or("-".into(), |mean| by_group(mean, &recent.groups()));
            format!("return {shown}")
        };
        self.progress.show(trainer.env_steps(), text);
        Ok(Flow::Continue(()))
    }

    fn end(&mut self, _: &Trainer, _: End) -> Result<()> {
        self.progress.finish();
        Ok(())
    }
}

/// A mean return; group by group if there are several, whose sum would say little if they play
/// against each other.
pub(super) fn by_group(mean: f64, groups: &BTreeMap<String, f64>) -> String {
    if groups.len() < 2 {
        return format!("{mean:.1}");
    }
    let means: Vec<_> = groups.iter().map(|(group, mean)| format!("{mean:.1} ({group})")).collect();
    means.join(", ")
}
