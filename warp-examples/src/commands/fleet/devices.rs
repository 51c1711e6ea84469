//! What trains a fleet's runs: the devices of this process, each with a part of them.

use crate::commands::train::args::TrainArgs;
use crate::commands::{Device, learner_on, thread_count};
use anyhow::{Result, anyhow};
use warp_func::{Entry, Registry};
use warp_train::TrainConfig;
use warp_train::fleet::{FleetLearner, FleetRun, MultiDeviceFleet, ThreadFleet, launches};
use warp_train::world::World;

/// The devices of these names; to open a GPU takes a while, so all are opened at the same time.
pub(super) fn open(names: &[String]) -> Result<Vec<Device>> {
    std::thread::scope(|scope| {
        let opening: Vec<_> =
            names.iter().map(|name| scope.spawn(move || Device::choose(name))).collect();
        let panicked = |_| Err(anyhow!("a device could not be opened"));
        opening.into_iter().map(|device| device.join().unwrap_or_else(panicked)).collect()
    })
}

/// The devices that are open, or the one that is chosen for training in `entry`, and why it is that one.
pub(super) fn chosen(
    open: Option<Vec<Device>>,
    args: &TrainArgs,
    entry: &Entry,
) -> Result<(Vec<Device>, String)> {
    if let Some(devices) = open {
        return Ok((devices, String::new()));
    }
    let (device, why) = Device::for_training(&args.device, &args.backend, entry)?;
    Ok((vec![device], why))
}

/// The environments of `registry`, on each of the devices.
pub(super) fn registries(devices: &[Device], registry: &Registry) -> Vec<Registry> {
    devices.iter().map(|device| device.registry(registry)).collect()
}

/// What this process trains first.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstLaunch<'c> {
    /// Of one of its runs.
    config: &'c TrainConfig,
    n_runs: usize,
}

impl<'c> FirstLaunch<'c> {
    /// Of `runs`, which `world` shares.
    pub(super) fn of(runs: &'c [FleetRun], world: &World) -> Self {
        let n_runs = launches(runs).first().map_or(0, Vec::len).div_ceil(world.size());
        Self { config: &runs[0].config, n_runs }
    }

    /// What each of so many devices has of it.
    fn shared_by(self, devices: usize) -> Self {
        Self { n_runs: self.n_runs.div_ceil(devices), ..self }
    }
}

/// What trains runs on all `devices`, each with its registry.
pub(super) fn learner<'a>(
    args: &TrainArgs,
    first: FirstLaunch<'_>,
    devices: &[Device],
    registries: &'a [Registry],
) -> Result<MultiDeviceFleet<'a>> {
    let threads = (thread_count(args.threads) / devices.len()).max(1);
    let share = first.shared_by(devices.len());
    let of_device = |(device, registry)| on(device, args, share, threads, registry);
    let fleets = devices.iter().zip(registries).map(of_device).collect::<Result<Vec<_>>>()?;
    Ok(MultiDeviceFleet::new(fleets)?)
}

/// The learner that `--backend` names, with `threads` of the host.
fn on<'a>(
    device: &Device,
    args: &TrainArgs,
    first: FirstLaunch<'_>,
    shared: usize,
    registry: &'a Registry,
) -> Result<Box<dyn FleetLearner + Send + 'a>> {
    let name = learner_on(device, &args.backend, first.config, 1)?.backend();
    // A device's own learner works for all threads.
    let threads = if matches!(device, Device::Cpu) { shared } else { 1 };
    #[cfg(feature = "cuda")]
    let on_gpu = matches!(device, Device::Cuda(_));
    let (backend, device) = (args.backend.clone(), device.clone());
    let make = move |config: &TrainConfig| {
        let learner = learner_on(&device, &backend, config, 1);
        learner.map_err(|error| match error.downcast::<warp_train::Error>() {
            Ok(error) => error,
            Err(other) => warp_train::Error::Invalid(other.to_string()),
        })
    };
    let others = ThreadFleet::new(registry, name, threads, make);
    #[cfg(feature = "cuda")]
    if on_gpu && name == "native" {
        let mut fleet = warp_train::native::cuda::CudaFleet::new(registry, others, shared);
        fleet.load_ahead(first.config, first.n_runs);
        return Ok(Box::new(fleet));
    }
    Ok(Box::new(others))
}
