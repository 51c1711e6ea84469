//! A mapping whose keys are taken out one by one; what is left at the end is unknown.

use super::tree::{Entry, Node, Value};
use anyhow::{Result, anyhow, bail};
use warp_core::ConfigValue;
use warp_core::config::nearest;

/// One mapping of a file.
pub(super) struct Section<'a> {
    /// Its name with dots, such as `policy.shared`; empty for the whole file.
    path: String,
    entries: &'a [Entry],
    known: Vec<&'a str>,
}

impl<'a> Section<'a> {
    /// The mapping in `node`; an empty one if there is nothing.
    pub(super) fn new(path: &str, node: Option<&'a Node>) -> Result<Self> {
        let entries = match node.map(|node| (&node.value, node)) {
            None | Some((Value::Empty, _)) => &[][..],
            Some((Value::Map(entries), _)) => entries,
            Some((_, node)) => {
                let name = if path.is_empty() { "the file" } else { path };
                bail!("line {}: {name} = {node}: expected a mapping of keys", node.line)
            }
        };
        Ok(Self { path: path.into(), entries, known: Vec::new() })
    }

    /// The mapping under key `name`.
    pub(super) fn section(&mut self, name: &'a str) -> Result<Section<'a>> {
        let path = self.full(name);
        Section::new(&path, self.take(name))
    }

    /// Whether a mapping stands under key `name`.
    pub(super) fn is_mapping(&self, name: &str) -> bool {
        let entry = self.entries.iter().find(|entry| entry.key == name);
        entry.is_some_and(|entry| matches!(entry.node.value, Value::Map(_)))
    }

    /// What stands under key `name`, which thereby counts as known; none if it is empty.
    pub(super) fn take(&mut self, name: &'a str) -> Option<&'a Node> {
        self.known.push(name);
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        (entry.node.value != Value::Empty).then_some(&entry.node)
    }

    /// The value of key `name`; none if it is not set.
    pub(super) fn get<T: ConfigValue>(&mut self, name: &'a str) -> Result<Option<T>> {
        let Some(node) = self.take(name) else { return Ok(None) };
        let read = node.to_toml().ok_or_else(|| "a value".to_string());
        let read = read.and_then(|value| T::from_value(&value));
        read.map(Some).map_err(|expected| self.refuse(name, node, &format!("expected {expected}")))
    }

    /// The value of key `name`, or the original's default.
    pub(super) fn get_or<T: ConfigValue>(&mut self, name: &'a str, default: T) -> Result<T> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    /// Takes keys that mean nothing here; those that are set are added to `without_effect`.
    pub(super) fn ignore(&mut self, names: &[&'a str], without_effect: &mut Vec<String>) {
        for name in names {
            if self.take(name).is_some() {
                without_effect.push(self.full(name));
            }
        }
    }

    /// An error about the value of key `name`, with its line.
    pub(super) fn refuse(&self, name: &str, node: &Node, reason: &str) -> anyhow::Error {
        anyhow!("line {}: {} = {node}: {reason}", node.line, self.full(name))
    }

    /// An error about the value of key `name`, or about its absence.
    pub(super) fn invalid(&self, name: &str, reason: &str) -> anyhow::Error {
        match self.entries.iter().find(|entry| entry.key == name) {
            Some(entry) => self.refuse(name, &entry.node, reason),
            None => anyhow!("{} is missing: {reason}", self.full(name)),
        }
    }

    /// The keys that nobody has taken.
    pub(super) fn rest(&self) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(|entry| !self.known.contains(&entry.key.as_str()))
    }

    /// Refuses the first key that nobody has taken.
    pub(super) fn finish(self) -> Result<()> {
        let Some(entry) = self.rest().next() else { return Ok(()) };
        let near = nearest(&entry.key, self.known.iter().copied());
        let near = near.map_or(String::new(), |near| {
            format!("; the nearest known key is \"{}\"", self.full(&near))
        });
        bail!("line {}: unknown key \"{}\"{near}", entry.line, self.full(&entry.key))
    }

    fn full(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }
}
