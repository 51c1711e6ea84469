//! Whether observations keep their meaning in half precision, which the native learner on a GPU stores
//! and multiplies them in (`precision = "fp16"` or `"bf16"`).
//!
//! Half precision represents integers up to 2,048, then only every second one and so on up to 65,504;
//! beyond that is infinity, and below 6.1e-5 precision is lost gradually. bf16 has the range of f32, but
//! represents integers up to 256 only. Observations that `norm_obs`
//! normalises to mean 0 and standard deviation 1 need no warning.

use crate::algorithm::{PolicyPlan, Precision};
use crate::config::Shards;
use crate::config::TrainConfig;
use crate::run::begin::moments;
use warp_core::{EnvSpec, Space};
use warp_func::VecEnv;

/// What a type of operands can represent.
#[derive(Debug, Clone, Copy)]
struct Limits {
    name: &'static str,
    /// The largest finite number.
    largest: f32,
    /// Up to here it holds every whole number.
    whole: f32,
    /// The smallest number of full precision.
    smallest: f32,
}

impl Limits {
    const HALF: Self = Self {
        name: "half precision",
        largest: 65_504.0,
        whole: 2_048.0,
        smallest: 6.103_515_6e-5,
    };
    const BFLOAT: Self = Self {
        name: "bf16",
        largest: f32::from_bits(0x7f7f_0000),
        whole: 256.0,
        smallest: f32::MIN_POSITIVE,
    };

    fn of(plan: &PolicyPlan) -> Self {
        match plan.config.precision {
            Precision::BFloat => Self::BFLOAT,
            Precision::Half | Precision::Single => Self::HALF,
        }
    }

    /// Half the distance of neighbouring numbers, relative to them.
    fn rounding(self) -> f64 {
        1.0 / f64::from(self.whole)
    }
}

/// One sentence for each group of `config` whose observations may not fit, judging by their bounds;
/// infinite bounds are ignored.
#[must_use]
pub fn by_bounds(config: &TrainConfig) -> Vec<String> {
    groups(config).filter_map(|(plan, group)| of_bounds(plan, &config.spec, group)).collect()
}

/// One sentence for each group of `config` whose observations do not fit, judging by what the agents see now, which
/// must be up to date on the host.
#[must_use]
pub fn by_data(config: &TrainConfig, envs: &dyn VecEnv) -> Vec<String> {
    groups(config).filter_map(|(plan, group)| of_data(plan, group, envs)).collect()
}

/// Groups whose observations a network sees as they are, each with its policy.
fn groups(config: &TrainConfig) -> impl Iterator<Item = (&PolicyPlan, usize)> {
    let raw = config.policies.iter().filter(|plan| !plan.config.norm_obs);
    raw.flat_map(|plan| plan.groups().map(move |group| (plan, group)))
}

const REMEDY: &str = "use norm_obs = true or precision = \"fp32\"";

fn of_bounds(plan: &PolicyPlan, spec: &EnvSpec, group: usize) -> Option<String> {
    let (mut low, mut high) = (0.0_f32, 0.0_f32);
    bounds(&spec.groups[group].observation, &mut |a, b| (low, high) = (low.min(a), high.max(b)));
    let largest = high.max(-low);
    let limits @ Limits { name: operands, whole, .. } = Limits::of(plan);
    let why = match largest {
        0.0 => return None,
        _ if largest > limits.largest => {
            format!("the largest number in {operands} is {}", limits.largest)
        }
        _ if largest > whole => {
            format!("{operands} represents integers exactly only up to {whole}")
        }
        _ if largest < limits.smallest => {
            format!("{operands} loses digits below {:.5}", limits.smallest)
        }
        _ => return None,
    };
    let name = &spec.groups[group].name;
    Some(format!("observations of {name} have bounds of {low} to {high}, but {why}: {REMEDY}"))
}

/// Calls `see` with the finite bounds of all numbers.
fn bounds(space: &Space, see: &mut dyn FnMut(f32, f32)) {
    let finite = |x: f32| if x.is_finite() { x } else { 0.0 };
    match space {
        Space::Box { low, high, .. } => {
            low.iter().zip(high).for_each(|(low, high)| see(finite(*low), finite(*high)));
        }
        Space::Dict(parts) => {
            let inputs = parts.iter().filter(|(key, _)| key != warp_core::space::ACTION_MASK);
            inputs.for_each(|(_, part)| bounds(part, see));
        }
        Space::Discrete { .. } | Space::MultiDiscrete { .. } => {}
    }
}

fn of_data(plan: &PolicyPlan, group: usize, envs: &dyn VecEnv) -> Option<String> {
    let limits @ Limits { name: operands, largest, .. } = Limits::of(plan);
    let spec = &envs.spec().groups[group];
    let (name, width) = (&spec.name, spec.observation_width());
    let obs = envs.store().slice::<f32>(envs.ids().obs[group]);
    if let Some(at) = obs.iter().position(|x| x.is_nan() || x.abs() > limits.largest) {
        let (number, value) = (at % width, obs[at]);
        return Some(format!(
            "number {number} of an observation of {name} is {value}, but the largest number in \
             {operands} is {largest}: {REMEDY}"
        ));
    }
    let own = plan.agents.iter().filter(|range| range.group == group);
    let plan = PolicyPlan { agents: own.copied().collect(), ..plan.clone() };
    let moments = moments(&plan, envs, Shards::ONE, 0);
    let spread = moments.mean.iter().zip(&moments.var).map(|(mean, var)| (mean, var.sqrt()));
    let lost = |(mean, deviation): &(&f64, f64)| {
        let step = mean.abs().max(f64::from(limits.smallest)) * limits.rounding();
        *deviation > 0.0 && *deviation < step
    };
    let (number, (mean, deviation)) = spread.enumerate().find(|(_, spread)| lost(spread))?;
    Some(format!(
        "number {number} of {name}'s observations is {mean:.4e} with a standard deviation of \
         {deviation:.1e}, which {operands} can't resolve: {REMEDY}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::toml::Table;
    use warp_func::VecOptions;

    fn config(text: &str) -> TrainConfig {
        TrainConfig::resolve(&text.parse::<Table>().unwrap(), &warp_envs::registry()).unwrap()
    }

    fn with_bounds(low: f32, high: f32, norm_obs: bool) -> Vec<String> {
        let mut config = config(&format!("env_id = \"pendulum\"\nnorm_obs = {norm_obs}"));
        config.spec.groups[0].observation = Space::boxed(low, high, &[3]);
        by_bounds(&config)
    }

    #[test]
    fn bounds_that_do_not_fit_are_said_once_per_group() {
        for (low, high, words) in [
            (
                -1e6,
                5.0,
                "pendulum have bounds of -1000000 to 5, but the largest number in half precision \
                 is 65504",
            ),
            (0.0, 4000.0, "integers exactly only up to 2048"),
            (-1e-6, 1e-6, "loses digits"),
        ] {
            let found = with_bounds(low, high, false);
            assert_eq!(found.len(), 1);
            assert!(found[0].contains(words), "{found:?}");
            assert_eq!(with_bounds(low, high, true), [""; 0]);
        }
        for (low, high) in [(-1.0, 1.0), (f32::NEG_INFINITY, f32::INFINITY), (0.0, 2048.0)] {
            assert_eq!(with_bounds(low, high, false), [""; 0]);
        }
    }

    #[test]
    fn bf16_has_the_range_of_fp32_and_fewer_digits() {
        let found = |low: f32, high: f32| {
            let mut config = config("env_id = \"pendulum\"\nprecision = \"bf16\"");
            config.spec.groups[0].observation = Space::boxed(low, high, &[3]);
            by_bounds(&config).join("\n")
        };
        assert!(found(0.0, 257.0).contains("bf16 represents integers exactly only up to 256"));
        for (low, high) in [(-1.0, 256.0), (-1e-6, 1e-6)] {
            assert_eq!(found(low, high), "");
        }
    }

    #[test]
    fn data_that_does_not_fit_is_said() {
        let config = config("env_id = \"pendulum\"\nnum_envs = 50");
        let options = VecOptions { n_envs: 50, ..VecOptions::default() };
        let registry = warp_envs::registry();
        let mut envs = registry.get("pendulum").unwrap().make(&config.env, &options).unwrap();
        assert_eq!(by_data(&config, &*envs), [""; 0]);
        let obs = envs.ids().obs[0];
        let set = |envs: &mut dyn VecEnv, value: &dyn Fn(usize) -> f32| {
            let mut store = envs.store_mut();
            let rows = store.slice_mut::<f32>(obs).chunks_exact_mut(3);
            rows.enumerate().for_each(|(row, x)| x[1] = value(row));
            by_data(&config, &*envs).join("\n")
        };
        let found = set(&mut *envs, &|row| if row == 7 { 1e5 } else { 0.0 });
        assert!(found.contains("number 1 of an observation of pendulum is 100000"), "{found}");
        assert!(set(&mut *envs, &|row| [1.0, f32::NAN][row % 2]).contains("is NaN"));
        let found = set(&mut *envs, &|row| 300.0 + 0.01 * (row % 2) as f32);
        assert!(found.contains("can't resolve"), "{found}");
        assert_eq!(set(&mut *envs, &|row| 300.0 + row as f32), "");
        assert_eq!(set(&mut *envs, &|_| 300.0), "");
    }
}
