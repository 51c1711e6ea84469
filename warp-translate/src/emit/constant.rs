//! Values of constants, which C++ has to know when it compiles.

use crate::diagnostic::{Result, fault};
use crate::emit::Emitter;
use crate::ir::{Binary, Expr, Form, Kind, Unary};
use crate::types::Ty;

/// Elements that are all there if none is written.
const ZEROS: [&str; 6] = ["0", "0u", "0ll", "0ull", "0.0f", "false"];

impl Emitter<'_> {
    /// The text of a constant's value.
    pub(crate) fn constant(mut self, value: &Expr) -> Result<String> {
        let parts: Vec<&Expr> = match &value.bare().kind {
            Kind::Array(parts) => parts.iter().collect(),
            Kind::Repeat(part) => vec![part],
            _ => vec![value],
        };
        let mut texts = Vec::new();
        for part in parts {
            self.is_known(part)?;
            texts.push(self.val(part)?.text);
        }
        if !self.lines.lines.is_empty() {
            return fault(value.span, "the value of a constant is one expression");
        }
        Ok(match (&value.bare().kind, &value.ty) {
            (Kind::Array(_), _) => format!("{{{}}}", texts.join(", ")),
            (Kind::Repeat(_), _) if ZEROS.contains(&texts[0].as_str()) => "{}".into(),
            (Kind::Repeat(_), Ty::Array(_, n)) => {
                format!("{{{}}}", vec![texts[0].as_str(); *n as usize].join(", "))
            }
            _ => texts.concat(),
        })
    }

    /// Whether C++ knows the value of an expression when it compiles.
    fn is_known(&mut self, value: &Expr) -> Result<()> {
        let mut parts = Vec::new();
        computed(value, &mut parts);
        for part in parts {
            let known = match &part.kind {
                Kind::Builtin(builtin, _) => builtin.form == Form::Value,
                Kind::Cast(inner) => inner.ty != Ty::F32 || part.ty == Ty::F32,
                Kind::Binary(Binary::Rem, ..) => part.ty != Ty::F32,
                Kind::Call(..) | Kind::CallClosure(..) | Kind::Closure(_) => false,
                Kind::Index(..) | Kind::Part(..) | Kind::Field(..) | Kind::Match(..) => false,
                Kind::Const(_) => !matches!(part.ty, Ty::Array(..)),
                Kind::Tuple(_) | Kind::Array(_) | Kind::Repeat(_) | Kind::Struct(..) => false,
                _ => true,
            };
            if !known {
                let sentence = "a constant is made of numbers, other constants and operators; write \
                                the number itself, or use `let`";
                return fault(part.span, sentence);
            }
            let computed = matches!(part.kind, Kind::Binary(..)) && part.ty == Ty::F32;
            if computed && self.float_of(part).is_some_and(|value| !value.is_finite()) {
                let sentence = "this is no finite number; write `f32::INFINITY` or `f32::NAN`";
                return fault(part.span, sentence);
            }
        }
        Ok(())
    }

    /// The value of a float that is made of literals and constants.
    fn float_of(&mut self, expr: &Expr) -> Option<f32> {
        match &expr.kind {
            Kind::Paren(inner) => self.float_of(inner),
            Kind::Float(digits) => digits.parse().ok(),
            Kind::Unary(Unary::Minus, inner) => self.float_of(inner).map(|value| -value),
            Kind::Cast(inner) if inner.ty == Ty::F32 => self.float_of(inner),
            Kind::Cast(inner) => self.known(inner).map(|value| value as f32),
            Kind::Builtin(builtin, _) => match builtin.name.trim_start_matches('-') {
                "WARP_NAN" => Some(f32::NAN),
                "WARP_INFINITY" if builtin.name.starts_with('-') => Some(f32::NEG_INFINITY),
                "WARP_INFINITY" => Some(f32::INFINITY),
                _ => builtin.name.strip_suffix('f')?.parse().ok(),
            },
            Kind::Const(item) => {
                let (value, _) =
                    crate::infer::constant_value(self.modules, self.world, *item).ok()?;
                self.float_of(&value)
            }
            Kind::Binary(op, a, b) => {
                let (a, b) = (self.float_of(a)?, self.float_of(b)?);
                match op {
                    Binary::Add => Some(a + b),
                    Binary::Sub => Some(a - b),
                    Binary::Mul => Some(a * b),
                    Binary::Div => Some(a / b),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The parts of an expression that are computed: of a length it is the length alone.
fn computed<'e>(expr: &'e Expr, parts: &mut Vec<&'e Expr>) {
    parts.push(expr);
    if !matches!(expr.kind, Kind::Len(_)) {
        crate::walk::children(expr, &mut |child| computed(child, parts));
    }
}
