//! What one thread does: every access in an expression, whatever the order.

use crate::diagnostic::Span;
use crate::ir::{Expr, Form, Kind, StmtKind, TeamCall, VarId};
use crate::team::access::{Access, Object, Part, What, Who};
use crate::team::{Analysis, Frame, Known, Mode};
use crate::types::{ItemId, Ty};
use crate::walk;

impl Analysis<'_> {
    /// Notes every access of an expression.
    pub(super) fn visit(&mut self, expr: &Expr, frame: &mut Frame) {
        match &expr.kind {
            Kind::Assign(place, value) => {
                self.visit(value, frame);
                self.write(place, frame);
            }
            Kind::AssignWith(_, place, value) => {
                self.visit(value, frame);
                self.read(place, frame);
                self.write(place, frame);
            }
            Kind::Var(_) | Kind::Field(..) | Kind::Index(..) | Kind::Deref(_) => {
                self.read(expr, frame);
            }
            Kind::Call(item, args) => self.call(*item, args, frame),
            Kind::CallClosure(var, args) => self.closure_call(*var, args, frame),
            Kind::Closure(_) | Kind::Len(_) => {}
            Kind::Builtin(builtin, args) => self.builtin(builtin.form, args, expr.span, frame),
            Kind::Team(team) => {
                // Scratch gets its name, and what is known of it, from its `let`.
                if !matches!(team.call, TeamCall::Scratch(_)) {
                    self.fault(expr.span, "a closure of `team` calls no `team`; put this after it");
                }
            }
            Kind::Block(block) => self.visit_block(block, frame),
            Kind::If(condition, then, otherwise) => {
                self.visit(condition, frame);
                self.visit_block(then, frame);
                otherwise.iter().for_each(|otherwise| self.visit(otherwise, frame));
            }
            Kind::Loop(body) => self.visit_block(body, frame),
            Kind::While(condition, body) => {
                self.visit(condition, frame);
                self.visit_block(body, frame);
            }
            Kind::For(of) => {
                self.visit(&of.low, frame);
                self.visit(&of.high, frame);
                of.step.iter().for_each(|step| self.visit(step, frame));
                self.visit_block(&of.body, frame);
            }
            _ => {
                let mut parts: Vec<&Expr> = Vec::new();
                walk::children(expr, &mut |part| parts.push(part));
                parts.into_iter().for_each(|part| self.visit(part, frame));
            }
        }
    }

    fn closure_call(&mut self, var: usize, args: &[Expr], frame: &mut Frame) {
        args.iter().for_each(|arg| self.visit(arg, frame));
        if let Some(Known::Closure(closure)) = frame.known.get(&var).cloned() {
            // It may be called several times.
            let mut inner = Frame { once: false, ..frame.clone() };
            for (param, arg) in closure.params.iter().zip(args) {
                let known = self.known(arg, frame).filter(|_| !self.changes(*param, frame));
                inner.known.extend(known.map(|known| (*param, known)));
            }
            if let Some(own) = &mut inner.own {
                own.extend(super::declared(&closure.body));
                own.extend(&closure.params);
            }
            self.visit(&closure.body, &mut inner);
        }
    }

    fn builtin(&mut self, form: Form, args: &[Expr], span: Span, frame: &mut Frame) {
        match form {
            Form::Draws => self.draw(&args[0], frame, span),
            Form::Add => {
                if let Some((object, _)) = self.object(&args[0], frame) {
                    let who = if self.mode == Mode::Once { Who::Once } else { Who::Other };
                    self.note(Access { object, what: What::Add, who }, span);
                }
            }
            Form::Clamped => self.element(&args[0], false, What::Read, frame),
            _ => {}
        }
        let first =
            usize::from(matches!(form, Form::Draws | Form::Stream | Form::Add | Form::Clamped));
        args[first..].iter().for_each(|arg| self.visit(arg, frame));
    }

    fn visit_block(&mut self, block: &crate::ir::Block, frame: &mut Frame) {
        for stmt in &block.stmts {
            match &stmt.kind {
                StmtKind::Let(pattern, Some(init)) => {
                    self.visit(init, frame);
                    self.bind(pattern, init, frame);
                }
                StmtKind::Expr(expr) => self.visit(expr, frame),
                _ => {}
            }
        }
        block.tail.iter().for_each(|tail| self.visit(tail, frame));
    }

    fn call(&mut self, item: ItemId, args: &[Expr], frame: &mut Frame) {
        for arg in args {
            if !matches!(arg.ty, Ty::Ref(..) | Ty::Slice(..)) {
                self.visit(arg, frame);
            }
        }
        if self.twins.contains(&item) && self.mode != Mode::Uniform {
            let object = Object::everything();
            self.phase.push(Access { object, what: What::Write, who: Who::Other });
        }
        let mut inner = self.called(item, args, frame);
        // In a closure all variables of a function are the thread's own.
        if self.mode != Mode::Uniform {
            inner.own = None;
        }
        if let Some(function) = self.functions.get(&item) {
            self.visit_block(&function.body, &mut inner);
        }
    }

    /// The variables of a function that is called with `args`.
    pub(super) fn called(&mut self, item: ItemId, args: &[Expr], frame: &mut Frame) -> Frame {
        let mut inner = Frame { function: Some(item), ..Frame::default() };
        let Some(function) = self.functions.get(&item) else { return inner };
        for (param, arg) in function.params.iter().zip(args) {
            let known = match self.known(arg, frame) {
                Some(Known::Own | Known::Number(_)) if self.changes(param.var, &inner) => None,
                known => known,
            };
            inner.known.extend(known.map(|known| (param.var, known)));
        }
        inner
    }

    /// What is known of a value.
    pub(super) fn known(&mut self, expr: &Expr, frame: &Frame) -> Option<Known> {
        if let Kind::Closure(closure) = &expr.bare().kind {
            return Some(Known::Closure((**closure).clone()));
        }
        if let Kind::Team(team) = &expr.bare().kind
            && let TeamCall::Scratch(_) = team.call
        {
            let name = format!("scratch at {}:{}", expr.span.line, expr.span.column);
            return Some(Known::Row(Object::row(name), true));
        }
        match &expr.ty {
            Ty::Slice(..) => {
                self.object(expr, frame).map(|(object, exact)| Known::Row(object, exact))
            }
            Ty::Ref(inner, _) if inner.is_scalar() => {
                let (object, own) = self.target(expr, frame)?;
                Some(Known::Element(object, own))
            }
            Ty::Usize => match &expr.bare().kind {
                Kind::Var(var) => match frame.known.get(var) {
                    Some(known @ (Known::Own | Known::Number(_))) => Some(known.clone()),
                    _ => None,
                },
                _ => None,
            },
            ty if *ty.behind() == Ty::Draw => match root(expr) {
                Some(var) => match frame.known.get(&var) {
                    Some(Known::Draw) if matches!(ty, Ty::Ref(..)) => Some(Known::Draw),
                    _ => None,
                },
                None => None,
            },
            _ => None,
        }
    }

    /// The variable whose number an expression has for good.
    fn number(&mut self, expr: &Expr, frame: &Frame) -> Option<VarId> {
        match self.known(expr, frame) {
            Some(Known::Number(var)) => Some(var),
            _ => None,
        }
    }

    /// The row that a slice is, and whether its elements have the row's numbers.
    pub(super) fn object(&mut self, expr: &Expr, frame: &Frame) -> Option<(Object, bool)> {
        match &expr.kind {
            Kind::Var(var) => match frame.known.get(var) {
                Some(Known::Row(object, exact)) => Some((object.clone(), *exact)),
                Some(Known::Element(object, _)) => Some((object.clone(), false)),
                _ => None,
            },
            Kind::Paren(inner) | Kind::Ref(inner) | Kind::Deref(inner) | Kind::AsSlice(inner) => {
                self.object(inner, frame)
            }
            Kind::Part(inner, low, high) => {
                let (object, exact) = self.object(inner, frame)?;
                let exact = exact && low.is_none();
                let end = high.as_ref().and_then(|high| self.number(high, frame));
                let part = end.filter(|_| exact).map_or(object.part, Part::Below);
                Some((Object { part, ..object }, exact))
            }
            Kind::Index(base, group) if matches!(base.ty.behind(), Ty::Groups(_)) => {
                let (object, exact) = self.object(base, frame)?;
                let group = match &group.bare().kind {
                    Kind::Int(value, _) => Some(value.to_string()),
                    Kind::Const(item) => Some(format!("constant {item}")),
                    _ => None,
                };
                Some((Object { group, ..object }, exact))
            }
            Kind::Field(base, name) => {
                let of = match base.ty.behind() {
                    Ty::State => "state",
                    Ty::StepOut => "out",
                    Ty::Observation => "seen",
                    _ => return None,
                };
                let scalar = !matches!(expr.ty, Ty::Slice(..) | Ty::Groups(_));
                Some((Object { scalar, ..Object::row(format!("{of}.{name}")) }, true))
            }
            _ => None,
        }
    }

    /// The shared object that a place lies in, and whether it is the thread's own element of it.
    fn target(&mut self, place: &Expr, frame: &Frame) -> Option<(Object, bool)> {
        match &place.kind {
            Kind::Paren(inner) | Kind::Ref(inner) | Kind::Deref(inner) => self.target(inner, frame),
            Kind::Var(var) => match frame.known.get(var) {
                Some(Known::Element(object, own)) => Some((object.clone(), *own)),
                _ => None,
            },
            Kind::Index(base, index) if !matches!(base.ty.behind(), Ty::Groups(_)) => {
                let (object, exact) = self.object(base, frame)?;
                let known = self.known(index, frame).filter(|_| exact);
                Some(match known {
                    Some(Known::Own) => (object, true),
                    Some(Known::Number(n)) => (Object { part: Part::At(n), ..object }, false),
                    _ => (object, false),
                })
            }
            Kind::Field(base, _) => match self.object(place, frame) {
                Some((object, _)) if object.scalar => Some((object, false)),
                _ => self.target(base, frame),
            },
            _ => None,
        }
    }

    fn indices(&mut self, place: &Expr, frame: &mut Frame) {
        match &place.kind {
            Kind::Paren(inner) | Kind::Ref(inner) | Kind::Deref(inner) | Kind::Field(inner, _) => {
                self.indices(inner, frame);
            }
            Kind::Index(base, index) => {
                self.indices(base, frame);
                self.visit(index, frame);
            }
            Kind::Part(base, low, high) => {
                self.indices(base, frame);
                low.iter().chain(high).for_each(|end| self.visit(end, frame));
            }
            Kind::Var(_) | Kind::Const(_) => {}
            _ => self.visit(place, frame),
        }
    }

    fn who(&self, own: bool) -> Who {
        match self.mode {
            Mode::Once => Who::Once,
            Mode::Each if own => Who::Own,
            _ => Who::Other,
        }
    }

    fn read(&mut self, place: &Expr, frame: &mut Frame) {
        self.indices(place, frame);
        if let Some((object, own)) = self.target(place, frame) {
            let who = self.who(own);
            self.note(Access { object, what: What::Read, who }, place.span);
        }
    }

    fn element(&mut self, slice: &Expr, own: bool, what: What, frame: &mut Frame) {
        if let Some((object, _)) = self.object(slice, frame) {
            let who = self.who(own);
            self.note(Access { object, what, who }, slice.span);
        }
    }

    pub(super) fn write(&mut self, place: &Expr, frame: &mut Frame) {
        if let Kind::Tuple(places) = &place.bare().kind {
            places.iter().for_each(|place| self.write(place, frame));
            return;
        }
        self.indices(place, frame);
        if let Some((object, own)) = self.target(place, frame) {
            if object.scalar && self.mode == Mode::Each {
                self.fault(
                    place.span,
                    "many threads would write this one number; write it in `team::once`",
                );
            }
            let who = self.who(own);
            self.note(Access { object, what: What::Write, who }, place.span);
            return;
        }
        let (Some(var), Some(own)) = (root(place), &frame.own) else { return };
        if self.mode != Mode::Uniform && !own.contains(&var) && !frame.known.contains_key(&var) {
            self.fault(
                place.span,
                "each thread would change a variable of its own; use `team::any`, `team::sum` or \
                 scratch of the team",
            );
        }
    }

    fn draw(&mut self, draw: &Expr, frame: &Frame, span: Span) {
        let Some(var) = root(draw) else { return };
        if !matches!(frame.known.get(&var), Some(Known::Draw)) {
            return;
        }
        match self.mode {
            Mode::Each => self.fault(
                span,
                "the shared stream is used once, not for each index; use `draw.agent(i as u32)`",
            ),
            Mode::Once => self.drew_once = Some(span),
            Mode::Uniform => self.drew_alike = Some(span),
        }
    }
}

/// The variable that a place begins with.
fn root(place: &Expr) -> Option<usize> {
    match &place.kind {
        Kind::Var(var) => Some(*var),
        Kind::Paren(inner) | Kind::Ref(inner) | Kind::Deref(inner) | Kind::AsSlice(inner) => {
            root(inner)
        }
        Kind::Field(inner, _) | Kind::Index(inner, _) | Kind::Part(inner, ..) => root(inner),
        _ => None,
    }
}
