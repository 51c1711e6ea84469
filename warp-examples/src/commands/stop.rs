//! Signals that ask a command to stop: the first is a request, a later one ends the process at once.

use anyhow::{Context, Result};
use signal_hook::consts::signal::{SIGINT, SIGTERM};
use signal_hook::flag::{register_conditional_default, register_usize};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use warp_train::Trainer;
use warp_train::callback::{Callback, Flow, Stopped};
use warp_train::metrics::IterationMetrics;

/// How long after the first signal a second one counts. Until then it is the first one again: shells pass the end of
/// their terminal on to processes that the kernel has told, and `timeout` signals a process and then its group.
#[cfg(unix)]
const AGAIN: std::time::Duration = std::time::Duration::from_millis(500);

/// Signals that ask.
#[cfg(unix)]
pub(super) const ASKING: [i32; 3] = [SIGINT, SIGTERM, signal_hook::consts::signal::SIGHUP];
#[cfg(not(unix))]
pub(super) const ASKING: [i32; 2] = [SIGINT, SIGTERM];

/// The signal that requested the stop; 0: none.
static ASKED_BY: AtomicUsize = AtomicUsize::new(0);
/// Whether the next signal has its default effect.
static AT_ONCE: AtomicBool = AtomicBool::new(true);
/// Whether a second signal may be the first one again.
static COMES_TWICE: AtomicBool = AtomicBool::new(false);
/// Set when the handlers are in place.
static LISTENING: OnceLock<()> = OnceLock::new();

/// A command that stops in an orderly way on request: by Ctrl-C, `kill`, or the end of its terminal.
///
/// While it is alive one signal is taken as a request; after that, and without it, signals end the process.
#[derive(Debug)]
pub(super) struct Stop(());

impl Stop {
    /// Begins to listen. A signal that was ignored when the process began stays so, as with `nohup`.
    pub(super) fn listen() -> Result<Self> {
        if LISTENING.get().is_none() {
            let ignored = ignored();
            let heard = ASKING.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
            let heard: Vec<i32> = heard.collect();
            for signal in &heard {
                listen_to(*signal).with_context(|| format!("cannot listen for signal {signal}"))?;
            }
            if !COMES_TWICE.load(Ordering::SeqCst) {
                arm(&heard).context("cannot listen for signals")?;
            }
            let _ = LISTENING.set(());
        }
        ASKED_BY.store(0, Ordering::SeqCst);
        AT_ONCE.store(false, Ordering::SeqCst);
        Ok(Self(()))
    }

    /// From now on a second signal is no more than the first: a process that another one watches over gets those of the
    /// terminal from both, and is ended at once by that other one.
    pub(super) fn may_come_twice() {
        COMES_TWICE.store(true, Ordering::SeqCst);
    }

    /// The signal that requested the stop, if any.
    pub(super) fn asked_by(&self) -> Option<u8> {
        u8::try_from(ASKED_BY.load(Ordering::Relaxed)).ok().filter(|signal| *signal > 0)
    }

    /// The signal that ended work before its end: this process's, or the one that asks if another process got it.
    pub(super) fn ended_by(stop: Option<&Self>) -> u8 {
        stop.and_then(Self::asked_by).unwrap_or(SIGTERM as u8)
    }

    fn flow(&self) -> Flow {
        if self.is_asked() { Flow::Break(Stopped::Asked) } else { Flow::Continue(()) }
    }

    /// Whether the command has been asked to stop.
    pub(super) fn is_asked(&self) -> bool {
        self.asked_by().is_some()
    }
}

impl Callback for Stop {
    fn start(&mut self, _: &Trainer) -> warp_train::Result<Flow> {
        Ok(self.flow())
    }

    fn iteration(&mut self, _: &Trainer, _: &Arc<[IterationMetrics]>) -> warp_train::Result<Flow> {
        Ok(self.flow())
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        AT_ONCE.store(true, Ordering::SeqCst);
    }
}

/// The handlers of a signal, called in this order: the first one ends the process if one came before.
fn listen_to(signal: i32) -> std::io::Result<()> {
    register_conditional_default(signal, &AT_ONCE)?;
    register_usize(signal, &ASKED_BY, usize::try_from(signal).unwrap_or(0))?;
    Ok(())
}

/// Lets the next signal have its default effect, some time after one has come.
#[cfg(unix)]
fn arm(signals: &[i32]) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    let arm = move || {
        for _ in signals.forever() {
            std::thread::sleep(AGAIN);
            // Meanwhile another command may have begun to listen.
            AT_ONCE.store(ASKED_BY.load(Ordering::SeqCst) > 0, Ordering::SeqCst);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(arm).map(drop)
}

#[cfg(not(unix))]
fn arm(signals: &[i32]) -> std::io::Result<()> {
    signals.iter().try_for_each(|signal| signal_hook::flag::register(*signal, &AT_ONCE).map(drop))
}

/// The signals that this process ignores, a bit each, the lowest for signal 1; none where there is no
/// /proc to tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
