//! The folders of warp-train have an order, and each uses only those before it: no arrow goes up.

use super::code::code_only;
use super::{TextFile, Tree, Violation};

const SOURCES: &str = "warp-train/src/";
/// Folders and files of the crate's root, each of which may use itself and those before it. ARCHITECTURE.md
/// says what lies in them.
const ORDER: [&str; 14] = [
    "error",
    "vectors",
    "digest",
    "world",
    "model",
    "memory",
    "loss",
    "optimiser",
    "algorithm",
    "network",
    "config",
    "engine",
    "fused",
    "run",
];
/// Exported macros lie at the crate's root, wherever they are written.
const MACROS: [&str; 1] = ["row_functions"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let files = tree.texts.iter().filter(|file| file.extension() == "rs" && !is_test(&file.path));
    files
        .flat_map(|file| file.path.strip_prefix(SOURCES).map(|path| arrows(file, path)))
        .flatten()
        .collect()
}

/// Tests may look at anything.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The arrows up from a file, which lies at `path` below the sources.
fn arrows(file: &TextFile, path: &str) -> Vec<Violation> {
    // What it re-exports are the names that users of the crate know.
    if path == "lib.rs" {
        return Vec::new();
    }
    let violation = |line: usize, sentence: String| Violation::new(&file.path, line, sentence);
    let (own, rest) = path.split_once('/').unwrap_or((path.trim_end_matches(".rs"), ""));
    let Some(place) = ORDER.iter().position(|name| *name == own) else {
        let sentence = format!("{own} has no place in the order of folders: {}", ORDER.join(", "));
        return vec![violation(1, sentence)];
    };
    let code = code_only(&file.text);
    // Modules around the file's own, up to the crate's root.
    let depth = rest.split('/').filter(|part| !part.is_empty() && *part != "mod.rs").count() + 1;
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate().take_while(|(_, line)| *line != "mod tests {") {
        for name in named(line) {
            let sentence = match ORDER.iter().position(|folder| *folder == name) {
                Some(other) if other <= place => continue,
                None if MACROS.contains(&name) => continue,
                Some(_) => {
                    format!("{own}/ uses {name}/, which comes after it in the order of folders")
                }
                None => format!("crate::{name} is a name for users of the crate: say its folder's"),
            };
            found.push(violation(index + 1, sentence));
        }
        if line.contains(&"super::".repeat(depth)) {
            found.push(violation(index + 1, format!("`super` leaves {own}/: say crate::")));
        }
    }
    found
}

/// What stands behind `crate::` in a line, macros excepted.
fn named(line: &str) -> Vec<&str> {
    let word =
        |text: &str| text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let behind = line.match_indices("crate::").filter_map(|(at, path)| {
        // Not the end of another word, nor the `$crate` of a macro.
        let before = line[..at].chars().next_back();
        let whole = before.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == '$'));
        whole.then(|| &line[at + path.len()..])
    });
    let mut names = Vec::new();
    for text in behind {
        match text.strip_prefix('{') {
            Some(list) => {
                let parts = list.split(',').map(|part| part.trim_start_matches([' ', '}']));
                names.extend(parts.map(|part| &part[..word(part)]).filter(|name| !name.is_empty()));
            }
            None => {
                let (name, rest) = text.split_at(word(text));
                names.extend((!rest.starts_with('!')).then_some(name));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        check(&tree).iter().map(|violation| violation.to_string()).collect()
    }

    #[test]
    fn a_folder_uses_those_before_it() {
        let text =
            "use crate::error::Result;\nuse crate::engine::Engine;\nfn f() { crate::run::g() }\n";
        assert_eq!(found("warp-train/src/run/trainer.rs", text), [""; 0]);
        assert_eq!(
            found("warp-train/src/engine/cpu/mod.rs", text),
            [
                "warp-train/src/engine/cpu/mod.rs:3: engine/ uses run/, which comes after it in the order of folders"
            ]
        );
        let lines: Vec<_> =
            found("warp-train/src/vectors.rs", text).into_iter().map(|v| v.len()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(found("warp-func/src/registry/mod.rs", "use crate::run::A;\n"), [""; 0]);
    }

    #[test]
    fn every_name_behind_crate_counts() {
        let of = |line| found("warp-train/src/loss/a.rs", line).len();
        assert_eq!(of("use crate::{error::Error, engine, run};"), 2);
        assert_eq!(of("fn f(a: crate::run::A, b: crate::fused::B) {}"), 2);
        assert_eq!(of("use crate::Error;"), 1);
        assert_eq!(of("crate::row_functions! {}"), 0);
        assert_eq!(of("$crate::run::a() + other_crate::run::b()"), 0);
        assert_eq!(of("// crate::run::a, \nlet a = \"crate::run\";"), 0);
    }

    #[test]
    fn super_stays_in_its_folder() {
        let of = |path: &str, line| found(&format!("warp-train/src/{path}"), line).len();
        assert_eq!(of("loss/a.rs", "use super::row::Row;"), 0);
        assert_eq!(of("loss/a.rs", "use super::super::run::Run;"), 1);
        assert_eq!(of("loss/mod.rs", "use super::run::Run;"), 1);
        assert_eq!(of("engine/cuda/mod.rs", "use super::cpu::A;"), 0);
        assert_eq!(of("engine/cuda/mod.rs", "use super::super::run::A;"), 1);
        assert_eq!(of("vectors.rs", "use super::run::A;"), 1);
    }

    #[test]
    fn tests_look_at_anything() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::run::A;\n}\n";
        assert_eq!(found("warp-train/src/loss/a.rs", text), [""; 0]);
        assert_eq!(found("warp-train/src/engine/cpu/tests/a.rs", "use crate::run::A;"), [""; 0]);
    }

    #[test]
    fn nothing_lies_loose() {
        let sentence = &found("warp-train/src/helper/mod.rs", "")[0];
        assert!(sentence.contains("helper has no place in the order"), "{sentence}");
        assert_eq!(found("warp-train/src/lib.rs", "pub use crate::run::Run;"), [""; 0]);
    }
}
