//! Where the workspace is, which crates it publishes, and how a command is run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The published crates, each after the ones it depends on: also the order of a release.
pub const LIBRARIES: [&str; 8] = [
    "warp-core",
    "warp-data",
    "warp-func",
    "warp-sample",
    "warp-envs",
    "warp-train",
    "warp-translate",
    "warp-examples",
];

/// The folder of the workspace's `Cargo.toml`.
#[must_use]
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Parses one TOML file of the workspace.
///
/// # Errors
/// When the file cannot be read or is no TOML.
pub fn read_toml(path: &Path) -> Result<toml::Table> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("{} is not valid TOML", path.display()))
}

/// A command line as a person would type it, with the variables that it sets.
#[derive(Debug, Clone, Default)]
pub struct CommandLine {
    /// Environment variables, name and value.
    pub variables: Vec<(&'static str, String)>,
    /// Program and arguments.
    pub words: Vec<String>,
}

impl CommandLine {
    /// Splits a line at its blanks; no quoting.
    #[must_use]
    pub fn new(line: &str) -> Self {
        Self { variables: Vec::new(), words: line.split_whitespace().map(str::to_owned).collect() }
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Runs the command in the workspace's root with this process's output.
    ///
    /// # Errors
    /// When it cannot be started or does not end with 0.
    pub fn run(&self) -> Result<()> {
        println!("$ {self}");
        let status = self.command()?.status().with_context(|| format!("cannot start `{self}`"))?;
        if !status.success() {
            bail!("`{self}` ended with {status}");
        }
        Ok(())
    }

    /// Runs the command and returns its standard output; its standard error passes through.
    ///
    /// # Errors
    /// When it cannot be started, does not end with 0, or prints bytes that are not UTF-8.
    pub fn output(&self) -> Result<String> {
        let output = self
            .command()?
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start `{self}`"))?;
        if !output.status.success() {
            bail!("`{self}` ended with {}", output.status);
        }
        String::from_utf8(output.stdout).with_context(|| format!("`{self}` did not print UTF-8"))
    }

    fn command(&self) -> Result<Command> {
        let (program, arguments) = self.words.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        command.args(arguments).envs(variables).current_dir(root());
        Ok(command)
    }
}

impl std::fmt::Display for CommandLine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in &self.variables {
            write!(formatter, "{name}={value:?} ")?;
        }
        write!(formatter, "{}", self.words.join(" "))
    }
}
