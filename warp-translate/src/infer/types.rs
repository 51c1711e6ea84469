//! What types are called in Rust, the fields they have, and the types that a function takes and returns.

use crate::declared::{Declared, FieldType};
use crate::diagnostic::{Result, Span, fault};
use crate::infer::evaluate;
use crate::modules::{Found, ModuleId, Modules};
use crate::source::span_of;
use crate::types::{ItemId, Ty};
use syn::spanned::Spanned;

/// What the environment's own types are.
#[derive(Debug, Default, Clone)]
pub(crate) struct World {
    /// The struct that implements `Env`.
    pub(crate) itself: Option<ItemId>,
    pub(crate) params: Option<ItemId>,
    pub(crate) state: Option<ItemId>,
    /// The struct of its field `tables`.
    pub(crate) tables: Option<ItemId>,
}

/// A field: its type, and the dimensions of a row of the state.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) ty: Ty,
    pub(crate) dims: Option<Vec<String>>,
}

/// The scalar type of a name.
pub(crate) fn primitive(name: &str) -> Option<Ty> {
    Some(match name {
        "f32" => Ty::F32,
        "i32" => Ty::I32,
        "u32" => Ty::U32,
        "i64" => Ty::I64,
        "u64" => Ty::U64,
        "u8" => Ty::U8,
        "bool" => Ty::Bool,
        "usize" => Ty::Usize,
        _ => return None,
    })
}

/// The type that an item declares.
pub(super) fn item_type(modules: &Modules, world: &World, item: ItemId) -> Option<Ty> {
    let named = |other: Option<ItemId>| other == Some(item);
    Some(match modules.items[item].what {
        _ if named(world.itself) => Ty::World,
        _ if named(world.tables) => Ty::Tables,
        _ if named(world.params) => Ty::Params,
        _ if named(world.state) => Ty::State,
        Declared::Struct(_) | Declared::Params(_) => Ty::Struct(item),
        Declared::Enum(_) => Ty::Enum(item),
        _ => return None,
    })
}

/// The type that is written as `ty` in `module`.
pub(crate) fn type_of(
    modules: &mut Modules,
    world: &World,
    module: ModuleId,
    own: Option<&Ty>,
    ty: &syn::Type,
) -> Result<Ty> {
    let span = ty.span();
    let span = span_of(modules.modules[module].file, span.start(), span.end());
    let mut inner = |ty: &syn::Type| type_of(modules, world, module, own, ty);
    match ty {
        syn::Type::Paren(ty) => inner(&ty.elem),
        syn::Type::Group(ty) => inner(&ty.elem),
        syn::Type::Never(_) => Ok(Ty::Never),
        syn::Type::Tuple(ty) if ty.elems.is_empty() => Ok(Ty::Unit),
        syn::Type::Tuple(ty) => {
            let parts: Vec<Ty> = ty.elems.iter().map(inner).collect::<Result<_>>()?;
            crate::types::tuple_of(parts.len(), span)?;
            Ok(Ty::Tuple(parts))
        }
        syn::Type::Reference(ty) => {
            let mutable = ty.mutability.is_some();
            if let syn::Type::Slice(slice) = &*ty.elem {
                return Ok(Ty::Slice(Box::new(inner(&slice.elem)?), mutable));
            }
            match inner(&ty.elem)? {
                Ty::Slice(element, _) => Ok(Ty::Slice(element, mutable)),
                other => Ok(Ty::Ref(Box::new(other), mutable)),
            }
        }
        syn::Type::Array(ty) => {
            let element = inner(&ty.elem)?;
            match evaluate(modules, module, &ty.len)? {
                n if (0..=1 << 20).contains(&n) => Ok(Ty::Array(Box::new(element), n as u64)),
                n => fault(span, format!("an array of a body cannot have {n} elements")),
            }
        }
        syn::Type::Path(path) if path.qself.is_none() => {
            named_type(modules, world, module, own, &path.path, span)
        }
        _ => fault(span, "a body has scalars, arrays, slices, tuples, structs and enums only"),
    }
}

fn named_type(
    modules: &mut Modules,
    world: &World,
    module: ModuleId,
    own: Option<&Ty>,
    path: &syn::Path,
    span: Span,
) -> Result<Ty> {
    let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    let last = names.last().cloned().unwrap_or_default();
    if names.len() == 1 {
        if let Some(ty) = primitive(&last) {
            return Ok(ty);
        }
        if let ("Self", Some(own)) = (last.as_str(), own) {
            return Ok(own.clone());
        }
    }
    if let Found::Item(item) = modules.resolve(module, &names, span)? {
        if let Declared::Alias(ty) = &modules.items[item].what {
            let (ty, home) = (ty.clone(), modules.items[item].module);
            return type_of(modules, world, home, own, &ty);
        }
        return match item_type(modules, world, item) {
            Some(ty) => Ok(ty),
            None => fault(span, format!("`{last}` is not a type that a body can use")),
        };
    }
    match last.as_str() {
        "Draw" => Ok(Ty::Draw),
        "Actions" => Ok(Ty::Actions),
        "StepOut" => Ok(Ty::StepOut),
        "Observation" => Ok(Ty::Observation),
        // `View<'_, Self>`, as the contract calls the state.
        "View" if world.state.is_some() => Ok(Ty::State),
        "Vec" | "Box" => {
            let syn::PathArguments::AngleBracketed(of) = &path.segments[names.len() - 1].arguments
            else {
                return fault(span, format!("`{last}` needs its element"));
            };
            match of.args.first() {
                Some(syn::GenericArgument::Type(syn::Type::Slice(of))) => {
                    let element = type_of(modules, world, module, own, &of.elem)?;
                    Ok(Ty::Slice(Box::new(element), false))
                }
                Some(syn::GenericArgument::Type(of)) => {
                    let element = type_of(modules, world, module, own, of)?;
                    Ok(if last == "Vec" { Ty::Slice(Box::new(element), false) } else { element })
                }
                _ => fault(span, format!("`{last}` needs its element")),
            }
        }
        "f64" => fault(span, "f64 is not supported in a body: it is slow on GPUs; use f32"),
        "i8" | "i16" | "u16" | "i128" | "u128" | "isize" | "char" | "str" | "String" => fault(
            span,
            format!(
                "`{last}` is not supported in a body; there are i32, u32, i64, u64, u8, usize and \
                 f32"
            ),
        ),
        _ => {
            let other = || format!("`{last}` is not a type that a body can use");
            fault(span, super::unsupported::optional(&last).unwrap_or_else(other))
        }
    }
}

/// The type of field `name` of something of type `ty`.
pub(crate) fn field_of(
    modules: &mut Modules,
    world: &World,
    ty: &Ty,
    name: &str,
    span: Span,
) -> Result<Field> {
    let rows = |element: Ty, mutable| Ty::Slice(Box::new(element), mutable);
    let groups = |element: Ty, mutable| Ty::Groups(Box::new(rows(element, mutable)));
    let plain = |ty: Ty| Ok(Field { ty, dims: None });
    match (ty, name) {
        (Ty::Ref(inner, _), _) => return field_of(modules, world, inner, name, span),
        (Ty::Actions, "discrete") => return plain(groups(Ty::I32, false)),
        (Ty::Actions, "continuous") => return plain(groups(Ty::F32, false)),
        (Ty::StepOut, "reward") => return plain(groups(Ty::F32, true)),
        (Ty::StepOut, "alive") => return plain(groups(Ty::U8, true)),
        (Ty::StepOut, "terminated") => return plain(Ty::Bool),
        (Ty::StepOut, "statistics") => return plain(rows(Ty::F32, true)),
        (Ty::Observation, "obs") => return plain(groups(Ty::F32, true)),
        (Ty::Observation, "action_mask") => return plain(groups(Ty::U8, true)),
        (Ty::Observation, "global") => return plain(rows(Ty::F32, true)),
        (Ty::World, "params") => return plain(Ty::Params),
        (Ty::World, "tables") => return plain(Ty::Tables),
        (Ty::World, _) => {
            return fault(
                span,
                format!(
                    "a body sees `params` and `tables` of its environment, but not `{name}`; make it \
                     a parameter or a table"
                ),
            );
        }
        (Ty::Tuple(parts), _) => {
            if let Some(part) = name.parse::<usize>().ok().and_then(|i| parts.get(i)) {
                return plain(part.clone());
            }
        }
        _ => {}
    }
    let item = match ty {
        Ty::Params => world.params,
        Ty::State => world.state,
        Ty::Tables => world.tables,
        Ty::Struct(item) => Some(*item),
        _ => None,
    };
    match item {
        Some(item) => field_of_item(modules, world, item, name, span),
        None => fault(span, format!("{} has no field `{name}`", ty.rust())),
    }
}

fn field_of_item(
    modules: &mut Modules,
    world: &World,
    item: ItemId,
    name: &str,
    span: Span,
) -> Result<Field> {
    let (of, module) = (&modules.items[item], modules.items[item].module);
    let (fields, by_reference) = match &of.what {
        Declared::Struct(fields) | Declared::Params(fields) => (fields, false),
        Declared::State(fields) => {
            let rows = |field: &crate::declared::FieldOf| matches!(field.ty, FieldType::Rows(..));
            (fields, fields.iter().any(rows))
        }
        _ => return fault(span, format!("`{}` has no fields", of.name)),
    };
    let Some(field) = fields.iter().find(|field| field.name == name) else {
        return fault(span, format!("`{}` has no field `{name}`", of.name));
    };
    match field.ty.clone() {
        FieldType::Rows(element, dims) => {
            let element = type_of(modules, world, module, None, &element)?;
            Ok(Field { ty: Ty::Slice(Box::new(element), true), dims: Some(dims) })
        }
        FieldType::Plain(ty) if Some(item) == world.tables => {
            let ty = table_type(modules, world, module, &ty)?;
            Ok(Field { ty, dims: None })
        }
        FieldType::Plain(ty) => {
            let ty = type_of(modules, world, module, None, &ty)?;
            Ok(match ty {
                // Beside rows an array is one, too.
                Ty::Array(element, n) if by_reference => {
                    Field { ty: Ty::Slice(element, true), dims: Some(vec![format!("{n}u")]) }
                }
                ty if by_reference => Field { ty: Ty::Ref(Box::new(ty), true), dims: None },
                ty => Field { ty, dims: None },
            })
        }
    }
}

/// A table: a slice, whatever keeps it on the CPU.
fn table_type(
    modules: &mut Modules,
    world: &World,
    module: ModuleId,
    ty: &syn::Type,
) -> Result<Ty> {
    let element = match type_of(modules, world, module, None, ty)? {
        Ty::Slice(element, _) | Ty::Array(element, _) => element,
        // A type of the environment's own, of which a body may call `get_clamped` alone.
        Ty::Struct(item) => {
            let of = &modules.items[item];
            let key = (of.name.clone(), "get_clamped".to_string());
            let Some(method) = modules.modules[of.module].methods.get(&key).copied() else {
                return fault(of.span, format!("table type `{}` has no `get_clamped`", of.name));
            };
            Box::new(signature_of(modules, world, method)?.output)
        }
        other => {
            let span = ty.span();
            let span = span_of(modules.modules[module].file, span.start(), span.end());
            return fault(span, format!("a table is a `Vec` of f32 or i32, not {}", other.rust()));
        }
    };
    Ok(Ty::Slice(element, false))
}

/// A signature: the types of the parameters and of the value.
#[derive(Debug, Clone)]
pub(crate) struct Signature {
    pub(crate) params: Vec<Ty>,
    pub(crate) output: Ty,
}

/// The function's module, its syntax tree and what `Self` is in it.
pub(super) fn parts(
    modules: &Modules,
    world: &World,
    item: ItemId,
) -> (ModuleId, syn::ItemFn, Option<Ty>) {
    let of = &modules.items[item];
    let Declared::Fn(function) = &of.what else { unreachable!("only functions are asked for") };
    let own = modules.modules.iter().find_map(|module| {
        let (key, _) = module.methods.iter().find(|(_, id)| **id == item)?;
        let owner = *modules.modules[of.module].items.get(&key.0)?;
        Some(item_type(modules, world, owner))
    });
    (of.module, (**function).clone(), own.flatten())
}

/// What a function takes and returns.
pub(crate) fn signature_of(
    modules: &mut Modules,
    world: &World,
    item: ItemId,
) -> Result<Signature> {
    let (module, function, own) = parts(modules, world, item);
    let span = modules.items[item].span;
    let sig = &function.sig;
    let name = &sig.ident;
    if !sig.generics.params.iter().all(|p| matches!(p, syn::GenericParam::Lifetime(_))) {
        return fault(
            span,
            format!("`{name}` is generic; write one function for each type that it is used with"),
        );
    }
    if sig.asyncness.is_some() || sig.unsafety.is_some() || sig.variadic.is_some() {
        return fault(
            span,
            format!("`{name}` is async, unsafe or variadic; a body has plain functions"),
        );
    }
    let mut params = Vec::new();
    for input in &sig.inputs {
        params.push(match input {
            syn::FnArg::Typed(input) => type_of(modules, world, module, own.as_ref(), &input.ty)?,
            syn::FnArg::Receiver(receiver) => {
                let Some(own) = own.clone() else {
                    return fault(span, "`self` is outside of an `impl` of a known type");
                };
                match &receiver.reference {
                    Some(_) => Ty::Ref(Box::new(own), receiver.mutability.is_some()),
                    None => own,
                }
            }
        });
    }
    let output = match &sig.output {
        syn::ReturnType::Default => Ty::Unit,
        syn::ReturnType::Type(_, ty) => type_of(modules, world, module, own.as_ref(), ty)?,
    };
    if matches!(output, Ty::Ref(..) | Ty::Slice(..)) {
        return fault(
            span,
            format!("`{name}` returns a reference; return a value or an index instead"),
        );
    }
    Ok(Signature { params, output })
}
