//! One CartPole, stepped by hand: the interface in its simplest form.
//!
//! `cargo run --release -p warp-examples --example 01_step_one_environment`

use warp_core::single::{GroupAction, Single};
use warp_core::{Env, Result};
use warp_envs::cartpole::{CartPole, CartPoleConfig};

fn main() -> Result<()> {
    let env = CartPole::new(&CartPoleConfig::default())?;
    let mut pole = Single::new(env, 0)?;
    let mut total = 0.0;
    loop {
        // Push towards the side the pole leans to.
        let [_, _, theta, theta_dot] = pole.obs(0)[..] else { unreachable!("four numbers") };
        let action = i32::from(theta + 0.5 * theta_dot > 0.0);
        let ended = pole.step(&[GroupAction::Discrete(vec![action])])?;
        total += pole.reward(0)[0];
        if ended.terminated || ended.truncated {
            let how = if ended.terminated { "fell" } else { "stood until the limit" };
            println!("the pole {how}; return {total} after {} steps", pole.timestep());
            return Ok(());
        }
    }
}
