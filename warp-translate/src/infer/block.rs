//! Blocks and their statements.

use crate::diagnostic::{Result, fault};
use crate::infer::{Bound, Infer};
use crate::ir::{Block, Expr, Kind, Stmt, StmtKind};
use crate::types::Ty;
use std::collections::HashMap;

impl Infer<'_> {
    /// A block in a scope of its own.
    pub(super) fn block(&mut self, block: &syn::Block) -> Result<Block> {
        self.scopes.push(HashMap::new());
        let outer = self.module;
        self.constants(block);
        let result = self.statements(block);
        self.module = outer;
        self.scopes.pop();
        result
    }

    fn statements(&mut self, block: &syn::Block) -> Result<Block> {
        let span = self.span(block);
        let (mut stmts, mut tail) = (Vec::new(), None);
        for (i, stmt) in block.stmts.iter().enumerate() {
            let at = self.span(stmt);
            let kind = match stmt {
                syn::Stmt::Local(local) => self.local(local)?,
                syn::Stmt::Expr(expr, None) if i + 1 == block.stmts.len() => {
                    tail = Some(self.expr(expr)?);
                    continue;
                }
                syn::Stmt::Expr(expr, _) => StmtKind::Expr(self.expr(expr)?),
                syn::Stmt::Item(syn::Item::Const(_)) => StmtKind::Const,
                syn::Stmt::Item(_) => {
                    return fault(
                        at,
                        "only constants are declared inside a function; move this out",
                    );
                }
                syn::Stmt::Macro(call) => match self.macro_call(&call.mac, at)? {
                    Some(expr) => StmtKind::Expr(expr),
                    None => continue,
                },
            };
            stmts.push(Stmt { kind, span: at });
        }
        Ok(Block { stmts, tail, span })
    }

    fn local(&mut self, local: &syn::Local) -> Result<StmtKind> {
        let span = self.span(local);
        let (pattern, wanted) = match &local.pat {
            syn::Pat::Type(typed) => {
                let module = self.module;
                let ty =
                    super::type_of(self.modules, self.world, module, self.own.as_ref(), &typed.ty)?;
                (&*typed.pat, Some(ty))
            }
            other => (other, None),
        };
        let Some(init) = &local.init else {
            let ty = wanted.unwrap_or_else(|| self.any());
            let pattern = self.pattern(pattern, &ty)?;
            return Ok(StmtKind::Let(Box::new(pattern), None));
        };
        if init.diverge.is_some() {
            return fault(span, "`let ... else` is not supported; use `if` or `match`");
        }
        let mut value = self.expr(&init.expr)?;
        if let Some(wanted) = &wanted {
            value = self.fit(value, wanted)?;
        }
        let ty = wanted.unwrap_or_else(|| value.ty.clone());
        if let Kind::Ref(inner) = &value.kind {
            self.capture(inner);
        }
        let pattern = self.pattern(pattern, &ty)?;
        Ok(StmtKind::Let(Box::new(pattern), Some(value)))
    }

    /// Remembers that the variable behind a place may be seen through something else.
    pub(super) fn capture(&mut self, place: &Expr) {
        match &place.kind {
            Kind::Var(var) => self.vars[*var].captured = true,
            Kind::Field(inner, _) | Kind::Index(inner, _) | Kind::Paren(inner) => {
                self.capture(inner)
            }
            Kind::Part(inner, ..) | Kind::Ref(inner) | Kind::Deref(inner) => self.capture(inner),
            _ => {}
        }
    }

    /// Declares the constants of a block, which all of it sees, also what stands before them.
    fn constants(&mut self, block: &syn::Block) {
        let constant = |stmt| match stmt {
            &syn::Stmt::Item(syn::Item::Const(ref item)) => Some(item),
            _ => None,
        };
        let constants: Vec<&syn::ItemConst> = block.stmts.iter().filter_map(constant).collect();
        if constants.is_empty() {
            return;
        }
        self.module = self.modules.block(self.module, &constants);
        let items = &self.modules.modules[self.module].items;
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(items.iter().map(|(name, item)| (name.clone(), Bound::Item(*item))));
        }
    }

    pub(super) fn macro_call(
        &mut self,
        call: &syn::Macro,
        span: crate::diagnostic::Span,
    ) -> Result<Option<Expr>> {
        let name = call.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        // Rust's debug build checks them; nothing of them is left in any other.
        if name.starts_with("debug_assert") {
            return Ok(None);
        }
        fault(
            span,
            format!(
                "`{name}!` is not supported in a body; of all macros it may use `debug_assert!`"
            ),
        )
    }

    /// Whether control never reaches the end of a block.
    pub(super) fn diverges(&self, block: &Block) -> bool {
        if let Some(tail) = &block.tail {
            return matches!(self.types.shallow(&tail.ty), Ty::Never);
        }
        block.stmts.last().is_some_and(|stmt| match &stmt.kind {
            StmtKind::Expr(expr) => matches!(self.types.shallow(&expr.ty), Ty::Never),
            _ => false,
        })
    }

    /// The type of a block's value.
    pub(super) fn block_type(&self, block: &Block) -> Ty {
        match &block.tail {
            Some(tail) => tail.ty.clone(),
            None if self.diverges(block) => Ty::Never,
            None => Ty::Unit,
        }
    }
}
