//! A run and one of its checkpoints, as people name them: `RUN`, `RUN@STEP` or `RUN@best`.

use super::run_folder::Run;
use crate::error::Result;
use crate::run::checkpoint::Checkpoint;
use std::path::{Path, PathBuf};

/// A run, and which of its checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The run's folder.
    pub folder: PathBuf,
    /// Which of its checkpoints.
    pub which: Which,
}

/// Which checkpoint of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The newest.
    Newest,
    /// The one whose evaluation had the highest mean return.
    Best,
    /// The one after so many environment steps.
    Step(u64),
}

impl Place {
    /// Takes a name apart; a folder that is called so is a run.
    #[must_use]
    pub fn parse(given: &Path) -> Self {
        let parts =
            given.to_str().filter(|_| !given.exists()).and_then(|text| text.rsplit_once('@'));
        let which = |which: &str| match which {
            "best" => Some(Which::Best),
            step => step.parse().ok().map(Which::Step),
        };
        match parts.and_then(|(folder, text)| Some((folder, which(text)?))) {
            Some((folder, which)) => Self { folder: folder.into(), which },
            None => Self { folder: given.into(), which: Which::Newest },
        }
    }

    /// Reads and verifies the checkpoint.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let checkpoints = Run::checkpoints(&self.folder);
        match self.which {
            Which::Newest => Checkpoint::newest(&checkpoints),
            Which::Best => Checkpoint::at(&checkpoints, Run::best_step(&self.folder)?),
            Which::Step(step) => Checkpoint::at(&checkpoints, step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_last_at_says_which_checkpoint() {
        let place = |text: &str| Place::parse(Path::new(text));
        let parsed = |folder: &str, which| Place { folder: folder.into(), which };
        assert_eq!(place("runs/a"), parsed("runs/a", Which::Newest));
        assert_eq!(place("runs/a@500"), parsed("runs/a", Which::Step(500)));
        assert_eq!(place("runs/a@b@best"), parsed("runs/a@b", Which::Best));
        assert_eq!(place("runs/a@worst"), parsed("runs/a@worst", Which::Newest));
    }
}
