//! Environments that something else moves on a GPU.
#![expect(unsafe_code, reason = "lends arrays as another library would lend its own")]

use super::device::gpu;
use warp_core::{EnvSpec, Space, TimeLimit};
use warp_func::cuda::{
    Build, DeviceArray, DeviceEnvs, GivenArray, Moved, NumberKind, SteppedEnvs, Stepper, Tensor,
    machine_code, stepped_source,
};
use warp_func::{Result, VecEnv, VecOptions};

const N: usize = 5;

pub(crate) fn compile() {
    let (code, _) = machine_code(&stepped_source(), Build::Parity, "sm_90a").unwrap();
    assert!(code.starts_with(b"\x7fELF"));
}

/// Counters that count up by their action, which is 0 or 1: over at three, cut after five steps. What they show is
/// their count, as 64-bit numbers, of which every second element is theirs.
#[derive(Debug, Default)]
struct Counters {
    count: [i64; N],
    steps: [u32; N],
    /// Rows that are handed over too many.
    too_many: usize,
}

fn lent(words: &[u32], tensor: &Tensor<'_>) -> GivenArray {
    let array = DeviceArray::from_slice(gpu().device(), "lent", &[words.len()], words).unwrap();
    let address = array.ptr();
    // SAFETY: the words hold what the tensor says, written before this returns; the array is kept.
    unsafe { GivenArray::borrow(gpu().device(), tensor, address, Box::new(array)) }.unwrap()
}

fn numbers(of: &[i64]) -> GivenArray {
    let words: Vec<u32> = of.iter().flat_map(|n| [*n as u32, (*n >> 32) as u32, 7, 7]).collect();
    let (shape, strides) = ([of.len()], [2_i64]);
    let tensor =
        Tensor { kind: NumberKind::Signed, bits: 64, shape: &shape, strides: Some(&strides) };
    lent(&words, &tensor)
}

fn reals(of: &[f32]) -> GivenArray {
    let words: Vec<u32> = of.iter().map(|x| x.to_bits()).collect();
    let shape = [of.len()];
    lent(&words, &Tensor { kind: NumberKind::Real, bits: 32, shape: &shape, strides: None })
}

impl Stepper for Counters {
    fn reset(&mut self, seed: u64) -> Result<GivenArray> {
        assert_eq!(seed, 9);
        *self = Self { too_many: self.too_many, ..Self::default() };
        Ok(numbers(&self.count))
    }

    fn step(&mut self, actions: &DeviceArray) -> Result<Moved> {
        assert_eq!(actions.shape(), [N, 1, 1, 2]);
        let words = actions.pull::<u32>().unwrap();
        let mut last = self.count;
        let (mut over, mut cut) = (vec![0; N + self.too_many], [0.0; N]);
        for i in 0..N {
            assert_eq!(words[2 * i + 1], 0);
            self.count[i] += i64::from(words[2 * i]);
            self.steps[i] += 1;
            last[i] = self.count[i];
            over[i] = i64::from(self.count[i] == 3);
            cut[i] = f32::from(self.steps[i] == 5);
            if over[i] != 0 || cut[i] != 0.0 {
                (self.count[i], self.steps[i]) = (0, 0);
            }
        }
        Ok(Moved {
            obs: numbers(&self.count),
            reward: reals(&last.map(|n| n as f32)),
            terminated: numbers(&over),
            truncated: reals(&cut),
            final_obs: Some(numbers(&last)),
        })
    }
}

fn envs(too_many: usize) -> SteppedEnvs<Counters> {
    let (seen, done) = (Space::Discrete { n: 4 }, Space::Discrete { n: 2 });
    let spec = EnvSpec::one_agent("counters", "agent", seen, done, TimeLimit::UNLIMITED);
    let options = VecOptions { n_envs: N, seed: 9, ..VecOptions::default() };
    let stepper = Counters { too_many, ..Counters::default() };
    SteppedEnvs::new(stepper, spec, options, gpu()).unwrap()
}

pub(crate) fn counted() {
    let mut envs = envs(0);
    envs.sync().unwrap();
    let ids = envs.ids().clone();
    let one_hot = |n: usize| (0..4).map(|i| f32::from(i == n as u8)).collect::<Vec<_>>();
    assert_eq!(envs.store().slice::<f32>(ids.obs[0]), one_hot(0).repeat(N));
    // The first never moves, the second in every step, the others in every second.
    let actions = |step: usize| [0, 1, (step % 2) as i32, (step % 2) as i32, 0];
    for step in 0..5 {
        envs.arrays().array(ids.action[0]).push(&actions(step)).unwrap();
        envs.device_step().unwrap();
    }
    envs.sync().unwrap();
    let store = envs.store();
    // After five steps: cut at zero; over in the third, two steps further; cut at two.
    assert_eq!(store.slice::<f32>(ids.obs[0])[4..8], one_hot(2));
    assert_eq!(store.slice::<u8>(ids.truncated), [1, 0, 1, 1, 1]);
    assert_eq!(store.slice::<u8>(ids.terminated), [0; N]);
    assert_eq!(store.slice::<f32>(ids.final_obs[0])[8..12], one_hot(2));
    assert_eq!(store.slice::<u32>(ids.episode_length), [0, 2, 0, 0, 0]);
    assert_eq!(store.slice::<f32>(ids.episode_return[0]), [0.0, 3.0, 0.0, 0.0, 0.0]);
    assert_eq!((envs.run_step(), envs.run_step_array().pull::<u32>().unwrap()), (5, vec![5]));
    let totals = envs.take_episodes();
    assert_eq!(totals.count, 5);
    assert_eq!((totals.length.sum, totals.length.min, totals.length.max), (23.0, 3.0, 5.0));
    // 0 and 0; 1 + 2 + 3; 0 + 1 + 1 + 2 + 2 twice.
    let returns = totals.returns[0];
    assert_eq!((returns.sum, returns.min, returns.max), (18.0, 0.0, 6.0));
    assert_eq!(envs.take_episodes().count, 0);
    // As any environment: with actions of the host's.
    envs.actions_mut(0).unwrap().discrete().fill(1);
    envs.step().unwrap();
    assert_eq!(envs.store().slice::<u8>(ids.terminated), [0, 1, 0, 0, 0]);
    assert!(envs.as_cuda().is_none() && envs.as_device().is_some());
}

pub(crate) fn refused() {
    let mut envs = envs(1);
    let error = envs.device_step().unwrap_err().to_string();
    assert!(error.contains("terminated has shape [6], but 5 rows of 1 are needed"), "{error}");
}
