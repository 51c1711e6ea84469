//! Expressions as C++ text. What takes statements of its own is written before the statement that
//! it is part of, and what was evaluated before it then waits in a variable.

use crate::diagnostic::{Result, fault};
use crate::emit::value::prec;
use crate::emit::{Effects, Emitter, Lines, Target, Val};
use crate::ir::{Binary, Block, Expr, Kind};
use crate::types::Ty;

/// How an operand is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum How {
    Value,
    Place,
    Slice,
}

impl Emitter<'_> {
    /// Several operands in the order in which Rust evaluates them.
    pub(super) fn operands(&mut self, parts: &[(&Expr, How)]) -> Result<Vec<Val>> {
        let mut made: Vec<(Val, Lines)> = Vec::new();
        for (expr, how) in parts {
            made.push(self.apart(|emitter| match how {
                How::Value => emitter.val(expr),
                How::Place => emitter.place(expr),
                How::Slice => emitter.slice(expr),
            })?);
        }
        let mut vals = Vec::new();
        for i in 0..made.len() {
            let later = made[i + 1..].iter().fold(Effects::default(), |all, (val, lines)| {
                all.with(val.effects).with(lines.effects)
            });
            let lines = std::mem::take(&mut made[i].1);
            self.append(lines);
            let val = made[i].0.clone();
            let (expr, how) = parts[i];
            vals.push(match how {
                _ if !val.effects.disturbs(later) => val,
                How::Value => self.spill(val, &expr.ty, "value"),
                _ => {
                    let sentence =
                        "what follows changes where this lies; evaluate it on a line before";
                    return fault(expr.span, sentence);
                }
            });
        }
        Ok(vals)
    }

    /// Puts a value into a variable of its own.
    pub(super) fn spill(&mut self, val: Val, ty: &Ty, name: &str) -> Val {
        let ty = self.ty(ty);
        let name = self.unique(name, None);
        self.run(&format!("{ty} {name} = {};", val.text), val.effects);
        Val::atom(name)
    }

    /// A line that does something.
    pub(super) fn run(&mut self, text: &str, effects: Effects) {
        self.line(text);
        self.lines.effects = self.lines.effects.with(effects);
    }

    /// The value of an expression.
    pub(super) fn val(&mut self, expr: &Expr) -> Result<Val> {
        match &expr.kind {
            Kind::Int(value, _) if expr.ty == Ty::F32 => {
                Ok(Val::atom(crate::literal::written(&value.to_string())))
            }
            Kind::Int(value, hex) => self.int(*value, *hex, expr),
            Kind::Float(digits) => Ok(Val::atom(crate::literal::written(digits))),
            Kind::Bool(value) => Ok(Val::atom(value.to_string())),
            Kind::Unit => Ok(Val::atom("")),
            Kind::Const(item) => {
                let name = self.globals.need(self.modules, *item);
                let whole = matches!(expr.ty, Ty::Array(..));
                Ok(Val::atom(if whole { format!("warp_copied({name})") } else { name }))
            }
            Kind::Variant(item, variant) => self.variant(*item, *variant, expr),
            Kind::Paren(inner) => {
                let val = self.val(inner)?;
                Ok(match val.prec {
                    prec::UNARY.. => val,
                    _ => Val::atom(format!("({})", val.text)).with(val.effects),
                })
            }
            Kind::Var(_)
            | Kind::Held(_)
            | Kind::Field(..)
            | Kind::Index(..)
            | Kind::Deref(_)
            | Kind::Ref(_)
            | Kind::AsSlice(_)
            | Kind::Part(..) => self.read(expr),
            Kind::Len(of) => self.len(of),
            Kind::Unary(op, inner) => self.unary(*op, inner, &expr.ty),
            Kind::Binary(op, a, b) if matches!(op, Binary::Both | Binary::Either) => {
                self.lazy(*op, a, b)
            }
            Kind::Binary(op, a, b) => self.binary(*op, a, b, expr),
            Kind::Cast(inner) => self.cast(inner, expr),
            Kind::Call(item, args) => self.own_call(*item, args, expr),
            Kind::Builtin(builtin, args) => self.builtin(builtin, args, expr),
            Kind::CallClosure(var, args) => self.closure_call(*var, args),
            Kind::Closure(_) => fault(expr.span, "give the closure a name by `let`, and call that"),
            Kind::Tuple(parts) | Kind::Array(parts) => self.aggregate(parts, &expr.ty),
            Kind::Repeat(value) => self.repeat(value, &expr.ty),
            Kind::Struct(item, fields) => self.structure(*item, fields, expr),
            Kind::If(..) | Kind::Match(..) if expr.ty != Ty::Unit => {
                match self.conditional(expr)? {
                    Some(val) => Ok(val),
                    None => self.temporary(expr),
                }
            }
            Kind::Block(block) if block.stmts.is_empty() && block.tail.is_some() => {
                match &block.tail {
                    Some(tail) => self.val(tail),
                    None => Ok(Val::atom("")),
                }
            }
            Kind::Team(team) => self.team_value(team, expr),
            _ if matches!(expr.ty, Ty::Unit | Ty::Never) => {
                self.into(expr, &Target::Discard)?;
                Ok(Val::atom(""))
            }
            _ => self.temporary(expr),
        }
    }

    fn variant(&mut self, item: usize, variant: usize, expr: &Expr) -> Result<Val> {
        let name = self.globals.need(self.modules, item);
        let crate::declared::Declared::Enum(variants) = &self.modules.items[item].what else {
            return fault(expr.span, "this is not an enum");
        };
        Ok(Val::atom(format!("{name}::{}", super::c_name(&variants[variant].name))))
    }

    fn int(&mut self, value: u128, hex: bool, expr: &Expr) -> Result<Val> {
        let most = match expr.ty {
            Ty::U8 => 255,
            Ty::I32 => 1 << 31,
            Ty::I64 => 1 << 63,
            Ty::U64 => u64::MAX.into(),
            _ => u32::MAX.into(),
        };
        if value > most {
            return fault(
                expr.span,
                format!("{value} is too large for {} on a GPU", expr.ty.rust()),
            );
        }
        Ok(Val::atom(crate::literal::int(value, hex, &expr.ty)))
    }

    /// The value that lies at a place.
    fn read(&mut self, expr: &Expr) -> Result<Val> {
        let effects = self.reads(expr);
        let val = match expr.ty.behind() {
            Ty::Slice(..) => self.slice(expr)?,
            Ty::Closure(_) => return fault(expr.span, "a closure can only be called"),
            _ => self.place(expr)?,
        };
        Ok(val.with(effects))
    }

    /// The value of what needs statements, in a variable.
    fn temporary(&mut self, expr: &Expr) -> Result<Val> {
        if matches!(expr.ty, Ty::Slice(..) | Ty::Ref(..) | Ty::Closure(_)) {
            return fault(expr.span, "choose between values, not between references");
        }
        let name = self.unique("value", None);
        let ty = self.ty(&expr.ty);
        self.line(format!("{ty} {name};"));
        self.into(expr, &Target::Assign(name.clone()))?;
        Ok(Val::atom(name))
    }

    fn lazy(&mut self, op: Binary, a: &Expr, b: &Expr) -> Result<Val> {
        let left = self.val(a)?;
        let (right, lines) = self.apart(|emitter| emitter.val(b))?;
        let precedence = if op == Binary::Both { prec::BOTH } else { prec::EITHER };
        if lines.lines.is_empty() {
            let text =
                format!("{} {} {}", left.at(precedence), op.sign(), right.at(precedence + 1));
            return Ok(Val::new(text, precedence).with(left.effects).with(right.effects));
        }
        let name = self.spill(left, &Ty::Bool, "holds").text;
        let first = if op == Binary::Both { name.clone() } else { format!("!{name}") };
        self.open(format!("if ({first}) {{"));
        self.into(b, &Target::Assign(name.clone()))?;
        self.close("}");
        Ok(Val::atom(name))
    }

    pub(super) fn list(&mut self, parts: &[&Expr]) -> Result<(Vec<String>, Effects)> {
        let how = |e: &Expr| if matches!(e.ty, Ty::Slice(..)) { How::Slice } else { How::Value };
        let operands: Vec<(&Expr, How)> = parts.iter().map(|part| (*part, how(part))).collect();
        let vals = self.operands(&operands)?;
        let effects = vals.iter().fold(Effects::default(), |all, val| all.with(val.effects));
        let texts = vals.iter().zip(parts).map(|(val, part)| braced(val, part)).collect();
        Ok((texts, effects))
    }

    fn aggregate(&mut self, parts: &[Expr], ty: &Ty) -> Result<Val> {
        if let (Ty::Tuple(_), Some(first)) = (ty, parts.first()) {
            crate::types::tuple_of(parts.len(), first.span)?;
        }
        let parts: Vec<&Expr> = parts.iter().collect();
        let (texts, effects) = self.list(&parts)?;
        let ty = self.ty(ty);
        Ok(Val::atom(format!("{ty}{{{}}}", texts.join(", "))).with(effects))
    }

    fn repeat(&mut self, value: &Expr, ty: &Ty) -> Result<Val> {
        let Ty::Array(element, n) = ty else { return fault(value.span, "this is not an array") };
        let zero = match &value.bare().kind {
            Kind::Int(0, _) | Kind::Bool(false) => true,
            // Minus zero is no zero.
            Kind::Float(digits) => digits.parse::<f32>().is_ok_and(|x| x.to_bits() == 0),
            _ => false,
        };
        let (element, ty) = (self.ty(element), self.ty(ty));
        if zero {
            return Ok(Val::atom(format!("{ty}{{}}")));
        }
        let value = self.val(value)?;
        Ok(Val::atom(format!("warp_filled<{element}, {n}>({})", value.text)).with(value.effects))
    }

    fn structure(&mut self, item: usize, fields: &[(String, Expr)], expr: &Expr) -> Result<Val> {
        let parts: Vec<&Expr> = fields.iter().map(|(_, value)| value).collect();
        let (texts, effects) = self.list(&parts)?;
        let crate::declared::Declared::Struct(declared) = &self.modules.items[item].what else {
            return fault(expr.span, "this is not a struct");
        };
        let order: Vec<String> = declared.iter().map(|field| field.name.clone()).collect();
        let mut sorted = Vec::new();
        for name in order {
            match fields.iter().position(|(field, _)| *field == name) {
                Some(i) => sorted.push(texts[i].clone()),
                None => return fault(expr.span, format!("field `{name}` is missing")),
            }
        }
        let ty = self.ty(&expr.ty);
        Ok(Val::atom(format!("{ty}{{{}}}", sorted.join(", "))).with(effects))
    }

    /// A branch as `c ? a : b`; none if it takes statements.
    pub(super) fn conditional(&mut self, expr: &Expr) -> Result<Option<Val>> {
        if !is_flat(expr) {
            return Ok(None);
        }
        // What is tried and not used leaves no names behind.
        let (names, scopes) = (self.names.clone(), self.scopes.clone());
        let made = match &expr.kind {
            Kind::If(condition, then, Some(otherwise)) => {
                self.ternary(condition, then, otherwise)?
            }
            Kind::Match(of, arms) => self.ternaries(of, arms)?,
            _ => None,
        };
        if made.is_none() {
            (self.names, self.scopes) = (names, scopes);
        }
        Ok(made)
    }

    fn ternary(&mut self, condition: &Expr, then: &Block, otherwise: &Expr) -> Result<Option<Val>> {
        let Some(then) = plain(then) else { return Ok(None) };
        let branches = [then, otherwise];
        if branches.iter().any(|branch| !branch.ty.is_scalar() && !matches!(branch.ty, Ty::Enum(_)))
        {
            return Ok(None);
        }
        let (condition, lines) = self.apart(|emitter| emitter.val(condition))?;
        let (a, lines_a) = self.apart(|emitter| emitter.val(then))?;
        let (b, lines_b) = self.apart(|emitter| emitter.val(otherwise))?;
        if !lines_a.lines.is_empty() || !lines_b.lines.is_empty() {
            return Ok(None);
        }
        self.append(lines);
        let condition_text = condition.at(prec::TERNARY + 1);
        let text =
            format!("{condition_text} ? {} : {}", a.at(prec::TERNARY + 1), b.at(prec::TERNARY));
        let effects = condition.effects.with(a.effects).with(b.effects);
        Ok(Some(Val::new(text, prec::TERNARY).with(effects)))
    }
}

/// Whether nothing in an expression is a statement in C++.
fn is_flat(expr: &Expr) -> bool {
    let mut flat = true;
    crate::walk::everything(expr, &mut |part| {
        let fine = match &part.kind {
            Kind::If(_, then, otherwise) => plain(then).is_some() && otherwise.is_some(),
            Kind::Block(block) => plain(block).is_some(),
            Kind::Loop(_) | Kind::While(..) | Kind::For(_) | Kind::Team(_) | Kind::Closure(_) => {
                false
            }
            Kind::Break(_) | Kind::Continue | Kind::Return(_) => false,
            Kind::Assign(..) | Kind::AssignWith(..) => false,
            _ => true,
        };
        flat &= fine;
    });
    flat
}

/// The one expression that a block is.
pub(super) fn plain(block: &Block) -> Option<&Expr> {
    if block.stmts.is_empty() { block.tail.as_ref() } else { None }
}

/// An element of braces, where C++ allows no silent narrowing.
fn braced(val: &Val, part: &Expr) -> String {
    let bits = [Binary::And, Binary::Or, Binary::Xor];
    match &part.bare().kind {
        Kind::Binary(op, ..) if part.ty == Ty::Bool && bits.contains(op) => {
            format!("(bool){}", val.at(prec::UNARY))
        }
        _ => val.text.clone(),
    }
}
