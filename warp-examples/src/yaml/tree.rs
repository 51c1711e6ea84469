//! YAML as a tree whose nodes know their lines, and nothing more than run configurations use: one
//! document of mappings, lists and plain values. Anchors, aliases, tags and keys that are no text
//! are refused.

use anyhow::{Result, anyhow, bail, ensure};
use granit_parser::{Event, Parser, ScalarStyle, Span};
use warp_core::toml;

/// Collections inside each other at most; run configurations have four.
const MAX_DEPTH: usize = 16;
/// Characters of a value that a sentence shows.
const MAX_SHOWN: usize = 80;

/// A value and the line that it begins in, counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Nothing, or `null`.
    Empty,
    /// A truth value, number or text.
    Scalar(toml::Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its line, and what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: Node,
}

impl Node {
    /// As TOML; none for a mapping or where something is empty.
    pub(super) fn to_toml(&self) -> Option<toml::Value> {
        match &self.value {
            Value::Scalar(value) => Some(value.clone()),
            Value::List(items) => {
                let items = items.iter().map(Node::to_toml).collect::<Option<Vec<_>>>()?;
                Some(items.into())
            }
            Value::Empty | Value::Map(_) => None,
        }
    }
}

/// In one line, shortened if need be: for sentences.
impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.value, self.to_toml()) {
            (_, Some(toml::Value::String(text))) => write!(f, "{:?}", shortened(&text)),
            (_, Some(value)) => f.write_str(&shortened(&value.to_string())),
            (Value::Map(_), _) => f.write_str("a mapping of keys"),
            (Value::List(_), _) => f.write_str("a list of such"),
            _ => f.write_str("nothing"),
        }
    }
}

fn shortened(text: &str) -> String {
    let end = text.char_indices().nth(MAX_SHOWN).map_or(text.len(), |(at, _)| at);
    let more = if end < text.len() { "..." } else { "" };
    text[..end].replace(char::is_control, " ") + more
}

/// A collection that has not ended.
enum Open {
    List(usize, Vec<Node>),
    Map(usize, Vec<Entry>, Option<(String, usize)>),
}

/// The document in `text`.
///
/// # Errors
/// Where `text` is no YAML, or more than a run configuration needs; with the line.
pub(super) fn parse(text: &str) -> Result<Node> {
    let mut open: Vec<Open> = Vec::new();
    let mut root: Option<Node> = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| {
            let line = e.marker().line().max(1);
            anyhow!("line {line}: {}", e.kind().to_string().replace('\n', " "))
        })?;
        let line = span.start.line().max(1);
        ensure!(open.len() <= MAX_DEPTH, "line {line}: more than {MAX_DEPTH} levels are nested");
        let Some(node) = next_node(event, &span, line, &mut open)? else { continue };
        match open.last_mut() {
            Some(parent) => put(parent, node)?,
            None if root.is_some() => bail!("line {line}: a second document begins"),
            None => root = Some(node),
        }
    }
    root.ok_or_else(|| anyhow!("line 1: the file is empty"))
}

/// The node that `event` completes, if it does.
fn next_node(
    event: Event<'_>,
    span: &Span,
    line: usize,
    open: &mut Vec<Open>,
) -> Result<Option<Node>> {
    if let Some(tag) = event.tag() {
        bail!("line {line}: the tag \"{tag}\" is not supported; a plain value is needed");
    }
    let node = |line, value| Ok(Some(Node { line, value }));
    match event {
        Event::Scalar(text, style, ..) => {
            // A key is a text, whatever it looks like.
            let is_key = matches!(open.last(), Some(Open::Map(_, _, None)));
            let is_text = is_key || style != ScalarStyle::Plain;
            node(line, if is_text { Value::Scalar(text.as_ref().into()) } else { scalar(&text) })
        }
        Event::SequenceStart(..) => {
            open.push(Open::List(line, Vec::new()));
            Ok(None)
        }
        Event::MappingStart(..) => {
            open.push(Open::Map(line, Vec::new(), None));
            Ok(None)
        }
        Event::SequenceEnd | Event::MappingEnd => match open.pop() {
            Some(Open::List(line, items)) => node(line, Value::List(items)),
            Some(Open::Map(line, entries, _)) => node(line, Value::Map(entries)),
            None => bail!("line {line}: a collection ends that was never started"),
        },
        Event::Alias(_) => {
            let line = span.start.line();
            bail!("line {line}: aliases (*name) are not supported; write the value out")
        }
        _ => Ok(None),
    }
}

/// Puts a complete node where it belongs.
fn put(parent: &mut Open, node: Node) -> Result<()> {
    match parent {
        Open::List(_, items) => items.push(node),
        Open::Map(_, entries, key) => match key.take() {
            Some((key, line)) => entries.push(Entry { key, line, node }),
            None => {
                let name = match node.value {
                    Value::Scalar(toml::Value::String(name)) => name,
                    _ => String::new(),
                };
                ensure!(
                    !name.is_empty() && !name.contains(char::is_control),
                    "line {}: a key must be a word",
                    node.line
                );
                if let Some(first) = entries.iter().find(|entry| entry.key == name) {
                    bail!("line {}: key \"{name}\" is already in line {}", node.line, first.line);
                }
                *key = Some((name, node.line));
            }
        },
    }
    Ok(())
}

/// A plain scalar by YAML's core schema, and as PyYAML has it where both agree: truth values with
/// any of their usual spellings, whole numbers in decimal, real numbers, else a text.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Empty,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return Value::Scalar(true.into());
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Value::Scalar(false.into());
        }
        ".inf" | ".Inf" | "+.inf" => return Value::Scalar(f64::INFINITY.into()),
        "-.inf" | "-.Inf" => return Value::Scalar(f64::NEG_INFINITY.into()),
        ".nan" | ".NaN" => return Value::Scalar(f64::NAN.into()),
        _ => {}
    }
    Value::Scalar(number(text).unwrap_or_else(|| text.into()))
}

/// The number that `text` spells, if it does. 010 is none: PyYAML reads it as eight, others as ten.
fn number(text: &str) -> Option<toml::Value> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    if digits.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        let is_octal = digits.len() > 1 && digits.starts_with('0');
        return match plain.parse::<i64>() {
            _ if is_octal => None,
            Ok(whole) => Some(whole.into()),
            Err(_) => plain.parse::<f64>().ok().map(Into::into),
        };
    }
    let is_real = digits.bytes().all(|b| b.is_ascii_digit() || b".eE+-_".contains(&b));
    plain.parse::<f64>().ok().filter(|_| is_real).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> String {
        parse(&format!("[{text}]")).unwrap().to_toml().unwrap().to_string()
    }

    fn refused(text: &str) -> String {
        format!("{:#}", parse(text).unwrap_err())
    }

    #[test]
    fn plain_values_are_what_python_makes_of_them() {
        assert_eq!(value("1, -2, +3, 1_000, 0"), "[1, -2, 3, 1000, 0]");
        assert_eq!(value("1.5, -.5, 2., 1e6, 2.5e-3"), "[1.5, -0.5, 2.0, 1000000.0, 0.0025]");
        assert_eq!(value("True, false, yes, Off"), "[true, false, true, false]");
        assert_eq!(
            value("A2C, 'True', \"1\", 010, 1:30"),
            r#"["A2C", "True", "1", "010", "1:30"]"#
        );
        assert_eq!(value("[1, 2], [3, 4.5]"), "[[1, 2], [3, 4.5]]");
        assert_eq!(value("99999999999999999999, .inf"), "[100000000000000000000.0, inf]");
        assert_eq!(parse("a: ~").unwrap(), parse("a: null").unwrap());
    }

    #[test]
    fn nodes_know_their_lines() {
        let root = parse("# a comment\na: 1\n\nb: # another\n    c: [2,\n        3]\n").unwrap();
        let Value::Map(entries) = &root.value else { panic!("{root:?}") };
        assert_eq!((entries[0].line, entries[1].line), (2, 4));
        let Value::Map(inner) = &entries[1].node.value else { panic!("{entries:?}") };
        assert_eq!((inner[0].line, inner[0].node.to_string()), (5, "[2, 3]".into()));
    }

    #[test]
    fn sentences_show_a_value_in_one_short_line() {
        let shown = |text: &str| parse(text).unwrap().to_string();
        assert_eq!(shown("|\n  a\n  b\n"), "\"a b \"");
        assert_eq!(shown(&"x".repeat(500)).len(), 85);
        assert_eq!(shown("{a: 1}"), "a mapping of keys");
    }

    #[test]
    fn what_is_more_than_needed_is_refused_with_its_line() {
        assert_eq!(refused(""), "line 1: the file is empty");
        assert_eq!(refused("a: 1\nb: 2\na: 3"), "line 3: key \"a\" is already in line 1");
        assert!(refused("a: &x 1\nb: *x").starts_with("line 2: aliases"));
        assert!(refused("a: !!str 1").starts_with("line 1: the tag"));
        assert!(refused("a: 1\n---\nb: 2").contains("a second document"));
        for key in ["[1]", "\"a\\nb\"", "''", "{a: 1}"] {
            assert_eq!(refused(&format!("{key}: 2")), "line 1: a key must be a word");
        }
        assert!(refused("a: [1, 2").starts_with("line "));
        assert!(refused("a: 1\n  b: 2\n").starts_with("line 2: "));
        assert!(refused("a:\n\t- 1\n").starts_with("line "));
        let nested: String = (0..30).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        assert!(refused(&nested).contains("more than 16 levels are nested"));
        assert!(refused(&"[".repeat(100_000)).starts_with("line 1: "));
        assert!(refused(&"a: {".repeat(1000)).starts_with("line 1: "));
    }
}
