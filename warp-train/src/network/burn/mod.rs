//! Policies on burn tensors: networks, their gradients, and a policy that learns by them.
//!
//! [`BurnPolicy`] owns a [`PolicyNetwork`] (our [`ActorCritic`] or any `burn::module::Module` of the user's
//! own) and has three verbs: `forward`, `gradients` and `step`. burn only carries tensors through the
//! network and back; the losses ([`crate::loss`]) are plain Rust over slices that give the gradient with
//! respect to the network's outputs, and [`crate::optimiser::Optimiser`] works on one flat `Vec<f32>`.
//!
//! Between `gradients` and `step` there is one hook: [`BurnPolicy::gradient_buffer_mut`], the flat gradient
//! of the whole policy, to be averaged over devices or inspected.
//!
//! Work on many rows is divided into chunks whose size depends only on the number of rows; chunks are
//! distributed over threads, and their gradients are added in chunk order. Results are therefore
//! bit-identical for any number of threads.

mod activation;
mod backward;
mod chunks;
mod named;
mod network;
mod own_network;
mod parameters;
mod policy;
#[cfg(feature = "tch")]
pub(crate) mod tch;
mod tensors;
#[cfg(test)]
mod tests;

/// The library itself, re-exported so that versions agree: `use warp_train::burn::burn` in a program that
/// does not depend on it otherwise.
pub use ::burn;
pub use named::NamedPolicy;
pub use network::{ActorCritic, PolicyNetwork};
pub use own_network::own_network;
pub use policy::BurnPolicy;
