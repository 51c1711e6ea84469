//! The folder of a new run or fleet: made under another name and renamed when it is complete, so that
//! a process that is killed at any moment leaves none that is half made.

use super::journal::{Journal, METRICS};
use crate::error::{Error, Result};
use crate::run::durable;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is complete and on its way into a folder that was there before.
const READY: &str = ".ready";
const NEW: &str = ".new";

/// Makes the folder `target` with what `build` puts into the folder it is given, and its
/// `metrics.jsonl`, which stays locked. A folder that is there already gets the parts one by one.
///
/// # Errors
/// Another process makes the same folder, or it can't be written.
pub(crate) fn create(target: &Path, build: impl FnOnce(&Path) -> Result<()>) -> Result<Journal> {
    let failed = |e| Error::file("cannot create", target, e);
    let is_there = target.exists();
    let staging = if is_there { target.join(NEW) } else { beside(target) };
    std::fs::create_dir_all(&staging).map_err(failed)?;
    let journal = Journal::open(&staging)?;
    clear(&staging).map_err(failed)?;
    let publish = || {
        durable::sync_folder(&staging)?;
        if !is_there {
            return durable::rename(&staging, target);
        }
        let ready = target.join(READY);
        durable::rename(&staging, &ready)?;
        move_parts(&ready, target)
    };
    match build(&staging).and_then(|()| publish()) {
        Ok(()) => Ok(journal.moved_to(target)),
        Err(error) => {
            let _ = std::fs::remove_dir_all(&staging);
            Err(error)
        }
    }
}

/// Finishes what a process that was killed has begun: the parts of a complete run that did not get to
/// their places.
///
/// # Errors
/// That process is still at it, or the folder can't be written.
pub(crate) fn settle(folder: &Path) -> Result<()> {
    let ready = folder.join(READY);
    if !ready.exists() {
        return Ok(());
    }
    // Moved last, and with it the lock.
    let _lock = ready.join(METRICS).exists().then(|| Journal::open(&ready)).transpose()?;
    move_parts(&ready, folder)
}

fn move_parts(from: &Path, to: &Path) -> Result<()> {
    let unreadable = |e| Error::file("cannot read", from, e);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(from).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name());
    }
    names.sort_by_key(|name| name == METRICS);
    for name in names {
        durable::rename(&from.join(&name), &to.join(&name))?;
    }
    durable::delete(from)
}

/// Where a folder that is not there yet is made.
fn beside(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(NEW);
    target.with_file_name(name)
}

/// Removes everything but the metrics, which are locked; they are empty, since nothing was trained.
fn clear(staging: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(staging)? {
        let entry = entry?;
        if entry.file_name() == METRICS {
            continue;
        }
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("warp-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn names(&self, inner: &str) -> Vec<String> {
            let entries = std::fs::read_dir(self.0.join(inner)).unwrap();
            let name = |e: std::io::Result<std::fs::DirEntry>| e.unwrap().file_name();
            let mut names: Vec<_> = entries.map(|e| name(e).into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn build(folder: &Path) -> Result<()> {
        let failed = |e| Error::file("cannot write", folder, e);
        std::fs::create_dir_all(folder.join("checkpoints")).map_err(failed)?;
        std::fs::write(folder.join("config.toml"), "a = 1").map_err(failed)
    }

    #[test]
    fn nothing_is_seen_before_it_is_complete() {
        let scratch = Scratch::new("new-folder");
        let run = scratch.0.join("run");
        let journal = create(&run, |staging| {
            assert!(!run.exists() && staging.starts_with(&scratch.0));
            // A second process finds the first one at work.
            let error = create(&run, build).unwrap_err().to_string();
            assert!(error.contains("another process"), "{error}");
            build(staging)
        });
        assert_eq!(scratch.names("run"), ["checkpoints", "config.toml", METRICS]);
        assert_eq!(scratch.names(""), ["run"]);
        // The lock came along.
        assert!(Journal::open(&run).is_err());
        drop(journal);
        Journal::open(&run).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_no_hindrance() {
        let scratch = Scratch::new("new-folder-killed");
        let run = scratch.0.join("run");
        std::fs::create_dir_all(beside(&run).join("checkpoints/000")).unwrap();
        std::fs::write(beside(&run).join("config.par"), "").unwrap();
        drop(create(&run, build).unwrap());
        assert_eq!(scratch.names("run"), ["checkpoints", "config.toml", METRICS]);
        assert_eq!(scratch.names(""), ["run"]);
    }

    #[test]
    fn a_folder_that_is_there_gets_the_parts() {
        let scratch = Scratch::new("new-folder-there");
        std::fs::write(scratch.0.join("mine"), "").unwrap();
        drop(create(&scratch.0, build).unwrap());
        assert_eq!(scratch.names(""), ["checkpoints", "config.toml", METRICS, "mine"]);
        // Killed between two of them.
        std::fs::create_dir(scratch.0.join(READY)).unwrap();
        for name in ["config.toml", METRICS] {
            std::fs::rename(scratch.0.join(name), scratch.0.join(READY).join(name)).unwrap();
        }
        let busy = Journal::open(&scratch.0.join(READY)).unwrap();
        assert!(settle(&scratch.0).is_err());
        drop(busy);
        settle(&scratch.0).unwrap();
        assert_eq!(scratch.names(""), ["checkpoints", "config.toml", METRICS, "mine"]);
    }

    #[test]
    fn what_can_not_be_made_leaves_nothing() {
        let scratch = Scratch::new("new-folder-broken");
        let run = scratch.0.join("run");
        let broken = |_: &Path| Err(Error::Invalid("no".into()));
        assert!(create(&run, broken).is_err());
        assert!(scratch.names("").is_empty());
    }
}
