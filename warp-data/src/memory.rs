//! How much memory is free: asked before anything large is allocated, and once much has been in small pieces.
//!
//! The least of what the system has, of what every control group that this process is in (version 1
//! or 2, up to the root) still allows, and of what `ulimit -v` and `ulimit -d` leave.

pub use crate::bytes::human;
use crate::error::{Error, Result};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that can be allocated now, as reported by the system; `None` where it reports nothing.
#[must_use]
pub fn available() -> Option<u64> {
    System { root: PathBuf::from("/") }.available()
}

/// Where the kernel's files are: below `/`, or in a folder that looks like it.
struct System {
    root: PathBuf,
}

/// How a version of control groups names its files.
struct GroupFiles {
    /// What the group may have, bytes or a word.
    limit: &'static str,
    /// What it has, the cache of files included.
    used: &'static str,
    /// The line of `memory.stat` with the part of that cache that is given back when it is needed.
    reclaimable: &'static str,
}

const VERSION_1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};
const VERSION_2: GroupFiles =
    GroupFiles { limit: "memory.max", used: "memory.current", reclaimable: "inactive_file" };

impl System {
    fn available(&self) -> Option<u64> {
        let free = number(&self.read("proc/meminfo")?, "MemAvailable:")?.checked_mul(1024)?;
        let limits = [self.control_groups(), self.process_limits()].into_iter().flatten();
        Some(limits.fold(free, u64::min))
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok()
    }

    /// What this process's own limits leave: of addresses and of data.
    fn process_limits(&self) -> Option<u64> {
        let (limits, status) = (self.read("proc/self/limits")?, self.read("proc/self/status")?);
        let left = |(limit, used): (&str, &str)| {
            // The soft limit comes first; "unlimited" is no number.
            Some(
                number(&limits, limit)?.saturating_sub(number(&status, used)?.saturating_mul(1024)),
            )
        };
        let pairs = [("Max address space", "VmSize:"), ("Max data size", "VmData:")];
        pairs.into_iter().filter_map(left).min()
    }

    /// What the control groups of this process leave, the tightest one.
    fn control_groups(&self) -> Option<u64> {
        let groups = self.read("proc/self/cgroup")?;
        let mounts = self.read("proc/self/mountinfo")?;
        // `number:controllers:path`; version 2 has the number 0 and no controllers.
        let group = |line: &str| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let files = match controllers {
                "" => &VERSION_2,
                _ if controllers.split(',').any(|name| name == "memory") => &VERSION_1,
                _ => return None,
            };
            self.hierarchy(&mounts, files, Path::new(path))
        };
        groups.lines().filter_map(group).min()
    }

    /// What the group `path` and all groups around it leave.
    fn hierarchy(&self, mounts: &str, files: &GroupFiles, path: &Path) -> Option<u64> {
        let (root, point) = mounts.lines().find_map(|line| mount(line, files))?;
        // In a container the mount may begin at its own group, or show another one's.
        let inner = path.strip_prefix(root).unwrap_or(Path::new(""));
        if inner.components().any(|part| part == Component::ParentDir) {
            return self.group(Path::new(point), files);
        }
        let inner = inner.strip_prefix("/").unwrap_or(inner);
        inner.ancestors().filter_map(|part| self.group(&Path::new(point).join(part), files)).min()
    }

    /// What one group leaves.
    fn group(&self, folder: &Path, files: &GroupFiles) -> Option<u64> {
        let folder = folder.strip_prefix("/").unwrap_or(folder);
        let bytes = |name| self.read(folder.join(name))?.trim().parse::<u64>().ok();
        let limit = bytes(files.limit)?;
        let stat = self.read(folder.join("memory.stat"));
        let cache = stat.and_then(|stat| number(&stat, files.reclaimable)).unwrap_or(0);
        Some(limit.saturating_sub(bytes(files.used)?.saturating_sub(cache)))
    }
}

/// The group that a line of `mountinfo` shows and where, if it is of the memory controller.
fn mount<'a>(line: &'a str, files: &GroupFiles) -> Option<(&'a str, &'a str)> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let fits = match kind.next()? {
        "cgroup2" => files.limit == VERSION_2.limit,
        "cgroup" => {
            let options = kind.nth(1)?;
            files.limit == VERSION_1.limit && options.split(',').any(|option| option == "memory")
        }
        _ => false,
    };
    fits.then_some((root, point))
}

/// The number behind `name` at the beginning of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Bytes that may be found free without asking again. To ask takes a quarter of a millisecond, far longer than to allocate
/// a little, and more where many threads ask.
static UNASKED: AtomicU64 = AtomicU64::new(LEAST_UNASKED);
/// How many there are before anybody has asked, and where little is free.
const LEAST_UNASKED: u64 = 16 << 20;
/// The part of what was free when it was asked last that may be found free after it.
const PART_UNASKED: u64 = 256;

/// Whether `needed` bytes are so few that nobody is asked, with those of before.
fn is_little(needed: u128, unasked: &AtomicU64) -> bool {
    let left = |left: u64| left.checked_sub(u64::try_from(needed).ok()?);
    unasked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
}

/// Checks that `needed` bytes for `what` are free, as far as is known; `lower` names the setting that would help.
///
/// # Errors
/// [`Error::OutOfMemory`] with both figures.
pub fn check(what: &str, needed: u128, lower: &str) -> Result<()> {
    if is_little(needed, &UNASKED) {
        return Ok(());
    }
    // An allocation beyond isize::MAX bytes is impossible even where nobody says what is free.
    let free = available();
    UNASKED.store(free.map_or(0, |free| free / PART_UNASKED).max(LEAST_UNASKED), Ordering::Relaxed);
    let free = free.unwrap_or(isize::MAX as u64);
    if needed <= u128::from(free) {
        return Ok(());
    }
    Err(Error::OutOfMemory { what: what.into(), needed, free, lower: lower.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &str = "MemTotal: 99 kB\nMemAvailable:   1000 kB\n";
    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units\n\
        Max data size             unlimited            unlimited            bytes\n\
        Max address space         unlimited            unlimited            bytes\n";
    const MOUNTED_2: &str = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";

    /// What is free on a machine with these files.
    fn available(name: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = std::env::temp_dir().join(format!("warp-memory-{name}-{}", std::process::id()));
        let usual = [("proc/meminfo", MEMORY), ("proc/self/limits", LIMITS)];
        for (path, text) in
            usual.iter().chain([&("proc/self/status", "VmSize: 10 kB\n")]).chain(files)
        {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let free = System { root: root.clone() }.available();
        std::fs::remove_dir_all(root).unwrap();
        free
    }

    #[test]
    fn without_limits_the_whole_machine_is_free() {
        assert_eq!(available("whole", &[]), Some(1_024_000));
        assert_eq!(available("none", &[("proc/meminfo", "")]), None);
        assert!(super::available().is_none_or(|free| free > 0));
    }

    #[test]
    fn little_is_allocated_without_asking_but_not_for_ever() {
        let unasked = AtomicU64::new(LEAST_UNASKED);
        let piece = u128::from(LEAST_UNASKED / 4);
        assert!(!is_little(4 * piece + 1, &unasked) && !is_little(u128::MAX, &unasked));
        assert!((0..4).all(|_| is_little(piece, &unasked)));
        assert!(!is_little(piece, &unasked) && !is_little(1, &unasked) && is_little(0, &unasked));
    }

    #[test]
    fn every_group_around_a_process_counts() {
        let at = |path: &str| format!("sys/fs/cgroup{path}");
        let files = |inner: &'static str, outer: &'static str| {
            let (a, b) = (at("/a/b/memory.max"), at("/a/memory.max"));
            available(
                "nested",
                &[
                    ("proc/self/cgroup", "0::/a/b\n"),
                    ("proc/self/mountinfo", MOUNTED_2),
                    (&a, inner),
                    (&b, outer),
                    (&at("/a/b/memory.current"), "5000\n"),
                    (&at("/a/memory.current"), "8000\n"),
                    (&at("/a/memory.stat"), "file 4000\ninactive_file 1000\n"),
                ],
            )
        };
        assert_eq!(files("max\n", "max\n"), Some(1_024_000));
        assert_eq!(files("9000\n", "max\n"), Some(4_000));
        // Of the 8,000 bytes of the outer group 1,000 are a cache of files.
        assert_eq!(files("90000\n", "9000\n"), Some(2_000));
        assert_eq!(files("90000\n", "100\n"), Some(0));
    }

    #[test]
    fn groups_of_version_1_count_wherever_they_are_mounted() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            31 23 0:27 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        for group in ["/docker/x", "/docker/x/y", "/elsewhere", "/../x"] {
            let files = [
                ("proc/self/cgroup", &*format!("5:cpu:/\n4:hugetlb,memory:{group}\n")),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n"),
                ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 500\n"),
            ];
            assert_eq!(available("old", &files), Some(4_500), "{group}");
        }
    }

    #[test]
    fn limits_of_the_shell_count() {
        for limit in ["Max address space", "Max data size"] {
            let limits =
                LIMITS.replace(&format!("{limit:<26}unlimited"), &format!("{limit:<26}50000    "));
            let status = "VmSize:\t      10 kB\nVmData:\t      10 kB\n";
            let files = [("proc/self/limits", &*limits), ("proc/self/status", status)];
            assert_eq!(available("shell", &files), Some(50_000 - 10_240), "{limit}");
        }
    }
}
