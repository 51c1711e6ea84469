//! Environments that another library, such as a tensor library, steps on the GPU, behind the learners' interface.
//!
//! A [`Stepper`] gets the actions where they are stored and returns arrays of any type and strides; kernels on the
//! device's stream copy them into ours and count episodes. The host waits for nothing, unless the stepper does.

mod args;
mod tally;

use super::compiler::{Build, Source};
use super::device_envs::DeviceEnvs;
use super::given::{self, GivenArgs, GivenArray, Strides};
use super::kernel_args::KernelArgs;
use super::kernels::Kernels;
use super::launch::{Function, Launch};
use crate::episodes::EpisodeTotals;
use crate::error::{Error, Result};
use crate::vec_env::{ArrayIds, VecEnv, VecOptions};
use args::{CountArgs, FlagArgs, TakeArgs, WidenArgs};
use tally::Tally;
use warp_core::{DType, EnvSpec, Space};
use warp_data::cuda::{DeviceArray, DeviceStore, Event};
use warp_data::{ArrayId, Store, StoreMut};

const STEPPED: &str = include_str!("stepped.cu");
const THREADS: u32 = 256;

/// The source of the kernels that copy a stepper's arrays.
#[must_use]
pub fn stepped_source() -> Source {
    let structs = super::declare(&[
        <Strides as super::DeviceStruct>::STRUCT,
        GivenArgs::ARGS,
        TakeArgs::ARGS,
        FlagArgs::ARGS,
        WidenArgs::ARGS,
        CountArgs::ARGS,
    ]);
    let given = given::TEXT;
    let text =
        format!("{structs}\n#line 1 \"given.cuh\"\n{given}\n#line 1 \"stepped.cu\"\n{STEPPED}");
    Source::new("stepped.cu", text)
}

/// Steps single-agent environments on the GPU. Its arrays are written by work that is ordered before the device's
/// stream, and may be overwritten by its next call.
pub trait Stepper: Send {
    /// Begins an episode everywhere, and says what is seen: `[n_envs, ...]`.
    ///
    /// # Errors
    /// Whatever went wrong.
    fn reset(&mut self, seed: u64) -> Result<GivenArray>;

    /// Moves every environment by one step with `actions`, one after another: f32 `[n_envs, 1, dim]`, or choices as
    /// 64-bit whole numbers, u32 `[n_envs, 1, n_heads, 2]`. They are overwritten once the device's stream has passed
    /// what is handed over.
    ///
    /// # Errors
    /// Whatever went wrong.
    fn step(&mut self, actions: &DeviceArray) -> Result<Moved>;
}

/// What a step came to.
#[derive(Debug)]
pub struct Moved {
    /// What is seen, where an episode ended of the next one: `[n_envs, ...]`.
    pub obs: GivenArray,
    /// `[n_envs]`.
    pub reward: GivenArray,
    /// Whether the game is over: `[n_envs]`, zero or not.
    pub terminated: GivenArray,
    /// Whether something else has cut the episode; it counts where it is not over.
    pub truncated: GivenArray,
    /// What was seen last where an episode was cut; none: no episode was.
    pub final_obs: Option<GivenArray>,
}

/// Environments that a [`Stepper`] steps.
#[derive(Debug)]
pub struct SteppedEnvs<S> {
    stepper: S,
    spec: EnvSpec,
    options: VecOptions,
    ids: ArrayIds,
    host: Store,
    device: DeviceStore,
    /// Choices as 64-bit whole numbers, if actions are choices.
    choices: Option<DeviceArray>,
    run_step_array: DeviceArray,
    run_step: u32,
    tally: Tally,
    kernels: Kernels,
    functions: Functions,
    /// What was lent for work that the GPU may not have come to.
    lent: Vec<(Event, Vec<GivenArray>)>,
    /// The device has moved on without the host.
    host_is_stale: bool,
    /// The host's arrays were changed since the device last got them.
    device_is_stale: bool,
    /// What went wrong where nothing could be returned.
    error: Option<Error>,
}

#[derive(Debug)]
struct Functions {
    reals: Function,
    flags: Function,
    widen: Function,
    count: Function,
}

impl<S: Stepper> SteppedEnvs<S> {
    /// Single-agent environments with this `spec`, at the start of their first episodes.
    ///
    /// # Errors
    /// Kernels that do not compile, too little memory, or a stepper that cannot begin.
    pub fn new(stepper: S, spec: EnvSpec, options: VecOptions, kernels: &Kernels) -> Result<Self> {
        options.check()?;
        let (gpu, n) = (kernels.device(), options.n_envs);
        let module = kernels.compile(&stepped_source(), Build::Parity)?;
        let (plan, ids) = ArrayIds::declare(&spec, n, &[])?;
        let device = DeviceStore::allocate(&plan, gpu)?;
        let action = device.array(ids.action[0]);
        let wide = [action.shape(), &[2]].concat();
        let choices = (action.dtype() == DType::I32)
            .then(|| DeviceArray::zeros(gpu, "choices", DType::U32, &wide))
            .transpose()?;
        let mut this = Self {
            stepper,
            host: plan.allocate()?,
            device,
            choices,
            run_step_array: DeviceArray::zeros(gpu, "run_step", DType::U32, &[1])?,
            run_step: 0,
            tally: Tally::new(gpu, n)?,
            kernels: kernels.clone(),
            functions: Functions {
                reals: module.function("warp_take_reals")?,
                flags: module.function("warp_take_flags")?,
                widen: module.function("warp_widen")?,
                count: module.function("warp_count")?,
            },
            lent: Vec::new(),
            host_is_stale: true,
            device_is_stale: false,
            error: None,
            spec,
            options,
            ids,
        };
        this.reset()?;
        Ok(this)
    }

    /// Takes real numbers, or the whole ones that rows are given as.
    fn take_reals(&self, name: &str, given: &GivenArray, to: ArrayId) -> Result<()> {
        let (to, n_envs) = (self.device.array(to), self.options.n_envs);
        let width = to.len() / n_envs;
        let discrete = matches!(self.spec.groups[0].observation, Space::Discrete { .. });
        let one_hot = discrete && name.ends_with("obs");
        self.check_rows(name, given, if one_hot { 1 } else { width })?;
        let (n, width) = (to.len() as u32, width as u32);
        let args = TakeArgs { to, n, width, one_hot: u32::from(one_hot) };
        self.functions.reals.launch(&Launch::over(to.len(), THREADS), &[given.arg(0), args.arg()])
    }

    fn take_flags(&self, name: &str, given: &GivenArray, to: ArrayId) -> Result<()> {
        self.check_rows(name, given, 1)?;
        let to = self.device.array(to);
        let args = FlagArgs { to, n: to.len() as u32 };
        self.functions.flags.launch(&Launch::over(to.len(), THREADS), &[given.arg(0), args.arg()])
    }

    fn check_rows(&self, name: &str, given: &GivenArray, width: usize) -> Result<()> {
        let (shape, n_envs) = (given.shape(), self.options.n_envs);
        let elements = shape[1..].iter().product::<usize>();
        if shape[0] == n_envs && elements == width {
            return Ok(());
        }
        let reason = format!("{name} has shape {shape:?}, but {n_envs} rows of {width} are needed");
        Err(Error::NonConforming { env: self.spec.name.clone(), reason })
    }

    fn widen(&self) -> Result<()> {
        let Some(to) = &self.choices else { return Ok(()) };
        let from = self.device.array(self.ids.action[0]);
        let args = WidenArgs { from, to, n: from.len() as u32 };
        self.functions.widen.launch(&Launch::over(from.len(), THREADS), &[args.arg()])
    }

    fn count(&self) -> Result<()> {
        let (tally, at) = (&self.tally, |id| self.device.array(id));
        let n = self.options.n_envs;
        let args = CountArgs {
            run_step: &self.run_step_array,
            reward: at(self.ids.reward[0]),
            terminated: at(self.ids.terminated),
            truncated: at(self.ids.truncated),
            episode_length: at(self.ids.episode_length),
            episode_return: at(self.ids.episode_return[0]),
            ended: &tally.ended,
            lengths: &tally.lengths,
            shortest: &tally.shortest,
            longest: &tally.longest,
            returns: &tally.returns,
            least: &tally.least,
            most: &tally.most,
            n: n as u32,
        };
        self.functions.count.launch(&Launch::over(n, THREADS), &[args.arg()])
    }

    /// Keeps what was lent until the stream has passed what was started.
    fn keep(&mut self, given: Vec<GivenArray>) -> Result<()> {
        self.lent.retain(|(event, _)| !event.is_complete());
        self.lent.push((self.kernels.device().record_event()?, given));
        Ok(())
    }

    /// Gives the device what was changed on the host.
    fn push(&mut self) -> Result<()> {
        if std::mem::take(&mut self.device_is_stale) {
            for id in self.ids.persistent().chain(self.ids.action.iter().copied()) {
                self.device.push(id, &self.host)?;
            }
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<()> {
        for id in self.host.ids().collect::<Vec<_>>() {
            self.device.pull(id, &mut self.host)?;
        }
        self.host_is_stale = false;
        Ok(())
    }

    /// Keeps what went wrong until something can return it.
    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

impl<S: Stepper> DeviceEnvs for SteppedEnvs<S> {
    fn kernels(&self) -> &Kernels {
        &self.kernels
    }
    fn arrays(&self) -> &DeviceStore {
        &self.device
    }
    fn run_step_array(&self) -> &DeviceArray {
        &self.run_step_array
    }

    fn start_step(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)?;
        self.push()?;
        self.widen()?;
        let actions = self.choices.as_ref().unwrap_or(self.device.array(self.ids.action[0]));
        let moved = self.stepper.step(actions)?;
        let (obs, final_obs) = (self.ids.obs[0], self.ids.final_obs[0]);
        self.take_reals("obs", &moved.obs, obs)?;
        self.take_reals("reward", &moved.reward, self.ids.reward[0])?;
        self.take_flags("terminated", &moved.terminated, self.ids.terminated)?;
        self.take_flags("truncated", &moved.truncated, self.ids.truncated)?;
        if let Some(last) = &moved.final_obs {
            self.take_reals("final_obs", last, final_obs)?;
        }
        self.count()?;
        let Moved { obs, reward, terminated, truncated, final_obs } = moved;
        let given = [obs, reward, terminated, truncated].into_iter().chain(final_obs);
        self.keep(given.collect())?;
        self.note_steps(1);
        Ok(())
    }

    /// A graph has no place for whatever else a stepper does.
    fn steps_by_launches(&self) -> bool {
        false
    }

    fn note_steps(&mut self, steps: u32) {
        self.run_step = self.run_step.wrapping_add(steps);
        self.host_is_stale = true;
    }
}

impl<S: Stepper> VecEnv for SteppedEnvs<S> {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }
    fn options(&self) -> &VecOptions {
        &self.options
    }
    fn store(&self) -> &Store {
        &self.host
    }

    fn store_mut(&mut self) -> StoreMut<'_> {
        let synced = self.sync();
        self.note(synced);
        self.device_is_stale = true;
        self.host.edit()
    }

    fn ids(&self) -> &ArrayIds {
        &self.ids
    }

    fn reset(&mut self) -> Result<()> {
        // What most libraries take.
        let seed = self.options.seed.wrapping_add(self.options.first_replica.into()) & 0x7FFF_FFFF;
        let seen = self.stepper.reset(seed)?;
        self.take_reals("obs", &seen, self.ids.obs[0])?;
        self.keep(vec![seen])?;
        let n = self.options.n_envs;
        self.device.array(self.ids.terminated).push(&vec![0_u8; n])?;
        self.device.array(self.ids.truncated).push(&vec![0_u8; n])?;
        self.device.array(self.ids.episode_length).push(&vec![0_u32; n])?;
        self.device.array(self.ids.episode_return[0]).push(&vec![0.0_f32; n])?;
        self.host_is_stale = true;
        self.device_is_stale = false;
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        crate::check_actions(&self.spec, &self.host, &self.ids)?;
        self.device_is_stale = true;
        self.device_step()?;
        self.pull()
    }

    /// What they see is written by every step; nobody here changes their state.
    fn observe(&mut self) -> Result<()> {
        Ok(())
    }

    fn run_step(&self) -> u32 {
        self.run_step
    }

    fn set_run_step(&mut self, step: u32) {
        self.run_step = step;
        let pushed = self.run_step_array.push(&[step]);
        self.note(pushed.map_err(Error::from));
    }

    fn take_episodes(&mut self) -> EpisodeTotals {
        self.tally.take().unwrap_or_else(|error| {
            self.note(Err(error));
            EpisodeTotals::new(1, 0)
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)?;
        if self.host_is_stale { self.pull() } else { Ok(()) }
    }

    fn as_device(&mut self) -> Option<&mut dyn DeviceEnvs> {
        Some(self)
    }
}
