//! Signals: one asks a command to stop in order, a second ends it at once, and nothing that was done is lost.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use warp_command::{
    Folder, ITERATION, SMALL, Said, fleet_args, halved_args, n_ended, n_weights, same_fleet,
    same_run,
};

const CHECKPOINTS: &str = "--set=checkpoint_steps=512";

fn kill(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Whether a process has a handler of its own for a signal.
fn handles(child: &Child, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

/// Processor time that a process has used, in hundredths of a second.
fn processor_ticks(child: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    after_name.split_whitespace().nth(11).unwrap().parse().unwrap()
}

/// A run that would take hours, once it listens and has done something.
fn long_run(folder: &Folder, out: &str) -> Child {
    let more = [CHECKPOINTS, "--steps", "1000000000", "--out", out];
    let child = folder.spawn(&[&["train"], &SMALL[..], &more].concat());
    folder.wait_for(|_| handles(&child, 15).then_some(()));
    folder.wait_for(|folder| folder.checkpoint(out).filter(|step| *step >= 512));
    child
}

#[test]
fn term_and_hangup_save_like_ctrl_c() {
    let folder = Folder::new("signals");
    for (signal, code) in [("-TERM", 143), ("-HUP", 129), ("-INT", 130)] {
        let run = signal.trim_start_matches('-');
        let child = long_run(&folder, run);
        kill(&child, signal);
        let said: Said = child.wait_with_output().unwrap().into();
        assert_eq!(said.code, Some(code), "{said:?}");
        assert!(said.stdout.contains("stopped early"), "{said:?}");
        let reached = folder.checkpoint(run).unwrap();
        assert_eq!(folder.metrics(run).len() as u64 * ITERATION, reached);
        let steps = (reached + 3 * ITERATION).to_string();
        folder.done(&["train", "--resume", run, "--steps", &steps]);
        let whole = format!("{run}-whole");
        folder.train(&[CHECKPOINTS, "--steps", &steps, "--out", &whole]);
        same_run(&folder, run, &whole);
    }
}

#[test]
fn a_second_signal_ends_the_run_at_once() {
    let folder = Folder::new("second-signal");
    // An iteration of minutes.
    let long =
        ["--set=num_steps=4096", "--set=update_epochs=65535", "--envs", "64", "--out", "run"];
    let mut child = folder.spawn(&[&["train", "cartpole"], &long[..]].concat());
    folder.wait_for(|_| handles(&child, 15).then_some(()));
    // A signal before the first iteration would end the run in order, with nothing done.
    folder.wait_for(|folder| folder.checkpoint("run"));
    let begun = processor_ticks(&child);
    folder.wait_for(|_| (processor_ticks(&child) >= begun + 50).then_some(()));
    kill(&child, "-TERM");
    // A shell passes on what the kernel has sent already.
    kill(&child, "-TERM");
    kill(&child, "-HUP");
    std::thread::sleep(Duration::from_millis(1000));
    assert!(child.try_wait().unwrap().is_none(), "the first signal ended it");
    let sent = Instant::now();
    kill(&child, "-HUP");
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(1), "{status:?}");
    assert!(sent.elapsed() < Duration::from_secs(5));
    // What was there before is whole.
    assert_eq!(folder.checkpoint("run"), Some(0));
    folder.done(&["eval", "run", "--episodes", "1"]);
}

#[test]
fn a_signal_that_was_ignored_stays_so() {
    let folder = Folder::new("nohup");
    let mut command = Command::new("sh");
    let steps = ["--steps", "1000000000", CHECKPOINTS, "--out", "run"];
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_warp"), "train"]);
    command.args(SMALL).args(steps).current_dir(folder.path("")).env("CUDA_VISIBLE_DEVICES", "");
    command
        .process_group(0)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    folder.wait_for(|_| handles(&child, 15).then_some(()));
    assert!(!handles(&child, 1));
    kill(&child, "-HUP");
    let reached = folder.wait_for(|folder| folder.checkpoint("run"));
    folder.wait_for(|folder| folder.checkpoint("run").filter(|step| *step > reached));
    kill(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn an_interrupted_fleet_keeps_what_it_has_and_is_completed() {
    let folder = Folder::new("fleet-interrupted");
    folder.done(&fleet_args("whole"));
    let child = folder.spawn(&fleet_args("part"));
    folder.wait_for(|folder| n_weights(folder, "part").filter(|n| *n >= 5));
    kill(&child, "-TERM");
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!(said.code, Some(143), "{said:?}");
    assert!(said.stdout.contains("--resume part"), "{said:?}");
    let kept = n_weights(&folder, "part").unwrap();
    assert!((5..40).contains(&kept), "{kept}");
    let said = folder.done(&["train", "--resume", "part", "--threads", "2"]);
    assert!(said.stdout.contains("40 of 40 runs finished"), "{said:?}");
    same_fleet(&folder, "part", "whole");
    // There is nothing left to do, and that is said.
    let said = folder.done(&["train", "--resume", "part"]);
    assert!(said.stdout.contains("all runs of the fleet in part have finished"), "{said:?}");
    let said = folder.warp(&["train", "--resume", "part", "--steps", "9000"]);
    assert!(said.code == Some(2) && said.stderr.contains("--steps 9000"), "{said:?}");
    same_fleet(&folder, "part", "whole");
}

#[test]
fn a_fleet_killed_at_any_moment_is_completed() {
    let folder = Folder::new("fleet-killed");
    folder.done(&fleet_args("whole"));
    let mut child = folder.spawn(&fleet_args("part"));
    let mut reached = 0;
    for round in 1..6u64 {
        let at = reached + 1;
        folder.wait_for(|folder| n_weights(folder, "part").filter(|n| *n >= at));
        std::thread::sleep(Duration::from_micros(round * 1700));
        child.kill().unwrap();
        child.wait().unwrap();
        let saved = n_weights(&folder, "part").unwrap();
        assert!(saved >= reached);
        reached = saved;
        child = folder.spawn(&["train", "--resume", "part", "--threads", "2"]);
    }
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!(said.code, Some(0), "{said:?}");
    same_fleet(&folder, "part", "whole");
}

#[test]
fn a_halved_fleet_killed_between_rounds_stops_the_same_settings() {
    let folder = Folder::new("fleet-halved");
    folder.done(&halved_args("whole"));
    let mut child = folder.spawn(&halved_args("part"));
    let mut reached = 0;
    for round in 1..4u64 {
        folder.wait_for(|folder| n_ended(folder, "part").filter(|n| *n > reached));
        std::thread::sleep(Duration::from_micros(round * 1700));
        child.kill().unwrap();
        child.wait().unwrap();
        reached = n_ended(&folder, "part").unwrap();
        child = folder.spawn(&["train", "--resume", "part", "--threads", "2"]);
    }
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains("3 of 24 runs finished, 21 were stopped by halving"), "{said:?}");
    same_fleet(&folder, "part", "whole");
}
