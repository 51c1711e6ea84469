//! Runs with the same values of swept keys.

use std::collections::HashMap;
use warp_core::toml::Table;

/// The places of each combination of swept values in `all`, in the order in which they first come.
#[must_use]
pub fn combinations<'a>(all: impl Iterator<Item = &'a Table>) -> Vec<(&'a Table, Vec<usize>)> {
    let mut found: Vec<(&Table, Vec<usize>)> = Vec::new();
    // Tables can be neither hashed nor ordered: there may be as many combinations as runs.
    let mut known: HashMap<String, usize> = HashMap::new();
    for (place, swept) in all.enumerate() {
        // Runs of one combination follow each other, most often.
        if let Some((_, places)) = found.last_mut().filter(|(last, _)| *last == swept) {
            places.push(place);
            continue;
        }
        let index = *known.entry(format!("{swept:?}")).or_insert(found.len());
        match found.get_mut(index) {
            Some((_, places)) => places.push(place),
            None => found.push((swept, vec![place])),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_wherever_they_are() {
        let tables = ["a = 1", "a = 1", "a = 2.5", "a = 1", "", "a = 2.5\nb = \"x\"", "a = 2.5"];
        let tables = tables.map(|text| text.parse::<Table>().unwrap());
        let found = combinations(tables.iter());
        let expected = [(0, vec![0, 1, 3]), (2, vec![2, 6]), (4, vec![4]), (5, vec![5])];
        assert_eq!(found, expected.map(|(first, places)| (&tables[first], places)));
    }
}
