//! A run on several ranks by command: threads of one process, processes as a launcher starts them, what becomes of
//! all when one is lost, and fleets that are dealt out.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use warp_command::{Folder, SMALL, Said, same_run};

const STEPS: [&str; 2] = ["--steps", "1024"];
/// Two shards, on the processor.
const SHARED: [&str; 4] = ["--set=shards=2", "--set=checkpoint_steps=512", "--device", "cpu"];

/// A port that nobody listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Rank number `rank` of two, as a launcher starts it.
fn rank(folder: &Folder, rank: usize, port: u16, more: &[&str]) -> Command {
    let mut command = folder.command(&[&["train"], &SMALL[..], &SHARED, more].concat());
    command.env("WARP_RANK", rank.to_string()).env("WARP_WORLD", "2");
    command.env("WARP_MASTER", format!("127.0.0.1:{port}"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(child: Child) -> Said {
    child.wait_with_output().unwrap().into()
}

#[test]
fn threads_and_processes_give_the_run_that_one_rank_gives() {
    let folder = Folder::new("ranks");
    let train = |more: &[&str]| folder.train(&[&SHARED[..], &STEPS, more].concat());
    train(&["--out", "one"]);
    train(&["--gpus", "2", "--out", "threads"]);
    same_run(&folder, "one", "threads");
    let port = free_port();
    let more = [&STEPS[..], &["--out", "processes"]].concat();
    let other = rank(&folder, 1, port, &more).spawn().unwrap();
    let first = said(rank(&folder, 0, port, &more).spawn().unwrap());
    let other = said(other);
    assert_eq!((first.code, other.code), (Some(0), Some(0)), "{first:?} {other:?}");
    assert!(other.stdout.is_empty(), "the first rank alone says what was reached: {other:?}");
    same_run(&folder, "one", "processes");
    // Evaluated on the way by the first rank.
    let evaluated = ["--set=eval_steps=256", "--set=eval_episodes=3"];
    train(&[&evaluated[..], &["--out", "one-evaluated"]].concat());
    train(&[&evaluated[..], &["--gpus", "2", "--out", "two-evaluated"]].concat());
    assert_eq!(folder.timeless_metrics("one-evaluated"), folder.timeless_metrics("two-evaluated"));
    let lines = folder.timeless_metrics("two-evaluated");
    assert!(lines.iter().any(|line| line["evaluation"].is_object()), "{lines:?}");
    // On from where it is, with as many ranks or one.
    for (run, more) in [("threads", &["--gpus", "2"][..]), ("processes", &[])] {
        let go_on = ["train", "--resume", run, "--steps", "2048", "--device", "cpu"];
        folder.done(&[&go_on[..], more].concat());
    }
    same_run(&folder, "threads", "processes");
}

#[test]
fn when_a_rank_is_killed_the_others_end_in_time_with_a_sentence() {
    let folder = Folder::new("lost-rank");
    let port = free_port();
    let more = ["--steps", "1000000000", "--out", "run", "--link-timeout", "20"];
    let mut other = rank(&folder, 1, port, &more).spawn().unwrap();
    let first = rank(&folder, 0, port, &more).spawn().unwrap();
    folder.wait_for(|folder| folder.checkpoint("run").filter(|step| *step >= 1024));
    let killed = Instant::now();
    other.kill().unwrap();
    let first = said(first);
    assert!(killed.elapsed() < Duration::from_secs(10));
    assert_eq!(first.code, Some(75), "{first:?}");
    assert!(
        first.stderr.contains("the ranks of this run can't continue: rank 1 disconnected"),
        "{first:?}"
    );
    other.wait().unwrap();
    // What was saved goes on, on one rank.
    let step = folder.checkpoint("run").unwrap();
    let steps = (step + 512).to_string();
    folder.done(&["train", "--resume", "run", "--steps", &steps, "--device", "cpu"]);
}

#[test]
fn a_signal_to_one_rank_ends_all_with_a_checkpoint() {
    let folder = Folder::new("asked-rank");
    let port = free_port();
    let more = ["--steps", "1000000000", "--out", "run"];
    let other = rank(&folder, 1, port, &more).spawn().unwrap();
    let first = rank(&folder, 0, port, &more).spawn().unwrap();
    folder.wait_for(|folder| folder.checkpoint("run").filter(|step| *step >= 1024));
    let sent = Command::new("kill").args(["-TERM", &other.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let (first, other) = (said(first), said(other));
    assert_eq!((first.code, other.code), (Some(0), Some(0)), "{first:?} {other:?}");
    assert!(first.stdout.contains("stopped early"), "{first:?}");
}

#[test]
fn a_fleet_over_two_devices_is_the_fleet_on_one() {
    let folder = Folder::new("dealt-fleet");
    let train = |more: &[&str]| {
        folder.train(&[&STEPS[..], &["--seeds", "0..5", "--device", "cpu"], more].concat());
    };
    train(&["--out", "one"]);
    train(&["--gpus", "2", "--out", "two"]);
    let weights = |fleet: &str| folder.files(&format!("{fleet}/weights"));
    assert_eq!(weights("one").len(), 5);
    assert!(weights("one") == weights("two"), "the weights differ");
}

#[test]
fn what_contradicts_itself_is_a_sentence() {
    let folder = Folder::new("bad-ranks");
    for (more, variables, words) in [
        (
            &["--device", "cpu", "--gpus", "3"][..],
            &[][..],
            "num_envs = 8 can't be divided evenly into 3 shards",
        ),
        (&["--device", "cpu", "--gpus", "x"], &[], "--gpus x: a number of GPUs is needed"),
        (
            &["--device", "cpu", "--seeds", "0..2"],
            &[("WARP_RANK", "0"), ("WARP_WORLD", "2"), ("WARP_MASTER", "h:1")],
            "WARP_RANK has started 2 processes for one run",
        ),
        (&["--gpus", "2", "--device", "cuda:1"], &[], "with several ranks each has its own GPU"),
        (
            &["--device", "cpu"],
            &[("RANK", "2"), ("WORLD_SIZE", "2")],
            "ranks go from 0 to WORLD_SIZE - 1",
        ),
        (
            &["--gpus", "2"],
            &[("WARP_RANK", "0"), ("WARP_WORLD", "2"), ("WARP_MASTER", "h:1")],
            "WARP_RANK has started a process for each GPU",
        ),
        (
            &["--device", "cpu", "--gpus", "2", "--set", "shards=3", "--set", "num_envs=6"],
            &[],
            "2 ranks can't share 3 shards evenly; ranks that can: 1, 3",
        ),
    ] {
        let mut command = folder.command(&[&["train"], &SMALL[..], more].concat());
        command.envs(variables.iter().copied());
        let said: Said = command.output().unwrap().into();
        assert_eq!(said.code, Some(2), "{more:?}: {said:?}");
        assert!(said.stderr.contains(words), "{more:?}: {said:?}");
    }
}
