//! Rules for the text of single files: first line, white space, length, name, unfinished work.

use super::{TextFile, Tree, Violation};

/// Longest source file, in lines.
const MAX_LINES: usize = 500;

/// Names that say nothing about what a file is for.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "common", "misc", "helper", "helpers"];

/// Marks of unfinished work, written in two parts so that this file does not hold them.
const MARKS: [&str; 6] = [
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("#[ign", "ore"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let rules = [first_line, white_space, length, name, unfinished];
    tree.texts.iter().flat_map(|file| rules.iter().flat_map(|rule| rule(file))).collect()
}

fn first_line(file: &TextFile) -> Vec<Violation> {
    let (starts, sentence): (&[&str], _) = match file.extension() {
        "rs" => (&["//!"], "the file does not begin with `//!` and its purpose"),
        _ if file.is_source() => {
            (&["//", "/*"], "the file does not begin with a comment on its purpose")
        }
        _ => return Vec::new(),
    };
    if starts.iter().any(|start| file.text.starts_with(start)) {
        return Vec::new();
    }
    vec![Violation::new(&file.path, 1, sentence)]
}

fn white_space(file: &TextFile) -> Vec<Violation> {
    let no_tabs = ["rs", "toml", "md"].contains(&file.extension());
    let mut found = Vec::new();
    for (line, text) in file.lines() {
        if text.ends_with([' ', '\t', '\r']) {
            found.push(Violation::new(&file.path, line, "the line ends in white space"));
        }
        if no_tabs && text.contains('\t') {
            found.push(Violation::new(&file.path, line, "the line holds a tab"));
        }
    }
    let last = file.text.lines().count().max(1);
    if !file.text.ends_with('\n') {
        found.push(Violation::new(&file.path, last, "the file does not end in a newline"));
    } else if file.text.ends_with("\n\n") {
        found.push(Violation::new(&file.path, last, "the file ends in an empty line"));
    }
    found
}

/// A text that was made is as long as its sources make it.
fn length(file: &TextFile) -> Vec<Violation> {
    let lines = file.text.lines().count();
    if !file.is_source() || lines <= MAX_LINES || file.text.starts_with(super::translated::MADE) {
        return Vec::new();
    }
    let sentence = format!("the file has {lines} lines; at most {MAX_LINES} are allowed");
    vec![Violation::new(&file.path, lines, sentence)]
}

fn name(file: &TextFile) -> Vec<Violation> {
    if !file.is_source() {
        return Vec::new();
    }
    let parts = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    let empty = parts.filter(|part| EMPTY_NAMES.contains(part));
    let sentence = |part| format!("`{part}` is no name for a file: say what is in it");
    empty.map(|part| Violation::new(&file.path, 1, sentence(part))).collect()
}

fn unfinished(file: &TextFile) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, text) in file.lines() {
        for mark in MARKS.iter().filter(|mark| has_mark(text, mark)) {
            let sentence = format!("`{mark}` marks unfinished work");
            found.push(Violation::new(&file.path, line, sentence));
        }
    }
    found
}

/// Whether `mark` stands in the line; a mark that is a word must be a whole word.
fn has_mark(line: &str, mark: &str) -> bool {
    let is_word = mark.chars().all(char::is_alphanumeric);
    if is_word { has_word(line, mark) } else { line.contains(mark) }
}

/// Whether `word` stands in the text with no letter, digit or underscore on either side.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let joins = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_file_passes() {
        assert_eq!(found("warp-core/src/math.rs", "//! Maths.\n\nfn one() {}\n"), [""; 0]);
        assert_eq!(found("warp-core/src/math.cuh", "/* Maths. */\n"), [""; 0]);
    }

    #[test]
    fn the_purpose_comes_first() {
        assert!(found("a.rs", "use std::fmt;\n")[0].starts_with("a.rs:1: the file does not begin"));
        assert!(found("a.cu", "#include <x>\n")[0].starts_with("a.cu:1: "));
        assert_eq!(found("a.toml", "[package]\n"), [""; 0]);
    }

    #[test]
    fn white_space_is_reported_with_its_line() {
        assert_eq!(found("a.md", "one\ntwo \n"), ["a.md:2: the line ends in white space"]);
        assert_eq!(found("a.toml", "\ta = 1\n"), ["a.toml:1: the line holds a tab"]);
        assert_eq!(found("a.md", "one\ntwo"), ["a.md:2: the file does not end in a newline"]);
        assert_eq!(found("a.md", "one\n\n"), ["a.md:2: the file ends in an empty line"]);
    }

    #[test]
    fn long_files_and_empty_names_are_refused() {
        let long = format!("//! Long.\n{}", "//\n".repeat(MAX_LINES));
        assert_eq!(
            found("a.rs", &long),
            ["a.rs:501: the file has 501 lines; at most 500 are allowed"]
        );
        let made = format!("// Made from a.rs.\n{}", "//\n".repeat(MAX_LINES));
        assert_eq!(found("a.cu", &made), [""; 0]);
        assert_eq!(found("tests/common/mod.rs", "//! X.\n").len(), 1);
        assert_eq!(found("src/utils.rs", "//! X.\n").len(), 1);
        assert_eq!(found("src/commonly.rs", "//! X.\n"), [""; 0]);
    }

    #[test]
    fn unfinished_work_is_reported() {
        for mark in MARKS {
            assert_eq!(found("a.rs", &format!("//! X.\n// {mark}\n")).len(), 1, "{mark}");
        }
        let inside_a_word = format!("//! X.\n// {}LOG\n", MARKS[3]);
        assert_eq!(found("a.rs", &inside_a_word), [""; 0]);
    }
}
