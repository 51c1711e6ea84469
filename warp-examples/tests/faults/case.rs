//! One fault in one scenario: what must be there right after it, and where the run must get in the end.

use super::scenario::{Call, Place, Scenario, records, state};
use super::warp_command::{Folder, Said};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use warp_train::Checkpoint;

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// It returns an error.
    Fail,
    /// The process is killed in its place.
    Kill,
    /// The process is killed when half is written.
    Torn,
}

impl Mode {
    /// What the shim calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Kill => "kill",
            Self::Torn => "torn",
        }
    }
}

/// Which call, counted from 1, and what happens there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) mode: Mode,
}

/// Disturbs the scenario's command and looks at what is left. The error says what is not as it must be.
pub(super) fn check(scenario: &Scenario, fault: Fault, folder: &Folder, shim: &Path) -> Result<()> {
    let Fault { at, mode } = fault;
    let place = format!("{}-{}-{at}", scenario.name.replace(' ', "-"), mode.name());
    let place = Place::new(folder, &place, &scenario.before);
    let checked = disturb(scenario, fault, &place, shim);
    std::fs::remove_dir_all(place.path(""))?;
    let call = &scenario.trace[at - 1];
    checked.with_context(|| format!("{}, {} at call {at}: {call:?}", scenario.name, mode.name()))
}

fn disturb(
    scenario: &Scenario,
    Fault { at, mode }: Fault,
    place: &Place<'_>,
    shim: &Path,
) -> Result<()> {
    let run = place.path("run");
    let before = kept(&run);
    let (said, calls) = place.warp(&scenario.command, shim, at, mode.name());
    // The same calls as without the fault, so the trace says what was complete.
    ensure!(calls.get(..at) == Some(&scenario.trace[..at]), "other calls than planned: {said:?}");
    match mode {
        Mode::Fail if said.code == Some(0) => {
            ensure!(state(&run) == scenario.end, "it was overlooked: {said:?}");
        }
        Mode::Fail => refused(&said)?,
        _ => ensure!(said.code.is_none(), "{said:?}"),
    }
    let done = &scenario.trace[..at - 1];
    let complete: BTreeSet<_> = before.union(&completed(done)).cloned().collect();
    let (found, removed) = (kept(&run), removed(&scenario.trace[..at]));
    let lost = |name: &&String| !found.contains(*name) && !removed.contains(*name);
    let lost: Vec<_> = complete.iter().filter(lost).collect();
    ensure!(lost.is_empty(), "{lost:?} is lost, there is {found:?}");
    let writes = |call: &&Call| call.kind == "write" && call.path == "run/metrics.jsonl";
    let n_written = done.iter().filter(writes).count();
    let n_found = found.iter().filter(|line| line.starts_with('{')).count();
    ensure!(n_found >= n_written, "{n_found} of {n_written} records are left");
    let said = place.undisturbed(&scenario.recovery);
    if said.code != Some(0) {
        ensure!(complete.is_empty(), "what was complete is refused: {said:?}");
        return refused(&said);
    }
    let (found, end) = (state(&run), &scenario.end);
    let names: BTreeSet<_> = found.keys().chain(end.keys()).collect();
    let differs = |name: &&String| found.get(*name) != end.get(*name);
    let differ: Vec<_> = names.into_iter().filter(differs).collect();
    ensure!(differ.is_empty(), "after {:?} these differ: {differ:?}", scenario.recovery);
    Ok(())
}

/// A sentence, and no panic.
fn refused(said: &Said) -> Result<()> {
    ensure!(matches!(said.code, Some(1 | 2)), "{said:?}");
    let n_errors = said.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    ensure!(n_errors == 1, "{said:?}");
    Ok(())
}

/// What must not be lost: verified checkpoints and weights by their names, records line by line; wherever in
/// the run's folder they are.
fn kept(run: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let parts = std::fs::read_dir(run).into_iter().flatten().map(|entry| entry.unwrap().path());
    let asides =
        parts.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("after-"));
    for folder in asides.chain([run.to_path_buf()]) {
        for (_, path) in warp_train::checkpoint::list(&folder.join("checkpoints")).unwrap() {
            if Checkpoint::open(&path).is_ok() {
                found.insert(name(&path));
            }
        }
        for file in std::fs::read_dir(folder.join("weights")).into_iter().flatten() {
            found.insert(name(&file.unwrap().path()));
        }
        for file in ["metrics.jsonl", "metrics.superseded.jsonl"] {
            let lines = String::from_utf8(records(&folder.join(file))).unwrap();
            found.extend(lines.lines().map(ToString::to_string));
        }
    }
    found.retain(|name| !name.starts_with('.'));
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The checkpoints and weights that some calls completed. What lies in a new folder counts when that
/// gets its name: until then there is no run.
fn completed(calls: &[Call]) -> BTreeSet<String> {
    let renamed = calls.iter().filter(|call| call.kind == "rename");
    let is_there = renamed.clone().any(|call| call.path == "run");
    let of_run = renamed
        .filter(|call| call.path.contains("checkpoints/") || call.path.contains("weights/"))
        .filter(|call| is_there || !call.path.starts_with(".run.new/"));
    let names = of_run.map(|call| name(Path::new(&call.path)));
    names.filter(|name| !name.starts_with('.')).collect()
}

/// The checkpoints that some calls took away on purpose, the last call perhaps.
fn removed(calls: &[Call]) -> BTreeSet<String> {
    let renamed = calls.iter().filter(|call| call.kind == "rename");
    let names = renamed.map(|call| name(Path::new(&call.path)));
    let deleted =
        |name: String| Some(name.strip_prefix('.')?.strip_suffix(".deleted")?.to_string());
    names.filter_map(deleted).collect()
}
