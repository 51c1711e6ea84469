//! `warp train --restarts N`: runs and fleets whose ranks are killed go on by themselves, and nothing stays behind.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Stdio};
use warp_command::{Folder, SMALL, Said, fleet_args, free_port, n_weights, same_fleet, same_run};

/// Two shards on the CPU, with a checkpoint every few iterations.
const RUN: [&str; 5] = [
    "--set=shards=2",
    "--set=checkpoint_steps=512",
    "--device=cpu",
    "--link-timeout=20",
    "--steps",
];
/// Steps that leave time to kill a rank.
const STEPS: &str = "102400";
const HOURS: &str = "1000000000";

/// A command of one process that has two ranks.
fn one_process<'a>(out: &'a str, steps: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["train"], &SMALL[..], &RUN, &[steps, "--out", out], more].concat()
}

/// Rank number `rank` of two, as a launcher starts it.
fn rank(folder: &Folder, rank: usize, port: u16, args: &[&str]) -> Child {
    let mut command = folder.command(args);
    command.env("WARP_RANK", rank.to_string()).env("WARP_WORLD", "2");
    command.env("WARP_MASTER", format!("127.0.0.1:{port}"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn said(child: Child) -> Said {
    child.wait_with_output().unwrap().into()
}

/// The process that trains for `supervisor`, if there is one.
fn trainer_of(supervisor: &Child) -> Option<u32> {
    let id = supervisor.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Waits for a process that trains, other than `before`.
fn trainer(folder: &Folder, supervisor: &Child, before: Option<u32>) -> u32 {
    folder.wait_for(|_| {
        assert!(runs(supervisor.id()), "the command has ended");
        trainer_of(supervisor).filter(|id| Some(*id) != before)
    })
}

/// Whether a process runs; one that has ended and was not asked for yet does not.
fn runs(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, state)| !state.trim_start().starts_with('Z'))
}

/// At once, while a process of `kill` would take its time.
fn signal(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(id as i32).unwrap(), signal).unwrap();
}

/// Waits for a checkpoint of `run` at `step` or later.
fn wait_for_step(folder: &Folder, run: &str, step: u64) -> u64 {
    folder.wait_for(|folder| folder.checkpoint(run).filter(|at| *at >= step))
}

/// Nothing half written is left in a folder.
fn is_tidy(folder: &Path) -> bool {
    let mut names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.all(|name| !name.to_string_lossy().starts_with('.'))
}

#[test]
fn a_run_that_is_killed_goes_on_in_its_folder() {
    let folder = Folder::new("restarts-one");
    folder.done(&one_process("whole", STEPS, &["--gpus=2"]));
    // At once, when there may be no folder yet; and on its way, twice.
    let child = folder.spawn(&one_process("run", STEPS, &["--gpus=2", "--restarts", "3"]));
    let first = trainer(&folder, &child, None);
    signal(first, Signal::KILL);
    let second = trainer(&folder, &child, Some(first));
    let step = wait_for_step(&folder, "run", 1024);
    signal(second, Signal::ABORT);
    let third = trainer(&folder, &child, Some(second));
    wait_for_step(&folder, "run", step + 1024);
    signal(third, Signal::KILL);
    let said = said(child);
    assert_eq!(said.code, Some(0), "{said:?}");
    for words in [
        "the training process was killed by signal 9; restart 1 of 3: ",
        "the training process was killed by signal 6; restart 2 of 3: the run in run goes on from step ",
        "the training process was killed by signal 9; restart 3 of 3: the run in run goes on from step ",
    ] {
        assert!(said.stderr.contains(words), "{said:?}");
    }
    same_run(&folder, "whole", "run");
    assert!(is_tidy(&folder.path("")) && is_tidy(&folder.path("run")));
}

#[test]
fn processes_meet_again_when_one_of_them_is_killed() {
    let folder = Folder::new("restarts-processes");
    folder.done(&one_process("whole", STEPS, &[]));
    let (port, args) = (free_port(), one_process("run", STEPS, &["--restarts=2"]));
    let ranks = [0, 1].map(|number| rank(&folder, number, port, &args));
    let mut step = 0;
    for killed in [1, 0] {
        let before = [0, 1].map(|number| trainer(&folder, &ranks[number], None));
        step = wait_for_step(&folder, "run", step + 1024);
        signal(before[killed], Signal::KILL);
        // Both start anew.
        for (supervisor, before) in ranks.iter().zip(before) {
            trainer(&folder, supervisor, Some(before));
        }
    }
    let [first, other] = ranks.map(said);
    assert_eq!((first.code, other.code), (Some(0), Some(0)), "{first:?} {other:?}");
    for words in [
        "a rank was lost (exit code 75); restart 1 of 2: the run in run goes on from step ",
        "the training process was killed by signal 9; restart 2 of 2: the run in run goes on from",
    ] {
        assert!(first.stderr.contains(words), "{first:?}");
    }
    for words in
        ["killed by signal 9; restart 1 of 2: this process rejoins the others", "restart 2 of 2"]
    {
        assert!(other.stderr.contains(words), "{other:?}");
    }
    same_run(&folder, "whole", "run");
}

#[test]
fn a_loss_too_many_ends_the_command() {
    let folder = Folder::new("restarts-spent");
    let (port, args) = (free_port(), one_process("run", HOURS, &["--restarts=1"]));
    let ranks = [0, 1].map(|number| rank(&folder, number, port, &args));
    let (mut before, mut step) = (None, 0);
    for _ in 0..2 {
        let id = trainer(&folder, &ranks[1], before);
        step = wait_for_step(&folder, "run", step + 1024);
        signal(id, Signal::KILL);
        before = Some(id);
    }
    for said in ranks.map(said) {
        assert_eq!(said.code, Some(75), "{said:?}");
        assert!(said.stderr.contains("--restarts 1 allows no further restart"), "{said:?}");
    }
    // What was saved goes on, with a length of its own that a restart does not forget.
    let steps = (folder.checkpoint("run").unwrap() + 20480).to_string();
    let go_on =
        ["train", "--resume=run", "--device=cpu", "--gpus=2", "--restarts=1", "--steps", &steps];
    let child = folder.spawn(&go_on);
    signal(trainer(&folder, &child, None), Signal::KILL);
    let said = said(child);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(folder.checkpoint("run").unwrap().to_string(), steps);
}

#[test]
fn signals_end_all_in_order_and_no_process_outlives_its_supervisor() {
    let folder = Folder::new("restarts-signals");
    let (port, args) = (free_port(), one_process("run", HOURS, &["--restarts=5"]));
    let ranks = [0, 1].map(|number| rank(&folder, number, port, &args));
    let trainers = ranks.each_ref().map(|supervisor| trainer(&folder, supervisor, None));
    wait_for_step(&folder, "run", 1024);
    // As from a terminal, which tells both.
    for id in [trainers[1], ranks[1].id()] {
        signal(id, Signal::TERM);
    }
    let [first, other] = ranks.map(said);
    assert_eq!((first.code, other.code), (Some(143), Some(143)), "{first:?} {other:?}");
    assert!(first.stdout.contains("stopped early"), "{first:?}");
    assert!(!trainers.into_iter().any(runs));
    // Of a process with all ranks.
    let child = folder.spawn(&one_process("alone", HOURS, &["--gpus=2", "--restarts=5"]));
    let id = trainer(&folder, &child, None);
    wait_for_step(&folder, "alone", 1024);
    signal(child.id(), Signal::INT);
    let said = said(child);
    assert_eq!(said.code, Some(130), "{said:?}");
    assert!(!said.stderr.contains("restart ") && !runs(id), "{said:?}");
    // The supervisor itself is killed.
    let mut child = folder.spawn(&["train", "--resume=alone", "--device=cpu", "--restarts=5"]);
    let (id, step) = (trainer(&folder, &child, None), folder.checkpoint("alone").unwrap());
    wait_for_step(&folder, "alone", step + 512);
    child.kill().unwrap();
    child.wait().unwrap();
    folder.wait_for(|_| (!runs(id)).then_some(()));
}

#[test]
fn a_fleet_goes_on_with_the_runs_that_have_not_ended() {
    let folder = Folder::new("restarts-fleet");
    let long = |out| {
        let mut args = fleet_args(out);
        let place = args.iter().position(|arg| *arg == "--steps").unwrap();
        args[place + 1] = "24000";
        [&args[..], &["--device=cpu", "--link-timeout=20"]].concat()
    };
    folder.done(&long("whole"));
    let (port, args) = (free_port(), [&long("part")[..], &["--restarts=2"]].concat());
    let ranks = [0, 1].map(|number| rank(&folder, number, port, &args));
    let mut n = 0;
    for killed in [1, 0] {
        let before = [0, 1].map(|number| trainer(&folder, &ranks[number], None));
        n = folder.wait_for(|folder| n_weights(folder, "part").filter(|now| *now >= n + 4));
        signal(before[killed], Signal::KILL);
        for (supervisor, before) in ranks.iter().zip(before) {
            trainer(&folder, supervisor, Some(before));
        }
    }
    let [first, other] = ranks.map(said);
    assert_eq!((first.code, other.code), (Some(0), Some(0)), "{first:?} {other:?}");
    let words = "restart 2 of 2: the fleet in part goes on with the runs that have not ended";
    assert!(first.stderr.contains(words), "{first:?}");
    same_fleet(&folder, "whole", "part");
}

#[test]
fn what_can_not_be_restarted_is_a_sentence() {
    let folder = Folder::new("restarts-refused");
    folder.train(&["--steps=256", "--out=run"]);
    for (args, words) in [
        (&["train", "cartpole", "--restarts", "x"][..], "--restarts x: a whole number from 0"),
        (&["train", "cartpole", "--restarts=-1"], "--restarts -1: a whole number from 0"),
        (&["train", "cartpole", "--restarts", "1.5"], "--restarts 1.5: a whole number from 0"),
        (
            &["train", "--resume=run@256", "--restarts=1"],
            "--restarts goes on from the newest checkpoint, so run@256 can't be its start",
        ),
        // What the process that trains can't do is not done again.
        (&["train", "--resume=nothing", "--restarts=3"], "cannot read a run's"),
        (&["train", "cartpole", "--out=run", "--restarts=3"], "it already contains a run"),
    ] {
        let said = folder.warp(args);
        assert_eq!(said.code, Some(2), "{args:?}: {said:?}");
        assert!(said.stderr.contains(words) && said.stderr.lines().count() <= 2, "{said:?}");
    }
}
