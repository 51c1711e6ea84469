//! How much memory is free: asked before anything large is allocated.

use crate::error::{Error, Result};

/// Bytes that can be allocated now, as far as the system tells; `None` where it does not.
#[must_use]
pub fn available() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let free = kib.checked_mul(1024)?;
    Some(container_limit().map_or(free, |limit| limit.min(free)))
}

/// What a container's memory limit leaves.
fn container_limit() -> Option<u64> {
    let read = |name: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
    };
    Some(read("memory.max")?.saturating_sub(read("memory.current")?))
}

/// Checks that `needed` bytes for `what` are free; `lower` names the setting that would help.
///
/// # Errors
/// [`Error::OutOfMemory`] with both figures.
pub fn check(what: &str, needed: u128, lower: &str) -> Result<()> {
    // An allocation beyond isize::MAX bytes is impossible even where nobody says what is free.
    let free = available().unwrap_or(isize::MAX as u64);
    if needed <= u128::from(free) {
        return Ok(());
    }
    Err(Error::OutOfMemory { what: what.into(), needed, free, lower: lower.into() })
}

/// Bytes as a person writes them.
#[must_use]
pub fn human(bytes: u128) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}
