//! `warp gradcheck` and `warp bench --train`, with its curves, through the command.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use warp_command::Folder;

#[test]
fn gradients_are_checked_parameter_by_parameter() {
    let folder = Folder::new("gradcheck");
    // The workspace's build has burn, this crate's own does not.
    let pairs: &[_] = match cfg!(feature = "burn") {
        true => &[("native", "differences"), ("native", "burn"), ("burn", "differences")],
        false => &[("native", "differences")],
    };
    let small = ["gradcheck", "pendulum", "--device", "cpu", "--set", "hidden=[8]", "--rows", "24"];
    let said = folder.done(&small);
    assert!(said.stdout.contains("log_std [1]") && said.stdout.contains("all gradients agree"));
    let found = folder.done(&[&small[..], &["--json"]].concat()).json();
    assert_eq!((&found["passed"], &found["device"]), (&true.into(), &"cpu".into()));
    let comparisons = found["environments"][0]["comparisons"].as_array().unwrap();
    // Two losses; the loss itself and nine tensors.
    assert_eq!(comparisons.len(), pairs.len() * 2 * 10);
    for (backend, against) in pairs {
        assert!(comparisons.iter().any(|c| c["backend"] == *backend && c["against"] == *against));
    }
    assert!(comparisons.iter().any(|c| c["error"].as_f64().unwrap() > 0.0));
    // Two more pairs: with differences and with the first.
    let found = folder.done(&[&small[..], &["--json", "--ranks", "4"]].concat()).json();
    let comparisons = found["environments"][0]["comparisons"].as_array().unwrap();
    assert_eq!((&found["passed"], comparisons.len()), (&true.into(), (pairs.len() + 2) * 2 * 10));
    assert!(comparisons.iter().any(|c| c["backend"] == "ranks"), "{comparisons:?}");
    let said = folder.warp(&["gradcheck", "pendulum", "--rows", "0"]);
    assert!(said.code == Some(2) && said.stderr.contains("rows = 0"), "{said:?}");
    let said = folder.warp(&["gradcheck", "pendulum", "--device", "tpu"]);
    assert!(said.code == Some(2) && said.stderr.contains("--device tpu"), "{said:?}");
}

#[test]
fn gradients_of_algorithms_with_a_replay_memory_are_checked() {
    let folder = Folder::new("gradcheck-replay");
    let small = ["gradcheck", "pendulum", "--device", "cpu", "--set", "algorithm=sac"];
    let small = [&small[..], &["--set", "hidden=[6]", "--rows", "16"]].concat();
    let said = folder.done(&small);
    assert!(said.stdout.contains("pendulum temperature temperature.head.bias [1]"), "{said:?}");
    assert!(said.stdout.contains("all gradients agree"), "{said:?}");
    let found = folder.done(&[&small[..], &["--json"]].concat()).json();
    assert_eq!(found["passed"], true);
    let comparisons = found["environments"][0]["comparisons"].as_array().unwrap();
    // Critics and actor with a loss each and four tensors a network; the temperature's one.
    assert_eq!(comparisons.len(), (1 + 2 * 4) + (1 + 4) + 1);
}

#[test]
fn training_is_measured_for_several_numbers_of_replicas() {
    let folder = Folder::new("bench-train");
    let args = "bench cartpole --train --replicas 4 16 --seconds 0.05 --set num_steps=16";
    let args: Vec<&str> = args.split(' ').chain(["--set", "hidden=[8]"]).collect();
    let found = folder.done(&[&args[..], &["--json"]].concat()).json();
    let parts = found["training"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    for (part, replicas) in parts.iter().zip([4, 16]) {
        let figure = |key: &str| part[key].as_f64().unwrap();
        assert_eq!(part["replicas"], replicas);
        assert_eq!(part["steps_per_iteration"], 16 * replicas);
        assert!(figure("lowest") > 0.0);
        assert!(figure("lowest") <= figure("env_steps_per_second"));
        assert!(figure("env_steps_per_second") <= figure("highest"));
        assert!(figure("collect_ms") > 0.0 && figure("update_ms") > 0.0);
        assert!(figure("startup_seconds") > 0.0 && figure("first_iteration_seconds") > 0.0);
    }
    let said = folder.done(&args);
    assert!(said.stdout.contains("once: start-up"), "{said:?}");
    let said = folder.warp(&["bench", "cartpole", "--replicas", "4"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

#[test]
fn curves_of_several_seeds_stand_beside_the_rate() {
    let folder = Folder::new("bench-curves");
    let args = "bench tag_gridworld --train --replicas 4,8 --seconds 0.05 --set num_steps=10 --seeds 3 \
                --curve-steps 1601 --set hidden=[8] --set env.episode_length=20 --json";
    let found = folder.done(&args.split_whitespace().collect::<Vec<_>>()).json();
    assert_eq!(found["precision"], "fp32");
    let command = found["command"].as_str().unwrap();
    assert!(command.starts_with("warp bench tag_gridworld --train --replicas 4,8"), "{command}");
    assert!(command.contains(" --set 'hidden=[8]' --set env.episode_length=20 "), "{command}");
    let parts = found["training"].as_array().unwrap();
    for (part, (steps, points)) in parts.iter().zip([(40_u64, 41_usize), (80, 21)]) {
        let curves = &part["curves"];
        let ends = curves["steps"].as_array().unwrap();
        assert_eq!((ends.len(), ends[points - 1].as_u64()), (points, Some(points as u64 * steps)));
        assert_eq!(curves["seconds"].as_array().unwrap().len(), 3);
        let groups = curves["groups"].as_array().unwrap();
        let names: Vec<_> = groups.iter().map(|g| g["group"].as_str().unwrap()).collect();
        assert_eq!(names, ["tagger", "runner"]);
        for group in groups {
            let seeds = group["seeds"].as_array().unwrap();
            assert!(seeds.len() == 3 && seeds[0] != seeds[1]);
            // Twenty steps are two iterations: none has ended in the first.
            assert!(group["mean"][0].is_null());
            let last = |figure: &str| group[figure][points - 1].as_f64();
            let by_seed = |i: usize| seeds[i][points - 1].as_f64().unwrap();
            if let (Some(low), Some(mean), Some(high)) =
                (last("lowest"), last("mean"), last("highest"))
            {
                assert!(low <= by_seed(0) && by_seed(1) <= high && low <= mean && mean <= high);
            }
        }
    }
    std::fs::write(folder.path("report.json"), found.to_string()).unwrap();
    let said = folder.done(&["plot", "report.json", "--out", "curves.svg"]);
    assert!(said.stdout.starts_with("12 runs are drawn"), "{said:?}");
    let drawing = folder.read("curves.svg");
    for text in ["4 replicas, tagger", "8 replicas, runner", "fp32 on cpu, mean of 3 runs"] {
        assert!(drawing.contains(text), "{text}");
    }
    for (report, words) in [("{\"env\": 1}", "cannot read the report"), ("", "cannot read")] {
        std::fs::write(folder.path("report.json"), report).unwrap();
        let said = folder.warp(&["plot", "report.json", "--out", "curves.svg"]);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
    }
}

#[test]
fn a_curve_has_a_point_for_the_same_episodes_that_training_logs() {
    let folder = Folder::new("bench-curve-train");
    let sets = ["--set", "num_steps=16", "--set", "hidden=[8]", "--set", "num_minibatches=2"];
    let bench = ["bench", "cartpole", "--train", "--replicas", "8", "--seconds", "0.05", "--json"];
    let curve = ["--curve-steps", "640", "--seeds", "2"];
    let found = folder.done(&[&bench[..], &curve, &sets].concat()).json();
    let curves = &found["training"][0]["curves"];
    let train =
        ["train", "cartpole", "--envs", "8", "--steps", "640", "--seed", "1", "--out", "run"];
    folder.done(&[&train[..], &sets].concat());
    let logged = folder.metrics("run");
    let seed = curves["groups"][0]["seeds"][1].as_array().unwrap();
    assert_eq!(logged.len(), 5);
    for (line, (point, step)) in
        logged.iter().zip(seed.iter().zip(curves["steps"].as_array().unwrap()))
    {
        let (mean, point) = (&line["episode_return"]["mean"], point.as_f64());
        assert_eq!(&line["env_steps"], step);
        assert!(mean.as_f64().zip(point).is_some_and(|(a, b)| (a - b).abs() < 1e-9), "{line}");
    }
}

#[test]
fn time_runs_until_a_return_is_reached() {
    let folder = Folder::new("bench-until");
    let args = "bench cartpole --train --replicas 16 --set total_steps=200000 --seeds 2 --json \
                --set num_steps=64 --set learning_rate=3e-3 --until";
    let args: Vec<&str> = args.split_whitespace().collect();
    let found = folder.done(&[&args[..], &["60"]].concat()).json();
    let part = &found["replicas"][0];
    assert!(part["n_reached"] == 2 && found["until"] == 60.0, "{found}");
    for (seed, attempt) in part["seeds"].as_array().unwrap().iter().enumerate() {
        let figure = |key: &str| attempt[key].as_f64().unwrap();
        assert!(attempt["seed"] == seed && attempt["repeated_exactly"] == true, "{attempt}");
        assert!(figure("episode_return") >= 60.0 && figure("iterations") > 1.0);
        assert_eq!(figure("env_steps"), 1024.0 * figure("iterations"));
        assert!(figure("run_seconds") > 0.0 && figure("run_seconds_at_once") > 0.0);
        assert_eq!(attempt["evaluation"]["episodes"], 100);
        assert!(attempt["evaluation"]["mean_episode_return"].as_f64().unwrap() > 60.0);
    }
    let start = found["start_to_first_reached_seconds"].as_f64().unwrap();
    assert!(start > part["seeds"][0]["run_seconds"].as_f64().unwrap());
    // What can't be reached ends with the run.
    let found = folder.done(&[&args[..], &["501", "--set", "total_steps=2000"]].concat()).json();
    let part = &found["replicas"][0];
    assert!(part["n_reached"] == 0 && part["run_seconds"].is_null(), "{found}");
    assert!(part["seeds"][1]["env_steps"] == 2048 && part["seeds"][1]["reached"] == false);
    assert!(found["start_to_first_reached_seconds"].is_null());
}

#[test]
fn what_makes_no_sense_for_a_curve_is_refused() {
    let folder = Folder::new("bench-curve-refused");
    for (args, words) in [
        ("--curve-steps 10", "--train"),
        ("--train --curve-seconds 1", "--curve-steps"),
        ("--train --curve-steps 10 --until 3", "cannot be used with"),
        ("--train --seconds 0.01 --curve-steps 0", "--curve-steps 0"),
        ("--train --seconds 0.01 --curve-steps 9 --curve-seconds 0", "--curve-seconds"),
        ("--train --curve-steps 10 --seeds 0", "--seeds"),
        ("--train --until much", "--until"),
    ] {
        let args: Vec<&str> = ["bench", "cartpole"].into_iter().chain(args.split(' ')).collect();
        let said = folder.warp(&args);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{args:?} {said:?}");
    }
}

#[test]
fn a_map_grows_by_what_it_lacks() {
    let folder = Folder::new("bench-map");
    let map = |cells: &str| {
        let args =
            "bench --map map.json --seconds 0.01 --set num_steps=4 --peak 0.5 --json --cells";
        let args: Vec<&str> = args.split(' ').chain([cells]).collect();
        folder.done(&args)
    };
    let first = map("cartpole a2c 64-64 separate 256");
    assert!(first.stderr.contains("cartpole a2c 64-64 separate 256"), "{first:?}");
    let found = map("cartpole a2c 64-64 256");
    // What is there is not measured again.
    assert!(!found.stderr.contains("separate"), "{found:?}");
    assert!(found.stderr.contains("cartpole a2c 64-64 shared 256"), "{found:?}");
    let found = found.json();
    let cells = found["cells"].as_array().unwrap();
    assert_eq!((cells.len(), &found["left"]), (2, &0.into()));
    for cell in cells {
        let figure = |key: &str| cell["found"][key].as_f64().unwrap();
        assert!(figure("world_steps_per_second") > figure("steps_per_second"), "{cell}");
        assert!((figure("fraction") - figure("tflops") / 0.5).abs() < 1e-12, "{cell}");
        assert_eq!(cell["found"]["path"], "on the processor");
        let phase = |key: &str| cell["found"]["phases"][key].as_f64().unwrap();
        assert!(phase("products_of_learning") > 0.0, "{cell}");
        assert!(phase("world") > 0.0 && phase("world") < 1.0, "{cell}");
    }
    assert!(folder.read("map.svg").contains("cartpole a2c shared"));
    // Learning from a replay memory is timed as a whole, and so says nothing of phases.
    let found = map("pendulum sac 64-64 separate 256").json();
    let cell =
        found["cells"].as_array().unwrap().iter().find(|cell| cell["cell"]["algorithm"] == "sac");
    assert!(cell.unwrap()["found"].get("phases").is_none(), "{found}");
    let again = map("pendulum sac 64-64 separate 256");
    assert!(again.stderr.is_empty() && again.json()["cells"] == found["cells"], "{again:?}");
}

#[test]
fn products_of_layers_have_rates() {
    let folder = Folder::new("bench-gemm");
    let args = ["bench", "gemm", "--seconds", "0.05", "--threads", "2"];
    let said = folder.done(&args);
    assert!(said.stdout.contains("1024 x 1024"), "{said:?}");
    let found = folder.done(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(found["threads"], 2);
    for layer in found["layers"].as_array().unwrap() {
        for product in ["forward", "to_weights", "to_inputs"] {
            assert!(layer[product].as_f64().unwrap() > 0.0, "{layer}");
        }
    }
}

#[test]
fn a_map_of_no_cell_is_refused() {
    let folder = Folder::new("bench-map-none");
    let said = folder.warp(&["bench", "--map", "map.json", "--cells", "cartpole sac"]);
    assert!(said.code == Some(2) && said.stderr.contains("no cell has all of these"), "{said:?}");
    let said = folder.warp(&["bench", "--map", "no/map.json"]);
    assert!(said.code == Some(2) && said.stderr.contains("there is no folder \"no\""), "{said:?}");
    let said = folder.warp(&["bench", "--cells", "all"]);
    assert!(said.code == Some(2) && said.stderr.contains("--map"), "{said:?}");
}
