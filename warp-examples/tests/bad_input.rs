//! Whatever the user gets wrong is said in one sentence, with exit code 2 and never a panic.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::time::{Duration, Instant};
use warp_command::{Folder, SMALL, Said};

fn refused(folder: &Folder, args: &[&str], words: &str) -> Said {
    let started = Instant::now();
    let said = folder.warp(args);
    assert_eq!(said.code, Some(2), "{args:?}: {said:?}");
    assert!(said.stdout.is_empty(), "{args:?}: {said:?}");
    assert!(said.stderr.starts_with("error: "), "{args:?}: {said:?}");
    assert_eq!(said.stderr.lines().count(), 1, "{args:?}: {said:?}");
    assert!(said.stderr.contains(words), "{args:?} should speak of {words:?}: {said:?}");
    assert!(!said.stderr.contains("panicked"), "{args:?}: {said:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{args:?} took {:?}", started.elapsed());
    said
}

/// Arguments and what the sentence must hold; `--set` values for cartpole.
const SETTINGS: [(&str, &str); 59] = [
    ("gama=0.9", "\"gamma\""),
    ("env.episode_lenght=5", "\"env.episode_length\""),
    ("policy.pole.gama=0.9", "\"policy.pole.gamma\""),
    ("policy.ghost.gamma=0.9", "\"ghost\""),
    ("policy.pole.groups=[\"hunter\"]", "\"hunter\""),
    ("policy={a={groups=[\"pole\"]},b={groups=[\"pole\"]}}", "\"pole\" is claimed"),
    ("policy.\"a b\".groups=[\"pole\"]", "letters, digits"),
    ("policy=3", "policy = 3"),
    ("policy.pole=3", "policy.pole = 3"),
    ("env=3", "env = 3"),
    ("num_envs=many", "num_envs = \"many\""),
    ("num_envs=1.5", "num_envs = 1.5"),
    ("num_envs=-1", "num_envs = -1"),
    ("num_envs=0", "num_envs = 0"),
    ("num_envs=5000000000", "num_envs = 5000000000"),
    ("num_envs=1000000000000000000", "must be at most 4294967295"),
    ("num_envs=99999999999999999999", "num_envs"),
    ("num_envs.x=3", "num_envs"),
    ("num_steps=0", "num_steps = 0"),
    ("num_steps=1000000000000000000", "1000000000000000000 steps"),
    ("num_steps=9223372036854775807", "is too large"),
    ("num_steps=100000000000000000", "free"),
    ("num_steps=1e18", "num_steps"),
    ("num_steps=1e15", "1000000000000000 steps"),
    ("total_steps=-5", "total_steps = -5"),
    ("total_steps=soon", "\"soon\""),
    ("seed=-1", "seed = -1"),
    ("keep_checkpoints=0", "keep_checkpoints = 0"),
    ("start=random", "\"fresh\", \"fixed\""),
    ("algorithm=reinforce", "\"ppo\", \"a2c\", \"dqn\""),
    ("to_train=maybe", "true or false"),
    ("gamma=2", "gamma = 2"),
    ("gamma=nan", "finite"),
    ("gae_lambda=-0.1", "gae_lambda = -0.1"),
    ("learning_rate=-1", "learning_rate = -1"),
    ("learning_rate=inf", "learning_rate = inf"),
    ("learning_rate=1e300", "does not fit in an f32"),
    ("learning_rate=[[5, 1], [3, 1]]", "increasing"),
    ("num_minibatches=0", "num_minibatches = 0"),
    ("num_minibatches=1000000000000", "num_minibatches = 1000000000000"),
    ("update_epochs=0", "update_epochs = 0: must lie between 1 and 65535"),
    ("update_epochs=4294967296", "update_epochs = 4294967296"),
    ("clip_coef=-1", "clip_coef = -1"),
    ("clip_coef=1e300", "clip_coef = 1"),
    ("vf_coef=-1", "vf_coef = -1"),
    ("vf_coef=1e300", "vf_coef = 1"),
    ("ent_coef=-1e300", "ent_coef = 1"),
    ("max_grad_norm=-1", "max_grad_norm = -1"),
    ("max_grad_norm=1e300", "does not fit in an f32"),
    ("adam_eps=-1", "adam_eps = -1"),
    ("adam_eps=nan", "adam_eps = nan"),
    ("adam_eps=1e300", "does not fit in an f32"),
    ("hidden=[0]", "hidden = [0]"),
    ("hidden=8", "list"),
    ("hidden=[1000000000]", "lower hidden"),
    ("hidden=[9223372036854775807, 9223372036854775807, 9]", "lower hidden"),
    ("hidden=[1e300]", "hidden = [1"),
    ("activation=gelu", "\"tanh\""),
    ("env.episode_length=0", "env.episode_length = 0"),
];

#[test]
fn bad_settings() {
    let folder = Folder::new("settings");
    for (set, words) in SETTINGS {
        refused(&folder, &["train", "cartpole", "--out", "run", "--set", set], words);
        assert!(!folder.path("run").exists(), "{set} has left a folder");
    }
    refused(&folder, &["config", "cartpole", "--set", "gama=0.9"], "\"gamma\"");
    refused(&folder, &["bench", "cartpole", "--set", "gama=0.9"], "\"gamma\"");
}

#[test]
fn bad_settings_of_replay_memories() {
    let folder = Folder::new("replay-settings");
    for (set, words) in [
        ("batch_size=1000000000000", "batches of 1000000000000 samples would need"),
        ("num_envs=4000000000", "lower num_envs"),
        ("num_envs=40000000", "lower num_envs"),
        ("buffer_size=1000000000", "lower buffer_size"),
        ("buffer_size=9000000000000000000", "numbered with 32 bits"),
        ("n_step=9000000000000000000", "must be at most buffer_size"),
        ("target_entropy=1e300", "does not fit in an f32"),
        ("alpha=0", "must be larger than 0"),
        ("train_freq=7", "must be a multiple of it"),
        ("log_std_init=1", "did you mean log_std_min?"),
    ] {
        let args = ["train", "pendulum", "--out", "run", "--set", "algorithm=sac", "--set", set];
        // So little memory that what needs much is refused on every machine.
        let limited = format!("ulimit -v 6000000; exec \"$0\" {}", args.join(" "));
        let said: Said = std::process::Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_warp")])
            .current_dir(folder.path(""))
            .env("CUDA_VISIBLE_DEVICES", "")
            .output()
            .unwrap()
            .into();
        assert_eq!(said.code, Some(2), "{set}: {said:?}");
        assert_eq!(said.stderr.lines().count(), 1, "{set}: {said:?}");
        assert!(said.stderr.contains(words), "{set} should speak of {words:?}: {said:?}");
        assert!(!folder.path("run").exists(), "{set} has left a folder");
    }
}

#[test]
fn bad_names_and_options() {
    let folder = Folder::new("names");
    std::fs::write(folder.path("broken.toml"), "env_id = \"cartpole\"\nnum_envs = = 2\n").unwrap();
    std::fs::write(folder.path("nameless.toml"), "gamma = 0.5\n").unwrap();
    std::fs::write(folder.path("binary.toml"), [0xff, 0xfe, 0x00, 0x80]).unwrap();
    std::fs::create_dir(folder.path("folder.toml")).unwrap();
    for (args, words) in [
        (&["train", "cartpol"][..], "did you mean \"cartpole\"?"),
        (&["train", "a\nb"], "there is no environment"),
        (&["bench", "cartpol"], "\"cartpole\""),
        (&["config", "tag_continous"], "\"tag_continuous\""),
        (&["train", "nowhere.toml"], "nowhere.toml"),
        (&["train", "broken.toml"], "line 2"),
        (&["train", "nameless.toml"], "env_id"),
        (&["train", "binary.toml"], "binary.toml"),
        (&["train", "folder.toml"], "folder.toml"),
        (&["train", "cartpole", "--set", "gamma"], "key=value"),
        (&["train", "cartpole", "--set", "=1"], "key is empty"),
        (&["train", "cartpole", "--device", "cuda"], "--device cuda"),
        (&["train", "cartpole", "--device", "cuda:1"], "--device cuda:1"),
        (&["train", "cartpole", "--device", "tpu"], "--device tpu"),
        (&["train", "cartpole", "--backend", "nativ"], "--backend nativ"),
        (&["train", "cartpole", "--backend", "torch"], "--backend torch"),
        #[cfg(not(feature = "burn"))]
        (&["train", "cartpole", "--backend", "burn"], "needs the feature burn"),
        (&["bench", "cartpole", "--device", "cuda"], "--device cuda"),
        (&["bench", "cartpole", "--envs", "0"], "num_envs = 0"),
        (&["bench", "cartpole", "--seconds", "0"], "--seconds 0"),
        (&["bench", "cartpole", "--seconds", "nan"], "--seconds NaN"),
        (&["bench", "cartpole", "--seconds", "1e300"], "--seconds 1"),
        (&["train", "--resume", "nowhere"], "nowhere"),
        (&["eval", "nowhere"], "nowhere"),
        (&["eval", "."], "config.toml"),
        (&["replay", "nowhere.npz"], "nowhere.npz"),
        (&["replay", "--json", "folder.toml"], "folder.toml"),
    ] {
        refused(&folder, args, words);
    }
}

/// What a terminal would obey is shown, wherever it comes from.
#[test]
fn escape_characters_are_shown_and_never_obeyed() {
    let folder = Folder::new("escapes");
    let evil = "\x1b]0;owned\x07\x1b[2J\u{9b}31m";
    let harmless = |text: &str| !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t');
    std::fs::write(folder.path("evil.toml"), "env_id = \"\\u001b[2Jcartpole\"\n").unwrap();
    std::fs::write(folder.path(&format!("{evil}.toml")), "[").unwrap();
    let keyed = format!("{evil}=1");
    let value = format!("env.{evil}=1");
    for args in [
        &["train", evil][..],
        &["train", "evil.toml"],
        &["train", &format!("{evil}.toml")],
        &["train", "cartpole", "--set", &keyed],
        &["train", "cartpole", "--set", &value],
        &["train", "cartpole", "--device", evil],
        &["train", "cartpole", "--steps", evil],
        &["train", "cartpole", evil],
        &["train", "cartpole", &format!("--{evil}")],
        &[evil],
        &["eval", evil],
        &["plot", evil, "-o", "x.png"],
        &["replay", evil],
    ] {
        let said = folder.warp(args);
        assert_eq!(said.code, Some(2), "{args:?}: {said:?}");
        assert!(harmless(&said.stderr), "{args:?}: {said:?}");
        assert!(said.stderr.contains("\\u001b"), "{args:?}: {said:?}");
    }
    // A name that is good for a folder is none for a terminal.
    let said = folder.train(&["--steps", "0", "--out", evil]);
    assert!(harmless(&said.stdout) && said.stdout.contains("\\u001b]0;owned"), "{said:?}");
    let said = folder.done(&["config", "cartpole", "--set", &format!("pool_file={evil}")]);
    assert!(harmless(&said.stdout), "{said:?}");
}

/// A pipe would be waited for, a device read without end.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_before_it_is_read() {
    let folder = Folder::new("no-files");
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.path(name)).unwrap();
    for kind in ["toml", "yaml", "npz", "json"] {
        let pipe = folder.path(&format!("pipe.{kind}"));
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        link("/dev/zero", &format!("zero.{kind}"));
        std::fs::create_dir(folder.path(&format!("folder.{kind}"))).unwrap();
        let large = std::fs::File::create(folder.path(&format!("large.{kind}"))).unwrap();
        large.set_len(1 << 40).unwrap();
    }
    let pool = |name: &str| {
        let file = format!("pool_file={name}.npz");
        let sets = ["--set", "start=pool", "--set", &file];
        [&["train", "cartpole"], &sets[..]].concat().into_iter().map(String::from).collect()
    };
    let named = |command: &str, file: String| vec![command.to_string(), file];
    let grid = |name: &str| {
        let set = format!("env.grid={name}.npz");
        ["train", "catalysis", "--set", &set].map(String::from).to_vec()
    };
    for (name, words) in [
        ("pipe", "a pipe, not a file"),
        ("zero", "a device, not a file"),
        ("folder", "a folder, not a file"),
        ("large", "1099511627776 bytes"),
    ] {
        let lines: [Vec<String>; 6] = [
            named("train", format!("{name}.toml")),
            named("config", format!("{name}.yaml")),
            named("replay", format!("{name}.npz")),
            [named("plot", format!("{name}.json")), named("-o", "x.png".into())].concat(),
            pool(name),
            grid(name),
        ];
        for args in &lines {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            refused(&folder, &args, words);
        }
    }
    // The files of a run, which may be another's.
    folder.train(&["--steps", "128", "--out", "run"]);
    let step = "checkpoints/000000000128";
    for (file, commands) in [
        ("config.toml", &[&["eval", "run"][..], &["train", "--resume", "run"]][..]),
        ("metrics.jsonl", &[&["plot", "run", "-o", "x.png"], &["train", "--resume", "run"]]),
        (&format!("{step}/manifest.json"), &[&["eval", "run"], &["train", "--resume", "run"]]),
        (&format!("{step}/weights.safetensors"), &[&["eval", "run"]]),
    ] {
        let (path, aside) = (folder.path(&format!("run/{file}")), folder.path("aside"));
        std::fs::rename(&path, &aside).unwrap();
        for (name, words) in [("pipe.npz", "a pipe, not a file"), ("zero.npz", "a device, not")] {
            std::os::unix::fs::symlink(folder.path(name), &path).unwrap();
            for args in commands {
                refused(&folder, args, words);
            }
            std::fs::remove_file(&path).unwrap();
        }
        std::fs::rename(&aside, &path).unwrap();
    }
    folder.done(&["eval", "run", "--episodes", "2"]);
}

/// The limit of a shell is a limit of memory, too.
#[cfg(target_os = "linux")]
#[test]
fn limits_of_the_shell_are_known_before_memory_is_taken() {
    let folder = Folder::new("ulimit");
    let script = format!(
        "ulimit -v 4000000; exec {} train cartpole --envs 40000000",
        env!("CARGO_BIN_EXE_warp")
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path(""))
        .output()
        .unwrap();
    let said = Said::from(output);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("missing: lower"), "{said:?}");
}

#[test]
fn options_out_of_range_are_refused() {
    let folder = Folder::new("range");
    let layers = format!("hidden=[{}]", "4,".repeat(8000));
    refused(&folder, &["train", "cartpole", "--set", &layers], "8000 layers: at most 64");
    for (args, words) in [
        (&["train", "cartpole", "--threads", "100000"][..], "from 0 to 1024"),
        (&["eval", "run", "--threads", "1025"], "from 0 to 1024"),
        (&["bench", "cartpole", "--threads=-1"], "from 0 to 1024"),
        (&["bench", "cartpole", "--train", "--until", "nan"], "a finite number"),
        (&["bench", "cartpole", "--train", "--until=-inf"], "a finite number"),
        (&["bench", "cartpole", "--train", "--replicas", "8,0"], "from 1"),
        (
            &["bench", "cartpole", "--train", "--curve-steps", "9", "--curve-seconds", "nan"],
            "more than 0",
        ),
    ] {
        let said = folder.warp(args);
        assert_eq!(said.code, Some(2), "{args:?}: {said:?}");
        assert!(said.stderr.starts_with("error: ") && said.stderr.contains(words), "{said:?}");
    }
}

#[test]
fn usage_errors_exit_with_2() {
    let folder = Folder::new("usage");
    for args in [
        &["train"][..],
        &["train", "cartpole", "--seed", "-1"],
        &["train", "cartpole", "--steps", "1.5"],
        &["train", "cartpole", "--envs", "many"],
        &["train", "cartpole", "--step", "5"],
        &["replay"],
        &["eval"],
        &["fly"],
    ] {
        let said = folder.warp(args);
        assert_eq!(said.code, Some(2), "{args:?}: {said:?}");
        assert!(said.stderr.starts_with("error: "), "{args:?}: {said:?}");
        assert!(!said.stderr.contains("panicked"), "{args:?}: {said:?}");
    }
}

#[test]
fn more_than_memory_holds_is_refused_before_it_is_taken() {
    let folder = Folder::new("memory");
    let words = "4000000000 replicas of cartpole";
    refused(&folder, &["train", "cartpole", "--envs", "4000000000"], words);
    refused(&folder, &["bench", "cartpole", "--envs", "4000000000"], "missing: lower --envs");
    let many = ["train", "tag_continuous", "--set", "env.num_runners=100000", "--envs", "100000"];
    refused(&folder, &many, "100000 replicas of tag_continuous");
    assert!(!folder.path("runs").exists());
    folder.train(&["--steps", "0", "--out", "run"]);
    refused(&folder, &["eval", "run", "--episodes", "4000000000"], "missing: lower");
    refused(
        &folder,
        &["eval", "run", "--episodes", "18446744073709551615"],
        "18446744073709551615",
    );
    refused(&folder, &["eval", "run", "--episodes", "0"], "episodes = 0");
    refused(&folder, &["eval", "run", "--random", "ghost"], "\"ghost\"");
    refused(&folder, &["eval", "run", "--device", "cuda"], "--device cuda");
    refused(&folder, &["eval", "run", "--backend", "nativ"], "--backend nativ");
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let folder = Folder::new("unwritable");
    std::fs::write(folder.path("file"), "a regular file").unwrap();
    for out in ["file", "file/run", "file/deeper/run"] {
        refused(&folder, &["train", "cartpole", "--steps", "0", "--out", out], out);
    }
    assert_eq!(folder.read("file"), "a regular file");
}

#[test]
fn a_damaged_run_is_refused_by_every_command_and_left_as_it_is() {
    let folder = Folder::new("damaged");
    folder.train(&["--steps", "128", "--out", "run"]);
    let step = "run/checkpoints/000000000128";
    let commands: [&[&str]; 2] =
        [&["train", "--resume", "run", "--steps", "256"], &["eval", "run", "--episodes", "2"]];
    let refused_as_it_is = |words: &str| {
        let before = folder.files("run");
        for args in commands {
            refused(&folder, args, words);
        }
        assert!(folder.files("run") == before, "{words}");
    };
    for name in
        ["weights.safetensors", "optimizer.safetensors", "state.safetensors", "manifest.json"]
    {
        let path = folder.path(&format!("{step}/{name}"));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        refused_as_it_is(name);
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x04;
        std::fs::write(&path, &flipped).unwrap();
        refused_as_it_is("is damaged");
        std::fs::remove_file(&path).unwrap();
        refused_as_it_is(name);
        std::fs::write(&path, &whole).unwrap();
    }
    let config = folder.read("run/config.toml");
    let changed = |from: &str, to: &str, words: &str| {
        assert!(config.contains(from));
        std::fs::write(folder.path("run/config.toml"), config.replace(from, to)).unwrap();
        refused_as_it_is(words);
    };
    changed("num_envs = 8", "num_envs = eight", "config.toml");
    changed("gamma = ", "gama = ", "\"gamma\"");
    changed("hidden = [8]", "hidden = [9]", "shape");
    let said = folder.warp(commands[1]);
    assert_eq!(said.stderr.matches("the policy expects shape").count(), 1, "{said:?}");
    std::fs::write(folder.path("run/config.toml"), config.replace("seed = 0", "seed = 1")).unwrap();
    refused(&folder, commands[0], "seed 0");
    std::fs::write(folder.path("run/config.toml"), &config).unwrap();
    for args in commands {
        folder.done(args);
    }
    std::fs::remove_dir_all(folder.path("run/checkpoints")).unwrap();
    refused_as_it_is("there is none");
}

#[test]
fn what_a_command_line_says_twice_is_refused_or_said() {
    let folder = Folder::new("twice");
    for (args, words) in [
        (
            &["--steps=128", "--set=total_steps=5"][..],
            "--steps 128 contradicts --set total_steps=5",
        ),
        (&["--seed=3", "--set=seed=4"], "--seed 3 contradicts --set seed=4"),
        (&["--set=num_envs=9"], "--envs 8 contradicts --set num_envs=9"),
        (&["--seeds=0..2", "--set=seed=4"], "--seeds 0..2 contradicts --set seed=4"),
        (&["--sweep-seed=4"], "--sweep"),
    ] {
        let said = folder.warp(&[&["train"], &SMALL[..], &["--out=none"], args].concat());
        assert!(said.code == Some(2) && said.stderr.contains(words), "{args:?}: {said:?}");
        assert!(!folder.path("none").exists());
    }
    let said = folder.warp(&["bench", "cartpole", "--peak=3"]);
    assert!(said.code == Some(2) && said.stderr.contains("--peak: only with --map"), "{said:?}");
    for (n, (args, words)) in [
        (
            &["--set=learning_rate=0.1", "--seed=3", "--set=seed=3"][..],
            "--set learning_rate=0.002 has no effect, since --set learning_rate=0.1 comes later",
        ),
        (
            &["--sweep=learning_rate=0.1,0.2"],
            "--set learning_rate=0.002 has no effect beside --sweep learning_rate=0.1,0.2",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("--out=run-{n}");
        let said = folder.train(&[&["--steps=128", &out], args].concat()).stderr;
        assert!(said.contains(words) && said.matches("has no effect").count() == 1, "{said}");
    }
}

#[test]
fn a_policy_of_no_group_is_named_by_what_was_said_of_it() {
    let folder = Folder::new("no-group");
    let said = folder.warp(&["train", "cartpole", "--set=policy.x.hidden=[1]", "--out=none"]);
    let words = "policy \"x\" is that of no group, since cartpole has the group pole";
    assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
}
