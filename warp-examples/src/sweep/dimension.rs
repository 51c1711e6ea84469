//! One swept key: `KEY=V,V,...`, `KEY=uniform(LOW,HIGH)` and the like, each perhaps with ` if KEY=VALUE` behind it.

use super::Setting;
use super::range::Range;
use anyhow::{Result, bail};
use warp_train::fleet::check_sweepable;

/// A key with what its values are.
#[derive(Debug, Clone)]
pub(super) struct Dimension {
    text: String,
    key: String,
    values: Values,
    condition: Option<Condition>,
}

/// Where values come from.
#[derive(Debug, Clone)]
pub(super) enum Values {
    /// All of these.
    Listed(Vec<String>),
    /// Draws from a range.
    Drawn(Range),
}

/// The setting has this value of a key that is swept, too.
#[derive(Debug, Clone, PartialEq)]
struct Condition {
    key: String,
    value: String,
}

impl Dimension {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (swept, condition) = match text.split_once(" if ") {
            Some((swept, condition)) => (swept, Some(Condition::parse(text, condition)?)),
            None => (text, None),
        };
        let expected = || format!("--sweep {text}: expected key=value,value,...");
        let Some((key, values)) = swept.split_once('=') else { bail!(expected()) };
        let (key, values) = (key.trim(), values.trim());
        check_sweepable(key)?;
        let drawn =
            Range::parse(values).map_err(|reason| anyhow::anyhow!("--sweep {text}: {reason}"))?;
        let values = match drawn {
            Some(range) => Values::Drawn(range),
            None => Values::Listed(listed(values)),
        };
        if let Values::Listed(parts) = &values {
            let is_twice = |(i, part): &(usize, &String)| parts[..*i].contains(part);
            if let Some((_, twice)) = parts.iter().enumerate().find(is_twice) {
                bail!("--sweep {text}: {twice} is listed twice");
            }
            if key.is_empty() || parts.iter().any(String::is_empty) {
                bail!(expected());
            }
        }
        Ok(Self { text: text.into(), key: key.into(), values, condition })
    }

    /// Checks that the dimension fits to those `before` it.
    pub(super) fn check_beside(&self, before: &[Self]) -> Result<()> {
        let is_same = |other: &&Self| {
            let apart = matches!(
                (&self.condition, &other.condition),
                (Some(own), Some(other)) if own.key == other.key && own.value != other.value
            );
            other.key == self.key && !apart
        };
        if before.iter().any(|other| is_same(&other)) {
            bail!("--sweep {}: {} is swept already", self.text, self.key);
        }
        let Some(Condition { key, value }) = &self.condition else { return Ok(()) };
        let lists = |other: &Self| match &other.values {
            Values::Listed(values) => other.key == *key && values.contains(value),
            Values::Drawn(_) => false,
        };
        if before.iter().any(lists) {
            return Ok(());
        }
        bail!("--sweep {}: no --sweep before it lists {key}={value}", self.text)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn values(&self) -> &Values {
        &self.values
    }

    pub(super) fn is_drawn(&self) -> bool {
        matches!(self.values, Values::Drawn(_))
    }

    /// Whether the setting has the value that the key is swept for.
    pub(super) fn applies_to(&self, setting: &Setting) -> bool {
        let holds = |Condition { key, value }: &Condition| {
            setting.iter().any(|(known, own)| known == key && own == value)
        };
        self.condition.as_ref().is_none_or(holds)
    }

    /// The setting with a value of this key.
    pub(super) fn with(&self, setting: &Setting, value: &str) -> Setting {
        setting.iter().cloned().chain([(self.key.clone(), value.to_string())]).collect()
    }
}

impl Condition {
    /// `KEY=VALUE`, the end of `text`.
    fn parse(text: &str, condition: &str) -> Result<Self> {
        match condition.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Self { key: key.trim().into(), value: value.trim().into() })
            }
            _ => bail!("--sweep {text}: expected key=value after \" if \""),
        }
    }
}

/// The values of `A,B,C`; a list in brackets is one value.
fn listed(values: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in values.chars() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        match (c, depth, parts.last_mut()) {
            (',', 0, _) => parts.push(String::new()),
            (_, _, Some(part)) => part.push(c),
            _ => {}
        }
    }
    parts.iter().map(|part| part.trim().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_values_are_separated_by_commas_outside_of_brackets() {
        let found = Dimension::parse("hidden=[64, 64],[32] , []").unwrap();
        let Values::Listed(values) = found.values() else { panic!("{found:?}") };
        assert_eq!(
            (found.key(), &values[..]),
            ("hidden", &["[64, 64]", "[32]", "[]"].map(String::from)[..])
        );
        for (text, words) in [
            ("gamma", "expected key=value"),
            ("gamma=", "expected key=value"),
            ("gamma=0.9,", "expected key=value"),
            ("gamma=0.9,0.8,0.9", "0.9 is listed twice"),
            ("gamma=0.9 if algorithm", "expected key=value after \" if \""),
            ("gamma=loguniform(1,2)", "there is no range loguniform"),
            (
                "total_steps=1,2",
                "total_steps can't be swept: all runs of a fleet have the same length",
            ),
        ] {
            let error = Dimension::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
