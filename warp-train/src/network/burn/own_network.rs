//! burn modules under names that configurations may use.

use super::{BurnPolicy, NamedPolicy, PolicyNetwork};
use crate::error::{Result, of_policy};
use crate::model::NetworkConfig;
use crate::network::own_network::{NetworkStart, OwnNetwork};
use burn::tensor::Device;
use std::sync::{Mutex, PoisonError};

/// burn draws all first weights of a process from one generator.
static DRAWS: Mutex<()> = Mutex::new(());

/// The burn module that `make` builds, as the network that configurations call `name`. Its initial
/// weights come from the run's seed, independent of other random numbers.
pub fn own_network<N: PolicyNetwork + 'static>(
    name: &'static str,
    make: fn(&NetworkConfig, &Device) -> N,
) -> OwnNetwork {
    OwnNetwork::new(name, move |start| policy(make, start))
}

fn policy<N: PolicyNetwork>(
    make: fn(&NetworkConfig, &Device) -> N,
    start: &NetworkStart<'_>,
) -> Result<NamedPolicy<N>> {
    let NetworkStart { plan, spec, seed, threads } = *start;
    let (device, network) = (Device::flex(), plan.network(spec));
    // A panic elsewhere leaves nothing half done here: the generator is set anew.
    let drawing = DRAWS.lock().unwrap_or_else(PoisonError::into_inner);
    device.seed(seed);
    let (width, layout) = (network.observation_width, plan.layout.clone());
    // Parameters may be drawn when they are read for the first time.
    let policy = BurnPolicy::from_network(
        make(&network, &device),
        width,
        layout,
        plan.optimiser_config(),
        &device,
    );
    drop(drawing);
    let policy = policy.map_err(of_policy(&plan.name))?;
    Ok(NamedPolicy::new(&plan.name, policy, threads))
}
