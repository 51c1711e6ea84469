//! What a crate may depend on: the arrows of ARCHITECTURE.md, as data.

use toml::{Table, Value};

use super::manifest::{self, Dependency, Manifest};
use super::{Tree, Violation};

/// One crate's row: whatever is not named here is not allowed.
struct Row {
    name: &'static str,
    /// Crates of the workspace that it may import.
    may: &'static [&'static str],
    /// Further ones, as optional dependencies only.
    with_cuda: &'static [&'static str],
    /// Further ones, for its tests and benches only.
    in_tests: &'static [&'static str],
    /// Whether it may import burn, as an optional dependency behind its feature `burn`.
    burn: bool,
    /// Whether it may import cudarc, as an optional dependency behind its feature `cuda`.
    cudarc: bool,
}

const NOTHING: Row =
    Row { name: "", may: &[], with_cuda: &[], in_tests: &[], burn: false, cudarc: false };

/// The arrows between the crates.
const TABLE: [Row; 12] = [
    Row { name: "warp-core", ..NOTHING },
    Row { name: "warp-data", may: &["warp-core"], cudarc: true, ..NOTHING },
    Row { name: "warp-func", may: &["warp-core", "warp-data"], cudarc: true, ..NOTHING },
    Row {
        name: "warp-sample",
        may: &["warp-core", "warp-data"],
        with_cuda: &["warp-func"],
        in_tests: &["warp-func"],
        cudarc: true,
        ..NOTHING
    },
    Row { name: "warp-envs", may: &["warp-core", "warp-func"], ..NOTHING },
    Row {
        name: "warp-train",
        may: &["warp-core", "warp-data", "warp-func", "warp-sample"],
        in_tests: &["warp-envs"],
        burn: true,
        ..NOTHING
    },
    Row {
        name: "warp-examples",
        may: &[
            "warp-core",
            "warp-data",
            "warp-func",
            "warp-sample",
            "warp-envs",
            "warp-train",
            "warp-translate",
        ],
        ..NOTHING
    },
    // Asks for the feature `burn`, for tests alone.
    Row { name: "warp-burn-tests", may: &["warp-envs", "warp-train", "warp-examples"], ..NOTHING },
    // The Python package.
    Row {
        name: "warp-py",
        may: &[
            "warp-core",
            "warp-data",
            "warp-func",
            "warp-sample",
            "warp-envs",
            "warp-train",
            "warp-examples",
        ],
        ..NOTHING
    },
    Row { name: "warp-translate", ..NOTHING },
    Row { name: "xtask", may: &["warp-translate"], ..NOTHING },
    // The targets of cargo-fuzz.
    Row { name: "warp-fuzz", may: &["warp-examples"], ..NOTHING },
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    manifest::read(tree).iter().flat_map(arrows).collect()
}

/// What one crate depends on against its row.
fn arrows(manifest: &Manifest<'_>) -> Vec<Violation> {
    let Some(name) = manifest.name() else { return Vec::new() };
    let Some(row) = TABLE.iter().find(|row| row.name == name) else {
        let sentence = format!("`{name}` has no row in the table of xtask/src/tidy/crates.rs");
        return vec![manifest.violation("name", sentence)];
    };
    let mut found = Vec::new();
    found.extend(default_burn(manifest));
    for dependency in manifest.dependencies() {
        if let Some(fault) = fault(row, &dependency, &manifest.table) {
            let sentence = format!("`{}`: {name} {fault}", dependency.name);
            found.push(manifest.violation(dependency.key, sentence));
        }
    }
    found
}

/// Why a crate may not have a dependency; none if it may.
fn fault(row: &Row, dependency: &Dependency<'_>, manifest: &Table) -> Option<&'static str> {
    let name = dependency.name;
    if TABLE.iter().any(|row| row.name == name) {
        warp_fault(row, dependency)
    } else if name == "burn" || name.starts_with("burn-") {
        burn_fault(row, dependency, manifest)
    } else if name == "cudarc" {
        cudarc_fault(row, dependency, manifest)
    } else {
        None
    }
}

fn warp_fault(row: &Row, dependency: &Dependency<'_>) -> Option<&'static str> {
    let name = &dependency.name;
    let in_tests = dependency.in_tests && row.in_tests.contains(name);
    if row.may.contains(name) || in_tests {
        None
    } else if !row.with_cuda.contains(name) {
        Some("may not depend on it")
    } else if dependency.optional {
        None
    } else {
        Some("may depend on it only with its feature `cuda`, so it must be optional")
    }
}

/// A default feature that brings burn: the first command of a new user would build it.
fn default_burn(manifest: &Manifest<'_>) -> Option<Violation> {
    let default = feature(&manifest.table, "default");
    let brings = |name: &str| ["burn", "tch"].contains(&name.rsplit('/').next().unwrap_or(name));
    let sentence = "a default build never brings burn";
    default.into_iter().any(brings).then(|| manifest.violation("default", sentence))
}

fn burn_fault(row: &Row, dependency: &Dependency<'_>, manifest: &Table) -> Option<&'static str> {
    let behind_burn = dependency.optional && feature(manifest, "burn").contains(&"dep:burn");
    if !row.burn {
        Some("must never import it")
    } else if !behind_burn {
        Some("may import it only as `dep:burn` of its feature `burn`, optional")
    } else {
        None
    }
}

/// What a feature of a manifest turns on.
fn feature<'m>(manifest: &'m Table, name: &str) -> Vec<&'m str> {
    let feature = manifest.get("features").and_then(|features| features.get(name));
    feature.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn cudarc_fault(row: &Row, dependency: &Dependency<'_>, manifest: &Table) -> Option<&'static str> {
    let behind_cuda = dependency.optional && feature(manifest, "cuda").contains(&"dep:cudarc");
    if !row.cudarc {
        Some("must never import it")
    } else if !behind_cuda {
        Some("may import it only as `dep:cudarc` of its feature `cuda`, optional")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.dependencies]\nfire = { package = 'burn', version = '1' }\n";

    fn found(name: &str, dependencies: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = '{name}'\n{dependencies}\n");
        let path = format!("{name}/Cargo.toml");
        let tree = Tree::of(&[("Cargo.toml", ROOT), (&path, &manifest)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_arrow_of_the_table_passes() {
        assert_eq!(found("warp-data", "[dependencies]\nwarp-core.workspace = true"), [""; 0]);
        assert_eq!(found("warp-train", "[dev-dependencies]\nwarp-envs = '1'"), [""; 0]);
    }

    #[test]
    fn other_arrows_are_reported() {
        let wanted = "warp-train/Cargo.toml:4: `warp-envs`: warp-train may not depend on it";
        assert_eq!(found("warp-train", "[dependencies]\nwarp-envs = '1'"), [wanted]);
        assert_eq!(found("warp-core", "[dev-dependencies]\nwarp-data = '1'").len(), 1);
        assert_eq!(
            found("warp-envs", "[target.'cfg(unix)'.dependencies]\nwarp-data = '1'").len(),
            1
        );
        let wanted = "warp-envs/Cargo.toml:3: `warp-train`: warp-envs may not depend on it";
        assert_eq!(found("warp-envs", "[dependencies.warp-train]\nversion = '1'"), [wanted]);
        assert_eq!(found("xtask", "[build-dependencies]\nwarp-core = '1'").len(), 1);
        assert_eq!(found("warp-core", "[dependencies]\nx = { package = 'warp-data' }").len(), 1);
    }

    #[test]
    fn burn_stays_out_of_the_lower_crates() {
        for name in ["warp-core", "warp-data", "warp-func", "warp-sample", "warp-envs", "xtask"] {
            assert_eq!(found(name, "[dev-dependencies]\nburn-flex = '1'").len(), 1, "{name}");
            assert_eq!(found(name, "[dependencies]\nfire.workspace = true").len(), 1, "{name}");
        }
    }

    #[test]
    fn burn_is_optional_and_never_a_default() {
        let burn = "[dependencies]\nburn = { version = '1', optional = true }\n[features]\n";
        assert_eq!(found("warp-train", &format!("{burn}burn = ['dep:burn']")), [""; 0]);
        assert_eq!(found("warp-train", &format!("{burn}tch = ['dep:burn']")).len(), 1);
        assert_eq!(found("warp-train", "[dependencies]\nburn = '1'").len(), 1);
        assert_eq!(found("warp-examples", &format!("{burn}burn = ['dep:burn']")).len(), 1);
        for default in ["burn", "tch", "warp-train/burn"] {
            let features = format!("[features]\ndefault = ['cuda', '{default}']");
            assert_eq!(found("warp-examples", &features).len(), 1, "{default}");
        }
    }

    #[test]
    fn cuda_is_optional() {
        let cudarc = "[dependencies]\ncudarc = { version = '1', optional = true }\n[features]\n";
        assert_eq!(found("warp-data", &format!("{cudarc}cuda = ['dep:cudarc']")), [""; 0]);
        assert_eq!(found("warp-data", &format!("{cudarc}gpu = ['dep:cudarc']")).len(), 1);
        assert_eq!(found("warp-data", "[dependencies]\ncudarc = '1'").len(), 1);
        assert_eq!(found("warp-train", &format!("{cudarc}cuda = ['dep:cudarc']")).len(), 1);
        assert_eq!(found("warp-sample", "[dependencies]\nwarp-func.workspace = true").len(), 1);
        let optional = "[dependencies]\nwarp-func = { workspace = true, optional = true }";
        assert_eq!(found("warp-sample", optional), [""; 0]);
    }

    #[test]
    fn an_unknown_crate_needs_a_row() {
        let tree = Tree::of(&[("x/Cargo.toml", "[package]\nname = 'warp-x'\n")]);
        assert!(check(&tree)[0].sentence.contains("has no row"));
    }
}
