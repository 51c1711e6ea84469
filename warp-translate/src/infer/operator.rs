//! Operators, assignments and casts.

use crate::diagnostic::{Result, Span, fault};
use crate::infer::Infer;
use crate::ir::{Binary, Expr, Kind, Unary};
use crate::types::{Kind as VarKind, Ty};

/// An operator, and whether it assigns.
fn operator(op: &syn::BinOp) -> Option<(Binary, bool)> {
    use syn::BinOp as Op;
    Some(match op {
        Op::Add(_) => (Binary::Add, false),
        Op::Sub(_) => (Binary::Sub, false),
        Op::Mul(_) => (Binary::Mul, false),
        Op::Div(_) => (Binary::Div, false),
        Op::Rem(_) => (Binary::Rem, false),
        Op::BitAnd(_) => (Binary::And, false),
        Op::BitOr(_) => (Binary::Or, false),
        Op::BitXor(_) => (Binary::Xor, false),
        Op::Shl(_) => (Binary::Shl, false),
        Op::Shr(_) => (Binary::Shr, false),
        Op::And(_) => (Binary::Both, false),
        Op::Or(_) => (Binary::Either, false),
        Op::Eq(_) => (Binary::Equal, false),
        Op::Ne(_) => (Binary::NotEqual, false),
        Op::Lt(_) => (Binary::Less, false),
        Op::Le(_) => (Binary::LessEqual, false),
        Op::Gt(_) => (Binary::Greater, false),
        Op::Ge(_) => (Binary::GreaterEqual, false),
        Op::AddAssign(_) => (Binary::Add, true),
        Op::SubAssign(_) => (Binary::Sub, true),
        Op::MulAssign(_) => (Binary::Mul, true),
        Op::DivAssign(_) => (Binary::Div, true),
        Op::RemAssign(_) => (Binary::Rem, true),
        Op::BitAndAssign(_) => (Binary::And, true),
        Op::BitOrAssign(_) => (Binary::Or, true),
        Op::BitXorAssign(_) => (Binary::Xor, true),
        Op::ShlAssign(_) => (Binary::Shl, true),
        Op::ShrAssign(_) => (Binary::Shr, true),
        _ => return None,
    })
}

/// Whether an expression is a literal, with a sign or without.
fn literal(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Lit(_) => true,
        syn::Expr::Paren(inner) => literal(&inner.expr),
        syn::Expr::Group(inner) => literal(&inner.expr),
        syn::Expr::Unary(unary) => {
            matches!(unary.op, syn::UnOp::Neg(_) | syn::UnOp::Not(_)) && literal(&unary.expr)
        }
        _ => false,
    }
}

impl Infer<'_> {
    pub(super) fn unary(&mut self, unary: &syn::ExprUnary, span: Span) -> Result<Expr> {
        let inner = self.expr(&unary.expr)?;
        match unary.op {
            syn::UnOp::Deref(_) => match self.types.shallow(&inner.ty) {
                Ty::Ref(ty, _) => Ok(Expr { kind: Kind::Deref(Box::new(inner)), ty: *ty, span }),
                Ty::Slice(..) => Ok(Expr { span, ..inner }),
                other => {
                    fault(span, format!("{} is not a reference", self.types.resolve(&other).rust()))
                }
            },
            op => {
                let inner = self.value(inner);
                self.no_struct(&inner, span)?;
                let ty = inner.ty.clone();
                let sign = if matches!(op, syn::UnOp::Neg(_)) { Unary::Minus } else { Unary::Not };
                Ok(Expr { kind: Kind::Unary(sign, Box::new(inner)), ty, span })
            }
        }
    }

    pub(super) fn binary(&mut self, binary: &syn::ExprBinary, span: Span) -> Result<Expr> {
        let Some((op, assigns)) = operator(&binary.op) else {
            return fault(span, "this operator is not supported in a body");
        };
        let (left, right) = (self.expr(&binary.left)?, self.expr(&binary.right)?);
        let (left, right) = (self.value(left), self.value(right));
        if !op.compares() {
            self.no_struct(&left, span)?;
            self.no_struct(&right, span)?;
        } else if let Ty::Enum(item) = self.types.shallow(&left.ty)
            && ["eq", "partial_cmp", "cmp"].iter().any(|name| self.method_of(item, name).is_some())
        {
            return fault(
                span,
                "enums are compared by their numbers; write a method of another name",
            );
        }
        if matches!(op, Binary::Shl | Binary::Shr) {
            // The amount may be of any integer type.
            if self.types.kind(&right.ty) == Some(VarKind::Any) {
                let int = self.int();
                self.types.unify(&right.ty, &int);
            }
        } else {
            self.same_as("the left side", left.ty.clone(), &right.ty, span)?;
        }
        let ty = if op.compares() { Ty::Bool } else { left.ty.clone() };
        let (left, right) = (Box::new(left), Box::new(right));
        if assigns {
            return Ok(Expr { kind: Kind::AssignWith(op, left, right), ty: Ty::Unit, span });
        }
        Ok(Expr { kind: Kind::Binary(op, left, right), ty, span })
    }

    /// Operators are those of numbers.
    fn no_struct(&self, operand: &Expr, span: Span) -> Result<()> {
        match self.types.shallow(&operand.ty) {
            Ty::Struct(_) | Ty::Enum(_) | Ty::Tuple(_) | Ty::Array(..) => fault(
                span,
                "operators of structs are not supported; write a method, such as `a.plus(b)`",
            ),
            _ => Ok(()),
        }
    }

    pub(super) fn assign(&mut self, assign: &syn::ExprAssign, span: Span) -> Result<Expr> {
        let value = self.expr(&assign.right)?;
        let place = self.expr(&assign.left)?;
        let value = self.fit(value, &place.ty)?;
        let kind = Kind::Assign(Box::new(place), Box::new(value));
        Ok(Expr { kind, ty: Ty::Unit, span })
    }

    pub(super) fn cast(&mut self, cast: &syn::ExprCast, span: Span) -> Result<Expr> {
        let inner = self.expr(&cast.expr)?;
        let inner = self.value(inner);
        let ty =
            super::type_of(self.modules, self.world, self.module, self.own.as_ref(), &cast.ty)?;
        if !ty.is_scalar() || ty == Ty::Bool {
            return fault(span, format!("`as` leads to numbers only, not to {}", ty.rust()));
        }
        // As in Rust, a literal takes the type that it is cast to; nothing else does.
        if self.types.kind(&inner.ty) == Some(VarKind::Int) && ty.is_int() && literal(&cast.expr) {
            self.types.unify(&inner.ty, &ty);
        }
        Ok(Expr { kind: Kind::Cast(Box::new(inner)), ty, span })
    }
}
