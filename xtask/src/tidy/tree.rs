//! The files of the workspace, read once: what git ignores at the root is not part of them.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

/// Extensions of the files whose text is checked.
const TEXT: [&str; 11] = ["rs", "cu", "cuh", "c", "cpp", "h", "toml", "md", "sh", "yml", "yaml"];

/// A file that people write.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// Path from the workspace's root, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl TextFile {
    /// What follows the last dot of the file's name; empty when there is none.
    #[must_use]
    pub fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Whether the file is Rust, CUDA or C++.
    #[must_use]
    pub fn is_source(&self) -> bool {
        ["rs", "cu", "cuh", "c", "cpp", "h"].contains(&self.extension())
    }

    /// Lines with their numbers from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.split('\n').enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// All files of the workspace.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Where it was read.
    pub root: std::path::PathBuf,
    /// Every file and folder, binary ones included; the root is the empty path.
    pub paths: BTreeSet<String>,
    /// The files whose text is checked.
    pub texts: Vec<TextFile>,
}

impl Tree {
    /// Reads the tree below `root`, without what `/name` lines of `root/.gitignore` leave out.
    ///
    /// # Errors
    /// When a folder or a text file cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        let ignored = std::fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let mut ignored: Vec<&str> = ignored.lines().filter_map(|l| l.strip_prefix('/')).collect();
        ignored.push(".git");
        let mut tree = Self {
            root: root.to_path_buf(),
            paths: BTreeSet::from([String::new()]),
            texts: Vec::new(),
        };
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let shown = root.join(&folder);
            let context = || format!("cannot read {}", shown.display());
            for entry in std::fs::read_dir(&shown).with_context(context)? {
                let entry = entry.with_context(context)?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if ignored.contains(&path.as_str()) {
                    continue;
                }
                if entry.file_type().with_context(context)?.is_dir() {
                    folders.push(path.clone());
                } else {
                    tree.add_file(root, &path)?;
                }
                tree.paths.insert(path);
            }
        }
        tree.texts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// The text file at a path.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&TextFile> {
        self.texts.iter().find(|file| file.path == path)
    }

    fn add_file(&mut self, root: &Path, path: &str) -> Result<()> {
        let mut file = TextFile { path: path.to_owned(), text: String::new() };
        if TEXT.contains(&file.extension()) || path.starts_with(".ci/") {
            let context = || format!("cannot read {path} as text");
            file.text = std::fs::read_to_string(root.join(path)).with_context(context)?;
            self.texts.push(file);
        }
        Ok(())
    }

    /// A tree in memory, for the tests of the checks.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self {
            root: "/nowhere".into(),
            paths: BTreeSet::from([String::new()]),
            texts: Vec::new(),
        };
        for (path, text) in files {
            let folders = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
            tree.paths.extend(folders.chain([(*path).to_owned()]));
            tree.texts.push(TextFile { path: (*path).to_owned(), text: (*text).to_owned() });
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_read_without_build_outputs() {
        let tree = Tree::read(&crate::workspace::root()).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").is_some());
        assert!(tree.text(".ci/run").is_some());
        assert!(tree.paths.contains("xtask/src"));
        assert!(!tree.paths.iter().any(|path| path.starts_with("target")));
    }
}
