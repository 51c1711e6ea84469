//! `warp replay` on the recorded cases, and on files that are damaged, altered or incomplete.
//!
//! Cases lie in `warp-envs/tests/golden`, further ones in the folder that `WARP_GOLDEN` names; the
//! published data that some need lie in the folder that `WARP_DATA` names. Those whose environment is
//! not built are reported as ignored, never as passed.

#![expect(clippy::unwrap_used, reason = "clippy knows tests by their attribute, which these lack")]

#[path = "replay/array_pole.rs"]
mod array_pole;

use libtest_mimic::{Arguments, Failed, Trial};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use warp_examples::replay::npz::{Numeric, Recorded, read_npz};
use warp_examples::replay::{environment_of, run_to};

type Arrays = BTreeMap<String, Recorded>;

/// No fragile entries, all agents seen.
const TAG_EXIT: &str = "tag_continuous/last_step_tag_exit.npz";
/// Fragile walls, headings and neighbours.
const TAG_FRAGILE: &str = "tag_continuous/chase_partial_k3_noexit.npz";
const CARTPOLE: &str = "classic_control/cartpole__random_seed32145.npz";

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = cases("golden", &golden());
    match std::env::var_os("WARP_GOLDEN") {
        Some(folder) => trials.extend(cases("WARP_GOLDEN", Path::new(&folder))),
        None => trials.push(
            Trial::test("larger cases (WARP_GOLDEN is not set)", || Ok(())).with_ignored_flag(true),
        ),
    }
    let tests: [(&str, fn()); 17] = [
        ("a_flipped_byte_is_refused_with_both_digests", flipped_byte),
        ("a_file_without_its_json_is_refused", missing_json),
        ("an_altered_action_fails_the_comparison", altered_action),
        ("an_altered_reward_or_flag_fails_the_comparison", altered_results),
        ("nan_equals_nan_only", nan),
        ("missing_and_misshapen_arrays_are_refused", bad_arrays),
        ("unknown_names_are_refused", unknown_names),
        ("actions_out_of_their_space_are_refused", bad_actions),
        ("compressed_and_damaged_archives_are_refused", bad_archives),
        ("damaged_archives_never_panic", damaged_archives),
        ("damaged_descriptions_never_panic", damaged_descriptions),
        ("fragile_walls_and_headings_may_differ_as_described", fragile_walls_and_headings),
        ("fragile_tags_and_neighbours_are_skipped", fragile_tags_and_neighbours),
        ("agents_are_permuted_to_taggers_first", permuted_agents),
        ("any_environment_is_replayed_by_the_names_of_its_arrays", by_names),
        ("an_array_of_a_state_is_one_array_of_a_recording", array_of_a_state),
        ("catalysis_is_replayed_on_the_energies_that_are_named", catalysis),
    ];
    trials.extend(tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    }));
    libtest_mimic::run(&arguments, trials).exit();
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../warp-envs/tests/golden")
}

/// One trial per `.npz` file under `folder`.
fn cases(label: &str, folder: &Path) -> Vec<Trial> {
    let mut files = Vec::new();
    collect(folder, &mut files);
    files.sort();
    let known = warp_envs::registry();
    let trial = |file: PathBuf| {
        let env = environment_of(&file);
        let registered = env.as_ref().map_or(true, |env| known.get(env).is_ok());
        let short = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
        let name = format!("{label}/{short}");
        Trial::test(name, move || replayed(&file)).with_ignored_flag(!registered)
    };
    files.into_iter().map(trial).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|e| panic!("{} cannot be read: {e}", folder.display()));
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "npz") {
            files.push(path);
        }
    }
}

fn replayed(file: &Path) -> Result<(), Failed> {
    let mut table = Vec::new();
    let data = std::env::var_os("WARP_DATA").map(PathBuf::from);
    let data = data.as_deref();
    match run_to(&mut table, &warp_envs::registry(), &[file.to_path_buf()], data, false) {
        Ok(true) => Ok(()),
        Ok(false) => Err(String::from_utf8_lossy(&table).into_owned().into()),
        Err(error) => Err(error.to_string().into()),
    }
}

/// A copy of a case in a folder of its own, changed and put back together.
struct Copy {
    folder: PathBuf,
    description: Value,
    arrays: Arrays,
}

impl Copy {
    fn of(case: &str, test: &str) -> Copy {
        let file = golden().join(case);
        let text = std::fs::read_to_string(file.with_extension("json")).unwrap();
        Copy {
            folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay").join(test),
            description: serde_json::from_str(&text).unwrap(),
            arrays: read_npz(&std::fs::read(file).unwrap()).unwrap(),
        }
    }

    fn array(&mut self, name: &str) -> &mut Recorded {
        self.arrays.get_mut(name).unwrap()
    }

    /// Writes both files, with the right digest; what is said of the arrays is dropped.
    fn write(&mut self) -> PathBuf {
        self.description.as_object_mut().unwrap().remove("arrays");
        self.write_bytes(&npz(&self.arrays))
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> PathBuf {
        let digest = Sha256::digest(bytes);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.description["sha256_npz"] = digest.into();
        std::fs::create_dir_all(&self.folder).unwrap();
        let file = self.folder.join("case.npz");
        std::fs::write(&file, bytes).unwrap();
        std::fs::write(file.with_extension("json"), self.description.to_string()).unwrap();
        file
    }

    fn outcome(&mut self) -> Result<bool, String> {
        let file = self.write();
        outcome(&file)
    }
}

fn outcome(file: &Path) -> Result<bool, String> {
    let registry = warp_envs::registry().with::<array_pole::ArrayPole>();
    let mut out = Vec::new();
    let files = [file.to_path_buf()];
    let outcome = run_to(&mut out, &registry, &files, None, true).map_err(|e| e.to_string())?;
    let printed: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(printed["passed"], outcome);
    let failed = |array: &Value| array["passed"] == false;
    let any = printed["files"][0]["arrays"].as_array().unwrap().iter().any(failed);
    assert_eq!(any, !outcome, "{printed}");
    Ok(outcome)
}

/// `arrays` as an uncompressed archive.
fn npz(arrays: &Arrays) -> Vec<u8> {
    let (mut bytes, mut list) = (Vec::new(), Vec::new());
    for (name, array) in arrays {
        let (member, data) = (format!("{name}.npy"), npy(array));
        let offset = bytes.len() as u32;
        let short = |n: usize| (n as u16).to_le_bytes();
        let mut about = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        about.extend(crc32(&data).to_le_bytes());
        about.extend([(data.len() as u32).to_le_bytes(); 2].concat());
        about.extend([short(member.len()), short(0)].concat());
        bytes.extend([b"PK\x03\x04", &about[..], member.as_bytes(), &data].concat());
        list.extend([b"PK\x01\x02\x14\x00", &about[..], &[0; 10], &offset.to_le_bytes()].concat());
        list.extend(member.as_bytes());
    }
    let n = (arrays.len() as u16).to_le_bytes();
    let (size, offset) = ((list.len() as u32).to_le_bytes(), (bytes.len() as u32).to_le_bytes());
    let end = [b"PK\x05\x06\0\0\0\0", &n[..], &n, &size, &offset, &[0, 0]].concat();
    [bytes, list, end].concat()
}

fn npy(array: &Recorded) -> Vec<u8> {
    let (descr, data): (&str, Vec<u8>) = match array.dtype {
        Numeric::F32 => {
            ("<f4", array.data.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect())
        }
        Numeric::F64 => ("<f8", array.data.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Numeric::I32 => {
            ("<i4", array.data.iter().flat_map(|v| (*v as i32).to_le_bytes()).collect())
        }
        _ => ("|u1", array.data.iter().map(|v| *v as u8).collect()),
    };
    let shape: String = array.shape.iter().map(|n| format!("{n}, ")).collect();
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &data].concat()
}

fn crc32(bytes: &[u8]) -> u32 {
    let shift = |value: u32| if value & 1 == 1 { 0xEDB8_8320 ^ (value >> 1) } else { value >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |value, _| shift(value)))
}

fn flipped_byte() {
    let mut copy = Copy::of(CARTPOLE, "flipped");
    let file = copy.write();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[200] ^= 4;
    std::fs::write(&file, &bytes).unwrap();
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let error = outcome(&file).unwrap_err();
    assert!(error.contains(&digest), "{error}");
    assert!(error.contains(copy.description["sha256_npz"].as_str().unwrap()), "{error}");
}

fn missing_json() {
    let file = Copy::of(CARTPOLE, "no_json").write();
    std::fs::remove_file(file.with_extension("json")).unwrap();
    let error = outcome(&file).unwrap_err();
    assert!(error.contains("case.json beside it is missing"), "{error}");
    let error = outcome(Path::new("nowhere.npz")).unwrap_err();
    assert!(error.starts_with("nowhere.npz cannot be read: "), "{error}");
}

fn altered_action() {
    let mut copy = Copy::of(CARTPOLE, "action");
    assert_eq!(copy.outcome(), Ok(true));
    let action = &mut copy.array("actions").data[3];
    *action = 1.0 - *action;
    assert_eq!(copy.outcome(), Ok(false));
}

fn altered_results() {
    for (name, by) in [("rewards", 2e-5), ("observations", 2e-5), ("done", 1.0)] {
        let mut copy = Copy::of(CARTPOLE, "results");
        copy.array(name).data[2] += by;
        assert_eq!(copy.outcome(), Ok(false), "{name}");
    }
}

fn nan() {
    let mut copy = Copy::of(CARTPOLE, "nan");
    copy.array("rewards").data[2] = f64::NAN;
    assert_eq!(copy.outcome(), Ok(false));
}

fn bad_arrays() {
    let refused = |change: fn(&mut Copy)| {
        let mut copy = Copy::of(CARTPOLE, "arrays");
        change(&mut copy);
        copy.outcome().unwrap_err()
    };
    for name in ["state", "actions", "rewards", "observations", "done"] {
        let mut copy = Copy::of(CARTPOLE, "arrays");
        copy.arrays.remove(name);
        let error = copy.outcome().unwrap_err();
        let missing = if name == "state" { "x" } else { name };
        assert!(error.contains(&format!("lacks the array \"{missing}\"")), "{error}");
    }
    let error = refused(|copy| copy.array("actions").shape[0] -= 1);
    assert!(error.contains("array \"actions\": "), "{error}");
    let error = refused(|copy| {
        copy.array("rewards").shape[0] -= 1;
        copy.array("rewards").data.pop();
    });
    assert!(error.contains("array \"rewards\" of shape ["), "{error}");
    let error = refused(|copy| copy.array("state").shape = vec![5, 4, 1]);
    assert!(error.contains("array \"state\""), "{error}");
    let error = refused(|copy| copy.array("actions").dtype = Numeric::F32);
    assert!(error.contains("\"actions\" holds float32, but \"action.pole\" takes i32"), "{error}");
}

fn unknown_names() {
    let refused = |change: fn(&mut Value)| {
        let mut copy = Copy::of(CARTPOLE, "names");
        change(&mut copy.description);
        copy.outcome().unwrap_err()
    };
    let error = refused(|about| about["case"] = "cartpool__1".into());
    assert!(error.contains("no environment \"cartpool\""), "{error}");
    let error = refused(|about| about["config"] = json!({"gravty": 3}));
    assert!(error.contains("unknown key \"env.gravty\""), "{error}");
    let error = refused(|about| about["episode_length"] = 0.into());
    assert!(error.contains("episode_length = 0"), "{error}");
    let error = refused(|about| about["steps"] = 0.into());
    assert!(error.contains("\"steps\" is 0"), "{error}");
    let error = refused(|about| about["env"] = Value::Null);
    assert!(error.contains("\"env\" is null"), "{error}");
}

fn bad_actions() {
    let mut copy = Copy::of(CARTPOLE, "actions");
    copy.array("actions").data[3] = 2.0;
    let error = copy.outcome().unwrap_err();
    assert!(error.contains("action 2 is not in Discrete(2)"), "{error}");
}

fn bad_archives() {
    let good = std::fs::read(golden().join(CARTPOLE)).unwrap();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        outcome(&Copy::of(CARTPOLE, "archives").write_bytes(&bytes)).unwrap_err()
    };
    let list = good.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    let error = refused(&|bytes| bytes[list + 10] = 8);
    assert!(error.contains("is compressed (method 8)"), "{error}");
    let error = refused(&|bytes| bytes[300] ^= 1);
    assert!(error.contains("CRC-32"), "{error}");
    let error = refused(&|bytes| bytes.truncate(1000));
    assert!(error.contains("its end is missing (1000 bytes)"), "{error}");
    let error = refused(&Vec::clear);
    assert!(error.contains("0 bytes are too few"), "{error}");
}

/// Damage anywhere, digest or not: the parser answers, and never with other numbers.
fn damaged_archives() {
    let good = std::fs::read(golden().join(CARTPOLE)).unwrap();
    let arrays = read_npz(&good).unwrap();
    for cut in 0..good.len() {
        assert!(read_npz(&good[..cut]).is_err(), "cut at byte {cut}");
    }
    let flips = prop::collection::vec((0..good.len(), any::<u8>()), 1..8);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let flipped = |flips: Vec<(usize, u8)>| {
        let mut bytes = good.clone();
        flips.iter().for_each(|(at, byte)| bytes[*at] = *byte);
        if let Ok(read) = read_npz(&bytes) {
            let same = |(name, array): (&String, &Recorded)| {
                arrays.get(name).is_none_or(|other| other == array)
            };
            prop_assert!(read.iter().all(same));
        }
        Ok(())
    };
    runner.run(&flips, flipped).unwrap();
}

fn damaged_descriptions() {
    let mut copy = Copy::of(TAG_EXIT, "descriptions");
    let file = copy.write();
    let text = std::fs::read(file.with_extension("json")).unwrap();
    let flips = prop::collection::vec((0..text.len(), any::<u8>()), 1..4);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let flipped = |flips: Vec<(usize, u8)>| {
        let mut text = text.clone();
        flips.iter().for_each(|(at, byte)| text[*at] = *byte);
        std::fs::write(file.with_extension("json"), text).unwrap();
        let _ = outcome(&file);
        Ok(())
    };
    runner.run(&flips, flipped).unwrap();
}

/// The places of the entries of flag array `name` that are set.
fn set(copy: &Copy, name: &str) -> Vec<usize> {
    let flags = copy.arrays[name].data.iter().enumerate();
    flags.filter(|(_, flag)| **flag == 1.0).map(|(place, _)| place).collect()
}

fn fragile_walls_and_headings() {
    let penalty = -0.5;
    let altered = |change: &dyn Fn(&mut Copy)| {
        let mut copy = Copy::of(TAG_FRAGILE, "fragile");
        change(&mut copy);
        copy.outcome()
    };
    let edge = set(&Copy::of(TAG_FRAGILE, "fragile"), "fragile_edge")[0];
    let safe =
        Copy::of(TAG_FRAGILE, "fragile").arrays["fragile_edge"].data.iter().position(|f| *f == 0.0);
    for (by, passes) in [(penalty, true), (-penalty, true), (0.1, false)] {
        assert_eq!(altered(&|copy| copy.array("rewards").data[edge] += by), Ok(passes), "{by}");
    }
    assert_eq!(altered(&|copy| copy.array("rewards").data[safe.unwrap()] += penalty), Ok(false));
    let turned = |at: usize, by: f64| {
        altered(&|copy| {
            let heading = &mut copy.array("direction").data[at];
            *heading = (*heading + by).abs();
        })
    };
    // A heading of the last row, so that it is compared but never loaded.
    let n_agents = 8;
    let rows = Copy::of(TAG_FRAGILE, "fragile").arrays["direction"].shape[0];
    let last = (rows - 1) * n_agents;
    let fragile = set(&Copy::of(TAG_FRAGILE, "fragile"), "fragile_direction");
    let turn = std::f64::consts::TAU;
    for at in last..last + n_agents {
        assert_eq!(turned(at, turn), Ok(fragile.contains(&at)), "heading {at}");
        assert_eq!(turned(at, 0.1), Ok(false), "heading {at}");
    }
}

fn fragile_tags_and_neighbours() {
    let mut copy = Copy::of(TAG_FRAGILE, "skipped");
    let at = set(&copy, "fragile_neighbors")[0];
    let width = copy.array("observations").shape[2];
    copy.array("observations").data[at * width] += 1.0;
    assert_eq!(copy.outcome(), Ok(true));
    copy.array("observations").data[at * width + width - 1] += 1.0;
    assert_eq!(copy.outcome(), Ok(false));
    let mut copy = Copy::of(TAG_EXIT, "skipped");
    copy.array("rewards").data[3 * 5] += 1.0;
    assert_eq!(copy.outcome(), Ok(false));
    copy.array("fragile_tag").data[3 * 5 + 2] = 1.0;
    assert_eq!(copy.outcome(), Ok(true));
}

fn permuted_agents() {
    let mut copy = Copy::of(TAG_EXIT, "permuted");
    let types = &mut copy.array("agent_types").data;
    let (tagger, runner) =
        (types.iter().position(|t| *t == 1.0), types.iter().position(|t| *t == 0.0));
    types.swap(tagger.unwrap(), runner.unwrap());
    assert_eq!(copy.outcome(), Ok(false));
    copy.array("agent_types").data.fill(1.0);
    assert!(copy.outcome().unwrap_err().contains("names 5 taggers and 0 runners"));
}

/// The state as one array per field, the actions by group, Gymnasium's rules.
fn by_names() {
    let mut copy = Copy::of(CARTPOLE, "by_names");
    let state = copy.arrays.remove("state").unwrap();
    for (column, name) in ["x", "x_dot", "theta", "theta_dot"].into_iter().enumerate() {
        let data = state.data.chunks(4).map(|row| row[column]).collect();
        let field = Recorded { dtype: state.dtype, shape: vec![state.shape[0]], data };
        copy.arrays.insert(name.into(), field);
    }
    let actions = copy.arrays.remove("actions").unwrap();
    copy.arrays.insert("actions.pole".into(), actions);
    copy.description["env"] = "cartpole".into();
    assert_eq!(copy.outcome(), Ok(true));
    copy.array("theta").data[4] += 1e-3;
    assert_eq!(copy.outcome(), Ok(false));
    copy.arrays.remove("theta");
    assert!(copy.outcome().unwrap_err().contains("lacks the array \"theta\""));
}

fn array_of_a_state() {
    let mut copy = Copy::of(CARTPOLE, "arrays");
    let state = copy.arrays.remove("state").unwrap();
    copy.arrays.insert("pole".into(), state);
    copy.description["env"] = "array_pole".into();
    assert_eq!(copy.outcome(), Ok(true));
    copy.array("pole").data[6] += 1e-3;
    assert_eq!(copy.outcome(), Ok(false));
}

/// Two steps on a grid of 3 x 2 cells and two layers, worked out by hand.
fn catalysis() {
    let array = |dtype, shape: &[usize], data: &[f64]| Recorded {
        dtype,
        shape: shape.to_vec(),
        data: data.to_vec(),
    };
    let far = |square: f64| (square / 3.0).sqrt();
    let seen = [0.0, 0.0, 0.2, 1.0, 1.0 / 3.0, 0.0, 0.2, far(2.0), 1.0 / 3.0, 0.0, 0.4, far(1.0)];
    let arrays = [
        ("state", array(Numeric::I32, &[3, 3], &[0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 2.0])),
        ("observations", array(Numeric::F64, &[3, 4], &seen)),
        ("actions", array(Numeric::I32, &[2, 1], &[0.0, 4.0])),
        ("rewards", array(Numeric::F64, &[2], &[-0.5, -0.6])),
        ("done", array(Numeric::U8, &[2], &[0.0, 1.0])),
        ("terminated", array(Numeric::U8, &[2], &[0.0, 0.0])),
    ];
    let description = json!({
        "env": "catalysis", "steps": 2, "energy_file": "small.npy",
        "config": {
            "nx": 3, "ny": 2, "nz": 5, "z_slab_lower": 1, "z_slab_upper": 3, "max_denergy": 10,
            "initial_state": [0, 0, 1], "final_state": [1, 1, 2], "episode_length": 2,
        },
    });
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay").join("catalysis");
    let arrays = arrays.map(|(name, array)| (name.to_string(), array)).into();
    let mut copy = Copy { folder: folder.clone(), description, arrays };
    let without = copy.outcome().unwrap_err();
    assert!(without.contains("give the folder of that file with --data DIR"), "{without}");
    let energies: Vec<f64> = (1..=12).map(f64::from).collect();
    std::fs::write(folder.join("small.npy"), npy(&array(Numeric::F64, &[3, 2, 2], &energies)))
        .unwrap();
    let outcome = |copy: &mut Copy, data: &str| {
        let file = copy.write().with_extension("json");
        let data = folder.join(data);
        run_to(&mut Vec::new(), &warp_envs::registry(), &[file], Some(&data), true)
            .map_err(|error| error.to_string())
    };
    assert_eq!(outcome(&mut copy, ""), Ok(true));
    assert!(outcome(&mut copy, "elsewhere").unwrap_err().contains("small.npy: cannot be read"));
    copy.array("terminated").data[1] = 1.0;
    assert_eq!(outcome(&mut copy, ""), Ok(false));
    copy.array("terminated").data[1] = 0.0;
    copy.array("rewards").data[0] += 1e-5;
    assert_eq!(outcome(&mut copy, ""), Ok(false));
}
