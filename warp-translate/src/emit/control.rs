//! Branches and loops.

use crate::diagnostic::{Result, fault};
use crate::emit::value::prec;
use crate::emit::{Emitter, Leave, Target, Val};
use crate::ir::{Block, Expr, For, Kind};
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
                _ => {
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
        if of.ty == Ty::U8 && of.inclusive {
            return fault(of.low.span, "a loop up to and with a u8 may never end; count in u32");
        }
        if of.inclusive && of.step.is_some() {
            return fault(
                of.low.span,
                "write `low..high + 1`; `step_by` of `..=` is not supported",
            );
        }
        use crate::emit::expr::How::Value;
        let vals = self.operands(&[(&of.low, Value), (&of.high, Value)])?;
        let (low, high) = (vals[0].clone(), vals[1].clone());
        // Rust looks at the end once.
        let keep = |emitter: &mut Self, val: Val, name: &str| match val.effects.none() {
            true => val,
            false => emitter.spill(val, &of.ty, name),
        };
        let high = if of.reversed { high } else { keep(self, high, "end") };
        let low = if of.reversed { keep(self, low, "begin") } else { low };
        let step = match &of.step {
            Some(step) => {
                let step = self.val(step)?;
                Some(keep(self, step, "stride"))
            }
            None => None,
        };
        let ty = self.ty(&of.ty);
        if self.unrolls(of) {
            self.lines.lines.push("#pragma unroll".into());
        }
        self.scopes.push(Default::default());
        let name = match of.var {
            Some(var) => self.fresh_name(var, true),
            None => self.unique("round", None),
        };
        let text = match (of.reversed, of.inclusive, step) {
            (true, false, _) => {
                format!("for ({ty} {name} = {}; {name}-- > {};) {{", high.text, low.at(prec::SHIFT))
            }
            (true, true, _) => format!(
                "for ({ty} {name} = {} + 1; {name}-- > {};) {{",
                high.at(prec::ADD),
                low.at(prec::SHIFT)
            ),
            (false, inclusive, step) => {
                let sign = if inclusive { "<=" } else { "<" };
                let next = match step {
                    Some(step) => format!("{name} += {}", step.text),
                    None => format!("++{name}"),
                };
                format!(
                    "for ({ty} {name} = {}; {name} {sign} {}; {next}) {{",
                    low.text,
                    high.at(prec::SHIFT)
                )
            }
        };
        self.loops.push(Target::Discard);
        self.open(text);
        self.block_into(&of.body, &Target::Discard)?;
        self.close("}");
        self.loops.pop();
        self.scopes.pop();
        Ok(())
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
