//! What is disturbed: a command on a prepared folder, what it does there, and how one goes on after it.

use super::warp_command::{Folder, SMALL};
use std::collections::BTreeMap;
use std::path::Path;

/// A call that changes the folder, as the shim wrote it down.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// write, fsync, rename, unlink, create, mkdir or truncate.
    pub(super) kind: String,
    /// Below the case's folder; the new name of what is renamed.
    pub(super) path: String,
}

/// A command that is to be disturbed.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// The folder that it finds, empty if none.
    pub(super) before: String,
    pub(super) command: Vec<&'static str>,
    /// What a user does after it was disturbed.
    pub(super) recovery: Vec<&'static str>,
    /// Its calls when nothing disturbs it.
    pub(super) trace: Vec<Call>,
    /// All it left then, as [`state`] has it.
    pub(super) end: BTreeMap<String, Vec<u8>>,
}

/// A run of five iterations with a checkpoint at each second one, of which two are kept.
const RUN: [&str; 4] = ["--set=checkpoint_steps=256", "--set=keep_checkpoints=2", "--steps", "640"];

fn small(more: &[&'static str]) -> Vec<&'static str> {
    [&["train"], &SMALL[..], &["--threads", "1"], more].concat()
}

/// All scenarios, each done once without a fault.
pub(super) fn scenarios(folder: &Folder, shim: &Path) -> Vec<Scenario> {
    let keep = ["--set=checkpoint_steps=256", "--set=keep_checkpoints=9", "--steps", "768"];
    folder.done(&small(&[&RUN[..2], &["--steps", "384", "--out", "part"]].concat()));
    folder.done(&small(&[&keep[..], &["--out", "long"]].concat()));
    let fleet = ["--seeds", "0..3", "--steps", "256"];
    let resume = vec!["train", "--resume", "run", "--steps", "640", "--threads", "1"];
    let back = vec!["train", "--resume", "run@256", "--steps", "768", "--threads", "1"];
    let complete = vec!["train", "--resume", "run", "--threads", "1"];
    let new = small(&[&RUN[..], &["--out", "run"]].concat());
    let many = small(&[&fleet[..], &["--out", "run"]].concat());
    [
        ("a new run", "", new, resume.clone()),
        ("a resumed run", "part", resume.clone(), resume),
        ("an older checkpoint", "long", back.clone(), back),
        ("a fleet", "", many, complete),
    ]
    .into_iter()
    .map(|(name, before, command, recovery)| {
        let at = format!("{}-whole", name.replace(' ', "-"));
        let place = Place::new(folder, &at, before);
        let (said, trace) = place.warp(&command, shim, 0, "fail");
        assert_eq!(said.code, Some(0), "{name}: {said:?}");
        let end = state(&place.path("run"));
        Scenario { name, before: before.into(), command, recovery, trace, end }
    })
    .collect()
}

/// A folder in which one case runs.
pub(super) struct Place<'a> {
    folder: &'a Folder,
    at: String,
}

impl<'a> Place<'a> {
    /// With a copy of the folder `before` in it, under the name `run`.
    pub(super) fn new(folder: &'a Folder, at: &str, before: &str) -> Self {
        let place = Self { folder, at: at.into() };
        std::fs::create_dir(place.path("")).unwrap();
        if !before.is_empty() {
            for (name, bytes) in folder.files(before) {
                let to = place.path("run").join(name);
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::write(to, bytes).unwrap();
            }
        }
        place
    }

    pub(super) fn path(&self, inner: &str) -> std::path::PathBuf {
        self.folder.path(&self.at).join(inner)
    }

    /// Runs a command with the shim; what it said, and the calls that it made.
    pub(super) fn warp(
        &self,
        args: &[&str],
        shim: &Path,
        at: usize,
        mode: &str,
    ) -> (super::warp_command::Said, Vec<Call>) {
        let trace = self.path("trace");
        let mut command = self.folder.command(args);
        command.current_dir(self.path("")).env("LD_PRELOAD", shim);
        command.env("FAULT_FOLDER", self.path("")).env("FAULT_TRACE", &trace);
        command.env("FAULT_AT", at.to_string()).env("FAULT_MODE", mode);
        let said = command.output().unwrap().into();
        let calls = std::fs::read_to_string(trace).unwrap_or_default();
        let call = |line: &str| {
            let (kind, path) = line.split_once(' ').unwrap();
            Call { kind: kind.into(), path: path.into() }
        };
        (said, calls.lines().map(call).collect())
    }

    /// Runs a command undisturbed.
    pub(super) fn undisturbed(&self, args: &[&str]) -> super::warp_command::Said {
        self.folder.command(args).current_dir(self.path("")).output().unwrap().into()
    }
}

/// What a run or fleet left, without what depends on the clock or on how often it was stopped.
pub(super) fn state(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![run.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(run).unwrap().to_str().unwrap().to_string();
            let first = name.split('/').next().unwrap();
            if ["tensorboard", "summary.json", "curves.png", "metrics.superseded.jsonl"]
                .contains(&first)
                || first.starts_with("after-")
            {
                continue;
            }
            match name.as_str() {
                _ if path.is_dir() => folders.push(path),
                "metrics.jsonl" => drop(found.insert(name, records(&path))),
                _ => drop(found.insert(name, std::fs::read(&path).unwrap())),
            }
        }
    }
    found
}

/// The whole lines of a file of records, without what the clock says.
pub(super) fn records(path: &Path) -> Vec<u8> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let timeless = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).ok()?;
        line.as_object_mut()?.remove("steps_per_second");
        line.as_object_mut()?.remove("seconds");
        Some(line.to_string() + "\n")
    };
    text.split_inclusive('\n').filter_map(timeless).collect::<String>().into_bytes()
}
