//! `cargo xtask ci`: every library crate is built, tested and documented on its own, feature by
//! feature, and `cargo package` accepts it.
//!
//! Everything runs in the dev profile and crate after crate in the order of their arrows, so that
//! what one crate compiled serves the next. The feature `tch` is left out: it needs LibTorch.

use anyhow::{Result, bail};

use crate::workspace::{self, CommandLine, LIBRARIES};

/// Features that a machine without extra libraries cannot build.
const LEFT_OUT: [&str; 2] = ["tch", "tch-doc"];

/// Runs the commands for the named crates, or for all of them and the packaging; stops at the
/// first that fails.
///
/// # Errors
/// Names the command that failed, or a crate that the workspace does not publish.
pub fn run(crates: &[String]) -> Result<()> {
    if let Some(unknown) = crates.iter().find(|name| !LIBRARIES.contains(&name.as_str())) {
        bail!("`{unknown}` is not a library crate of the workspace: {}", LIBRARIES.join(", "));
    }
    let commands = commands(crates)?;
    for command in &commands {
        command.run()?;
    }
    println!("xtask ci: all {} commands ended well", commands.len());
    Ok(())
}

fn commands(crates: &[String]) -> Result<Vec<CommandLine>> {
    let all = crates.is_empty();
    let mut commands = Vec::new();
    for name in LIBRARIES.iter().filter(|name| all || crates.iter().any(|named| named == *name)) {
        let manifest = workspace::read_toml(&workspace::root().join(name).join("Cargo.toml"))?;
        for features in feature_sets(&manifest) {
            commands.extend(commands_for(name, &features));
        }
    }
    if all {
        // In one call, since the crates are found among themselves and not on a registry.
        let package = "cargo package --locked --workspace --exclude xtask --exclude warp-burn-tests \
             --exclude warp-py --no-verify --allow-dirty";
        commands.push(CommandLine::new(package));
    }
    Ok(commands)
}

fn commands_for(name: &str, features: &str) -> [CommandLine; 3] {
    [
        CommandLine::new(&format!("cargo build --locked -p {name} {features}")),
        CommandLine::new(&format!("cargo test --locked -p {name} {features}")),
        CommandLine::new(&format!("cargo doc --locked --no-deps -p {name} {features}"))
            .with("RUSTDOCFLAGS", "-D warnings"),
    ]
}

/// The flags of each build of a crate: its default, nothing at all, and each feature by itself.
fn feature_sets(manifest: &toml::Table) -> Vec<String> {
    let mut sets = vec![String::new()];
    let Some(features) = manifest.get("features").and_then(toml::Value::as_table) else {
        return sets;
    };
    if features.contains_key("default") {
        sets.push("--no-default-features".to_owned());
    }
    let alone = features.keys().filter(|name| *name != "default");
    let alone = alone.filter(|name| !LEFT_OUT.contains(&name.as_str()));
    sets.extend(alone.map(|name| format!("--no-default-features --features {name}")));
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_features_is_built_once() {
        let manifest = "[package]\nname = 'x'".parse().unwrap();
        assert_eq!(feature_sets(&manifest), [""]);
    }

    #[test]
    fn every_feature_but_tch_is_built_alone() {
        let manifest = "[features]\ndefault = ['flex']\nflex = []\ntch = []".parse().unwrap();
        let wanted = ["", "--no-default-features", "--no-default-features --features flex"];
        assert_eq!(feature_sets(&manifest), wanted);
    }

    #[test]
    fn a_command_line_shows_its_variables() {
        let [_, _, doc] = commands_for("warp-core", "");
        let wanted = r#"RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps -p warp-core"#;
        assert_eq!(doc.to_string(), wanted);
    }

    #[test]
    fn an_unknown_crate_is_refused() {
        let error = run(&["warp-cuda".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("warp-cuda"));
    }
}
