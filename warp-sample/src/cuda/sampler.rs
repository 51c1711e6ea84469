//! The kernels of one layout: compiled once, launched once per batch.

use super::part::Part;
use crate::error::{Error, Result};
use crate::kernel_text::{SAMPLE_CUH, layout_text};
use crate::layout::ActionLayout;
use crate::ou::OrnsteinUhlenbeck;
use crate::rows::Mode;
use warp_core::DType;
use warp_func::cuda::{
    Arg, Build, DeviceArray, Function, FunctionResources, Kernels, Launch, Pointer, Source,
};

/// Threads of a block, as `sample.cu` has them.
const BLOCK: u32 = 128;

/// What a sampler is made for besides its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// Rows per replica, at least 1.
    pub n_agents: u32,
    /// Whether rows come with an action mask.
    pub masked: bool,
    /// Whether all rows share their log standard deviations, which are then an array f32 `[dim]`, and
    /// outputs are only means; otherwise a row's outputs are means, then log standard deviations.
    pub shared_log_std: bool,
}

/// Samplers of one layout on a GPU. Every launch is asynchronous, on the device's stream.
#[derive(Debug, Clone)]
pub struct DeviceSampler {
    layout: ActionLayout,
    made: Made,
    sample: Function,
    greedy: Function,
    random: Function,
    noisy: Option<Function>,
    /// 0, or 2^32 - 1 less the number of the first row at fault.
    fault: DeviceArray,
}

/// Names of a batch's rows, stored as `[n_replicas, n_agents]`; as [`crate::Rows`], but for the step.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRows<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// Global index of the first row's replica.
    pub first_replica: u32,
    /// Number of the first row's agent within its replica.
    pub first_agent: u32,
    /// Number of rows.
    pub n_rows: usize,
    /// Step of the run, u32 `[1]`, read when the kernel runs: no host takes part in counting.
    pub run_step: &'a DeviceArray,
    /// What is added to it.
    pub step_offset: u32,
}

/// What actions are sampled from.
#[derive(Debug, Clone, Copy)]
pub struct DeviceInputs<'a> {
    /// Logits f32 `[n_rows, width]`, or means and log standard deviations f32 `[n_rows, 2 dim]`, or
    /// only means f32 `[n_rows, dim]`.
    pub outputs: Part<'a>,
    /// Log standard deviations of all rows, f32 `[dim]`, if they share them.
    pub log_std: Option<Part<'a>>,
    /// Allowed choices, u8 `[n_rows, width]`, if there are masks.
    pub mask: Option<Part<'a>>,
}

/// Where actions go.
#[derive(Debug, Clone, Copy)]
pub enum DeviceActions<'a> {
    /// Chosen index per head, i32 `[n_rows, n_heads]`.
    Discrete(Part<'a>),
    /// Elements of a box.
    Continuous {
        /// Samples before bounding, f32 `[n_rows, dim]`.
        raw: Part<'a>,
        /// The values passed to the environment, f32 `[n_rows, dim]`.
        bounded: Part<'a>,
    },
}

/// `WarpSampleArrays`, field by field.
#[derive(Debug, Default)]
struct Arrays<'a> {
    outputs: Pointer<'a>,
    log_std: Pointer<'a>,
    mask: Pointer<'a>,
    run_step: Pointer<'a>,
    discrete: Pointer<'a>,
    raw: Pointer<'a>,
    bounded: Pointer<'a>,
    log_probs: Pointer<'a>,
    entropies: Pointer<'a>,
    fault: Pointer<'a>,
    noise: Pointer<'a>,
    terminated: Pointer<'a>,
    truncated: Pointer<'a>,
}

impl Arrays<'_> {
    fn arg(self) -> Arg {
        let all = [
            self.outputs,
            self.log_std,
            self.mask,
            self.run_step,
            self.discrete,
            self.raw,
            self.bounded,
            self.log_probs,
            self.entropies,
            self.fault,
            self.noise,
            self.terminated,
            self.truncated,
        ];
        Arg::pointers("WarpSampleArrays", all)
    }
}

impl DeviceSampler {
    /// Compiles the kernels of `layout`, or takes them from the cache.
    ///
    /// # Errors
    /// No agents, no NVRTC, or too little memory.
    pub fn new(kernels: &Kernels, build: Build, layout: &ActionLayout, made: Made) -> Result<Self> {
        if made.n_agents == 0 {
            return Err(Error::NoAgents);
        }
        let module = kernels.compile(&sampler_source(layout, made), build)?;
        let boxed = matches!(layout, ActionLayout::Continuous(_));
        let fault = DeviceArray::zeros(kernels.device(), "sampler fault", DType::U32, &[1]);
        Ok(Self {
            layout: layout.clone(),
            made,
            sample: module.function("warp_sample")?,
            greedy: module.function("warp_greedy")?,
            random: module.function("warp_random")?,
            noisy: boxed.then(|| module.function("warp_noisy")).transpose()?,
            fault: fault.map_err(warp_func::Error::from)?,
        })
    }

    /// What a thread of the kernel that samples takes.
    ///
    /// # Errors
    /// A device that refuses.
    pub fn resources(&self) -> Result<FunctionResources> {
        Ok(self.sample.resources()?)
    }

    /// What outputs and actions are.
    pub fn layout(&self) -> &ActionLayout {
        &self.layout
    }

    /// Starts to choose an action for every row, with the random numbers of [`ActionLayout::sample`].
    ///
    /// `log_probs` and `entropies` are f32 `[n_rows]`. Rows at fault get action 0 and are reported by
    /// [`DeviceSampler::check`].
    ///
    /// # Errors
    /// Arrays that do not fit, or a device that refuses.
    pub fn sample(
        &self,
        inputs: &DeviceInputs<'_>,
        rows: &DeviceRows<'_>,
        mode: Mode,
        actions: DeviceActions<'_>,
        log_probs: Part<'_>,
        entropies: Part<'_>,
    ) -> Result<()> {
        let n = rows.n_rows;
        let mut at = self.actions(actions, n)?;
        let shared = self.made.shared_log_std && matches!(self.layout, ActionLayout::Continuous(_));
        let width = if shared { self.layout.action_width() } else { self.layout.output_width() };
        at.outputs = inputs.outputs.pointer(DType::F32, n * width)?;
        match (inputs.log_std, shared) {
            (Some(log_std), true) => at.log_std = log_std.pointer(DType::F32, width)?,
            (None, false) => {}
            (given, _) => return Err(unfit(given.is_some(), "shared log standard deviations")),
        }
        at.mask = self.mask(inputs.mask, n)?;
        at.log_probs = log_probs.pointer(DType::F32, n)?;
        at.entropies = entropies.pointer(DType::F32, n)?;
        let function = if mode == Mode::Greedy { &self.greedy } else { &self.sample };
        self.launch(function, at, rows, None)
    }

    /// Starts to choose an action for every row without a policy, with the random numbers of
    /// [`ActionLayout::random_actions`].
    ///
    /// # Errors
    /// As [`DeviceSampler::sample`].
    pub fn random_actions(
        &self,
        mask: Option<Part<'_>>,
        rows: &DeviceRows<'_>,
        actions: DeviceActions<'_>,
    ) -> Result<()> {
        let mut at = self.actions(actions, rows.n_rows)?;
        at.mask = self.mask(mask, rows.n_rows)?;
        self.launch(&self.random, at, rows, None)
    }

    /// Starts to move `noise` by one step and to add it to `means`, with the random numbers of
    /// [`OrnsteinUhlenbeck::apply`]; all f32 `[n_rows, dim]`. Where `terminated` or `truncated`, u8
    /// `[n_replicas]`, say that the replica's episode ended in the step before, the noise is reset.
    ///
    /// # Errors
    /// As [`DeviceSampler::sample`], or discrete actions.
    pub fn noisy_actions(
        &self,
        by: &OrnsteinUhlenbeck,
        means: Part<'_>,
        rows: &DeviceRows<'_>,
        (terminated, truncated): (Part<'_>, Part<'_>),
        (noise, actions): (Part<'_>, Part<'_>),
    ) -> Result<()> {
        let function = self.noisy.as_ref().ok_or(Error::OtherKind)?;
        let n = rows.n_rows * self.layout.action_width();
        let n_replicas = rows.n_rows.div_ceil(self.made.n_agents as usize);
        let at = Arrays {
            outputs: means.pointer(DType::F32, n)?,
            noise: noise.pointer(DType::F32, n)?,
            bounded: actions.pointer(DType::F32, n)?,
            terminated: terminated.pointer(DType::U8, n_replicas)?,
            truncated: truncated.pointer(DType::U8, n_replicas)?,
            ..Arrays::default()
        };
        let bytes = by.coefficients().into_iter().flat_map(f32::to_le_bytes).collect();
        self.launch(function, at, rows, Some(Arg::Struct("WarpNoise", bytes)))
    }

    /// Waits for what was started, and forgets a fault once it has reported it.
    ///
    /// # Errors
    /// A row from which no action could be sampled, or an error of the device.
    pub fn check(&self) -> Result<()> {
        let fault = self.fault.pull::<u32>().map_err(warp_func::Error::from)?[0];
        if fault == 0 {
            return Ok(());
        }
        self.fault.push(&[0u32]).map_err(warp_func::Error::from)?;
        Err(Error::RowAtFault { row: u32::MAX - fault })
    }

    fn actions<'a>(&self, actions: DeviceActions<'a>, n: usize) -> Result<Arrays<'a>> {
        let n = n * self.layout.action_width();
        let none = Arrays::default();
        match (&self.layout, actions) {
            (ActionLayout::Discrete(_), DeviceActions::Discrete(discrete)) => {
                Ok(Arrays { discrete: discrete.pointer(DType::I32, n)?, ..none })
            }
            (ActionLayout::Continuous(_), DeviceActions::Continuous { raw, bounded }) => {
                let raw = raw.pointer(DType::F32, n)?;
                Ok(Arrays { raw, bounded: bounded.pointer(DType::F32, n)?, ..none })
            }
            _ => Err(Error::OtherKind),
        }
    }

    fn mask<'a>(&self, mask: Option<Part<'a>>, n: usize) -> Result<Pointer<'a>> {
        match (mask, self.made.masked) {
            (Some(mask), true) => mask.pointer(DType::U8, n * self.layout.mask_width()),
            (None, false) => Ok(Pointer::default()),
            (given, _) => Err(unfit(given.is_some(), "an action mask")),
        }
    }

    fn launch<'a>(
        &'a self,
        function: &Function,
        mut at: Arrays<'a>,
        rows: &DeviceRows<'a>,
        further: Option<Arg>,
    ) -> Result<()> {
        if rows.n_rows == 0 {
            return Ok(());
        }
        at.run_step = Part::from(rows.run_step).pointer(DType::U32, 1)?;
        at.fault = Pointer::from(&self.fault);
        let mut bytes = rows.seed.to_le_bytes().to_vec();
        let numbers = [rows.first_replica, rows.first_agent, rows.n_rows as u32, rows.step_offset];
        bytes.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
        let mut args = vec![at.arg(), Arg::Struct("WarpSampleRows", bytes)];
        args.extend(further);
        Ok(function.launch(&Launch::over(rows.n_rows, BLOCK), &args)?)
    }
}

fn unfit(given: bool, what: &'static str) -> Error {
    if given {
        Error::NotMadeFor { made: "without it", given: what }
    } else {
        Error::NotMadeFor { made: what, given: "none" }
    }
}

/// The translation unit of a layout's kernels.
#[must_use]
pub fn sampler_source(layout: &ActionLayout, made: Made) -> Source {
    let policy = layout_text("Policy", layout, made.masked);
    let text = format!(
        "#include \"draw.cuh\"\n{policy}#line 1 \"sample.cu\"\n{}",
        include_str!("sample.cu")
    );
    let boxed = matches!(layout, ActionLayout::Continuous(_));
    let mut source = Source::new("sample.cu", text)
        .define("WARP_SAMPLE_AGENTS", format!("{}u", made.n_agents))
        .define("WARP_SAMPLE_SHARED_STD", u8::from(made.shared_log_std))
        .define("WARP_SAMPLE_BOXED", u8::from(boxed));
    source.headers.push(("sample.cuh".into(), SAMPLE_CUH.into()));
    source
}
