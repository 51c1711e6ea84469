//! TensorBoard's events of a fleet: `FLEET/tensorboard/run-<number>/`, a folder for each of its first runs, made from
//! the fleet's `metrics.jsonl` when it ends or stops.

use super::event::{self, When};
use super::event_file::{EventFile, frame};
use super::fleet_lines::each_part;
use super::{flatten, parameters};
use anyhow::Result;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use warp_core::toml::{Table, Value as Toml};
use warp_train::fleet::Listed;
use warp_train::run::replace_folder;

/// Where the events are, in the fleet's folder.
pub const EVENTS: &str = "tensorboard";

/// Runs that have events, at most: what TensorBoard can show side by side.
const MOST: usize = 100;

/// The events of a fleet's first runs: a few KB for each of their records, of which there are at most a hundred.
#[derive(Debug)]
pub struct FleetEvents {
    runs: Vec<Listed>,
    /// By run.
    frames: BTreeMap<u64, Vec<u8>>,
}

impl FleetEvents {
    /// Makes those of the runs `listed` of what the fleet in `folder` has recorded.
    ///
    /// # Errors
    /// Metrics that can't be read.
    pub fn read(folder: &Path, listed: &[Listed]) -> Result<Self> {
        let runs = listed[..listed.len().min(MOST)].to_vec();
        let shown: BTreeSet<u64> = runs.iter().map(|one| one.run as u64).collect();
        let mut all: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        each_part(
            folder,
            |lines| frames(lines, &shown),
            |found| {
                found.into_iter().for_each(|(run, own)| all.entry(run).or_default().extend(own));
                Ok(())
            },
        )?;
        Ok(Self { runs, frames: all })
    }

    /// Writes them in the place of those of an earlier time.
    ///
    /// # Errors
    /// A folder that can't be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        replace_folder(&folder.join(EVENTS), |place| {
            self.runs.iter().try_for_each(|one| {
                let mut events = begun(place, one)?;
                self.frames.get(&(one.run as u64)).map_or(Ok(()), |frames| events.append(frames))
            })
        })
    }
}

/// The frames of some lines, for each of the runs `shown`.
fn frames(lines: &[u8], shown: &BTreeSet<u64>) -> BTreeMap<u64, Vec<u8>> {
    let mut found: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        // Most lines are of runs without events, and too many to be read for nothing.
        if run_of(line).is_some_and(|run| !shown.contains(&run)) {
            continue;
        }
        // An incomplete last line: the fleet was killed.
        let Ok(Value::Object(mut line)) = serde_json::from_slice(line) else { continue };
        let mut taken = |key: &str| line.remove(key).and_then(|number| number.as_u64());
        let (Some(run), Some(step)) = (taken("run"), taken("env_steps")) else { continue };
        taken("seed");
        if !shown.contains(&run) {
            continue;
        }
        let mut values = Vec::new();
        flatten("", &Value::Object(line), &mut |tag, number| {
            // Alone, a figure without a group would be one in TensorBoard's page.
            let tag = if tag.contains('/') { tag.into() } else { format!("run/{tag}") };
            values.push(event::scalar(&tag, number));
        });
        found.entry(run).or_default().extend(frame(&When::now(step).summary(values)));
    }
    found
}

/// The number of a line's run, if the line begins with it, as records do.
fn run_of(line: &[u8]) -> Option<u64> {
    let number = line.strip_prefix(b"{\"run\":")?;
    let end = number.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&number[..end]).ok()?.parse().ok()
}

/// The file of a run, with its seed and swept values.
fn begun(place: &Path, one: &Listed) -> Result<EventFile> {
    let mut events = EventFile::create(&place.join(format!("run-{}", one.run)))?;
    let now = When::now(0);
    let mut keys: Table = one.swept.clone();
    keys.insert("seed".into(), Toml::Integer(one.seed as i64));
    let about = event::hyper_parameters(&parameters(&keys), now.wall_time);
    events.write([now.file_version(), now.summary(vec![about])])?;
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::read_frames;
    use warp_train::journal::METRICS;

    #[test]
    fn a_run_is_known_by_the_beginning_of_its_line() {
        for (line, run) in [
            ("{\"run\":17,\"seed\":3", Some(17)),
            ("{\"run\":0}", Some(0)),
            ("{\"run\":1", None),
            ("{\"run\":-1}", None),
            ("{\"run\": 1}", None),
            ("{\"seed\":1,\"run\":2}", None),
            ("", None),
        ] {
            assert_eq!(run_of(line.as_bytes()), run, "{line}");
        }
    }

    #[test]
    fn each_run_has_its_own_events_and_no_others() {
        let folder = std::env::temp_dir().join(format!("warp-fleet-events-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let line = |run: usize, step: u64| {
            format!(
                "{{\"run\":{run},\"seed\":9,\"env_steps\":{step},\"policy\":{{\"a\":{{\"loss\":0.5}}}}}}\n"
            )
        };
        let text = line(0, 10) + &line(7, 10) + &line(1, 10) + &line(0, 20) + "{\"run\":1,\"env_st";
        std::fs::write(folder.join(METRICS), text).unwrap();
        let listed = [0, 1].map(|run| Listed { run, seed: 9, swept: Table::new() });
        // The second time takes the place of the first.
        for _ in 0..2 {
            FleetEvents::read(&folder, &listed).unwrap().write(&folder).unwrap();
        }
        for (run, n) in [(0, 2), (1, 1)] {
            let own = folder.join(format!("tensorboard/run-{run}"));
            let files: Vec<_> = std::fs::read_dir(&own).unwrap().collect();
            assert_eq!(files.len(), 1);
            let bytes = std::fs::read(files[0].as_ref().unwrap().path()).unwrap();
            let frames = read_frames(&bytes);
            // Version and hyper-parameters, and then a frame a line.
            assert_eq!(frames.len(), 2 + n);
            let has =
                |frame: &[u8], tag: &str| frame.windows(tag.len()).any(|w| w == tag.as_bytes());
            assert!(
                frames[2..].iter().all(|frame| has(frame, "policy/a/loss") && !has(frame, "seed"))
            );
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
