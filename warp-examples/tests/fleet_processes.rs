//! A fleet that several processes train, as launchers start them: its folder is the one that a single process
//! writes, whatever becomes of the processes on the way.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use warp_command::{
    Folder, SMALL, Said, fleet_args, free_port, halved_args, n_ended, n_weights, same_fleet,
};

const ON_CPU: [&str; 4] = ["--device", "cpu", "--link-timeout", "20"];

/// Starts process `rank` of `size` in `folder`, as `WARP_RANK` says.
fn start(folder: &Folder, rank: usize, size: usize, port: u16, args: &[&str]) -> Child {
    let mut command = folder.command(&[args, &ON_CPU].concat());
    command.env("WARP_RANK", rank.to_string()).env("WARP_WORLD", size.to_string());
    command.env("WARP_MASTER", format!("127.0.0.1:{port}"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn said(child: Child) -> Said {
    child.wait_with_output().unwrap().into()
}

/// Waits for all of `processes`, which must succeed; the first of them alone may say something.
fn all_done(processes: Vec<Child>) -> Said {
    all_end(processes, 0)
}

/// The same of processes that end with `code`.
fn all_end(processes: Vec<Child>, code: i32) -> Said {
    let mut all = processes.into_iter().map(said);
    let first = all.next().unwrap();
    let others: Vec<Said> = all.collect();
    assert_eq!(first.code, Some(code), "{first:?} {others:?}");
    for other in others {
        assert!(other.code == Some(code) && other.stdout.is_empty(), "{other:?}");
    }
    first
}

/// Both fleets are the same, down to how many launches there were and to their curves.
fn same_whole_fleet(folder: &Folder, a: &str, b: &str) {
    same_fleet(folder, a, b);
    let launches = |fleet: &str| {
        let text = folder.read(&format!("{fleet}/summary.json"));
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        summary["launches"].clone()
    };
    assert_eq!(launches(a), launches(b));
    let curves = |fleet: &str| std::fs::read(folder.path(&format!("{fleet}/curves.png"))).unwrap();
    assert!(curves(a) == curves(b), "the curves of {a} and {b} differ");
}

/// The same with runs of so many steps that there is time for a signal.
fn longer<'a>(mut args: Vec<&'a str>, steps: &'a str) -> Vec<&'a str> {
    let place = args.iter().position(|arg| *arg == "--steps").unwrap();
    args[place + 1] = steps;
    args
}

fn long_fleet(out: &str) -> Vec<&str> {
    longer(fleet_args(out), "24000")
}

fn long_halved(out: &str) -> Vec<&str> {
    longer(halved_args(out), "64000")
}

/// A fleet in two launches, of which no share is a multiple.
fn swept(out: &str) -> Vec<&str> {
    let sweep = ["--seeds=0..5", "--sweep=hidden=[8],[4]", "--sweep=learning_rate=0.001,0.01"];
    [&["train"], &SMALL[..], &["--steps=600", "--out", out], &sweep, &ON_CPU].concat()
}

#[test]
fn processes_write_the_fleet_that_one_writes() {
    let folder = Folder::new("fleet-processes");
    folder.done(&swept("one"));
    let launched =
        |size: usize, out: &str, variables: &dyn Fn(usize) -> Vec<(&'static str, String)>| {
            let process = |rank: usize| {
                let mut command = folder.command(&swept(out));
                command.envs(variables(rank)).stdout(Stdio::piped()).stderr(Stdio::piped());
                command.spawn().unwrap()
            };
            let first = all_done((0..size).map(process).collect());
            assert!(first.stdout.contains("20 of 20 runs finished"), "{first:?}");
            same_whole_fleet(&folder, "one", out);
        };
    let port = free_port();
    launched(2, "torchrun", &|rank| {
        vec![
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "2".into()),
            ("LOCAL_RANK", rank.to_string()),
            ("MASTER_ADDR", "127.0.0.1".into()),
            ("MASTER_PORT", (port - 1).to_string()),
        ]
    });
    let port = free_port();
    launched(4, "slurm", &|rank| {
        vec![
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_STEP_NUM_TASKS", "4".into()),
            ("SLURM_LOCALID", rank.to_string()),
            ("WARP_MASTER", format!("127.0.0.1:{port}")),
        ]
    });
    let port = free_port();
    launched(3, "kubernetes", &|rank| {
        vec![
            ("JOB_COMPLETION_INDEX", rank.to_string()),
            ("WARP_WORLD", "3".into()),
            ("WARP_MASTER", format!("127.0.0.1:{port}")),
        ]
    });
    // Two machines of two devices each.
    let master = format!("127.0.0.1:{}", free_port());
    let node = |node: &str| {
        let nodes = ["--nodes=2", "--node", node, "--gpus=2", "--master", &master];
        folder.spawn(&[&swept("nodes")[..], &nodes].concat())
    };
    all_done(["0", "1"].map(node).into());
    same_whole_fleet(&folder, "one", "nodes");
}

#[test]
fn more_processes_than_runs_are_no_harm() {
    let folder = Folder::new("fleet-idle-process");
    let one =
        |out| [&["train"], &SMALL[..], &["--steps=256", "--seeds=3..5", "--out", out]].concat();
    folder.done(&[&one("one")[..], &ON_CPU].concat());
    let port = free_port();
    all_done((0..3).map(|rank| start(&folder, rank, 3, port, &one("three"))).collect());
    same_whole_fleet(&folder, "one", "three");
}

#[test]
fn when_a_process_is_killed_the_others_end_and_fewer_complete_the_fleet() {
    let folder = Folder::new("fleet-lost-process");
    // Others need no file of the first.
    let away = Folder::new("fleet-lost-process-away");
    folder.done(&long_fleet("whole"));
    let (port, args) = (free_port(), long_fleet("part"));
    let first = start(&folder, 0, 3, port, &args);
    let second = start(&away, 1, 3, port, &args);
    let mut third = start(&away, 2, 3, port, &args);
    folder.wait_for(|folder| n_weights(folder, "part").filter(|n| *n >= 5));
    let killed = Instant::now();
    third.kill().unwrap();
    let (first, second) = (said(first), said(second));
    third.wait().unwrap();
    assert!(killed.elapsed() < Duration::from_secs(10));
    assert_eq!((first.code, second.code), (Some(75), Some(75)), "{first:?} {second:?}");
    for said in [&first, &second] {
        assert!(said.stderr.contains("rank 2 disconnected"), "{said:?}");
    }
    assert!(first.stderr.contains("--resume part trains the rest"), "{first:?}");
    let kept = n_weights(&folder, "part").unwrap();
    assert!((5..40).contains(&kept), "{kept}");
    // Two complete it, of which the first is killed; then one.
    let (port, args) = (free_port(), ["train", "--resume", "part"]);
    let mut first = start(&folder, 0, 2, port, &args);
    let second = start(&away, 1, 2, port, &args);
    folder.wait_for(|folder| n_weights(folder, "part").filter(|n| *n > kept));
    first.kill().unwrap();
    first.wait().unwrap();
    let second = said(second);
    assert_eq!(second.code, Some(75), "{second:?}");
    assert!(second.stderr.contains("rank 0 disconnected"), "{second:?}");
    folder.done(&["train", "--resume", "part", "--device", "cpu"]);
    same_fleet(&folder, "whole", "part");
    assert!(!away.path("part").exists());
}

#[test]
fn a_signal_to_any_process_ends_all_in_order() {
    let folder = Folder::new("fleet-asked-process");
    let away = Folder::new("fleet-asked-process-away");
    folder.done(&long_fleet("whole"));
    let (port, args) = (free_port(), long_fleet("part"));
    let first = start(&folder, 0, 2, port, &args);
    let other = start(&away, 1, 2, port, &args);
    folder.wait_for(|folder| n_weights(folder, "part").filter(|n| *n >= 5));
    let sent = Command::new("kill").args(["-TERM", &other.id().to_string()]).status();
    assert!(sent.unwrap().success());
    // None of them has done all of it.
    let first = all_end(vec![first, other], 143);
    assert!(first.stdout.contains("--resume part"), "{first:?}");
    // With as many and one more.
    let port = free_port();
    let process = |rank| {
        let place = if rank == 0 { &folder } else { &away };
        start(place, rank, 3, port, &["train", "--resume", "part"])
    };
    let first = all_done((0..3).map(process).collect());
    assert!(first.stdout.contains("40 of 40 runs finished"), "{first:?}");
    same_fleet(&folder, "whole", "part");
    // There is nothing left to do, and that is said.
    let port = free_port();
    let process = |rank| start(&folder, rank, 2, port, &["train", "--resume", "part"]);
    let first = all_done((0..2).map(process).collect());
    assert!(first.stdout.contains("all runs of the fleet in part have finished"), "{first:?}");
}

#[test]
fn processes_stop_the_settings_that_one_stops() {
    let folder = Folder::new("fleet-halved-processes");
    let away = Folder::new("fleet-halved-processes-away");
    folder.done(&long_halved("one"));
    let process = |rank: usize, size, port, args: &[&str]| {
        let place = if rank == 0 { &folder } else { &away };
        start(place, rank, size, port, args)
    };
    for (size, out) in [(2, "two"), (5, "five")] {
        let port = free_port();
        all_done((0..size).map(|rank| process(rank, size, port, &long_halved(out))).collect());
        same_whole_fleet(&folder, "one", out);
    }
    // One is killed between rounds, and fewer go on.
    let port = free_port();
    let args = long_halved("part");
    let [first, second, mut third] = [0, 1, 2].map(|rank| process(rank, 3, port, &args));
    folder.wait_for(|folder| n_ended(folder, "part").filter(|n| *n > 0));
    third.kill().unwrap();
    third.wait().unwrap();
    let (first, second) = (said(first), said(second));
    assert_eq!((first.code, second.code), (Some(75), Some(75)), "{first:?} {second:?}");
    let port = free_port();
    let resumed = |rank| process(rank, 2, port, &["train", "--resume", "part"]);
    all_done((0..2).map(resumed).collect());
    same_fleet(&folder, "one", "part");
}

#[test]
fn what_processes_can_not_share_is_a_sentence_for_all() {
    let folder = Folder::new("fleet-refused-processes");
    let fleet = [&["train"], &SMALL[..], &["--out", "fleet"]].concat();
    let port = free_port();
    let backend = |rank: usize| {
        let backend = ["--backend", ["auto", "native"][rank], "--seeds=0..2"];
        start(&folder, rank, 2, port, &[&fleet[..], &backend].concat())
    };
    for said in [0, 1].map(backend).map(said) {
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("another configuration than rank 0"), "{said:?}");
    }
    // What the first refuses the others do not wait for.
    let port = free_port();
    let keys = |rank| start(&folder, rank, 2, port, &[&fleet[..], &["--seeds=5..5"]].concat());
    let [first, other] = [0, 1].map(keys).map(said);
    assert_eq!((first.code, other.code), (Some(2), Some(2)), "{first:?} {other:?}");
    assert!(other.stderr.contains("rank 0 gave up: --seeds 5..5: expected A..B"), "{other:?}");
    assert!(!folder.path("fleet").exists());
}
