//! Row functions of exploration within a box: noise on the action that a policy wants.
//!
//! Uhlenbeck & Ornstein, "On the theory of the Brownian motion", 1930, in discrete time.

#![expect(
    clippy::too_many_arguments,
    reason = "a parameter is a column, by its name below; a body is one that can be translated"
)]

use super::row::row_functions;
use warp_core::Draw;

/// What the environment gets for an element within -1 to 1.
fn within(a: f32, low: f32, high: f32) -> f32 {
    low + (high - low) * (0.5 * (a + 1.0))
}

/// The action that is wanted, or one at random, and the same within its bounds; all `[dim]`.
pub fn plain(
    draw: &mut Draw,
    random: f32,
    wanted: &[f32],
    low: &[f32],
    high: &[f32],
    action: &mut [f32],
    sent: &mut [f32],
) {
    for i in 0..action.len() {
        let uniform = draw.uniform_in(-1.0, 1.0);
        let a = if random > 0.0 { uniform } else { wanted[i] };
        action[i] = a;
        sent[i] = within(a, low[i], high[i]);
    }
}

/// The same with a normal number of standard deviation `noise_std` added to each element.
pub fn gaussian(
    draw: &mut Draw,
    random: f32,
    noise_std: f32,
    wanted: &[f32],
    low: &[f32],
    high: &[f32],
    action: &mut [f32],
    sent: &mut [f32],
) {
    for i in 0..action.len() {
        let uniform = draw.uniform_in(-1.0, 1.0);
        let noisy = wanted[i] + noise_std * draw.normal();
        let a = if random > 0.0 { uniform } else { noisy.clamp(-1.0, 1.0) };
        action[i] = a;
        sent[i] = within(a, low[i], high[i]);
    }
}

/// The same with Ornstein and Uhlenbeck's noise, which starts from 0 where the episode begins and keeps
/// all but the share `noise_damping` of itself from step to step.
pub fn ou(
    draw: &mut Draw,
    random: f32,
    noise_std: f32,
    noise_damping: f32,
    wanted: &[f32],
    low: &[f32],
    high: &[f32],
    begins: &[f32],
    noise: &mut [f32],
    action: &mut [f32],
    sent: &mut [f32],
) {
    for i in 0..action.len() {
        let before = if begins[0] > 0.0 { 0.0 } else { noise[i] };
        let x = before - noise_damping * before + noise_std * draw.normal();
        let uniform = draw.uniform_in(-1.0, 1.0);
        let noisy = wanted[i] + x;
        let a = if random > 0.0 { uniform } else { noisy.clamp(-1.0, 1.0) };
        noise[i] = x;
        action[i] = a;
        sent[i] = within(a, low[i], high[i]);
    }
}

row_functions! { "noise.cu";
    PLAIN = plain draw (random; wanted, low, high; action, sent);
    GAUSSIAN = gaussian draw (random, noise_std; wanted, low, high; action, sent);
    OU = ou draw (
        random, noise_std, noise_damping; wanted, low, high, begins; noise, action, sent
    );
}
