//! One process at a time works in a run's folder, and a new one is complete or not there.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::process::Child;
use std::time::Duration;
use warp_command::{Folder, ITERATION, SMALL, Said, same_run};

const ENDLESS: [&str; 2] = ["--steps", "1000000000"];

fn said(child: Child) -> Said {
    child.wait_with_output().unwrap().into()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The folder is another process's, says one sentence.
fn is_refused(said: &Said) {
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("another process is using this folder"), "{said:?}");
    assert_eq!(said.stderr.trim_end().lines().count(), 1, "{said:?}");
}

#[test]
fn a_run_in_training_is_not_resumed() {
    let folder = Folder::new("lock-run");
    let more = ["--set=checkpoint_steps=512", "--out", "run"];
    let child = folder.spawn(&[&["train"], &SMALL[..], &ENDLESS, &more].concat());
    folder.wait_for(|folder| folder.checkpoint("run").filter(|step| *step >= 1024));
    is_refused(&folder.warp(&["train", "--resume", "run"]));
    // Reading needs no lock.
    folder.done(&["eval", "run", "--episodes", "1"]);
    // The system takes the lock back, however the process ends.
    end(child);
    let steps = (folder.checkpoint("run").unwrap() + ITERATION).to_string();
    folder.done(&["train", "--resume", "run", "--steps", &steps]);
}

#[test]
fn of_two_that_resume_a_run_at_once_neither_costs_a_line() {
    let folder = Folder::new("lock-resumes");
    folder.train(&["--steps", "2560", "--out", "run"]);
    folder.train(&["--steps", "25600", "--out", "whole"]);
    for round in 2..=10_u64 {
        let steps = (round * 2560).to_string();
        let args = ["train", "--resume", "run", "--steps", &steps];
        let both = [folder.spawn(&args), folder.spawn(&args)].map(said);
        // The second may come when the first has finished.
        assert!(both.iter().any(|said| said.code == Some(0)), "{both:?}");
        both.iter().filter(|said| said.code != Some(0)).for_each(is_refused);
        let lines = folder.metrics("run");
        assert_eq!(lines.len() as u64, round * 2560 / ITERATION);
    }
    assert_eq!(folder.timeless_metrics("run"), folder.timeless_metrics("whole"));
    assert!(!folder.path("run/metrics.superseded.jsonl").exists());
    same_run(&folder, "run", "whole");
}

#[test]
fn of_several_that_begin_in_a_folder_one_gets_it() {
    let folder = Folder::new("lock-begin");
    for (out, fleet) in [("run", false), ("fleet", true)] {
        let seeds: &[&str] = if fleet { &["--seeds", "0..3"] } else { &[] };
        let args = [&["train"], &SMALL[..], &["--steps", "2560", "--out", out], seeds].concat();
        let all = [0; 4].map(|_| folder.spawn(&args)).map(said);
        let done = all.iter().filter(|said| said.code == Some(0)).count();
        assert_eq!(done, 1, "{all:?}");
        for said in all.iter().filter(|said| said.code != Some(0)) {
            assert_eq!(said.code, Some(2), "{said:?}");
            let errors = said.stderr.lines().filter(|line| line.starts_with("error: "));
            assert_eq!(errors.count(), 1, "{said:?}");
        }
        assert_eq!(folder.metrics(out).len(), if fleet { 60 } else { 20 });
        let names = std::fs::read_dir(folder.path("")).unwrap();
        let hidden = names
            .filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
        assert_eq!(hidden.count(), 0);
    }
}

#[test]
fn a_run_killed_as_it_begins_can_begin_or_go_on() {
    let folder = Folder::new("lock-early");
    std::fs::create_dir(folder.path("mine")).unwrap();
    std::fs::write(folder.path("mine/notes"), "").unwrap();
    let (mut begun, mut not_there) = (0, 0);
    for round in 0..24_u32 {
        let out = if round % 2 == 0 { "run" } else { "mine" };
        let args = [&["train"], &SMALL[..], &ENDLESS, &["--out", out]].concat();
        let child = folder.spawn(&args);
        // From 1 ms, when nothing can have begun, to 2 s.
        std::thread::sleep(Duration::from_millis(1 << (round / 2)));
        end(child);
        // Complete runs on their way into a folder that was there count: the next process ends the move.
        let is_there = |name: &str| folder.path(out).join(name).exists();
        if is_there("config.toml") || is_there(".ready") {
            begun += 1;
            let steps = (folder.checkpoint(out).unwrap_or(0) + ITERATION).to_string();
            folder.done(&["train", "--resume", out, "--steps", &steps]);
        } else {
            not_there += 1;
            folder.train(&["--steps", "128", "--out", out]);
        }
        clear(&folder, out);
    }
    assert!(begun > 0 && not_there > 0, "{begun} {not_there}");
}

/// Makes room for the next round; what is not the run's stays.
fn clear(folder: &Folder, out: &str) {
    if out == "run" {
        std::fs::remove_dir_all(folder.path(out)).unwrap();
        return;
    }
    assert!(folder.path("mine/notes").exists());
    for entry in std::fs::read_dir(folder.path(out)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else if !path.ends_with("notes") {
            std::fs::remove_file(path).unwrap();
        }
    }
}
