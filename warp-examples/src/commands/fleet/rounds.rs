//! A fleet's launches: all runs to their ends, or round by round with only the better settings.

use crate::commands::progress::Progress;
use anyhow::Result;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use warp_train::fleet::{
    Fleet, FleetEvent, FleetLearner, FleetRun, Halving, Round, Together, launches,
};

/// What all rounds work with.
pub(super) struct Rounds<'a> {
    pub(super) runs: &'a [FleetRun],
    /// The numbers of those that this process trains; nothing where it trains all.
    pub(super) own: Option<BTreeSet<usize>>,
    pub(super) halving: Option<Halving>,
    pub(super) fleet: &'a Fleet,
    /// Whether this process shows how far the fleet is.
    pub(super) shows: bool,
}

impl Rounds<'_> {
    /// Trains this process's runs that have not ended until all have or it is to stop. Returns how many launches there
    /// were, or would have been for all runs together.
    pub(super) fn train(
        &self,
        learner: &mut dyn FleetLearner,
        together: &Together<'_>,
    ) -> Result<usize> {
        let settings = self.settings();
        let whole = [Round { number: 1, part: 1, keep: settings.len() }];
        let rounds = self.halving.map_or(whole.to_vec(), |halving| halving.rounds(settings.len()));
        let done = self.fleet.progress().0;
        let steps = self.steps(&rounds, settings.len());
        let watcher = self.shows.then(|| Watcher::new(done, steps, self.runs.len()));
        let watch = Watch { watcher: watcher.as_ref(), together };
        let mut n_launches = 0;
        for round in &rounds {
            let alive: Vec<&Vec<usize>> =
                settings.iter().filter(|setting| !self.is_out(setting)).collect();
            // Otherwise a fleet that was interrupted has decided that before.
            if round.is_last() || alive.len() > round.keep {
                n_launches += self.launch(round, &alive, learner, &watch)?;
            }
            if !round.is_last() {
                together.compare();
            }
            if together.is_asked() {
                break;
            }
            if !round.is_last() {
                self.stop_worst(round, alive)?;
            }
        }
        watcher.iter().for_each(Watcher::finish);
        Ok(n_launches)
    }

    /// The runs of each setting, by their places.
    fn settings(&self) -> Vec<Vec<usize>> {
        let mut found: Vec<Vec<usize>> = Vec::new();
        for (place, run) in self.runs.iter().enumerate() {
            // Runs of one setting follow each other.
            match found.last_mut() {
                Some(last) if self.runs[last[0]].swept == run.swept => last.push(place),
                _ => found.push(vec![place]),
            }
        }
        found
    }

    /// Whether all runs of a setting were stopped or broke.
    fn is_out(&self, setting: &[usize]) -> bool {
        setting.iter().all(|place| self.fleet.is_out(self.runs[*place].number))
    }

    /// Environment steps of the whole fleet, those that are done included; with several rounds about.
    fn steps(&self, rounds: &[Round], n_settings: usize) -> u64 {
        if rounds.len() == 1 {
            let left = self.runs.iter().filter(|run| !self.fleet.has_ended(run.number));
            let left = left.map(|run| run.config.end_after(0));
            return left.fold(self.fleet.progress().0, u64::saturating_add);
        }
        let (mut sum, mut before, mut alive) = (0.0, 0.0, n_settings);
        for round in rounds {
            let ends = self.runs.iter().map(|run| round.end_of(&run.config) as f64).sum::<f64>();
            sum += (ends - before) * alive as f64 / n_settings as f64;
            (before, alive) = (ends, round.keep);
        }
        sum as u64
    }

    /// Trains this process's runs of some settings as far as the round goes.
    fn launch(
        &self,
        round: &Round,
        settings: &[&Vec<usize>],
        learner: &mut dyn FleetLearner,
        watch: &Watch<'_>,
    ) -> Result<usize> {
        let left = self.left(round, settings);
        let launches = launches(&left);
        for launch in &launches {
            let is_own =
                |run: &FleetRun| self.own.as_ref().is_none_or(|own| own.contains(&run.number));
            // Most often one launch has all of them.
            let runs: Cow<'_, [FleetRun]> = match launch.len() == left.len() && self.own.is_none() {
                true => Cow::Borrowed(&left),
                false => {
                    launch.iter().map(|at| &left[*at]).filter(|run| is_own(run)).cloned().collect()
                }
            };
            if runs.is_empty() {
                continue;
            }
            learner.launch(&runs, &|run, event| {
                // A run at its end is kept, whoever asks.
                let goes_on =
                    matches!(event, FleetEvent::Finished(_)) || !watch.together.is_asked();
                match round.is_last() {
                    true => self.fleet.take(run, event)?,
                    false => self.fleet.take_pausing(run, event)?,
                }
                watch.watcher.iter().for_each(|watcher| watcher.look(self.fleet));
                if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if watch.together.is_asked() {
                break;
            }
        }
        Ok(launches.len())
    }

    /// The runs of some settings that have not ended, as long as the round lets them be.
    fn left(&self, round: &Round, settings: &[&Vec<usize>]) -> Cow<'_, [FleetRun]> {
        let runs = settings.iter().flat_map(|setting| setting.iter().map(|at| &self.runs[*at]));
        let left: Vec<_> = runs.filter(|run| !self.fleet.has_ended(run.number)).collect();
        // Most often all of them, to their ends.
        match round.is_last() && left.len() == self.runs.len() {
            true => Cow::Borrowed(self.runs),
            false => left.into_iter().map(|run| round.part_of(run)).collect(),
        }
    }

    /// Ends the settings that do not go on: those with the lowest mean returns over their runs, of equal ones
    /// the later.
    fn stop_worst(&self, round: &Round, mut settings: Vec<&Vec<usize>>) -> Result<()> {
        let mean = |setting: &[usize]| {
            let returns =
                setting.iter().filter_map(|at| self.fleet.mean_return(self.runs[*at].number));
            let returns: Vec<f64> = returns.collect();
            // No episode has ended: nothing is known for it.
            if returns.is_empty() {
                return f64::NEG_INFINITY;
            }
            returns.iter().sum::<f64>() / returns.len() as f64
        };
        settings.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
        for setting in settings.iter().skip(round.keep) {
            for place in *setting {
                self.fleet.stop(self.runs[*place].number, round.number)?;
            }
        }
        Ok(())
    }
}

/// What a launch is watched by.
struct Watch<'a> {
    watcher: Option<&'a Watcher>,
    together: &'a Together<'a>,
}

/// Shows how far the fleet is, now and then.
struct Watcher {
    progress: std::sync::Mutex<(Progress, Instant)>,
    n_runs: usize,
}

impl Watcher {
    fn new(done: u64, total_steps: u64, n_runs: usize) -> Self {
        let progress = std::sync::Mutex::new((Progress::new(done, total_steps), Instant::now()));
        Self { progress, n_runs }
    }

    fn look(&self, fleet: &Fleet) {
        // Whoever comes while another one writes need not.
        let Ok(mut progress) = self.progress.try_lock() else { return };
        let (progress, last) = &mut *progress;
        if last.elapsed() > Duration::from_millis(200) {
            *last = Instant::now();
            let (steps, ended) = fleet.progress();
            progress.show(steps, || format!("{ended} of {} runs", self.n_runs));
        }
    }

    fn finish(&self) {
        if let Ok(progress) = self.progress.lock() {
            progress.0.finish();
        }
    }
}
