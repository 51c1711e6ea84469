//! A run that somebody else trains, followed by what it adds to its `metrics.jsonl`.

use super::model::{Files, Shown};
use crate::records::history::damage;
use crate::run_config::read_config;
use anyhow::{Context, Result};
use std::fs::Metadata;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use warp_data::file;
use warp_func::Registry;
use warp_train::journal::METRICS;

/// Bytes that are read at once, at most.
const PIECE: u64 = 1 << 22;

/// A run and how much of it has been read.
#[derive(Debug)]
pub struct Followed {
    path: PathBuf,
    read: u64,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
    /// Lines that can't be read.
    n_damaged: u64,
    /// What there is to be seen of it.
    pub shown: Shown,
}

impl Followed {
    /// The run in `folder`, from its beginning.
    ///
    /// # Errors
    /// A folder without a run.
    pub fn open(folder: &Path, registry: &Registry) -> Result<Self> {
        let config = read_config(folder, registry)?;
        let title = folder.display().to_string();
        let shown = Shown::new(title, 0, config.end_after(0));
        Ok(Self { path: folder.join(METRICS), read: 0, begun: Vec::new(), n_damaged: 0, shown })
    }

    /// What its files say, of which the metrics have these `metadata`.
    fn files(&self, metadata: &Metadata) -> Files {
        let written = metadata.modified().ok();
        let summary = self.path.with_file_name("summary.json").metadata();
        let ended = summary.and_then(|summary| summary.modified()).ok();
        let silent = written.and_then(|written| written.elapsed().ok());
        Files {
            silent: silent.map(|silent| silent.as_secs_f64()),
            has_ended: ended.is_some() && ended >= written,
        }
    }

    /// What there is to say of lines that can't be read; nothing if all can.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        damage(&self.path, self.n_damaged)
    }

    /// Takes in what has been added; whether that was anything.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn update(&mut self) -> Result<bool> {
        let about = || format!("cannot read \"{}\"", self.path.display());
        let mut file = file::open(&self.path).with_context(about)?;
        let found = file.metadata().with_context(about)?;
        let length = found.len();
        self.shown.files = self.files(&found);
        if length < self.read {
            // A run that went back to an older checkpoint begins again.
            (self.read, self.n_damaged, self.shown.returns) = (0, 0, Default::default());
            self.begun.clear();
        }
        let before = self.read;
        file.seek(SeekFrom::Start(self.read)).with_context(about)?;
        loop {
            let n = file.by_ref().take(PIECE).read_to_end(&mut self.begun).with_context(about)?;
            self.read += n as u64;
            let whole = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for line in self.begun[..whole].split_inclusive(|byte| *byte == b'\n') {
                match serde_json::from_slice(line) {
                    Ok(line) => self.shown.line(&line),
                    Err(_) => self.n_damaged += 1,
                }
            }
            self.begun.drain(..whole);
            if n == 0 {
                return Ok(self.read > before);
            }
        }
    }
}
