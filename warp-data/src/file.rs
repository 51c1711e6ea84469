//! Files that somebody named: read whole, if they are files and no larger than their kind may be.
//!
//! A pipe that is given as a file would be waited for, a device read without end, and a file of
//! many gigabytes would take all memory before its first byte is looked at.

use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Most bytes of what people write by hand, and of a checkpoint's manifest.
pub const CONFIGURATION: u64 = 1 << 20;
/// Most bytes of what describes data or lists runs, as JSON or as a table.
pub const DESCRIPTION: u64 = 1 << 28;
/// Most bytes of arrays in NumPy's formats: what fits into an archive without 64-bit extensions.
pub const ARRAYS: u64 = 1 << 32;
/// Most bytes of a checkpoint's or a fleet's tensors.
pub const TENSORS: u64 = 1 << 36;

/// Files of so many bytes are read only if that much memory is free.
const LARGE: u64 = 1 << 24;

/// Opens the regular file `path`, links followed.
///
/// # Errors
/// No such file, or a folder, pipe, socket or device; the message says which, without the path.
pub fn open(path: &Path) -> Result<File> {
    // Before it is opened: opening a pipe waits for its writer.
    regular(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// The bytes of the regular file `path`, of which there may be `most`.
///
/// # Errors
/// As [`open`]; or a file that is larger, or than the memory that is free.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = open(path)?;
    let size = file.metadata()?.len();
    check_size(size, most)?;
    if size > LARGE {
        crate::memory::check("reading it", u128::from(size), "its size")
            .map_err(|e| Error::new(ErrorKind::OutOfMemory, e))?;
    }
    let mut bytes = Vec::with_capacity(size as usize);
    // Some files, those of /proc for one, do not say how large they are; others grow.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    check_size(bytes.len() as u64, most)?;
    Ok(bytes)
}

/// As [`read`], for a text file.
///
/// # Errors
/// As [`read`]; or bytes that are not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    String::from_utf8(read(path, most)?).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::new(ErrorKind::InvalidData, format!("it is not text: byte {at} is not UTF-8"))
    })
}

fn check_size(size: u64, most: u64) -> Result<()> {
    if size <= most {
        return Ok(());
    }
    let reason = format!("it has {size} bytes or more; at most {most} are read");
    Err(Error::new(ErrorKind::FileTooLarge, reason))
}

fn regular(metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, format!("it is {}, not a file", kind(metadata))))
}

#[cfg(unix)]
fn kind(metadata: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

#[cfg(not(unix))]
fn kind(metadata: &Metadata) -> &'static str {
    if metadata.is_dir() { "a folder" } else { "a device" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: impl AsRef<Path>, most: u64) -> String {
        read(path.as_ref(), most).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_file_is_refused_before_it_is_read() {
        assert_eq!(refused(std::env::temp_dir(), 9), "it is a folder, not a file");
        assert_eq!(read(Path::new("/nowhere"), 9).unwrap_err().kind(), ErrorKind::NotFound);
        #[cfg(unix)]
        {
            assert_eq!(refused("/dev/zero", 9), "it is a device, not a file");
            let pipe = std::env::temp_dir().join(format!("warp-pipe-{}", std::process::id()));
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            assert_eq!(refused(&pipe, 9), "it is a pipe, not a file");
            std::fs::remove_file(&pipe).unwrap();
        }
    }

    #[test]
    fn a_file_may_have_so_many_bytes_and_not_one_more() {
        let path = std::env::temp_dir().join(format!("warp-file-{}", std::process::id()));
        std::fs::write(&path, b"1234\xff").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"1234\xff");
        assert_eq!(refused(&path, 4), "it has 5 bytes or more; at most 4 are read");
        assert_eq!(
            read_text(&path, 5).unwrap_err().to_string(),
            "it is not text: byte 4 is not UTF-8"
        );
        // 4 TiB that are not there.
        File::options().write(true).open(&path).unwrap().set_len(1 << 42).unwrap();
        assert!(refused(&path, u64::MAX).contains("would need 4.0 TiB"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_that_does_not_say_how_large_it_is_is_read_all_the_same() {
        assert!(!read(Path::new("/proc/self/status"), 1 << 16).unwrap().is_empty());
        assert!(refused("/proc/self/status", 16).contains("it has 17 bytes or more"));
    }
}
