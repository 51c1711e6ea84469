//! This engine against the one on a processor, piece by piece, and whole programs against their pieces.

use super::context::Agents;
use super::memory::numbers;
use super::rounded::Rounding;
use super::schedule::fuse;
use super::tracer;
use super::{CudaEngine, Setting};
use crate::algorithm::{
    CellId, ColumnId, Engine, FigureId, Gradients, ModelId, OptimiserId, PassId, Planned, RowsId,
    Variant,
};
use crate::config::TrainConfig;
use crate::engine::EngineState;
use crate::engine::cpu::CpuEngine;
use crate::engine::off_policy::planned;
use crate::error::Result;
use crate::memory::Transition;
use crate::model::NamedTensor;
use std::time::Instant;
use warp_core::{Draw, Purpose};
use warp_func::cuda::{CudaVecEnv, FunctionResources, Graph};

/// How far a piece of work is from the processor's.
#[derive(Debug, Clone, PartialEq)]
pub struct Apart {
    /// What was done, and to what.
    pub what: String,
    /// How near it must be.
    pub kind: Kind,
    /// Norm of the difference, relative to that of the processor's numbers.
    pub apart: f64,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What both compute to the last bit.
    Same,
    /// Products and what is near to them.
    Output,
    /// Derivatives; in half precision those of operands that are rounded here, too.
    Derivative,
}

/// Two engines that do the same; the GPU's columns are the processor's again after each piece.
struct Both<'a> {
    cpu: &'a mut CpuEngine,
    gpu: &'a mut CudaEngine,
    seen: Vec<Apart>,
}

/// Steps that the memory of a comparison holds.
const STEPS: u32 = 40;

/// Acting and every variant of an update of policy 0 of `config`, on both devices.
///
/// # Errors
/// An error of either device.
pub fn pieces(config: &TrainConfig, envs: &mut CudaVecEnv) -> Result<Vec<Apart>> {
    let Planned { algorithm, .. } = planned(config, &config.policies[0])?;
    let (mut cpu, mut gpu) = engines(config, &[envs])?;
    let mut lists = vec![tracer::acting(&*algorithm, true)?];
    for variant in 0..algorithm.n_variants() {
        lists.push(tracer::updating(&*algorithm, Variant(variant), gpu.how())?);
    }
    gpu.prepare(&lists.concat().into_iter().map(|op| vec![op]).collect::<Vec<_>>())?;
    let mut both = Both { cpu: &mut cpu, gpu: &mut gpu, seen: Vec::new() };
    algorithm.act(&mut both)?;
    for variant in 0..algorithm.n_variants() {
        algorithm.update(&mut both, Variant(variant))?;
        both.finish_update()?;
    }
    Ok(both.seen)
}

/// What `n` updates leave, as whole programs and piece by piece; they should be the same.
///
/// # Errors
/// An error of the device.
pub fn wholes(config: &TrainConfig, envs: &mut CudaVecEnv, n: u64) -> Result<[EngineState; 2]> {
    let Planned { plan, algorithm } = planned(config, &config.policies[0])?;
    let mut run = |whole: bool| -> Result<EngineState> {
        let (_, mut gpu) = engines(config, &[&mut *envs])?;
        for update in 0..n {
            let ops = tracer::updating(&*algorithm, algorithm.variant(update), gpu.how())?;
            match whole {
                true => gpu.run(&fuse(&ops, &plan))?,
                false => ops.iter().try_for_each(|op| gpu.run(std::slice::from_ref(op)))?,
            }
        }
        gpu.state(0)
    };
    Ok([run(true)?, run(false)?])
}

/// Microseconds that programs and their pieces take, each run many times behind itself, of as many runs side by side
/// as there are `envs`.
///
/// # Errors
/// An error of the device.
pub fn times(config: &TrainConfig, envs: &[&mut CudaVecEnv]) -> Result<Vec<(String, f64)>> {
    const MANY: u32 = 200;
    let Planned { plan, algorithm } = planned(config, &config.policies[0])?;
    let (_, mut gpu) = engines(config, envs)?;
    let acting = tracer::acting(&*algorithm, true)?;
    let updating = tracer::updating(&*algorithm, Variant(0), gpu.how())?;
    let fused = fuse(&updating, &plan);
    let mut lists = vec![acting.clone(), gpu.how().storing(true), fused.clone()];
    lists.extend([acting, updating, fused].concat().into_iter().map(|op| vec![op]));
    gpu.prepare(&lists)?;
    let device = &gpu.kernels.device().clone();
    let mut times = Vec::new();
    for ops in &lists {
        let mut graph = Graph::capture(device, || (0..MANY).try_for_each(|_| gpu.run(ops)))?;
        graph.launch()?;
        device.synchronize()?;
        let clock = Instant::now();
        graph.launch()?;
        device.synchronize()?;
        let (function, launch) = &gpu.programs[ops];
        let FunctionResources { registers, local_bytes } = function.resources()?;
        let name =
            if let [op] = &ops[..] { format!("{op:?}") } else { format!("{} pieces", ops.len()) };
        let blocks = launch.blocks;
        let name = format!(
            "{name}: {blocks} blocks, {registers} registers, {local_bytes} bytes of local memory"
        );
        times.push((name, clock.elapsed().as_secs_f64() * 1e6 / f64::from(MANY)));
    }
    Ok(times)
}

/// Both engines with the same weights and the same memory, of invented transitions; on the GPU as many runs, all
/// alike, as there are `envs`.
fn engines(config: &TrainConfig, envs: &[&mut CudaVecEnv]) -> Result<(CpuEngine, CudaEngine)> {
    let policy = &config.policies[0];
    let setting = Setting::new(config, (0, 0)).beside(envs.len());
    let plan = || planned(config, policy).map(|planned| planned.plan);
    let (sharing, activation) = (config.sharing(), policy.config.activation);
    let mut cpu = CpuEngine::new(plan()?, setting.place, &sharing, activation, 1)?;
    let mut gpu = CudaEngine::new(plan()?, setting, (&vec![config.run.seed; envs.len()], envs))?;
    fill(&mut cpu, gpu.setting.place.n_rows, &gpu.agents);
    cpu.set_cells(0, false);
    gpu.load(&vec![cpu.state(); envs.len()])?;
    let obs = invented(cpu.column(cpu.plan().acting.obs).len(), 99);
    let id = cpu.plan().acting.obs;
    cpu.column_mut(id).copy_from_slice(&obs);
    let masks = cpu.plan().acting.mask;
    masks.into_iter().for_each(|id| cpu.column_mut(id).fill(1.0));
    for id in [Some(id), masks].into_iter().flatten() {
        gpu.set_column(id, cpu.column(id))?;
    }
    Ok((cpu, gpu))
}

/// Numbers within -1 to 1.
fn invented(n: usize, stream: u32) -> Vec<f32> {
    let mut draw = Draw::new(5, stream, 0, Purpose::RandomAction);
    (0..n).map(|_| draw.uniform_in(-1.0, 1.0)).collect()
}

/// Fills the memory with transitions.
pub(super) fn fill(cpu: &mut CpuEngine, n_rows: usize, agents: &Agents) {
    let plan = cpu.plan();
    let width = |id: ColumnId| plan.columns[id.0].width;
    let (obs, action) = (width(plan.replay.obs), width(plan.replay.action));
    let mask = plan.replay.mask.map_or(0, width);
    for t in 0..STEPS {
        let flags = |stream: u32, odds: f32| -> Vec<u8> {
            let of = invented(n_rows, stream * 1000 + t).into_iter();
            of.map(|x| u8::from(x > odds)).collect()
        };
        let (ended, cut) = (flags(1, 0.8), flags(2, 0.5));
        let ends: Vec<u8> = ended.iter().zip(&cut).map(|(ended, cut)| ended * (1 + cut)).collect();
        // Of any number of choices the first two.
        let given = invented(n_rows * action, 3000 + t);
        let actions: Vec<f32> = match agents.discrete {
            true => given.iter().map(|x| f32::from(u8::from(*x > 0.0))).collect(),
            false => given,
        };
        cpu.memory_mut().store(&Transition {
            obs: &invented(n_rows * obs, 4000 + t),
            action: &actions,
            reward: &invented(n_rows, 5000 + t),
            next_obs: &invented(n_rows * obs, 6000 + t),
            ends: &ends,
            alive: &flags(7, if agents.mortal { -0.8 } else { -2.0 }),
            mask: &vec![1; n_rows * mask],
            next_mask: &vec![1; n_rows * mask],
        });
    }
}

impl Both<'_> {
    /// Ends an update, and compares what memories then hold.
    fn finish_update(&mut self) -> Result<()> {
        self.cpu.finish_update()?;
        self.gpu.how().ending().into_iter().try_for_each(|op| self.gpu.alone(op))?;
        let (found, expected) = (self.gpu.state(0)?.numbers, self.cpu.state().numbers);
        self.compare_tensors(("finish", Kind::Same), &found, &expected);
        Ok(())
    }

    /// Compares columns, and gives the GPU the processor's.
    fn compare(&mut self, doing: &str, columns: &[ColumnId], kind: Kind) -> Result<()> {
        for id in columns {
            let (found, expected) = (self.gpu.column(*id)?, self.cpu.column(*id));
            let name = &self.cpu.plan().columns[id.0].name;
            let apart = apart(&found, expected);
            self.seen.push(Apart { what: format!("{doing}: {name}"), kind, apart });
            self.gpu.set_column(*id, expected)?;
        }
        Ok(())
    }

    /// Compares tensors by their names.
    fn compare_tensors(
        &mut self,
        (doing, kind): (&str, Kind),
        found: &[NamedTensor],
        expected: &[NamedTensor],
    ) {
        if found.len() != expected.len() {
            let what = format!("{doing}: {} tensors, not {}", found.len(), expected.len());
            self.seen.push(Apart { what, kind, apart: f64::INFINITY });
        }
        for (found, expected) in found.iter().zip(expected) {
            let apart = if found.name == expected.name && found.shape == expected.shape {
                apart(&found.data, &expected.data)
            } else {
                f64::INFINITY
            };
            self.seen.push(Apart { what: format!("{doing}: {}", found.name), kind, apart });
        }
    }
}

/// Norm of the difference relative to the norm; infinite for what is no number.
pub(super) fn apart(found: &[f32], expected: &[f32]) -> f64 {
    let norm = |squares: f64| squares.sqrt();
    let size = norm(expected.iter().map(|x| f64::from(*x).powi(2)).sum());
    let differences =
        found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    let apart = norm(differences.sum()) / size.max(1e-12);
    if apart.is_nan() { f64::INFINITY } else { apart }
}

impl Engine for Both<'_> {
    fn sample(&mut self) -> Result<()> {
        self.cpu.sample()?;
        self.gpu.sample()?;
        let replay = self.cpu.plan().replay;
        let mut columns = vec![replay.obs, replay.action, replay.reward, replay.discount];
        columns.extend([replay.next_obs, replay.weight]);
        columns.extend(replay.mask.into_iter().chain(replay.next_mask));
        self.compare("sample", &columns, Kind::Same)
    }

    fn forward(&mut self, passes: &[PassId]) -> Result<()> {
        self.cpu.forward(passes)?;
        self.gpu.forward(passes)?;
        let outputs: Vec<_> = passes.iter().map(|id| self.cpu.plan().passes[id.0].output).collect();
        self.compare("forward", &outputs, Kind::Output)
    }

    fn backward(&mut self, passes: &[PassId], want: Gradients) -> Result<()> {
        self.cpu.backward(passes, want)?;
        if self.gpu.is_half() {
            Rounding::new(self.gpu.is_bf16()).replace(self.cpu, passes, want)?;
        }
        self.gpu.backward(passes, want)?;
        let back = passes.iter().filter_map(|id| self.cpu.plan().passes[id.0].back.as_ref());
        let inputs: Vec<_> = back.filter_map(|back| Some(back.d_input?.column)).collect();
        let wanted = want == Gradients::OfInput;
        self.compare("backward", if wanted { &inputs } else { &[] }, Kind::Derivative)
    }

    fn rows(&mut self, rows: RowsId) -> Result<()> {
        self.cpu.rows(rows)?;
        self.gpu.rows(rows)?;
        let Both { cpu, .. } = self;
        let (name, writes) =
            (cpu.plan().rows[rows.0].function.name, cpu.plan().rows[rows.0].writes.clone());
        self.compare(name, &writes, Kind::Same)
    }

    fn step(&mut self, optimiser: OptimiserId) -> Result<()> {
        self.cpu.step(optimiser)?;
        self.gpu.step(optimiser)?;
        let (found, expected) = (self.gpu.weights(0)?, self.cpu.state());
        let name = self.cpu.plan().optimisers[optimiser.0].name.clone();
        self.compare_tensors((&name, Kind::Derivative), &found.moments, &expected.moments);
        self.gpu.load(&[expected])
    }

    fn polyak_update(&mut self, targets: &[ModelId], tau: CellId) -> Result<()> {
        self.cpu.polyak_update(targets, tau)?;
        self.gpu.polyak_update(targets, tau)?;
        let (found, expected) = (self.gpu.weights(0)?, self.cpu.state());
        self.compare_tensors(("targets", Kind::Output), &found.weights, &expected.weights);
        Ok(())
    }

    fn figures(&mut self, figures: &[FigureId]) -> Result<()> {
        self.cpu.figures(figures)?;
        self.gpu.clear_figures()?;
        self.gpu.figures(figures)?;
        let words = self.gpu.figures_array().pull::<u32>()?;
        let found = self.gpu.read_figures(&numbers(&words));
        for ((name, found), (_, expected)) in found.into_iter().zip(self.cpu.take_figures()?) {
            let apart = (found - expected).abs() / (1.0 + expected.abs());
            self.seen.push(Apart { what: format!("figure {name}"), kind: Kind::Output, apart });
        }
        Ok(())
    }
}
