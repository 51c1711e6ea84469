//! Calls of `warp_core::team`.

use crate::diagnostic::{Result, Span, fault};
use crate::infer::Infer;
use crate::ir::{Builtin, Closure, Expr, Form, Kind, Pattern, Team, TeamCall};
use crate::modules::Found;
use crate::types::Ty;
use std::collections::HashMap;

impl Infer<'_> {
    pub(super) fn team_call(
        &mut self,
        name: &str,
        call: &syn::ExprCall,
        span: Span,
    ) -> Result<Expr> {
        let generics = generics(&call.func);
        let (call_kind, n, params, value) = match name {
            "once" => (TeamCall::Once, 0, vec![], Ty::Unit),
            "any" => (TeamCall::Any, 1, vec![Ty::Usize], Ty::Bool),
            "sum" => (TeamCall::Sum, 1, vec![Ty::Usize], Ty::I32),
            "least" => (TeamCall::Least, 1, vec![Ty::Usize], Ty::I64),
            "fill" => {
                let element = self.any();
                (TeamCall::Fill, 3, vec![Ty::Usize, Ty::Usize], element)
            }
            "sum_parts" => {
                let [syn::GenericArgument::Const(_) | syn::GenericArgument::Type(_)] =
                    &generics[..]
                else {
                    return fault(span, "write the number of parts: `team::sum_parts::<8>(...)`");
                };
                let parts = self.generic_size(&generics[0], span)?;
                (TeamCall::SumParts(parts), 1, vec![Ty::Usize], Ty::F32)
            }
            "add" => return self.team_add(call, span),
            "shared" | "scratch" => return self.team_scratch(name, call, &generics, span),
            _ => return fault(span, format!("`team::{name}` is not known")),
        };
        let mut args = Vec::new();
        if call.args.len() != n + 1 {
            return fault(span, format!("`team::{name}` takes {} arguments", n + 1));
        }
        for (i, arg) in call.args.iter().take(n).enumerate() {
            let arg = self.expr(arg)?;
            let slice = Ty::Slice(Box::new(value.clone()), true);
            let wanted = if n == 3 && i == 0 { slice } else { Ty::Usize };
            let arg = if n == 3 && i == 0 { arg } else { self.value(arg) };
            args.push(self.fit(arg, &wanted)?);
        }
        let syn::Expr::Closure(closure) = &call.args[n] else {
            return fault(span, format!("the last argument of `team::{name}` is a closure"));
        };
        let closure = self.closure(closure, &params)?;
        let given = closure.body.ty.clone();
        let ty = if name == "fill" { Ty::Unit } else { value.clone() };
        if name != "once" {
            self.same(value, &given, span)?;
        }
        let team = Team { call: call_kind, args, closure: Some(closure) };
        Ok(Expr { kind: Kind::Team(Box::new(team)), ty, span })
    }

    /// The `n` of `team::each(n)`, if that is what a loop goes over.
    pub(super) fn shared_indices<'e>(
        &mut self,
        of: &'e syn::Expr,
    ) -> Result<Option<&'e syn::Expr>> {
        let syn::Expr::Call(call) = of else { return Ok(None) };
        let syn::Expr::Path(path) = &*call.func else { return Ok(None) };
        let span = self.span(of);
        let names: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
        match self.modules.resolve(self.module, &names, span)? {
            Found::Outside(path) if path == ["warp_core", "team", "each"] => {}
            _ => return Ok(None),
        }
        match call.args.first() {
            Some(n) if call.args.len() == 1 => Ok(Some(n)),
            _ => fault(span, "`team::each` takes the number of indices"),
        }
    }

    /// `for i in team::each(n) { ... }`: the body is run for a thread's share of the indices, so it is
    /// a function of the index, which only `continue` leaves.
    pub(super) fn each(
        &mut self,
        of: &syn::ExprForLoop,
        n: &syn::Expr,
        span: Span,
    ) -> Result<Expr> {
        let n = self.expr(n)?;
        let n = self.value(n);
        let n = self.fit(n, &Ty::Usize)?;
        let (outer_from, loops) = (self.closure_from, std::mem::take(&mut self.loops));
        let shares = std::mem::replace(&mut self.shares, true);
        self.closure_from = Some(outer_from.unwrap_or(self.vars.len()));
        self.scopes.push(HashMap::new());
        let closure = self.round(of);
        self.scopes.pop();
        (self.closure_from, self.loops, self.shares) = (outer_from, loops, shares);
        let team = Team { call: TeamCall::Each, args: vec![n], closure: Some(closure?) };
        Ok(Expr { kind: Kind::Team(Box::new(team)), ty: Ty::Unit, span })
    }

    /// What is done for one index.
    fn round(&mut self, of: &syn::ExprForLoop) -> Result<Closure> {
        let span = self.span(&of.pat);
        let var = match self.pattern(&of.pat, &Ty::Usize)? {
            Pattern::Bind(var) => var,
            Pattern::Any => self.declare(String::new(), Ty::Usize, false, span),
            _ => return fault(span, "the variable of a loop is a plain name"),
        };
        if self.vars[var].mutable {
            return fault(span, "the variable of a loop does not change; copy it");
        }
        self.vars[var].param = true;
        let span = self.span(&of.body);
        let body = self.block(&of.body)?;
        let body = Expr { kind: Kind::Block(Box::new(body)), ty: Ty::Unit, span };
        Ok(Closure { params: vec![var], body })
    }

    fn team_add(&mut self, call: &syn::ExprCall, span: Span) -> Result<Expr> {
        let element = self.any();
        let wanted = [Ty::Slice(Box::new(element.clone()), true), Ty::Usize, element];
        if call.args.len() != wanted.len() {
            return fault(span, "`team::add` takes a slice, an index and a value");
        }
        let mut args = Vec::new();
        for (arg, ty) in call.args.iter().zip(&wanted) {
            let arg = self.expr(arg)?;
            args.push(self.fit(arg, ty)?);
        }
        let builtin = Builtin { name: "warp_team_add".into(), form: Form::Add };
        Ok(Expr { kind: Kind::Builtin(builtin, args), ty: Ty::Unit, span })
    }

    fn team_scratch(
        &mut self,
        name: &str,
        call: &syn::ExprCall,
        generics: &[syn::GenericArgument],
        span: Span,
    ) -> Result<Expr> {
        let Some(syn::GenericArgument::Type(element)) = generics.first() else {
            return fault(span, format!("write the element: `team::{name}::<f32, ...>(...)`"));
        };
        let own = self.own.as_ref();
        let element = super::type_of(self.modules, self.world, self.module, own, element)?;
        let size = match (name, generics.get(1), call.args.first()) {
            ("shared", Some(size), None) => {
                let n = self.generic_size(size, span)?;
                Expr { kind: Kind::Int(n.into(), false), ty: Ty::Usize, span }
            }
            ("scratch", None, Some(size)) => {
                let size = self.expr(size)?;
                self.fit(size, &Ty::Usize)?
            }
            _ => {
                return fault(
                    span,
                    "write `team::shared::<f32, N>()` or `team::scratch::<f32>(n)`",
                );
            }
        };
        let ty = Ty::Slice(Box::new(element.clone()), true);
        let team = Team { call: TeamCall::Scratch(element), args: vec![size], closure: None };
        Ok(Expr { kind: Kind::Team(Box::new(team)), ty, span })
    }

    fn generic_size(&mut self, generic: &syn::GenericArgument, span: Span) -> Result<u64> {
        let expr = match generic {
            syn::GenericArgument::Const(expr) => expr.clone(),
            syn::GenericArgument::Type(syn::Type::Path(path)) => syn::Expr::Path(syn::ExprPath {
                attrs: Vec::new(),
                qself: None,
                path: path.path.clone(),
            }),
            _ => return fault(span, "this is not a size"),
        };
        let expr = match &expr {
            syn::Expr::Block(block) => match &block.block.stmts[..] {
                [syn::Stmt::Expr(expr, None)] => expr.clone(),
                _ => expr,
            },
            _ => expr,
        };
        self.evaluate(&expr).map(|n| n as u64)
    }
}

/// What stands between `::<` and `>`.
fn generics(function: &syn::Expr) -> Vec<syn::GenericArgument> {
    let syn::Expr::Path(path) = function else { return Vec::new() };
    match path.path.segments.last().map(|segment| &segment.arguments) {
        Some(syn::PathArguments::AngleBracketed(args)) => args.args.iter().cloned().collect(),
        _ => Vec::new(),
    }
}
