//! Machine code on disk, so that a kernel is compiled once per machine.
//!
//! An entry's name is the digest of everything that it depends on. It is written under another name
//! and renamed, and carries the digest of its contents: whatever is damaged is compiled anew, never
//! loaded. A folder that can't be written, or that others can write to, costs time and nothing else.

use super::cache_folder::CacheFolder;
use super::compiler::{self, Build, Source};
use crate::error::Result;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
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

/// What several GPUs or streams ask for at once, by the names of entries: one of their threads compiles it, and the
/// others wait. Forgotten as soon as all have it.
static COMPILING: LazyLock<Mutex<HashMap<String, Weak<Compiling>>>> = LazyLock::new(Mutex::default);

/// Machine code, and the seconds that the compiler took for it, once it is there.
type Compiling = Mutex<Option<(Vec<u8>, f64)>>;

/// The place for the code of an entry, the same for all who ask for it now.
fn compiling(key: &str) -> Arc<Compiling> {
    let mut all = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|_, one| one.strong_count() > 0);
    let known = all.get(key).and_then(Weak::upgrade);
    known.unwrap_or_else(|| {
        let new = Arc::default();
        all.insert(key.into(), Arc::downgrade(&new));
        new
    })
}

/// Machine code of `source` for `arch` (`sm_90a`), kept from before or compiled now and kept; and the
/// seconds that the compiler took, 0 if the code was kept. Needs no GPU.
///
/// # Errors
/// No NVRTC, or code that does not compile.
pub fn machine_code(source: &Source, build: Build, arch: &str) -> Result<(Vec<u8>, f64)> {
    let key = key(source, build, arch)?;
    let place = compiling(&key);
    let mut found = place.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = &*found {
        return Ok(found.clone());
    }
    let code = match read(&key) {
        Some(code) => (code, 0.0),
        None => {
            let started = Instant::now();
            let code = compiler::compile(source, build, arch)?;
            let seconds = started.elapsed().as_secs_f64();
            write(&key, &code);
            (code, seconds)
        }
    };
    *found = Some(code.clone());
    Ok(code)
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
