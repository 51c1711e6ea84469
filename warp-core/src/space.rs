//! Spaces: what an observation or an action may be.
//!
//! The framework stores every observation flat; [`Space::flatten`] gives the offset of each part of
//! a dictionary. Keys are sorted by bytes, and the key `action_mask` is kept apart.

use crate::error::{Error, Result};

/// The dictionary key whose part of the observation is a mask over actions, not an input.
pub const ACTION_MASK: &str = "action_mask";

/// The set of values that an observation or an action may take.
#[derive(Debug, Clone, PartialEq)]
pub enum Space {
    /// One of `n` choices, 0 to n - 1, i32.
    Discrete {
        /// Number of choices, at least 1.
        n: usize,
    },
    /// One choice per head, i32.
    MultiDiscrete {
        /// Number of choices of each head, each at least 1.
        sizes: Vec<usize>,
    },
    /// Real numbers within bounds, f32.
    Box {
        /// Lowest value of each element; may be negative infinity.
        low: Vec<f32>,
        /// Highest value of each element; may be infinity.
        high: Vec<f32>,
        /// Shape; its product is the number of elements.
        shape: Vec<usize>,
    },
    /// Named parts.
    Dict(Vec<(String, Space)>),
}

/// The offsets of the parts of a flattened space.
#[derive(Debug, Clone, PartialEq)]
pub struct Flat {
    /// Number of f32 in one flattened value, without the action mask.
    pub width: usize,
    /// The parts, in storage order.
    pub entries: Vec<FlatEntry>,
    /// Width of the action mask, if the space has one.
    pub action_mask: Option<usize>,
}

/// One part of a flattened space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlatEntry {
    /// Keys from the outermost dictionary inwards, joined by `/`; empty for a space without keys.
    pub path: String,
    /// First element.
    pub offset: usize,
    /// Number of elements.
    pub width: usize,
}

impl Space {
    /// A box of `shape` with the same bounds everywhere.
    #[must_use]
    pub fn boxed(low: f32, high: f32, shape: &[usize]) -> Space {
        let n = shape.iter().product();
        Space::Box { low: vec![low; n], high: vec![high; n], shape: shape.to_vec() }
    }

    /// A vector of `n` unbounded real numbers.
    #[must_use]
    pub fn unbounded(n: usize) -> Space {
        Space::boxed(f32::NEG_INFINITY, f32::INFINITY, &[n])
    }

    /// The sizes of the discrete heads, empty for a box or a dictionary.
    #[must_use]
    pub fn head_sizes(&self) -> Vec<usize> {
        match self {
            Space::Discrete { n } => vec![*n],
            Space::MultiDiscrete { sizes } => sizes.clone(),
            Space::Box { .. } | Space::Dict(_) => Vec::new(),
        }
    }

    /// Number of values in one action: heads of a discrete space, elements of a box.
    #[must_use]
    pub fn action_width(&self) -> usize {
        match self {
            Space::Box { low, .. } => low.len(),
            Space::Discrete { .. } => 1,
            Space::MultiDiscrete { sizes } => sizes.len(),
            Space::Dict(_) => 0,
        }
    }

    /// The flat layout: dictionaries in byte order of their keys, discrete values one-hot.
    #[must_use]
    pub fn flatten(&self) -> Flat {
        let mut flat = Flat { width: 0, entries: Vec::new(), action_mask: None };
        self.flatten_into("", &mut flat);
        flat
    }

    fn flatten_into(&self, path: &str, flat: &mut Flat) {
        if let Space::Dict(parts) = self {
            for (key, part) in sorted(parts) {
                if path.is_empty() && key == ACTION_MASK {
                    flat.action_mask = Some(part.element_count());
                } else {
                    let inner =
                        if path.is_empty() { key.to_string() } else { format!("{path}/{key}") };
                    part.flatten_into(&inner, flat);
                }
            }
        } else {
            let width = self.element_count();
            flat.entries.push(FlatEntry { path: path.into(), offset: flat.width, width });
            flat.width += width;
        }
    }

    /// Number of f32 that one value takes when flattened, masks included.
    fn element_count(&self) -> usize {
        match self {
            Space::Discrete { n } => *n,
            Space::MultiDiscrete { sizes } => sizes.iter().sum(),
            Space::Box { low, .. } => low.len(),
            Space::Dict(parts) => parts.iter().map(|(_, p)| p.element_count()).sum(),
        }
    }

    /// Whether `values` is a flattened value of this space: as long as it, within its bounds.
    #[must_use]
    pub fn contains_flat(&self, values: &[f32]) -> bool {
        let mut rest = values;
        self.take_own(&mut rest, true) && rest.is_empty()
    }

    /// Takes this space's elements off the front of `rest` and says whether they are within it.
    fn take_own(&self, rest: &mut &[f32], outermost: bool) -> bool {
        if let Space::Dict(parts) = self {
            let is_mask = |key: &str| outermost && key == ACTION_MASK;
            return sorted(parts).all(|(key, part)| is_mask(key) || part.take_own(rest, false));
        }
        let Some((own, others)) = rest.split_at_checked(self.element_count()) else { return false };
        *rest = others;
        match self {
            Space::Box { low, high, .. } => {
                low.len() == high.len()
                    && own.iter().zip(low).zip(high).all(|((v, l), h)| v >= l && v <= h)
            }
            _ => own.iter().all(|v| *v == 0.0 || *v == 1.0),
        }
    }

    /// Checks that the space is not empty and its bounds are ordered.
    ///
    /// # Errors
    /// A sentence with the offending value.
    pub fn validate(&self, env: &str) -> Result<()> {
        let fail = |reason: String| Err(Error::InvalidSpec { env: env.into(), reason });
        match self {
            Space::Discrete { n: 0 } => fail("a Discrete space has 0 choices".into()),
            Space::Discrete { .. } => Ok(()),
            Space::MultiDiscrete { sizes } if sizes.is_empty() || sizes.contains(&0) => {
                fail(format!("a MultiDiscrete space has sizes {sizes:?}; each must be at least 1"))
            }
            Space::MultiDiscrete { .. } => Ok(()),
            Space::Box { low, high, shape } => {
                let n: usize = shape.iter().product();
                if n != low.len() || n != high.len() {
                    return fail(format!(
                        "a Box of shape {shape:?} has {} low and {} high bounds",
                        low.len(),
                        high.len()
                    ));
                }
                match low.iter().zip(high).find(|(l, h)| l.partial_cmp(h).is_none_or(|o| o.is_gt()))
                {
                    Some((l, h)) => fail(format!("a Box has low bound {l} and high bound {h}")),
                    None => Ok(()),
                }
            }
            Space::Dict(parts) => {
                for (i, (key, part)) in parts.iter().enumerate() {
                    if parts[..i].iter().any(|(other, _)| other == key) {
                        return fail(format!("a Dict space has the key \"{key}\" twice"));
                    }
                    part.validate(env)?;
                }
                Ok(())
            }
        }
    }
}

/// The parts of a dictionary in byte order of their keys.
fn sorted(parts: &[(String, Space)]) -> impl Iterator<Item = (&str, &Space)> {
    let mut sorted: Vec<_> = parts.iter().map(|(key, part)| (key.as_str(), part)).collect();
    sorted.sort_by_key(|(key, _)| key.as_bytes());
    sorted.into_iter()
}

impl std::fmt::Display for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Space::Discrete { n } => write!(f, "Discrete({n})"),
            Space::MultiDiscrete { sizes } => write!(f, "MultiDiscrete{sizes:?}"),
            Space::Box { shape, .. } => write!(f, "Box{shape:?}"),
            Space::Dict(parts) => {
                write!(f, "Dict(")?;
                for (i, (key, part)) in parts.iter().enumerate() {
                    write!(f, "{}{key}: {part}", if i == 0 { "" } else { ", " })?;
                }
                write!(f, ")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dict_is_flattened_in_byte_order_and_its_mask_is_kept_apart() {
        let inner = Space::Dict(vec![
            ("b".into(), Space::Discrete { n: 3 }),
            ("Z".into(), Space::unbounded(1)),
        ]);
        let space = Space::Dict(vec![
            ("pos".into(), Space::unbounded(2)),
            (ACTION_MASK.into(), Space::boxed(0.0, 1.0, &[5])),
            ("inner".into(), inner),
        ]);
        let flat = space.flatten();
        let seen: Vec<_> =
            flat.entries.iter().map(|e| (e.path.as_str(), e.offset, e.width)).collect();
        assert_eq!(seen, [("inner/Z", 0, 1), ("inner/b", 1, 3), ("pos", 4, 2)]);
        assert_eq!((flat.width, flat.action_mask), (6, Some(5)));
    }

    #[test]
    fn a_contradictory_space_is_refused_with_its_value() {
        let refused = |space: Space| space.validate("toy").unwrap_err().to_string();
        assert!(refused(Space::Discrete { n: 0 }).contains("0 choices"));
        assert!(refused(Space::MultiDiscrete { sizes: vec![3, 0] }).contains("[3, 0]"));
        assert!(refused(Space::boxed(2.0, 1.0, &[1])).contains("low bound 2"));
        assert!(refused(Space::boxed(f32::NAN, 1.0, &[1])).contains("NaN"));
        let bad = Space::Box { low: vec![0.0], high: vec![1.0], shape: vec![2] };
        assert!(refused(bad).contains("shape [2]"));
        let twice =
            Space::Dict(vec![("a".into(), Space::unbounded(1)), ("a".into(), Space::unbounded(1))]);
        assert!(refused(twice).contains("\"a\" twice"));
    }

    #[test]
    fn bounds_are_checked_element_by_element() {
        let space = Space::boxed(-1.0, 1.0, &[2]);
        assert!(space.contains_flat(&[0.5, -1.0]));
        assert!(!space.contains_flat(&[0.5, 1.5]));
        assert!(!space.contains_flat(&[f32::NAN, 0.0]));
        assert!(!space.contains_flat(&[0.0]) && !space.contains_flat(&[0.0; 3]));
        let nested = Space::Dict(vec![("a".into(), Space::Dict(vec![("b".into(), space)]))]);
        assert!(nested.contains_flat(&[0.0, 1.0]) && !nested.contains_flat(&[0.0, 2.0]));
    }
}
