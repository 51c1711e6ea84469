//! What a run of a fleet leaves when it has ended, also as bytes on their way to the process that writes.

use super::Listed;
use super::ends::Ending;
use super::summary::RunSummary;
use crate::digest::digest;
use crate::error::{Error, Result};

/// Weights of a run that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Weights {
    /// As they are in a file.
    Encoded(Vec<u8>),
    /// In their file, which has this digest.
    Written(String),
}

/// A run that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EndedRun {
    pub(super) summary: RunSummary,
    /// Its records.
    pub(super) lines: String,
    pub(super) n_lines: usize,
    /// None of a run that broke.
    pub(super) weights: Option<Weights>,
}

impl EndedRun {
    /// The digest of its weights.
    pub(super) fn digest(&self) -> Option<String> {
        self.weights.as_ref().map(|weights| match weights {
            Weights::Encoded(bytes) => digest(bytes),
            Weights::Written(digest) => digest.clone(),
        })
    }

    /// About how many bytes it takes to send it.
    pub(super) fn size(&self) -> usize {
        self.lines.len() + self.encoded().len()
    }

    fn encoded(&self) -> &[u8] {
        match &self.weights {
            Some(Weights::Encoded(bytes)) => bytes,
            _ => &[],
        }
    }

    /// Its ending, records and weights.
    pub(super) fn to_parts(&self) -> Result<[Vec<u8>; 3]> {
        let ending = Ending::of(&self.summary, self.n_lines, self.digest());
        let ending = serde_json::to_vec(&ending)
            .map_err(|e| Error::Invalid(format!("a run's end can't be encoded: {e}")))?;
        Ok([ending, self.lines.clone().into_bytes(), self.encoded().to_vec()])
    }

    /// The run of these parts, if it is one of those that are listed and came as it was sent.
    pub(super) fn of_parts(parts: &[Vec<u8>], listed: &[Listed]) -> Option<Self> {
        let [ending, lines, weights] = parts else { return None };
        let ending: Ending = serde_json::from_slice(ending).ok()?;
        let listed = listed.get(ending.run())?;
        let n_lines = ending.n_records;
        let weights = match &ending.weights {
            Some(expected) if *expected != digest(weights) => return None,
            Some(_) => Some(Weights::Encoded(weights.clone())),
            None => None,
        };
        let lines = String::from_utf8(lines.clone()).ok()?;
        Some(Self { summary: ending.summary(listed), lines, n_lines, weights })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::toml::Table;

    #[test]
    fn a_run_arrives_as_it_was_sent_or_not_at_all() {
        let swept: Table = "gamma = 0.9".parse().unwrap();
        let listed = [0, 1].map(|run| Listed { run, seed: 7 + run as u64, swept: swept.clone() });
        let summary = RunSummary {
            run: 1,
            seed: 8,
            swept,
            env_steps: 512,
            mean_episode_return: Some(0.1 + 0.2),
            mean_group_return: [("pole".to_string(), 1.0 / 3.0)].into_iter().collect(),
            error: None,
            stopped_in_round: None,
        };
        let weights = Some(Weights::Encoded(vec![1, 2, 3]));
        let run = EndedRun { summary, lines: "{}\n{}\n".into(), n_lines: 2, weights };
        let mut parts = run.to_parts().unwrap();
        assert_eq!(EndedRun::of_parts(&parts, &listed), Some(run.clone()));
        assert_eq!(EndedRun::of_parts(&parts, &listed[..1]), None);
        parts[2][1] = 9;
        assert_eq!(EndedRun::of_parts(&parts, &listed), None);
        let error = Some("it diverged".into());
        let broken =
            EndedRun { summary: RunSummary { error, ..run.summary }, weights: None, ..run };
        let parts = broken.to_parts().unwrap();
        assert_eq!(EndedRun::of_parts(&parts, &listed), Some(broken));
    }
}
