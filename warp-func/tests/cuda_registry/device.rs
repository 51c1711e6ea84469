//! What needs a GPU: kernels, launches, graphs, arrays, environments.
#![expect(unsafe_code, reason = "borrows an array's memory as another library would lend its own")]

use super::add;
use super::board::Board;
use super::drone::Drone;
use super::herd::Herd;
use super::swarm::Swarm;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use warp_core::DType;
use warp_core::toml::Table;
use warp_data::Log;
use warp_data::cuda::DeviceLog;
use warp_func::cuda::parity::compare;
use warp_func::cuda::{
    Arg, Build, Device, DeviceArray, Function, Graph, Kernels, Launch, Pointer, Source, fork_join,
    programmatic_launch,
};
use warp_func::{Registry, Start, VecEnv, VecOptions};

pub(crate) const TESTS: [(&str, fn()); 24] = [
    ("cuda_kernels_are_compiled_once", compiled_once),
    ("cuda_wrong_arguments_are_refused", wrong_arguments),
    ("cuda_launches_are_recorded_and_replayed", graph),
    ("cuda_launches_around_no_work_keep_their_order", no_work),
    ("cuda_launches_that_begin_early_wait", early),
    ("cuda_what_cannot_be_recorded_is_refused", unrecordable),
    ("cuda_a_graph_keeps_what_it_works_on", graph_keeps),
    ("cuda_a_panic_ends_a_recording", panic_in_recording),
    ("cuda_a_device_is_opened_while_another_records", opened_while_recording),
    ("cuda_an_address_can_not_be_made_up", made_up),
    ("cuda_arrays_are_pushed_and_pulled", push_and_pull),
    ("cuda_staged_numbers_come_in_order_and_nobody_waits", super::staging::in_order),
    ("cuda_what_does_not_fit_is_not_staged", super::staging::refused),
    ("cuda_memory_is_borrowed_and_kept_alive", borrow),
    ("cuda_too_much_is_refused_before_it_is_allocated", out_of_memory),
    ("cuda_chosen_replicas_are_logged", log),
    ("cuda_actions_are_pushed_alone", actions_alone),
    ("cuda_any_number_of_agents_is_bit_equal", sizes),
    ("cuda_the_release_build_is_close", release),
    ("cuda_arrays_of_a_state_are_bit_equal", arrays),
    ("cuda_replicas_go_their_own_way_as_on_the_host", super::replicas::alike),
    ("cuda_replicas_refuse_what_the_gpu_finds", super::replicas::refused),
    ("cuda_what_others_move_is_taken_and_counted", super::stepped::counted),
    ("cuda_arrays_of_another_shape_are_refused", super::stepped::refused),
];

pub(crate) fn gpu() -> &'static Kernels {
    static GPU: OnceLock<Kernels> = OnceLock::new();
    GPU.get_or_init(|| Kernels::new(&Device::open(0).unwrap()))
}

fn array(name: &str, data: &[f32]) -> DeviceArray {
    DeviceArray::from_slice(gpu().device(), name, &[data.len()], data).unwrap()
}

fn function() -> Function {
    gpu().compile(&add("0.5f"), Build::Parity).unwrap().function("add").unwrap()
}

fn args(a: &DeviceArray, out: &DeviceArray, n: usize) -> [Arg; 4] {
    [Arg::array(a, n), Arg::array(out, n), Arg::U32(n as u32), Arg::I32(1)]
}

fn compiled_once() {
    let source = add("7.0f");
    let first = Kernels::new(gpu().device());
    first.compile(&source, Build::Parity).unwrap();
    let seconds = first.compile_seconds();
    assert!(seconds > 0.0);
    first.compile(&source, Build::Parity).unwrap();
    assert_eq!(first.compile_seconds(), seconds);
    let of_first = first.seconds();
    assert!(of_first.waiting >= seconds && of_first.loading > 0.0, "{of_first:?}");
    // Another registry, as in another process: from the disk.
    let second = Kernels::new(gpu().device());
    let module = second.compile(&source, Build::Parity).unwrap();
    assert_eq!(second.compile_seconds(), 0.0);
    let before = second.seconds();
    assert!(before.waiting > 0.0 && before.loading > 0.0, "{before:?}");
    module.function("add").unwrap();
    assert!(second.seconds().loading > before.loading);
    let missing = module.function("subtract").unwrap_err().to_string();
    assert_eq!(missing, "kernel \"subtract\": add.cu defines no such kernel");
}

fn wrong_arguments() {
    let (a, out) = (array("a", &[1.0; 8]), array("out", &[0.0; 8]));
    let numbers = DeviceArray::zeros(gpu().device(), "numbers", DType::I32, &[8]).unwrap();
    let launch = Launch::over(8, 32);
    let refused = |args: &[Arg]| function().launch(&launch, args).unwrap_err().to_string();
    let good = args(&a, &out, 8);
    assert_eq!(refused(&good[..3]), "kernel \"add\": it takes 4 arguments, but 3 were given");
    let [_, o, n, times] = good.clone();
    let wrong = refused(&[Arg::array(&numbers, 8), o.clone(), n.clone(), times.clone()]);
    assert!(wrong.contains("argument 0 is an array of i32"), "{wrong}");
    let wrong = refused(&[Arg::array(&a, 9), o.clone(), n.clone(), times.clone()]);
    assert!(wrong.contains("array \"a\" of 8 elements, but 9 are needed"), "{wrong}");
    let wrong = refused(&[Arg::U64(0), o.clone(), n.clone(), times.clone()]);
    assert!(wrong.contains("argument 0 is unsigned long long"), "{wrong}");
    let wrong = refused(&[good[0].clone(), o, Arg::F32(8.0), times]);
    assert!(wrong.contains("argument 2 is float"), "{wrong}");
    function().launch(&launch, &good).unwrap();
    assert_eq!(out.pull::<f32>().unwrap(), [1.5; 8]);
}

fn graph() {
    let gpu = another();
    let array = |data: &[f32]| DeviceArray::from_slice(gpu.device(), "a", &[2], data).unwrap();
    let (a, b) = (array(&[1.0, 2.0]), array(&[0.0; 2]));
    let add = gpu.compile(&add("0.5f"), Build::Parity).unwrap().function("add").unwrap();
    let launch = Launch::over(2, 32);
    let mut graph = Graph::capture(gpu.device(), || {
        add.launch(&launch, &args(&a, &b, 2))?;
        add.launch(&launch, &args(&b, &a, 2))
    })
    .unwrap();
    assert_eq!(a.pull::<f32>().unwrap(), [1.0, 2.0], "recording runs nothing");
    for _ in 0..3 {
        graph.launch().unwrap();
    }
    assert_eq!(a.pull::<f32>().unwrap(), [4.0, 5.0]);
    assert_eq!(b.pull::<f32>().unwrap(), [3.5, 4.5]);
}

fn no_work() {
    let gpu = another();
    let n = 1 << 20;
    let array = |x: f32| DeviceArray::from_slice(gpu.device(), "a", &[n], &vec![x; n]).unwrap();
    let (a, b) = (array(1.0), array(0.0));
    let add = gpu.compile(&add("0.5f"), Build::Parity).unwrap().function("add").unwrap();
    let works = || std::iter::empty::<fn() -> warp_func::Result<()>>();
    let mut graph = Graph::capture(gpu.device(), || {
        for _ in 0..20 {
            add.launch(&Launch::over(n, 256), &args(&a, &b, n))?;
            fork_join(gpu.device(), works())?;
            add.launch(&Launch::over(n, 256), &args(&b, &a, n))?;
            fork_join(gpu.device(), works())?;
        }
        Ok::<_, warp_func::Error>(())
    })
    .unwrap();
    graph.launch().unwrap();
    assert!(a.pull::<f32>().unwrap().iter().all(|x| *x == 21.0));
}

fn early() {
    let text = "#if __CUDA_ARCH__ >= 900\n\
        #define EARLY asm volatile(\"griddepcontrol.launch_dependents; griddepcontrol.wait;\" ::: \"memory\")\n\
        #else\n#define EARLY\n#endif\n\
        extern \"C\" __global__ void add(const float* a, const float* b, float* out, unsigned int n) {\n\
        EARLY;\n\
        unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
        if (i < n) out[n - 1 - i] = a[i] + b[i];\n}\n";
    let (gpu, n) = (another(), 1 << 20);
    let array = |x: f32| DeviceArray::from_slice(gpu.device(), "a", &[n], &vec![x; n]).unwrap();
    let (one, a, b, c) = (array(1.0), array(1.0), array(0.0), array(0.0));
    let add = gpu.compile(&Source::new("add.cu", text), Build::Parity).unwrap();
    let add = add.function("add").unwrap();
    let sum = |x: &DeviceArray, y: &DeviceArray, out: &DeviceArray| -> warp_func::Result<()> {
        programmatic_launch(gpu.device())?;
        let args = [Arg::array(x, n), Arg::array(y, n), Arg::array(out, n), Arg::U32(n as u32)];
        add.launch(&Launch::over(n, 256), &args)
    };
    let mut graph = Graph::capture(gpu.device(), || {
        for _ in 0..10 {
            fork_join(gpu.device(), [&b, &c].map(|to| || sum(&a, &one, to)))?;
            sum(&b, &c, &a)?;
        }
        Ok::<_, warp_func::Error>(())
    })
    .unwrap();
    graph.launch().unwrap();
    // From x to 2 (x + 1), ten times.
    assert!(a.pull::<f32>().unwrap().iter().all(|x| *x == 3070.0));
}

/// A device of its own, since a device's stream either records or runs, whoever puts work on it.
pub(crate) fn another() -> Kernels {
    Kernels::new(&Device::open(0).unwrap())
}

fn graph_keeps() {
    let gpu = another();
    let named = |name: &str, data: &[f32]| {
        DeviceArray::from_slice(gpu.device(), name, &[data.len()], data).unwrap()
    };
    let out = named("out", &[0.0; 2]);
    let seen = DeviceArray::zeros(gpu.device(), "seen", DType::U32, &[4]).unwrap();
    let held =
        |name: &str| gpu.device().allocations().iter().filter(|held| &*held.name == name).count();
    let mut graph = {
        let add = gpu.compile(&add("0.5f"), Build::Parity).unwrap().function("add").unwrap();
        let (a, b, places) =
            (named("kept a", &[1.0, 2.0]), named("kept b", &[0.0; 2]), named("kept c", &[7.0]));
        let places =
            DeviceArray::addresses(gpu.device(), "places", &[Some(&places), None]).unwrap();
        Graph::capture(gpu.device(), || {
            add.launch(&Launch::over(2, 32), &args(&a, &b, 2))?;
            // What the addresses lead to is kept with them.
            seen.copy_from(&places)?;
            Ok::<_, warp_func::Error>(out.copy_from(&b)?)
        })
        .unwrap()
    };
    assert_eq!(["kept a", "kept b", "kept c", "places"].map(held), [1; 4]);
    graph.launch().unwrap();
    assert_eq!(out.pull::<f32>().unwrap(), [1.5, 2.5]);
    drop(graph);
    assert_eq!(["kept a", "kept b", "kept c", "places"].map(held), [0; 4]);
}

fn opened_while_recording() {
    let gpu = another();
    let array = |data: &[f32]| DeviceArray::from_slice(gpu.device(), "a", &[2], data).unwrap();
    let (a, b) = (array(&[1.0, 2.0]), array(&[0.0; 2]));
    let add = gpu.compile(&add("0.5f"), Build::Parity).unwrap().function("add").unwrap();
    let mut graph = Graph::capture(gpu.device(), || {
        // By another thread, which knows nothing of this one.
        std::thread::scope(|scope| scope.spawn(|| drop(another())).join().unwrap());
        add.launch(&Launch::over(2, 32), &args(&a, &b, 2))
    })
    .unwrap();
    graph.launch().unwrap();
    assert_eq!(b.pull::<f32>().unwrap(), [1.5, 2.5]);
}

fn panic_in_recording() {
    let gpu = another();
    let a = DeviceArray::from_slice(gpu.device(), "a", &[1], &[2.0f32]).unwrap();
    let work = || -> warp_data::Result<()> { panic!("in the middle of it") };
    let recorded = || drop(Graph::capture(gpu.device(), work));
    assert!(catch_unwind(AssertUnwindSafe(recorded)).is_err());
    // The stream runs what it is given, and forgets what was kept.
    a.push(&[3.0f32]).unwrap();
    assert_eq!(a.pull::<f32>().unwrap(), [3.0]);
}

fn made_up() {
    let text = "struct Places { float* out; unsigned int n; };\n\
        struct Sizes { unsigned long long n; }; // no pointer * here\n\
        extern \"C\" __global__ void fill(Places places, Sizes sizes) {\n\
        if (threadIdx.x < sizes.n) places.out[threadIdx.x] = 1.0f;\n}\n";
    let fill = gpu().compile(&Source::new("fill.cu", text), Build::Parity).unwrap();
    let fill = fill.function("fill").unwrap();
    let (out, launch) = (array("out", &[0.0; 4]), Launch::over(4, 32));
    let sizes = || Arg::Struct("Sizes", 4u64.to_le_bytes().to_vec());
    let address: Vec<u8> = out.ptr().to_le_bytes().into_iter().chain([0; 8]).collect();
    let refused = fill.launch(&launch, &[Arg::Struct("Places", address), sizes()]).unwrap_err();
    assert!(refused.to_string().contains("argument 0 is Places, a struct of numbers"), "{refused}");
    let places = Arg::pointers("Places", [Pointer::from(&out), Pointer::default()]);
    fill.launch(&launch, &[places, sizes()]).unwrap();
    assert_eq!(out.pull::<f32>().unwrap(), [1.0; 4]);
}

fn unrecordable() {
    let gpu = another();
    let refused = Graph::capture(gpu.device(), || gpu.device().synchronize());
    assert!(refused.unwrap_err().to_string().contains("waiting for the GPU failed"));
    // The stream is as good as before.
    let a = DeviceArray::from_slice(gpu.device(), "a", &[1], &[2.0f32]).unwrap();
    assert_eq!(a.pull::<f32>().unwrap(), [2.0]);
    // A replay would read and write memory of the host that is gone by then.
    let refused = Graph::capture(gpu.device(), || a.push(&[3.0f32])).unwrap_err().to_string();
    assert!(refused.contains("copying array \"a\" to the GPU"), "{refused}");
    let refused = Graph::capture(gpu.device(), || a.pull::<f32>().map(drop)).unwrap_err();
    assert!(refused.to_string().contains("launches are being recorded"), "{refused}");
    assert_eq!(a.pull::<f32>().unwrap(), [2.0]);
}

fn push_and_pull() {
    let a = array("a", &[1.0, -0.0, f32::INFINITY]);
    assert_eq!(a.pull::<f32>().unwrap(), [1.0, -0.0, f32::INFINITY]);
    let wrong = a.push(&[1.0f32]).unwrap_err().to_string();
    assert_eq!(wrong, "array \"a\" of shape [3] has 3 elements, but 1 were given");
    let wrong = a.pull::<u32>().unwrap_err().to_string();
    assert_eq!(wrong, "array \"a\" of shape [3] holds f32, not u32");
    let b = array("b", &[0.0; 3]);
    b.copy_from(&a).unwrap();
    a.push(&[4.0f32; 3]).unwrap();
    assert_eq!(b.pull::<f32>().unwrap(), [1.0, -0.0, f32::INFINITY]);
    let held = || gpu().device().allocations().iter().filter(|h| &*h.name == "held").count();
    let third = array("held", &[0.0; 3]);
    assert_eq!(held(), 1);
    drop(third);
    assert_eq!(held(), 0);
    let empty = DeviceArray::zeros(gpu().device(), "empty", DType::U8, &[0, 4]).unwrap();
    assert_eq!(empty.pull::<u8>().unwrap(), [0u8; 0]);
}

fn borrow() {
    let lender = array("lender", &[1.0, 2.0, 3.0, 4.0]);
    let (address, keep) = (lender.ptr() + 4, Box::new(lender));
    let part = ("part", DType::F32, &[2usize][..]);
    // SAFETY: two of the lender's four elements, and `keep` is the lender.
    let part = unsafe { DeviceArray::borrow(gpu().device(), part, address, keep) };
    // The lender's other handle is gone; its memory is not.
    assert_eq!(part.pull::<f32>().unwrap(), [2.0, 3.0]);
    part.push(&[7.0f32, 8.0]).unwrap();
    assert_eq!(part.pull::<f32>().unwrap(), [7.0, 8.0]);
}

fn out_of_memory() {
    let shape = [1usize << 40, 16];
    let refused = DeviceArray::zeros(gpu().device(), "huge", DType::F32, &shape).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("\"huge\"") && refused.contains("64.0 TiB"), "{refused}");
    assert!(refused.contains("lower num_envs"), "{refused}");
}

/// What the device logs while it works alone is what the host sees after every step.
fn log() {
    let registry = Registry::new().with::<Herd>().on_gpu(gpu(), Build::Parity);
    let options = VecOptions { n_envs: 6, seed: 5, ..VecOptions::default() };
    let mut envs = registry.get("herd").unwrap().make(&Table::new(), &options).unwrap();
    let (names, replicas) = (["place", "obs.sheep", "terminated", "episode_length"], [4, 5, 1]);
    let cuda = envs.as_cuda().unwrap();
    let mut log = DeviceLog::new(gpu().device(), cuda.arrays(), &names, &replicas, 9).unwrap();
    let mut seen = Log::new(envs.store(), &names, &replicas, 9).unwrap();
    for _ in 0..9 {
        let cuda = envs.as_cuda().unwrap();
        cuda.cycle(1).unwrap();
        log.record(cuda.arrays()).unwrap();
        envs.sync().unwrap();
        seen.record(envs.store()).unwrap();
    }
    let log = log.pull().unwrap();
    assert_eq!((log.recorded(), log.get::<f32>("place").unwrap().len()), (9, 9 * 3 * 5));
    for name in &names[..2] {
        assert_eq!(log.get::<f32>(name).unwrap(), seen.get::<f32>(name).unwrap());
    }
    assert_eq!(log.get::<u8>("terminated").unwrap(), seen.get::<u8>("terminated").unwrap());
    let lengths = log.get::<u32>("episode_length").unwrap();
    assert_eq!(lengths, seen.get::<u32>("episode_length").unwrap());
    assert!(lengths.contains(&6) && lengths.contains(&0), "episodes end and begin: {lengths:?}");
}

/// What only the device knows outlives actions that the host writes, and nothing else that it does.
fn actions_alone() {
    let registry = Registry::new().with::<Herd>().on_gpu(gpu(), Build::Parity);
    let options = VecOptions { n_envs: 6, seed: 5, ..VecOptions::default() };
    let mut envs = registry.get("herd").unwrap().make(&Table::new(), &options).unwrap();
    let (place, action) = (envs.ids().state[0], envs.ids().action[0]);
    envs.sync().unwrap();
    let on_device = |envs: &mut dyn VecEnv, value: f32| {
        envs.as_cuda().unwrap().arrays().array(place).push(&[value; 6 * 5]).unwrap();
    };
    on_device(&mut *envs, 0.25);
    envs.actions_mut(0).unwrap().discrete().fill(2);
    envs.set_run_step(9);
    envs.observe().unwrap();
    assert_eq!(envs.store().slice::<f32>(place), [0.25; 6 * 5]);
    let cuda = envs.as_cuda().unwrap();
    assert_eq!(cuda.arrays().array(action).pull::<i32>().unwrap(), [2; 6 * 5]);
    assert_eq!(cuda.run_step_array().pull::<u32>().unwrap(), [9]);
    on_device(&mut *envs, 0.75);
    envs.store_mut().slice_mut::<i32>(action).fill(1);
    envs.observe().unwrap();
    assert_eq!(envs.store().slice::<f32>(place), [0.25; 6 * 5]);
}

/// Several sizes in one process: part of a warp, more than one, and more agents than a block can have
/// threads.
fn sizes() {
    for agents in [2, 5, 16, 33, 1500] {
        same(agents, Build::Parity, 0.0);
    }
}

/// Fresh and pooled starts, over many episodes.
fn arrays() {
    let registry = Registry::new().with::<Drone>().with::<Board>().with::<Swarm>();
    for start in [Start::Fresh, Start::Pool] {
        for name in ["drone", "board", "swarm"] {
            let options = VecOptions { n_envs: 300, seed: 9, start, ..VecOptions::default() };
            let (entry, build) = (registry.get(name).unwrap(), Build::Parity);
            let parity = compare(entry, &Table::new(), &options, gpu(), build, 200, 0.0).unwrap();
            assert!(parity.first.is_none(), "{}", parity.first.unwrap());
            assert!(parity.episodes > 1000, "{} episodes", parity.episodes);
        }
    }
}

fn release() {
    same(40, Build::Release, 1e-5);
}

fn same(agents: i64, build: Build, bound: f64) {
    let registry = Registry::new().with::<Herd>();
    let config: Table = [("agents".to_string(), agents.into())].into_iter().collect();
    let options = VecOptions { n_envs: 65, seed: 3, ..VecOptions::default() };
    let entry = registry.get("herd").unwrap();
    let parity = compare(entry, &config, &options, gpu(), build, 15, bound).unwrap();
    assert!(parity.holds(), "{agents} agents: {}", parity.first.unwrap());
    assert!(parity.episodes > 65, "{agents} agents: {} episodes", parity.episodes);
}
