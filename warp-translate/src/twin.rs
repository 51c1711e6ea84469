//! Functions with a twin by hand, which a line of their documentation names.
//!
//! `/// Twin in CUDA: nearest.cu` says that the text holds that file in the place of the function, behind
//! a declaration made from its signature. ``/// Twin of [`nearest`] for the CPU.`` says that a call means
//! the named function, which has the same signature, wherever the text is concerned.

use crate::diagnostic::{Result, fault};
use crate::infer::{World, signature_of};
use crate::modules::{Found, Modules};
use crate::types::{ItemId, Ty};
use std::path::PathBuf;

/// The file that stands for a function.
pub(crate) fn in_cuda(modules: &Modules, item: ItemId) -> Option<PathBuf> {
    let of = &modules.items[item];
    let name = of.docs.iter().find_map(|line| line.strip_prefix("Twin in CUDA: "))?;
    let folder = modules.sources.get(of.span.file)?.path.parent()?;
    Some(folder.join(name.trim().trim_matches(['`', '.'])))
}

/// The function that the text has in the place of `item`.
pub(crate) fn meant(modules: &mut Modules, world: &World, item: ItemId) -> Result<ItemId> {
    let of = &modules.items[item];
    let named = of.docs.iter().find_map(|line| {
        let (name, rest) = line.strip_prefix("Twin of [`")?.split_once("`]")?;
        rest.trim().starts_with("for the CPU").then(|| name.to_string())
    });
    let (module, span) = (of.module, of.span);
    let Some(name) = named else { return Ok(item) };
    let path: Vec<String> = name.split("::").map(String::from).collect();
    let Found::Item(other) = modules.resolve(module, &path, span)? else {
        return fault(span, format!("`{name}`, whose twin this is, is not there"));
    };
    let [own, twin] = [item, other].map(|id| signature_of(modules, world, id));
    let (own, twin) = (own?, twin?);
    let shape = |ty: &Ty| ty.behind().clone();
    let same = own.params.len() == twin.params.len()
        && own.params.iter().zip(&twin.params).all(|(a, b)| shape(a) == shape(b))
        && own.output == twin.output;
    if same {
        Ok(other)
    } else {
        fault(span, format!("`{name}`, whose twin this is, has another signature"))
    }
}
