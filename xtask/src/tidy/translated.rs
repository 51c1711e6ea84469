//! CUDA text that is made from Rust must be what the Rust file gives today.

use super::{Tree, Violation};

/// How the first line of such a text begins.
pub(super) const MADE: &str = "// Made from ";

/// Translates every environment, and all row functions, whose committed text says that it was made.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.texts.iter().filter(|file| file.extension() == "rs") {
        let Some(included) = included(&file.path, &file.text) else { continue };
        let Some(made) = tree.texts.iter().find(|text| text.path == included) else { continue };
        if !made.text.starts_with(MADE) {
            continue;
        }
        match warp_translate::translate(&tree.root.join(&file.path)) {
            Ok(fresh) if fresh.text == made.text => {}
            Ok(fresh) => {
                let pairs = fresh.text.lines().zip(made.text.lines());
                let line = 1 + pairs.take_while(|(fresh, made)| fresh == made).count();
                let sentence =
                    format!("this is stale; `warp translate {}` makes it anew", file.path);
                found.push(Violation::new(&included, line, sentence));
            }
            Err(diagnostics) => {
                for diagnostic in diagnostics {
                    found.push(Violation::new(&file.path, diagnostic.line, diagnostic.sentence));
                }
            }
        }
    }
    found
}

/// The text that a file of an environment or of row functions includes, by its path from the root.
fn included(path: &str, text: &str) -> Option<String> {
    let rest = match text.split_once("row_functions! { \"") {
        Some((_, rest)) => rest,
        None if text.contains("impl Env for ") => text.split_once("include_str!(\"")?.1,
        None => return None,
    };
    let (name, _) = rest.split_once('"')?;
    let (folder, _) = path.rsplit_once('/')?;
    name.ends_with(".cu").then(|| format!("{folder}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "impl Env for World {\n    fn kernel() -> Option<Kernel> {\n        \
        let text = include_str!(\"step.cu\");\n    }\n}\n";

    #[test]
    fn the_text_lies_beside_the_file() {
        assert_eq!(included("a/b/mod.rs", BODY).as_deref(), Some("a/b/step.cu"));
        assert_eq!(included("a/b/mod.rs", "include_str!(\"step.cu\")"), None);
        let rows = "row_functions! { \"td.cu\";\n    LOSS = loss(; q; d_q);\n}\n";
        assert_eq!(included("a/td.rs", rows).as_deref(), Some("a/td.cu"));
    }

    #[test]
    fn only_texts_that_were_made_are_made_again() {
        let tree = Tree::of(&[("a/mod.rs", BODY), ("a/step.cu", "// By hand.\n")]);
        assert_eq!(check(&tree), []);
        let tree = Tree::of(&[("a/mod.rs", BODY), ("a/step.cu", "// Made from a/mod.rs by\n")]);
        let found = check(&tree);
        assert!(found[0].sentence.contains("cannot be read"), "{found:?}");
    }
}
