//! A program of the host from an environment's CUDA body.

use std::path::{Path, PathBuf};
use std::process::Command;
use warp_core::kernel_text::{HEADERS, HOST_SHIM};
use warp_core::{GroupSpec, Space};
use warp_func::{Blueprint, Body};

const DRIVER: &str = include_str!("driver.cpp");
const FLAGS: [&str; 6] =
    ["-std=c++17", "-O2", "-ffp-contract=off", "-fno-fast-math", "-Wno-unused", "-pthread"];

/// A C++ compiler that works.
pub(crate) fn compiler() -> Option<String> {
    let named = std::env::var("CXX").ok();
    let usual = ["c++", "g++", "clang++"].map(String::from);
    let works = |name: &String| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    named.into_iter().chain(usual).find(works)
}

/// The names of the arrays that the driver writes, in its order.
pub(crate) fn written(blueprint: &Blueprint) -> Vec<String> {
    let mut names: Vec<String> = blueprint.fields.iter().map(|f| f.name.to_string()).collect();
    for group in &blueprint.spec.groups {
        for what in ["obs", "final_obs", "action_mask", "reward", "alive"] {
            names.push(format!("{what}.{}", group.name));
        }
    }
    let shared = ["terminated", "truncated", "episode_length", "statistic", "final_statistic"];
    names.extend(shared.map(String::from));
    names.push("global_obs".into());
    names
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

/// What the driver must know of the environment.
fn world(blueprint: &Blueprint, n_envs: usize) -> String {
    let list = |numbers: Vec<String>| format!("{{{}}}", numbers.join(", "));
    let fields = blueprint.fields.iter().map(|f| f.dims.iter().product::<usize>().to_string());
    // One more, as C++ has no arrays without elements.
    let tables = blueprint.tables.iter().map(|t| t.bits.len().to_string()).chain(["0".into()]);
    let groups = list(blueprint.spec.groups.iter().map(group).collect());
    format!(
        "struct Group {{ int agents, obs_width, mask_width, action_width, continuous, mortal; }};\n\
         enum {{ N_ENVS = {n_envs}, N_FIELDS = {}, N_TABLES = {} }};\n\
         static const Group GROUPS[] = {groups};\n\
         static const int FIELD_LEN[] = {};\n\
         static const int TABLE_LEN[] = {};\n",
        blueprint.fields.len(),
        blueprint.tables.len(),
        list(fields.collect()),
        list(tables.collect()),
    )
}

/// Compiles the body for teams of `team` threads and returns the program.
pub(crate) fn compile(
    compiler: &str,
    (blueprint, body): (&Blueprint, &Body),
    (n_envs, team): (usize, usize),
    folder: &Path,
) -> Result<PathBuf, String> {
    let text = format!(
        "#define WARP_TEAM {team}\n#include \"host_shim.h\"\n{}\n{}#include \"driver.cpp\"\n",
        body.text,
        world(blueprint, n_envs),
    );
    let own = [("host_shim.h", HOST_SHIM), ("driver.cpp", DRIVER), ("program.cpp", &text)];
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    for (name, text) in HEADERS.iter().chain(&own) {
        std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
    }
    let program = folder.join(if cfg!(windows) { "program.exe" } else { "program" });
    let mut command = Command::new(compiler);
    command.args(FLAGS).arg(folder.join("program.cpp")).arg("-o").arg(&program);
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(program) } else { Err(format!("{command:?} failed:\n{log}")) }
}
