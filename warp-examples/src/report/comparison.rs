//! What scores say of settings, task by task and, where they are normalised, over all tasks.

use super::scores::Scores;
use super::statistics::{
    Bootstrap, Estimated, Sample, Strata, interquartile_mean, mean, median, over_tasks,
    probability_of_improvement,
};
use crate::records::setting::Setting;
use serde::Serialize;
use std::collections::BTreeMap;

/// Scores that count as 0 and 1 in a task.
pub type Scales = BTreeMap<String, [f64; 2]>;

/// One task, or all of them together.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// The task; or that it is all of them.
    pub title: String,
    /// A row for each setting, the highest interquartile mean first.
    pub rows: Vec<Row>,
    /// How probably one setting's run is better than another's; each pair once.
    pub improvements: Vec<Improvement>,
}

/// A setting's figures.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What the setting is called.
    pub label: String,
    /// Runs.
    pub n: usize,
    /// Mean over runs; over tasks of their means, if there are several.
    pub mean: Estimated,
    /// Median, likewise.
    pub median: Estimated,
    /// Interquartile mean over all runs.
    pub interquartile_mean: Estimated,
    /// The worst run.
    pub min: f64,
    /// The best run.
    pub max: f64,
    /// Its runs' scores by task.
    #[serde(skip)]
    pub strata: Strata,
}

/// How probably a run of one setting is better than one of another.
#[derive(Debug, Clone, Serialize)]
pub struct Improvement {
    /// The one.
    pub better: String,
    /// The other.
    pub than: String,
    /// The probability.
    pub probability: Estimated,
}

/// All sections: a task each, then all tasks together if each has a scale and there are several.
#[must_use]
pub fn sections(scores: &Scores, scales: &Scales, bootstrap: &Bootstrap) -> Vec<Section> {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for score in &scores.list {
        let at = tasks.iter().position(|task| task.name == score.task).unwrap_or_else(|| {
            tasks.push(Task { name: &score.task, settings: BTreeMap::new() });
            tasks.len() - 1
        });
        tasks[at].settings.entry(score.setting).or_default().push(score.value);
    }
    let alone = |task: &Task<'_>| {
        let strata = task.labelled(scores).into_iter().map(|(label, own)| (label, vec![own]));
        section(task.name.into(), strata, bootstrap)
    };
    let mut found: Vec<Section> = tasks.iter().map(alone).collect();
    if tasks.len() > 1 && tasks.iter().all(|task| scales.contains_key(task.name)) {
        let title = format!("all {} tasks, normalised", tasks.len());
        found.push(section(title, together(&tasks, scores, scales), bootstrap));
    }
    found
}

/// One task with the scores of each setting that has runs in it.
struct Task<'a> {
    name: &'a str,
    settings: BTreeMap<usize, Vec<f64>>,
}

impl Task<'_> {
    /// What each setting is called beside the others, with its scores.
    fn labelled(&self, scores: &Scores) -> Vec<(String, Vec<f64>)> {
        let here: Vec<&Setting> = self.settings.keys().map(|n| &scores.settings[*n]).collect();
        let label = |setting: &Setting| setting.label(here.iter().copied());
        here.iter().map(|setting| label(setting)).zip(self.settings.values().cloned()).collect()
    }
}

/// The normalised scores of each label that has runs in all tasks.
fn together(tasks: &[Task<'_>], scores: &Scores, scales: &Scales) -> Vec<(String, Strata)> {
    let mut found: BTreeMap<String, Strata> = BTreeMap::new();
    for task in tasks {
        let [low, high] = scales.get(task.name).copied().unwrap_or([0.0, 1.0]);
        for (label, own) in task.labelled(scores) {
            let own = own.iter().map(|score| (score - low) / (high - low)).collect();
            found.entry(label).or_default().push(own);
        }
    }
    found.retain(|_, strata| strata.len() == tasks.len());
    found.into_iter().collect()
}

fn section(
    title: String,
    settings: impl IntoIterator<Item = (String, Strata)>,
    bootstrap: &Bootstrap,
) -> Section {
    let settings = settings.into_iter();
    let mut rows: Vec<Row> =
        settings.map(|(label, strata)| row(label, strata, bootstrap)).collect();
    rows.sort_by(|a, b| b.interquartile_mean.value.total_cmp(&a.interquartile_mean.value));
    let improvements = improvements(&rows, bootstrap);
    Section { title, rows, improvements }
}

fn row(label: String, strata: Strata, bootstrap: &Bootstrap) -> Row {
    let all = strata.concat();
    let figures = bootstrap.estimate_each(&[&strata], |samples| {
        let Sample { strata, all } = &samples[0];
        [over_tasks(strata, mean), over_tasks(strata, median), interquartile_mean(all)]
    });
    Row {
        label,
        n: all.len(),
        mean: figures[0],
        median: figures[1],
        interquartile_mean: figures[2],
        min: all.iter().copied().fold(f64::INFINITY, f64::min),
        max: all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        strata,
    }
}

fn improvements(rows: &[Row], bootstrap: &Bootstrap) -> Vec<Improvement> {
    let both =
        |samples: &[Sample]| probability_of_improvement(&samples[0].strata, &samples[1].strata);
    let pair = |better: &Row, than: &Row| Improvement {
        better: better.label.clone(),
        than: than.label.clone(),
        probability: bootstrap.estimate_of(&[&better.strata, &than.strata], both),
    };
    let pairs = rows.iter().enumerate();
    pairs
        .flat_map(|(at, better)| rows[at + 1..].iter().map(move |than| pair(better, than)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::scores::Score;

    fn scores() -> Scores {
        let registry = warp_envs::registry();
        let setting = |env: &str, algorithm: &str| {
            let sets = [format!("algorithm={algorithm}")];
            let config = crate::settings::configure(env, &sets, &registry).unwrap();
            Setting::new(&config, &registry).unwrap()
        };
        let settings =
            [("cartpole", "ppo"), ("cartpole", "a2c"), ("acrobot", "ppo"), ("acrobot", "dqn")];
        let mut list = Vec::new();
        for (setting, values) in
            [(0, [400.0, 500.0]), (1, [100.0, 500.0]), (2, [-100.0, -80.0]), (3, [-90.0, -90.0])]
        {
            let task = settings[setting].0.to_string();
            list.extend(values.map(|value| Score {
                task: task.clone(),
                setting,
                env_steps: 1,
                value,
            }));
        }
        let settings = settings.map(|(env, algorithm)| setting(env, algorithm)).to_vec();
        Scores { list, settings, ..Scores::default() }
    }

    #[test]
    fn settings_are_ranked_in_each_task() {
        let bootstrap = Bootstrap { resamples: 200, seed: 0 };
        let found = sections(&scores(), &Scales::new(), &bootstrap);
        let titles: Vec<_> = found.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["cartpole", "acrobot"]);
        let rows: Vec<_> =
            found[0].rows.iter().map(|row| (row.label.as_str(), row.mean.value)).collect();
        assert_eq!(rows, [("PPO", 450.0), ("A2C", 300.0)]);
        let [pair] = &found[0].improvements[..] else { panic!("{found:?}") };
        assert_eq!((pair.better.as_str(), pair.than.as_str()), ("PPO", "A2C"));
        // 400 and 500 against 100 and 500: two wins, a tie and a defeat.
        assert_eq!(pair.probability.value, 2.5 / 4.0);
    }

    #[test]
    fn scores_of_several_tasks_are_compared_where_all_have_scales() {
        let bootstrap = Bootstrap { resamples: 200, seed: 0 };
        let scale = |task: &str, range| (task.to_string(), range);
        let scales: Scales =
            [scale("cartpole", [0.0, 500.0]), scale("acrobot", [-500.0, 0.0])].into();
        let found = sections(&scores(), &scales, &bootstrap);
        let all = found.last().unwrap();
        assert_eq!((found.len(), all.title.as_str()), (3, "all 2 tasks, normalised"));
        // Only PPO has runs in both.
        let [row] = &all.rows[..] else { panic!("{all:?}") };
        assert_eq!((row.label.as_str(), row.n), ("PPO", 4));
        assert!((row.mean.value - (0.8 + 1.0 + 0.8 + 0.84) / 4.0).abs() < 1e-12, "{row:?}");
    }
}
