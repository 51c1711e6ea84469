//! A run that diverged keeps its last good checkpoint, and a run goes on from an older one without losing
//! what came after it.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use warp_command::{Folder, ITERATION};

const EVERY: [&str; 2] = ["--set=checkpoint_steps=128", "--set=keep_checkpoints=3"];
/// One step of the optimiser per iteration, so that one can be far too large.
const WILD: [&str; 3] =
    ["--set=activation=relu", "--set=num_minibatches=1", "--set=update_epochs=1"];

#[test]
fn a_run_that_diverges_keeps_its_last_good_checkpoint_and_says_so() {
    let folder = Folder::new("diverges");
    // Good at first, then not finite behind a relu.
    let rate = "--set=learning_rate=[[0, 1e-3], [384, 1e-3], [385, 3.4e38]]";
    let backends = [
        "native",
        #[cfg(feature = "burn")]
        "burn",
    ];
    for backend in backends {
        let more = [&EVERY[..], &WILD, &[rate, "--steps", "5000", "--backend", backend]].concat();
        let args = [&["train"], &warp_command::SMALL[..], &more, &["--out", backend]].concat();
        let said = folder.warp(&args);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert_eq!(folder.checkpoint(backend), Some(512), "{said:?}");
        let words = format!(
            "last good checkpoint is that of step 512, from which --resume {backend} continues"
        );
        assert!(said.stderr.contains("diverged") && said.stderr.contains(&words), "{said:?}");
        let errors = said.stderr.lines().filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{said:?}");
        folder.done(&["eval", backend, "--episodes", "1"]);
        // None of the good ones was pruned for it.
        let names = std::fs::read_dir(folder.path(&format!("{backend}/checkpoints"))).unwrap();
        assert_eq!(names.count(), 3);
    }
}

#[test]
fn a_checkpoint_that_a_run_breaks_from_is_not_called_good() {
    let folder = Folder::new("breaks");
    // Weights of 1e38 are finite; what the network makes of them is not.
    let rate = "--set=learning_rate=[[0, 1e-3], [384, 1e-3], [385, 1e38]]";
    let more = [&EVERY[..], &WILD, &[rate, "--steps", "5000", "--out", "run"]].concat();
    let said = folder.warp(&[&["train"], &warp_command::SMALL[..], &more].concat());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(folder.checkpoint("run"), Some(640), "{said:?}");
    assert!(said.stderr.contains("--resume run@512 goes back"), "{said:?}");
    folder.done(&["train", "--resume", "run@512", "--set=learning_rate=1e-3", "--steps", "768"]);
}

#[test]
fn a_run_goes_on_from_an_older_checkpoint_and_loses_nothing() {
    let folder = Folder::new("older");
    let run = |steps: u64, out: &str| {
        let steps = steps.to_string();
        folder.train(&[&EVERY[..], &["--steps", &steps, "--out", out]].concat());
    };
    run(6 * ITERATION, "run");
    let (checkpoints, metrics) =
        (folder.files("run/checkpoints"), folder.read("run/metrics.jsonl"));
    let said = folder.warp(&["train", "--resume", "run@300"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("there is none of step 300"), "{said:?}");
    assert!(said.stderr.contains("512, 640, 768"), "{said:?}");
    let said = folder.done(&["train", "--resume", "run@512", "--steps", "896"]);
    assert!(said.stderr.contains("kept as a separate run in run/after-000000000512"), "{said:?}");
    run(7 * ITERATION, "whole");
    let aside = "run/after-000000000512";
    let later = |n: &'static str| checkpoints.iter().filter(move |(name, _)| name.starts_with(n));
    let wanted: Vec<_> = later("000000000640").chain(later("000000000768")).cloned().collect();
    assert!(folder.files(&format!("{aside}/checkpoints")) == wanted);
    assert_eq!(folder.read(&format!("{aside}/metrics.jsonl")), metrics);
    assert_eq!(folder.timeless_metrics("run"), folder.timeless_metrics("whole"));
    assert!(folder.files("run/checkpoints") == folder.files("whole/checkpoints"));
    // What was set aside is a run, which goes on as the other one did.
    folder.done(&["eval", aside, "--episodes", "1"]);
    folder.done(&["train", "--resume", aside, "--steps", "896"]);
    assert_eq!(folder.timeless_metrics(aside), folder.timeless_metrics("whole"));
    // The newest one is no older one: nothing is set aside.
    folder.done(&["train", "--resume", "run@896"]);
    // And once more from the same step.
    folder.done(&["train", "--resume", "run@640", "--steps", "896"]);
    folder.done(&["train", "--resume", "run@640", "--steps", "896"]);
    let mut names: Vec<_> = std::fs::read_dir(folder.path("run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("after-"))
        .collect();
    names.sort();
    assert_eq!(names, ["after-000000000512", "after-000000000640", "after-000000000640-2"]);
}

#[test]
fn a_damaged_newest_checkpoint_points_to_the_older_ones() {
    let folder = Folder::new("damaged-newest");
    folder.train(&[&EVERY[..], &["--steps", "512", "--out", "run"]].concat());
    folder.train(&[&EVERY[..], &["--steps", "512", "--out", "run@384"]].concat());
    let weights = folder.path("run/checkpoints/000000000512/weights.safetensors");
    std::fs::write(weights, "cut").unwrap();
    let said = folder.warp(&["train", "--resume", "run"]);
    let words = "; --resume run@STEP goes back to an older one: 384, ";
    assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
    assert!(
        said.stderr.starts_with("error: checkpoint \"run/checkpoints/000000000512"),
        "{said:?}"
    );
    // Where there is no older one, none is named.
    folder.train(&["--steps", "128", "--set=checkpoint_steps=0", "--out", "lone"]);
    std::fs::write(folder.path("lone/checkpoints/000000000128/weights.safetensors"), "cut")
        .unwrap();
    let said = folder.warp(&["train", "--resume", "lone"]);
    assert!(said.code == Some(2) && !said.stderr.contains("@STEP"), "{said:?}");
    // A folder that is called so is a run.
    folder.done(&["train", "--resume", "run@384"]);
    std::fs::rename(folder.path("run@384"), folder.path("other")).unwrap();
    folder.done(&["train", "--resume", "run@384"]);
    folder.train(&[&EVERY[..], &["--steps", "512", "--out", "whole"]].concat());
    assert_eq!(folder.timeless_metrics("run"), folder.timeless_metrics("whole"));
}
