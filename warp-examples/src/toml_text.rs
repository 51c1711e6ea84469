//! The text of a configuration: read, with the line that an error is about.

use anyhow::Result;
use warp_core::toml::Table;
use warp_core::toml::de::{DeTable, DeValue};

/// TOML, its error in one line.
///
/// # Errors
/// Where and why the text is not TOML.
pub fn parse(text: &str) -> Result<Table> {
    text.parse::<Table>().map_err(|e| {
        let line =
            e.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        anyhow::anyhow!("line {line}: {}", e.message().replace('\n', ", "))
    })
}

/// A key of a file: its path with dots, and the line that it stands in, from 1.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    path: String,
    line: usize,
}

/// The line of `text`, a TOML file, with the key that `message` begins with; nothing if it begins with none of the
/// file's, or with one that `overrides` gives another value.
#[must_use]
pub(crate) fn line_of(message: &str, text: &str, overrides: &Table) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut keys = Vec::new();
    collect(table.get_ref(), "", text, &mut keys);
    let subject = message.strip_prefix("unknown key \"").unwrap_or(message);
    let is_subject = |key: &&Key| {
        let rest = subject.strip_prefix(&key.path);
        rest.is_some_and(|rest| [" = ", ": ", "\""].iter().any(|end| rest.starts_with(end)))
    };
    let key = keys.iter().find(is_subject)?;
    (!has(overrides, &key.path)).then_some(key.line)
}

fn collect(table: &DeTable<'_>, prefix: &str, text: &str, keys: &mut Vec<Key>) {
    for (key, value) in table {
        let path = format!("{prefix}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            collect(inner, &format!("{path}."), text, keys);
        }
        let before = text.get(..key.span().start).unwrap_or_default();
        keys.push(Key { path, line: 1 + before.matches('\n').count() });
    }
}

/// Whether `table` has a value at `path`, whose parts dots separate.
fn has(table: &Table, path: &str) -> bool {
    match path.split_once('.') {
        Some((name, rest)) => {
            table.get(name).and_then(|inner| inner.as_table()).is_some_and(|inner| has(inner, rest))
        }
        None => table.contains_key(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# A run.\nenv_id = \"cartpole\"\nfoo = 1\nenv.gravity = 3\n\n\
        [policy.pole]\ngroups = [\"pole\"]\nlrr = 2\n";

    #[test]
    fn a_broken_file_is_refused_with_its_line() {
        assert!(format!("{:#}", parse("a = 1\nb = = 2\n").unwrap_err()).starts_with("line 2: "));
    }

    #[test]
    fn a_message_is_placed_by_the_key_that_it_begins_with() {
        let line = |message: &str| line_of(message, FILE, &Table::new());
        assert_eq!(line("unknown key \"foo\"; the nearest known key is \"fo\""), Some(3));
        assert_eq!(line("env.gravity = 3: expected a word"), Some(4));
        assert_eq!(line("unknown key \"policy.pole.lrr\""), Some(8));
        assert_eq!(line("policy.pole: it acts for nobody"), Some(6));
        for other in ["fo = 1: no", "foot = 1: no", "there is no foo", "gamma = 2: no", ""] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn what_the_command_line_gives_is_not_the_files() {
        let overrides = "foo = 2\nenv.gravity = 4".parse::<Table>().unwrap();
        let line = |message: &str| line_of(message, FILE, &overrides);
        assert_eq!((line("foo = 2: no"), line("env.gravity = 4: no")), (None, None));
        assert_eq!(line("env_id = 3: no"), Some(2));
    }
}
