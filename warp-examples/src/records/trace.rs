//! Where a run's time goes, as a trace that Perfetto and Chrome open: iterations with their phases, evaluations,
//! checkpoints, and what is written between them.
//!
//! On the processor the phases of a rollout take turns at every step; an iteration shows their sums, one after the
//! other. Where an iteration's phases are not told apart (on a GPU) it is shown whole.

use crate::output::tell;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warp_train::callback::{Callback, End, Flow};
use warp_train::metrics::IterationMetrics;
use warp_train::trainer::Span;
use warp_train::{Error, Trainer};

/// Events in a file, at most, about: what a browser can show.
const MOST_EVENTS: usize = 500_000;

/// A trace in the making; called before the callbacks whose time it measures.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    file: BufWriter<File>,
    began: Instant,
    n_events: usize,
    /// What the callbacks behind this one are at, and since when.
    others: Option<(&'static str, Instant)>,
    /// Seconds by name.
    totals: Vec<(&'static str, f64)>,
}

impl Trace {
    /// Begins the file.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn create(path: &Path) -> Result<Self> {
        let about = || format!("--profile: cannot write \"{}\"", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(about)?);
        // An array whose end is missing is read as well: a run may be killed.
        file.write_all(b"[\n").with_context(about)?;
        let (began, totals) = (Instant::now(), Vec::new());
        let mut trace = Self { path: path.into(), file, began, n_events: 0, others: None, totals };
        let name = |of: &str, tid: u64, name: &str| json!({ "ph": "M", "pid": 1, "tid": tid, "name": of, "args": { "name": name } });
        trace.event(&name("process_name", 0, "warp train")).with_context(about)?;
        trace.event(&name("thread_name", 1, "run")).with_context(about)?;
        Ok(trace)
    }

    fn event(&mut self, event: &Value) -> std::io::Result<()> {
        let separator = if self.n_events > 0 { ",\n" } else { "" };
        self.n_events += 1;
        write!(self.file, "{separator}{event}")
    }

    /// Microseconds since the trace began.
    fn micros(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64() * 1e6
    }

    /// A piece of time; `is_part` of another one, so that it does not count in the totals again.
    fn slice(&mut self, name: &'static str, span: Span, args: Value) -> std::io::Result<()> {
        let seconds = span.end.saturating_duration_since(span.begin).as_secs_f64();
        match self.totals.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += seconds,
            None => self.totals.push((name, seconds)),
        }
        self.show(name, span, args)
    }

    fn show(&mut self, name: &str, span: Span, args: Value) -> std::io::Result<()> {
        if self.n_events >= MOST_EVENTS {
            return Ok(());
        }
        let (ts, end) = (self.micros(span.begin), self.micros(span.end));
        let dur = (end - ts).max(0.0);
        self.event(&json!({ "ph": "X", "pid": 1, "tid": 1, "name": name, "ts": ts, "dur": dur, "args": args }))
    }

    /// What the callbacks behind this one were at is over.
    fn others_done(&mut self, end: Instant) -> std::io::Result<()> {
        match self.others.take() {
            Some((name, begin)) if begin < end => self.slice(name, Span { begin, end }, json!({})),
            _ => Ok(()),
        }
    }

    fn iterations(&mut self, trainer: &Trainer, done: &[IterationMetrics]) -> std::io::Result<()> {
        let now = Instant::now();
        let Some(span) = trainer.spans().iterations else { return Ok(()) };
        self.others_done(span.begin)?;
        let steps = trainer.config().steps_per_iteration() as f64;
        let each = span.end.saturating_duration_since(span.begin) / done.len().max(1) as u32;
        for (n, one) in (0..).zip(done) {
            let begin = span.begin + each * n;
            let args = json!({ "iteration": one.iteration, "env_steps": one.env_steps });
            self.show("iteration", Span { begin, end: begin + each }, args)?;
            self.phases(begin, each, steps, one)?;
            if let Some(spread) = one.episodes.episode_return {
                let ts = self.micros(begin + each);
                let event = json!({ "ph": "C", "pid": 1, "name": "mean return", "ts": ts, "args": { "return": spread.mean } });
                self.event(&event)?;
            }
        }
        if let Some(span) = trainer.spans().evaluation {
            self.slice("evaluation", span, json!({}))?;
        }
        self.others = Some(("records", now));
        Ok(())
    }

    /// The phases of an iteration, of which metrics have the rates.
    fn phases(
        &mut self,
        begin: Instant,
        whole: Duration,
        steps: f64,
        one: &IterationMetrics,
    ) -> std::io::Result<()> {
        let rates = one.steps_per_second;
        let phases = [
            ("policy", rates.policy),
            ("sample", rates.sample),
            ("step", rates.step),
            ("learn", rates.learn),
        ];
        let mut begin = begin;
        let end_of_all = begin + whole;
        for (name, rate) in phases.into_iter().filter(|(_, rate)| *rate > 0.0) {
            let end = (begin + Duration::from_secs_f64(steps / rate)).min(end_of_all);
            self.slice(name, Span { begin, end }, json!({}))?;
            begin = end;
        }
        Ok(())
    }

    /// Ends the file and says where the time went.
    fn finish(&mut self) -> std::io::Result<()> {
        self.others_done(Instant::now())?;
        self.file.write_all(b"\n]\n")?;
        self.file.flush()?;
        let all: f64 = self.totals.iter().map(|(_, seconds)| seconds).sum();
        let part = |(name, seconds): &(&str, f64)| {
            format!("{name} {seconds:.2} s ({:.0} %)", 100.0 * seconds / all.max(1e-9))
        };
        let parts: Vec<String> = self.totals.iter().map(part).collect();
        tell(&format!("time: {}; the trace is in {}", parts.join(", "), self.path.display()));
        Ok(())
    }

    fn failed(&self, error: std::io::Error) -> Error {
        let path = self.path.display();
        Error::Callback(format!("--profile: cannot write \"{path}\": {error}").into())
    }
}

impl Callback for Trace {
    fn iteration(
        &mut self,
        trainer: &Trainer,
        done: &[IterationMetrics],
    ) -> warp_train::Result<Flow> {
        self.iterations(trainer, done).map_err(|error| self.failed(error))?;
        Ok(Flow::Continue(()))
    }

    fn checkpoint(&mut self, _: &Trainer) -> warp_train::Result<()> {
        let now = Instant::now();
        self.others_done(now).map_err(|error| self.failed(error))?;
        self.others = Some(("checkpoint", now));
        Ok(())
    }

    fn end(&mut self, _: &Trainer, _: End) -> warp_train::Result<()> {
        self.finish().map_err(|error| self.failed(error))
    }
}
