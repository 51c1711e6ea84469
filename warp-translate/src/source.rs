//! Files as they were read: their text, what a parser makes of it, and their comments by line.

use crate::diagnostic::{Fault, Result, Span, fault};
use proc_macro2::LineColumn;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file of the body.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) comments: Comments,
}

/// The `//` comments of a file.
#[derive(Debug, Default)]
pub(crate) struct Comments {
    /// Of lines that hold nothing else, by line; without the slashes.
    pub(crate) alone: BTreeMap<usize, String>,
    /// Behind code, by line.
    pub(crate) behind: BTreeMap<usize, String>,
}

impl Source {
    pub(crate) fn read(path: &Path, number: usize) -> Result<(Source, syn::File)> {
        let span = Span { file: number, ..Span::default() };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return fault(span, format!("the file cannot be read: {error}")),
        };
        Self::parse(path, text, number)
    }

    pub(crate) fn parse(path: &Path, text: String, number: usize) -> Result<(Source, syn::File)> {
        let ast = syn::parse_file(&text).map_err(|error| {
            let span = span_of(number, error.span().start(), error.span().end());
            Fault { span, sentence: format!("this is not Rust: {error}") }
        })?;
        let comments = Comments::of(&text);
        Ok((Source { path: path.to_path_buf(), text, comments }, ast))
    }
}

/// A place of a syntax tree.
pub(crate) fn span_of(file: usize, start: LineColumn, end: LineColumn) -> Span {
    Span { file, line: start.line, column: start.column, end_line: end.line }
}

impl Comments {
    /// Finds them with the little of Rust's lexing that keeps strings apart.
    fn of(text: &str) -> Self {
        let mut comments = Self::default();
        let (mut in_string, mut in_block) = (false, 0);
        for (number, line) in text.lines().enumerate() {
            let mut at = 0;
            let bytes = line.as_bytes();
            while at < bytes.len() {
                let rest = &line.as_bytes()[at..];
                if in_block > 0 {
                    match rest {
                        [b'*', b'/', ..] => (in_block, at) = (in_block - 1, at + 1),
                        [b'/', b'*', ..] => (in_block, at) = (in_block + 1, at + 1),
                        _ => {}
                    }
                } else if in_string {
                    match rest[0] {
                        b'\\' => at += 1,
                        b'"' => in_string = false,
                        _ => {}
                    }
                } else {
                    match rest {
                        [b'/', b'/', ..] => {
                            comments.add(number + 1, &line[..at], &line[at..]);
                            break;
                        }
                        [b'/', b'*', ..] => (in_block, at) = (1, at + 1),
                        [b'\'', b'"', b'\'', ..] => at += 2,
                        [b'\'', b'\\', _, b'\'', ..] => at += 3,
                        [b'"', ..] => in_string = true,
                        _ => {}
                    }
                }
                at += 1;
            }
        }
        comments
    }

    fn add(&mut self, line: usize, before: &str, comment: &str) {
        // Documentation is taken from the syntax tree.
        let is_doc = comment.starts_with("///") && !comment.starts_with("////");
        if is_doc || comment.starts_with("//!") {
            return;
        }
        let text = comment.trim_start_matches('/').trim_end();
        let text = text.strip_prefix(' ').unwrap_or(text).to_string();
        let to = if before.trim().is_empty() { &mut self.alone } else { &mut self.behind };
        to.insert(line, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_told_from_strings_and_documentation() {
        let text =
            "/// Doc.\n// One.\nlet a = \"// no\"; // two\n/* // no\n */ let b = '\"'; // three\n";
        let comments = Comments::of(text);
        assert_eq!(comments.alone.into_iter().collect::<Vec<_>>(), [(2, "One.".to_string())]);
        let behind: Vec<_> = comments.behind.into_iter().collect();
        assert_eq!(behind, [(3, "two".to_string()), (5, "three".to_string())]);
    }
}
