//! One table knows algorithms by their names: nothing else in the trainer or the command decides by one.

use super::{TextFile, Tree, Violation};

const TABLE: &str = "warp-train/src/algorithm/table.rs";
/// Where a name may decide: in formulas that are checked by it, and where the original's words are read.
const EXCEPTED: [&str; 3] = [TABLE, "warp-train/src/loss/", "warp-examples/src/yaml/"];
const FOLDERS: [&str; 2] = ["warp-train/src/", "warp-examples/src/"];
/// What decides, in a line of code.
const DECIDES: [&str; 5] = ["if ", "match ", "matches!", "==", "=>"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(table) = tree.text(TABLE) else { return Vec::new() };
    let names: Vec<String> = names(table).map(|name| format!("\"{name}\"")).collect();
    let files = tree.texts.iter().filter(|file| {
        let is_in = |folder: &str| file.path.starts_with(folder);
        file.extension() == "rs"
            && FOLDERS.iter().any(|f| is_in(f))
            && !EXCEPTED.iter().any(|f| is_in(f))
    });
    files.flat_map(|file| decisions(file, &names)).collect()
}

/// The names of the table's entries.
fn names(table: &TextFile) -> impl Iterator<Item = &str> {
    table.lines().filter_map(|(_, line)| line.trim().strip_prefix("name: \"")?.split('"').next())
}

/// The lines of a file, before its tests, that decide by a name.
fn decisions(file: &TextFile, names: &[String]) -> Vec<Violation> {
    let code = file.lines().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
    let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let deciding = code.filter(|(_, line)| {
        DECIDES.iter().any(|word| line.contains(word))
            && names.iter().any(|n| line.contains(n.as_str()))
    });
    let sentence = format!("an algorithm's name decides here, but {TABLE} alone may ask for it");
    deciding.map(|(line, _)| Violation::new(&file.path, line, sentence.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: &str = "    Entry {\n        name: \"ppo\",\n    },\n";

    fn found(path: &str, text: &str) -> Vec<usize> {
        let tree = Tree::of(&[(TABLE, ENTRIES), (path, text)]);
        check(&tree).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn names_decide_in_the_table_alone() {
        let text =
            "let a = \"ppo\";\nif name == \"ppo\" {}\n// if \"ppo\"\n#[cfg(test)]\nif \"ppo\" {}\n";
        assert_eq!(found("warp-train/src/run/trainer.rs", text), [2]);
        assert_eq!(found("warp-examples/src/run.rs", "match n {\n    \"ppo\" => 1,\n"), [2]);
        assert_eq!(found("warp-train/tests/run.rs", text), [0; 0]);
        assert_eq!(found("warp-train/src/loss/ppo.rs", text), [0; 0]);
        assert_eq!(found("warp-train/src/run/trainer.rs", "if name == \"other\" {}\n"), [0; 0]);
    }
}
