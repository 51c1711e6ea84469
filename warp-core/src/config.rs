//! Configurations: plain structs whose keys, defaults and comments are declared once.
//!
//! [`config!`](macro@crate::config) turns a struct with defaults and doc comments into a [`Config`]: the
//! same text is the rustdoc of the field, the comment that `warp config` prints and the list of
//! known keys that a misspelt one is compared with.

use crate::error::{Error, Result};

/// One key of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigField {
    /// The key.
    pub name: &'static str,
    /// What it means, from the field's doc comment.
    pub doc: &'static str,
}

/// A set of keys with defaults that can be read from and written to TOML.
pub trait Config: Default + Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Every key, in the order of declaration.
    fn fields() -> &'static [ConfigField];

    /// The value of `key`; `None` if the key is unknown or unset.
    fn get(&self, key: &str) -> Option<toml::Value>;

    /// Sets one key.
    ///
    /// # Errors
    /// An unknown key (with the nearest known one) or a value of the wrong type.
    fn set(&mut self, key: &str, value: &toml::Value) -> Result<()>;

    /// The defaults, overridden by `table`.
    ///
    /// # Errors
    /// As [`Config::set`].
    fn from_table(table: &toml::Table) -> Result<Self> {
        let mut config = Self::default();
        for (key, value) in table {
            config.set(key, value)?;
        }
        Ok(config)
    }

    /// All keys that are set, in the order of declaration.
    fn to_table(&self) -> toml::Table {
        let set = |field: &ConfigField| Some((field.name.to_string(), self.get(field.name)?));
        Self::fields().iter().filter_map(set).collect()
    }
}

/// Refuses a `value` of `key` outside `low..=high`, NaN included.
///
/// # Errors
/// [`Error::InvalidValue`] with the range in its reason.
pub fn in_range<T>(key: &str, value: T, low: T, high: T) -> Result<()>
where
    T: PartialOrd + std::fmt::Display,
{
    if low <= value && value <= high {
        return Ok(());
    }
    Err(Error::invalid(key, value, format!("must lie between {low} and {high}")))
}

/// The error for `key`, which is none of `known`.
#[must_use]
pub fn unknown_key<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    Error::UnknownKey { key: key.into(), nearest: nearest(key, known) }
}

/// The one of `known` that `word` may be a misspelling of: at most a third of its letters are added,
/// missing, changed or swapped with their neighbour.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let slips = |known: &str| strsim::osa_distance(word, known);
    let near = |known: &&str| slips(known) * 3 <= known.chars().count();
    known.into_iter().filter(near).min_by_key(|known| slips(known)).map(String::from)
}

/// A type that can be the value of a key.
pub trait ConfigValue: Sized {
    /// As TOML; `None` for an unset optional value.
    fn to_value(&self) -> Option<toml::Value>;

    /// From TOML.
    ///
    /// # Errors
    /// What was expected instead, as a noun phrase.
    fn from_value(value: &toml::Value) -> std::result::Result<Self, String>;
}

impl ConfigValue for bool {
    fn to_value(&self) -> Option<toml::Value> {
        Some((*self).into())
    }
    fn from_value(value: &toml::Value) -> std::result::Result<Self, String> {
        value.as_bool().ok_or_else(|| "true or false".into())
    }
}

impl ConfigValue for String {
    fn to_value(&self) -> Option<toml::Value> {
        Some(self.as_str().into())
    }
    fn from_value(value: &toml::Value) -> std::result::Result<Self, String> {
        // A date needs no quotes in TOML.
        let date = || value.as_datetime().map(ToString::to_string);
        value.as_str().map(str::to_string).or_else(date).ok_or_else(|| "a string in quotes".into())
    }
}

macro_rules! whole_numbers {
    ($($ty:ty),*) => {$(
        impl ConfigValue for $ty {
            fn to_value(&self) -> Option<toml::Value> {
                // TOML's integers are i64; larger values are refused by `from_value`.
                Some(i64::try_from(*self).unwrap_or(i64::MAX).into())
            }
            fn from_value(value: &toml::Value) -> std::result::Result<Self, String> {
                // 1e6 is how people write a million, and TOML reads it as a float.
                let whole = value.as_integer().or_else(|| {
                    let float = value.as_float()?;
                    (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
                });
                let expected = || {
                    let high = i64::try_from(<$ty>::MAX).unwrap_or(i64::MAX);
                    format!("a whole number from {} to {high}", <$ty>::MIN)
                };
                whole.and_then(|w| <$ty>::try_from(w).ok()).ok_or_else(expected)
            }
        }
    )*};
}
whole_numbers!(u32, u64, i32, usize);

impl ConfigValue for f64 {
    fn to_value(&self) -> Option<toml::Value> {
        Some((*self).into())
    }
    fn from_value(value: &toml::Value) -> std::result::Result<Self, String> {
        let number = value.as_float().or_else(|| value.as_integer().map(|i| i as f64));
        number.filter(|n| n.is_finite()).ok_or_else(|| "a finite number".into())
    }
}

impl ConfigValue for f32 {
    fn to_value(&self) -> Option<toml::Value> {
        // Through the shortest decimal that reads back to the same f32: 0.1, not 0.10000000149.
        self.to_string().parse::<f64>().ok().map(toml::Value::Float)
    }
    fn from_value(value: &toml::Value) -> std::result::Result<Self, String> {
        let number = f64::from_value(value)? as f32;
        if number.is_finite() { Ok(number) } else { Err("a number that fits in an f32".into()) }
    }
}

impl<T: ConfigValue> ConfigValue for Vec<T> {
    fn to_value(&self) -> Option<toml::Value> {
        Some(toml::Value::Array(self.iter().filter_map(ConfigValue::to_value).collect()))
    }
    fn from_value(value: &toml::Value) -> std::result::Result<Self, String> {
        let items = value.as_array().ok_or("a list in square brackets")?;
        let each =
            |item| T::from_value(item).map_err(|e| format!("a list in which each item is {e}"));
        items.iter().map(each).collect()
    }
}

impl<T: ConfigValue> ConfigValue for Option<T> {
    fn to_value(&self) -> Option<toml::Value> {
        self.as_ref().and_then(ConfigValue::to_value)
    }
    fn from_value(value: &toml::Value) -> std::result::Result<Self, String> {
        T::from_value(value).map(Some)
    }
}

/// Declares a configuration: a struct with a default and a doc comment per key.
///
/// ```
/// warp_core::config! {
///     /// How the pole falls.
///     pub struct PoleConfig {
///         /// Acceleration of gravity, m/s^2.
///         pub gravity: f32 = 9.8,
///         /// Where it starts; unset: drawn.
///         pub start: Option<f32> = None,
///     }
/// }
/// use warp_core::Config;
/// let config = PoleConfig::from_table(&"gravity = 3.7".parse().unwrap()).unwrap();
/// assert_eq!(config.gravity, 3.7);
/// let error = PoleConfig::from_table(&"gravty = 3.7".parse().unwrap()).unwrap_err();
/// assert_eq!(error.to_string(), "unknown key \"gravty\"; the nearest known key is \"gravity\"");
/// ```
#[macro_export]
macro_rules! config {
    (
        $(#[doc = $about:expr])*
        $vis:vis struct $name:ident {
            $($(#[doc = $doc:expr])* $fvis:vis $field:ident : $ty:ty = $default:expr),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq)]
        $vis struct $name {
            $($(#[doc = $doc])* $fvis $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::Config for $name {
            fn fields() -> &'static [$crate::ConfigField] {
                &[$($crate::ConfigField {
                    name: stringify!($field),
                    doc: concat!($($doc, "\n"),*),
                }),*]
            }

            fn get(&self, key: &str) -> Option<$crate::toml::Value> {
                match key {
                    $(stringify!($field) => $crate::ConfigValue::to_value(&self.$field),)*
                    _ => None,
                }
            }

            fn set(&mut self, key: &str, value: &$crate::toml::Value) -> $crate::Result<()> {
                let wrong = |expected: String| $crate::Error::WrongType {
                    key: key.to_string(),
                    value: value.to_string(),
                    expected,
                };
                match key {
                    $(stringify!($field) => {
                        self.$field = $crate::ConfigValue::from_value(value).map_err(wrong)?;
                    })*
                    _ => return Err($crate::config::unknown_key(key, [$(stringify!($field)),*])),
                }
                Ok(())
            }
        }
    };
}

/// Declares an enum whose variants are the words a key may hold.
///
/// ```
/// warp_core::choices! {
///     /// Which rules.
///     pub enum Rules {
///         /// The usual ones.
///         Usual = "usual",
///         /// The old ones.
///         Old = "old",
///     }
/// }
/// use warp_core::ConfigValue;
/// assert_eq!(Rules::from_value(&"old".into()), Ok(Rules::Old));
/// assert_eq!(Rules::from_value(&"odd".into()).unwrap_err(), "one of \"usual\", \"old\"");
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[doc = $about:expr])*
        $vis:vis enum $name:ident { $($(#[doc = $doc:expr])* $variant:ident = $word:literal),* $(,)? }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name { $($(#[doc = $doc])* $variant,)* }

        impl $crate::ConfigValue for $name {
            fn to_value(&self) -> Option<$crate::toml::Value> {
                Some(match self { $($name::$variant => $word,)* }.into())
            }
            fn from_value(value: &$crate::toml::Value) -> ::std::result::Result<Self, String> {
                match value.as_str() {
                    $(Some($word) => Ok($name::$variant),)*
                    _ => Err(format!("one of {}", [$(concat!("\"", $word, "\"")),*].join(", "))),
                }
            }
        }
    };
}
