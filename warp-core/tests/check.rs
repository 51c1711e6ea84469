//! The conformance check: one environment, correct or with one fault at a time, of which each is named.

use std::sync::atomic::{AtomicU8, Ordering};
use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, LimitEnds, Observation, Result, Space, StepOut,
    TimeLimit, check_env,
};

warp_core::config! {
    /// Configuration.
    struct HerdConfig {
        /// What it does wrong, if anything.
        fault: String = "none".into(),
    }
}
warp_core::params! {
    /// What all replicas share.
    struct HerdParams { limit: i32 }
}
warp_core::state! {
    /// Steps since the start.
    struct HerdState { time: i32 }
}

/// Two sheep with masks, of which the second leaves at step 2.
#[derive(Debug)]
struct Herd {
    fault: String,
    params: HerdParams,
    looks: AtomicU8,
}

impl Herd {
    fn fails(&self, fault: &str) -> bool {
        self.fault == fault
    }
}

impl Env for Herd {
    const NAME: &'static str = "herd";
    type Config = HerdConfig;
    type Params = HerdParams;
    type State = HerdState;

    fn new(config: &HerdConfig) -> Result<Self> {
        let params = HerdParams { limit: 8 };
        Ok(Self { fault: config.fault.clone(), params, looks: AtomicU8::new(0) })
    }

    fn spec(&self) -> EnvSpec {
        let observation = Space::Dict(vec![
            ("action_mask".into(), Space::boxed(0.0, 1.0, &[2])),
            ("time".into(), Space::boxed(0.0, 10.0, &[1])),
        ]);
        let action = Space::Discrete { n: 2 };
        EnvSpec {
            name: "herd".into(),
            groups: vec![GroupSpec {
                name: "sheep".into(),
                n_agents: 2,
                observation,
                action,
                mortal: true,
            }],
            time_limit: TimeLimit { steps: 8, ends: LimitEnds::Truncated },
            statistics: vec![],
            global_observation: Some(Space::boxed(0.0, 10.0, &[1])),
        }
    }

    fn params(&self) -> &HerdParams {
        &self.params
    }

    fn reset(&self, state: &mut HerdState, _: &mut Draw) {
        state.time = 0;
    }

    fn observe(&self, state: &HerdState, out: &mut Observation<'_>) {
        let first = state.time == 0;
        let time = state.time as f32;
        out.obs[0].fill(if first && self.fails("first observation") { f32::NAN } else { time });
        let look = self.looks.fetch_xor(1, Ordering::Relaxed);
        let one = if self.fails("mask of a second look") { look } else { 1 };
        let open = u8::from(!(first && self.fails("first mask")));
        out.action_mask[0].copy_from_slice(&[open, open * one, open, open]);
        if self.fails("global observation of a second look") {
            out.global[0] = f32::from(look);
        } else if !self.fails("unwritten global observation") {
            let out_of_space = first && self.fails("first global observation");
            out.global[0] = if out_of_space { -1.0 } else { time };
        }
    }

    fn step(&self, state: &mut HerdState, _: &Actions<'_>, _: &mut Draw, out: &mut StepOut<'_>) {
        state.time += 1;
        out.reward[0][0] = 1.0;
        let left = state.time > 2;
        out.reward[0][1] = if left && !self.fails("reward after leaving") { 0.0 } else { 0.5 };
        if state.time == 2 {
            out.alive[0][1] = 0;
        }
        if state.time == 4 && self.fails("return") {
            out.alive[0][1] = 1;
        }
        if self.fails("alive") {
            out.alive[0][0] = 2;
        }
    }
}

#[test]
fn a_correct_environment_passes() {
    check_env::<Herd>(&HerdConfig::default(), 3).unwrap();
}

#[test]
fn every_fault_is_named() {
    for (fault, words) in [
        ("first observation", "step 0: sheep 0 observes [NaN]"),
        ("first mask", "step 0: the mask of sheep 0 forbids all of head 0"),
        ("mask of a second look", "a second call of observe"),
        ("global observation of a second look", "a second call of observe"),
        ("unwritten global observation", "step 0: a critic observes [NaN]"),
        ("first global observation", "step 0: a critic observes [-1.0]"),
        ("reward after leaving", "step 3: sheep 1 has left, but gets the reward 0.5"),
        ("return", "step 4: sheep 1 went from 0 to 1 in alive"),
        ("alive", "step 1: sheep 0 went from 1 to 2 in alive"),
    ] {
        let config = HerdConfig { fault: fault.into() };
        let said = check_env::<Herd>(&config, 3).map_err(|error| error.to_string());
        assert!(matches!(&said, Err(said) if said.contains(words)), "{fault}: {said:?}");
    }
}

#[test]
fn names_are_keys_and_occur_once() {
    let spec = || Herd::new(&HerdConfig::default()).unwrap().spec();
    let refused = |spec: EnvSpec| spec.validate().unwrap_err().to_string();
    for name in ["", "a.b", "a[0]", "a\nb", "a/b", "two words", "\u{e4}"] {
        let mut spec = spec();
        spec.groups[0].name = name.into();
        let said = refused(spec);
        assert!(said.contains(&format!("a group is named {name:?}")), "{said}");
    }
    for (names, words) in [(&["s", "s"][..], "are named \"s\""), (&[""], "has no name")] {
        let mut spec = spec();
        spec.statistics = names.iter().map(ToString::to_string).collect();
        let said = refused(spec);
        assert!(said.contains(words), "{said}");
    }
}
