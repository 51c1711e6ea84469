//! What is wrong with a body, where, and what to write in its place.

use std::fmt;
use std::path::PathBuf;

/// Something that has no place in the subset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file that holds it.
    pub path: PathBuf,
    /// Line, counted from 1; 0 where the whole file is meant.
    pub line: usize,
    /// Column, counted from 1; 0 where the whole file is meant.
    pub column: usize,
    /// What was found, and the better form.
    pub sentence: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}", self.sentence)
    }
}

impl std::error::Error for Diagnostic {}

/// A place in a file that was read: its number, and lines and columns counted from 1 and 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) file: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) end_line: usize,
}

/// A sentence about a place; the files' names are put in when it is handed out.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) span: Span,
    pub(crate) sentence: String,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// The error of finding `found` at `span`, where `better` would do.
pub(crate) fn fault<T>(span: Span, sentence: impl Into<String>) -> Result<T> {
    Err(Fault { span, sentence: sentence.into() })
}
