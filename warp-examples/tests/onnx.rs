//! `warp export`: what an ONNX runtime makes of the file is what the policy does.
//!
//! What needs Python's `onnxruntime` package is reported as ignored where that is not installed; the variable
//! `WARP_PYTHON` names another Python than `python3`.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use libtest_mimic::{Arguments, Trial};
use serde_json::{Value, json};
use std::process::Command;
use warp_command::Folder;
use warp_core::{Draw, Purpose};
use warp_examples::{commands, onnx, settings};
use warp_sample::{ActionsMut, Mode, Rows};
use warp_train::learner::{PolicyInput, PolicyOutput};
use warp_train::{Learner, TrainConfig, Trainer};

/// Runs a file on the inputs of a JSON file; prints the outputs as JSON.
const RUNTIME: &str = r"
import json, sys
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])
given = json.load(open(sys.argv[2]))
inputs = {'obs': np.array(given['obs'], np.float32).reshape(-1, given['width'])}
if given['mask'] is not None:
    inputs['action_mask'] = np.array(given['mask'], bool).reshape(len(inputs['obs']), -1)
names = [output.name for output in session.get_outputs()]
outputs = session.run(names, inputs)
print(json.dumps({n: [list(x.shape), x.ravel().tolist()] for n, x in zip(names, outputs)}))
";

/// An environment, what is set, and the policy's number.
const CASES: [(&str, &str, usize); 12] = [
    ("cartpole", "norm_obs=true hidden=[9,7]", 0),
    ("cartpole", "layer_norm=true hidden=[9,7] activation=relu", 0),
    ("pendulum", "algorithm=td3 layer_norm=true hidden=[8,6]", 0),
    ("cartpole", "algorithm=a2c shared_trunk=true activation=relu", 0),
    ("pendulum", "norm_obs=true action_distribution=squashed log_std=state_dependent", 0),
    ("pendulum", "action_distribution=gaussian hidden=[] log_std_init=0.3", 0),
    ("tag_continuous", "num_envs=3 hidden=[8]", 1),
    ("covid19", "num_envs=1 num_steps=12 policy.governor.num_minibatches=1", 0),
    ("cartpole", "algorithm=dqn dueling=true hidden=[8]", 0),
    ("acrobot", "algorithm=sac hidden=[8]", 0),
    ("pendulum", "algorithm=sac hidden=[8]", 0),
    ("pendulum", "algorithm=td3 hidden=[8]", 0),
];

fn main() {
    let arguments = Arguments::from_args();
    let found = python(&["-c", "import onnxruntime"]).is_some();
    let reason = if found { "" } else { " (Python has no package onnxruntime)" };
    let mut trials = vec![Trial::test("what_can_not_be_exported_is_refused", || {
        what_can_not_be_exported_is_refused();
        Ok(())
    })];
    for (number, (env, sets, policy)) in CASES.into_iter().enumerate() {
        let name = format!("onnxruntime_acts_as_the_policy_{number}_{env}{reason}");
        let trial = Trial::test(name, move || {
            acts_alike(number, env, sets, policy);
            Ok(())
        });
        trials.push(trial.with_ignored_flag(!found));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn python(arguments: &[&str]) -> Option<String> {
    let name = std::env::var("WARP_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(name).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(text)
}

/// A policy that has learned a little, so that nothing of it is where it began.
fn trained(env: &str, sets: &str) -> (TrainConfig, Box<dyn Learner>) {
    let registry = warp_envs::registry();
    let few = ["num_envs=6", "num_steps=8"].map(String::from);
    let sets = few.into_iter().chain(sets.split_whitespace().map(String::from));
    let sets: Vec<String> = sets.collect();
    let config = settings::configure(env, &sets, &registry).unwrap();
    let learner = || commands::learner("native", &config, 1).unwrap();
    let mut trainer = Trainer::new(config.clone(), &registry, learner(), 1).unwrap();
    trainer.iterate_times(3).unwrap();
    let mut copy = learner();
    copy.load_state(&trainer.learner().state()).unwrap();
    (config, copy)
}

/// What the policy itself does.
struct Expected {
    outputs: Vec<f32>,
    values: Vec<f32>,
    action: Vec<f64>,
}

fn expected(
    config: &TrainConfig,
    learner: &mut dyn Learner,
    policy: usize,
    obs: &[f32],
    mask: Option<&[u8]>,
) -> Expected {
    let layout = &config.policies[policy].layout;
    let (n, width) = (ROWS, layout.action_width());
    let mut outputs = vec![0.0; n * layout.output_width()];
    let (mut values, mut chosen) = (vec![0.0; n], vec![0; n * width]);
    let (mut raw, mut bounded) = (vec![0.0; n * width], vec![0.0; n * width]);
    let is_discrete = !layout.head_sizes().is_empty();
    let actions = match is_discrete {
        true => ActionsMut::Discrete(&mut chosen),
        false => ActionsMut::Continuous { raw: &mut raw, bounded: &mut bounded },
    };
    let (mut log_probs, mut entropies) = (vec![0.0; n], vec![0.0; n]);
    let rows = Rows::new(0, 0);
    let input = PolicyInput { obs, action_mask: mask, layout, rows, mode: Mode::Greedy };
    let mut output = PolicyOutput {
        outputs: &mut outputs,
        values: &mut values,
        actions,
        log_probs: &mut log_probs,
        entropies: &mut entropies,
    };
    learner.act(policy, &input, &mut output).unwrap();
    let action = match is_discrete {
        true => chosen.iter().map(|choice| f64::from(*choice)).collect(),
        false => bounded.iter().map(|x| f64::from(*x)).collect(),
    };
    Expected { outputs, values, action }
}

/// Observations that are tried.
const ROWS: usize = 37;

fn acts_alike(number: usize, env: &str, sets: &str, policy: usize) {
    let folder = Folder::new(&format!("onnx-{number}"));
    let (config, mut learner) = trained(env, sets);
    let plan = &config.policies[policy];
    let group = plan.group(&config.spec);
    let width = group.observation_width();
    let mut draw = Draw::new(5, 0, 0, Purpose::Step);
    let obs: Vec<f32> = (0..ROWS * width).map(|_| draw.normal()).collect();
    let mask_width = group.mask_width();
    // Of each head at least one choice is allowed: its first.
    let mut first = vec![false; mask_width];
    let mut at = 0;
    for size in plan.layout.head_sizes().iter().take_while(|_| mask_width > 0) {
        first[at] = true;
        at += size;
    }
    let allowed = |i: usize| u8::from(first[i % mask_width] || draw.below(2) == 0);
    let mask: Vec<u8> = (0..ROWS * mask_width).map(allowed).collect();
    let mask = (mask_width > 0).then_some(&mask[..]);
    let expected = expected(&config, &mut *learner, policy, &obs, mask);

    let exported = onnx::export(&config, &mut *learner, policy).unwrap();
    let (file, input) = (folder.path("policy.onnx"), folder.path("input.json"));
    std::fs::write(&file, exported.bytes).unwrap();
    let given = json!({ "obs": obs, "width": width, "mask": mask });
    std::fs::write(&input, given.to_string()).unwrap();
    let said = python(&["-c", RUNTIME, file.to_str().unwrap(), input.to_str().unwrap()]).unwrap();
    let found: Value = serde_json::from_str(&said).unwrap();

    let numbers = |name: &str, columns: usize| -> Vec<f64> {
        let shape = json!(if columns > 0 { vec![ROWS, columns] } else { vec![ROWS] });
        assert_eq!(found[name][0], shape, "{name}");
        found[name][1].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let near = |name: &str, found: &[f64], expected: &[f64]| {
        assert_eq!(found.len(), expected.len(), "{name}");
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{name}: {a} {b}");
        }
    };
    near("action", &numbers("action", plan.layout.action_width()), &expected.action);
    if !plan.is_off_policy() {
        let values: Vec<f64> = expected.values.iter().map(|x| f64::from(*x)).collect();
        near("value", &numbers("value", 0), &values);
    }
    let n = plan.layout.output_width();
    let rows = expected.outputs.chunks(n).map(|row| row.iter().map(|x| f64::from(*x)));
    if plan.layout.head_sizes().is_empty() {
        let means: Vec<f64> = rows.clone().flat_map(|row| row.take(n / 2)).collect();
        near("mean", &numbers("mean", n / 2), &means);
        if found.get("log_std").is_some() {
            let warp_sample::ActionLayout::Continuous(elements) = &plan.layout else { panic!() };
            let within = |x: f64| f64::from(elements.clamp_log_std(x as f32));
            let deviations: Vec<f64> = rows.flat_map(|row| row.skip(n / 2).map(within)).collect();
            near("log_std", &numbers("log_std", n / 2), &deviations);
        }
        return;
    }
    let found = numbers("logits", n);
    for (i, (found, expected)) in found.iter().zip(rows.flatten()).enumerate() {
        let is_allowed = mask.is_none_or(|mask| mask[i] != 0);
        let wanted = if is_allowed { expected } else { f64::from(f32::MIN) };
        assert!((found - wanted).abs() < 1e-4 * (1.0 + wanted.abs()), "{found} {wanted}");
    }
}

fn what_can_not_be_exported_is_refused() {
    let folder = Folder::new("onnx-refused");
    folder.train(&["--steps", "128", "--out", "run"]);
    let said = folder.done(&["export", "run", "-o", "policy.onnx"]).stdout;
    assert!(
        said.contains("policy \"pole\" is in policy.onnx: in: obs f32 [n, 4], out: action i64"),
        "{said}"
    );
    let again = folder.done(&["export", "run@128", "-o", "again.onnx", "--policy", "pole"]);
    assert_eq!(again.stderr, "");
    let bytes = |name: &str| std::fs::read(folder.path(name)).unwrap();
    assert!(bytes("policy.onnx") == bytes("again.onnx") && bytes("policy.onnx").len() > 300);
    let small = ["--envs=2", "--set=num_steps=4", "--set=hidden=[4]", "--steps=8", "--out=tag"];
    folder.done(&[&["train", "tag_continuous", "--device=cpu"], &small[..]].concat());
    for (args, words) in [
        (&["tag"][..], "several policies; choose one with --policy: runner, tagger"),
        (&["tag", "--policy", "ghost"], "--policy ghost: the run has runner, tagger"),
        (&["nothing"], "nothing"),
        (&["run", "--run", "3"], "is not a fleet"),
    ] {
        let said = folder.warp(&[&["export"], args, &["-o", "no.onnx"]].concat());
        assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
        assert!(said.stderr.lines().count() == 1 && !folder.path("no.onnx").exists());
    }
    // What belongs to the run is not taken for the policy's file.
    let config = folder.read("run/config.toml");
    let said = folder.warp(&["export", "run", "-o", "run/config.toml"]);
    let words = "\"run/config.toml\": expected a name that ends in .onnx";
    assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
    assert_eq!(folder.read("run/config.toml"), config);
}
