//! The samplers on a GPU: the bits of the CPU's in the parity build, the same statistics in the
//! release build.
//!
//! Without a GPU (or NVRTC) the tests are reported as ignored, with the reason; that is why this
//! binary has its own harness. With `WARP_BENCH` set, `cuda_speed` prints how long a launch takes.

#[path = "cases/mod.rs"]
mod cases;

use cases::{Case, Drawn, cases};
use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use std::time::Instant;
use warp_core::DType;
use warp_func::cuda::{
    Build, Check, Device, DeviceArray, FunctionResources, Graph, Kernels, check_source,
    nvrtc_version,
};
use warp_sample::cuda::{
    DeviceActions, DeviceInputs, DeviceRows, DeviceSampler, Made, Part, sampler_source,
};
use warp_sample::{
    ActionLayout, Bounding, CategoricalLayout, Error, GaussianLayout, Mode, OrnsteinUhlenbeck,
};

type Test = fn(&Kernels) -> Result<(), Failed>;

const SEED: u64 = 0xfeed_0000_beef;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let no_compiler = nvrtc_version().err().map(|error| error.to_string());
    let no_device = no_compiler.clone().or_else(|| Device::open(0).err().map(|e| e.to_string()));
    for (what, reason) in [("cuda_text_compiles", &no_compiler), ("cuda_*", &no_device)] {
        if let Some(reason) = reason {
            println!("ignored ({what}): {reason}");
        }
    }
    let tests: [(&str, Test); 8] = [
        ("cuda_parity_build_draws_the_cpus_bits", parity),
        ("cuda_rows_may_begin_anywhere", anywhere),
        ("cuda_release_build_draws_nearly_all_alike", release),
        ("cuda_release_build_passes_chi_square", frequencies),
        ("cuda_release_build_has_the_gaussians_moments", moments),
        ("cuda_noise_has_the_cpus_bits_and_starts_anew", noise),
        ("cuda_shared_deviations_are_those_of_every_row", shared_deviations),
        ("cuda_faults_are_named", faults),
    ];
    let trial = |(name, test): (&'static str, Test)| {
        let run = move || test(&Kernels::new(&Device::open(0)?));
        Trial::test(name, run).with_ignored_flag(no_device.is_some())
    };
    let mut trials: Vec<Trial> = tests.into_iter().map(trial).collect();
    let no_bench = std::env::var_os("WARP_BENCH").is_none();
    let speed = trial(("cuda_speed", speed));
    trials.push(speed.with_ignored_flag(no_bench || no_device.is_some()));
    trials
        .push(Trial::test("cuda_text_compiles", compiles).with_ignored_flag(no_compiler.is_some()));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Every layout, in both builds, for the H200's machine code; this needs no GPU.
fn compiles() -> Result<(), Failed> {
    for case in cases() {
        for build in [Build::Parity, Build::Release] {
            let source = sampler_source(&case.layout, made(&case));
            check_source(&source, build, "sm_90a", Check::Assembled)?;
        }
    }
    Ok(())
}

fn check(fits: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failed> {
    if fits { Ok(()) } else { Err(otherwise().into()) }
}

fn made(case: &Case) -> Made {
    Made { n_agents: case.n_agents, masked: case.mask.is_some(), shared_log_std: false }
}

/// A batch on the device.
struct Batch {
    outputs: DeviceArray,
    mask: Option<DeviceArray>,
    run_step: DeviceArray,
    discrete: DeviceArray,
    raw: DeviceArray,
    bounded: DeviceArray,
    log_probs: DeviceArray,
    entropies: DeviceArray,
    n_rows: usize,
    first_agent: u32,
}

impl Batch {
    fn new(device: &Device, case: &Case) -> Result<Self, Failed> {
        let n = case.n_rows * case.layout.action_width();
        let zeros = |name, dtype, n: usize| DeviceArray::zeros(device, name, dtype, &[n]);
        let outputs =
            DeviceArray::from_slice(device, "outputs", &[case.outputs.len()], &case.outputs)?;
        let mask = case.mask.as_ref();
        let mask = mask.map(|m| DeviceArray::from_slice(device, "mask", &[m.len()], m));
        Ok(Self {
            outputs,
            mask: mask.transpose()?,
            run_step: zeros("run_step", DType::U32, 1)?,
            discrete: zeros("discrete", DType::I32, n)?,
            raw: zeros("raw", DType::F32, n)?,
            bounded: zeros("bounded", DType::F32, n)?,
            log_probs: zeros("log_probs", DType::F32, case.n_rows)?,
            entropies: zeros("entropies", DType::F32, case.n_rows)?,
            n_rows: case.n_rows,
            first_agent: case.first_agent,
        })
    }

    fn rows(&self, step_offset: u32) -> DeviceRows<'_> {
        let (n_rows, first_agent, run_step) = (self.n_rows, self.first_agent, &self.run_step);
        DeviceRows { seed: SEED, first_replica: 0, first_agent, n_rows, run_step, step_offset }
    }

    fn actions(&self, layout: &ActionLayout) -> DeviceActions<'_> {
        match layout {
            ActionLayout::Discrete(_) => DeviceActions::Discrete((&self.discrete).into()),
            ActionLayout::Continuous(_) => DeviceActions::Continuous {
                raw: (&self.raw).into(),
                bounded: (&self.bounded).into(),
            },
        }
    }

    fn launch(&self, sampler: &DeviceSampler, step: u32, mode: Mode) -> Result<(), Failed> {
        let inputs = DeviceInputs {
            outputs: (&self.outputs).into(),
            log_std: None,
            mask: self.mask.as_ref().map(Part::from),
        };
        let (log_probs, entropies) = ((&self.log_probs).into(), (&self.entropies).into());
        let actions = self.actions(sampler.layout());
        Ok(sampler.sample(&inputs, &self.rows(step), mode, actions, log_probs, entropies)?)
    }

    /// What lies in the arrays, as the CPU's samplers give it.
    fn pull(&self, layout: &ActionLayout) -> Result<Drawn, Failed> {
        let boxed = layout.head_sizes().is_empty();
        Ok(Drawn {
            discrete: if boxed { Vec::new() } else { self.discrete.pull()? },
            raw: if boxed { self.raw.pull()? } else { Vec::new() },
            bounded: if boxed { self.bounded.pull()? } else { Vec::new() },
            log_probs: self.log_probs.pull()?,
            entropies: self.entropies.pull()?,
        })
    }
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

fn parity(kernels: &Kernels) -> Result<(), Failed> {
    for case in cases() {
        let sampler = DeviceSampler::new(kernels, Build::Parity, &case.layout, made(&case))?;
        let batch = Batch::new(kernels.device(), &case)?;
        for (mode, step) in [(Mode::Sample, 0), (Mode::Sample, 9), (Mode::Greedy, 0)] {
            batch.launch(&sampler, step, mode)?;
            let (cpu, gpu) = (case.sample(&case.rows(SEED, step), mode), batch.pull(&case.layout)?);
            let what = || format!("{} {mode:?} step {step}", case.name);
            check(cpu.discrete == gpu.discrete, || format!("{}: actions", what()))?;
            for (name, cpu, gpu) in [
                ("raw", &cpu.raw, &gpu.raw),
                ("bounded", &cpu.bounded, &gpu.bounded),
                ("log_probs", &cpu.log_probs, &gpu.log_probs),
                ("entropies", &cpu.entropies, &gpu.entropies),
            ] {
                let differ = bits(cpu).iter().zip(bits(gpu)).position(|(a, b)| *a != b);
                check(differ.is_none(), || format!("{}: {name} at {differ:?}", what()))?;
            }
        }
        let mask = batch.mask.as_ref().map(Part::from);
        sampler.random_actions(mask, &batch.rows(3), batch.actions(&case.layout))?;
        let (cpu, gpu) = (case.random(&case.rows(SEED, 3)), batch.pull(&case.layout)?);
        check(cpu.discrete == gpu.discrete && bits(&cpu.bounded) == bits(&gpu.bounded), || {
            format!("{}: random actions", case.name)
        })?;
        sampler.check()?;
    }
    Ok(())
}

/// Rows at an address that is no multiple of 16 take another way into shared memory.
fn anywhere(kernels: &Kernels) -> Result<(), Failed> {
    for case in cases() {
        let sampler = DeviceSampler::new(kernels, Build::Parity, &case.layout, made(&case))?;
        let batch = Batch::new(kernels.device(), &case)?;
        let after_one = [&[0.0], &case.outputs[..]].concat();
        let outputs =
            DeviceArray::from_slice(kernels.device(), "outputs", &[after_one.len()], &after_one)?;
        let inputs = DeviceInputs {
            outputs: Part { array: &outputs, first: 1 },
            log_std: None,
            mask: batch.mask.as_ref().map(Part::from),
        };
        let (log_probs, entropies) = ((&batch.log_probs).into(), (&batch.entropies).into());
        let actions = batch.actions(&case.layout);
        let rows = batch.rows(0);
        sampler.sample(&inputs, &rows, Mode::Sample, actions, log_probs, entropies)?;
        let cpu = case.sample(&case.rows(SEED, 0), Mode::Sample);
        check(cpu == batch.pull(&case.layout)?, || format!("{}: rows differ", case.name))?;
    }
    Ok(())
}

/// Approximate exponentials move a few draws that lie next to a threshold, and nothing else.
fn release(kernels: &Kernels) -> Result<(), Failed> {
    for case in cases() {
        let sampler = DeviceSampler::new(kernels, Build::Release, &case.layout, made(&case))?;
        let batch = Batch::new(kernels.device(), &case)?;
        batch.launch(&sampler, 0, Mode::Sample)?;
        sampler.check()?;
        let (cpu, gpu) =
            (case.sample(&case.rows(SEED, 0), Mode::Sample), batch.pull(&case.layout)?);
        let width = case.layout.action_width();
        let same = |row: usize| {
            let part = row * width..(row + 1) * width;
            cpu.discrete.get(part.clone()) == gpu.discrete.get(part)
        };
        let moved = (0..case.n_rows).filter(|row| !same(*row)).count();
        check(moved * 500 < case.n_rows, || format!("{}: {moved} rows moved", case.name))?;
        let numbers = cpu.log_probs.iter().zip(&gpu.log_probs).enumerate();
        for (row, (a, b)) in numbers.filter(|(row, _)| same(*row)) {
            let bound = 2e-5 + 2e-5 * a.abs();
            check((a - b).abs() < bound, || format!("{} row {row}: {a} {b}", case.name))?;
            let (a, b) = (cpu.entropies[row], gpu.entropies[row]);
            check((a - b).abs() < 5e-5, || format!("{} entropy {row}: {a} {b}", case.name))?;
        }
        for (i, (a, b)) in cpu.bounded.iter().zip(&gpu.bounded).enumerate() {
            let near = (a - b).abs() < 1e-4 + 1e-5 * a.abs();
            check(near, || format!("{} action {i}: {a} {b}", case.name))?;
        }
    }
    Ok(())
}

fn frequencies(kernels: &Kernels) -> Result<(), Failed> {
    // The second head's last choice is forbidden, its first too small for an f32.
    let p = [0.01, 0.02, 0.03, 0.04, 0.1, 0.2, 0.25, 0.35];
    let mut logits: Vec<f32> = p.iter().map(|p: &f64| p.ln() as f32).collect();
    logits.extend([-200.0, 0.0, 0.0, 9.0]);
    let mask = [1u8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0];
    let n_rows = 100_000;
    let layout = ActionLayout::Discrete(CategoricalLayout::new(&[8, 4])?);
    let (outputs, mask) = (logits.repeat(n_rows), Some(mask.repeat(n_rows)));
    let (n_agents, first_agent) = (5, 0);
    let case = Case { name: "chi", layout, outputs, mask, n_rows, n_agents, first_agent };
    let sampler = DeviceSampler::new(kernels, Build::Release, &case.layout, made(&case))?;
    let batch = Batch::new(kernels.device(), &case)?;
    let mut counts = [[0u32; 2]; 8];
    for step in 0..5 {
        batch.launch(&sampler, step, Mode::Sample)?;
        for action in batch.discrete.pull::<i32>()?.chunks(2) {
            let second = action[1] - 1;
            check((0..2).contains(&second), || format!("a choice of no probability: {action:?}"))?;
            counts[action[0] as usize][second as usize] += 1;
        }
    }
    sampler.check()?;
    let expected = |i: usize| p[i] * 0.5 * 5.0 * n_rows as f64;
    let cells =
        (0..8).flat_map(|i| counts[i].map(|n| (f64::from(n) - expected(i)).powi(2) / expected(i)));
    let chi: f64 = cells.sum();
    // Fifteen degrees of freedom: exceeded once in 100,000.
    check(chi < 50.5, || format!("chi-square {chi}: {counts:?}"))
}

fn moments(kernels: &Kernels) -> Result<(), Failed> {
    let (n_rows, mean, log_std) = (200_000, 0.3f32, -0.4f32);
    let layout = GaussianLayout::new(&[-9.0; 2], &[9.0; 2], Bounding::Clip)?;
    let outputs = [mean, mean, log_std, log_std].repeat(n_rows);
    let layout = ActionLayout::Continuous(layout);
    let case =
        Case { name: "moments", layout, outputs, mask: None, n_rows, n_agents: 4, first_agent: 0 };
    let sampler = DeviceSampler::new(kernels, Build::Release, &case.layout, made(&case))?;
    let batch = Batch::new(kernels.device(), &case)?;
    batch.launch(&sampler, 0, Mode::Sample)?;
    sampler.check()?;
    let raw = batch.raw.pull::<f32>()?;
    let z = |x: &f32| (f64::from(*x) - f64::from(mean)) / f64::from(log_std).exp();
    let n = raw.len() as f64;
    for (k, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
        let found = raw.iter().map(|x| z(x).powi(k)).sum::<f64>() / n;
        let bound = 4.0 * f64::sqrt(variance / n);
        check((found - expected).abs() < bound, || format!("moment {k}: {found}"))?;
    }
    let covariance = raw.chunks(2).map(|x| z(&x[0]) * z(&x[1])).sum::<f64>() / n_rows as f64;
    check(covariance.abs() < 4.0 / (n_rows as f64).sqrt(), || format!("covariance {covariance}"))
}

fn noise(kernels: &Kernels) -> Result<(), Failed> {
    let (n_rows, n_agents, dim) = (300, 3, 2);
    let elements = GaussianLayout::new(&[-0.3, -9.0], &[0.3, 9.0], Bounding::Clip)?;
    let layout = ActionLayout::Continuous(elements.clone());
    let outputs: Vec<f32> = (0..n_rows * dim).map(|i| (i % 7) as f32 * 0.1 - 0.3).collect();
    let case =
        Case { name: "noise", layout, outputs, mask: None, n_rows, n_agents, first_agent: 1 };
    let sampler = DeviceSampler::new(kernels, Build::Parity, &case.layout, made(&case))?;
    let batch = Batch::new(kernels.device(), &case)?;
    let flags = |name| DeviceArray::zeros(kernels.device(), name, DType::U8, &[100]);
    let (terminated, truncated) = (flags("terminated")?, flags("truncated")?);
    let by = OrnsteinUhlenbeck::new(0.15, 0.2, 1.0)?;
    let (mut noise, mut actions) = (vec![0.0; n_rows * dim], vec![0.0; n_rows * dim]);
    for step in 0..20 {
        let ended: Vec<u8> = (0..100).map(|r| u8::from((r * 7 + step) % 11 == 0)).collect();
        let array = if step % 2 == 0 { &terminated } else { &truncated };
        terminated.push(&[0u8; 100])?;
        truncated.push(&[0u8; 100])?;
        array.push(&ended)?;
        let flags = ((&terminated).into(), (&truncated).into());
        let to = ((&batch.raw).into(), (&batch.bounded).into());
        sampler.noisy_actions(&by, (&batch.outputs).into(), &batch.rows(step), flags, to)?;
        OrnsteinUhlenbeck::reset(&ended, &mut noise)?;
        let rows = case.rows(SEED, step);
        by.apply(&elements, &case.outputs, &rows, &mut noise, &mut actions)?;
        check(bits(&noise) == bits(&batch.raw.pull()?), || format!("noise of step {step}"))?;
        check(bits(&actions) == bits(&batch.bounded.pull()?), || format!("step {step}"))?;
    }
    Ok(())
}

fn shared_deviations(kernels: &Kernels) -> Result<(), Failed> {
    let (n_rows, shared) = (130, [-0.7f32, 0.2]);
    let layout = GaussianLayout::new(&[-1.0; 2], &[2.0; 2], Bounding::Squash)?;
    let layout = ActionLayout::Continuous(layout);
    let means: Vec<f32> = (0..n_rows * 2).map(|i| (i % 9) as f32 * 0.2 - 0.8).collect();
    let outputs = means.chunks(2).flat_map(|m| [m[0], m[1], shared[0], shared[1]]).collect();
    let case =
        Case { name: "shared", layout, outputs, mask: None, n_rows, n_agents: 1, first_agent: 0 };
    let made = Made { shared_log_std: true, ..made(&case) };
    let sampler = DeviceSampler::new(kernels, Build::Parity, &case.layout, made)?;
    let batch = Batch::new(kernels.device(), &case)?;
    let means = DeviceArray::from_slice(kernels.device(), "means", &[means.len()], &means)?;
    let log_std = DeviceArray::from_slice(kernels.device(), "log_std", &[2], &shared)?;
    let inputs =
        DeviceInputs { outputs: (&means).into(), log_std: Some((&log_std).into()), mask: None };
    let actions = batch.actions(&case.layout);
    let sample = |inputs: &DeviceInputs<'_>| {
        let (log_probs, entropies) = ((&batch.log_probs).into(), (&batch.entropies).into());
        sampler.sample(inputs, &batch.rows(0), Mode::Sample, actions, log_probs, entropies)
    };
    sample(&inputs)?;
    let cpu = case.sample(&case.rows(SEED, 0), Mode::Sample);
    check(cpu == batch.pull(&case.layout)?, || "rows differ".into())?;
    let inputs = DeviceInputs { log_std: None, ..inputs };
    let refused = sample(&inputs);
    let words = "was made shared log standard deviations, but is given none";
    check(refused.is_err_and(|e| e.to_string().contains(words)), || "no deviations".into())
}

fn faults(kernels: &Kernels) -> Result<(), Failed> {
    let mut case = cases().remove(4);
    let sampler = DeviceSampler::new(kernels, Build::Release, &case.layout, made(&case))?;
    case.outputs[11 * 700 + 3] = f32::NAN;
    case.outputs[11 * 900] = f32::INFINITY;
    case.mask.as_mut().ok_or("no mask")?[11 * 800..11 * 801].fill(0);
    let batch = Batch::new(kernels.device(), &case)?;
    for (first, mode) in [(700, Mode::Sample), (700, Mode::Greedy)] {
        batch.launch(&sampler, 0, mode)?;
        let found = sampler.check();
        check(found == Err(Error::RowAtFault { row: first }), || format!("{found:?}"))?;
        sampler.check()?;
    }
    let within = batch.discrete.pull::<i32>()?.iter().all(|action| (0..11).contains(action));
    check(within, || "an action out of range".into())?;
    let actions =
        DeviceActions::Continuous { raw: (&batch.raw).into(), bounded: (&batch.raw).into() };
    let other =
        sampler.random_actions(batch.mask.as_ref().map(Part::from), &batch.rows(0), actions);
    check(other == Err(Error::OtherKind), || format!("{other:?}"))?;
    let short = Part { array: &batch.discrete, first: 1 };
    let short = DeviceActions::Discrete(short);
    let short = sampler.random_actions(batch.mask.as_ref().map(Part::from), &batch.rows(0), short);
    let words = "array \"discrete\"";
    check(short.is_err_and(|e| e.to_string().contains(words)), || "a short array".into())
}

/// 10,000 replicas of 105 agents with 21 logits each, and a row of small cases.
fn speed(kernels: &Kernels) -> Result<(), Failed> {
    for (sizes, n_agents, n_rows) in [
        (&[21][..], 105, 1_050_000),
        (&[21, 21], 105, 1_050_000),
        (&[2], 1, 100_000),
        (&[5], 5, 50_000),
    ] {
        let layout = CategoricalLayout::new(sizes)?;
        let n = n_rows * layout.width();
        let outputs = (0..n).map(|i| (i * 37 % 101) as f32 * 0.04 - 2.0).collect();
        let layout = ActionLayout::Discrete(layout);
        let case =
            Case { name: "speed", layout, outputs, mask: None, n_rows, n_agents, first_agent: 0 };
        let sampler = DeviceSampler::new(kernels, Build::Release, &case.layout, made(&case))?;
        let times = launch_times(kernels.device(), &sampler, &case)?;
        let (median, best) = (times[times.len() / 2], times[0]);
        let bytes = (n + n_rows * (sizes.len() + 2)) as f64 * 4.0;
        println!(
            "sampler {sizes:?} x {n_rows} rows: {:.1} us, at best {:.1} us, {:.2} TB/s",
            median * 1e6,
            best * 1e6,
            bytes / median / 1e12
        );
        let FunctionResources { registers, local_bytes } = sampler.resources()?;
        println!("  {registers} registers, {local_bytes} bytes of local memory per thread");
    }
    Ok(())
}

/// Seconds per launch in the order of their size: each the mean of 60 launches, one after the other
/// on the device without a host between them.
fn launch_times(device: &Device, sampler: &DeviceSampler, case: &Case) -> Result<Vec<f64>, Failed> {
    // Several copies, so that the second-level cache does not hold the input.
    let copies = (0..6).map(|_| Batch::new(device, case)).collect::<Result<Vec<_>, _>>()?;
    let launch = |step: usize| copies[step % 6].launch(sampler, step as u32, Mode::Sample);
    let mut graph = Graph::capture(device, || (0..60).try_for_each(launch))?;
    let mut times = Vec::new();
    for _ in 0..21 {
        device.synchronize()?;
        let started = Instant::now();
        graph.launch()?;
        device.synchronize()?;
        times.push(started.elapsed().as_secs_f64() / 60.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}
