//! What a body cannot name, and what to write instead.

use crate::builtin;
use crate::declared::Declared;
use crate::infer::Infer;
use crate::types::{ItemId, Ty};

/// `Option` and `Result` by their parts.
const OPTIONAL: [&str; 6] = ["Some", "None", "Ok", "Err", "Option", "Result"];

/// What is in the place of `Option` and `Result`, if `name` is one of their parts.
pub(super) fn optional(name: &str) -> Option<String> {
    OPTIONAL.contains(&name).then(|| {
        format!(
            "`{name}` is not supported in a body; use a flag beside the value, or a number that \
             means none, such as -1"
        )
    })
}

impl Infer<'_> {
    /// Why a path that leads out of the crate is no good.
    pub(super) fn outside(&self, path: &str) -> String {
        if path == "usize::MAX" || path == "usize::BITS" {
            return format!(
                "`{path}` differs on a GPU, where usize has 32 bits; use u32 or a flag"
            );
        }
        if let Some(sentence) = optional(path) {
            return sentence;
        }
        if let Some(name) = path.strip_prefix("Self::") {
            return associated(name);
        }
        if !path.contains("::") && self.modules.has_globs(self.module) {
            return format!(
                "`{path}` is not known to a body; name it in the `use`, since `*` is not followed \
                 out of the crate"
            );
        }
        format!(
            "`{path}` is not known to a body; it may use its own items, `warp_core` and constants"
        )
    }

    /// Why an item is no value.
    pub(super) fn no_value(&self, item: ItemId, names: &[String]) -> String {
        let last = names.last().map(String::as_str).unwrap_or_default();
        match &self.modules.items[item].what {
            Declared::Enum(_) => {
                let name = &self.modules.items[item].name;
                format!("variants are named with their enum; write `{name}::{last}`")
            }
            Declared::Struct(_) if names.len() > 1 => associated(last),
            _ => format!("`{}` is not a value that a body can use", names.join("::")),
        }
    }
}

fn associated(name: &str) -> String {
    format!("constants of an `impl` are not supported; declare `{name}` outside of it")
}

/// Why `T::function(x)` is no good.
pub(super) fn of_primitive(ty: &Ty, function: &str) -> String {
    let name = ty.rust();
    let method = match ty {
        Ty::F32 => builtin::float_method(function),
        ty if ty.is_int() => builtin::int_method(ty, function),
        _ => return format!("`{name}::{function}` is not supported in a body"),
    };
    match (function, method) {
        ("try_from", _) => {
            format!(
                "`{name}::try_from` is not supported in a body; compare first, then `x as {name}`"
            )
        }
        (_, Ok(_)) => {
            format!("`{name}::{function}(x)` is not supported in a body; write `x.{function}(...)`")
        }
        (_, Err(sentence)) => sentence,
    }
}
