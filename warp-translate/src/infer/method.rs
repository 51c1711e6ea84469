//! Calls of methods.

use crate::builtin;
use crate::declared::Declared;
use crate::diagnostic::{Result, Span, fault};
use crate::infer::Infer;
use crate::ir::{Builtin, Expr, Form, Kind};
use crate::types::{Kind as VarKind, Ty};

impl Infer<'_> {
    pub(super) fn method_call(&mut self, call: &syn::ExprMethodCall, span: Span) -> Result<Expr> {
        let receiver = self.expr(&call.receiver)?;
        let name = call.method.to_string();
        if self.types.kind(&receiver.ty) == Some(VarKind::Float) {
            self.types.unify(&receiver.ty, &Ty::F32);
        }
        let ty = self.types.shallow(&receiver.ty);
        let behind = self.types.shallow(ty.behind());
        let found = match &behind {
            Ty::F32 => builtin::float_method(&name),
            Ty::Struct(item) | Ty::Enum(item)
                if name != "clone" || self.method_of(*item, &name).is_some() =>
            {
                return self.own_method(call, receiver, *item, span);
            }
            Ty::Bool | Ty::Unit | Ty::Tuple(_) | Ty::Enum(_) | Ty::Struct(_) if name == "clone" => {
                return Ok(self.value(receiver));
            }
            ty if ty.is_int() => builtin::int_method(ty, &name),
            Ty::Draw => builtin::draw(&name).ok_or_else(|| {
                format!("`Draw::{name}` is not among the methods of `Draw` that a body may call")
            }),
            Ty::Slice(element, _) | Ty::Array(element, _) => {
                let element = (**element).clone();
                return self.slice_method(call, receiver, &element, span);
            }
            Ty::Var(_) => {
                return fault(
                    span,
                    format!("the type is not known where `.{name}()` is called; write it"),
                );
            }
            other => Err(format!("{} has no method `{name}`", self.types.resolve(other).rust())),
        };
        match found {
            Ok(signature) => self.builtin(signature, Some(receiver), &call.args, span),
            Err(sentence) => fault(span, sentence),
        }
    }

    /// A call of something that C has already.
    pub(super) fn builtin(
        &mut self,
        signature: builtin::Signature,
        receiver: Option<Expr>,
        given: &syn::punctuated::Punctuated<syn::Expr, syn::Token![,]>,
        span: Span,
    ) -> Result<Expr> {
        let mut args: Vec<Expr> = receiver.into_iter().map(|r| self.value(r)).collect();
        if given.len() != signature.args.len() {
            let n = signature.args.len();
            return fault(span, format!("this takes {n} arguments, but {} are given", given.len()));
        }
        for (given, ty) in given.iter().zip(&signature.args) {
            let given = self.expr(given)?;
            let given = self.value(given);
            args.push(self.fit(given, ty)?);
        }
        let kind = Kind::Builtin(signature.builtin, args);
        Ok(Expr { kind, ty: signature.output, span })
    }

    fn slice_method(
        &mut self,
        call: &syn::ExprMethodCall,
        receiver: Expr,
        element: &Ty,
        span: Span,
    ) -> Result<Expr> {
        let name = call.method.to_string();
        match name.as_str() {
            "len" if call.args.is_empty() => {
                Ok(Expr { kind: Kind::Len(Box::new(receiver)), ty: Ty::Usize, span })
            }
            "get_clamped" => {
                let builtin = Builtin { name: "warp_clamped".into(), form: Form::Clamped };
                let Some(index) = call.args.first() else {
                    return fault(span, "`get_clamped` takes an index");
                };
                let index = self.expr(index)?;
                let index = self.value(index);
                // An environment's own table may count its cells without a sign.
                let index = match self.types.shallow(&index.ty) {
                    Ty::Usize => index,
                    _ => self.fit(index, &Ty::I32)?,
                };
                let receiver = match self.types.shallow(&receiver.ty) {
                    Ty::Slice(..) => receiver,
                    _ => {
                        let slice = Ty::Slice(Box::new(element.clone()), false);
                        self.fit_array(receiver, slice)
                    }
                };
                let kind = Kind::Builtin(builtin, vec![receiver, index]);
                Ok(Expr { kind, ty: element.clone(), span })
            }
            "clone" => Ok(receiver),
            "iter" | "iter_mut" | "map" | "into_iter" | "chunks" | "chunks_exact" | "windows"
            | "chunks_exact_mut" | "fill" | "copy_from_slice" | "swap" => fault(
                span,
                format!(
                    "`{name}` is not supported in a body; write `for i in 0..x.len()` and use \
                     `x[i]`"
                ),
            ),
            "split_at" | "split_at_mut" | "first" | "last" | "get" => fault(
                span,
                format!("`{name}` is not supported in a body; use an index or `x[a..b]`"),
            ),
            _ => fault(span, format!("slices have no method `{name}` in a body; use `x[i]`")),
        }
    }

    fn fit_array(&mut self, array: Expr, slice: Ty) -> Expr {
        let span = array.span;
        Expr { kind: Kind::AsSlice(Box::new(array)), ty: slice, span }
    }

    fn own_method(
        &mut self,
        call: &syn::ExprMethodCall,
        receiver: Expr,
        item: usize,
        span: Span,
    ) -> Result<Expr> {
        let name = call.method.to_string();
        let Some(method) = self.method_of(item, &name) else {
            return fault(
                span,
                format!("`{}` has no method `{name}`", self.modules.items[item].name),
            );
        };
        if let Declared::Refused(sentence) = self.modules.items[method].what {
            return fault(span, sentence);
        }
        let signature = super::signature_of(self.modules, self.world, method)?;
        let by_value = !matches!(signature.params.first(), Some(Ty::Ref(..)));
        let receiver = match self.types.shallow(&receiver.ty) {
            Ty::Ref(..) if by_value => self.value(receiver),
            Ty::Ref(..) => receiver,
            _ if by_value => receiver,
            ty => {
                Expr { kind: Kind::Ref(Box::new(receiver)), ty: Ty::Ref(Box::new(ty), true), span }
            }
        };
        self.own_call(method, Some(receiver), &call.args, span)
    }

    /// The function `name` of an `impl` of `item`.
    pub(super) fn method_of(&self, item: usize, name: &str) -> Option<usize> {
        let of = &self.modules.items[item];
        let key = (of.name.clone(), name.to_string());
        let mut homes = self.modules.modules.iter();
        let own = self.modules.modules[of.module].methods.get(&key);
        own.or_else(|| homes.find_map(|module| module.methods.get(&key))).copied()
    }
}
