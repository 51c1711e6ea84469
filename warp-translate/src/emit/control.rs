//! Branches and loops.

use crate::diagnostic::{Result, fault};
use crate::emit::value::prec;
use crate::emit::{Emitter, Leave, Target, Val};
use crate::ir::{Block, Expr, For, Kind, Unary};
use crate::types::Ty;

/// Characters of a conditional expression at most; a longer one becomes statements.
pub(super) const SHORT: usize = 160;

impl Emitter<'_> {
    /// Evaluates `expr` and puts its value where `target` says.
    pub(super) fn into(&mut self, expr: &Expr, target: &Target) -> Result<()> {
        match &expr.kind {
            Kind::Paren(inner) => self.into(inner, target),
            Kind::If(..) | Kind::Match(..) => match self.in_a_line(expr, target)? {
                Some(val) => self.put(val, target, expr),
                None => self.branch_into(expr, target),
            },
            Kind::Block(block) => {
                if block.stmts.is_empty() {
                    return match &block.tail {
                        Some(tail) => self.into(tail, target),
                        None => Ok(()),
                    };
                }
                self.open("{");
                self.block_into(block, target)?;
                self.close("}");
                Ok(())
            }
            Kind::Loop(body) => {
                self.loops.push(target.clone());
                self.open("for (;;) {");
                self.block_into(body, &Target::Discard)?;
                self.close("}");
                self.loops.pop();
                Ok(())
            }
            Kind::While(condition, body) => self.while_loop(condition, body),
            Kind::For(of) => self.for_loop(of),
            Kind::Break(value) => {
                let target = self.loops.last().cloned().unwrap_or(Target::Discard);
                if let Some(value) = value {
                    self.into(value, &target)?;
                }
                if !matches!((&target, value), (Target::Return, Some(_))) {
                    self.line("break;");
                }
                Ok(())
            }
            Kind::Continue => {
                self.line("continue;");
                Ok(())
            }
            Kind::Return(value) => self.leave(value.as_deref(), expr),
            Kind::Assign(place, value) => self.assign(place, value),
            Kind::AssignWith(op, place, value) => self.assign_with(*op, place, value),
            _ => {
                let val = self.val(expr)?;
                self.put(val, target, expr)
            }
        }
    }

    /// A branch as `c ? a : b`, where its value is wanted and that is all there is to it.
    fn in_a_line(&mut self, expr: &Expr, target: &Target) -> Result<Option<Val>> {
        let wanted = *target != Target::Discard && !matches!(expr.ty, Ty::Unit | Ty::Never);
        if !wanted {
            return Ok(None);
        }
        let val = self.conditional(expr)?;
        Ok(val.filter(|val| val.text.len() <= SHORT))
    }

    fn branch_into(&mut self, expr: &Expr, target: &Target) -> Result<()> {
        match &expr.kind {
            Kind::If(condition, then, otherwise) => {
                self.if_into(condition, then, otherwise.as_deref(), target)
            }
            Kind::Match(of, arms) => self.match_into(of, arms, target),
            _ => fault(expr.span, "this is not a branch"),
        }
    }

    fn put(&mut self, val: Val, target: &Target, expr: &Expr) -> Result<()> {
        if val.text.is_empty() {
            return Ok(());
        }
        match target {
            Target::Discard => {
                let calls = matches!(
                    expr.bare().kind,
                    Kind::Call(..) | Kind::CallClosure(..) | Kind::Builtin(..) | Kind::Team(_)
                );
                if calls || val.effects.writes || val.effects.draws {
                    self.run(&format!("{};", val.text), val.effects);
                }
            }
            // A call of something without a value.
            _ if expr.ty == Ty::Unit => self.run(&format!("{};", val.text), val.effects),
            Target::Assign(name) => self.run(&format!("{name} = {};", val.text), val.effects),
            Target::Return => self.run(&format!("return {};", val.text), val.effects),
            Target::Fold(name, "|") => {
                self.run(&format!("{name} |= {};", val.text), val.effects);
            }
            Target::Fold(name, "wrapping") => {
                let text = format!("{name} = warp_wrapping_add({name}, {});", val.text);
                self.run(&text, val.effects);
            }
            Target::Fold(name, "least") => {
                self.run(&format!("{name} = warp_min({name}, {});", val.text), val.effects);
            }
            Target::Fold(name, sign) => {
                self.run(&format!("{name} {sign}= {};", val.text), val.effects);
            }
        }
        Ok(())
    }

    fn leave(&mut self, value: Option<&Expr>, expr: &Expr) -> Result<()> {
        match self.leave.clone() {
            Leave::Function => match value {
                Some(value) if value.ty != Ty::Unit => self.into(value, &Target::Return),
                value => {
                    // A call without a value does something all the same.
                    value.map_or(Ok(()), |value| self.into(value, &Target::Discard))?;
                    self.line("return;");
                    Ok(())
                }
            },
            Leave::Round(target, depth) if self.loops.len() == depth => {
                if let Some(value) = value {
                    self.into(value, &target)?;
                }
                self.line("continue;");
                Ok(())
            }
            Leave::Round(..) => fault(
                expr.span,
                "this would leave a loop and the closure around it; put the loop into a function",
            ),
            Leave::Nowhere => {
                fault(expr.span, "`return` has no place in `team::once`; use `if`, or a function")
            }
        }
    }

    fn if_into(
        &mut self,
        condition: &Expr,
        then: &Block,
        otherwise: Option<&Expr>,
        target: &Target,
    ) -> Result<()> {
        let condition = self.val(condition)?;
        self.lines.effects = self.lines.effects.with(condition.effects);
        self.open(format!("if ({}) {{", condition.text));
        self.block_into(then, target)?;
        let mut rest = otherwise;
        while let Some(expr) = rest {
            rest = None;
            match &expr.kind {
                Kind::Block(block) if block.stmts.is_empty() && block.tail.is_none() => break,
                Kind::If(condition, then, otherwise) => {
                    let (condition, lines) = self.apart(|emitter| emitter.val(condition))?;
                    if lines.lines.is_empty() {
                        self.reopen(&format!("}} else if ({}) {{", condition.text));
                        self.block_into(then, target)?;
                        rest = otherwise.as_deref();
                    } else {
                        self.reopen("} else {");
                        self.into(expr, target)?;
                    }
                }
                Kind::Block(block) => {
                    self.reopen("} else {");
                    self.block_into(block, target)?;
                }
                _ => {
                    self.reopen("} else {");
                    self.into(expr, target)?;
                }
            }
        }
        self.close("}");
        Ok(())
    }

    pub(super) fn reopen(&mut self, text: &str) {
        self.indent -= 1;
        self.scopes.pop();
        self.open(text);
    }

    fn while_loop(&mut self, condition: &Expr, body: &Block) -> Result<()> {
        let (test, lines) = self.apart(|emitter| emitter.val(condition))?;
        self.loops.push(Target::Discard);
        self.lines.effects = self.lines.effects.with(test.effects).with(lines.effects);
        if lines.lines.is_empty() {
            self.open(format!("while ({}) {{", test.text));
        } else {
            self.open("for (;;) {");
            let test = self.val(condition)?;
            self.line(format!("if (!{}) break;", test.at(prec::UNARY)));
        }
        self.block_into(body, &Target::Discard)?;
        self.close("}");
        self.loops.pop();
        Ok(())
    }

    fn for_loop(&mut self, of: &For) -> Result<()> {
        if of.inclusive && of.step.is_some() {
            return fault(
                of.low.span,
                "write `low..high + 1`; `step_by` of `..=` is not supported",
            );
        }
        use crate::emit::expr::How::Value;
        let parts = [Some(&of.low), Some(&of.high), of.step.as_ref()];
        let parts: Vec<_> = parts.into_iter().flatten().map(|part| (part, Value)).collect();
        let vals = self.operands(&parts)?;
        let (low, high) = (vals[0].clone(), vals[1].clone());
        // Rust looks at the end once.
        let keep = |emitter: &mut Self, val: Val, ty: &Ty, name: &str| match val.effects.none() {
            true => val,
            false => emitter.spill(val, ty, name),
        };
        let high = if of.reversed { high } else { keep(self, high, &of.ty, "end") };
        let low = if of.reversed { keep(self, low, &of.ty, "begin") } else { low };
        let step = vals.get(2).map(|step| keep(self, step.clone(), &Ty::Usize, "stride"));
        if self.unrolls(of) {
            self.lines.lines.push("#pragma unroll".into());
        }
        self.scopes.push(Default::default());
        let name = match of.var {
            Some(var) => self.fresh_name(var, true),
            None => self.unique("round", None),
        };
        let text = self.head_of_loop(of, &name, &low, &high, step.as_ref());
        self.loops.push(Target::Discard);
        self.open(text);
        self.block_into(&of.body, &Target::Discard)?;
        self.close("}");
        self.loops.pop();
        self.scopes.pop();
        Ok(())
    }

    /// The head of a loop. Where the variable could be counted past what its type holds, `more` says
    /// whether it is counted at all.
    fn head_of_loop(
        &mut self,
        of: &For,
        name: &str,
        low: &Val,
        high: &Val,
        step: Option<&Val>,
    ) -> String {
        let (fits, ty) = (self.stays_in_range(of), self.ty(&of.ty));
        if of.reversed {
            return self.head_of_reversed(of, name, low, high, fits);
        }
        let (sign, last) = (if of.inclusive { "<=" } else { "<" }, high.at(prec::SHIFT));
        let plain = |next: &str| {
            format!("for ({ty} {name} = {}; {name} {sign} {last}; {next}) {{", low.text)
        };
        match step {
            None if !of.inclusive || fits => return plain(&format!("++{name}")),
            Some(step) if fits => return plain(&format!("{name} += {}", step.text)),
            _ => {}
        }
        let more = self.unique("more", None);
        let start = format!("{name} = {}, {more} = {name} {sign} {last}", low.text);
        let next = match step {
            None => format!("{more} = {name} < {last}, {name} += {more}"),
            Some(step) => {
                let (by, high) = (step.at(prec::UNARY), &high.text);
                let test = format!("warp_more<{ty}>({name}, {high}, {})", step.text);
                format!("{more} = {test}, {name} += {more} * {by}")
            }
        };
        format!("for ({ty} {start}; {more}; {next}) {{")
    }

    fn head_of_reversed(
        &mut self,
        of: &For,
        name: &str,
        low: &Val,
        high: &Val,
        fits: bool,
    ) -> String {
        let (ty, last) = (self.ty(&of.ty), low.at(prec::SHIFT));
        if of.inclusive && !fits {
            let more = self.unique("more", None);
            let start = format!("{name} = {}, {more} = {name} >= {last}", high.text);
            let next = format!("{more} = {name} > {last}, {name} -= {more}");
            return format!("for ({ty} {start}; {more}; {next}) {{");
        }
        let first = match of.inclusive {
            true => format!("{} + 1", high.at(prec::ADD)),
            false => high.text.clone(),
        };
        let test = match fits {
            true => format!("{name}-- > {last}"),
            false => format!("{name} > {last} && (--{name}, true)"),
        };
        format!("for ({ty} {name} = {first}; {test};) {{")
    }

    /// Whether all that a plain loop in C++ counts is known to be of the variable's type: up to the end or
    /// a step beyond, or down to below the beginning.
    fn stays_in_range(&mut self, of: &For) -> bool {
        let (low, high) = (self.known(&of.low), self.known(&of.high));
        let past = high.map(|high| high + i128::from(of.inclusive));
        let within = |value: i128| holds(&of.ty, value);
        if !of.reversed {
            let step = of.step.as_ref().map_or(Some(1), |step| self.known(step));
            return past.zip(step).is_some_and(|(past, step)| within(past - 1 + step));
        }
        let starts = !of.inclusive || past.is_some_and(within);
        let ends = past.zip(low).is_some_and(|(past, low)| within(low.min(past) - 1));
        // A number without a sign is counted past 0 after the last round, which does no harm.
        starts && (ends || !of.ty.is_signed())
    }

    /// Whether a loop runs over the elements of a small local array, which then stays in registers.
    fn unrolls(&mut self, of: &For) -> bool {
        let (Some(var), Some(low), Some(high)) =
            (of.var, self.small(&of.low), self.small(&of.high))
        else {
            return false;
        };
        if high.saturating_sub(low) > 32 {
            return false;
        }
        let mut found = false;
        crate::walk::all(&of.body, &mut |expr| {
            if let Kind::Index(base, index) = &expr.kind {
                let mut uses = false;
                crate::walk::everything(index, &mut |part| {
                    uses |= matches!(part.kind, Kind::Var(v) if v == var);
                });
                found |= uses && matches!(base.ty.behind(), Ty::Array(..));
            }
        });
        found
    }

    /// The value of a whole number that the text says.
    pub(super) fn known(&mut self, expr: &Expr) -> Option<i128> {
        match &expr.bare().kind {
            Kind::Unary(Unary::Minus, inner) => self.known(inner).map(|value| -value),
            _ => i128::try_from(self.small(expr)?).ok(),
        }
    }

    fn small(&mut self, expr: &Expr) -> Option<u128> {
        match &expr.bare().kind {
            Kind::Int(value, _) => Some(*value),
            Kind::Len(of) => match of.ty.behind() {
                Ty::Array(_, n) => Some((*n).into()),
                _ => None,
            },
            Kind::Const(item) => {
                let of = &self.modules.items[*item];
                let module = of.module;
                let crate::declared::Declared::Const(constant) = &of.what else { return None };
                let value = constant.expr.clone();
                let value = crate::infer::evaluate(self.modules, module, &value).ok()?;
                u128::try_from(value).ok()
            }
            _ => None,
        }
    }
}

/// Whether a number is one of an integer type on a GPU.
fn holds(ty: &Ty, value: i128) -> bool {
    let bits = ty.bits();
    let least = if ty.is_signed() { -(1_i128 << (bits - 1)) } else { 0 };
    (least..least + (1 << bits)).contains(&value)
}
