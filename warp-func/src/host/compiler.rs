//! The host's C++ compiler: finding one, and building programs from an environment's code.

use super::HostBuild;
use crate::blueprint::{Blueprint, Body};
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use warp_core::kernel_text::{HEADERS, HOST_SHIM};
use warp_core::{GroupSpec, Space};

const DRIVER: &str = include_str!("driver.cpp");
/// As NVRTC is called for the parity build: nothing fused, nothing reordered.
const FLAGS: [&str; 6] =
    ["-std=c++17", "-O2", "-ffp-contract=off", "-fno-fast-math", "-Wno-unused", "-pthread"];

/// A C++ compiler of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    command: String,
    flags: Vec<String>,
}

impl Compiler {
    /// The one that `CXX` names, else `c++`, `g++` or `clang++` from the path; none if none works.
    #[must_use]
    pub fn find() -> Option<Self> {
        let named = std::env::var("CXX").ok();
        let usual = ["c++", "g++", "clang++"].map(String::from);
        let works = |name: &String| {
            Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
        };
        let command = named.into_iter().chain(usual).find(works)?;
        Some(Self { command, flags: Vec::new() })
    }

    /// This compiler with more flags, such as `-fsanitize=thread`.
    #[must_use]
    pub fn with_flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_string()));
        self
    }

    /// A program that steps `n_envs` replicas of an environment by its CUDA body.
    pub(super) fn build(
        &self,
        blueprint: &Blueprint,
        n_envs: usize,
        build: &HostBuild<'_>,
    ) -> Result<PathBuf> {
        let none = || Error::NoBody { env: blueprint.name.into() };
        let body = blueprint.body.as_ref().ok_or_else(none)?;
        let text = program_text(blueprint, body, n_envs, build.team);
        let own = [("host_shim.h", HOST_SHIM), ("driver.cpp", DRIVER), ("program.cpp", &text)];
        self.program(body.file, &[&HEADERS[..], &own].concat(), build.folder)
    }

    /// A program of `texts`, files by name, of which `program.cpp` is compiled; all of it is put into `folder`. `name`
    /// is what it is called in errors.
    ///
    /// # Errors
    /// Text that does not compile, or a folder that can't be written.
    pub fn program(&self, name: &str, texts: &[(&str, &str)], folder: &Path) -> Result<PathBuf> {
        let failed = |log: String| Error::Compile { name: name.into(), log };
        let unwritten = |path: &Path, e: std::io::Error| failed(format!("{}: {e}", path.display()));
        std::fs::create_dir_all(folder).map_err(|e| unwritten(folder, e))?;
        for (name, text) in texts {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|e| unwritten(&path, e))?;
        }
        let program = folder.join(if cfg!(windows) { "program.exe" } else { "program" });
        let mut command = Command::new(&self.command);
        command.args(FLAGS).args(&self.flags);
        command.arg(folder.join("program.cpp")).arg("-o").arg(&program);
        let output = command.output().map_err(|e| failed(format!("{}: {e}", self.command)))?;
        match output.status.success() {
            true => Ok(program),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }
}

/// The body with its declarations, what the driver must know of the environment, and the driver.
fn program_text(blueprint: &Blueprint, body: &Body, n_envs: usize, team: usize) -> String {
    let list = |numbers: Vec<String>| format!("{{{}}}", numbers.join(", "));
    let fields = blueprint.fields.iter().map(|f| f.dims.iter().product::<usize>().to_string());
    // One more, as C++ has no arrays without elements.
    let tables = blueprint.tables.iter().map(|t| t.bits.len().to_string()).chain(["0".into()]);
    format!(
        "#define WARP_TEAM {team}\n#include \"host_shim.h\"\n{}\n\
         struct Group {{ int agents, obs_width, mask_width, action_width, continuous, mortal; }};\n\
         enum {{ N_ENVS = {n_envs}, N_FIELDS = {}, N_TABLES = {} }};\n\
         static const Group GROUPS[] = {};\n\
         static const int FIELD_LEN[] = {};\n\
         static const int TABLE_LEN[] = {};\n\
         #include \"driver.cpp\"\n",
        body.text,
        blueprint.fields.len(),
        blueprint.tables.len(),
        list(blueprint.spec.groups.iter().map(group).collect()),
        list(fields.collect()),
        list(tables.collect()),
    )
}

fn group(group: &GroupSpec) -> String {
    let continuous = u8::from(matches!(group.action, Space::Box { .. }));
    format!(
        "{{{}, {}, {}, {}, {continuous}, {}}}",
        group.n_agents,
        group.observation_width(),
        group.mask_width(),
        group.action.action_width(),
        u8::from(group.mortal),
    )
}
