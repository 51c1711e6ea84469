//! From syntax trees to [`crate::ir`]: names are resolved, and types inferred as Rust infers them.

mod block;
mod call;
mod constant;
mod expr;
mod method;
mod operator;
mod pattern;
mod place;
mod team;
mod types;
mod unsupported;

pub(crate) use constant::evaluate;
pub(crate) use types::{World, field_of, primitive, signature_of, type_of};

use crate::declared::Declared;
use crate::diagnostic::{Result, Span, fault};
use crate::ir::{Expr, Function, Kind, Param, Pattern, Var, VarId};
use crate::modules::{ModuleId, Modules};
use crate::source::span_of;
use crate::types::{ItemId, Kind as VarKind, Ty, Unifier};
use std::collections::HashMap;
use syn::spanned::Spanned;

/// What a name in a function's scope is.
#[derive(Debug, Clone, Copy)]
enum Bound {
    Var(VarId),
    Item(ItemId),
}

/// Parameters and value of a closure.
#[derive(Debug, Clone)]
struct ClosureType {
    params: Vec<Ty>,
    output: Ty,
}

/// The inference of one function.
pub(crate) struct Infer<'m> {
    modules: &'m mut Modules,
    world: &'m World,
    module: ModuleId,
    /// What `Self` is.
    own: Option<Ty>,
    types: Unifier,
    vars: Vec<Var>,
    scopes: Vec<HashMap<String, Bound>>,
    output: Ty,
    /// Value of each loop around, and whether a `break` leaves it with one.
    loops: Vec<Ty>,
    closures: Vec<ClosureType>,
    /// First variable of the closure that is being read.
    closure_from: Option<VarId>,
    /// Whether the function that is left by `return` is left from a loop over `team::each`.
    shares: bool,
}

/// The value of a constant, with the function that it would be alone in.
pub(crate) fn constant_value(
    modules: &mut Modules,
    world: &World,
    item: ItemId,
) -> Result<(Expr, Function)> {
    let (module, span) = (modules.items[item].module, modules.items[item].span);
    let Declared::Const(constant) = &modules.items[item].what else {
        return fault(span, "this is not a constant");
    };
    let constant = constant.clone();
    let ty = type_of(modules, world, module, None, &constant.ty)?;
    let mut infer = Infer::new(modules, world, module);
    let value = infer.expr(&constant.expr)?;
    let value = infer.fit(value, &ty)?;
    let body = crate::ir::Block { stmts: Vec::new(), tail: Some(value), span };
    let made = infer.finish(Vec::new(), ty, body)?;
    match made.body.tail.clone() {
        Some(value) => Ok((value, made)),
        None => fault(span, "this constant has no value"),
    }
}

/// A function with its types.
pub(crate) fn function(modules: &mut Modules, world: &World, item: ItemId) -> Result<Function> {
    let signature = signature_of(modules, world, item)?;
    let (module, function, own) = types::parts(modules, world, item);
    let mut infer = Infer::new(modules, world, module);
    infer.own = own;
    infer.output = signature.output.clone();
    let mut params = Vec::new();
    for (input, ty) in function.sig.inputs.iter().zip(signature.params) {
        params.push(match input {
            syn::FnArg::Receiver(receiver) => {
                let span = infer.span(receiver);
                let var = infer.declare("self".into(), ty, false, span);
                Param { var, pattern: Pattern::Any }
            }
            syn::FnArg::Typed(input) => infer.param(&input.pat, ty)?,
        });
    }
    let params_end = infer.vars.len();
    infer.vars[..params_end].iter_mut().for_each(|var| var.param = true);
    if crate::twin::in_cuda(infer.modules, item).is_some() {
        // What stands in the place of the text's is not read.
        infer.vars.iter_mut().for_each(|var| var.uses = 1);
        let span = infer.modules.items[item].span;
        let body = crate::ir::Block { stmts: Vec::new(), tail: None, span };
        return infer.finish(params, signature.output, body);
    }
    if let Some(found) = crate::conditional::in_function(&function) {
        let file = infer.modules.modules[module].file;
        return fault(span_of(file, found.start(), found.end()), crate::conditional::SENTENCE);
    }
    let body = infer.block(&function.block)?;
    let value = body.tail.as_ref().map_or(Ty::Unit, |tail| tail.ty.clone());
    let output = signature.output;
    let leaves = body.tail.is_none() && infer.diverges(&body);
    if !leaves && !infer.types.unify(&value, &output) {
        let value = infer.types.resolve(&value).rust();
        return fault(
            body.span,
            format!("the value is {value}, but {} is expected", output.rust()),
        );
    }
    infer.finish(params, output, body)
}

impl<'m> Infer<'m> {
    fn new(modules: &'m mut Modules, world: &'m World, module: ModuleId) -> Self {
        Self {
            modules,
            world,
            module,
            own: None,
            types: Unifier::default(),
            vars: Vec::new(),
            scopes: vec![HashMap::new()],
            output: Ty::Unit,
            loops: Vec::new(),
            closures: Vec::new(),
            closure_from: None,
            shares: false,
        }
    }

    fn span(&self, node: &impl Spanned) -> Span {
        let span = node.span();
        span_of(self.modules.modules[self.module].file, span.start(), span.end())
    }

    fn param(&mut self, pattern: &syn::Pat, ty: Ty) -> Result<Param> {
        let span = self.span(pattern);
        match pattern {
            syn::Pat::Ident(_) | syn::Pat::Wild(_) => {
                let pattern = self.pattern(pattern, &ty)?;
                let var = match pattern {
                    Pattern::Bind(var) => var,
                    _ => self.declare(String::new(), ty, false, span),
                };
                Ok(Param { var, pattern: Pattern::Any })
            }
            _ => {
                let var = self.declare("parts".into(), ty.clone(), false, span);
                for scope in &mut self.scopes {
                    scope.remove("parts");
                }
                self.vars[var].uses = 1;
                Ok(Param { var, pattern: self.pattern(pattern, &ty)? })
            }
        }
    }

    fn declare(&mut self, name: String, ty: Ty, mutable: bool, _span: Span) -> VarId {
        let var = Var { name: name.clone(), ty, mutable, param: false, captured: false, uses: 0 };
        self.vars.push(var);
        let id = self.vars.len() - 1;
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, Bound::Var(id));
        }
        id
    }

    fn lookup(&self, name: &str) -> Option<Bound> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    fn int(&mut self) -> Ty {
        self.types.fresh(VarKind::Int)
    }

    fn any(&mut self) -> Ty {
        self.types.fresh(VarKind::Any)
    }

    /// Makes `expr` fit where `ty` is wanted.
    fn fit(&mut self, expr: Expr, ty: &Ty) -> Result<Expr> {
        let wanted = self.types.shallow(ty);
        let given = self.types.shallow(&expr.ty);
        if let (Ty::Slice(element, mutable), Ty::Ref(inner, _)) = (&wanted, &given) {
            match self.types.shallow(inner) {
                Ty::Array(of, _) if self.types.unify(&of, element) => {
                    let ty = Ty::Slice(element.clone(), *mutable);
                    let span = expr.span;
                    return Ok(Expr { kind: Kind::AsSlice(Box::new(expr)), ty, span });
                }
                Ty::Slice(..) if self.types.unify(inner, &wanted) => {
                    return Ok(Expr { ty: wanted, ..expr });
                }
                _ => {}
            }
        }
        // `&x` of something that is borrowed already.
        if let (Ty::Ref(want, _), Ty::Ref(inner, _)) = (&wanted, &given) {
            let inner = self.types.shallow(inner);
            if matches!(inner, Ty::Ref(..)) && !matches!(self.types.shallow(want), Ty::Ref(..)) {
                return self.fit(Expr { ty: inner, ..expr }, ty);
            }
        }
        if self.types.unify(&given, &wanted) {
            return Ok(expr);
        }
        let [given, wanted] = [given, wanted].map(|ty| self.types.resolve(&ty).rust());
        fault(expr.span, format!("this is {given}, but {wanted} is expected"))
    }

    /// The value behind references to scalars, as operators take it.
    fn value(&mut self, expr: Expr) -> Expr {
        match self.types.shallow(&expr.ty) {
            Ty::Ref(inner, _) => {
                let span = expr.span;
                let inner = Expr { kind: Kind::Deref(Box::new(expr)), ty: *inner, span };
                self.value(inner)
            }
            _ => expr,
        }
    }

    fn finish(
        mut self,
        params: Vec<Param>,
        output: Ty,
        mut body: crate::ir::Block,
    ) -> Result<Function> {
        let mut missing = None;
        let types = &self.types;
        for var in &mut self.vars {
            var.ty = types.resolve(&var.ty);
        }
        crate::walk::types(&mut body, &mut |ty, span| {
            *ty = types.resolve(ty);
            if matches!(ty, Ty::Var(_)) && missing.is_none() {
                missing = Some(span);
            }
        });
        if let Some(span) = missing {
            return fault(span, "the type of this is not known; write it");
        }
        Ok(Function { params, output, body, vars: self.vars })
    }
}
