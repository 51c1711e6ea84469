//! Reads every `Cargo.toml` for the checks of crates: fields, dependencies, and their lines.

use toml::{Table, Value};

use super::{TextFile, Tree, Violation};

/// One `Cargo.toml`.
pub(super) struct Manifest<'a> {
    pub(super) file: &'a TextFile,
    pub(super) table: Table,
    /// `[workspace]` of the root's manifest, from which fields are inherited.
    workspace: Table,
}

/// A dependency as a manifest states it.
pub(super) struct Dependency<'a> {
    /// The name that the manifest gives it.
    pub(super) key: &'a str,
    /// The name of the package, which differs where the dependency is renamed.
    pub(super) name: &'a str,
    pub(super) in_tests: bool,
    pub(super) optional: bool,
    /// Has a path and no version.
    pub(super) unversioned: bool,
}

/// The manifests of the tree; one that is no TOML is left out, since cargo itself refuses it.
pub(super) fn read(tree: &Tree) -> Vec<Manifest<'_>> {
    let parse = |file: &TextFile| file.text.parse::<Table>().ok();
    let workspace = tree.text("Cargo.toml").and_then(parse);
    let workspace = workspace.and_then(|root| root.get("workspace")?.as_table().cloned());
    let workspace = workspace.unwrap_or_default();
    let is_manifest = |file: &&TextFile| file.path.rsplit('/').next() == Some("Cargo.toml");
    let files = tree.texts.iter().filter(is_manifest);
    let with_table = files.filter_map(|file| Some((file, parse(file)?)));
    with_table.map(|(file, table)| Manifest { file, table, workspace: workspace.clone() }).collect()
}

impl Manifest<'_> {
    /// The crate's name; none for the workspace's own manifest.
    pub(super) fn name(&self) -> Option<&str> {
        self.table.get("package")?.get("name")?.as_str()
    }

    /// A field of `[package]`, looked up in `[workspace.package]` where it is inherited.
    pub(super) fn field(&self, field: &str) -> Option<&Value> {
        let value = self.table.get("package")?.get(field)?;
        match value.get("workspace") {
            Some(_) => self.workspace.get("package")?.get(field),
            None => Some(value),
        }
    }

    /// All dependencies, those of the workspace and of single targets included.
    pub(super) fn dependencies(&self) -> Vec<Dependency<'_>> {
        let targets = self.table.get("target").and_then(Value::as_table);
        let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
        let workspace = self.table.get("workspace").and_then(Value::as_table);
        let places = [&self.table].into_iter().chain(workspace).chain(targets);
        let mut found = Vec::new();
        for place in places {
            for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
                let Some(entries) = place.get(kind).and_then(Value::as_table) else { continue };
                let in_tests = kind == "dev-dependencies";
                found.extend(
                    entries.iter().map(|(key, value)| self.dependency(key, value, in_tests)),
                );
            }
        }
        found
    }

    fn dependency<'a>(&'a self, key: &'a str, value: &'a Value, in_tests: bool) -> Dependency<'a> {
        let inherited = || self.workspace.get("dependencies")?.get(key)?.get("package");
        let package = value.get("package").or_else(inherited);
        Dependency {
            key,
            name: package.and_then(Value::as_str).unwrap_or(key),
            in_tests,
            optional: value.get("optional").and_then(Value::as_bool).unwrap_or(false),
            unversioned: value.get("path").is_some() && value.get("version").is_none(),
        }
    }

    /// A violation at the first line that sets `key` or opens its table, else at line 1.
    pub(super) fn violation(&self, key: &str, sentence: impl Into<String>) -> Violation {
        let sets = |line: &str| {
            let after = line.trim_start().trim_start_matches('"').strip_prefix(key);
            after.is_some_and(|after| after.starts_with([' ', '=', '.', '"']))
                || line.trim_end().ends_with(&format!(".{key}]"))
        };
        let line = self.file.lines().find(|(_, line)| sets(line)).map_or(1, |(number, _)| number);
        Violation::new(&self.file.path, line, sentence)
    }
}
