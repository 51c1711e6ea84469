//! Calls of functions and closures.

use crate::builtin;
use crate::declared::Declared;
use crate::diagnostic::{Result, Span, fault};
use crate::infer::{Bound, ClosureType, Infer};
use crate::ir::{Builtin, Closure, Expr, Form, Kind};
use crate::modules::Found;
use crate::types::Ty;
use std::collections::HashMap;

type Args = syn::punctuated::Punctuated<syn::Expr, syn::Token![,]>;

impl Infer<'_> {
    pub(super) fn call(&mut self, call: &syn::ExprCall, span: Span) -> Result<Expr> {
        let syn::Expr::Path(path) = &*call.func else {
            return fault(span, "call functions by their name");
        };
        let names: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let [name] = &names[..]
            && let Some(Bound::Var(var)) = self.lookup(name)
        {
            return self.closure_call(var, &call.args, span);
        }
        if let [ty, function] = &names[..] {
            if let Some(ty) = super::primitive(ty) {
                return self.of_primitive(&ty, function, &call.args, span);
            }
            if let ("Self", Some(Ty::Struct(item) | Ty::Enum(item))) = (ty.as_str(), &self.own)
                && let Some(method) = self.method_of(*item, function)
            {
                return self.own_call(method, None, &call.args, span);
            }
        }
        match self.modules.resolve(self.module, &names, span)? {
            Found::Item(item) => match &self.modules.items[item].what {
                Declared::Fn(_) => self.own_call(item, None, &call.args, span),
                Declared::Struct(_) if names.len() > 1 => {
                    match self.method_of(item, &names[names.len() - 1]) {
                        Some(method) => self.own_call(method, None, &call.args, span),
                        None => fault(span, format!("there is no `{}`", names.join("::"))),
                    }
                }
                Declared::Struct(_) => fault(span, super::pattern::UNNAMED),
                _ => fault(span, format!("`{}` is not a function", names.join("::"))),
            },
            Found::Outside(path) => self.outside_call(&path, call, span),
            Found::Module(_) => fault(span, format!("`{}` is a module", names.join("::"))),
        }
    }

    fn outside_call(&mut self, path: &[String], call: &syn::ExprCall, span: Span) -> Result<Expr> {
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        if let ["warp_core", "team", "each"] = &parts[..] {
            return fault(span, "`team::each` can only be used in `for ... in`");
        }
        if let ["warp_core", "team", name] = &parts[..] {
            return self.team_call(name, call, span);
        }
        let signature = match &parts[..] {
            ["warp_core", "math", name] => builtin::math(name),
            _ => None,
        };
        match signature {
            Some(signature) => self.builtin(signature, None, &call.args, span),
            None => fault(span, self.outside(&parts.join("::"))),
        }
    }

    /// `i32::from(x)`, `f32::from_bits(x)`.
    fn of_primitive(&mut self, ty: &Ty, function: &str, args: &Args, span: Span) -> Result<Expr> {
        let Some(arg) = args.first() else {
            return fault(span, format!("`{}::{function}` takes an argument", ty.rust()));
        };
        let arg = self.expr(arg)?;
        let arg = self.value(arg);
        match (ty, function) {
            (Ty::F32, "from_bits") => {
                let arg = self.fit(arg, &Ty::U32)?;
                let builtin = Builtin { name: "warp_float".into(), form: Form::Call };
                Ok(Expr { kind: Kind::Builtin(builtin, vec![arg]), ty: Ty::F32, span })
            }
            (_, "from") => {
                // An integer of unknown width is i32 for Rust, which i64 can be made from.
                let from = if *ty == Ty::I64 { &Ty::I32 } else { ty };
                if self.types.kind(&arg.ty).is_some() {
                    self.types.unify(&arg.ty, from);
                }
                Ok(Expr { kind: Kind::Cast(Box::new(arg)), ty: ty.clone(), span })
            }
            _ => fault(span, super::unsupported::of_primitive(ty, function)),
        }
    }

    /// A call of one of the body's own functions.
    pub(super) fn own_call(
        &mut self,
        item: usize,
        receiver: Option<Expr>,
        given: &Args,
        span: Span,
    ) -> Result<Expr> {
        if let Declared::Refused(sentence) = self.modules.items[item].what {
            return fault(span, sentence);
        }
        let item = crate::twin::meant(self.modules, self.world, item)?;
        let signature = super::signature_of(self.modules, self.world, item)?;
        let n = given.len() + usize::from(receiver.is_some());
        if n != signature.params.len() {
            let due = signature.params.len();
            return fault(span, format!("this takes {due} arguments, but {n} are given"));
        }
        let mut args = Vec::new();
        let mut params = signature.params.iter();
        if let (Some(receiver), Some(_)) = (receiver, params.clone().next()) {
            params.next();
            args.push(receiver);
        }
        for (given, ty) in given.iter().zip(params) {
            let given = self.expr(given)?;
            args.push(self.fit(given, ty)?);
        }
        Ok(Expr { kind: Kind::Call(item, args), ty: signature.output, span })
    }

    fn closure_call(&mut self, var: usize, given: &Args, span: Span) -> Result<Expr> {
        self.vars[var].uses += 1;
        let Ty::Closure(number) = self.types.shallow(&self.vars[var].ty) else {
            return fault(span, format!("`{}` is not a function", self.vars[var].name));
        };
        let ClosureType { params, output } = self.closures[number].clone();
        if params.len() != given.len() {
            return fault(span, format!("this takes {} arguments", params.len()));
        }
        let mut args = Vec::new();
        for (given, ty) in given.iter().zip(&params) {
            let given = self.expr(given)?;
            args.push(self.fit(given, ty)?);
        }
        Ok(Expr { kind: Kind::CallClosure(var, args), ty: output, span })
    }

    /// A closure with a name.
    pub(super) fn let_closure(&mut self, closure: &syn::ExprClosure, span: Span) -> Result<Expr> {
        if closure.capture.is_some() {
            // In C++ a closure sees the variables themselves, which may have changed since.
            let sentence = "`move` is not supported: it keeps copies of variables; leave it out, and copy \
                what changes by `let` before";
            return fault(span, sentence);
        }
        let params: Vec<Ty> = closure.inputs.iter().map(|_| self.any()).collect();
        let made = self.closure(closure, &params)?;
        let output = made.body.ty.clone();
        self.closures.push(ClosureType { params, output });
        let ty = Ty::Closure(self.closures.len() - 1);
        Ok(Expr { kind: Kind::Closure(Box::new(made)), ty, span })
    }

    /// A closure whose parameters have these types.
    pub(super) fn closure(&mut self, closure: &syn::ExprClosure, params: &[Ty]) -> Result<Closure> {
        let span = self.span(closure);
        if closure.inputs.len() != params.len() {
            return fault(span, format!("this closure takes {} parameters", params.len()));
        }
        let (outer_from, outer_output) = (self.closure_from, self.output.clone());
        let loops = std::mem::take(&mut self.loops);
        let shares = std::mem::take(&mut self.shares);
        self.closure_from = Some(outer_from.unwrap_or(self.vars.len()));
        self.output = self.any();
        self.scopes.push(HashMap::new());
        let result = self.closure_body(closure, params);
        self.scopes.pop();
        (self.loops, self.shares) = (loops, shares);
        self.output = outer_output;
        self.closure_from = outer_from;
        result
    }

    fn closure_body(&mut self, closure: &syn::ExprClosure, params: &[Ty]) -> Result<Closure> {
        let span = self.span(closure);
        let mut vars = Vec::new();
        for (input, ty) in closure.inputs.iter().zip(params) {
            match self.pattern(input, ty)? {
                crate::ir::Pattern::Bind(var) => vars.push(var),
                crate::ir::Pattern::Any => {
                    vars.push(self.declare(String::new(), ty.clone(), false, span));
                }
                _ => return fault(span, "a closure's parameters are plain names"),
            }
        }
        for var in &vars {
            self.vars[*var].param = true;
        }
        let body = self.expr(&closure.body)?;
        let output = self.output.clone();
        let body = if matches!(self.types.shallow(&body.ty), Ty::Never) {
            if self.types.kind(&output).is_some() {
                self.types.unify(&output, &Ty::Unit);
            }
            body
        } else {
            self.fit(body, &output)?
        };
        Ok(Closure { params: vars, body: Expr { ty: output, ..body } })
    }
}
