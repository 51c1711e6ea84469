//! `warp info`: what this machine has for a GPU run: driver, GPUs, compiler, kept kernels, memory.
//!
//! A machine without any of it is no error: what is missing is reported in one sentence each.

use super::{print_json, say, thread_count};
use crate::Outcome;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Show whether this machine can train on a GPU.
#[derive(Debug, Clone, Args)]
pub struct InfoArgs {
    /// Print one JSON object to standard output.
    #[arg(long)]
    pub json: bool,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Info {
    /// Version of this program.
    version: &'static str,
    /// CPU cores.
    cores: usize,
    /// Free bytes of this machine's memory; none if the system does not report them.
    memory_free: Option<u64>,
    /// What the program was built with.
    features: Vec<&'static str>,
    gpus: Vec<Gpu>,
    driver: Option<Library>,
    nvrtc: Option<Library>,
    /// Exchanges sums between GPUs that cannot access each other's memory.
    nccl: Option<Library>,
    cache: Option<Cache>,
    /// A sentence for everything that a GPU run needs and that is missing.
    missing: Vec<String>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Gpu {
    ordinal: usize,
    name: String,
    /// Major and minor version.
    capability: String,
    /// The newest CUDA version that the driver supports.
    driver: String,
    multiprocessors: u32,
    /// In bytes.
    memory_total: u64,
    /// In bytes.
    memory_free: u64,
    /// Indices of the GPUs whose memory it can access.
    reaches: Vec<usize>,
}

/// A library that is found at run time.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Library {
    version: String,
    path: Option<PathBuf>,
}

/// The folder of compiled kernels.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Cache {
    folder: PathBuf,
    entries: usize,
    /// In bytes.
    size: u64,
}

/// Runs the command.
///
/// # Errors
/// Standard output that can't be written.
pub fn execute(args: &InfoArgs) -> Result<Outcome> {
    let mut info = Info {
        version: env!("CARGO_PKG_VERSION"),
        cores: thread_count(0),
        memory_free: warp_data::memory::available(),
        ..Info::default()
    };
    look(&mut info);
    if args.json {
        print_json(&info)?;
    } else {
        print(&info)?;
    }
    Ok(Outcome::Done)
}

#[cfg(not(feature = "cuda"))]
fn look(info: &mut Info) {
    info.missing.push("this build uses no GPU: build with --features cuda".into());
}

#[cfg(feature = "cuda")]
fn look(info: &mut Info) {
    use warp_func::cuda::{cache_folder, cache_problem, nvrtc_version};
    info.features.push("cuda");
    find_gpus(info);
    if !info.gpus.is_empty() {
        let about = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        let version = release(&about).unwrap_or("unknown").into();
        info.driver = Some(Library { version, path: loaded_from("libcuda.so") });
    }
    match nvrtc_version() {
        Ok((major, minor)) => {
            let version = format!("{major}.{minor}");
            info.nvrtc = Some(Library { version, path: loaded_from("libnvrtc.so") });
        }
        Err(error) => info.missing.push(error.to_string()),
    }
    if let Ok((version, name)) = warp_data::cuda::nccl_version() {
        let path = loaded_from("libnccl.so").or(Some(name.into()));
        info.nccl = Some(Library { version, path });
    } else if info.gpus.len() > 1 {
        info.missing.push(
            "NCCL, for GPUs that can't access each other's memory and for several machines".into(),
        );
    }
    info.cache = cache_folder().map(measure);
    if let Some(problem) = cache_problem() {
        info.missing.push(format!("compiled kernels are not cached: {problem}"));
    }
}

/// Opens every GPU that the driver finds.
#[cfg(feature = "cuda")]
fn find_gpus(info: &mut Info) {
    use warp_data::Error;
    use warp_data::cuda::{Device, DeviceInfo};
    let mut opened: Vec<Device> = Vec::new();
    for ordinal in 0.. {
        let gpu = Device::open(ordinal);
        opened.extend(gpu.as_ref().ok().cloned());
        match gpu.and_then(|gpu| Ok((gpu.free_bytes()?, gpu.info().clone()))) {
            Ok((memory_free, found)) => {
                let DeviceInfo { name, driver, capability, n_multiprocessors, total_bytes, .. } =
                    found;
                let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
                info.gpus.push(Gpu {
                    ordinal,
                    name,
                    capability: version(capability),
                    driver: version(driver),
                    multiprocessors: n_multiprocessors,
                    memory_total: total_bytes,
                    memory_free,
                    reaches: Vec::new(),
                });
            }
            // All of them were seen.
            Err(Error::NoDevice { count, .. }) if count > 0 => break,
            Err(error) => return info.missing.push(error.to_string()),
        }
    }
    for (found, gpu) in info.gpus.iter_mut().zip(&opened) {
        let others = opened.iter().filter(|other| gpu.reaches(other));
        found.reaches = others.map(|other| other.info().ordinal).collect();
    }
}

/// The release in the driver's description of itself: the first word that begins with a digit.
#[cfg(feature = "cuda")]
fn release(about: &str) -> Option<&str> {
    let line = about.lines().find(|line| line.starts_with("NVRM version"))?;
    line.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// The file from which this process has loaded the library `name`, if the system reports it.
#[cfg(feature = "cuda")]
fn loaded_from(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = |line: &str| Some(PathBuf::from(&line[line.find('/')?..]));
    maps.lines().filter(|line| line.contains(name)).find_map(path)
}

/// Number and size of the entries in the folder of compiled kernels.
#[cfg(feature = "cuda")]
fn measure(folder: PathBuf) -> Cache {
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let sizes: Vec<u64> = entries.filter_map(|e| Some(e.metadata().ok()?.len())).collect();
    Cache { folder, entries: sizes.len(), size: sizes.iter().sum() }
}

fn print(info: &Info) -> Result<()> {
    let memory = info.memory_free.map_or("unknown".into(), bytes);
    say(&format!("warp {}: {} cores, {memory} of memory free", info.version, info.cores))?;
    for gpu in &info.gpus {
        let Gpu { ordinal, name, capability, driver, multiprocessors, .. } = gpu;
        let (free, total) = (bytes(gpu.memory_free), bytes(gpu.memory_total));
        say(&format!(
            "GPU {ordinal}: {name}, compute capability {capability}, {multiprocessors} \
             multiprocessors, {free} of {total} free; its driver supports CUDA {driver}"
        ))?;
    }
    for gpu in info.gpus.iter().filter(|_| info.gpus.len() > 1) {
        let others: Vec<String> = gpu.reaches.iter().map(ToString::to_string).collect();
        let others = if others.is_empty() { "no other GPU".into() } else { others.join(", ") };
        say(&format!("GPU {} can access the memory of {others}", gpu.ordinal))?;
    }
    let libraries = [("NVIDIA driver", &info.driver), ("NVRTC", &info.nvrtc), ("NCCL", &info.nccl)];
    for (name, library) in libraries {
        let Some(Library { version, path }) = library else { continue };
        let path = path.as_ref().map_or(String::new(), |path| format!(": {}", path.display()));
        say(&format!("{name} {version}{path}"))?;
    }
    if let Some(Cache { folder, entries, size }) = &info.cache {
        let (folder, size) = (folder.display(), bytes(*size));
        say(&format!("compiled kernels: {entries} in {folder}, {size}"))?;
    }
    for sentence in &info.missing {
        say(&format!("missing: {sentence}"))?;
    }
    Ok(())
}

fn bytes(bytes: u64) -> String {
    warp_data::memory::human(u128::from(bytes))
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::release;

    #[test]
    fn the_drivers_release_is_found_in_both_forms() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5";
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build";
        assert_eq!(release(closed), Some("550.54.15"));
        assert_eq!(release(&format!("{open}\nGCC version: gcc 12")), Some("580.95.05"));
        assert_eq!(release(""), None);
    }
}
