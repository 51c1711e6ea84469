//! From `impl Env` to the functions that are its bodies.

use crate::declared::{Declared, FieldOf, FieldType};
use crate::diagnostic::{Result, Span, fault};
use crate::emit::is_name;
use crate::infer::{World, signature_of};
use crate::modules::{Found, Item, ModuleId, Modules};
use crate::source::span_of;
use crate::types::{ItemId, Ty};
use syn::spanned::Spanned;

/// The environment's own types.
pub(crate) fn types(
    modules: &mut Modules,
    module: ModuleId,
    of: &syn::ItemImpl,
    span: Span,
) -> Result<World> {
    let mut world =
        World { itself: named(modules, module, &of.self_ty, span)?, ..World::default() };
    for part in &of.items {
        let syn::ImplItem::Type(part) = part else { continue };
        let item = named(modules, module, &part.ty, span)?;
        match part.ident.to_string().as_str() {
            "Params" => world.params = item,
            "State" => world.state = item,
            _ => {}
        }
    }
    if let Some(itself) = world.itself
        && let Declared::Struct(fields) = &modules.items[itself].what
        && let Some(field) = fields.iter().find(|field| field.name == "tables")
        && let FieldType::Plain(ty) = &field.ty
    {
        let (ty, home) = (ty.clone(), modules.items[itself].module);
        world.tables = named(modules, home, &ty, span)?;
    }
    for item in [world.state, world.params, world.tables].into_iter().flatten() {
        names_are_free(&modules.items[item])?;
    }
    Ok(world)
}

/// The framework declares these fields and dimensions in C under the names that they have in Rust.
fn names_are_free(of: &Item) -> Result<()> {
    let (Declared::State(fields) | Declared::Params(fields) | Declared::Struct(fields)) = &of.what
    else {
        return Ok(());
    };
    let dims = |field: &FieldOf| match &field.ty {
        FieldType::Rows(_, dims) => dims.clone(),
        FieldType::Plain(_) => Vec::new(),
    };
    let mut names =
        fields.iter().flat_map(|field| [vec![field.name.clone()], dims(field)].concat());
    match names.find(|name| !is_name(name)) {
        Some(name) => fault(
            of.span,
            format!("`{name}` of `{}` cannot have this name in C++; choose another", of.name),
        ),
        None => Ok(()),
    }
}

/// The item that a type is.
fn named(
    modules: &mut Modules,
    module: ModuleId,
    ty: &syn::Type,
    span: Span,
) -> Result<Option<ItemId>> {
    let syn::Type::Path(path) = ty else { return Ok(None) };
    let names: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
    match modules.resolve(module, &names, span)? {
        Found::Item(item) => Ok(Some(item)),
        _ => Ok(None),
    }
}

/// The function whose body is that of method `name`: what it calls, if that is all that it does,
/// else itself.
pub(crate) fn body(
    modules: &mut Modules,
    world: &World,
    module: ModuleId,
    of: &syn::ItemImpl,
    name: &str,
    span: Span,
) -> Result<ItemId> {
    let mut methods = of.items.iter().filter_map(|part| match part {
        syn::ImplItem::Fn(function) if function.sig.ident == name => Some(function),
        _ => None,
    });
    let Some(method) = methods.next() else {
        return fault(span, format!("`impl Env` has no method `{name}`"));
    };
    let at = method.span();
    let at = span_of(modules.modules[module].file, at.start(), at.end());
    if methods.next().is_some() {
        return fault(at, crate::conditional::SENTENCE);
    }
    if let Some(item) = delegate(modules, module, &method.block, at)?
        && passes_itself(modules, world, item, &method.block)?
    {
        return Ok(item);
    }
    let function = syn::ItemFn {
        attrs: method.attrs.clone(),
        vis: method.vis.clone(),
        sig: method.sig.clone(),
        block: Box::new(method.block.clone()),
    };
    modules.items.push(Item {
        name: name.to_string(),
        module,
        span: at,
        docs: crate::declared::docs_of(&method.attrs),
        what: Declared::Fn(Box::new(function)),
    });
    let item = modules.items.len() - 1;
    let itself = world.itself.map(|id| modules.items[id].name.clone()).unwrap_or_default();
    modules.modules[module].methods.insert((itself, name.to_string()), item);
    Ok(item)
}

fn call_of(block: &syn::Block) -> Option<&syn::ExprCall> {
    match &block.stmts[..] {
        [syn::Stmt::Expr(syn::Expr::Call(call), _)] => Some(call),
        _ => None,
    }
}

/// The function that a block does nothing but call.
fn delegate(
    modules: &mut Modules,
    module: ModuleId,
    block: &syn::Block,
    span: Span,
) -> Result<Option<ItemId>> {
    let Some(call) = call_of(block) else { return Ok(None) };
    let syn::Expr::Path(path) = &*call.func else { return Ok(None) };
    let names: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
    match modules.resolve(module, &names, span)? {
        Found::Item(item) if matches!(modules.items[item].what, Declared::Fn(_)) => Ok(Some(item)),
        _ => Ok(None),
    }
}

/// Whether each argument of the call is what its parameter's type says by itself: the environment,
/// its parameters, its tables, or an argument of the method.
fn passes_itself(
    modules: &mut Modules,
    world: &World,
    item: ItemId,
    block: &syn::Block,
) -> Result<bool> {
    let Some(call) = call_of(block) else { return Ok(false) };
    let signature = signature_of(modules, world, item)?;
    if signature.params.len() != call.args.len() {
        return Ok(false);
    }
    let fits = |(arg, ty): (&syn::Expr, &Ty)| match (arg, ty.behind()) {
        (syn::Expr::Reference(inner), Ty::Params) => is_field(&inner.expr, "params"),
        (syn::Expr::Reference(inner), Ty::Tables) => is_field(&inner.expr, "tables"),
        (syn::Expr::Path(path), Ty::World) => path.path.is_ident("self"),
        (syn::Expr::Path(_), ty) => {
            matches!(ty, Ty::State | Ty::Actions | Ty::Draw | Ty::StepOut | Ty::Observation)
        }
        _ => false,
    };
    Ok(call.args.iter().zip(&signature.params).all(fits))
}

fn is_field(expr: &syn::Expr, name: &str) -> bool {
    let syn::Expr::Field(field) = expr else { return false };
    let syn::Member::Named(member) = &field.member else { return false };
    let syn::Expr::Path(base) = &*field.base else { return false };
    member == name && base.path.is_ident("self")
}
