//! Calls.

use crate::diagnostic::{Result, fault};
use crate::emit::expr::How;
use crate::emit::value::prec;
use crate::emit::{Effects, Emitter, Val};
use crate::infer::signature_of;
use crate::ir::{Builtin, Expr, Form, Kind};
use crate::types::Ty;

impl Emitter<'_> {
    pub(super) fn own_call(&mut self, item: usize, args: &[Expr], whole: &Expr) -> Result<Val> {
        let signature = signature_of(self.modules, self.world, item)?;
        let how = |ty: &Ty| match ty {
            Ty::Slice(..) => How::Slice,
            Ty::Ref(..) => How::Place,
            _ => How::Value,
        };
        let parts: Vec<(&Expr, How)> =
            args.iter().zip(&signature.params).map(|(arg, ty)| (arg.bare(), how(ty))).collect();
        let vals = self.operands(&parts)?;
        let mut effects = Effects::default();
        for ((val, arg), ty) in vals.iter().zip(args).zip(&signature.params) {
            effects = effects.with(val.effects);
            effects = effects.with(match ty {
                Ty::Ref(inner, true) if **inner == Ty::Draw => Effects::DRAWS,
                Ty::Ref(_, true) | Ty::Slice(_, true) => Effects::WRITES.with(Effects::READS),
                Ty::Ref(..) | Ty::Slice(..) => self.reads(arg),
                _ => Effects::default(),
            });
        }
        let name = self.globals.item(self.modules, item);
        let texts: Vec<String> = vals.into_iter().map(|val| val.text).collect();
        let _ = whole;
        Ok(Val::atom(format!("{name}({})", texts.join(", "))).with(effects))
    }

    pub(super) fn closure_call(&mut self, var: usize, args: &[Expr]) -> Result<Val> {
        let parts: Vec<&Expr> = args.iter().collect();
        let (texts, effects) = self.list(&parts)?;
        let name = self.names.get(&var).cloned().unwrap_or_default();
        // It may see, and change, whatever is around it.
        let effects = effects.with(Effects { reads: true, draws: true, writes: true });
        Ok(Val::atom(format!("{name}({})", texts.join(", "))).with(effects))
    }

    pub(super) fn builtin(&mut self, of: &Builtin, args: &[Expr], whole: &Expr) -> Result<Val> {
        let name = &of.name;
        match of.form {
            Form::Value => {
                let prec = if name.starts_with('-') { prec::UNARY } else { prec::ATOM };
                Ok(Val::new(name.clone(), prec))
            }
            Form::Call => {
                let parts: Vec<(&Expr, How)> =
                    args.iter().map(|arg| (arg.bare(), How::Value)).collect();
                let vals = self.operands(&parts)?;
                let effects =
                    vals.iter().fold(Effects::default(), |all, val| all.with(val.effects));
                let texts: Vec<String> = vals.into_iter().map(|val| val.text).collect();
                let ty = self.template(name, args);
                Ok(Val::atom(format!("{name}{ty}({})", texts.join(", "))).with(effects))
            }
            Form::Draws | Form::Stream => {
                // A stream that has no name yet gets one, since it changes.
                let stream = match &args[0].bare().kind {
                    Kind::Builtin(..) => &self.as_place(&args[0])?,
                    _ => &args[0],
                };
                let mut parts = vec![(stream, How::Place)];
                parts.extend(args[1..].iter().map(|arg| (arg, How::Value)));
                let vals = self.operands(&parts)?;
                let mut effects =
                    vals.iter().fold(Effects::default(), |all, val| all.with(val.effects));
                if of.form == Form::Draws {
                    effects = effects.with(Effects::DRAWS);
                }
                let rest: String = vals[1..].iter().map(|val| format!(", {}", val.text)).collect();
                let text = format!("{name}(&{}{rest})", vals[0].at(prec::UNARY));
                Ok(Val::atom(text).with(effects))
            }
            Form::SinCos => {
                let angle = self.val(&args[0])?;
                let [sin, cos] = ["sin", "cos"].map(|name| self.unique(name, None));
                self.line(format!("float {sin}, {cos};"));
                self.run(&format!("{name}({}, &{sin}, &{cos});", angle.text), angle.effects);
                let ty = self.ty(&whole.ty);
                Ok(Val::atom(format!("{ty}{{{sin}, {cos}}}")))
            }
            Form::Clamped => {
                let vals = self.operands(&[(&args[0], How::Slice), (&args[1], How::Value)])?;
                let effects = vals[0].effects.with(vals[1].effects).with(self.reads(&args[0]));
                let text = format!("{name}({}, {})", vals[0].text, vals[1].text);
                Ok(Val::atom(text).with(effects))
            }
            Form::Add => self.team_add(args),
        }
    }

    /// The type that a template of integers is told, where its arguments say another in C++: a
    /// dimension is a constant of no integer type, and what is computed in bytes is an int.
    fn template(&self, name: &str, args: &[Expr]) -> &'static str {
        let Some(first) = args.first().filter(|_| name.starts_with("warp_")) else { return "" };
        match first.ty {
            Ty::U8 => "<unsigned char>",
            Ty::Usize if args.iter().any(mentions_len) => "<unsigned int>",
            _ => "",
        }
    }

    /// `warp_sin_cos` straight into two places.
    pub(super) fn sin_cos_into(&mut self, args: &[Expr], places: [String; 2]) -> Result<()> {
        let angle = self.val(&args[0])?;
        let [sin, cos] = places;
        let text = format!("warp_sin_cos({}, &{sin}, &{cos});", angle.text);
        self.run(&text, angle.effects.with(Effects::WRITES));
        Ok(())
    }

    fn team_add(&mut self, args: &[Expr]) -> Result<Val> {
        let parts = [(&args[0], How::Slice), (&args[1], How::Value), (&args[2], How::Value)];
        let row = self.row(&args[0])?;
        let vals = self.operands(&parts)?;
        if !matches!(args[2].ty, Ty::I32 | Ty::U32) {
            return fault(
                args[2].span,
                format!("`team::add` adds i32 and u32, not {}", args[2].ty.rust()),
            );
        }
        let base = match row {
            Some(row) => row.pointer.at(prec::ATOM),
            None => vals[0].at(prec::ATOM),
        };
        let text = format!("warp_team_add(&{base}[{}], {})", vals[1].text, vals[2].text);
        let effects = vals.iter().fold(Effects::WRITES, |all, val| all.with(val.effects));
        Ok(Val::atom(text).with(effects))
    }
}

/// Whether the length of a row is part of an expression.
fn mentions_len(expr: &Expr) -> bool {
    let mut found = false;
    crate::walk::everything(expr, &mut |part| found |= matches!(part.kind, Kind::Len(_)));
    found
}
