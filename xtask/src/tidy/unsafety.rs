//! `unsafe` occurs only in the files that ARCHITECTURE.md lists, and in each of those; a row of
//! docs/soundness.md says what makes each of them sound.

use std::collections::BTreeMap;

use super::code::code_only;
use super::text::has_word;
use super::{TextFile, Tree, Violation};

const LIST: &str = "ARCHITECTURE.md";
const HEADING: &str = "Files with unsafe code";
const TABLE: &str = "docs/soundness.md";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.text(LIST) else {
        return vec![Violation::new(LIST, 1, "the file is missing")];
    };
    let Some(listed) = listed(page) else {
        let sentence = format!("there is no section \"{HEADING}\"");
        return vec![Violation::new(LIST, 1, sentence)];
    };
    let rust = tree.texts.iter().filter(|file| file.extension() == "rs");
    let used: BTreeMap<&str, usize> =
        rust.filter_map(|file| Some((file.path.as_str(), first_unsafe(&file.text)?))).collect();
    let unlisted =
        used.iter().filter(|(path, _)| !listed.contains_key(*path)).map(|(path, line)| {
            let sentence = format!("`unsafe` in a file that is not under \"{HEADING}\" in {LIST}");
            Violation::new(path, *line, sentence)
        });
    let unused = listed.iter().filter(|(path, _)| !used.contains_key(*path)).map(|(path, line)| {
        Violation::new(LIST, *line, format!("`{path}` is listed and holds no `unsafe`"))
    });
    let reviewed: Vec<&str> = tree.text(TABLE).map_or_else(Vec::new, rows);
    let unreviewed = listed.iter().filter(|(path, _)| !reviewed.contains(*path));
    let unreviewed = unreviewed.map(|(path, line)| {
        Violation::new(LIST, *line, format!("`{path}` is listed and has no row in {TABLE}"))
    });
    let stale = reviewed.iter().filter(|path| !listed.contains_key(*path)).map(|path| {
        Violation::new(TABLE, 1, format!("`{path}` has a row and is not listed in {LIST}"))
    });
    unlisted.chain(unused).chain(unreviewed).chain(stale).collect()
}

/// The path in backticks with which a row of a table begins.
fn rows(page: &TextFile) -> Vec<&str> {
    let rows = page.lines().filter_map(|(_, line)| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

/// The first path in backticks of every list item of the section, with its line.
fn listed(page: &TextFile) -> Option<BTreeMap<&str, usize>> {
    let is_heading = |line: &str| line.starts_with('#');
    let mut lines = page.lines();
    lines.find(|(_, line)| is_heading(line) && line.trim_start_matches(['#', ' ']) == HEADING)?;
    let section = lines.take_while(|(_, line)| !is_heading(line));
    let items = section.filter(|(_, line)| line.trim_start().starts_with(['-', '*']));
    Some(items.filter_map(|(line, item)| Some((item.split('`').nth(1)?, line))).collect())
}

/// The line of the first `unsafe` in code.
fn first_unsafe(source: &str) -> Option<usize> {
    let code = code_only(source);
    code.lines().position(|line| has_word(line, "unsafe")).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Map\n\n## Files with unsafe code\n\n- `a.rs`: views.\n\n## More\n\n- `b.rs`\n";

    fn found(page: &str, source: &str) -> Vec<String> {
        found_with(page, source, "| file |\n|---|\n| `a.rs` |\n| |\n")
    }

    fn found_with(page: &str, source: &str, table: &str) -> Vec<String> {
        let tree = Tree::of(&[(LIST, page), ("a.rs", source), (TABLE, table)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_list_and_the_files_agree() {
        assert_eq!(found(PAGE, "//! A.\nunsafe fn a() {}\n"), [""; 0]);
    }

    #[test]
    fn both_directions_are_checked() {
        let unused = ["ARCHITECTURE.md:5: `a.rs` is listed and holds no `unsafe`"];
        assert_eq!(found(PAGE, "//! A.\n#![deny(unsafe_code)]\n"), unused);
        let empty = "## Files with unsafe code\n\nNone.\n";
        assert!(found(empty, "//! A.\n\nunsafe fn a() {}\n")[0].starts_with("a.rs:3: `unsafe`"));
    }

    #[test]
    fn every_listed_file_has_a_row() {
        let with = |table| found_with(PAGE, "//! A.\nunsafe fn a() {}\n", table);
        let missing = ["ARCHITECTURE.md:5: `a.rs` is listed and has no row in docs/soundness.md"];
        assert_eq!(with("| file |\n"), missing);
        let stale = "docs/soundness.md:1: `b.rs` has a row and is not listed in ARCHITECTURE.md";
        assert_eq!(with("| `a.rs` |\n| `b.rs` |\n"), [stale]);
    }

    #[test]
    fn a_missing_page_or_section_is_reported() {
        assert_eq!(found("# Map\n", "//! A.\n").len(), 1);
        assert_eq!(check(&Tree::of(&[("a.rs", "//! A.\n")])).len(), 1);
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        let none = [
            "// unsafe",
            "/* a /* unsafe */ unsafe */",
            r#"let a = "\"unsafe\\";"#,
            "let a = r##\"unsafe\"# unsafe\"##;",
            "let a = b\"unsafe\";",
            "let a = ('\"', \"unsafe\", '\\'', \"unsafe\");",
            "fn unsafe_code() {}",
        ];
        for source in none {
            assert_eq!(first_unsafe(source), None, "{source}");
        }
    }

    #[test]
    fn code_after_a_literal_is_code() {
        let some = [
            "fn a<'a>(x: &'a str) { unsafe {} }",
            "let a = '\"'; unsafe {}",
            "let a = \"\\\\\"; unsafe {}",
            "let r#type = 1; unsafe {}",
            "/* a */ unsafe {}",
            "'outer: loop { unsafe {} }",
        ];
        for source in some {
            assert_eq!(first_unsafe(source), Some(1), "{source}");
        }
        assert_eq!(first_unsafe("// a\n\"\n\n\"; unsafe {}"), Some(4));
    }
}
