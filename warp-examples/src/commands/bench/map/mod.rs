//! `warp bench --map FILE`: how near training comes to the machine's limit, over environments, networks, replicas
//! and algorithms.
//!
//! A cell's rate is that of whole iterations, of which the declared networks' operations are a number per second,
//! and that a fraction of what the device can do. Cells are measured one after the other and recorded at once, so
//! that the map grows from call to call; what does not fit is recorded as such.

mod cell;
mod cost;
mod picture;
mod record;

use super::place::Place;
use super::{BenchArgs, print_json, rate_of_world, say};
use crate::Outcome;
use crate::commands::{Device, tell, thread_count};
use crate::output::short;
use anyhow::Result;
use cell::Cell;
use record::{Cliff, Figures, Found, Phases, Record, Records, cliffs};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use warp_data::memory::human;
use warp_func::Registry;
use warp_train::TrainConfig;
use warp_train::trainer::Trainer;

/// What tensor cores of one H200 do in half precision, 10^12 operations a second: of dense products, as measured.
const H200_TFLOPS: f64 = 790.0;
/// Runs `warp bench --map`.
///
/// # Errors
/// A device that is not there, cells that are not, or a file that can't be read or written.
pub(super) fn execute(args: &BenchArgs, path: &Path, registry: &Registry) -> Result<Outcome> {
    let cells = Cell::asked(&args.cells)?;
    let device = Device::choose(&args.device)?;
    let place = Place::new(&device, args, registry);
    let map = Map { args, place, peak: args.peak.or_else(|| peak(&device)), commit: commit() };
    let mut records = Records::open(path)?;
    let started = Instant::now();
    let mut left = 0;
    for cell in &cells {
        if records.has(cell, &map.commit, &map.device()) {
            continue;
        }
        if args.limit.is_some_and(|limit| started.elapsed().as_secs_f64() > limit) {
            left += 1;
            continue;
        }
        let found = map
            .measure(cell, &records)
            .unwrap_or_else(|error| Found::Refused { refused: refusal(&error) });
        let (commit, device) = (map.commit.clone(), map.device());
        let record = Record { cell: cell.clone(), commit, device, found };
        tell(&line(&record));
        records.add(record, path)?;
    }
    let newest = records.newest(&map.device());
    let cliffs = cliffs(&newest);
    picture::draw(&newest, &path.with_extension("svg"))?;
    if args.json {
        print_json(&serde_json::json!({ "cells": newest, "cliffs": cliffs, "left": left }))?;
        return Ok(Outcome::Done);
    }
    newest.iter().try_for_each(|record| say(&line(record)))?;
    cliffs.iter().try_for_each(|cliff| say(&cliff_line(cliff)))?;
    if left > 0 {
        say(&format!("{left} cells remain: run the same command again to continue"))?;
    }
    say(&format!("{} cells in {}", newest.len(), path.display()))?;
    Ok(Outcome::Done)
}

/// Why a cell has no rate; what it needs, if that is more memory than there is.
fn refusal(error: &anyhow::Error) -> String {
    let out_of_memory = |cause: &(dyn std::error::Error + 'static)| {
        use warp_train::Error::{Data, Env};
        let data = match cause.downcast_ref() {
            Some(Data(data) | Env(warp_func::Error::Data(data))) => data,
            _ => return None,
        };
        let warp_data::Error::OutOfMemory { needed, free, .. } = data else { return None };
        let (needed, free) = (human(*needed), human(u128::from(*free)));
        Some(format!("does not fit: needs {needed}, and {free} are free"))
    };
    let found = error.chain().find_map(out_of_memory);
    found.unwrap_or_else(|| format!("{error:#}"))
}

/// What all cells have in common.
struct Map<'a> {
    args: &'a BenchArgs,
    place: Place<'a>,
    /// 10^12 operations a second, where that is known.
    peak: Option<f64>,
    commit: String,
}

impl Map<'_> {
    fn device(&self) -> String {
        self.place.device.model()
    }

    fn measure(&self, cell: &Cell, records: &Records) -> Result<Found> {
        let config = cell.config(&self.args.set, self.place.plain)?;
        let world = match known_world(cell, records, &self.commit, &self.device()) {
            Some(rate) => rate,
            None => rate_of_world(&config, &self.place, self.args.seconds / 5.0)?,
        };
        let timed = self.train(config)?;
        let tflops = timed.steps_per_second * timed.cost / 1e12;
        Ok(Found::Measured(Figures {
            steps_per_second: timed.steps_per_second,
            world_steps_per_second: world,
            tflops,
            fraction: self.peak.map(|peak| tflops / peak),
            phases: timed.phases,
            path: timed.path,
            first_iteration_seconds: timed.first_iteration,
            iterations: timed.iterations,
        }))
    }

    /// Trains for a while.
    fn train(&self, config: TrainConfig) -> Result<Timed> {
        let begun = Instant::now();
        let (mut trainer, _) = self.place.trainer(config)?;
        trainer.iterate()?;
        let first_iteration = begun.elapsed().as_secs_f64();
        let steps = trainer.config().steps_per_iteration() as f64;
        let cost = cost::per_step(trainer.config(), &trainer.learner().state());
        let path = trainer.learner().path().unwrap_or("on the processor").to_string();
        let timed = |iterations: u64, seconds: f64, trainer: &Trainer| Timed {
            steps_per_second: steps * iterations as f64 / seconds,
            iterations,
            first_iteration,
            cost,
            phases: self.phases(trainer),
            path: path.clone(),
        };
        let iterate = |trainer: &mut Trainer| -> Result<f64> {
            let before = Instant::now();
            trainer.iterate()?;
            Ok(before.elapsed().as_secs_f64())
        };
        // The first one compiles; the second says whether one is enough, but on a GPU it records launches, too.
        let mut seconds = iterate(&mut trainer)?;
        if seconds > self.args.seconds / 5.0 {
            if !matches!(self.place.device, Device::Cpu) {
                seconds = iterate(&mut trainer)?;
            }
            return Ok(timed(1, seconds, &trainer));
        }
        trainer.advance(u64::MAX)?;
        let (before, mut iterations) = (Instant::now(), 0);
        while iterations == 0 || before.elapsed().as_secs_f64() < self.args.seconds / 5.0 {
            iterations += trainer.advance(u64::MAX)?.len() as u64;
        }
        Ok(timed(iterations, before.elapsed().as_secs_f64(), &trainer))
    }

    /// Where a run's time went, if that is known: not where iterations are timed as a whole.
    fn phases(&self, trainer: &Trainer) -> Option<Phases> {
        let (phases, steps) = trainer.phases();
        if phases.step <= 0.0 || phases.learn <= 0.0 || steps == 0 {
            return None;
        }
        let (threads, seconds) = (thread_count(self.args.threads), self.args.seconds / 60.0);
        let state = trainer.learner().state();
        let products = cost::of_products(trainer.config(), &state, threads, seconds);
        let products = products * steps as f64 / phases.learn;
        Some(Phases {
            products_of_learning: Some(products).filter(|share| share.is_finite()),
            world: phases.step / phases.total(),
        })
    }
}

/// How fast a run trained.
struct Timed {
    steps_per_second: f64,
    iterations: u64,
    first_iteration: f64,
    /// Operations of a step.
    cost: f64,
    phases: Option<Phases>,
    path: String,
}

/// The rate of a cell's world, if another cell has had it measured.
fn known_world(cell: &Cell, records: &Records, commit: &str, device: &str) -> Option<f64> {
    let same = |of: &&Record| {
        let there = &of.cell;
        of.commit == commit
            && of.device == device
            && (&there.world, there.replicas) == (&cell.world, cell.replicas)
    };
    let figures = records.cells.iter().filter(same).find_map(Record::figures)?;
    Some(figures.world_steps_per_second)
}

fn peak(device: &Device) -> Option<f64> {
    device.model().contains("H200").then_some(H200_TFLOPS)
}

/// Which program this is: as WARP_COMMIT says, or as git says of the folder at hand.
fn commit() -> String {
    std::env::var("WARP_COMMIT").unwrap_or_else(|_| {
        let git = Command::new("git").args(["describe", "--always", "--dirty"]).output();
        let said = git.ok().filter(|output| output.status.success()).map(|output| output.stdout);
        let said = said.and_then(|bytes| String::from_utf8(bytes).ok());
        said.map_or_else(|| "unknown".into(), |text| text.trim().to_string())
    })
}

fn line(record: &Record) -> String {
    let name = record.cell.to_string();
    match &record.found {
        Found::Refused { refused } => format!("{name:56} {refused}"),
        Found::Measured(of) => {
            let fraction = of.fraction.map_or("     -".into(), |f| format!("{:5.2} %", 100.0 * f));
            let (rate, world) = (short(of.steps_per_second), short(of.world_steps_per_second));
            let phases = of.phases.map_or(String::new(), |of| {
                let percent = |share: f64| format!("{:.0} %", 100.0 * share);
                let products = of.products_of_learning.map_or(String::new(), |share| {
                    format!("  learning: {} of it in bare products;", percent(share))
                });
                format!("{products}  environment: {} of all time", percent(of.world))
            });
            format!(
                "{name:56} {rate:>9}steps/s {:8.2} TFLOP/s {fraction}  world {world:>9}  {}{phases}",
                of.tflops, of.path
            )
        }
    }
}

fn cliff_line(cliff: &Cliff) -> String {
    let percent = |fraction: f64| format!("{:.2} %", 100.0 * fraction);
    let (here, there) = (percent(cliff.fraction), percent(cliff.best));
    format!("cliff: {} has {here}, {} beside it {there}", cliff.cell, cliff.beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_does_not_fit_says_what_it_needs() {
        let (what, lower) = ("arrays".to_string(), "num_envs".to_string());
        let error = warp_data::Error::OutOfMemory { what, needed: 3 << 40, free: 1 << 30, lower };
        let said = "does not fit: needs 3.0 TiB, and 1.0 GiB are free";
        assert_eq!(refusal(&warp_train::Error::from(error.clone()).into()), said);
        let of_envs = warp_train::Error::from(warp_func::Error::from(error));
        assert_eq!(refusal(&anyhow::Error::from(of_envs).context("cell")), said);
        assert_eq!(refusal(&anyhow::anyhow!("no such key")), "no such key");
    }
}
