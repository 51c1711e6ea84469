//! Files that a user names: written whole under a hidden name and then renamed, so that a full disk or a kill leaves what
//! was there.

use anyhow::{Context, Result};
use std::path::Path;
use warp_train::run::write_whole;

/// Writes the file at `path`; a link, a pipe or a device stays what it is.
///
/// # Errors
/// A file that can't be written.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => std::fs::write(path, content)
            .with_context(|| format!("cannot write \"{}\"", path.display())),
        _ => Ok(write_whole(path, content)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_can_not_be_written_leaves_what_was_there() {
        let folder = std::env::temp_dir().join(format!("warp-named-{}", std::process::id()));
        fs::create_dir_all(folder.join("folder.png")).unwrap();
        let path = folder.join("a.png");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let error = write(&folder.join("folder.png"), "").unwrap_err().to_string();
        assert!(error.contains("folder.png"), "{error}");
        let error = write(&folder.join("no/a.png"), "").unwrap_err().to_string();
        assert!(error.starts_with("cannot write \"") && error.contains("a.png"), "{error}");
        // In the way of the hidden name.
        fs::create_dir(folder.join(".a.png.partial")).unwrap();
        write(&path, "three").unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        fs::remove_dir(folder.join(".a.png.partial")).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing hidden stays");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            write(&path, "two").unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let link = folder.join("link.png");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            write(&link, "four").unwrap();
            assert!(link.is_symlink() && fs::read_to_string(&path).unwrap() == "four");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
