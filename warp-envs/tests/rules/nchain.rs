//! NChain against its rules.

use warp_core::single::{GroupAction, Single};
use warp_core::{Config, Env};
use warp_envs::nchain::*;
use warp_envs::registry;

#[test]
fn keeps_the_contract() {
    registry().get("nchain").unwrap().check(&"episode_length = 30".parse().unwrap(), 7).unwrap();
}

#[test]
fn a_step_leads_forward_or_back() {
    let mut one = Single::new(NChain::new(&NChainConfig::default()).unwrap(), 0).unwrap();
    for action in [0, 1] {
        for from in 0..5_i32 {
            let mut slips = 0;
            for _ in 0..500 {
                one.edit(|state| state.state = from);
                one.step(&[GroupAction::Discrete(vec![action])]).unwrap();
                let to = one.obs(0).iter().position(|x| *x == 1.0).unwrap() as i32;
                let (ahead, reward) = if from == 4 { (4, 10.0) } else { (from + 1, 0.0) };
                let back = (to, one.reward(0)[0]) == (0, 2.0);
                assert!(back || (to, one.reward(0)[0]) == (ahead, reward), "{from} {to}");
                slips += i32::from(back != (action == 1));
            }
            // 100 of 500, within five standard deviations.
            assert!((55..145).contains(&slips), "{slips}");
        }
    }
}

#[test]
fn the_limit_truncates() {
    let config = NChainConfig::from_table(&"episode_length = 2".parse().unwrap()).unwrap();
    let mut one = Single::new(NChain::new(&config).unwrap(), 0).unwrap();
    let back = [GroupAction::Discrete(vec![1])];
    assert!(!one.step(&back).unwrap().truncated && one.step(&back).unwrap().truncated);
    let none = NChain::new(&NChainConfig { episode_length: 0 }).unwrap_err().to_string();
    assert!(none.starts_with("episode_length = 0: "), "{none}");
}
