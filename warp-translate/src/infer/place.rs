//! Places: fields, elements and references to them.

use crate::diagnostic::{Result, Span, fault};
use crate::infer::Infer;
use crate::ir::{Expr, Kind};
use crate::types::Ty;

impl Infer<'_> {
    pub(super) fn field(&mut self, field: &syn::ExprField, span: Span) -> Result<Expr> {
        let base = self.expr(&field.base)?;
        let name = match &field.member {
            syn::Member::Named(name) => name.to_string(),
            syn::Member::Unnamed(index) => index.index.to_string(),
        };
        let ty = self.types.shallow(&base.ty);
        let ty = self.types.resolve(ty.behind());
        if matches!(ty, Ty::Var(_)) {
            return fault(
                span,
                format!("the type is not known where `.{name}` is asked for; write it"),
            );
        }
        let found = super::field_of(self.modules, self.world, &ty, &name, span)?;
        Ok(Expr { kind: Kind::Field(Box::new(base), name), ty: found.ty, span })
    }

    pub(super) fn index(&mut self, index: &syn::ExprIndex, span: Span) -> Result<Expr> {
        let base = self.expr(&index.expr)?;
        let ty = self.types.shallow(&base.ty);
        let ty = self.types.shallow(ty.behind());
        if let syn::Expr::Range(range) = &*index.index {
            return self.part(base, &ty, range, span);
        }
        let at = self.expr(&index.index)?;
        let at = self.value(at);
        let at = self.fit(at, &Ty::Usize)?;
        let element = match ty {
            Ty::Array(element, _) | Ty::Slice(element, _) | Ty::Groups(element) => *element,
            other => {
                let name = self.types.resolve(&other).rust();
                return fault(span, format!("{name} has no elements"));
            }
        };
        let kind = Kind::Index(Box::new(base), Box::new(at));
        Ok(Expr { kind, ty: element, span })
    }

    fn part(&mut self, base: Expr, ty: &Ty, range: &syn::ExprRange, span: Span) -> Result<Expr> {
        if matches!(range.limits, syn::RangeLimits::Closed(_)) {
            return fault(span, "write `low..high + 1`; `..=` in an index is not supported");
        }
        let element = match ty {
            Ty::Array(element, _) | Ty::Slice(element, _) => element.clone(),
            other => {
                let name = self.types.resolve(other).rust();
                return fault(span, format!("{name} has no parts"));
            }
        };
        let base = match self.types.shallow(ty) {
            Ty::Array(..) => {
                let slice = Ty::Slice(element.clone(), true);
                Expr { kind: Kind::AsSlice(Box::new(base)), ty: slice, span }
            }
            _ => base,
        };
        let mut end = |end: &Option<Box<syn::Expr>>| match end {
            Some(end) => {
                let end = self.expr(end)?;
                let end = self.value(end);
                Ok(Some(Box::new(self.fit(end, &Ty::Usize)?)))
            }
            None => Ok(None),
        };
        let (low, high) = (end(&range.start)?, end(&range.end)?);
        let kind = Kind::Part(Box::new(base), low, high);
        Ok(Expr { kind, ty: Ty::Slice(element, true), span })
    }

    pub(super) fn reference(&mut self, reference: &syn::ExprReference, span: Span) -> Result<Expr> {
        let inner = self.expr(&reference.expr)?;
        let ty = self.types.shallow(&inner.ty);
        let mutable = reference.mutability.is_some();
        // `&x[a..b]`, `&mut *row`: slices are references already.
        if let Ty::Slice(element, _) = ty {
            return Ok(Expr { ty: Ty::Slice(element, mutable), ..inner });
        }
        // `&mut *place`.
        if let Kind::Deref(place) = inner.kind {
            return Ok(Expr { span, ..*place });
        }
        let ty = Ty::Ref(Box::new(ty), mutable);
        Ok(Expr { kind: Kind::Ref(Box::new(inner)), ty, span })
    }
}
