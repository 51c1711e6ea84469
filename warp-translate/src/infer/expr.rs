//! Expressions, kind by kind.

use crate::diagnostic::{Result, Span, fault};
use crate::infer::{Bound, Infer};
use crate::ir::{Block, Builtin, Expr, For, Form, Kind, Unary};
use crate::modules::Found;
use crate::types::{Kind as VarKind, Ty};
use std::collections::HashMap;

impl Infer<'_> {
    pub(super) fn expr(&mut self, expr: &syn::Expr) -> Result<Expr> {
        let span = self.span(expr);
        let made = |kind: Kind, ty: Ty| Ok(Expr { kind, ty, span });
        match expr {
            syn::Expr::Lit(lit) => self.literal(&lit.lit, span),
            syn::Expr::Path(path) => self.path(&path.path, span),
            syn::Expr::Paren(inner) => {
                let inner = self.expr(&inner.expr)?;
                let ty = inner.ty.clone();
                made(Kind::Paren(Box::new(inner)), ty)
            }
            syn::Expr::Group(inner) => self.expr(&inner.expr),
            syn::Expr::Unary(unary) => self.unary(unary, span),
            syn::Expr::Binary(binary) => self.binary(binary, span),
            syn::Expr::Assign(assign) => self.assign(assign, span),
            syn::Expr::Cast(cast) => self.cast(cast, span),
            syn::Expr::Field(field) => self.field(field, span),
            syn::Expr::Index(index) => self.index(index, span),
            syn::Expr::Reference(reference) => self.reference(reference, span),
            syn::Expr::Call(call) => self.call(call, span),
            syn::Expr::MethodCall(call) => self.method_call(call, span),
            syn::Expr::Tuple(tuple) if tuple.elems.is_empty() => made(Kind::Unit, Ty::Unit),
            syn::Expr::Tuple(tuple) => {
                let parts = tuple.elems.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>>>()?;
                let ty = Ty::Tuple(parts.iter().map(|part| part.ty.clone()).collect());
                made(Kind::Tuple(parts), ty)
            }
            syn::Expr::Array(array) => self.array(array, span),
            syn::Expr::Repeat(repeat) => {
                let value = self.expr(&repeat.expr)?;
                let n = self.evaluate(&repeat.len)?;
                let ty = Ty::Array(Box::new(value.ty.clone()), n as u64);
                made(Kind::Repeat(Box::new(value)), ty)
            }
            syn::Expr::Struct(structure) => self.structure(structure, span),
            syn::Expr::If(branch) => self.branch(branch, span),
            syn::Expr::Match(choice) => self.choice(choice, span),
            syn::Expr::Block(block) => {
                self.no_label(block.label.as_ref(), span)?;
                let block = self.block(&block.block)?;
                let ty = self.block_type(&block);
                made(Kind::Block(Box::new(block)), ty)
            }
            syn::Expr::Loop(_) | syn::Expr::While(_) | syn::Expr::ForLoop(_) => {
                self.looped(expr, span)
            }
            syn::Expr::Break(_) | syn::Expr::Continue(_) | syn::Expr::Return(_) => {
                self.leave(expr, span)
            }
            syn::Expr::Closure(closure) => self.let_closure(closure, span),
            syn::Expr::Macro(call) => match self.macro_call(&call.mac, span)? {
                Some(expr) => Ok(expr),
                None => made(Kind::Unit, Ty::Unit),
            },
            syn::Expr::Range(_) => {
                fault(span, "a range can only be used in `for ... in` or as an index")
            }
            syn::Expr::Let(_) => {
                fault(span, "`let` in a condition is not supported; compare by `if` or `match`")
            }
            syn::Expr::Try(_) => fault(span, "`?` is not supported; test by `if` and `return`"),
            _ => fault(span, "this kind of expression is not supported in a body"),
        }
    }

    /// A constant size.
    pub(super) fn evaluate(&mut self, expr: &syn::Expr) -> Result<i128> {
        let span = self.span(expr);
        match super::evaluate(self.modules, self.module, expr)? {
            n if (0..=1 << 20).contains(&n) => Ok(n),
            n => fault(span, format!("{n} is not a valid size of an array")),
        }
    }

    fn literal(&mut self, literal: &syn::Lit, span: Span) -> Result<Expr> {
        let (kind, ty) = match literal {
            syn::Lit::Bool(value) => (Kind::Bool(value.value), Ty::Bool),
            syn::Lit::Byte(value) => (Kind::Int(value.value().into(), false), Ty::U8),
            syn::Lit::Float(value) => {
                suffixed(value.suffix(), span)?;
                let ty = self.types.fresh(VarKind::Float);
                (Kind::Float(value.base10_digits().to_string()), ty)
            }
            syn::Lit::Int(value) => return self.whole_number(value, span),
            _ => return fault(span, "a body has numbers and booleans, no text"),
        };
        Ok(Expr { kind, ty, span })
    }

    fn whole_number(&mut self, literal: &syn::LitInt, span: Span) -> Result<Expr> {
        let ty = suffixed(literal.suffix(), span)?.unwrap_or_else(|| self.int());
        let digits = literal.base10_digits();
        if ty == Ty::F32 {
            return Ok(Expr { kind: Kind::Float(digits.to_string()), ty, span });
        }
        // In a pattern the sign is a part of the literal.
        let (digits, negative) = match digits.strip_prefix('-') {
            Some(digits) => (digits, true),
            None => (digits, false),
        };
        let Ok(number) = digits.parse::<u128>() else {
            return fault(span, "this number is too large");
        };
        let hex = literal.token().to_string().trim_start_matches('-').starts_with("0x");
        let number = Expr { kind: Kind::Int(number, hex), ty, span };
        if !negative {
            return Ok(number);
        }
        let ty = number.ty.clone();
        Ok(Expr { kind: Kind::Unary(Unary::Minus, Box::new(number)), ty, span })
    }

    fn path(&mut self, path: &syn::Path, span: Span) -> Result<Expr> {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let [name] = &names[..] {
            match self.lookup(name) {
                Some(Bound::Var(var)) => {
                    self.vars[var].uses += 1;
                    if self.closure_from.is_some_and(|from| var < from) {
                        self.vars[var].captured = true;
                    }
                    let ty = self.vars[var].ty.clone();
                    return Ok(Expr { kind: Kind::Var(var), ty, span });
                }
                Some(Bound::Item(item)) => return self.constant_item(item, span),
                None => {}
            }
        }
        self.named(&names, span)
    }

    /// A constant or a variant by its path.
    pub(super) fn named(&mut self, names: &[String], span: Span) -> Result<Expr> {
        let own = match (names.split_first(), &self.own) {
            (Some((first, [variant])), Some(Ty::Enum(item))) if first == "Self" => {
                Some((*item, variant.clone()))
            }
            _ => None,
        };
        if let Some((item, variant)) = own {
            return self.variant(item, &variant, span);
        }
        match self.modules.resolve(self.module, names, span)? {
            Found::Item(item) => match &self.modules.items[item].what {
                crate::declared::Declared::Const(_) => self.constant_item(item, span),
                crate::declared::Declared::Enum(_) if names.len() > 1 => {
                    self.variant(item, &names[names.len() - 1], span)
                }
                _ => fault(span, self.no_value(item, names)),
            },
            Found::Outside(path) => {
                let parts: Vec<&str> = path.iter().map(String::as_str).collect();
                let found = match &parts[..] {
                    [.., ty, name] => crate::builtin::constant(ty, name),
                    _ => None,
                };
                let Some((ty, value)) = found else {
                    return fault(span, self.outside(&names.join("::")));
                };
                let builtin = Builtin { name: value, form: Form::Value };
                Ok(Expr { kind: Kind::Builtin(builtin, Vec::new()), ty, span })
            }
            Found::Module(_) => fault(span, format!("`{}` is a module", names.join("::"))),
        }
    }

    fn variant(&mut self, item: usize, name: &str, span: Span) -> Result<Expr> {
        let crate::declared::Declared::Enum(variants) = &self.modules.items[item].what else {
            return fault(span, "this is not an enum");
        };
        match variants.iter().position(|variant| variant.name == name) {
            Some(i) => Ok(Expr { kind: Kind::Variant(item, i), ty: Ty::Enum(item), span }),
            None => fault(span, format!("there is no variant `{name}`")),
        }
    }

    fn constant_item(&mut self, item: usize, span: Span) -> Result<Expr> {
        let module = self.modules.items[item].module;
        let crate::declared::Declared::Const(constant) = &self.modules.items[item].what else {
            return fault(span, "this is not a constant");
        };
        let ty = constant.ty.clone();
        let ty = super::type_of(self.modules, self.world, module, None, &ty)?;
        Ok(Expr { kind: Kind::Const(item), ty, span })
    }

    fn array(&mut self, array: &syn::ExprArray, span: Span) -> Result<Expr> {
        let element = self.any();
        let mut parts = Vec::new();
        for part in &array.elems {
            let part = self.expr(part)?;
            parts.push(self.fit(part, &element)?);
        }
        let ty = Ty::Array(Box::new(element), parts.len() as u64);
        Ok(Expr { kind: Kind::Array(parts), ty, span })
    }

    fn structure(&mut self, structure: &syn::ExprStruct, span: Span) -> Result<Expr> {
        if structure.rest.is_some() {
            return fault(span, "write all fields of a struct; `..` is not supported");
        }
        let ty = syn::Type::Path(syn::TypePath { qself: None, path: structure.path.clone() });
        let ty = super::type_of(self.modules, self.world, self.module, self.own.as_ref(), &ty)?;
        let Ty::Struct(item) = ty else {
            return fault(span, format!("a body cannot make {}", ty.rust()));
        };
        let mut fields = Vec::new();
        for field in &structure.fields {
            let syn::Member::Named(name) = &field.member else {
                return fault(span, "fields have names");
            };
            let name = name.to_string();
            let value = self.expr(&field.expr)?;
            let wanted = super::field_of(self.modules, self.world, &ty, &name, span)?.ty;
            fields.push((name, self.fit(value, &wanted)?));
        }
        Ok(Expr { kind: Kind::Struct(item, fields), ty, span })
    }

    fn branch(&mut self, branch: &syn::ExprIf, span: Span) -> Result<Expr> {
        let condition = self.expr(&branch.cond)?;
        let condition = self.fit(condition, &Ty::Bool)?;
        let then = self.block(&branch.then_branch)?;
        let mut ty = self.block_type(&then);
        let otherwise = match &branch.else_branch {
            Some((_, otherwise)) => {
                let otherwise = self.expr(otherwise)?;
                ty = self.same(ty, &otherwise.ty, otherwise.span)?;
                Some(Box::new(otherwise))
            }
            None => {
                ty = Ty::Unit;
                None
            }
        };
        let kind = Kind::If(Box::new(condition), Box::new(then), otherwise);
        Ok(Expr { kind, ty, span })
    }

    /// The type of what is one or the other.
    pub(super) fn same(&mut self, a: Ty, b: &Ty, span: Span) -> Result<Ty> {
        self.same_as("the other branch", a, b, span)
    }

    /// The type of two things that have one type, of which the first is `what`.
    pub(super) fn same_as(&mut self, what: &str, a: Ty, b: &Ty, span: Span) -> Result<Ty> {
        let (left, right) = (self.types.shallow(&a), self.types.shallow(b));
        if left == Ty::Never {
            return Ok(right);
        }
        if right == Ty::Never || self.types.unify(&left, &right) {
            return Ok(left);
        }
        let [a, b] = [left, right].map(|ty| self.types.resolve(&ty).rust());
        fault(span, format!("this is {b}, but {what} is {a}"))
    }

    fn looped(&mut self, expr: &syn::Expr, span: Span) -> Result<Expr> {
        let kind = match expr {
            syn::Expr::Loop(inner) => {
                self.no_label(inner.label.as_ref(), span)?;
                let value = self.types.fresh(VarKind::Any);
                self.loops.push(value);
                let body = self.block(&inner.body)?;
                let value = self.loops.pop().unwrap_or(Ty::Unit);
                let ends = crate::walk::breaks(&body);
                let ty = if ends { value } else { Ty::Never };
                return Ok(Expr { kind: Kind::Loop(Box::new(body)), ty, span });
            }
            syn::Expr::While(inner) => {
                self.no_label(inner.label.as_ref(), span)?;
                let condition = self.expr(&inner.cond)?;
                let condition = self.fit(condition, &Ty::Bool)?;
                Kind::While(Box::new(condition), Box::new(self.body(&inner.body)?))
            }
            syn::Expr::ForLoop(inner) => {
                self.no_label(inner.label.as_ref(), span)?;
                if let Some(n) = self.shared_indices(&inner.expr)? {
                    return self.each(inner, n, span);
                }
                Kind::For(Box::new(self.for_loop(inner)?))
            }
            _ => return fault(span, "this is not a loop"),
        };
        Ok(Expr { kind, ty: Ty::Unit, span })
    }

    fn body(&mut self, block: &syn::Block) -> Result<Block> {
        self.loops.push(Ty::Unit);
        let body = self.block(block);
        self.loops.pop();
        body
    }

    fn for_loop(&mut self, of: &syn::ExprForLoop) -> Result<For> {
        let (mut range, mut reversed, mut step) = (&*of.expr, false, None);
        loop {
            range = match range {
                syn::Expr::Paren(inner) => &inner.expr,
                syn::Expr::MethodCall(call) if call.method == "rev" || call.method == "step_by" => {
                    if reversed || step.is_some() {
                        let span = self.span(call);
                        let sentence = "a loop has one `rev` or `step_by`; compute the index from \
                            that of a plain range, as in `let k = last - 2 * i;`";
                        return fault(span, sentence);
                    }
                    reversed = call.method == "rev";
                    step = call.args.first();
                    &call.receiver
                }
                _ => break,
            };
        }
        let span = self.span(range);
        let syn::Expr::Range(range) = range else {
            return fault(span, "loops go over ranges; write `for i in 0..x.len()` and use `x[i]`");
        };
        let (Some(low), Some(high)) = (&range.start, &range.end) else {
            return fault(span, "a loop's range has both ends");
        };
        let (low, high) = (self.expr(low)?, self.expr(high)?);
        let (low, high) = (self.value(low), self.value(high));
        let ty = self.same_as("the range's beginning", low.ty.clone(), &high.ty, span)?;
        let step = match step {
            Some(step) => {
                let step = self.expr(step)?;
                Some(self.fit(step, &Ty::Usize)?)
            }
            None => None,
        };
        self.scopes.push(HashMap::new());
        let var = match &*of.pat {
            syn::Pat::Wild(_) => None,
            syn::Pat::Ident(name) if name.mutability.is_none() && name.by_ref.is_none() => {
                Some(self.declare(name.ident.to_string(), ty.clone(), false, span))
            }
            _ => return fault(span, "the variable of a loop is a plain name"),
        };
        let body = self.body(&of.body);
        self.scopes.pop();
        let inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
        Ok(For { var, ty, low, high, inclusive, reversed, step, body: body? })
    }

    fn leave(&mut self, expr: &syn::Expr, span: Span) -> Result<Expr> {
        const ALL: &str = "a loop over `team::each` goes through all indices; leave one out by \
            `continue`, or put what ends early into a function";
        const LABEL: &str =
            "labels are not supported; put the inner loop into a function and `return`";
        let kind = match expr {
            syn::Expr::Break(inner) if inner.label.is_some() => return fault(span, LABEL),
            syn::Expr::Continue(inner) if inner.label.is_some() => return fault(span, LABEL),
            syn::Expr::Continue(_) => Kind::Continue,
            syn::Expr::Break(inner) => {
                let value = match &inner.expr {
                    Some(value) => Some(self.expr(value)?),
                    None => None,
                };
                let given = value.as_ref().map_or(Ty::Unit, |value| value.ty.clone());
                let Some(wanted) = self.loops.last().cloned() else {
                    if self.shares {
                        return fault(span, ALL);
                    }
                    return fault(span, "`break` is outside of a loop");
                };
                self.same_as("the loop's value", wanted, &given, span)?;
                Kind::Break(value.map(Box::new))
            }
            syn::Expr::Return(_) if self.shares => return fault(span, ALL),
            syn::Expr::Return(inner) => {
                let value = match &inner.expr {
                    Some(value) => {
                        let value = self.expr(value)?;
                        let output = self.output.clone();
                        Some(Box::new(self.fit(value, &output)?))
                    }
                    None => None,
                };
                Kind::Return(value)
            }
            _ => return fault(span, "this leaves nothing"),
        };
        Ok(Expr { kind, ty: Ty::Never, span })
    }

    fn no_label(&self, label: Option<&syn::Label>, span: Span) -> Result<()> {
        match label {
            Some(_) => fault(
                span,
                "labels are not supported; put the inner loop into a function and `return` from it",
            ),
            None => Ok(()),
        }
    }
}

/// The type that a literal's suffix names, if it has one.
fn suffixed(suffix: &str, span: Span) -> Result<Option<Ty>> {
    match super::primitive(suffix) {
        Some(ty) => Ok(Some(ty)),
        None if suffix.is_empty() => Ok(None),
        None => fault(span, format!("`{suffix}` is not supported in a body")),
    }
}
