//! Everything that reads bytes which somebody else may have written, as functions of nothing but bytes:
//! what the targets of `fuzz/` call, and what the gate replays their corpora through.
//!
//! Each returns whether the bytes are sound. Whatever they are, nothing may panic, hang or take much
//! memory, and what was read and written again must be the same.

use crate::output::one_line;
use crate::{records, settings, yaml};
use warp_envs::numpy::{read_npy, read_npz};
use warp_train::TrainConfig;

/// A parser, which says whether it took the bytes.
pub type Parser = fn(&[u8]) -> bool;

/// All parsers by the names of their targets.
pub const ALL: [(&str, Parser); 6] = [
    ("npz", npz),
    ("npy", npy),
    ("safetensors", safetensors),
    ("yaml", yaml),
    ("toml", toml),
    ("events", events),
];

/// Recordings, reset pools and published data.
#[must_use]
pub fn npz(bytes: &[u8]) -> bool {
    let Ok(arrays) = read_npz(bytes) else { return false };
    // No byte belongs to two arrays, and none becomes more than one number.
    let elements: usize = arrays.values().map(|array| array.data.len()).sum();
    assert!(elements <= bytes.len(), "{elements} elements out of {} bytes", bytes.len());
    true
}

/// Energies of catalysis.
#[must_use]
pub fn npy(bytes: &[u8]) -> bool {
    let Ok(array) = read_npy(bytes) else { return false };
    assert_eq!(array.data.len(), array.shape.iter().product::<usize>());
    true
}

/// Tensors of checkpoints.
#[must_use]
pub fn safetensors(bytes: &[u8]) -> bool {
    let Ok((tensors, statistics)) = warp_train::decode(bytes) else { return false };
    let sizes = tensors.iter().map(|t| (t.data.len(), &t.shape));
    let all = sizes.chain(statistics.iter().map(|s| (s.data.len(), &s.shape)));
    all.for_each(|(len, shape)| assert_eq!(len, shape.iter().product::<usize>()));
    true
}

/// WarpDrive's run configurations.
#[must_use]
pub fn yaml(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let registry = warp_envs::registry();
    match yaml::translate(text, &registry) {
        Ok(translated) => TrainConfig::resolve(&translated.table, &registry).is_ok(),
        Err(error) => refused(&error),
    }
}

/// Configurations of runs.
#[must_use]
pub fn toml(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let registry = warp_envs::registry();
    let table = match settings::parse(text) {
        Ok(table) => table,
        Err(error) => return refused(&error),
    };
    let Ok(config) = TrainConfig::resolve(&table, &registry) else { return false };
    let Ok(entry) = registry.get(&config.run.env_id) else { return false };
    let written = config.to_toml(entry.fields);
    let again = settings::parse(&written).ok();
    let again = again.and_then(|table| TrainConfig::resolve(&table, &registry).ok());
    let again = again.map(|config| config.to_toml(entry.fields));
    assert_eq!(
        again.as_deref(),
        Some(written.as_str()),
        "a run could not continue with its config.toml"
    );
    true
}

/// TensorBoard's event files.
#[must_use]
pub fn events(bytes: &[u8]) -> bool {
    let frames = records::read_frames(bytes);
    // A frame is 16 bytes more than what is in it.
    let read: usize = frames.iter().map(|frame| frame.len() + 16).sum();
    assert!(read <= bytes.len());
    read == bytes.len()
}

/// Errors are fit to be shown.
fn refused(error: &anyhow::Error) -> bool {
    let shown = format!("{error:#}");
    assert!(!shown.is_empty() && !one_line(&shown).contains(char::is_control));
    false
}
