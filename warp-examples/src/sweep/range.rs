//! Ranges that values are sampled from.

use warp_core::{Draw, Purpose};

/// A range with how values lie in it; both bounds belong to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    low: f64,
    high: f64,
    /// Equally dense in the logarithm.
    is_log: bool,
    /// Whole numbers.
    is_whole: bool,
}

const NAMES: [&str; 4] = ["uniform", "log_uniform", "int_uniform", "int_log_uniform"];

impl Range {
    /// `uniform(LOW,HIGH)` and the like; `None` for a text without parentheses at its end.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some((name, bounds)) = text.strip_suffix(')').and_then(|text| text.split_once('('))
        else {
            return Ok(None);
        };
        if !NAMES.contains(&name.trim()) {
            return Err(format!("there is no range {name}; there are {}", NAMES.join(", ")));
        }
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
        let bounds = bounds.split_once(',').and_then(|(low, high)| number(low).zip(number(high)));
        let Some((low, high)) = bounds.filter(|(low, high)| low < high) else {
            return Err(format!("expected {name}(LOW,HIGH) with LOW < HIGH"));
        };
        let (is_log, is_whole) = (name.contains("log"), name.contains("int"));
        if is_log && low <= 0.0 {
            return Err(format!("{name} needs a lower bound above 0, not {low}"));
        }
        let is_exact = |x: f64| x.fract() == 0.0 && x.abs() <= 1e15;
        if is_whole && !(is_exact(low) && is_exact(high)) {
            return Err(format!("{name} needs whole numbers as bounds"));
        }
        Ok(Some(Self { low, high, is_log, is_whole }))
    }

    /// Sample number `sample` of `key`, as TOML has it; with four digits, so that it can be read and typed.
    pub(super) fn draw(&self, seed: u64, key: &str, sample: u32) -> String {
        let mut draw = Draw::new(seed, stream_of(key), sample, Purpose::Replay);
        let share = (f64::from(draw.next_u32()) + 0.5) / 2f64.powi(32);
        // A whole number stands for the interval from it to the next.
        let high = if self.is_whole { self.high + 1.0 } else { self.high };
        let value = match self.is_log {
            true => (self.low.ln() + share * (high.ln() - self.low.ln())).exp(),
            false => self.low + share * (high - self.low),
        };
        if self.is_whole {
            return format!("{}", value.floor().clamp(self.low, self.high));
        }
        let short: f64 = format!("{value:.3e}").parse().unwrap_or(value);
        format!("{:?}", short.clamp(self.low, self.high))
    }
}

/// The stream of draws that a key has: its FNV-1a hash.
fn stream_of(key: &str) -> u32 {
    key.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, n: u32) -> Vec<f64> {
        let range = Range::parse(text).unwrap().unwrap();
        (0..n).map(|sample| range.draw(1, "key", sample).parse().unwrap()).collect()
    }

    #[test]
    fn draws_lie_in_their_range_as_densely_as_its_name_says() {
        let share_below = |text, threshold: f64| {
            let all = drawn(text, 4000);
            all.iter().filter(|x| **x < threshold).count() as f64 / all.len() as f64
        };
        assert!((share_below("uniform(-1,3)", 0.0) - 0.25).abs() < 0.03);
        assert!((share_below("log_uniform(1e-6,1e-2)", 1e-5) - 0.25).abs() < 0.03);
        assert!((share_below("int_uniform(1,4)", 2.0) - 0.25).abs() < 0.03);
        // ln(2) of ln(16).
        assert!((share_below("int_log_uniform(1,15)", 2.0) - 0.25).abs() < 0.03);
        for text in ["uniform(0.99,0.999)", "log_uniform(1e-6,2e-6)"] {
            let Range { low, high, .. } = Range::parse(text).unwrap().unwrap();
            assert!(drawn(text, 500).iter().all(|x| (low..=high).contains(x)), "{text}");
        }
        assert!(drawn("int_uniform(-2,2)", 500).iter().all(|x| x.fract() == 0.0));
    }

    #[test]
    fn values_are_toml_of_the_right_kind() {
        let text = |range| Range::parse(range).unwrap().unwrap().draw(0, "k", 0);
        for range in ["uniform(1,3)", "log_uniform(1e-9,1e-8)", "uniform(1e6,2e6)"] {
            let value = crate::settings::parse_value(&text(range));
            assert!(value.is_float(), "{range}: {value}");
        }
        assert!(crate::settings::parse_value(&text("int_uniform(1,300)")).is_integer());
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (text, words) in [
            ("normal(0,1)", "there is no range normal"),
            ("uniform(1)", "LOW < HIGH"),
            ("uniform(2,1)", "LOW < HIGH"),
            ("uniform(0,inf)", "LOW < HIGH"),
            ("log_uniform(0,1)", "above 0, not 0"),
            ("int_uniform(0.5,3)", "whole numbers"),
        ] {
            let error = Range::parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(Range::parse("0.1,0.2"), Ok(None));
    }
}
