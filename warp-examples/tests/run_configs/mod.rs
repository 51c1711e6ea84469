//! The sample run configurations, and what becomes of them.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::PathBuf;
use warp_examples::{settings, yaml};
use warp_train::TrainConfig;

pub(crate) fn path(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/warpdrive_run_configs");
    folder.join(format!("{name}.yaml")).to_str().unwrap().into()
}

pub(crate) fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

pub(crate) fn sample(name: &str) -> TrainConfig {
    settings::configure(&path(name), &[], &warp_envs::registry()).unwrap()
}

/// What becomes of a text.
pub(crate) fn read(text: &str) -> Result<TrainConfig, String> {
    let registry = warp_envs::registry();
    let one_line = |error: anyhow::Error| {
        let text = format!("{error:#}");
        assert!(!text.contains('\n') && !text.is_empty(), "{text}");
        text
    };
    let translated = yaml::translate(text, &registry).map_err(one_line)?;
    TrainConfig::resolve(&translated.table, &registry).map_err(|e| one_line(e.into()))
}

/// A sample with some of its text exchanged.
pub(crate) fn changed(name: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text(name), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// The sentence with which a changed sample is refused.
pub(crate) fn refused(name: &str, from: &str, to: &str) -> String {
    read(&changed(name, &[(from, to)])).expect_err(to)
}
