//! Ways through a body.

use crate::diagnostic::Span;
use crate::ir::{Block, Expr, Kind, Pattern, Stmt, StmtKind};
use crate::types::Ty;

/// Calls `f` for the expressions directly inside `expr`, in the order of their evaluation.
pub(crate) fn children<'e>(expr: &'e Expr, f: &mut dyn FnMut(&'e Expr)) {
    match &expr.kind {
        Kind::Int(..)
        | Kind::Float(_)
        | Kind::Bool(_)
        | Kind::Unit
        | Kind::Var(_)
        | Kind::Held(_) => {}
        Kind::Const(_) | Kind::Variant(..) | Kind::Continue => {}
        Kind::Unary(_, a) | Kind::Cast(a) | Kind::Field(a, _) | Kind::Len(a) | Kind::Ref(a) => f(a),
        Kind::Deref(a) | Kind::AsSlice(a) | Kind::Paren(a) | Kind::Repeat(a) => f(a),
        Kind::Binary(_, a, b) | Kind::Index(a, b) => {
            f(a);
            f(b);
        }
        Kind::Assign(a, b) | Kind::AssignWith(_, a, b) => {
            f(b);
            f(a);
        }
        Kind::Part(a, low, high) => {
            f(a);
            low.iter().chain(high).for_each(|e| f(e));
        }
        Kind::Call(_, args) | Kind::Builtin(_, args) | Kind::CallClosure(_, args) => {
            args.iter().for_each(f);
        }
        Kind::Tuple(args) | Kind::Array(args) => args.iter().for_each(f),
        Kind::Closure(closure) => f(&closure.body),
        Kind::Struct(_, fields) => fields.iter().for_each(|(_, e)| f(e)),
        Kind::If(condition, then, otherwise) => {
            f(condition);
            block(then, f);
            otherwise.iter().for_each(|e| f(e));
        }
        Kind::Match(of, arms) => {
            f(of);
            for arm in arms {
                arm.guard.iter().for_each(&mut *f);
                f(&arm.body);
            }
        }
        Kind::Block(inner) | Kind::Loop(inner) => block(inner, f),
        Kind::While(condition, body) => {
            f(condition);
            block(body, f);
        }
        Kind::For(inner) => {
            f(&inner.low);
            f(&inner.high);
            inner.step.iter().for_each(&mut *f);
            block(&inner.body, f);
        }
        Kind::Break(value) | Kind::Return(value) => value.iter().for_each(|e| f(e)),
        Kind::Team(team) => {
            team.args.iter().for_each(&mut *f);
            team.closure.iter().for_each(|closure| f(&closure.body));
        }
    }
}

/// Calls `f` for the expressions directly inside a block.
pub(crate) fn block<'e>(block: &'e Block, f: &mut dyn FnMut(&'e Expr)) {
    for Stmt { kind, .. } in &block.stmts {
        match kind {
            StmtKind::Let(_, Some(expr)) | StmtKind::Expr(expr) => f(expr),
            _ => {}
        }
    }
    block.tail.iter().for_each(f);
}

/// Calls `f` for every expression of a block.
pub(crate) fn all<'e>(of: &'e Block, f: &mut dyn FnMut(&'e Expr)) {
    block(of, &mut |expr| everything(expr, f));
}

/// Calls `f` for `expr` and everything in it.
pub(crate) fn everything<'e>(expr: &'e Expr, f: &mut dyn FnMut(&'e Expr)) {
    f(expr);
    children(expr, &mut |child| everything(child, f));
}

/// Whether a `break` leaves the loop that this is the body of.
pub(crate) fn breaks(body: &Block) -> bool {
    fn inside(expr: &Expr, found: &mut bool) {
        match &expr.kind {
            Kind::Break(_) => *found = true,
            Kind::Loop(_) | Kind::For(_) | Kind::Closure(_) | Kind::While(..) => {}
            _ => children(expr, &mut |child| inside(child, found)),
        }
    }
    let mut found = false;
    block(body, &mut |expr| inside(expr, &mut found));
    found
}

/// Calls `f` for the variables that `expr` itself declares, those of its parts left out.
pub(crate) fn bindings(expr: &Expr, f: &mut dyn FnMut(usize)) {
    let block = match &expr.kind {
        Kind::If(_, block, _) | Kind::Block(block) | Kind::Loop(block) | Kind::While(_, block) => {
            block
        }
        Kind::For(of) => {
            of.var.iter().for_each(|var| f(*var));
            &of.body
        }
        Kind::Match(_, arms) => return arms.iter().for_each(|arm| names(&arm.pattern, f)),
        Kind::Closure(closure) => return closure.params.iter().for_each(|var| f(*var)),
        _ => return,
    };
    for stmt in &block.stmts {
        if let StmtKind::Let(pattern, _) = &stmt.kind {
            names(pattern, f);
        }
    }
}

/// Calls `f` for the variables that a pattern names.
pub(crate) fn names(pattern: &Pattern, f: &mut dyn FnMut(usize)) {
    match pattern {
        Pattern::Any | Pattern::Value(_) | Pattern::Range(..) => {}
        Pattern::Bind(var) => f(*var),
        Pattern::Either(parts) | Pattern::Tuple(parts) | Pattern::Array(parts) => {
            parts.iter().for_each(|part| names(part, f));
        }
        Pattern::Struct(fields) => fields.iter().for_each(|(_, part)| names(part, f)),
    }
}

/// Calls `f` for every type of a block.
pub(crate) fn types(of: &mut Block, f: &mut dyn FnMut(&mut Ty, Span)) {
    for stmt in &mut of.stmts {
        match &mut stmt.kind {
            StmtKind::Let(pattern, init) => {
                in_pattern(pattern, f);
                init.iter_mut().for_each(|expr| in_expr(expr, f));
            }
            StmtKind::Expr(expr) => in_expr(expr, f),
            StmtKind::Const => {}
        }
    }
    of.tail.iter_mut().for_each(|expr| in_expr(expr, f));
}

fn in_pattern(pattern: &mut Pattern, f: &mut dyn FnMut(&mut Ty, Span)) {
    match pattern {
        Pattern::Any | Pattern::Bind(_) => {}
        Pattern::Value(expr) => in_expr(expr, f),
        Pattern::Range(low, high, _) => {
            low.iter_mut().chain(high).for_each(|expr| in_expr(expr, f));
        }
        Pattern::Either(parts) | Pattern::Tuple(parts) | Pattern::Array(parts) => {
            parts.iter_mut().for_each(|part| in_pattern(part, f));
        }
        Pattern::Struct(fields) => fields.iter_mut().for_each(|(_, part)| in_pattern(part, f)),
    }
}

fn in_expr(expr: &mut Expr, f: &mut dyn FnMut(&mut Ty, Span)) {
    f(&mut expr.ty, expr.span);
    match &mut expr.kind {
        Kind::Int(..)
        | Kind::Float(_)
        | Kind::Bool(_)
        | Kind::Unit
        | Kind::Var(_)
        | Kind::Held(_) => {}
        Kind::Const(_) | Kind::Variant(..) | Kind::Continue => {}
        Kind::Unary(_, a) | Kind::Cast(a) | Kind::Field(a, _) | Kind::Len(a) | Kind::Ref(a) => {
            in_expr(a, f);
        }
        Kind::Deref(a) | Kind::AsSlice(a) | Kind::Paren(a) | Kind::Repeat(a) => in_expr(a, f),
        Kind::Binary(_, a, b) | Kind::Index(a, b) | Kind::Assign(a, b) => {
            in_expr(a, f);
            in_expr(b, f);
        }
        Kind::AssignWith(_, a, b) => {
            in_expr(a, f);
            in_expr(b, f);
        }
        Kind::Part(a, low, high) => {
            in_expr(a, f);
            low.iter_mut().chain(high).for_each(|e| in_expr(e, f));
        }
        Kind::Call(_, args) | Kind::Builtin(_, args) | Kind::CallClosure(_, args) => {
            args.iter_mut().for_each(|e| in_expr(e, f));
        }
        Kind::Tuple(args) | Kind::Array(args) => args.iter_mut().for_each(|e| in_expr(e, f)),
        Kind::Closure(closure) => in_expr(&mut closure.body, f),
        Kind::Struct(_, fields) => fields.iter_mut().for_each(|(_, e)| in_expr(e, f)),
        Kind::If(condition, then, otherwise) => {
            in_expr(condition, f);
            types(then, f);
            otherwise.iter_mut().for_each(|e| in_expr(e, f));
        }
        Kind::Match(of, arms) => {
            in_expr(of, f);
            for arm in arms {
                in_pattern(&mut arm.pattern, f);
                arm.guard.iter_mut().for_each(|e| in_expr(e, f));
                in_expr(&mut arm.body, f);
            }
        }
        Kind::Block(inner) | Kind::Loop(inner) => types(inner, f),
        Kind::While(condition, body) => {
            in_expr(condition, f);
            types(body, f);
        }
        Kind::For(inner) => {
            f(&mut inner.ty, expr.span);
            [&mut inner.low, &mut inner.high]
                .into_iter()
                .chain(&mut inner.step)
                .for_each(|e| in_expr(e, f));
            types(&mut inner.body, f);
        }
        Kind::Break(value) | Kind::Return(value) => value.iter_mut().for_each(|e| in_expr(e, f)),
        Kind::Team(team) => {
            if let crate::ir::TeamCall::Scratch(ty) = &mut team.call {
                f(ty, expr.span);
            }
            team.args.iter_mut().for_each(|e| in_expr(e, f));
            team.closure.iter_mut().for_each(|closure| in_expr(&mut closure.body, f));
        }
    }
}
