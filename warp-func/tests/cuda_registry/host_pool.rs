//! How the CUDA code takes a state with arrays from a pool and puts it into its columns, on the host.

use super::drone::Drone;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use warp_core::kernel_text::{HEADERS, HOST_SHIM};
use warp_core::toml::Table;
use warp_func::cuda::env_kernels;
use warp_func::{Registry, Start, VecOptions};

pub(crate) const TESTS: [(&str, fn()); 1] =
    [("host_text_begins_in_the_rows_of_a_pool", same_starts)];

const N: usize = 50;

/// A C++ compiler that works.
pub(crate) fn compiler() -> Option<String> {
    let named = std::env::var("CXX").ok();
    let works = |name: &String| Command::new(name).arg("--version").output().is_ok();
    named.into_iter().chain(["c++", "g++", "clang++"].map(String::from)).find(works)
}

fn same_starts() {
    let registry = Registry::new().with::<Drone>();
    let entry = registry.get("drone").unwrap();
    let options = VecOptions { n_envs: N, seed: 9, start: Start::Pool, ..VecOptions::default() };
    let envs = entry.make(&Table::new(), &options).unwrap();
    let words = |id| bits(&*envs, id);
    let pool: Vec<Vec<u32>> = envs.ids().pool.iter().map(|id| words(*id)).collect();
    let state: Vec<u32> = envs.ids().state.iter().flat_map(|id| words(*id)).collect();
    let text = env_kernels(&entry.blueprint(&Table::new()).unwrap()).unwrap().text;
    assert!(text.contains("    float* position[3];\n    unsigned int* gusts;\n"), "{text}");
    assert_eq!(run(&program(&text, &pool)), state);
}

/// The bits of an array.
fn bits(envs: &dyn warp_func::VecEnv, id: warp_data::ArrayId) -> Vec<u32> {
    match envs.store().array(id).dtype() {
        warp_core::DType::F32 => {
            envs.store().slice::<f32>(id).iter().map(|x| x.to_bits()).collect()
        }
        _ => envs.store().slice::<u32>(id).to_vec(),
    }
}

/// A program that begins `N` replicas in rows of `pool` and prints their columns.
fn program(text: &str, pool: &[Vec<u32>]) -> String {
    let (columns, rows) = (pool.len(), pool[0].len());
    let mut all = format!("static unsigned int pool[{columns}][{rows}] = {{");
    for column in pool {
        let list: Vec<String> = column.iter().map(|word| format!("{word}u")).collect();
        let _ = writeln!(all, "{{{}}},", list.join(", "));
    }
    format!(
        "#include \"host_shim.h\"\n#include <stdio.h>\n{text}\n{all}}};\n\
         static unsigned int state[{columns}][{N}];\n\
         int main() {{\n    WarpArrays a = {{}};\n    void *of_state[{columns}], *of_pool[{columns}];\n\
         for (int i = 0; i < {columns}; ++i) {{ of_state[i] = state[i]; of_pool[i] = pool[i]; }}\n\
         memcpy(&a.state, of_state, sizeof of_state);\n    memcpy(&a.pool, of_pool, sizeof of_pool);\n\
         static_assert(sizeof a.state == sizeof of_state, \"one pointer per element\");\n\
         WarpRun run = {{}};\n    run.seed = 9;\n    run.start = 2u;\n    run.pool_rows = {rows}u;\n\
         for (unsigned int r = 0; r < {N}; ++r) {{\n        State replica;\n\
         warp_begin(warp_env(WarpTables()), run, a, r, 0u, replica);\n\
         warp_save(a, r, replica);\n    }}\n\
         for (auto& column : state) for (unsigned int word : column) printf(\"%u\\n\", word);\n}}\n"
    )
}

/// What the program prints.
fn run(text: &str) -> Vec<u32> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("host_pool");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in HEADERS.iter().chain(&[("host_shim.h", HOST_SHIM), ("main.cpp", text)]) {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let program = folder.join("program");
    let mut command = Command::new(compiler().unwrap());
    command.args(["-std=c++17", "-O1", "-ffp-contract=off", "-w"]);
    let built = command.arg(folder.join("main.cpp")).arg("-o").arg(&program).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let printed = String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap();
    printed.lines().map(|line| line.parse().unwrap()).collect()
}
