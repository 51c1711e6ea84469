//! The outputs of replicas on a GPU: arrays that every step overwrites, and some of their rows.

use crate::cuda::arg::Arg;
use crate::cuda::compiler::{Build, Source};
use crate::cuda::kernels::Kernels;
use crate::cuda::launch::{Function, Launch};
use crate::error::{Error, Result};
use crate::replicas::{AutoReset, Replicas};
use crate::vec_env::ArrayIds;
use warp_core::DType;
use warp_data::cuda::{DeviceArray, DeviceStore};

const ROWS: &str = include_str!("rows.cu");
const THREADS: u32 = 256;

/// How observations that are whole numbers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// There are none, or as the body writes them.
    AsWritten,
    /// Real numbers that are whole, as 64-bit ones.
    Whole,
}

/// An array that can be seen.
#[derive(Debug, Clone)]
pub struct Shown {
    /// As a [`Batch`](crate::Batch) calls it: `obs.<group>`, `reward.<group>`, `terminated` and so on.
    pub name: String,
    /// Its memory. 64-bit whole numbers are two words each, u32 `[rows, 2 elements]`.
    pub array: DeviceArray,
    /// Whether its elements are 64-bit integers.
    pub wide: bool,
    /// Rows that mean something.
    pub rows: usize,
}

/// Observations as 64-bit whole numbers.
#[derive(Debug)]
struct Widened {
    from: DeviceArray,
    to: DeviceArray,
    /// Elements of a row that has its number at the place of the only one; none: each is a number.
    one_of: Option<usize>,
}

/// Everything that can be seen.
#[derive(Debug)]
pub(super) struct Rows {
    all: Vec<Shown>,
    /// Room for some rows of each, once somebody has asked for that.
    picked: Vec<DeviceArray>,
    widened: Vec<Widened>,
    /// What is zero where nobody has made a step.
    silent: Vec<DeviceArray>,
    kernels: Kernels,
    place_of_one: Function,
    as_whole: Function,
    pick: Function,
    zero: Function,
}

impl Rows {
    pub(super) fn new(
        kernels: &Kernels,
        host: &Replicas,
        (device, ids): (&DeviceStore, &ArrayIds),
        final_length: &DeviceArray,
        numbers: Numbers,
    ) -> Result<Self> {
        let module = kernels.compile(&Source::new("rows.cu", ROWS), Build::Release)?;
        let mut this = Self {
            all: Vec::new(),
            picked: Vec::new(),
            widened: Vec::new(),
            silent: vec![device.array(ids.terminated).clone(), device.array(ids.truncated).clone()],
            kernels: kernels.clone(),
            place_of_one: module.function("warp_place_of_one")?,
            as_whole: module.function("warp_as_whole")?,
            pick: module.function("warp_pick_rows")?,
            zero: module.function("warp_zero")?,
        };
        let n = host.options().seeds.len();
        let numbered: Vec<i32> = (0..n as i32).collect();
        let env_id = DeviceArray::from_slice(kernels.device(), "env_id", &[n], &numbered)?;
        this.add("env_id", &env_id, false);
        this.add("terminated", device.array(ids.terminated), false);
        this.add("truncated", device.array(ids.truncated), false);
        this.add("elapsed_step", device.array(ids.episode_length), false);
        for (g, group) in host.spec().groups.iter().enumerate() {
            let name = &group.name;
            let reward = device.array(ids.reward[g]);
            this.add(&format!("reward.{name}"), reward, false);
            this.silent.push(reward.clone());
            this.add_obs(
                &format!("obs.{name}"),
                device.array(ids.obs[g]),
                host.numbered(),
                numbers,
            )?;
            for (what, id) in [
                ("action_mask", ids.action_mask[g]),
                ("alive", ids.alive[g]),
                ("agent_terminated", ids.agent_terminated[g]),
            ] {
                let Some(id) = id else { continue };
                this.add(&format!("{what}.{name}"), device.array(id), false);
                if what == "agent_terminated" {
                    this.silent.push(device.array(id).clone());
                }
            }
        }
        for (name, id) in [("global_obs", ids.global_obs), ("statistic", ids.statistic)] {
            id.into_iter().for_each(|id| this.add(name, device.array(id), false));
        }
        if host.options().auto_reset == AutoReset::SameStep {
            this.add("final.elapsed_step", final_length, false);
            for (g, group) in host.spec().groups.iter().enumerate() {
                let name = format!("final.obs.{}", group.name);
                this.add_obs(&name, device.array(ids.final_obs[g]), host.numbered(), numbers)?;
                if let Some(id) = ids.final_action_mask[g] {
                    let name = format!("final.action_mask.{}", group.name);
                    this.add(&name, device.array(id), false);
                }
            }
            let statistic = ids.final_statistic.into_iter();
            statistic.for_each(|id| this.add("final.statistic", device.array(id), false));
        }
        // Bytes are counted with 32 bits.
        match this.all.iter().all(|shown| u32::try_from(shown.array.bytes()).is_ok()) {
            true => Ok(this),
            false => {
                let reason = "what they show takes 4 GiB or more in one array".into();
                Err(Error::InvalidOption { option: "num_envs", value: n.to_string(), reason })
            }
        }
    }

    fn add(&mut self, name: &str, array: &DeviceArray, wide: bool) {
        let (name, array, rows) = (name.to_string(), array.clone(), array.shape()[0]);
        self.all.push(Shown { name, array, wide, rows });
    }

    fn add_obs(
        &mut self,
        name: &str,
        from: &DeviceArray,
        numbered: bool,
        numbers: Numbers,
    ) -> Result<()> {
        if !numbered && numbers == Numbers::AsWritten {
            self.add(name, from, false);
            return Ok(());
        }
        let (n, elements) = (from.shape()[0], from.len() / from.shape()[0]);
        let width = if numbered { 1 } else { elements };
        let to = DeviceArray::zeros(from.device(), name, DType::U32, &[n, 2 * width])?;
        self.add(name, &to, true);
        self.widened.push(Widened { from: from.clone(), to, one_of: numbered.then_some(elements) });
        Ok(())
    }

    pub(super) fn all(&self) -> &[Shown] {
        &self.all
    }

    /// Makes what is not shown as it is written.
    pub(super) fn follow(&self) -> Result<()> {
        for Widened { from, to, one_of } in &self.widened {
            let n = from.len();
            let (launch, count) = (Launch::over(n, THREADS), Arg::U32(n as u32));
            let (from, to) = (Arg::array(from, n), Arg::array(to, to.len()));
            match one_of {
                Some(width) => {
                    self.place_of_one
                        .launch(&launch, &[from, to, Arg::U32(*width as u32), count])?;
                }
                None => self.as_whole.launch(&launch, &[from, to, count])?,
            }
        }
        Ok(())
    }

    /// Nobody has a reward or a flag.
    pub(super) fn quiet(&self) -> Result<()> {
        for array in &self.silent {
            let launch = Launch::over(array.bytes(), THREADS);
            self.zero.launch(
                &launch,
                &[Arg::array(array, array.len()), Arg::U32(array.bytes() as u32)],
            )?;
        }
        Ok(())
    }

    /// The rows of the first `n` replicas that `ids` names, of everything.
    pub(super) fn pick(&mut self, ids: &DeviceArray, n: usize) -> Result<Vec<Shown>> {
        if self.picked.is_empty() {
            let room = |shown: &Shown| {
                let (name, array) = (&shown.name, &shown.array);
                DeviceArray::zeros(self.kernels.device(), name, array.dtype(), array.shape())
            };
            self.picked = self.all.iter().map(room).collect::<warp_data::Result<_>>()?;
        }
        let mut picked = Vec::new();
        for (shown, room) in self.all.iter().zip(&self.picked) {
            let row = shown.array.bytes() / shown.array.shape()[0];
            let bytes = (n * row) as u32;
            let args = [
                Arg::array(&shown.array, shown.array.len()),
                Arg::array(room, room.len()),
                Arg::array(ids, ids.len()),
                Arg::U32(row as u32),
                Arg::U32(bytes),
            ];
            if bytes > 0 {
                self.pick.launch(&Launch::over(bytes as usize, THREADS), &args)?;
            }
            picked.push(Shown { array: room.clone(), rows: n, ..shown.clone() });
        }
        Ok(picked)
    }
}
