//! `match`, as a chain of conditions.

use crate::diagnostic::{Result, fault};
use crate::emit::value::prec;
use crate::emit::{Effects, Emitter, Target, Val};
use crate::ir::{Arm, Expr, Kind, Pattern};
use crate::types::Ty;

impl Emitter<'_> {
    /// What a `match` looks at: values that stay as they are.
    fn scrutinee(&mut self, of: &Expr) -> Result<Vec<(Val, Ty)>> {
        let parts: Vec<&Expr> = match &of.bare().kind {
            Kind::Tuple(parts) => parts.iter().collect(),
            _ => vec![of],
        };
        if parts.len() == 1 && matches!(of.ty, Ty::Tuple(_)) {
            return fault(of.span, "match the parts of a tuple: `match (a, b)`");
        }
        let operands: Vec<_> = parts.iter().map(|e| (*e, crate::emit::expr::How::Value)).collect();
        let vals = self.operands(&operands)?;
        let mut kept = Vec::new();
        for (val, part) in vals.into_iter().zip(parts) {
            let stays = val.effects.none() && val.prec == prec::ATOM;
            let val = if stays { val } else { self.spill(val, &part.ty, "choice") };
            kept.push((val, part.ty.clone()));
        }
        Ok(kept)
    }

    /// The condition under which a pattern fits; none if always.
    fn condition(&mut self, pattern: &Pattern, of: &[(Val, Ty)]) -> Result<Option<Val>> {
        let and = |a: Option<Val>, b: Option<Val>| match (a, b) {
            (Some(a), Some(b)) => {
                let text = format!("{} && {}", a.at(prec::BOTH), b.at(prec::BOTH));
                Some(Val::new(text, prec::BOTH))
            }
            (a, b) => a.or(b),
        };
        let first = &of[0].0;
        match pattern {
            Pattern::Any => Ok(None),
            Pattern::Bind(var) => {
                self.names.insert(*var, first.text.clone());
                Ok(None)
            }
            Pattern::Value(value) => match &value.kind {
                Kind::Bool(true) => Ok(Some(first.clone())),
                Kind::Bool(false) => {
                    Ok(Some(Val::new(format!("!{}", first.at(prec::UNARY)), prec::UNARY)))
                }
                _ => {
                    let value = self.val(value)?;
                    let text = format!("{} == {}", first.text, value.at(prec::LESS));
                    Ok(Some(Val::new(text, prec::EQUAL)))
                }
            },
            Pattern::Range(low, high, closed) => {
                let bound = |emitter: &mut Self, value: &Option<Expr>, sign: &str| match value {
                    Some(value) => {
                        let value = emitter.val(value)?;
                        let text = format!("{} {sign} {}", first.text, value.at(prec::SHIFT));
                        Ok(Some(Val::new(text, prec::LESS)))
                    }
                    None => Ok(None),
                };
                let low = bound(self, low, ">=")?;
                let high = bound(self, high, if *closed { "<=" } else { "<" })?;
                Ok(and(low, high))
            }
            Pattern::Either(parts) => {
                let mut texts = Vec::new();
                for part in parts {
                    match self.condition(part, of)? {
                        Some(val) => texts.push(val.at(prec::BOTH)),
                        None => return Ok(None),
                    }
                }
                Ok(Some(Val::new(texts.join(" || "), prec::EITHER)))
            }
            Pattern::Tuple(parts) if parts.len() == of.len() => {
                let mut all = None;
                for (part, value) in parts.iter().zip(of) {
                    let own = self.condition(part, std::slice::from_ref(value))?;
                    all = and(all, own);
                }
                Ok(all)
            }
            _ => fault(self.function.body.span, "this pattern can only be destructured by `let`"),
        }
    }

    /// The arms of a `match` with their conditions; the last has none.
    fn arms<'a>(&mut self, of: &Expr, arms: &'a [Arm]) -> Result<Vec<(Option<Val>, &'a Arm)>> {
        let of = self.scrutinee(of)?;
        let mut made = Vec::new();
        for (i, arm) in arms.iter().enumerate() {
            names_are_values(arm, of.len())?;
            let fits = self.condition(&arm.pattern, &of)?;
            let condition = match &arm.guard {
                Some(guard) => {
                    let (guard, lines) = self.apart(|emitter| emitter.val(guard))?;
                    if !lines.lines.is_empty() {
                        return fault(
                            arm.body.span,
                            "compute what a guard asks for before the `match`",
                        );
                    }
                    match fits {
                        Some(fits) => Some(
                            Val::new(
                                format!("{} && {}", fits.at(prec::BOTH), guard.at(prec::BOTH)),
                                prec::BOTH,
                            )
                            .with(guard.effects),
                        ),
                        None => Some(guard),
                    }
                }
                None if i + 1 == arms.len() => None,
                None => fits,
            };
            let last = condition.is_none();
            made.push((condition, arm));
            if last {
                break;
            }
        }
        Ok(made)
    }

    pub(super) fn match_into(&mut self, of: &Expr, arms: &[Arm], target: &Target) -> Result<()> {
        let arms = self.arms(of, arms)?;
        for (i, (condition, arm)) in arms.into_iter().enumerate() {
            match condition {
                Some(val) if i == 0 => self.open(format!("if ({}) {{", val.text)),
                Some(val) => self.reopen(&format!("}} else if ({}) {{", val.text)),
                None if i == 0 => self.open("{"),
                None => self.reopen("} else {"),
            }
            self.copy_mutable(&arm.pattern);
            match &arm.body.kind {
                Kind::Block(block) => self.block_into(block, target)?,
                _ => self.into(&arm.body, target)?,
            }
        }
        self.close("}");
        Ok(())
    }

    /// Gives names that are `mut` a variable of their own: other names are what the `match` looks at.
    fn copy_mutable(&mut self, pattern: &Pattern) {
        let mut vars = Vec::new();
        crate::walk::names(pattern, &mut |var| vars.push(var));
        for var in vars.into_iter().filter(|var| self.function.vars[*var].mutable) {
            let (value, ty) = (self.names[&var].clone(), self.function.vars[var].ty.clone());
            let (ty, name) = (self.ty(&ty), self.fresh_name(var, true));
            self.line(format!("{ty} {name} = {value};"));
        }
    }

    /// A `match` as `a ? x : b ? y : z`, if that is all there is to it.
    pub(super) fn ternaries(&mut self, of: &Expr, arms: &[Arm]) -> Result<Option<Val>> {
        let scalar = |ty: &Ty| ty.is_scalar() || matches!(ty, Ty::Enum(_));
        let mut mutable = false;
        for arm in arms {
            crate::walk::names(&arm.pattern, &mut |var| mutable |= self.function.vars[var].mutable);
        }
        if mutable || arms.iter().any(|arm| !scalar(&arm.body.ty)) {
            return Ok(None);
        }
        let (made, lines) = self.apart(|emitter| emitter.arms(of, arms))?;
        let (mut texts, mut effects) = (Vec::new(), Effects::default());
        for (condition, arm) in &made {
            let (body, own) = self.apart(|emitter| emitter.val(&arm.body))?;
            if !own.lines.is_empty() {
                return Ok(None);
            }
            effects = effects.with(body.effects);
            texts.push(match condition {
                Some(condition) => {
                    effects = effects.with(condition.effects);
                    format!(
                        "{} ? {} : ",
                        condition.at(prec::TERNARY + 1),
                        body.at(prec::TERNARY + 1)
                    )
                }
                None => body.at(prec::TERNARY),
            });
        }
        let complete = made.last().is_some_and(|(condition, _)| condition.is_none());
        if !complete || texts.concat().len() > 160 {
            return Ok(None);
        }
        self.append(lines);
        Ok(Some(Val::new(texts.concat(), prec::TERNARY).with(effects)))
    }
}

/// A name in a pattern stands for a value that the `match` looks at.
fn names_are_values(arm: &Arm, n_values: usize) -> Result<()> {
    if n_values > 1 && matches!(arm.pattern, Pattern::Bind(_)) {
        return fault(arm.body.span, "name the parts of a tuple: `(a, b) => ...`");
    }
    let mut named = false;
    let mut alternatives = |pattern: &Pattern| {
        if let Pattern::Either(parts) = pattern {
            parts.iter().for_each(|part| crate::walk::names(part, &mut |_| named = true));
        }
    };
    match &arm.pattern {
        Pattern::Tuple(parts) => parts.iter().for_each(&mut alternatives),
        pattern => alternatives(pattern),
    }
    if named {
        return fault(arm.body.span, "a pattern with `|` names nothing; write an arm for each");
    }
    Ok(())
}
