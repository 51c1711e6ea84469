//! `--sweep`: which values the runs of a fleet have.
//!
//! A `Dimension` is one key with the values that were listed, or the range they are sampled from, possibly only
//! for some settings. [`Sweep::settings`] puts dimensions together: every combination of listed values, and for
//! each as many settings as samples from the ranges that apply to it.

mod dimension;
mod range;

use anyhow::{Result, bail};
use dimension::{Dimension, Values};

/// A setting: swept keys with their values, as a command line has them.
pub type Setting = Vec<(String, String)>;

/// What is swept.
#[derive(Debug, Clone)]
pub struct Sweep {
    dimensions: Vec<Dimension>,
    samples: u32,
    seed: u64,
}

impl Sweep {
    /// The sweep that `texts` describe, as `--sweep` takes them; `samples` are drawn from ranges for each combination of listed values.
    ///
    /// # Errors
    /// A text that is no sweep, a key that can't be swept, ranges without samples or samples without ranges.
    pub fn parse(texts: &[String], samples: Option<u32>, seed: u64) -> Result<Self> {
        let mut dimensions: Vec<Dimension> = Vec::new();
        for text in texts {
            let next = Dimension::parse(text)?;
            next.check_beside(&dimensions)?;
            dimensions.push(next);
        }
        let drawn = dimensions.iter().find(|dimension| dimension.is_drawn());
        match (drawn, samples) {
            (Some(drawn), None) => {
                bail!("--sweep {}: set the number of sampled values with --samples N", drawn.text())
            }
            (None, Some(n)) => bail!(
                "--samples {n}: no range is swept; one is KEY=uniform(LOW,HIGH), log_uniform, int_uniform or \
                 int_log_uniform"
            ),
            _ => Ok(Self { dimensions, samples: samples.unwrap_or(1), seed }),
        }
    }

    /// All settings, each once.
    ///
    /// The samples of a key depend only on the sweep's seed, the key and the sample's number: settings that
    /// differ in listed values are compared at the same samples.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![Setting::new()];
        for dimension in &self.dimensions {
            if let Values::Listed(values) = dimension.values() {
                let with = |setting: &Setting| match dimension.applies_to(setting) {
                    true => values.iter().map(|value| dimension.with(setting, value)).collect(),
                    false => vec![setting.clone()],
                };
                settings = settings.iter().flat_map(with).collect();
            }
        }
        let mut all: Vec<Setting> = Vec::new();
        for setting in settings {
            for sample in 0..self.samples {
                let drawn = self.drawn(&setting, sample);
                if !all.contains(&drawn) {
                    all.push(drawn);
                }
            }
        }
        all
    }

    /// The setting with what is drawn for it.
    fn drawn(&self, setting: &Setting, sample: u32) -> Setting {
        let mut drawn = setting.clone();
        for dimension in self.dimensions.iter().filter(|one| one.applies_to(setting)) {
            if let Values::Drawn(range) = dimension.values() {
                let value = range.draw(self.seed, dimension.key(), sample);
                drawn = dimension.with(&drawn, &value);
            }
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(texts: &[&str], samples: Option<u32>, seed: u64) -> Result<Vec<Setting>> {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        Ok(Sweep::parse(&texts, samples, seed)?.settings())
    }

    fn shown(settings: &[Setting]) -> Vec<String> {
        let one = |(key, value): &(String, String)| format!("{key}={value}");
        settings.iter().map(|s| s.iter().map(one).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn listed_values_are_combined() {
        let found = settings(&["gamma=0.9,0.8", "hidden=[8],[4, 4]"], None, 0).unwrap();
        let expected = [
            "gamma=0.9 hidden=[8]",
            "gamma=0.9 hidden=[4, 4]",
            "gamma=0.8 hidden=[8]",
            "gamma=0.8 hidden=[4, 4]",
        ];
        assert_eq!(shown(&found), expected);
        assert_eq!(settings(&[], None, 0).unwrap(), [Setting::new()]);
    }

    #[test]
    fn what_is_swept_on_a_condition_is_there_where_it_holds() {
        let found = settings(
            &[
                "algorithm=ppo,a2c",
                "clip_coef=0.1,0.2 if algorithm=ppo",
                "gamma=0.9,0.8 if clip_coef=0.2",
            ],
            None,
            0,
        );
        let expected = [
            "algorithm=ppo clip_coef=0.1",
            "algorithm=ppo clip_coef=0.2 gamma=0.9",
            "algorithm=ppo clip_coef=0.2 gamma=0.8",
            "algorithm=a2c",
        ];
        assert_eq!(shown(&found.unwrap()), expected);
    }

    #[test]
    fn draws_depend_on_seed_key_and_sample_alone() {
        let lr = "learning_rate=log_uniform(1e-5, 1e-2)";
        let alone = settings(&[lr], Some(4), 3).unwrap();
        let beside = settings(&["num_epochs=1,2", lr, "gamma=uniform(0.9,1)"], Some(4), 3).unwrap();
        let rates = |settings: &[Setting]| -> Vec<String> {
            let rate = |setting: &Setting| {
                setting.iter().find(|(key, _)| key == "learning_rate").unwrap().1.clone()
            };
            settings.iter().map(rate).collect()
        };
        assert_eq!((alone.len(), beside.len()), (4, 8));
        assert_eq!(rates(&beside), [rates(&alone), rates(&alone)].concat());
        assert_ne!(rates(&settings(&[lr], Some(4), 4).unwrap()), rates(&alone));
        // A longer search goes on where the shorter one ended.
        assert_eq!(settings(&[lr], Some(9), 3).unwrap()[..4], alone[..]);
    }

    #[test]
    fn settings_that_are_drawn_twice_are_there_once() {
        let found = settings(&["num_epochs=int_uniform(1,3)"], Some(64), 0).unwrap();
        let mut found = shown(&found);
        found.sort();
        assert_eq!(found, ["num_epochs=1", "num_epochs=2", "num_epochs=3"]);
        // Where no range applies there is nothing to draw.
        let texts = ["algorithm=ppo,a2c", "clip_coef=uniform(0.1,0.3) if algorithm=ppo"];
        assert_eq!(settings(&texts, Some(5), 0).unwrap().len(), 6);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (texts, samples, words) in [
            (&["gamma=uniform(0.9,1)"][..], None, "the number of sampled values with --samples N"),
            (&["gamma=0.9,0.8"], Some(3), "--samples 3: no range is swept"),
            (&["gamma=0.9", "gamma=0.8"], None, "gamma is swept already"),
            (&["clip_coef=0.1 if algorithm=ppo"], None, "no --sweep before it lists algorithm=ppo"),
            (
                &["algorithm=a2c", "clip_coef=0.1 if algorithm=ppo"],
                None,
                "no --sweep before it lists algorithm=ppo",
            ),
        ] {
            let error = settings(texts, samples, 0).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        // One key may have its own values on each condition.
        let texts =
            ["algorithm=ppo,a2c", "gamma=0.9 if algorithm=ppo", "gamma=0.8 if algorithm=a2c"];
        assert_eq!(settings(&texts, None, 0).unwrap().len(), 2);
    }
}
