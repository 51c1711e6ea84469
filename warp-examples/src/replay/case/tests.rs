//! Which environment a recording is of, and what is said if that is not known.

use super::*;
use serde_json::json;
use warp_envs::numpy::{Numeric, Written, write_npz};

/// Opens a recording of one array called `array`, in a folder called `folder`.
fn opened(folder: &str, array: &str, mut described: Value) -> Result<Case> {
    let base = std::env::temp_dir().join(format!("warp-case-{}-{array}", std::process::id()));
    let inner = base.join(folder);
    std::fs::create_dir_all(&inner).unwrap();
    let one =
        Written { name: array.into(), dtype: Numeric::F32, shape: vec![1], bytes: vec![0; 4] };
    let bytes = write_npz(&[one]).unwrap();
    if described.get("sha256_npz").is_none() {
        described["sha256_npz"] = digest(&bytes).into();
    }
    let file = inner.join("case.npz");
    std::fs::write(&file, bytes).unwrap();
    std::fs::write(file.with_extension("json"), described.to_string()).unwrap();
    let case = Case::open(&file, Some(&warp_envs::registry()));
    std::fs::remove_dir_all(&base).unwrap();
    case
}

#[test]
fn an_environment_that_does_not_exist_is_said_first() {
    let described = json!({"env": "cartpool", "steps": 1, "sha256_npz": 5});
    let error = opened("cartpole", "unknown", described).unwrap_err().to_string();
    assert!(
        error.contains("case.npz cannot be replayed: there is no environment \"cartpool\""),
        "{error}"
    );
    // The digest is next.
    let described = json!({"env": "cartpole", "steps": 1, "sha256_npz": 5});
    let error = opened("cartpole", "digest", described).unwrap_err().to_string();
    assert!(error.contains("is refused: its .json has no text \"sha256_npz\""), "{error}");
}

#[test]
fn the_environment_is_inferred_from_the_folder_or_an_array_of_covid19() {
    let steps = || json!({"steps": 1});
    assert_eq!(opened("cartpole", "state", steps()).unwrap().env, "cartpole");
    assert_eq!(opened("mine", "initial_delta_stringency", steps()).unwrap().env, "covid19");
    let error = opened("mine", "rewards", steps()).unwrap_err().to_string();
    let expected = "cannot be replayed: its .json has no key \"env\", and its folder is not called as an \
                    environment, but \"mine\"";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn how_the_original_packs_numbers_means_nothing() {
    let packing = json!({
        "flatten_observations": false,
        "flatten_masks": true,
        "multi_action_mode_agents": false,
        "multi_action_mode_planner": false,
        "collate_agent_step_and_reset_data": true,
        "env_backend": "numba",
        "episode_length": 9,
    });
    let described = json!({"env": "covid19", "steps": 1, "config": packing});
    let config = opened("covid19", "packing", described).unwrap().config;
    assert_eq!(config.keys().collect::<Vec<_>>(), ["episode_length"]);
}
