//! `open_line.json` in a run's folder: the iterations that its last record sums up so far, if the run ended before that
//! record was complete. A run that is resumed from there goes on with the record, as if it had never ended.

use crate::engine::StepRates;
use crate::error::{Error, Result};
use crate::run::durable;
use crate::run::iteration_sum::{FigureSum, FigureSums, IterationSum};
use crate::run::metrics::{EpisodeMetrics, IterationMetrics, MeanMinMax};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use warp_data::file;

/// What the file is called.
pub(crate) const OPEN_LINE: &str = "open_line.json";

/// A number bit by bit: JSON's are not always read back as they were.
type Bits = u64;

/// What the file holds: an [`IterationSum`] without what the clock says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenLine {
    n: u64,
    iteration: u64,
    env_steps: u64,
    agent_steps: u64,
    episodes: u64,
    /// Mean, minimum and maximum, here and below.
    episode_return: Option<[Bits; 3]>,
    episode_length: Option<[Bits; 3]>,
    group_return: BTreeMap<String, [Bits; 3]>,
    statistics: BTreeMap<String, Bits>,
    /// By policy: names with sums, and how many iterations had them.
    figures: BTreeMap<String, Vec<(String, Bits, u64)>>,
}

/// Leaves behind in `folder` what `sum` has; nothing where that is nothing.
pub(crate) fn write(folder: &Path, sum: &IterationSum) -> Result<()> {
    let path = folder.join(OPEN_LINE);
    match OpenLine::of(sum) {
        Some(line) => {
            let text = serde_json::to_string(&line);
            let text = text.map_err(|e| Error::file("cannot encode", &path, e))?;
            durable::write_whole(&path, text + "\n")
        }
        None if path.exists() => durable::delete(&path),
        None => Ok(()),
    }
}

/// What a run left in `folder` that ended after `env_steps` steps; nothing if that is of another step, or can't be read.
pub(crate) fn read(folder: &Path, env_steps: u64) -> Option<IterationSum> {
    let bytes = file::read(&folder.join(OPEN_LINE), file::CONFIGURATION).ok()?;
    let line: OpenLine = serde_json::from_slice(&bytes).ok()?;
    (line.env_steps == env_steps && line.n > 0).then(|| line.sum())
}

fn bits(MeanMinMax { mean, min, max }: MeanMinMax) -> [Bits; 3] {
    [mean, min, max].map(f64::to_bits)
}

fn spread(bits: [Bits; 3]) -> MeanMinMax {
    let [mean, min, max] = bits.map(f64::from_bits);
    MeanMinMax { mean, min, max }
}

impl OpenLine {
    fn of(sum: &IterationSum) -> Option<Self> {
        let open = sum.open.as_ref()?;
        let episodes = &open.episodes;
        let figure = |one: &FigureSum| (one.name.to_string(), one.sum.to_bits(), one.n);
        let figures = |(policy, sums): (&String, &FigureSums)| {
            (policy.clone(), sums.0.iter().map(figure).collect())
        };
        let groups = episodes.group_return.iter();
        let statistics = episodes.statistics.iter();
        Some(Self {
            n: sum.n,
            iteration: open.iteration,
            env_steps: open.env_steps,
            agent_steps: open.agent_steps,
            episodes: episodes.episodes,
            episode_return: episodes.episode_return.map(bits),
            episode_length: episodes.episode_length.map(bits),
            group_return: groups.map(|(name, one)| (name.clone(), bits(*one))).collect(),
            statistics: statistics.map(|(name, mean)| (name.clone(), mean.to_bits())).collect(),
            figures: sum.figures.iter().map(figures).collect(),
        })
    }

    fn sum(self) -> IterationSum {
        let groups = self.group_return.into_iter();
        let statistics = self.statistics.into_iter();
        let episodes = EpisodeMetrics {
            episodes: self.episodes,
            episode_return: self.episode_return.map(spread),
            episode_length: self.episode_length.map(spread),
            group_return: groups.map(|(name, bits)| (name, spread(bits))).collect(),
            statistics: statistics.map(|(name, bits)| (name, f64::from_bits(bits))).collect(),
        };
        let open = IterationMetrics {
            iteration: self.iteration,
            env_steps: self.env_steps,
            agent_steps: self.agent_steps,
            episodes,
            policy: BTreeMap::new(),
            steps_per_second: StepRates::default(),
            evaluation: None,
            league: None,
        };
        // Names of figures last as long as the program; these are few, and read once.
        let figure = |(name, sum, n): (String, Bits, u64)| FigureSum {
            name: name.leak(),
            sum: f64::from_bits(sum),
            n,
        };
        let figures = self
            .figures
            .into_iter()
            .map(|(policy, sums)| (policy, FigureSums(sums.into_iter().map(figure).collect())));
        IterationSum { open: Some(open), n: self.n, n_timed: 0, figures: figures.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::PolicyFigures;

    fn iteration(n: u64) -> IterationMetrics {
        // Numbers whose sums are rounded.
        let x = 0.1 * n as f64;
        let one = MeanMinMax { mean: x, min: x / 3.0, max: 7.0 * x };
        let figures = PolicyFigures::from_iter([("learning_rate", x), ("loss", 1.0 / x)]);
        IterationMetrics {
            iteration: n,
            env_steps: 10 * n,
            agent_steps: 20 * n,
            episodes: EpisodeMetrics {
                episodes: n,
                episode_return: Some(one),
                episode_length: Some(one),
                group_return: BTreeMap::from([("a".into(), one)]),
                statistics: BTreeMap::from([("tags".into(), x)]),
            },
            policy: BTreeMap::from([("a".into(), figures)]),
            steps_per_second: StepRates { total: 100.0, ..StepRates::default() },
            evaluation: None,
            league: None,
        }
    }

    #[test]
    fn a_sum_goes_on_bit_by_bit_where_it_was_left() {
        let folder = std::env::temp_dir().join(format!("warp-open-line-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut whole, mut part) = (IterationSum::default(), IterationSum::default());
        (1..=3).for_each(|n| part.add(&iteration(n)));
        write(&folder, &part).unwrap();
        assert!(read(&folder, 20).is_none(), "of another step");
        let mut rest = read(&folder, 30).unwrap();
        (1..=5).for_each(|n| whole.add(&iteration(n)));
        (4..=5).for_each(|n| rest.add(&iteration(n)));
        let (whole, rest) = (whole.take().unwrap(), rest.take().unwrap());
        // Rates are means over the iterations of this process.
        assert!((rest.steps_per_second.total - 100.0).abs() < 1e-9, "{rest:?}");
        let timeless =
            |metrics| IterationMetrics { steps_per_second: StepRates::default(), ..metrics };
        assert_eq!(timeless(whole), timeless(rest));
        // Once nothing is open, there is no file; and a damaged one says nothing.
        write(&folder, &IterationSum::default()).unwrap();
        assert!(!folder.join(OPEN_LINE).exists() && read(&folder, 30).is_none());
        std::fs::write(folder.join(OPEN_LINE), "{\"n\":1").unwrap();
        assert!(read(&folder, 30).is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
