//! What cargo built: its messages read, and tests for a GPU found by their names.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Makes cargo say on standard output what it built, and keep its errors readable.
pub const FORMAT: &str = "--message-format=json-render-diagnostics";

/// An executable file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The crate.
    pub package: String,
    /// The target within the crate.
    pub name: String,
    /// Whether it is a test harness.
    pub is_test: bool,
    /// Where it lies.
    pub path: PathBuf,
}

/// The executables that cargo's messages name, in their order.
#[must_use]
pub fn executables(messages: &str) -> Vec<Artifact> {
    messages.lines().filter_map(executable).collect()
}

fn executable(line: &str) -> Option<Artifact> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = message.get("executable")?.as_str()?.into();
    let manifest = message.get("manifest_path")?.as_str()?;
    let package = manifest.rsplit('/').nth(1)?.to_owned();
    let name = message.pointer("/target/name")?.as_str()?.to_owned();
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    Some(Artifact { package, name, is_test, path })
}

/// The test targets of a manifest that ask for `feature` and for no other.
pub fn tests_with<'m>(manifest: &'m toml::Table, feature: &str) -> impl Iterator<Item = &'m str> {
    let tests = manifest.get("test").and_then(toml::Value::as_array).into_iter().flatten();
    let asks = toml::Value::Array(vec![feature.into()]);
    tests
        .filter(move |test| test.get("required-features") == Some(&asks))
        .filter_map(|test| test.get("name")?.as_str())
}

/// How many tests of a test binary are named `cuda_*`.
///
/// # Errors
/// A binary that can't list its tests.
pub fn gpu_tests(artifact: &Artifact) -> Result<usize> {
    let shown = artifact.path.display();
    let listed = Command::new(&artifact.path).arg("--list").output();
    let listed = listed.with_context(|| format!("cannot start {shown}"))?;
    ensure!(listed.status.success(), "`{shown} --list` ended with {}", listed.status);
    Ok(count_gpu_tests(&String::from_utf8_lossy(&listed.stdout)))
}

fn count_gpu_tests(list: &str) -> usize {
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| name.rsplit("::").next().is_some_and(|n| n.starts_with("cuda_"))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_read_from_messages() {
        let messages = r#"{"reason":"compiler-artifact","manifest_path":"/w/warp-data/Cargo.toml","target":{"name":"warp_data"},"profile":{"test":false},"executable":null}
not JSON
{"reason":"compiler-artifact","manifest_path":"/w/warp-func/Cargo.toml","target":{"name":"cuda_registry"},"profile":{"test":true},"executable":"/w/target/debug/deps/cuda_registry-1"}
{"reason":"build-finished","success":true}"#;
        let wanted = Artifact {
            package: "warp-func".into(),
            name: "cuda_registry".into(),
            is_test: true,
            path: "/w/target/debug/deps/cuda_registry-1".into(),
        };
        assert_eq!(executables(messages), [wanted]);
    }

    #[test]
    fn tests_are_found_by_the_feature_that_they_ask_for() {
        let manifest = "[[test]]\nname = 'a'\n[[test]]\nname = 'b'\nrequired-features = ['cuda']\n\
                        [[test]]\nname = 'c'\nrequired-features = ['tch']\n";
        let manifest = manifest.parse().unwrap();
        assert_eq!(tests_with(&manifest, "cuda").collect::<Vec<_>>(), ["b"]);
        assert_eq!(tests_with(&"".parse().unwrap(), "cuda").count(), 0);
    }

    #[test]
    fn gpu_tests_are_counted_by_name() {
        let list = "a::cuda_one: test\ncuda_two: test\nnot_cuda_: test\ncuda_x: bench\n\n2 tests";
        assert_eq!(count_gpu_tests(list), 2);
    }
}
