//! The compiler and the cache on disk; no GPU.

use super::board::Board;
use super::drone::Drone;
use super::herd::Herd;
use super::swarm::Swarm;
use super::{add, cache};
use std::sync::Barrier;
use warp_core::toml::Table;
use warp_func::cuda::{Build, ExecutorPart, Source, env_kernels, machine_code};
use warp_func::{Error, Registry};

pub(crate) const TESTS: [(&str, fn()); 8] = [
    ("nvrtc_machine_code_is_kept", kept),
    ("nvrtc_what_several_ask_for_is_compiled_once", once),
    ("nvrtc_a_damaged_entry_is_compiled_anew", damaged),
    ("nvrtc_an_environment_compiles_for_any_number_of_agents", sizes),
    ("nvrtc_arrays_of_a_state_compile", arrays),
    ("nvrtc_replicas_that_go_their_own_way_compile", super::replicas::compile),
    ("nvrtc_what_takes_others_arrays_compiles", super::stepped::compile),
    ("nvrtc_text_that_does_not_compile_is_refused_with_its_line", refused),
];

const ARCH: &str = "sm_90a";
const BUILDS: [Build; 2] = [Build::Parity, Build::Release];

fn kept() {
    let (code, seconds) = machine_code(&add("1.0f"), Build::Parity, ARCH).unwrap();
    assert!(seconds > 0.0);
    assert_eq!(machine_code(&add("1.0f"), Build::Parity, ARCH).unwrap(), (code.clone(), 0.0));
    // Everything that decides over the code tells entries apart.
    let (other, seconds) = machine_code(&add("2.0f"), Build::Parity, ARCH).unwrap();
    assert!(seconds > 0.0 && other != code);
    assert!(machine_code(&add("1.0f"), Build::Release, ARCH).unwrap().1 > 0.0);
    assert!(machine_code(&add("1.0f"), Build::Parity, "sm_80").unwrap().1 > 0.0);
}

fn once() {
    let all = Barrier::new(4);
    let ask = || {
        all.wait();
        machine_code(&add("4.0f"), Build::Parity, ARCH).unwrap()
    };
    let found: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // The same time, or that of code which is there.
    let seconds = found.iter().fold(0.0, |most, (_, seconds)| f64::max(most, *seconds));
    assert!(seconds > 0.0);
    for (code, own) in &found {
        assert!(code == &found[0].0 && (*own == seconds || *own == 0.0), "{own}, {seconds}");
    }
}

fn damaged() {
    let before = std::fs::read_dir(cache()).map_or(0, Iterator::count);
    let source = add("3.0f");
    let (code, _) = machine_code(&source, Build::Parity, ARCH).unwrap();
    let entries = std::fs::read_dir(cache()).unwrap().map(|e| e.unwrap().path());
    let holds =
        |path: &std::path::PathBuf| std::fs::read(path).is_ok_and(|bytes| bytes.ends_with(&code));
    let entry = entries.into_iter().find(holds).unwrap();
    let sound = std::fs::read(&entry).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    for bad in [flipped, sound[..sound.len() - 9].to_vec(), Vec::new()] {
        std::fs::write(&entry, bad).unwrap();
        let (again, seconds) = machine_code(&source, Build::Parity, ARCH).unwrap();
        assert!(seconds > 0.0, "a damaged entry was loaded");
        assert_eq!(again, code);
        assert_eq!(std::fs::read(&entry).unwrap(), sound);
    }
    assert!(std::fs::read_dir(cache()).unwrap().count() > before);
}

fn refused() {
    let source = Source::new("wrong.cu", "\nextern \"C\" __global__ void f() { x = 1; }\n");
    let error = machine_code(&source, Build::Parity, ARCH).unwrap_err();
    let Error::Compile { name, log } = error else { panic!("{error}") };
    assert_eq!(name, "wrong.cu");
    assert!(log.contains("wrong.cu(2)"), "{log}");
}

fn sizes() {
    let registry = Registry::new().with::<Herd>();
    for agents in [2i64, 5, 1500] {
        let config: Table = [("agents".to_string(), agents.into())].into_iter().collect();
        let blueprint = registry.get("herd").unwrap().blueprint(&config).unwrap();
        let text = env_kernels(&blueprint).unwrap();
        let source = text.source("empty.cu", "extern \"C\" __global__ void f(WarpArrays a) {\n\
            State state = warp_view(a, 0u);\n    if (warp_first() == 0) *state.strayed = n_agents;\n}\n");
        assert!(machine_code(&source, Build::Parity, ARCH).unwrap().0.starts_with(b"\x7fELF"));
    }
}

fn arrays() {
    let registry = Registry::new().with::<Drone>().with::<Board>().with::<Swarm>();
    for name in ["drone", "board", "swarm"] {
        let blueprint = registry.get(name).unwrap().blueprint(&Table::new()).unwrap();
        let text = env_kernels(&blueprint).unwrap();
        let units = ExecutorPart::ALL.map(|part| text.executor(part));
        for (source, build) in units.iter().flat_map(|unit| BUILDS.map(|build| (unit, build))) {
            let (code, _) = machine_code(source, build, ARCH).unwrap();
            assert!(code.starts_with(b"\x7fELF"));
        }
    }
}
