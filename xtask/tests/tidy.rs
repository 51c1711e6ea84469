//! The workspace keeps its own rules: the same check as `cargo xtask tidy`.

use xtask::{tidy, workspace};

#[test]
fn the_workspace_is_tidy() {
    let tree = tidy::Tree::read(&workspace::root()).expect("the workspace is readable");
    let violations = tidy::violations(&tree);
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} violations:\n{}", lines.len(), lines.join("\n"));
}
