//! Files that survive a kill and a power cut: what has its name is whole and on the disk.
//!
//! A file or folder is written under a hidden name, brought to the disk, and then renamed; one that is to go
//! is renamed first and then deleted. What a kill leaves behind has a hidden name, which nobody reads, and
//! [`sweep`] deletes it.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Endings of the hidden names: what is not whole yet, and what is to go.
const PARTIAL: &str = "partial";
const DELETED: &str = "deleted";

/// The hidden name under which `path` is written before it is whole.
pub(crate) fn partial(path: &Path) -> PathBuf {
    hidden(path, PARTIAL)
}

fn hidden(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{ending}"));
    path.with_file_name(name)
}

/// Writes a file and makes sure that its bytes are on the disk; its name need not be.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    write_for(path, path, bytes)
}

/// Writes a file, as [`write_synced`] does, that is to be renamed to `named`, which errors name.
fn write_for(named: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| Error::file("cannot write", named, e))
}

/// Writes a file that is never seen half-written: it is the old one, or the new one with the permissions of the old.
///
/// # Errors
/// A folder that can't be written.
pub fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let partial = partial(path);
    let old = path.metadata();
    let written = write_for(path, &partial, content.as_ref());
    written.and_then(|()| rename(&partial, path)).inspect_err(|_| {
        // Where there is no run, nobody sweeps.
        let _ = std::fs::remove_file(&partial);
    })?;
    if let Ok(old) = old {
        // Where they can't be kept, as on some network file systems, the content still counts.
        let _ = std::fs::set_permissions(path, old.permissions());
    }
    Ok(())
}

/// Makes a folder that is never seen half-made: it is the old one, or the new one with what `build` puts into the folder it
/// is given; for a moment between the two there is none.
///
/// # Errors
/// Those of `build`, or a folder that can't be written.
pub fn replace_folder<E: From<Error>>(
    path: &Path,
    build: impl FnOnce(&Path) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let partial = partial(path);
    delete(&partial)?;
    std::fs::create_dir_all(&partial).map_err(|e| Error::file("cannot create", path, e))?;
    build(&partial)?;
    sync_folder(&partial)?;
    remove(path)?;
    Ok(rename(&partial, path)?)
}

/// Renames a file or folder, and makes sure that the new name is on the disk.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).map_err(|e| Error::file("cannot create", to, e))?;
    sync_folder(parent(to))?;
    if parent(from) == parent(to) { Ok(()) } else { sync_folder(parent(from)) }
}

/// Makes sure that the names in `folder` are on the disk.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    // Only Unix opens folders.
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems know no such thing, and some folders may be written but not read.
        Err(e) => match e.kind() {
            ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::PermissionDenied => {
                Ok(())
            }
            _ => Err(Error::file("cannot write", folder, e)),
        },
        Ok(()) => Ok(()),
    }
}

/// Deletes a file or folder, if it is there: nothing is left under its name from the first moment on, also after a loss
/// of power.
///
/// # Errors
/// A folder that can't be written.
pub fn remove(path: &Path) -> Result<()> {
    let hidden = hidden(path, DELETED);
    delete(&hidden)?;
    match std::fs::rename(path, &hidden) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        renamed => renamed.map_err(|e| Error::file("cannot delete", path, e))?,
    }
    sync_folder(parent(path))?;
    delete(&hidden)
}

/// Deletes what a kill left in `folder`, not whole or not gone.
pub(crate) fn sweep(folder: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|e| Error::file("cannot read", folder, e))?,
    };
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ending = name.strip_prefix('.').and_then(|name| name.rsplit_once('.'));
        if ending.is_some_and(|(_, ending)| [PARTIAL, DELETED].contains(&ending)) {
            delete(&path)?;
        }
    }
    Ok(())
}

/// Deletes a file or folder that nobody reads, if it is there.
pub(crate) fn delete(path: &Path) -> Result<()> {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let deleted =
        if is_folder { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match deleted {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::file("cannot delete", path, e)),
        _ => Ok(()),
    }
}

/// The folder that `path` lies in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kill_left_is_swept_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("warp-durable-{}", std::process::id()));
        let kept = folder.join("000000000512");
        std::fs::create_dir_all(&kept).unwrap();
        for left in [".a.partial", ".000000000256.deleted"] {
            std::fs::create_dir_all(folder.join(left)).unwrap();
            std::fs::write(folder.join(left).join("file"), "half").unwrap();
        }
        std::fs::write(folder.join(".b.partial"), "half").unwrap();
        std::fs::write(folder.join(".hidden"), "somebody's").unwrap();
        sweep(&folder).unwrap();
        let left = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, [".hidden", "000000000512"]);
        write_whole(&kept.join("file"), "whole").unwrap();
        // In the way of the rename: what an earlier deletion left.
        std::fs::create_dir_all(folder.join(".000000000512.deleted/inner")).unwrap();
        remove(&kept).unwrap();
        remove(&kept).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
