//! A run on several ranks by command: threads of one process, processes as a launcher starts them, what becomes of
//! all when one is lost, and fleets that are dealt out to devices.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use warp_command::{Folder, SMALL, Said, free_port, same_run};

const STEPS: [&str; 2] = ["--steps", "1024"];
/// Two shards, on the processor.
const SHARED: [&str; 4] = ["--set=shards=2", "--set=checkpoint_steps=512", "--device", "cpu"];

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

/// A run of sixteen shards.
const SIXTEEN: [&str; 8] = [
    "train",
    "cartpole",
    "--envs=16",
    "--set=num_steps=8",
    "--set=hidden=[8]",
    "--set=shards=16",
    "--steps=1024",
    "--device=cpu",
];

/// Starts `size` processes of that run with the variables that a launcher gives each, and expects what one gives.
fn as_launched(
    folder: &Folder,
    size: usize,
    out: &str,
    variables: impl Fn(usize) -> Vec<(&'static str, String)>,
) {
    let start = |rank: usize| {
        let mut command = folder.command(&[&SIXTEEN[..], &["--out", out]].concat());
        command.envs(variables(rank)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let ranks: Vec<Child> = (0..size).map(start).collect();
    for (rank, child) in ranks.into_iter().enumerate() {
        let said = said(child);
        assert_eq!(said.code, Some(0), "rank {rank} of {out}: {said:?}");
    }
    same_run(folder, "one", out);
}

#[test]
fn launchers_start_four_eight_and_sixteen_ranks_of_the_run_that_one_gives() {
    let folder = Folder::new("many-ranks");
    let train = |more: &[&str]| folder.done(&[&SIXTEEN[..], more].concat());
    train(&["--out", "one"]);
    for n in ["4", "8", "16"] {
        train(&["--gpus", n, "--out", n]);
        same_run(&folder, "one", n);
    }
    let port = free_port();
    as_launched(&folder, 4, "torchrun", |rank| {
        vec![
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "4".into()),
            ("LOCAL_RANK", rank.to_string()),
            ("MASTER_ADDR", "127.0.0.1".into()),
            // The agent keeps it; ours is the next.
            ("MASTER_PORT", (port - 1).to_string()),
        ]
    });
    // Slurm says no port: it follows from the job's number.
    let free = |port: &u16| TcpListener::bind(("localhost", *port)).is_ok();
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let job = (first..).find(free).unwrap() - 20_000;
    as_launched(&folder, 8, "slurm", |rank| {
        vec![
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_STEP_NUM_TASKS", "8".into()),
            ("SLURM_LOCALID", rank.to_string()),
            ("SLURM_STEP_NODELIST", "localhost".into()),
            ("SLURM_JOB_ID", job.to_string()),
        ]
    });
    let port = free_port();
    as_launched(&folder, 16, "mpi", |rank| {
        vec![
            ("OMPI_COMM_WORLD_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_SIZE", "16".into()),
            ("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string()),
            ("WARP_MASTER", format!("127.0.0.1:{port}")),
        ]
    });
    // Two machines of eight.
    let master = format!("127.0.0.1:{}", free_port());
    let node = |node: &str| {
        let nodes = ["--nodes=2", "--node", node, "--gpus=8", "--master", &master, "--out=nodes"];
        folder.spawn(&[&SIXTEEN[..], &nodes].concat())
    };
    let nodes = ["1", "0"].map(node);
    for node in nodes {
        let said = said(node);
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    same_run(&folder, "one", "nodes");
}

#[test]
fn replay_memories_are_shared_by_threads_and_processes() {
    let folder = Folder::new("replay-ranks");
    let run = [
        "train",
        "cartpole",
        "--envs=8",
        "--set=algorithm=dqn",
        "--set=num_steps=16",
        "--set=hidden=[8]",
        "--set=batch_size=32",
        "--set=buffer_size=400",
        "--set=learning_starts=128",
        "--set=prioritised=true",
    ];
    let run = [&run[..], &SHARED, &STEPS].concat();
    let train = |more: &[&str]| folder.done(&[&run[..], more].concat());
    train(&["--out", "one"]);
    train(&["--gpus", "2", "--out", "threads"]);
    same_run(&folder, "one", "threads");
    let master = format!("127.0.0.1:{}", free_port());
    let start = |rank: &str| {
        let mut command = folder.command(&[&run[..], &["--out", "processes"]].concat());
        command.env("WARP_RANK", rank).env("WARP_WORLD", "2").env("WARP_MASTER", &master);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ranks = ["1", "0"].map(start);
    for rank in ranks {
        let said = said(rank);
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    same_run(&folder, "one", "processes");
    // On from where it is, with as many ranks or one.
    for (run, more) in [("threads", &["--gpus", "2"][..]), ("processes", &[])] {
        let go_on = ["train", "--resume", run, "--steps", "2048", "--device", "cpu"];
        // Schedules have come to their end.
        let sets = ["--set=learning_rate=0.001", "--set=epsilon=0.1"];
        folder.done(&[&go_on[..], &sets, more].concat());
    }
    same_run(&folder, "threads", "processes");
    let uneven = folder.warp(&[&run[..], &["--gpus", "2", "--set=batch_size=31"]].concat());
    let words = "batch_size = 31 can't be divided evenly into 2 shards; shards that fit: 1, 31";
    assert!(uneven.code == Some(2) && uneven.stderr.contains(words), "{uneven:?}");
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
fn what_the_user_has_to_put_right_ends_all_ranks_with_one_exit_code() {
    let folder = Folder::new("users-rank");
    folder.train(&["--steps=128", "--out=taken", "--device=cpu"]);
    let files = folder.files("taken");
    let port = free_port();
    let start = |number| rank(&folder, number, port, &["--out=taken"]).spawn().unwrap();
    let [first, other] = [0, 1].map(start).map(said);
    // A launcher that restarts ranks which are lost (75) would do so in vain.
    assert_eq!((first.code, other.code), (Some(2), Some(2)), "{first:?} {other:?}");
    let words = "the ranks of this run can't continue: rank 0 gave up: ";
    assert!(other.stderr.contains(words) && other.stderr.contains("taken"), "{other:?}");
    assert!(folder.files("taken") == files);
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
    assert_eq!((first.code, other.code), (Some(143), Some(143)), "{first:?} {other:?}");
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
            &["--device", "cpu", "--gpus", "2", "--set", "shards=4", "--set", "num_envs=6"],
            &[],
            "--envs 8 contradicts --set num_envs=6",
        ),
        (
            &["--device", "cpu", "--gpus", "3", "--set", "shards=4"],
            &[],
            "3 ranks can't share 4 shards evenly; ranks that can: 1, 2, 4",
        ),
    ] {
        let mut command = folder.command(&[&["train"], &SMALL[..], more].concat());
        command.envs(variables.iter().copied());
        let said: Said = command.output().unwrap().into();
        assert_eq!(said.code, Some(2), "{more:?}: {said:?}");
        assert!(said.stderr.contains(words), "{more:?}: {said:?}");
    }
}
