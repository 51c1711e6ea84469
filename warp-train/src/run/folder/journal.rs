//! `metrics.jsonl`: lines are appended and never changed. Whoever appends holds the file's lock, which
//! the system releases when the process ends, however it ends.

use super::best::BestSteps;
use crate::error::{Error, Result};
use crate::run::durable;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use warp_data::file;

/// What the file is called.
pub const METRICS: &str = "metrics.jsonl";
/// Where lines go that a run does anew since it was resumed from before them.
pub const SUPERSEDED: &str = "metrics.superseded.jsonl";
/// Bytes of a line that are read, at most; a longer one is damaged.
const LONGEST: usize = 1 << 20;

/// A line of the file as it is read.
#[derive(Debug)]
pub struct Line<'a> {
    /// Counted from 1.
    pub number: u64,
    /// Offset of its first byte.
    pub start: u64,
    /// Offset behind its last byte, the line break included.
    pub end: u64,
    /// What is in it, without the line break.
    pub bytes: &'a [u8],
    /// Whether a line break ends it.
    pub is_ended: bool,
}

/// Shows the lines of `path` to `look`, one after the other: the file may be larger than memory.
///
/// # Errors
/// A file that can't be read.
pub fn each_line(path: &Path, mut look: impl FnMut(&Line<'_>)) -> std::io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 16, file::open(path)?);
    let (mut bytes, mut start) = (Vec::new(), 0);
    for number in 1.. {
        bytes.clear();
        let mut end =
            start + (&mut reader).take(LONGEST as u64).read_until(b'\n', &mut bytes)? as u64;
        if end == start {
            break;
        }
        if bytes.last() != Some(&b'\n') && bytes.len() == LONGEST {
            end += reader.skip_until(b'\n')? as u64;
        }
        let is_ended = bytes.pop_if(|byte| *byte == b'\n').is_some();
        look(&Line { number, start, end, bytes: &bytes, is_ended });
        start = end;
    }
    Ok(())
}

/// What going on with a run needs to know of a line.
#[derive(Debug, Deserialize)]
pub(crate) struct Logged {
    pub(crate) env_steps: u64,
    #[serde(default)]
    pub(crate) seconds: Option<f64>,
    #[serde(default)]
    pub(crate) episodes: u64,
    #[serde(default)]
    pub(crate) episode_return: Option<Mean>,
    #[serde(default)]
    pub(crate) group_return: BTreeMap<String, Mean>,
    #[serde(default)]
    evaluation: Option<Score>,
}

#[derive(Debug, Deserialize)]
struct Score {
    mean_episode_return: f64,
}

impl Logged {
    /// The mean return of the evaluation after it, if there was one.
    pub(crate) fn evaluated(&self) -> Option<f64> {
        self.evaluation.as_ref().map(|score| score.mean_episode_return)
    }

    /// Adds the evaluation after it, if there was one, to those that are known.
    pub(crate) fn add_score_to(&self, best: &mut BestSteps) {
        if let Some(mean) = self.evaluated() {
            best.add(self.env_steps, mean, usize::MAX);
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
}

/// The file, open and locked.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// What was at `path` before it was replaced: still locked, for those who wait for it.
    replaced: Vec<File>,
}

impl Journal {
    /// Opens the file in `folder` for appending, or makes it.
    ///
    /// # Errors
    /// Another process holds it, or it can't be written.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(METRICS);
        let failed = |e| Error::file("cannot write", &path, e);
        // Before it is opened: a pipe would be waited for.
        if path.exists() {
            file::open(&path).map_err(failed)?;
        }
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, file, replaced: Vec::new() }),
            Err(TryLockError::WouldBlock) => {
                let reason = "another process is using this folder";
                Err(Error::file("cannot lock", &path, reason))
            }
            Err(TryLockError::Error(e)) => Err(Error::file("cannot lock", &path, e)),
        }
    }

    /// This file after its folder was given the name `folder`.
    pub(crate) fn moved_to(self, folder: &Path) -> Self {
        Self { path: folder.join(METRICS), ..self }
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts another file in the place of this one, locked before it is there; `write` fills it.
    pub(crate) fn replace(
        &mut self,
        write: impl FnOnce(&mut File) -> std::io::Result<()>,
    ) -> Result<()> {
        let partial = durable::partial(&self.path);
        durable::delete(&partial)?;
        let fill = || -> std::io::Result<File> {
            let mut file = File::options().create_new(true).append(true).open(&partial)?;
            file.lock()?;
            write(&mut file)?;
            file.sync_all()?;
            Ok(file)
        };
        let file = fill().map_err(|e| Error::file("cannot write", &partial, e))?;
        durable::rename(&partial, &self.path)?;
        self.replaced.push(std::mem::replace(&mut self.file, file));
        Ok(())
    }

    /// Appends whole lines, each with its line break.
    pub(crate) fn append(&mut self, lines: &str) -> Result<()> {
        let written = self.file.write_all(lines.as_bytes());
        written.map_err(|e| Error::file("cannot write", &self.path, e))
    }

    /// Makes sure that everything is on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::file("cannot write", &self.path, e))
    }

    /// How long it is.
    pub(crate) fn length(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|e| Error::file("cannot read", &self.path, e))?.len())
    }

    /// Goes on behind the lines of the first `env_steps` steps, which are shown to `look`; what comes
    /// after them is moved to [`SUPERSEDED`]. Behind the last of them some may be missing if `is_open`, since
    /// their sum is known.
    ///
    /// # Errors
    /// Lines in an order that leaves open which are to stay, or a file that can't be written.
    pub(crate) fn go_on_after(
        &mut self,
        env_steps: u64,
        is_open: bool,
        mut look: impl FnMut(&Logged),
    ) -> Result<GoneOn> {
        let mut found = Found::default();
        let scanned = each_line(&self.path, |line| {
            if let Some(logged) = found.add(line, env_steps) {
                look(&logged);
            }
        });
        scanned.map_err(|e| Error::file("cannot read", &self.path, e))?;
        if let Some(reason) = &found.disorder {
            return Err(Error::file("cannot continue", &self.path, reason));
        }
        if found.is_open {
            self.append("\n")?;
        }
        if found.n_behind > 0 {
            self.set_aside(found.end)?;
        }
        let last = found.last_start.filter(|_| found.last_step == Some(env_steps));
        Ok(GoneOn { last, said: found.sentences(&self.path, env_steps, is_open) })
    }

    /// Moves what is behind `end` to the end of [`SUPERSEDED`]; it is there before it is cut off here.
    pub(crate) fn set_aside(&mut self, end: u64) -> Result<()> {
        let other = self.path.with_file_name(SUPERSEDED);
        let copy = || {
            let mut from = file::open(&self.path)?;
            from.seek(SeekFrom::Start(end))?;
            let mut to = File::options().create(true).append(true).open(&other)?;
            std::io::copy(&mut from, &mut to)?;
            // A last line may be without its end.
            let mut last = [0];
            from.seek(SeekFrom::End(-1))?;
            from.read_exact(&mut last)?;
            if last != *b"\n" {
                to.write_all(b"\n")?;
            }
            to.sync_all()
        };
        copy().map_err(|e| Error::file("cannot write", &other, e))?;
        let cut = || self.file.set_len(end).and_then(|()| self.file.sync_all());
        cut().map_err(|e| Error::file("cannot write", &self.path, e))
    }
}

/// Where a file goes on.
#[derive(Debug)]
pub(crate) struct GoneOn {
    /// Where its last line begins, if that is of the step that it goes on from.
    pub(crate) last: Option<u64>,
    /// What there is to say of lines that were moved, or are missing or damaged, a sentence each.
    pub(crate) said: Vec<String>,
}

/// What a look through the file has found.
#[derive(Debug, Default)]
struct Found {
    /// Behind the last line that stays.
    end: u64,
    /// Step of that line and where it begins, if there is one.
    last_step: Option<u64>,
    last_start: Option<u64>,
    /// Whether that line lacks its line break.
    is_open: bool,
    /// Number and step of the first whole line that is later than the checkpoint.
    first_later: Option<(u64, u64)>,
    /// Lines behind the last one that stays, damaged ones included.
    n_behind: u64,
    /// Damaged lines between those that stay, and the number of the first of them.
    n_damaged: u64,
    first_damaged: u64,
    /// Damaged lines behind the last one that stays so far, and the number of the first of them.
    pending: (u64, u64),
    disorder: Option<String>,
}

impl Found {
    /// Takes in a line; what it says, if it stays.
    fn add(&mut self, line: &Line<'_>, env_steps: u64) -> Option<Logged> {
        self.n_behind += 1;
        let Ok(logged) = serde_json::from_slice::<Logged>(line.bytes) else {
            let (n, first) = self.pending;
            self.pending = (n + 1, if n == 0 { line.number } else { first });
            return None;
        };
        let before = self.first_later.map(|(_, step)| step).or(self.last_step);
        if logged.env_steps > env_steps {
            self.first_later.get_or_insert((line.number, logged.env_steps));
            return None;
        }
        if let Some(before) = before.filter(|step| *step >= logged.env_steps) {
            self.disorder.get_or_insert_with(|| {
                format!(
                    "line {} is of step {} but follows one of step {before}; put the lines in \
                     order, or move the file away to continue without it",
                    line.number, logged.env_steps
                )
            });
        }
        let (n, first) = std::mem::take(&mut self.pending);
        if self.n_damaged == 0 {
            self.first_damaged = first;
        }
        self.n_damaged += n;
        (self.n_behind, self.last_start) = (0, Some(line.start));
        (self.end, self.is_open, self.last_step) =
            (line.end, !line.is_ended, Some(logged.env_steps));
        Some(logged)
    }

    fn sentences(&self, path: &Path, env_steps: u64, is_open: bool) -> Vec<String> {
        let shown = path.display();
        let mut said = Vec::new();
        let lines = |n: u64| if n == 1 { "1 line".to_string() } else { format!("{n} lines") };
        if self.n_damaged > 0 {
            said.push(format!(
                "\"{shown}\": {} can't be read, the first at line {}; they were left unchanged",
                lines(self.n_damaged),
                self.first_damaged
            ));
        }
        let reached = self.last_step.unwrap_or(0);
        if reached < env_steps && !is_open {
            said.push(format!(
                "\"{shown}\" ends at step {reached}, but the checkpoint is of step {env_steps}: \
                 the records between them are missing"
            ));
        }
        if self.n_behind > 0 {
            said.push(format!(
                "\"{shown}\": {} after the checkpoint's step {env_steps} moved to {SUPERSEDED}",
                lines(self.n_behind)
            ));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder whose metrics hold `bytes`; removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn with(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("warp-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join(METRICS), bytes).unwrap();
            Self(path)
        }

        fn read(&self, name: &str) -> Vec<u8> {
            std::fs::read(self.0.join(name)).unwrap_or_default()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn line(step: u64) -> String {
        format!(
            "{{\"env_steps\":{step},\"episodes\":1,\"episode_return\":{{\"mean\":{step}.5}}}}\n"
        )
    }

    fn go_on(folder: &Folder, env_steps: u64) -> (Result<Vec<String>>, Vec<u64>) {
        let mut seen = Vec::new();
        let mut journal = Journal::open(&folder.0).unwrap();
        let gone = journal.go_on_after(env_steps, false, |logged| seen.push(logged.env_steps));
        (gone.map(|gone| gone.said), seen)
    }

    #[test]
    fn whatever_byte_is_damaged_no_byte_is_lost() {
        let text: String = (1..=6).map(line).collect();
        for (at, flip) in (0..text.len()).flat_map(|at| [(at, 0xff), (at, 1), (at, 4)]) {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= flip;
            let folder = Folder::with("journal-damaged", &damaged);
            let (said, _) = go_on(&folder, 4);
            let kept = [folder.read(METRICS), folder.read(SUPERSEDED)].concat();
            assert!(kept == damaged || kept == [&damaged[..], b"\n"].concat(), "{at} {flip}");
            // What was good before the damage stays where it is.
            let before = at / line(1).len();
            assert!(folder.read(METRICS).len() >= before.min(4).saturating_sub(1) * line(1).len());
            assert!(said.is_err() || !said.unwrap().is_empty(), "{at} {flip}");
        }
    }

    #[test]
    fn later_lines_and_a_torn_one_are_set_aside_and_said() {
        let torn = "{\"env_steps\":7,\"epi";
        let text: String = (1..=6).map(line).chain([torn.into()]).collect();
        let folder = Folder::with("journal-later", text.as_bytes());
        let (said, seen) = go_on(&folder, 4);
        assert_eq!(seen, [1, 2, 3, 4]);
        let said = said.unwrap();
        assert!(said.len() == 1 && said[0].contains("3 lines after the checkpoint's step 4"));
        assert_eq!(folder.read(METRICS), (1..=4).map(line).collect::<String>().into_bytes());
        let aside: String = (5..=6).map(line).chain([format!("{torn}\n")]).collect();
        assert_eq!(folder.read(SUPERSEDED), aside.into_bytes());
        // Once more, and nothing is left to do.
        assert_eq!(go_on(&folder, 4).0.unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_or_out_of_order_is_said() {
        let folder = Folder::with("journal-short", (line(1) + line(2).trim_end()).as_bytes());
        let said = go_on(&folder, 4).0.unwrap();
        assert!(said.len() == 1 && said[0].contains("ends at step 2"), "{said:?}");
        assert_eq!(folder.read(METRICS), (line(1) + &line(2)).into_bytes());
        let text = [line(1), line(9), line(2)].concat();
        let folder = Folder::with("journal-disorder", text.as_bytes());
        let error = go_on(&folder, 4).0.unwrap_err().to_string();
        assert!(error.contains("line 3 is of step 2 but follows one of step 9"), "{error}");
        assert_eq!(folder.read(METRICS), text.into_bytes());
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let long = [line(1).into_bytes(), vec![b'0'; 3 * LONGEST], b"\n".into(), line(2).into()];
        let folder = Folder::with("journal-long", &long.concat());
        let mut lengths = Vec::new();
        each_line(&folder.0.join(METRICS), |line| {
            lengths.push((line.bytes.len(), line.end - line.start))
        })
        .unwrap();
        assert_eq!(lengths[1], (LONGEST, 3 * LONGEST as u64 + 1));
        assert_eq!(go_on(&folder, 2).1, [1, 2]);
    }

    #[test]
    fn one_at_a_time() {
        let folder = Folder::with("journal-lock", b"");
        let first = Journal::open(&folder.0).unwrap();
        let error = Journal::open(&folder.0).unwrap_err().to_string();
        assert!(error.contains("another process is using this folder"), "{error}");
        drop(first);
        Journal::open(&folder.0).unwrap();
    }
}
