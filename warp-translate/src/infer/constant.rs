//! The values of whole-number constants, which sizes of arrays are made of.

use crate::declared::Declared;
use crate::diagnostic::{Result, fault};
use crate::modules::{Found, ModuleId, Modules};
use crate::source::span_of;
use syn::spanned::Spanned;

/// The value of a constant expression of integers.
pub(crate) fn evaluate(modules: &mut Modules, module: ModuleId, expr: &syn::Expr) -> Result<i128> {
    let span = expr.span();
    let span = span_of(modules.modules[module].file, span.start(), span.end());
    let unknown = || fault(span, "this is not a constant that can be computed here");
    match expr {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(value), .. }) => {
            value.base10_parse().or_else(|_| unknown())
        }
        syn::Expr::Paren(inner) => evaluate(modules, module, &inner.expr),
        syn::Expr::Group(inner) => evaluate(modules, module, &inner.expr),
        syn::Expr::Block(inner) => match &inner.block.stmts[..] {
            [syn::Stmt::Expr(value, None)] => evaluate(modules, module, value),
            _ => unknown(),
        },
        syn::Expr::Cast(inner) => {
            let value = evaluate(modules, module, &inner.expr)?;
            Ok(cast(value, &inner.ty))
        }
        syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Neg(_), expr, .. }) => {
            Ok(-evaluate(modules, module, expr)?)
        }
        syn::Expr::Binary(binary) => {
            let a = evaluate(modules, module, &binary.left)?;
            let b = evaluate(modules, module, &binary.right)?;
            let value = match binary.op {
                syn::BinOp::Add(_) => a.checked_add(b),
                syn::BinOp::Sub(_) => a.checked_sub(b),
                syn::BinOp::Mul(_) => a.checked_mul(b),
                syn::BinOp::Div(_) => a.checked_div(b),
                syn::BinOp::Rem(_) => a.checked_rem(b),
                syn::BinOp::Shl(_) if (0..64).contains(&b) => a.checked_shl(b as u32),
                syn::BinOp::Shr(_) if (0..64).contains(&b) => a.checked_shr(b as u32),
                _ => None,
            };
            value.map_or_else(unknown, Ok)
        }
        syn::Expr::Path(path) => {
            let names: Vec<String> =
                path.path.segments.iter().map(|s| s.ident.to_string()).collect();
            let Found::Item(item) = modules.resolve(module, &names, span)? else {
                return unknown();
            };
            let home = modules.items[item].module;
            match &modules.items[item].what {
                Declared::Const(value) => {
                    let value = value.expr.clone();
                    evaluate(modules, home, &value)
                }
                _ => unknown(),
            }
        }
        syn::Expr::MethodCall(call) if call.method == "len" && call.args.is_empty() => {
            let syn::Expr::Path(path) = &*call.receiver else { return unknown() };
            let names: Vec<String> =
                path.path.segments.iter().map(|s| s.ident.to_string()).collect();
            let Found::Item(item) = modules.resolve(module, &names, span)? else {
                return unknown();
            };
            let home = modules.items[item].module;
            let len = match &modules.items[item].what {
                Declared::Const(value) => match &*value.ty {
                    syn::Type::Array(array) => array.len.clone(),
                    _ => return unknown(),
                },
                _ => return unknown(),
            };
            evaluate(modules, home, &len)
        }
        _ => unknown(),
    }
}

/// A number as a type holds it.
fn cast(value: i128, ty: &syn::Type) -> i128 {
    let syn::Type::Path(path) = ty else { return value };
    match path.path.get_ident().map(ToString::to_string).as_deref() {
        Some("u8") => (value as u8).into(),
        Some("i32") => (value as i32).into(),
        Some("u32") => (value as u32).into(),
        Some("i64") => (value as i64).into(),
        Some("u64" | "usize") => (value as u64).into(),
        _ => value,
    }
}
