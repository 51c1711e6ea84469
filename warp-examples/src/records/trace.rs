//! Where a run's time goes, as a trace that Perfetto and Chrome open: iterations with their phases, evaluations,
//! checkpoints, and what is written between them.
//!
//! On the processor the phases of a rollout take turns at every step; an iteration shows their sums, one after the
//! other. Where an iteration's phases are not told apart (on a GPU) it is shown whole, and below it the kernels.

use super::kernels::{Kernel, Kernels};
use crate::output::tell;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use warp_data::file;
use warp_train::callback::{Callback, End, Flow};
use warp_train::metrics::IterationMetrics;
use warp_train::trainer::Span;
use warp_train::{Error, Trainer};

/// Events in a file, at most, about: what a browser can show.
const MOST_EVENTS: usize = 500_000;
/// Rows of the trace: what the host is at, and then GPU by GPU.
const HOST: u64 = 1;
const FIRST_GPU: u64 = 2;
/// Between two looks at the kernels that have run.
const KERNELS_EVERY: Duration = Duration::from_millis(500);
/// Kernels that are named at the end.
const MOST_NAMED: usize = 5;

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
    kernels: Kernels,
    /// When kernels were looked at last.
    looked: Instant,
    /// Seconds and number of launches of each kernel.
    of_kernels: BTreeMap<Arc<str>, (f64, u64)>,
    /// GPUs that have a row.
    gpus: BTreeSet<u32>,
}

/// Files of runs and fleets that also end in `.json`.
const OF_RUNS: [&str; 3] = ["summary.json", "fleet.json", "league.json"];

/// Checks, before a run begins in `run`, that its trace can be written to `path` and takes the place of nothing but an
/// older trace.
///
/// # Errors
/// Another ending, a file that is no trace, or one that can't be written.
pub fn check(path: &Path, run: &Path) -> Result<()> {
    let shown = path.display();
    ensure!(
        path.extension().is_some_and(|ending| ending == "json"),
        "--profile: \"{shown}\": expected a name that ends in .json"
    );
    let is_of_runs = OF_RUNS.iter().any(|name| path.ends_with(name));
    ensure!(
        !is_of_runs && (!path.is_file() || is_trace(path)),
        "--profile: \"{shown}\" is for something else than a trace; choose another name"
    );
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into());
    if !run.exists() && whole(path).parent() == Some(&*whole(run)) {
        // In the run's own folder, which is not there yet.
        return Ok(());
    }
    let is_new = path.symlink_metadata().is_err();
    let tried = File::options().create(true).append(true).open(path);
    tried.with_context(|| format!("--profile: cannot write \"{shown}\""))?;
    if is_new {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Whether the file at `path` is a trace, or empty, as a run leaves it that is killed early.
fn is_trace(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = file::open(path).and_then(|file| file.take(FIRST_EVENT).read_to_end(&mut start));
    let has_process = start.windows(PROCESS.len()).any(|part| part == PROCESS.as_bytes());
    read.is_ok() && (start.is_empty() || start.starts_with(BEGINNING) && has_process)
}

/// What the process is called in the first event, which has so many bytes at most, with what is before it.
const PROCESS: &str = "warp train";
const FIRST_EVENT: u64 = 128;
/// How a trace begins: an array whose end is missing is read as well, since a run may be killed.
const BEGINNING: &[u8] = b"[\n";

impl Trace {
    /// Begins the file.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn create(path: &Path, kernels: Kernels) -> Result<Self> {
        let about = || format!("--profile: cannot write \"{}\"", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(about)?);
        file.write_all(BEGINNING).with_context(about)?;
        let began = Instant::now();
        let mut trace = Self {
            path: path.into(),
            file,
            began,
            n_events: 0,
            others: None,
            totals: Vec::new(),
            kernels,
            looked: began,
            of_kernels: BTreeMap::new(),
            gpus: BTreeSet::new(),
        };
        trace.event(&name("process_name", 0, PROCESS)).with_context(about)?;
        trace.event(&name("thread_name", HOST, "run")).with_context(about)?;
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
        self.count(name, span.end.saturating_duration_since(span.begin).as_secs_f64());
        self.show(name, span, args)
    }

    fn count(&mut self, name: &'static str, seconds: f64) {
        match self.totals.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += seconds,
            None => self.totals.push((name, seconds)),
        }
    }

    fn show(&mut self, name: &str, span: Span, args: Value) -> std::io::Result<()> {
        if self.n_events >= MOST_EVENTS {
            return Ok(());
        }
        let (ts, end) = (self.micros(span.begin), self.micros(span.end));
        let dur = (end - ts).max(0.0);
        self.event(&json!({ "ph": "X", "pid": 1, "tid": HOST, "name": name, "ts": ts, "dur": dur, "args": args }))
    }

    /// The kernels that have run since this was called last.
    fn kernels(&mut self) -> std::io::Result<()> {
        self.looked = Instant::now();
        for Kernel { name: kernel, device, begin, end } in self.kernels.take() {
            let tid = FIRST_GPU + u64::from(device);
            if self.gpus.insert(device) {
                self.event(&name("thread_name", tid, &format!("GPU {device}")))?;
            }
            let (ts, end) = (self.micros(begin), self.micros(end));
            let of_kernel = self.of_kernels.entry(kernel.clone()).or_default();
            *of_kernel = (of_kernel.0 + (end - ts) * 1e-6, of_kernel.1 + 1);
            if self.n_events < MOST_EVENTS {
                self.event(&json!({ "ph": "X", "pid": 1, "tid": tid, "name": &*kernel, "ts": ts, "dur": end - ts }))?;
            }
        }
        Ok(())
    }

    /// The kernels that took longest, in a line; nothing if there were none.
    fn longest_kernels(&self) -> Option<String> {
        let mut kernels: Vec<_> = self.of_kernels.iter().collect();
        kernels.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
        let all: f64 = kernels.iter().map(|(_, (seconds, _))| seconds).sum();
        let part = |(name, (seconds, n)): &(&Arc<str>, &(f64, u64))| {
            let share = 100.0 * seconds / all.max(1e-9);
            format!("{name} {seconds:.2} s ({share:.0} %, {n} launches)")
        };
        let parts: Vec<String> = kernels.iter().take(MOST_NAMED).map(part).collect();
        let more = match kernels.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            n => format!(", and {n} others"),
        };
        (!parts.is_empty()).then(|| format!("kernels: {}{more}", parts.join(", ")))
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
        if self.looked.elapsed() < KERNELS_EVERY { Ok(()) } else { self.kernels() }
    }

    /// The phases of an iteration, of which metrics have the rates.
    fn phases(
        &mut self,
        begin: Instant,
        whole: Duration,
        steps: f64,
        one: &IterationMetrics,
    ) -> std::io::Result<()> {
        let mut phases = one.steps_per_second.phases().peekable();
        if phases.peek().is_none() {
            // It is shown already.
            self.count("iterations", whole.as_secs_f64());
        }
        let mut begin = begin;
        let end_of_all = begin + whole;
        for (name, rate) in phases {
            let end = (begin + Duration::from_secs_f64(steps / rate)).min(end_of_all);
            self.slice(name, Span { begin, end }, json!({}))?;
            begin = end;
        }
        Ok(())
    }

    /// Ends the file and says where the time went.
    fn finish(&mut self) -> std::io::Result<()> {
        self.others_done(Instant::now())?;
        self.kernels()?;
        self.file.write_all(b"\n]\n")?;
        self.file.flush()?;
        let all: f64 = self.totals.iter().map(|(_, seconds)| seconds).sum();
        let part = |(name, seconds): &(&str, f64)| {
            format!("{name} {seconds:.2} s ({:.0} %)", 100.0 * seconds / all.max(1e-9))
        };
        let parts: Vec<String> = self.totals.iter().map(part).collect();
        tell(&format!("time: {}; the trace is in {}", parts.join(", "), self.path.display()));
        if let Some(line) = self.longest_kernels() {
            tell(&line);
        }
        Ok(())
    }

    fn failed(&self, error: std::io::Error) -> Error {
        let path = self.path.display();
        Error::Callback(format!("--profile: cannot write \"{path}\": {error}").into())
    }
}

/// An event that names a process or a row.
fn name(of: &str, tid: u64, name: &str) -> Value {
    json!({ "ph": "M", "pid": 1, "tid": tid, "name": of, "args": { "name": name } })
}

impl Callback for Trace {
    fn iteration(
        &mut self,
        trainer: &Trainer,
        done: &Arc<[IterationMetrics]>,
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
