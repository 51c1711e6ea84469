//! The folder of kept machine code: private to its user, and never larger than it should be.
//!
//! Machine code that another user wrote would run with this user's rights. So a folder that others can
//! write to is not used, nor an entry that does not belong to this user alone; old entries, and those
//! beyond the size limit, are deleted when one is added.

use std::fs::{self, File, Metadata};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes of all entries at most; an entry has some hundred thousand.
const MOST_BYTES: u64 = 512 << 20;
/// Bytes of one entry at most.
const MOST_ENTRY_BYTES: u64 = 64 << 20;
/// An entry that nobody has asked for in so long is deleted.
const OLDEST: Duration = Duration::from_secs(90 * 24 * 3600);
/// Use is noted once in so long.
const NOTED: Duration = Duration::from_secs(24 * 3600);

/// A folder of entries by name.
#[derive(Debug, Clone)]
pub(super) struct CacheFolder(pub(super) PathBuf);

impl CacheFolder {
    /// Whether entries may be loaded from it: it is a folder of this user's that nobody else can write
    /// to, or there is none yet.
    ///
    /// # Errors
    /// Why not, in a sentence without the path.
    pub(super) fn check(&self) -> Result<()> {
        match fs::metadata(&self.0) {
            Ok(metadata) if !metadata.is_dir() => {
                Err(Error::new(ErrorKind::NotADirectory, "it is not a folder"))
            }
            Ok(metadata) => private(&metadata),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// The bytes of an entry, if there is one that only this user could have written.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.check().ok()?;
        let path = self.0.join(name);
        let metadata = fs::symlink_metadata(&path).ok()?;
        private(&metadata).ok()?;
        let bytes = warp_data::file::read(&path, MOST_ENTRY_BYTES).ok()?;
        let now = SystemTime::now();
        if metadata.modified().ok().and_then(|at| now.duration_since(at).ok()) > Some(NOTED) {
            // The clock of a file says when it was used last.
            let _ =
                File::options().append(true).open(&path).and_then(|file| file.set_modified(now));
        }
        Some(bytes)
    }

    /// Keeps an entry, and deletes what is old or too much.
    ///
    /// # Errors
    /// A folder that can't be made or written, or that others can write to.
    pub(super) fn write(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        make(&self.0)?;
        self.check()?;
        let unfinished = self.0.join(format!("{name}.{}", std::process::id()));
        let written = write_private(&unfinished, parts)
            .and_then(|()| fs::rename(&unfinished, self.0.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        self.evict(SystemTime::now(), MOST_BYTES);
        written
    }

    /// Deletes entries that were not used for long, and the longest unused ones beyond `most` bytes.
    fn evict(&self, now: SystemTime, most: u64) {
        let mut entries = self.entries();
        // The latest first.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        let mut kept = 0;
        for entry in entries {
            let old = now.duration_since(entry.used).is_ok_and(|age| age > OLDEST);
            kept += entry.bytes;
            if old || kept > most {
                kept -= entry.bytes;
                let _ = fs::remove_file(&entry.path);
            }
        }
    }

    /// Everything in the folder that this cache has written, unfinished entries included.
    fn entries(&self) -> Vec<Entry> {
        let entry = |entry: fs::DirEntry| {
            let (path, metadata) = (entry.path(), entry.metadata().ok()?);
            let name = entry.file_name();
            let digest = name.to_str()?.split('.').next()?;
            let ours = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
            let used = metadata.modified().ok()?;
            (ours && metadata.is_file()).then_some(Entry { path, used, bytes: metadata.len() })
        };
        fs::read_dir(&self.0).into_iter().flatten().flatten().filter_map(entry).collect()
    }
}

/// An entry as it lies on the disk.
struct Entry {
    path: PathBuf,
    used: SystemTime,
    bytes: u64,
}

/// Makes a folder for this user alone.
fn make(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn write_private(path: &Path, parts: &[&[u8]]) -> Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    parts.iter().try_for_each(|part| std::io::Write::write_all(&mut file, part))
}

/// Refuses what is another user's or what others can write to.
#[cfg(unix)]
fn private(metadata: &Metadata) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let refuse = |reason: String| Err(Error::new(ErrorKind::PermissionDenied, reason));
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    // Who this process is: the owner of its own files below /proc.
    let own = fs::metadata("/proc/self/fd").map_or(owner, |own| own.uid());
    if own != owner {
        return refuse(format!("it belongs to user {owner}, not to user {own}"));
    }
    if mode & 0o022 != 0 {
        return refuse(format!("others can write to it (mode {mode:03o}): chmod go-w would help"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn private(_metadata: &Metadata) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> CacheFolder {
        let name = format!("warp-cache-{name}-{}", std::process::id());
        CacheFolder(std::env::temp_dir().join(name).join("kernels"))
    }

    fn name(number: u8) -> String {
        format!("{number:064x}")
    }

    #[test]
    #[cfg(unix)]
    fn a_folder_that_others_can_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("private");
        folder.write(&name(1), &[b"one", b"two"]).unwrap();
        assert_eq!(folder.read(&name(1)).unwrap(), b"onetwo");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.0), mode(&folder.0.join(name(1)))), (0o700, 0o600));
        let allow = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for shared in [0o770, 0o702, 0o777] {
            allow(&folder.0, shared);
            let reason = folder.check().unwrap_err().to_string();
            assert!(reason.contains(&format!("others can write to it (mode {shared:o})")));
            assert!(folder.read(&name(1)).is_none() && folder.write(&name(2), &[b"x"]).is_err());
        }
        // Others may look.
        allow(&folder.0, 0o755);
        assert!(folder.read(&name(1)).is_some() && !folder.0.join(name(2)).exists());
        allow(&folder.0.join(name(1)), 0o666);
        assert!(folder.read(&name(1)).is_none());
        // Links lead to files that others may write to.
        std::os::unix::fs::symlink("/etc/hostname", folder.0.join(name(3))).unwrap();
        assert!(folder.read(&name(3)).is_none());
        fs::remove_dir_all(folder.0.parent().unwrap()).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_of_another_user_is_not_used() {
        let root = Path::new("/");
        let own = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self/fd").unwrap());
        if own != 0 {
            let reason = CacheFolder(root.into()).check().unwrap_err().to_string();
            assert_eq!(reason, format!("it belongs to user 0, not to user {own}"));
            return;
        }
        let folder = folder("foreign");
        make(&folder.0).unwrap();
        std::os::unix::fs::chown(&folder.0, Some(12_345), None).unwrap();
        let reason = folder.check().unwrap_err().to_string();
        assert_eq!(reason, "it belongs to user 12345, not to user 0");
        fs::remove_dir_all(folder.0.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_is_old_or_too_much_is_deleted() {
        let folder = folder("evicted");
        let day = Duration::from_secs(24 * 3600);
        let now = SystemTime::now();
        for age in [0_u8, 1, 2, 100] {
            folder.write(&name(age), &[&[age; 10]]).unwrap();
            let file = File::options().append(true).open(folder.0.join(name(age))).unwrap();
            file.set_modified(now - u32::from(age) * day).unwrap();
        }
        fs::write(folder.0.join("notes"), [0; 99]).unwrap();
        let held = || {
            let mut held: Vec<_> = folder.entries().into_iter().map(|entry| entry.path).collect();
            held.sort();
            held
        };
        let paths =
            |ages: &[u8]| ages.iter().map(|age| folder.0.join(name(*age))).collect::<Vec<_>>();
        assert_eq!(held(), paths(&[0, 1, 2, 100]));
        // Whoever asks for an entry keeps it.
        assert!(folder.read(&name(2)).is_some());
        folder.evict(now + day, MOST_BYTES);
        assert_eq!(held(), paths(&[0, 1, 2]));
        folder.evict(now + day, 20);
        assert_eq!(held(), paths(&[0, 2]));
        assert!(folder.0.join("notes").exists());
        fs::remove_dir_all(folder.0.parent().unwrap()).unwrap();
    }
}
