//! Reset pools from the outside: drawn from the seed or read from a file, trained with, resumed,
//! evaluated, and refused where something does not fit.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use warp_command::{Folder, Said, same_run};
use warp_examples::settings;
use warp_func::{Start, VecOptions};

/// An uncompressed archive of arrays, each (name, dtype, shape, bytes), as `numpy.savez` writes it.
fn npz(arrays: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut list) = (vec![], vec![]);
    for (name, descr, shape, data) in arrays {
        let shape: String = shape.iter().map(|n| format!("{n}, ")).collect();
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n");
        let length = (header.len() as u16).to_le_bytes();
        let data = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat();
        let (member, offset) = (format!("{name}.npy"), bytes.len() as u32);
        let mut about = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        about.extend(crc32(&data).to_le_bytes());
        about.extend([(data.len() as u32).to_le_bytes(); 2].concat());
        about.extend([(member.len() as u16).to_le_bytes(), [0, 0]].concat());
        bytes.extend([b"PK\x03\x04", &about[..], member.as_bytes(), &data].concat());
        list.extend([b"PK\x01\x02\x14\x00", &about[..], &[0; 10], &offset.to_le_bytes()].concat());
        list.extend(member.as_bytes());
    }
    let n = (arrays.len() as u16).to_le_bytes();
    let (size, offset) = ((list.len() as u32).to_le_bytes(), (bytes.len() as u32).to_le_bytes());
    let end = [b"PK\x05\x06\0\0\0\0", &n[..], &n, &size, &offset, &[0, 0]].concat();
    [bytes, list, end].concat()
}

fn crc32(bytes: &[u8]) -> u32 {
    let shift = |value: u32| if value & 1 == 1 { 0xEDB8_8320 ^ (value >> 1) } else { value >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |value, _| shift(value)))
}

/// Poles that lean by so much and fall on: no episode lasts.
fn poles(angles: &[f32]) -> Vec<u8> {
    let zeros = vec![0.0_f32; angles.len()];
    let falling: Vec<f32> = angles.iter().map(|angle| 3.0 * angle.signum()).collect();
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let shape = &[angles.len()][..];
    let array = |name, values: &[f32]| (name, "<f4", shape, bytes(values));
    npz(&[
        array("x", &zeros),
        array("x_dot", &zeros),
        array("theta", angles),
        array("theta_dot", &falling),
    ])
}

const POOL: [&str; 3] = ["--set=start=pool", "--set=pool_file=starts.npz", "--seed=5"];

fn train(folder: &Folder, more: &[&str]) -> Said {
    folder.train(&[&POOL, more].concat())
}

#[test]
fn a_run_from_a_file_goes_on_and_is_evaluated_from_it() {
    let folder = Folder::new("pool-file");
    std::fs::write(folder.path("starts.npz"), poles(&[0.2, -0.2, 0.19])).unwrap();
    train(&folder, &["--steps", "1280", "--out", "whole"]);
    train(&folder, &["--steps", "384", "--out", "run"]);
    folder.done(&["train", "--resume", "run", "--steps", "1280"]);
    same_run(&folder, "run", "whole");
    let lines = folder.metrics("run");
    let longest = lines.iter().filter_map(|line| line["episode_length"]["max"].as_f64());
    let longest = longest.fold(0.0, f64::max);
    assert_eq!(longest, 1.0);
    let json = folder.warp(&["eval", "run", "--episodes", "50", "--json"]).json();
    assert_eq!(json["max"], 1.0, "{json}");
    assert!(folder.read("run/config.toml").contains("\npool_digest = \""));

    // Another file in its place is not taken for the old one.
    std::fs::write(folder.path("starts.npz"), poles(&[0.2, -0.2, 0.18])).unwrap();
    let before = folder.files("run");
    for args in [&["train", "--resume", "run", "--steps", "2000"][..], &["eval", "run"]] {
        let said = folder.warp(args);
        assert_eq!(said.code, Some(2), "{said:?}");
        let stderr = &said.stderr;
        assert!(stderr.contains("the file has changed since") && stderr.lines().count() == 1);
    }
    std::fs::remove_file(folder.path("starts.npz")).unwrap();
    let said = folder.warp(&["train", "--resume", "run", "--steps", "2000"]);
    assert!(said.stderr.contains("pool_file \"starts.npz\": it cannot be read"), "{said:?}");
    assert!(folder.files("run") == before);
}

#[test]
fn a_drawn_pool_is_drawn_again() {
    let folder = Folder::new("pool-drawn");
    let pool = ["--set=start=pool", "--set=pool_size=4"];
    let train = |more: &[&str]| folder.train(&[&pool, more].concat());
    train(&["--steps", "1280", "--threads", "1", "--out", "whole"]);
    train(&["--steps", "384", "--threads", "3", "--out", "run"]);
    folder.done(&["train", "--resume", "run", "--steps", "1280", "--threads", "2"]);
    same_run(&folder, "run", "whole");
    // Checkpoints hold no rows.
    let state = std::fs::read(folder.path("run/checkpoints/000000001280/state.safetensors"));
    assert!(!String::from_utf8_lossy(&state.unwrap()).contains("pool."));
    folder.done(&["bench", "cartpole", "--seconds=0.05", "--envs=8", pool[0], pool[1]]);
}

/// Another seed for what is drawn changes neither the fixed start nor the pool.
#[test]
fn the_runs_seed_decides_where_episodes_start() {
    let registry = warp_envs::registry();
    let seen = |sets: &[&str], change: fn(VecOptions) -> VecOptions| {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let config = settings::configure("cartpole", &sets, &registry).unwrap();
        let options = change(config.vec_options());
        let envs = registry.get("cartpole").unwrap().make(&config.env, &options).unwrap();
        let name = if config.run.start == Start::Pool { "pool.theta" } else { "theta" };
        envs.store().get::<f32>(name).unwrap().to_vec()
    };
    for sets in [&["start=fixed"][..], &["start=pool", "pool_size=9"]] {
        let train = seen(sets, |options| options);
        let evaluate = seen(sets, |options| VecOptions { seed: options.seed ^ 77, ..options });
        assert_eq!(train, evaluate);
        let other = seen(&[sets, &["seed=1"]].concat(), |options| options);
        assert_ne!(train, other);
    }
}

/// One pole, one start, one policy: all episodes of an evaluation are the same.
#[test]
fn episodes_from_one_start_are_all_alike() {
    let folder = Folder::new("pool-eval");
    for (out, sets) in
        [("one", &["--set=start=pool", "--set=pool_size=1"][..]), ("fixed", &["--set=start=fixed"])]
    {
        folder.train(&[sets, &["--steps", "256", "--out", out]].concat());
        let json = folder.warp(&["eval", out, "--episodes", "30", "--json"]).json();
        assert_eq!((&json["std"], &json["min"]), (&0.0.into(), &json["max"]), "{json}");
    }
}

#[test]
fn what_does_not_fit_is_refused_in_one_line() {
    let folder = Folder::new("pool-refused");
    let refused = |sets: &[&str], words: &str| {
        let args = [&["train", "cartpole", "--out", "run", "--steps", "128"], sets].concat();
        let said = folder.warp(&args);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(words) && said.stderr.lines().count() == 1, "{said:?}");
        assert!(!folder.path("run").exists());
    };
    refused(&[POOL[0]], "start = \"pool\" needs pool_size or pool_file");
    refused(&[POOL[0], "--set=pool_size=0"], "pool_size = 0: must be at least 1");
    refused(&[POOL[0], "--set=pool_size=99999999999"], "99999999999");
    refused(&["--set=start=pond"], "one of \"fresh\", \"fixed\", \"pool\"");
    refused(&POOL, "pool_file \"starts.npz\": it cannot be read");
    let with = |bytes: Vec<u8>, words: &str| {
        std::fs::write(folder.path("starts.npz"), bytes).unwrap();
        refused(&POOL, words);
    };
    with(vec![], "pool_file \"starts.npz\": 0 bytes are too few for a ZIP archive");
    with(npz(&[]), "it contains no arrays");
    with(poles(&[]), "pool_size = 0: a reset pool needs at least one row");
    with(poles(&[0.1, f32::NAN]), "row 1 of array \"theta\" holds NaN");
    let four = vec![0; 4];
    with(npz(&[("x", "<f4", &[1], four.clone())]), "it lacks \"x_dot\"; the state of cartpole is");
    with(npz(&[("x", "<f8", &[1], vec![0; 8])]), "array \"x\" is float64; a pool contains float32");
    let wide = |name| (name, "<f4", &[1, 1][..], four.clone());
    let all = ["x", "x_dot", "theta", "theta_dot"];
    with(npz(&all.map(wide)), "\"x\" is f32 [1, 1], but cartpole needs f32 [rows]");
    let whole = |name| (name, "<u4", &[1][..], four.clone());
    with(npz(&all.map(whole)), "\"x\" is u32 [1], but cartpole needs f32 [rows]");
    let mut damaged = poles(&[0.1; 9]);
    damaged[100] ^= 1;
    with(damaged, "is damaged: its CRC-32");
    with(poles(&[0.1; 9]).split_off(7), "pool_file \"starts.npz\": ");
    // Both at once.
    std::fs::write(folder.path("starts.npz"), poles(&[0.1])).unwrap();
    let both = [POOL[0], POOL[1], "--set=pool_size=3"];
    refused(&both, "pool_file = \"starts.npz\" has its own rows; leave out pool_size");
    let other = ["--set=start=pool", "--set=pool_file=starts.npz", "--set=pool_digest=abc"];
    refused(&other, "but pool_digest says abc");
}
