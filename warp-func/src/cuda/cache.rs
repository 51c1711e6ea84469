//! Machine code on disk, so that a kernel is compiled once per machine.
//!
//! An entry's name is the digest of everything that it depends on. It is written under another name
//! and renamed, and carries the digest of its contents: whatever is damaged is compiled anew, never
//! loaded. A folder that can't be written, or that others can write to, costs time and nothing else.

use super::cache_folder::CacheFolder;
use super::compiler::{self, Build, Source};
use crate::error::Result;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

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

/// Why machine code is not cached, as one sentence; `None` where it is.
#[must_use]
pub fn problem() -> Option<String> {
    let Some(folder) = folder() else {
        return Some("WARP_CACHE, XDG_CACHE_HOME and HOME are unset".into());
    };
    let error = CacheFolder(folder.clone()).check().err()?;
    Some(format!("the folder \"{}\" is not used: {error}", folder.display()))
}

/// Machine code of `source` for `arch` (`sm_90a`), kept from before or compiled now and kept; and the
/// seconds that the compiler took, 0 if the code was kept. Needs no GPU.
///
/// # Errors
/// No NVRTC, or code that does not compile.
pub fn machine_code(source: &Source, build: Build, arch: &str) -> Result<(Vec<u8>, f64)> {
    let key = key(source, build, arch)?;
    if let Some(code) = read(&key) {
        return Ok((code, 0.0));
    }
    let started = Instant::now();
    let code = compiler::compile(source, build, arch)?;
    let seconds = started.elapsed().as_secs_f64();
    write(&key, &code);
    Ok((code, seconds))
}

/// The name of the entry that `source` leads to.
pub(super) fn key(source: &Source, build: Build, arch: &str) -> Result<String> {
    let version = compiler::nvrtc_version()?;
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
    Ok(hex(&digest.finalize()))
}

/// The machine code of an entry, if there is a sound one.
fn read(key: &str) -> Option<Vec<u8>> {
    let entry = CacheFolder(folder()?).read(key)?;
    let (digest, code) = entry.split_at_checked(32)?;
    (Sha256::digest(code).as_slice() == digest).then(|| code.to_vec())
}

/// Keeps the machine code of an entry, if it can be kept.
fn write(key: &str, code: &[u8]) {
    let Some(folder) = folder() else { return };
    let _ = CacheFolder(folder).write(key, &[Sha256::digest(code).as_slice(), code]);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
