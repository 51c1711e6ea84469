//! Machine code on disk, so that a kernel is compiled once per machine.
//!
//! An entry's name is the digest of everything that it depends on. It is written under another name
//! and renamed, and carries the digest of its contents: whatever is damaged is compiled anew, never
//! loaded. A folder that can't be written costs time and nothing else.

use super::compiler::{Build, Source};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

/// Counts up when the meaning of entries changes.
const FORMAT: &str = "warp kernel 1";

/// Where entries are kept: `$WARP_CACHE`, or `warp/kernels` under `$XDG_CACHE_HOME` or `~/.cache`;
/// `None` if there is no such place.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = set("WARP_CACHE") {
        return Some(folder.into());
    }
    let base = set("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
    Some(base.join("warp").join("kernels"))
}

/// The name of the entry that `source` leads to.
pub(super) fn key(source: &Source, build: Build, arch: &str, version: (u32, u32)) -> String {
    let mut digest = Sha256::new();
    let mut part = |bytes: &str| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    part(FORMAT);
    part(&format!("nvrtc {}.{}", version.0, version.1));
    part(&source.name);
    part(&source.text);
    for (name, text) in &source.headers {
        part(name);
        part(text);
    }
    source.options(build, arch).iter().for_each(|option| part(option));
    hex(&digest.finalize())
}

/// The machine code of an entry, if there is a sound one.
pub(super) fn read(key: &str) -> Option<Vec<u8>> {
    let entry = fs::read(folder()?.join(key)).ok()?;
    let (digest, code) = entry.split_at_checked(32)?;
    (Sha256::digest(code).as_slice() == digest).then(|| code.to_vec())
}

/// Keeps the machine code of an entry, if it can be kept.
pub(super) fn write(key: &str, code: &[u8]) {
    let Some(folder) = folder() else { return };
    let entry = [Sha256::digest(code).as_slice(), code].concat();
    let unfinished = folder.join(format!("{key}.{}", std::process::id()));
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&unfinished, entry))
        .and_then(|()| fs::rename(&unfinished, folder.join(key)));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
