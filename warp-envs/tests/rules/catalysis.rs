//! Catalysis against its rules and against the published landscapes.

use std::io::Write;
use std::path::PathBuf;
use warp_core::single::{Ended, GroupAction, Single};
use warp_core::{Config, Env};
use warp_envs::catalysis::*;
use warp_envs::registry;

/// The folder with the published grids: `catalysis` in the one that WARP_DATA names.
fn published() -> Option<PathBuf> {
    let folder = std::env::var_os("WARP_DATA").map(|data| PathBuf::from(data).join("catalysis"));
    if folder.is_none() {
        // Past the harness, which shows nothing of tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: published_landscapes_have_the_known_optima: WARP_DATA names no folder"
        );
    }
    folder
}

fn config(text: &str) -> CatalysisConfig {
    CatalysisConfig::from_table(&text.parse().unwrap()).unwrap()
}

fn one(text: &str) -> Single<Catalysis> {
    Single::new(Catalysis::new(&config(text)).unwrap(), 0).unwrap()
}

fn two(text: &str) -> Single<CatalysisTwoAtoms> {
    Single::new(CatalysisTwoAtoms::new(&config(text)).unwrap(), 0).unwrap()
}

fn go(one: &mut Single<Catalysis>, action: i32) -> Ended {
    one.step(&[GroupAction::Discrete(vec![action])]).unwrap()
}

fn place(one: &mut Single<Catalysis>) -> [i32; 3] {
    let mut place = [0; 3];
    one.edit(|state| place = [state.x, state.y, state.z]);
    place
}

const ON: Ended = Ended { terminated: false, truncated: false };

#[test]
fn keeps_the_contract() {
    let anywhere = "exploring_starts = 0.5";
    for text in
        ["", anywhere, "final_state = [12, 20, 6]\nepisode_length = 30", "min_reward = -0.1"]
    {
        registry().get("catalysis").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
    for text in ["", anywhere, "final_state = [0, 1, 3, 0, 4, 4]", "unphysical = \"keep\""] {
        registry().get("catalysis_two_atoms").unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn an_atom_walks_along_the_axes_and_around_the_corner() {
    let mut one = one("");
    assert_eq!(place(&mut one), [11, 23, 6]);
    let walk = [[12, 23, 6], [11, 23, 6], [11, 24, 6], [11, 23, 6], [11, 23, 7], [11, 23, 6]];
    for (action, expected) in (0..).zip(walk) {
        assert_eq!(go(&mut one, action), ON);
        assert_eq!(place(&mut one), expected);
    }
    one.edit(|state| *state = CatalysisState { x: 31, y: 0, z: 5 });
    go(&mut one, 0);
    go(&mut one, 3);
    assert_eq!(place(&mut one), [0, 33, 5]);
    go(&mut one, 1);
    go(&mut one, 2);
    assert_eq!(place(&mut one), [31, 0, 5]);
}

#[test]
fn a_step_costs_what_its_cell_lies_above_the_reference() {
    let landscape = Landscape::open(&CatalysisConfig::default(), 1).unwrap();
    let mut one = one("");
    go(&mut one, 5);
    let energy = landscape.energy(&[11, 23, 5]).unwrap();
    assert!((f64::from(one.reward(0)[0]) + (energy + 1.5) / 5.0).abs() < 1e-7);
    // The deepest minimum of the surface, -146.7 units, is near (-0.558, 1.442).
    assert!((-1.47..-1.45).contains(&energy), "{energy}");
    assert_eq!(landscape.energy(&[11, 23, 9]), None);
    // High energies cost one at most.
    one.edit(|state| *state = CatalysisState { x: 0, y: 0, z: 3 });
    go(&mut one, 0);
    assert_eq!(one.reward(0), [-1.0]);
}

#[test]
fn the_slab_holds_the_atom_back_or_lets_it_go() {
    let mut held = one("min_reward = -0.7");
    held.edit(|state| *state = CatalysisState { x: 11, y: 23, z: 8 });
    assert_eq!(go(&mut held, 4), ON);
    assert_eq!((place(&mut held), held.reward(0)), ([11, 23, 8], &[-0.7f32][..]));
    let mut free = one("initial_state = [11, 23, 5]");
    free.edit(|state| *state = CatalysisState { x: 11, y: 23, z: 8 });
    go(&mut free, 4);
    assert_eq!((place(&mut free), free.reward(0)), ([11, 23, 9], &[-1.0f32][..]));
    go(&mut free, 0);
    assert_eq!((place(&mut free), free.reward(0)), ([12, 23, 9], &[-1.0f32][..]));
    go(&mut free, 5);
    assert_eq!(place(&mut free), [12, 23, 8]);
    assert!(free.reward(0)[0] > -1.0);
    // Up to the top and around.
    free.edit(|state| state.z = 11);
    go(&mut free, 4);
    assert_eq!((place(&mut free), free.reward(0)), ([12, 23, 0], &[-1.0f32][..]));
}

#[test]
fn the_goal_terminates_and_the_limit_truncates() {
    let mut near = one("terminate_reward = 7.0\nepisode_length = 3");
    near.edit(|state| *state = CatalysisState { x: 22, y: 9, z: 5 });
    assert_eq!(go(&mut near, 0), Ended { terminated: true, truncated: false });
    assert!((6.8..7.0).contains(&near.reward(0)[0]));
    assert_eq!(near.obs(0)[3], 0.0);
    near.reset();
    assert_eq!(near.obs(0), [11.0 / 32.0, 23.0 / 34.0, 0.5, 1.0]);
    assert_eq!((go(&mut near, 0), go(&mut near, 0)), (ON, ON));
    assert_eq!(go(&mut near, 0), Ended { terminated: false, truncated: true });
}

#[test]
fn two_atoms_move_one_at_a_time() {
    let mut two = two("");
    let place = |two: &mut Single<CatalysisTwoAtoms>| {
        let mut place = [0; 6];
        two.edit(|s| place = [s.x1, s.y1, s.z1, s.x2, s.y2, s.z2]);
        place
    };
    let go = |two: &mut Single<CatalysisTwoAtoms>, atom, action| {
        two.step(&[GroupAction::Discrete(vec![atom, action])]).unwrap()
    };
    go(&mut two, 0, 1);
    go(&mut two, 1, 3);
    assert_eq!(place(&mut two), [7, 0, 4, 0, 3, 4]);
    go(&mut two, 1, 4);
    assert_eq!(place(&mut two), [7, 0, 4, 0, 3, 5]);
    go(&mut two, 1, 4);
    assert_eq!((place(&mut two), two.reward(0)), ([7, 0, 4, 0, 3, 5], &[-1.0f32][..]));
    two.edit(|s| (s.x1, s.y1, s.z1, s.x2, s.y2, s.z2) = (4, 0, 4, 3, 4, 4));
    assert!(go(&mut two, 1, 0).terminated && two.reward(0)[0] > 29.0);
}

#[test]
fn the_built_in_surfaces_have_a_barrier_and_a_best_path() {
    let landscape = Landscape::open(&CatalysisConfig::default(), 1).unwrap();
    assert_eq!(landscape.unphysical, 0);
    let best = landscape.optimum(0.99).unwrap();
    // The higher saddle of the surface is 106 units above the deepest minimum, where the path leads
    // through; the start is 0.1 eV above that.
    assert!((best.barrier - 0.957_3).abs() < 1e-3, "{best:?}");
    // What walks the path collects its return.
    let mut one = one("");
    let mut total = 0.0;
    for pair in best.path.windows(2) {
        let axis = (0..3).find(|axis| pair[0][*axis] != pair[1][*axis]).unwrap();
        let up = pair[1][axis] - pair[0][axis] == 1;
        go(&mut one, 2 * axis as i32 + i32::from(!up));
        total += f64::from(one.reward(0)[0]);
    }
    assert!((total - best.best_return).abs() < 1e-5 && best.best_value < best.best_return);
    let pair = Landscape::open(&CatalysisConfig::default(), 2).unwrap();
    let best = pair.optimum(0.99).unwrap();
    assert!(pair.unphysical == 0 && best.path.len() == 9 && best.barrier > 0.1, "{best:?}");
}

#[test]
fn value_iteration_and_search_agree_without_discount() {
    let text = "min_reward = -0.3";
    let landscape = Landscape::open(&config(text), 1).unwrap();
    let nearly = landscape.optimum(1.0 - 1e-9).unwrap();
    assert!((nearly.best_value - nearly.best_return).abs() < 1e-5);
}

/// An `.npy` file of f64 in a folder of this test's own, and its name.
fn file(name: &str, shape: &str, energies: &[f64]) -> String {
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(energies.iter().flat_map(|energy| energy.to_le_bytes()));
    let folder = std::env::temp_dir().join(format!("warp-catalysis-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, bytes).unwrap();
    file.display().to_string()
}

/// A world of 3 x 2 cells and two layers, from one of its corners to another.
const SMALL: &str = "nx = 3\nny = 2\nnz = 5\nz_slab_lower = 1\nz_slab_upper = 3\nienergy = 0.0\n\
                     initial_state = [0, 0, 1]\nfinal_state = [1, 1, 2]\nmax_denergy = 10.0\n";

#[test]
fn a_grid_is_read_from_a_file() {
    let energies: Vec<f64> = (1..=12).map(f64::from).collect();
    let path = file("good.npy", "(3, 2, 2)", &energies);
    let mut one = one(&format!("{SMALL}grid = '{path}'"));
    // Row-major: x, y, layer.
    let walk = [(0, -0.5), (2, -0.7), (4, 29.2)];
    for (action, reward) in walk {
        go(&mut one, action);
        assert!((one.reward(0)[0] - reward).abs() < 1e-5, "{action} {}", one.reward(0)[0]);
    }
    let landscape =
        |more: &str| Landscape::open(&config(&format!("{SMALL}grid = '{path}'{more}")), 1);
    let best = landscape("").unwrap().optimum(0.99).unwrap();
    assert_eq!((best.path.len(), best.barrier), (4, 7.0));
    // 0.3 + 0.7 + 0.8: first y, then x, then up; or 0.2 + 0.4 + 0.8: first up, then y, then x.
    assert!((best.best_return - (30.0 - 1.4)).abs() < 1e-9, "{best:?}");
    // Below a reference of 2.5 lie two cells, the start among them.
    let clamped = landscape("\nunphysical = \"clamp\"").unwrap();
    assert_eq!(clamped.unphysical, 0);
    let text = SMALL.replace("ienergy = 0.0", "ienergy = 2.5\nunphysical = \"clamp\"");
    let clamped = Landscape::open(&config(&format!("{text}grid = '{path}'")), 1).unwrap();
    assert_eq!((clamped.unphysical, clamped.energy(&[0, 0, 2])), (2, Some(12.5)));
}

#[test]
fn a_file_that_is_no_grid_is_refused_in_a_sentence() {
    let refused = |path: &str| {
        let error = Catalysis::new(&config(&format!("{SMALL}grid = '{path}'"))).unwrap_err();
        let (text, start) = (error.to_string(), format!("grid = {path}: "));
        assert!(text.starts_with(&start), "{text}");
        text[start.len()..].to_string()
    };
    let mut energies = vec![1.0; 12];
    let flat = refused(&file("flat.npy", "(12,)", &energies));
    assert_eq!(flat, "has the shape [12], but [3, 2, 2] is needed");
    energies[7] = f64::NAN;
    let hole = refused(&file("hole.npy", "(3, 2, 2)", &energies));
    assert_eq!(hole, "holds NaN at the cell [1, 1, 1]");
    let cut = refused(&file("cut.npy", "(3, 2, 2)", &energies[1..]));
    assert!(cut.starts_with("is not an array: "), "{cut}");
    let path = file("text.npy", "(3, 2, 2)", &energies);
    std::fs::write(&path, "energies").unwrap();
    assert!(refused(&path).starts_with("is not an array: "));
    std::fs::remove_file(&path).unwrap();
    assert!(refused(&path).starts_with("cannot be read: "));
}

/// Preset, best return, its steps, best value at a discount of 0.99, barrier.
type Known = (&'static str, f64, usize, f64, f64);

#[test]
fn published_landscapes_have_the_known_optima() {
    let Some(folder) = published() else { return };
    let known: [Known; 9] = [
        ("diffusion2d", 8.94836, 20, 7.33902, 1.63855),
        ("diffusion2d_relaxed", 9.39833, 14, 8.21209, 1.23058),
        ("diffusion3d", 28.95178, 19, 24.75403, 1.63163),
        ("surface", 28.21186, 20, 23.56572, 0.53008),
        ("gas1", 28.98478, 8, 26.97054, 0.0),
        ("gas2", 27.97623, 13, 24.66000, 0.0),
        ("surface_double_grids", 46.40207, 40, 32.42309, 0.39799),
        ("gas2_double_grids", 25.87831, 26, 19.60129, 0.0),
        ("two_atom_diffusion", 28.02589, 8, 26.07854, 0.0),
    ];
    for (preset, best_return, steps, best_value, barrier) in known {
        let n_atoms = if preset == "two_atom_diffusion" { 2 } else { 1 };
        let text = format!("preset = \"{preset}\"\ngrid = \"{}\"", folder.display());
        let landscape = Landscape::open(&config(&text), n_atoms).unwrap();
        assert_eq!(landscape.unphysical, if n_atoms == 2 { 944 } else { 0 });
        let best = landscape.optimum(0.99).unwrap();
        let near = |seen: f64, known: f64| (seen - known).abs() < 6e-6;
        assert!(near(best.best_return, best_return), "{preset} {}", best.best_return);
        assert_eq!(best.path.len(), steps + 1, "{preset}");
        assert!(near(best.best_value, best_value), "{preset} {}", best.best_value);
        assert!(near(best.barrier, barrier), "{preset} {}", best.barrier);
    }
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| Catalysis::new(&config(text)).unwrap_err().to_string();
    assert!(refused("preset = \"two_atom_diffusion\"").contains("moves 2 atoms"));
    assert!(refused("preset = \"gas1\"").contains("the preset needs en_array.npy"));
    assert!(refused("grid = \"nowhere.npy\"").starts_with("grid = nowhere.npy: cannot be read"));
    assert!(refused("nx = 33").contains("the built-in surface has [32, 34, 12] cells"));
    assert!(refused("nx = 0").starts_with("nx = 0: "));
    assert!(refused("z_slab_upper = 12").starts_with("z_slab_upper = 12: "));
    assert!(refused("z_slab_lower = 0").starts_with("z_slab_lower = 0: "));
    assert!(refused("initial_state = [1, 2]").contains("3 numbers are needed"));
    assert!(refused("final_state = [32, 9, 5]").contains("x must lie in 0..32"));
    assert!(refused("final_state = [11, 23, 6]").contains("nothing to do"));
    assert!(refused("max_denergy = 0").starts_with("max_denergy = 0: "));
    assert!(refused("min_reward = 0.5").starts_with("min_reward = 0.5: "));
    assert!(refused("episode_length = 0").starts_with("episode_length = 0: "));
    let reject = "unphysical = \"reject\"\nienergy = -1.0";
    assert!(refused(reject).contains("cells of the grid lie below it, the first at"));
}
