//! The records of a run: event files frame by frame and as TensorBoard reads them, curves, plots.
//!
//! What needs Python's `tensorboard` package is reported as ignored where that is not installed.

#![expect(clippy::unwrap_used, reason = "clippy knows tests by their attribute, which these lack")]

mod warp_command;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use std::process::Command;
use warp_command::{Folder, ITERATION};
use warp_examples::records::{crc32c, read_frames};

/// Reads a folder of event files as TensorBoard does and prints what is in it.
const READER: &str = r#"
import json, sys
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.plugins.hparams import metadata
everything = {'scalars': 0, 'histograms': 0, 'tensors': 0}
events = event_accumulator.EventAccumulator(sys.argv[1], size_guidance=everything).Reload()
new = plugin_event_accumulator.EventAccumulator(sys.argv[1], size_guidance=everything).Reload()
tags = events.Tags()
session = new.PluginTagToContent('hparams')['_hparams_/session_start_info']
hparams = metadata.parse_session_start_info_plugin_data(session).hparams
value = lambda v: getattr(v, v.WhichOneof('kind'))
histogram = lambda h: [h.step, h.histogram_value.num, list(h.histogram_value.bucket)]
print(json.dumps({
    'scalars': {t: [[e.step, e.value] for e in events.Scalars(t)] for t in tags['scalars']},
    'histograms': {t: [histogram(h) for h in events.Histograms(t)] for t in tags['histograms']},
    'config': [e.tensor_proto.string_val[0].decode() for e in new.Tensors('config')],
    'hparams': {k: value(v) for k, v in hparams.items()},
    'migrated': sorted(new.Tags()['tensors']),
}))
"#;

fn main() {
    let arguments = Arguments::from_args();
    let test = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let mut trials = vec![
        test("events_are_whole_frames", events_are_whole_frames),
        test("a_torn_file_is_continued", a_torn_file_is_continued),
        test("plots_are_drawn", plots_are_drawn),
        test("large_metrics_take_little_memory", large_metrics_take_little_memory),
        test("seeds_of_one_configuration_are_one_curve", seeds_of_one_configuration_are_one_curve),
        test(
            "groups_of_agents_have_panels_of_their_own",
            groups_of_agents_have_panels_of_their_own,
        ),
        test("what_can_not_be_plotted_is_refused", what_can_not_be_plotted_is_refused),
    ];
    let found = python(&["-c", "import tensorboard"]).is_some();
    let reason = if found { "" } else { " (Python has no package tensorboard)" };
    for (name, function) in [
        ("tensorboard_reads_a_run", tensorboard_reads_a_run as fn()),
        ("tensorboard_reads_a_continued_run", tensorboard_reads_a_continued_run),
    ] {
        trials.push(test(&format!("{name}{reason}"), function).with_ignored_flag(!found));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// What a Python program prints; `None` if there is no Python or the program fails.
fn python(arguments: &[&str]) -> Option<String> {
    let output = Command::new("python3").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn tensorboard(folder: &Folder, run: &str) -> Value {
    let events = folder.path(&format!("{run}/tensorboard"));
    let text = python(&["-c", READER, events.to_str().unwrap()]).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn events(folder: &Folder, run: &str, number: usize) -> Vec<u8> {
    let name = format!("{run}/tensorboard/events.out.tfevents.{number:04}.warp");
    std::fs::read(folder.path(&name)).unwrap()
}

/// The step of an event: the field after its wall time.
fn step(event: &[u8]) -> u64 {
    assert_eq!(event[0], 0x09);
    if event.get(9) != Some(&0x10) {
        return 0;
    }
    let bytes = event[10..].iter().enumerate();
    let mut step = 0;
    for (i, byte) in bytes {
        step |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            break;
        }
    }
    step
}

fn events_are_whole_frames() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let folder = Folder::new("frames");
    folder.train(&["--steps", "640", "--out", "run"]);
    let data = events(&folder, "run", 0);
    let frames = read_frames(&data);
    assert_eq!(frames.iter().map(|frame| frame.len() + 16).sum::<usize>(), data.len());
    // The version, what the run is, five iterations, the end.
    let steps: Vec<u64> = frames.iter().map(|frame| step(frame)).collect();
    assert_eq!(steps, [0, 0, 128, 256, 384, 512, 640, 640]);
    assert!(frames[0].ends_with(b"brain.Event:2"));
    assert!(frames[1].windows(10).any(|part| part == b"num_envs ="));
    assert_picture(&std::fs::read(folder.path("run/curves.png")).unwrap());
}

/// Trains to 1,024 steps, throws the later checkpoints away and tears the event file.
fn interrupted(folder: &Folder) {
    let keep = ["--set=checkpoint_steps=256", "--set=keep_checkpoints=9"];
    folder.train(&[&keep[..], &["--steps", "1024", "--out", "run"]].concat());
    for step in [768, 1024] {
        std::fs::remove_dir_all(folder.path(&format!("run/checkpoints/{step:012}"))).unwrap();
    }
    let data = events(folder, "run", 0);
    let path = folder.path("run/tensorboard/events.out.tfevents.0000.warp");
    std::fs::write(path, &data[..data.len() - 7]).unwrap();
}

fn a_torn_file_is_continued() {
    let folder = Folder::new("torn");
    interrupted(&folder);
    let torn = events(&folder, "run", 0);
    folder.done(&["train", "--resume", "run", "--steps", "768"]);
    let (first, second) = (events(&folder, "run", 0), events(&folder, "run", 1));
    let steps = |data: &[u8]| read_frames(data).iter().map(|f| step(f)).collect::<Vec<u64>>();
    // The first file is as it was, torn last event and all.
    assert_eq!(steps(&first), [0, 0, 128, 256, 384, 512, 640, 768, 896, 1024]);
    assert!(first == torn);
    // The version, "what comes from step 513 on counts no more", what the run is, two iterations, the
    // end.
    assert_eq!(steps(&second), [512, 513, 512, 640, 768, 768]);
}

fn tensorboard_reads_a_run() {
    let folder = Folder::new("read");
    folder.train(&["--steps", "640", "--out", "run"]);
    let read = tensorboard(&folder, "run");
    let metrics = folder.metrics("run");
    let agrees = |tag: &str, keys: &[&str]| {
        let scalars = read["scalars"][tag].as_array().unwrap();
        let figure = |line: &Value| keys.iter().fold(line.clone(), |v, key| v[key].clone());
        let figures = metrics.iter().map(|line| (line["env_steps"].clone(), figure(line)));
        let wanted: Vec<_> = figures.filter(|(_, figure)| figure.is_number()).collect();
        assert_eq!(scalars.len(), wanted.len(), "{tag}");
        for (read, (step, wanted)) in scalars.iter().zip(&wanted) {
            assert_eq!(read[0], *step);
            let (read, wanted) = (read[1].as_f64().unwrap(), wanted.as_f64().unwrap());
            assert!((read - wanted).abs() <= 1e-6 * wanted.abs(), "{tag}: {read} {wanted}");
        }
    };
    agrees("run/episodes", &["episodes"]);
    agrees("run/agent_steps", &["agent_steps"]);
    agrees("episode_return/mean", &["episode_return", "mean"]);
    agrees("policy/pole/value_loss", &["policy", "pole", "value_loss"]);
    agrees("steps_per_second/total", &["steps_per_second", "total"]);
    let histograms = read["histograms"]["actions/pole"].as_array().unwrap();
    assert_eq!(histograms.len(), 5);
    for histogram in histograms {
        let buckets = histogram[2].as_array().unwrap();
        let sum: f64 = buckets.iter().map(|count| count.as_f64().unwrap()).sum();
        assert_eq!((buckets.len(), sum), (2, ITERATION as f64));
    }
    let config = format!("```toml\n{}```\n", folder.read("run/config.toml"));
    assert_eq!(read["config"][0], config);
    let hparams = &read["hparams"];
    assert_eq!((&hparams["num_envs"], &hparams["env_id"]), (&8.0.into(), &"cartpole".into()));
    assert_eq!(hparams["norm_adv"], true);
    let migrated = read["migrated"].as_array().unwrap();
    assert!(migrated.contains(&"actions/pole".into()) && migrated.contains(&"config".into()));
}

fn tensorboard_reads_a_continued_run() {
    let folder = Folder::new("continued");
    interrupted(&folder);
    folder.done(&["train", "--resume", "run", "--steps", "768"]);
    let read = tensorboard(&folder, "run");
    let losses = read["scalars"]["policy/pole/loss"].as_array().unwrap();
    let steps: Vec<u64> = losses.iter().map(|point| point[0].as_u64().unwrap()).collect();
    assert_eq!(steps, [128, 256, 384, 512, 640, 768]);
    assert_eq!(read["config"].as_array().unwrap().len(), 2);
}

/// A PNG file in which something is drawn.
fn assert_picture(data: &[u8]) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(data)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert!(info.width >= 700 && info.height >= 400);
    let mut colours: Vec<&[u8]> = pixels.chunks(3).collect();
    let white = colours.iter().filter(|colour| ***colour == [255; 3]).count();
    assert!(white > colours.len() / 2);
    colours.sort_unstable();
    colours.dedup();
    // Axes, text and a line, with their smoothed edges.
    assert!(colours.len() > 50, "{} colours", colours.len());
}

fn plots_are_drawn() {
    let folder = Folder::new("plots");
    for (seed, algorithm) in [("0", "ppo"), ("1", "ppo"), ("0", "a2c")] {
        let (set, out) = (format!("--set=algorithm={algorithm}"), format!("{algorithm}{seed}"));
        folder.train(&["--steps", "1280", "--seed", seed, &set, "--out", &out]);
    }
    // One of them twice, by another name.
    let runs = ["plot", "ppo0", "ppo1", "a2c0", "./ppo0"];
    let said = folder.done(&[&runs[..], &["-o", "plot.png"]].concat());
    assert!(said.stdout.contains("3 runs are drawn in plot.png"));
    assert_picture(&std::fs::read(folder.path("plot.png")).unwrap());
    let more = ["-o", "plot.svg", "--band", "std", "--metric", "policy.pole.entropy"];
    folder.done(&[&runs[..], &more].concat());
    let svg = folder.read("plot.svg");
    let title = "policy.pole.entropy: mean, one standard deviation either way";
    for wanted in ["<svg", "</svg>", "PPO, mean of 2 runs", "A2C", title] {
        assert!(svg.contains(wanted), "{wanted}");
    }
}

/// The texts of a drawing.
fn texts(svg: &str) -> Vec<&str> {
    let parts = svg.split("<text").skip(1).filter_map(|part| part.split_once('>'));
    parts.filter_map(|(_, text)| Some(text.split_once('<')?.0.trim())).collect()
}

fn seeds_of_one_configuration_are_one_curve() {
    let folder = Folder::new("settings");
    for (steps, seed, rate, out) in [
        ("1280", "0", "0.01", "a0"),
        ("2560", "1", "0.01", "a1"),
        ("1280", "0", "0.001", "b0"),
        ("1280", "1", "0.001", "b1"),
    ] {
        let rate = format!("learning_rate={rate}");
        folder.train(&["--steps", steps, "--seed", seed, "--set", &rate, "--out", out]);
    }
    let plot = |more: &[&str]| {
        let all = ["plot", "a0", "a1", "b0", "b1", "-o", "plot.svg"];
        folder.done(&[&all[..], more].concat());
        folder.read("plot.svg")
    };
    let svg = plot(&["--band", "confidence"]);
    let found = texts(&svg);
    for wanted in [
        "PPO, learning_rate = 0.01, mean of 2 runs (1 at the end)",
        "PPO, learning_rate = 0.001, mean of 2 runs",
        "Episode return: mean, 95 % confidence interval of the mean, Student&apos;s t",
        "environment steps",
    ] {
        assert!(found.contains(&wanted), "{wanted}: {found:?}");
    }
    // The longer of two runs goes on alone: the axis ends where it does.
    assert!(found.contains(&"2500"), "{found:?}");
    assert!(texts(&plot(&["--x", "seconds"])).contains(&"seconds"));
    assert!(texts(&plot(&["--x", "episodes"])).contains(&"episodes"));
}

fn groups_of_agents_have_panels_of_their_own() {
    let folder = Folder::new("sides");
    let small =
        ["--envs", "20", "--set=num_steps=16", "--set=num_minibatches=1", "--steps", "6400"];
    let train = |more: &[&str]| {
        let tag = ["train", "tag_gridworld", "--set=hidden=[8]", "--set=env.episode_length=20"];
        folder.done(&[&tag[..], &small, more].concat())
    };
    let said = train(&["--seed", "7", "--out", "run"]);
    let last = said.stdout.lines().last().unwrap();
    assert!(last.contains("(runner), ") && last.contains("(tagger) over the last"), "{last}");
    let said = train(&["--seeds", "0..2", "--out", "fleet"]).stdout;
    for group in ["runner", "tagger"] {
        let line = format!("all runs: mean return over the last episodes of {group} ");
        assert!(said.contains(&line), "{said}");
    }
    let summary: Value = serde_json::from_str(&folder.read("fleet/summary.json")).unwrap();
    assert_eq!(summary["group_returns"]["tagger"]["n"], 2);
    assert!(summary["runs"][0]["mean_group_return"]["runner"].is_number());
    folder.done(&["plot", "run", "fleet", "-o", "plot.svg"]);
    let svg = folder.read("plot.svg");
    for wanted in ["tag_gridworld, runner", "tag_gridworld, tagger", "mean of 3 runs"] {
        assert!(svg.contains(wanted), "{wanted}: {:?}", texts(&svg));
    }
    let said = folder.warp(&["plot", "fleet", "-o", "plot.svg", "--x", "seconds"]);
    assert!(said.code == Some(2) && said.stderr.contains("share launches"), "{said:?}");
}

/// Metrics of 40 MB are read with 120 MB for everything; whole, they would take several times as much.
fn large_metrics_take_little_memory() {
    let folder = Folder::new("large");
    folder.train(&["--steps", "128", "--out", "run"]);
    let path = folder.path("run/metrics.jsonl");
    let line = folder.metrics("run").pop().unwrap();
    let n = 40_000_000 / line.to_string().len() as u64;
    let mut text = String::new();
    for i in 1..=n {
        let mut line = line.clone();
        (line["iteration"], line["env_steps"]) = (i.into(), (i * ITERATION).into());
        text += &(line.to_string() + "\n");
    }
    std::fs::write(&path, text).unwrap();
    let within = |arguments: &[&str]| {
        let limited = ["-c", "ulimit -d 120000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_warp")];
        let mut command = Command::new("sh");
        command.args(limited).args(arguments).current_dir(folder.path(""));
        let output = command.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    within(&["plot", "run", "-o", "plot.svg"]);
    within(&["train", "--resume", "run", "--threads", "1"]);
    assert_eq!(folder.metrics("run").len(), 1);
    let aside = std::fs::read_to_string(folder.path("run/metrics.superseded.jsonl")).unwrap();
    assert_eq!(aside.lines().count() as u64, n - 1);
}

fn what_can_not_be_plotted_is_refused() {
    let folder = Folder::new("refused");
    folder.train(&["--steps", "128", "--out", "run"]);
    let refused = |arguments: &[&str], wanted: &str| {
        let said = folder.warp(&[&["plot"], arguments].concat());
        assert_eq!(said.code, Some(2), "{said:?}");
        assert_eq!(said.stderr.trim_end().lines().count(), 1, "{said:?}");
        assert!(said.stderr.contains(wanted), "{said:?}");
    };
    refused(&["run", "-o", "plot.pdf"], "\"plot.pdf\": expected a name that ends in .png or .svg");
    refused(&["run", "-o", "nowhere/plot.png"], "cannot write \"nowhere/plot.png\"");
    refused(&["nowhere", "-o", "plot.png"], "cannot read a run's \"nowhere/config.toml\"");
    refused(&["run", "-o", "plot.png", "--metric", "loss"], "there are agent_steps, env_steps");
    std::fs::remove_file(folder.path("run/metrics.jsonl")).unwrap();
    refused(&["run", "-o", "plot.png"], "cannot read a run's \"run/metrics.jsonl\"");
}
