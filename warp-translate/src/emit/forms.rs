//! Operators and casts, where Rust and C++ differ.

use crate::diagnostic::{Result, fault};
use crate::emit::expr::How;
use crate::emit::value::prec;
use crate::emit::{Emitter, Val};
use crate::ir::{Binary, Expr, Kind, Unary};
use crate::types::Ty;

fn precedence(op: Binary) -> u8 {
    match op {
        Binary::Mul | Binary::Div | Binary::Rem => prec::MUL,
        Binary::Add | Binary::Sub => prec::ADD,
        Binary::Shl | Binary::Shr => prec::SHIFT,
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => prec::LESS,
        Binary::Equal | Binary::NotEqual => prec::EQUAL,
        Binary::And => prec::AND,
        Binary::Xor => prec::XOR,
        Binary::Or => prec::OR,
        Binary::Both => prec::BOTH,
        Binary::Either => prec::EITHER,
    }
}

/// A value in the C type of `ty`.
fn converted(ty: &str, val: &Val) -> Val {
    Val::new(format!("({ty}){}", val.at(prec::UNARY)), prec::UNARY).with(val.effects)
}

impl Emitter<'_> {
    pub(super) fn unary(&mut self, op: Unary, inner: &Expr, ty: &Ty) -> Result<Val> {
        // The lowest number has no positive twin.
        if let (Unary::Minus, Kind::Int(value, _)) = (op, &inner.kind) {
            match (ty, *value) {
                (Ty::I32, 0x8000_0000) => return Ok(Val::atom("(-2147483647 - 1)")),
                (Ty::I64, 0x8000_0000_0000_0000) => {
                    return Ok(Val::atom("(-9223372036854775807ll - 1)"));
                }
                _ => {}
            }
        }
        if op == Unary::Minus && !(ty.is_signed() || *ty == Ty::F32) {
            return fault(inner.span, format!("{} has no sign", ty.rust()));
        }
        if op == Unary::Not && *ty == Ty::Usize {
            let sentence =
                "usize has 32 bits on a GPU, so `!` would differ; cast to u32 or u64 first";
            return fault(inner.span, sentence);
        }
        let val = self.val(inner)?;
        let operand = val.at(prec::UNARY);
        let operand = if operand.starts_with('-') { format!("({operand})") } else { operand };
        let sign = match (op, ty) {
            (Unary::Minus, _) => "-",
            (Unary::Not, Ty::Bool) => "!",
            (Unary::Not, _) => "~",
        };
        let result = Val::new(format!("{sign}{operand}"), prec::UNARY).with(val.effects);
        Ok(if *ty == Ty::U8 { converted("unsigned char", &result) } else { result })
    }

    pub(super) fn binary(&mut self, op: Binary, a: &Expr, b: &Expr, whole: &Expr) -> Result<Val> {
        let comparable = a.ty.is_scalar() || matches!(a.ty, Ty::Enum(_));
        if op.compares() && !comparable {
            return fault(whole.span, format!("{} is compared part by part", a.ty.rust()));
        }
        let vals = self.operands(&[(a, How::Value), (b, How::Value)])?;
        Ok(self.combined(op, &vals[0], &vals[1], &whole.ty, &a.ty))
    }

    /// `a op b`; `of` is the type of `a`.
    pub(super) fn combined(&mut self, op: Binary, a: &Val, b: &Val, ty: &Ty, of: &Ty) -> Val {
        let effects = a.effects.with(b.effects);
        if op == Binary::Rem && *of == Ty::F32 {
            return Val::atom(format!("fmodf({}, {})", a.text, b.text)).with(effects);
        }
        // A negative number that is shifted left is no number in C++17.
        if op == Binary::Shl && of.is_signed() {
            let signed = self.ty(of);
            let bits = Val::new(
                format!("(unsigned {signed}){} << {}", a.at(prec::UNARY), b.at(prec::SHIFT + 1)),
                prec::SHIFT,
            );
            return converted(&signed, &bits.with(effects));
        }
        let p = precedence(op);
        // C++ binds comparisons tighter than `&` and `|`, but readers do not.
        let bits = matches!(op, Binary::And | Binary::Or | Binary::Xor);
        let least = if bits { prec::ADD.min(prec::SHIFT) } else { p };
        let own = |val: &Val, least: u8| {
            if bits && val.prec == p { val.text.clone() } else { val.at(least) }
        };
        let (left, right) = (own(a, least), own(b, if bits { least } else { p + 1 }));
        let right = if bits && b.prec == p { format!("({right})") } else { right };
        let result = Val::new(format!("{left} {} {right}", op.sign()), p).with(effects);
        let narrow = *ty == Ty::U8 && !op.compares();
        if narrow { converted("unsigned char", &result) } else { result }
    }

    /// `place op= value`.
    pub(super) fn assign_with(&mut self, op: Binary, place: &Expr, value: &Expr) -> Result<()> {
        let vals = self.operands(&[(value, How::Value), (place, How::Place)])?;
        let (value, to) = (&vals[0], &vals[1]);
        let ty = place.ty.behind().clone();
        let effects = value.effects.with(to.effects).with(super::Effects::WRITES);
        let apart = (op == Binary::Rem && ty == Ty::F32) || (op == Binary::Shl && ty.is_signed());
        if apart {
            // The place is written down twice, but found once.
            let to = match to.effects.draws || to.effects.writes {
                true => &self.held_place(to.clone(), &ty),
                false => to,
            };
            let result = self.combined(op, to, value, &ty, &ty);
            self.run(&format!("{} = {};", to.text, result.text), effects);
        } else {
            self.run(&format!("{} {}= {};", to.text, op.sign(), value.text), effects);
        }
        Ok(())
    }

    /// A reference to a place whose index does something.
    fn held_place(&mut self, place: Val, ty: &Ty) -> Val {
        let (ty, name) = (self.ty(ty), self.unique("place", None));
        self.run(&format!("{ty}& {name} = {};", place.text), place.effects);
        Val::atom(name)
    }

    pub(super) fn cast(&mut self, inner: &Expr, whole: &Expr) -> Result<Val> {
        let (from, to) = (&inner.ty, &whole.ty);
        let val = self.val(inner)?;
        let known = from.is_scalar() || matches!(from, Ty::Enum(_));
        if !known {
            return fault(whole.span, format!("{} cannot be cast", from.rust()));
        }
        if from == &Ty::F32 && to.is_int() {
            let name = match to {
                Ty::I32 => "warp_to_int",
                Ty::I64 => "warp_to_long",
                Ty::U64 => "warp_to_ulong",
                Ty::U8 => "warp_to_byte",
                _ => "warp_to_uint",
            };
            return Ok(Val::atom(format!("{name}({})", val.text)).with(val.effects));
        }
        if *to == Ty::Usize && from.bits() == 64 && from.is_int() {
            return fault(
                whole.span,
                "usize has 32 bits on a GPU; cast to u32 first, which makes the truncation explicit",
            );
        }
        // The framework's dimensions are signed in C++, and of no integer type, until they are cast.
        let dimension = *from == Ty::Usize && self.has_dimension(inner);
        let (from, to) = (self.ty(from), self.ty(to));
        Ok(if from == to && !dimension { val } else { converted(&to, &val) })
    }

    /// Whether a length that is signed in C++ is part of an expression.
    fn has_dimension(&mut self, expr: &Expr) -> bool {
        let mut rows = Vec::new();
        crate::walk::everything(expr, &mut |part| {
            if let Kind::Len(of) = &part.kind {
                rows.push(of);
            }
        });
        rows.into_iter().any(|of| {
            let row = self.apart(|emitter| emitter.row(of)).ok().and_then(|(row, _)| row);
            let unsigned =
                |text: &str| text.starts_with("WARP_LEN_") || text.starts_with("WARP_TABLE_LEN_");
            row.and_then(|row| row.len).is_some_and(|len| !unsigned(&len.text))
        })
    }
}
