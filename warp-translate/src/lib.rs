//! Generates the CUDA code of an environment from its Rust code.
//!
//! [`translate`] reads the file with `impl Env for ...`, follows its modules and `use`s, and writes
//! C++17 for everything that is reachable from `reset`, `observe` and `step`: same names, same order,
//! comments kept. The code is what [`warp_core::kernel`] describes, and is committed next to the Rust
//! file. Both give the same bits. `docs/translator.md` describes what a body may use, and how each
//! difference between the two languages is resolved; everything else is a [`Diagnostic`] with a
//! location and a suggestion.
//!
//! [`warp_core::kernel`]: https://docs.rs/warp-core/latest/warp_core/kernel

mod builtin;
mod conditional;
mod declarations;
mod declared;
mod diagnostic;
mod emit;
mod entry;
mod infer;
mod ir;
mod literal;
mod modules;
mod program;
mod row_functions;
mod source;
mod team;
mod twin;
mod types;
mod walk;

pub use diagnostic::Diagnostic;

use declared::Declared;
use diagnostic::Fault;
use infer::World;
use modules::Modules;
use program::{Program, world_of};
use std::path::{Path, PathBuf};

/// A text and where it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translation {
    /// The C++ text.
    pub text: String,
    /// The file that `impl Env` includes as its CUDA code, if it includes one.
    pub included: Option<PathBuf>,
}

/// Translates the environment of a file, or the row functions that it declares.
///
/// # Errors
/// Everything that a body cannot use, by file and line.
pub fn translate(file: &Path) -> Result<Translation, Vec<Diagnostic>> {
    let mut modules = Modules::default();
    let made = match row_functions::declared(file) {
        Some(declared) => declared.translated(&mut modules, file),
        None => environment(&mut modules, file),
    };
    made.map_err(|faults| placed(&modules, faults))
}

/// Translates free functions of a file, by name, with everything that they call; for kernels that are
/// no environment.
///
/// # Errors
/// Everything that a body cannot use, by file and line.
pub fn translate_functions(file: &Path, names: &[&str]) -> Result<String, Vec<Diagnostic>> {
    let mut modules = Modules::default();
    functions(&mut modules, file, names).map_err(|faults| placed(&modules, faults))
}

/// For a `build.rs`: translates the environment of `file` into `OUT_DIR`, under the file's name with
/// the extension `cu`, and asks Cargo to call again when a file that was read changes.
///
/// The environment then has `include_str!(concat!(env!("OUT_DIR"), "/world.cu"))`.
///
/// # Panics
/// With everything that is wrong, which ends the build.
pub fn build(file: impl AsRef<Path>) {
    let file = file.as_ref();
    let mut modules = Modules::default();
    let made = environment(&mut modules, file).map_err(|faults| placed(&modules, faults));
    for source in &modules.sources {
        println!("cargo::rerun-if-changed={}", source.path.display());
    }
    let written = made.map_err(|diagnostics| {
        let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        lines.join("\n")
    });
    let written = written.and_then(|made| {
        let folder =
            std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: call this in a build.rs")?;
        let name = file.file_stem().unwrap_or(file.as_os_str());
        let to = Path::new(&folder).join(name).with_extension("cu");
        std::fs::write(&to, made.text).map_err(|error| format!("{}: {error}", to.display()))
    });
    if let Err(reason) = written {
        panic!("{reason}");
    }
}

fn environment(modules: &mut Modules, file: &Path) -> Result<Translation, Vec<Fault>> {
    let one = |fault| vec![fault];
    let module = modules.file(file).map_err(one)?;
    let (world, entries) = world_of(modules, module).map_err(one)?;
    let made_from = made_from(modules, &entries.iter().map(|(_, item)| *item).collect::<Vec<_>>());
    let included = included(modules, module, file);
    let team =
        modules.sources[modules.modules[module].file].text.contains("Layout::TeamPerReplica");
    let mut program = Program::new(modules, world, team);
    program.entries(&entries);
    Ok(Translation { text: program.text(&made_from)?, included })
}

fn functions(modules: &mut Modules, file: &Path, names: &[&str]) -> Result<String, Vec<Fault>> {
    let module = modules.file(file).map_err(|fault| vec![fault])?;
    let mut items = Vec::new();
    for name in names {
        match modules.modules[module].items.get(*name) {
            Some(item) if matches!(modules.items[*item].what, Declared::Fn(_)) => items.push(*item),
            _ => {
                let span =
                    diagnostic::Span { file: modules.modules[module].file, ..Default::default() };
                return Err(vec![Fault {
                    span,
                    sentence: format!("there is no function `{name}`"),
                }]);
            }
        }
    }
    let header = made_from(modules, &items);
    let mut program = Program::new(modules, World::default(), false);
    program.helpers(&items);
    program.text(&header)
}

/// The line that says which files to change, and what their first lines say.
fn made_from(modules: &Modules, items: &[usize]) -> String {
    let mut files: Vec<usize> = items.iter().map(|item| modules.items[*item].span.file).collect();
    files.sort_unstable();
    files.dedup();
    let name = |file: &usize| {
        let path = &modules.sources[*file].path;
        let parts: Vec<String> =
            path.iter().rev().take(2).map(|part| part.to_string_lossy().to_string()).collect();
        match &parts[..] {
            [file, folder] if folder != "src" && folder != "/" => format!("{folder}/{file}"),
            [file, ..] => file.clone(),
            [] => String::new(),
        }
    };
    let names: Vec<String> = files.iter().map(name).collect();
    let which = if names.len() == 1 { "that file" } else { "those files" };
    let mut lines =
        format!("// Made from {} by warp translate; change {which}.", names.join(" and "));
    for module in modules.modules.iter().filter(|module| files.contains(&module.file)) {
        for line in module.docs.iter().take_while(|line| !line.is_empty()) {
            lines.push('\n');
            lines.push_str(&emit::ended(&format!("// {line}")));
        }
    }
    lines
}

/// The text file that the environment's `kernel` includes.
fn included(modules: &Modules, module: usize, file: &Path) -> Option<PathBuf> {
    let text = &modules.sources[modules.modules[module].file].text;
    let start = text.find("include_str!(\"")? + "include_str!(\"".len();
    let name = &text[start..start + text[start..].find('"')?];
    name.ends_with(".cu").then(|| file.parent().unwrap_or(Path::new("")).join(name))
}

fn placed(modules: &Modules, faults: Vec<Fault>) -> Vec<Diagnostic> {
    let mut diagnostics: Vec<Diagnostic> = faults
        .into_iter()
        .map(|Fault { span, sentence }| Diagnostic {
            path: modules.sources.get(span.file).map(|s| s.path.clone()).unwrap_or_default(),
            line: span.line,
            column: if span.line == 0 { 0 } else { span.column + 1 },
            sentence,
        })
        .collect();
    diagnostics.sort();
    diagnostics.dedup();
    diagnostics
}
