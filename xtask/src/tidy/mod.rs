//! `cargo xtask tidy`: the rules of the workspace that no compiler or linter knows.
//!
//! Every check is a function from the [`Tree`] of files to its [`Violation`]s; all of them run, so
//! that one call lists everything there is to put right. `xtask/tests/tidy.rs` runs the same.

mod algorithms;
mod code;
mod crates;
mod folders;
mod manifest;
mod markdown;
mod metadata;
mod parameters;
mod text;
mod translated;
mod tree;
mod unsafety;

use anyhow::{Result, bail};

pub use tree::{TextFile, Tree};

use crate::workspace;

/// One broken rule, at one line of one file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Path from the workspace's root, with `/`.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong, in one sentence.
    pub sentence: String,
}

impl Violation {
    fn new(path: &str, line: usize, sentence: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, sentence: sentence.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.sentence)
    }
}

/// Checks the workspace and prints every violation.
///
/// # Errors
/// When there is a violation, or a file cannot be read.
pub fn run() -> Result<()> {
    let tree = Tree::read(&workspace::root())?;
    let violations = violations(&tree);
    for violation in &violations {
        println!("{violation}");
    }
    if !violations.is_empty() {
        bail!("tidy found {} violations", violations.len());
    }
    println!("tidy: {} text files keep the rules", tree.texts.len());
    Ok(())
}

/// Every violation in the tree, sorted by path and line.
#[must_use]
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let checks = [
        algorithms::check,
        text::check,
        crates::check,
        folders::check,
        metadata::check,
        parameters::check,
        unsafety::check,
        markdown::check,
        translated::check,
    ];
    let mut found: Vec<Violation> = checks.iter().flat_map(|check| check(tree)).collect();
    found.sort();
    found.dedup();
    found
}
