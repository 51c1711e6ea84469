//! What a published crate says about itself: the fields that a registry shows or asks for, its
//! README, one version for all crates, and a version beside every path.

use toml::Value;

use super::manifest::{self, Manifest};
use super::{Tree, Violation};
use crate::workspace::LIBRARIES;

const FIELDS: [&str; 6] =
    ["description", "license", "documentation", "readme", "keywords", "categories"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for manifest in manifest::read(tree) {
        found.extend(paths(&manifest));
        if manifest.name().is_some_and(|name| LIBRARIES.contains(&name)) {
            found.extend(fields(&manifest));
            found.extend(keywords(&manifest));
            let readme = manifest.file.path.replace("Cargo.toml", "README.md");
            if !tree.paths.contains(&readme) {
                found.push(Violation::new(&readme, 1, "the file is missing"));
            }
        }
    }
    found
}

/// A path dependency without a version cannot be published.
fn paths(manifest: &Manifest<'_>) -> Vec<Violation> {
    let dependencies = manifest.dependencies().into_iter();
    let unversioned = dependencies.filter(|dependency| dependency.unversioned);
    let sentence = |key| format!("the path dependency `{key}` has no version");
    unversioned.map(|found| manifest.violation(found.key, sentence(found.key))).collect()
}

fn fields(manifest: &Manifest<'_>) -> Vec<Violation> {
    let missing = FIELDS.iter().filter(|field| manifest.field(field).is_none());
    let sentence = |field| format!("`{field}` is missing");
    let mut found: Vec<Violation> =
        missing.map(|field| manifest.violation("[package]", sentence(field))).collect();
    let version = manifest.table.get("package").and_then(|package| package.get("version"));
    if version.and_then(|version| version.get("workspace")).is_none() {
        let sentence = "the crates have one version: `version.workspace = true`";
        found.push(manifest.violation("version", sentence));
    }
    found
}

/// The limits of crates.io.
fn keywords(manifest: &Manifest<'_>) -> Vec<Violation> {
    let keywords = manifest.field("keywords").and_then(Value::as_array);
    let keywords = keywords.map(Vec::as_slice).unwrap_or_default();
    let long = keywords.iter().filter_map(Value::as_str).filter(|keyword| keyword.len() > 20);
    let sentence = |long| format!("crates.io takes keywords of at most 20 letters, not `{long}`");
    let mut found: Vec<Violation> =
        long.map(|keyword| manifest.violation("keywords", sentence(keyword))).collect();
    if keywords.len() > 5 {
        found.push(manifest.violation("keywords", "crates.io takes at most 5 keywords"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.package]\nversion = '1.2.3'\nlicense = 'MIT'\n";
    const WHOLE: &str = "[package]\nname = 'warp-core'\nversion.workspace = true\n\
                         description = 'd'\nlicense.workspace = true\ndocumentation = 'd'\n\
                         readme = 'README.md'\nkeywords = ['a']\ncategories = ['science']\n";

    fn found(manifest: &str) -> Vec<String> {
        let readme = ("warp-core/README.md", "");
        let tree = Tree::of(&[("Cargo.toml", ROOT), ("warp-core/Cargo.toml", manifest), readme]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whole_metadata_passes() {
        assert_eq!(found(WHOLE), [""; 0]);
    }

    #[test]
    fn what_is_missing_is_reported() {
        let wanted = "warp-core/Cargo.toml:1: `readme` is missing";
        assert_eq!(found(&WHOLE.replace("readme = 'README.md'\n", "")), [wanted]);
        let not_in_the_workspace = WHOLE.replace("readme = 'README.md'", "readme.workspace = true");
        assert_eq!(found(&not_in_the_workspace), [wanted]);
        let tree = Tree::of(&[("Cargo.toml", ROOT), ("warp-core/Cargo.toml", WHOLE)]);
        assert_eq!(check(&tree)[0].to_string(), "warp-core/README.md:1: the file is missing");
    }

    #[test]
    fn there_is_one_version() {
        assert_eq!(found(&WHOLE.replace("version.workspace = true", "version = '1'")).len(), 1);
    }

    #[test]
    fn keywords_keep_the_limits_of_the_registry() {
        assert_eq!(found(&WHOLE.replace("['a']", "['reinforcement-learning']")).len(), 1);
        assert_eq!(found(&WHOLE.replace("['a']", "['a','b','c','d','e','f']")).len(), 1);
    }

    #[test]
    fn a_path_has_a_version() {
        let manifest = format!("{WHOLE}[dependencies]\nx = {{ path = '../x' }}\n");
        let wanted = "warp-core/Cargo.toml:11: the path dependency `x` has no version";
        assert_eq!(found(&manifest), [wanted]);
    }
}
