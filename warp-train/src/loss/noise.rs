//! Row functions of exploration within a box: noise on the policy's action.
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

/// The policy's action, or one at random, and the same within its bounds; all `[dim]`.
pub fn plain(
    draw: &mut Draw,
    random: f32,
    policy_action: &[f32],
    low: &[f32],
    high: &[f32],
    action: &mut [f32],
    env_action: &mut [f32],
) {
    for i in 0..action.len() {
        let uniform = draw.uniform_in(-1.0, 1.0);
        let a = if random > 0.0 { uniform } else { policy_action[i] };
        action[i] = a;
        env_action[i] = within(a, low[i], high[i]);
    }
}

/// The same with a normal number of standard deviation `noise_std` added to each element.
pub fn gaussian(
    draw: &mut Draw,
    random: f32,
    noise_std: f32,
    policy_action: &[f32],
    low: &[f32],
    high: &[f32],
    action: &mut [f32],
    env_action: &mut [f32],
) {
    for i in 0..action.len() {
        let uniform = draw.uniform_in(-1.0, 1.0);
        let noisy = policy_action[i] + noise_std * draw.normal();
        let a = if random > 0.0 { uniform } else { noisy.clamp(-1.0, 1.0) };
        action[i] = a;
        env_action[i] = within(a, low[i], high[i]);
    }
}

/// The same with Ornstein and Uhlenbeck's noise, which starts from 0 where the episode begins and keeps
/// all but the share `noise_damping` of itself from step to step.
pub fn ou(
    draw: &mut Draw,
    random: f32,
    noise_std: f32,
    noise_damping: f32,
    policy_action: &[f32],
    low: &[f32],
    high: &[f32],
    begins: &[f32],
    noise: &mut [f32],
    action: &mut [f32],
    env_action: &mut [f32],
) {
    for i in 0..action.len() {
        let before = if begins[0] > 0.0 { 0.0 } else { noise[i] };
        let x = before - noise_damping * before + noise_std * draw.normal();
        let uniform = draw.uniform_in(-1.0, 1.0);
        let noisy = policy_action[i] + x;
        let a = if random > 0.0 { uniform } else { noisy.clamp(-1.0, 1.0) };
        noise[i] = x;
        action[i] = a;
        env_action[i] = within(a, low[i], high[i]);
    }
}

row_functions! { "noise.cu";
    PLAIN = plain draw (random; policy_action, low, high; action, env_action);
    GAUSSIAN = gaussian draw (random, noise_std; policy_action, low, high; action, env_action);
    OU = ou draw (
        random, noise_std, noise_damping; policy_action, low, high, begins; noise, action, env_action
    );
}
