//! Patterns of `let`, of parameters and of `match`.

use crate::diagnostic::{Result, fault};
use crate::infer::{Bound, Infer};
use crate::ir::{Arm, Expr, Kind, Pattern};
use crate::types::Ty;
use std::collections::HashMap;

impl Infer<'_> {
    /// A pattern for something of type `ty`; its names are declared.
    pub(super) fn pattern(&mut self, pattern: &syn::Pat, ty: &Ty) -> Result<Pattern> {
        let span = self.span(pattern);
        match pattern {
            syn::Pat::Wild(_) => Ok(Pattern::Any),
            syn::Pat::Paren(inner) => self.pattern(&inner.pat, ty),
            syn::Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                let text = name.ident.to_string();
                if let Some(value) = self.constant_named(&text, span)? {
                    self.value_is(ty, &value.ty, span)?;
                    return Ok(Pattern::Value(value));
                }
                let mutable = name.mutability.is_some();
                Ok(Pattern::Bind(self.declare(text, ty.clone(), mutable, span)))
            }
            syn::Pat::Tuple(tuple) => self.tuple_pattern(tuple, ty),
            syn::Pat::Slice(slice) => {
                let shallow = self.types.shallow(ty);
                let Ty::Array(element, n) = self.types.shallow(shallow.behind()) else {
                    return fault(span, "only arrays are destructured by `[a, b]`");
                };
                if slice.elems.len() as u64 != n {
                    return fault(span, format!("name all {n} elements, or use an index"));
                }
                let elements = slice.elems.iter();
                let patterns =
                    elements.map(|p| self.pattern(p, &element)).collect::<Result<_>>()?;
                Ok(Pattern::Array(patterns))
            }
            syn::Pat::Struct(structure) => self.struct_pattern(structure, ty),
            syn::Pat::Lit(literal) => {
                let value = self.expr(&syn::Expr::Lit(literal.clone()))?;
                self.value_is(ty, &value.ty, span)?;
                Ok(Pattern::Value(value))
            }
            syn::Pat::Path(path) => {
                let value = self.expr(&syn::Expr::Path(path.clone()))?;
                self.value_is(ty, &value.ty, span)?;
                Ok(Pattern::Value(value))
            }
            syn::Pat::Range(range) => {
                let mut end = |end: &Option<Box<syn::Expr>>| match end {
                    Some(end) => {
                        let end = self.expr(end)?;
                        Ok(Some(self.fit(end, ty)?))
                    }
                    None => Ok(None),
                };
                let (low, high) = (end(&range.start)?, end(&range.end)?);
                let closed = matches!(range.limits, syn::RangeLimits::Closed(_));
                Ok(Pattern::Range(low, high, closed))
            }
            syn::Pat::Or(either) => {
                let cases = either.cases.iter();
                Ok(Pattern::Either(cases.map(|p| self.pattern(p, ty)).collect::<Result<_>>()?))
            }
            syn::Pat::Type(typed) => {
                let module = self.module;
                let named =
                    super::type_of(self.modules, self.world, module, self.own.as_ref(), &typed.ty)?;
                self.value_is(ty, &named, span)?;
                self.pattern(&typed.pat, &named)
            }
            syn::Pat::TupleStruct(of) => fault(span, unnamed(of)),
            _ => fault(span, "this kind of pattern is not supported in a body; name what you need"),
        }
    }

    fn tuple_pattern(&mut self, tuple: &syn::PatTuple, ty: &Ty) -> Result<Pattern> {
        let span = self.span(tuple);
        if let Ty::Ref(..) = self.types.shallow(ty) {
            let sentence =
                "a reference to a tuple is not destructured; leave `&` out, or write `.0`";
            return fault(span, sentence);
        }
        let parts: Vec<Ty> = tuple.elems.iter().map(|_| self.any()).collect();
        self.value_is(ty, &Ty::Tuple(parts.clone()), span)?;
        let pairs = tuple.elems.iter().zip(&parts);
        Ok(Pattern::Tuple(pairs.map(|(p, ty)| self.pattern(p, ty)).collect::<Result<_>>()?))
    }

    fn value_is(&mut self, ty: &Ty, pattern: &Ty, span: crate::diagnostic::Span) -> Result<()> {
        self.same_as("the value", ty.clone(), pattern, span).map(drop)
    }

    fn struct_pattern(&mut self, structure: &syn::PatStruct, ty: &Ty) -> Result<Pattern> {
        let span = self.span(structure);
        let named = syn::Type::Path(syn::TypePath { qself: None, path: structure.path.clone() });
        let own = self.own.as_ref();
        let named = super::type_of(self.modules, self.world, self.module, own, &named)?;
        let shallow = self.types.shallow(ty);
        self.value_is(shallow.behind(), &named, span)?;
        let mut fields = Vec::new();
        for field in &structure.fields {
            let syn::Member::Named(name) = &field.member else {
                return fault(span, "fields have names");
            };
            let name = name.to_string();
            let ty = super::field_of(self.modules, self.world, &named, &name, span)?.ty;
            fields.push((name, self.pattern(&field.pat, &ty)?));
        }
        Ok(Pattern::Struct(fields))
    }

    /// The constant or variant that a plain name in a pattern means.
    fn constant_named(
        &mut self,
        name: &str,
        span: crate::diagnostic::Span,
    ) -> Result<Option<Expr>> {
        let is_constant = name.starts_with(|c: char| c.is_ascii_uppercase());
        if !is_constant {
            return Ok(None);
        }
        if let Some(Bound::Item(_)) = self.lookup(name) {
            let name = syn::Ident::new(name, proc_macro2::Span::call_site());
            let path = syn::Expr::Path(syn::ExprPath {
                attrs: Vec::new(),
                qself: None,
                path: name.into(),
            });
            return self.expr(&path).map(|expr| Some(Expr { span, ..expr }));
        }
        self.named(&[name.to_string()], span).map(Some)
    }

    pub(super) fn choice(
        &mut self,
        choice: &syn::ExprMatch,
        span: crate::diagnostic::Span,
    ) -> Result<Expr> {
        let of = self.expr(&choice.expr)?;
        let of = self.value(of);
        let (mut arms, mut ty) = (Vec::new(), Ty::Never);
        for arm in &choice.arms {
            self.scopes.push(HashMap::new());
            let of_ty = of.ty.clone();
            let pattern = self.pattern(&arm.pat, &of_ty)?;
            let guard = match &arm.guard {
                Some((_, guard)) => {
                    let guard = self.expr(guard)?;
                    Some(self.fit(guard, &Ty::Bool)?)
                }
                None => None,
            };
            let body = self.expr(&arm.body)?;
            self.scopes.pop();
            ty = self.same(ty, &body.ty, body.span)?;
            arms.push(Arm { pattern, guard, body });
        }
        Ok(Expr { kind: Kind::Match(Box::new(of), arms), ty, span })
    }
}

/// What is in the place of unnamed fields.
pub(super) const UNNAMED: &str =
    "variants and structs with unnamed fields are not supported; use a struct with named fields";

/// Why a pattern with unnamed fields is no good.
fn unnamed(of: &syn::PatTupleStruct) -> String {
    let name = of.path.segments.last().map(|segment| segment.ident.to_string());
    let optional = name.and_then(|name| super::unsupported::optional(&name));
    optional.unwrap_or_else(|| UNNAMED.into())
}
