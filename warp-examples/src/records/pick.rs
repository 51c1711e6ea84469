//! Some numbers of a JSON object, by their keys; all else is passed over and not kept.

use super::history::Keys;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The numbers in `line` at each of `keys`, where there is one; `None` if `line` is not whole.
pub(super) fn pick(line: &[u8], keys: &[Keys<'_>]) -> Option<Vec<Option<f64>>> {
    let mut found = vec![None; keys.len()];
    let mut json = serde_json::Deserializer::from_slice(line);
    let all: Vec<usize> = (0..keys.len()).collect();
    Value { keys, wanted: &all, depth: 0, found: &mut found }.deserialize(&mut json).ok()?;
    json.end().ok()?;
    Some(found)
}

/// A value at some depth.
struct Value<'a> {
    keys: &'a [Keys<'a>],
    /// Which of the keys lead here.
    wanted: &'a [usize],
    depth: usize,
    found: &'a mut [Option<f64>],
}

impl Value<'_> {
    fn keep(self, number: f64) {
        for i in self.wanted.iter().filter(|i| self.keys[**i].len() == self.depth) {
            self.found[*i] = Some(number);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.keep(number);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.keep(number as f64);
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.keep(number as f64);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { keys, wanted, depth, found } = self;
        while let Some(wanted) = entries.next_key_seed(Key { keys, wanted, depth })? {
            match wanted.is_empty() {
                true => drop(entries.next_value::<IgnoredAny>()?),
                false => entries.next_value_seed(Value {
                    keys,
                    wanted: &wanted,
                    depth: depth + 1,
                    found: &mut *found,
                })?,
            }
        }
        Ok(())
    }
}

/// A key at some depth, which becomes those that lead on through it.
struct Key<'a> {
    keys: &'a [Keys<'a>],
    wanted: &'a [usize],
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Vec<usize>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Vec<usize>, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Vec<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Vec<usize>, E> {
        let leads = |i: &usize| self.keys[*i].get(self.depth).is_some_and(|own| *own == key);
        Ok(self.wanted.iter().copied().filter(leads).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_keys() {
        let keys =
            [vec!["a"], vec!["b", "c"], vec!["b", "d"], vec!["b"], vec!["x"], vec!["s", "c"]];
        let line = br#" {"z":[1,{"a":9}],"a":-3,"b":{"c":0.1,"d":null,"a":7},"x":true,"s":"\"c"} "#;
        let found = [Some(-3.0), Some(0.1), None, None, None, None];
        assert_eq!(pick(line, &keys).unwrap(), found);
        assert_eq!(pick(b"7", &keys).unwrap(), [None; 6]);
        assert_eq!(
            pick(br#"{"a":18446744073709551615}"#, &keys[..1]).unwrap(),
            [Some(1.8446744073709552e19)]
        );
        for line in [&br#"{"a":1"#[..], br#"{"a":1}{}"#, b"", br#"{"a":tru}"#] {
            assert_eq!(pick(line, &keys), None);
        }
    }
}
