//! A fleet whose runs several processes train: which are this process's, what it knows of the others, and what goes
//! to the process that writes.

use super::ended_run::EndedRun;
use super::folder::Ends;
use super::standing::Standing;
use super::{Fleet, FleetBroadcast, FleetRun, Listed, dealt};
use crate::error::Error;
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

impl Fleet {
    /// The fleet of which the first of several processes has told, in one whose results that process writes.
    #[must_use]
    pub fn elsewhere(told: FleetBroadcast, runs: &[FleetRun]) -> Self {
        let fleet = Self::of(told.listed, runs, Ends::default());
        fleet.others().extend(told.ended.into_iter().map(|standing| (standing.run, standing)));
        fleet
    }

    /// Deals `runs`, all of the fleet, as far as they have not ended: the numbers of those that this process is to train.
    /// Of the others it knows what is told when they are compared.
    #[must_use]
    pub fn deal(&self, runs: &[FleetRun], world: &World) -> BTreeSet<usize> {
        let left = runs.iter().filter(|run| !self.has_ended(run.number));
        let left: Vec<FleetRun> = left.cloned().collect();
        let own = dealt(&left, world);
        let others = left.iter().map(|run| run.number).filter(|number| !own.contains(number));
        self.others().extend(others.map(|number| (number, Standing::open(number, None))));
        own
    }

    /// How the runs stand that no other process trains.
    pub(super) fn standings(&self) -> Vec<Standing> {
        let others = self.others().clone();
        let own = self.listed.iter().filter(|listed| !others.contains_key(&listed.run));
        own.map(|listed| self.standing(listed.run)).collect()
    }

    /// Hears how runs stand, of which those of other processes are of interest.
    pub(super) fn hear(&self, standings: &[Standing]) {
        let mut others = self.others();
        for standing in standings {
            others.entry(standing.run).and_modify(|known| *known = *standing);
        }
    }

    pub(super) fn others(&self) -> MutexGuard<'_, BTreeMap<usize, Standing>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn standing(&self, run: usize) -> Standing {
        if let Some(standing) = self.others().get(&run) {
            return *standing;
        }
        if let Some(ended) = self.ends().ended.get(&run) {
            return Standing::ended(ended);
        }
        let open = self.runs.get(&run);
        let mean =
            open.and_then(|open| open.lock().unwrap_or_else(PoisonError::into_inner).recent.mean());
        Standing::open(run, mean)
    }

    /// What is to be sent to the process that writes: runs that have ended, of about `n_bytes` at most, in the order of
    /// their ends; and whether that is all.
    pub(super) fn take_out(&self, n_bytes: usize) -> (Vec<EndedRun>, bool) {
        if self.writes() {
            return (Vec::new(), true);
        }
        let mut ends = self.ends();
        let (mut taken, mut size) = (Vec::new(), 0);
        while size < n_bytes
            && let Some(run) = ends.outbox.pop_front()
        {
            size += run.size();
            taken.push(run);
        }
        (taken, ends.outbox.is_empty())
    }

    /// Keeps a run that another process has trained.
    pub(super) fn take_in(&self, run: EndedRun) -> ControlFlow<()> {
        self.change(run.summary.run, |open| self.keep(open, run))
    }

    /// Counts environment steps that another process has done.
    pub(super) fn count_steps(&self, env_steps: u64) {
        self.env_steps.fetch_add(env_steps, Ordering::Relaxed);
    }

    /// The runs, as they are listed.
    pub(super) fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// What could not be written, if anything: the fleet can't go on then.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.ends().failure.take()
    }
}
