//! What all threads run alike: statements in their order, with their branches and loops.

use crate::diagnostic::Span;
use crate::ir::{Block, Closure, Expr, Kind, Pattern, StmtKind, Team, TeamCall, VarId};
use crate::team::access::{Access, Object, What, Who};
use crate::team::{Analysis, Frame, Known, Mode, has_phases};
use crate::types::Ty;

impl Analysis<'_> {
    /// The statements of a block. Only a function with calls of `team` may wait before one of its own.
    pub(super) fn uniform_block(&mut self, block: &Block, frame: &mut Frame, waits: bool) {
        for stmt in &block.stmts {
            self.begin(stmt.span, waits);
            match &stmt.kind {
                StmtKind::Let(pattern, Some(init)) => {
                    self.uniform(init, frame, waits);
                    self.bind(pattern, init, frame);
                }
                StmtKind::Expr(expr) => self.uniform(expr, frame, waits),
                _ => {}
            }
        }
        if let Some(tail) = &block.tail {
            self.begin(tail.span, waits);
            self.uniform(tail, frame, waits);
        }
    }

    fn begin(&mut self, span: Span, waits: bool) {
        if waits {
            self.stmt = span;
            self.since_stmt.clear();
            self.phase_in_stmt = false;
        }
    }

    /// An expression that all threads evaluate.
    pub(super) fn uniform(&mut self, expr: &Expr, frame: &mut Frame, waits: bool) {
        match &expr.kind {
            Kind::If(condition, then, otherwise) => {
                self.uniform(condition, frame, waits);
                let before = self.pending.clone();
                self.uniform_block(then, &mut frame.clone(), waits);
                let after = std::mem::replace(&mut self.pending, before);
                if let Some(otherwise) = otherwise {
                    self.uniform(otherwise, &mut frame.clone(), waits);
                }
                after.into_iter().for_each(|access| self.keep(access));
            }
            Kind::Match(of, arms) => {
                self.uniform(of, frame, waits);
                let before = self.pending.clone();
                let mut after = before.clone();
                for arm in arms {
                    self.pending = before.clone();
                    arm.guard.iter().for_each(|guard| self.uniform(guard, frame, waits));
                    self.uniform(&arm.body, &mut frame.clone(), waits);
                    after.append(&mut self.pending);
                }
                self.pending.clear();
                after.into_iter().for_each(|access| self.keep(access));
            }
            Kind::Block(block) => self.uniform_block(block, &mut frame.clone(), waits),
            Kind::Loop(body) => self.repeat(None, body, frame, waits),
            Kind::While(condition, body) => self.repeat(Some(condition), body, frame, waits),
            Kind::For(of) => {
                self.uniform(&of.low, frame, waits);
                self.uniform(&of.high, frame, waits);
                of.step.iter().for_each(|step| self.uniform(step, frame, waits));
                self.repeat(None, &of.body, frame, waits);
            }
            Kind::Team(team) => self.team(team, expr.span, frame),
            Kind::Call(item, _) if self.twins.contains(item) => {
                // Whatever it does comes after all that was done before, and before what follows.
                if !self.pending.is_empty() {
                    self.barriers.stmts.insert(super::key(self.stmt));
                }
                let object = Object::everything();
                self.pending = vec![Access { object, what: What::Write, who: Who::Other }];
                self.phase_in_stmt = true;
            }
            Kind::Call(item, args) if waits && has_phases(self.functions, *item) => {
                let mut inner = self.called(*item, args, frame);
                if let Some(function) = self.functions.get(item) {
                    let stmt = self.stmt;
                    self.uniform_block(&function.body, &mut inner, true);
                    self.stmt = stmt;
                    self.phase_in_stmt = true;
                }
            }
            _ if has_team(expr) => self.around(expr, frame, waits),
            _ => self.visit(expr, frame),
        }
    }

    /// An expression with a call of `team` in it.
    fn around(&mut self, expr: &Expr, frame: &mut Frame, waits: bool) {
        match &expr.kind {
            Kind::Assign(place, value) | Kind::AssignWith(_, place, value) => {
                self.uniform(value, frame, waits);
                self.write(place, frame);
            }
            _ => {
                let mut parts: Vec<&Expr> = Vec::new();
                crate::walk::children(expr, &mut |part| parts.push(part));
                parts.into_iter().for_each(|part| self.uniform(part, frame, waits));
            }
        }
    }

    /// A loop, until going round once more changes nothing.
    fn repeat(&mut self, condition: Option<&Expr>, body: &Block, frame: &Frame, waits: bool) {
        let frame = &mut Frame { once: false, ..frame.clone() };
        let stmt = self.stmt;
        for round in 0..16 {
            let before = (self.pending.clone(), self.barriers.clone());
            if let Some(condition) = condition {
                let barriers = self.barriers.stmts.len();
                self.stmt = stmt;
                self.uniform(condition, frame, waits);
                if round > 0 && self.barriers.stmts.len() > barriers {
                    self.fault(
                        condition.span,
                        "the loop's body writes what its condition reads; end the body with \
                         `let ... = ...` and ask that",
                    );
                }
            }
            self.uniform_block(body, &mut frame.clone(), waits);
            let (pending, barriers) = before;
            let same = pending.iter().all(|access| self.pending.contains(access))
                && pending.len() == self.pending.len()
                && barriers == self.barriers;
            pending.into_iter().for_each(|access| self.keep(access));
            if same {
                break;
            }
        }
    }

    fn team(&mut self, team: &Team, span: Span, frame: &mut Frame) {
        if self.mode != Mode::Uniform {
            self.fault(span, "a closure of `team` calls no `team`; put this after it");
            return;
        }
        let Some(closure) = &team.closure else {
            return;
        };
        // What stands before the closure is read after the barrier.
        self.mode = Mode::Each;
        team.args.iter().for_each(|arg| {
            if !matches!(arg.ty, Ty::Slice(..)) {
                self.visit(arg, frame);
            }
        });
        match team.call {
            TeamCall::Once => self.mode = Mode::Once,
            TeamCall::Fill => {
                if let Some((object, _)) = self.object(&team.args[0], frame) {
                    self.phase.push(Access { object, what: What::Write, who: Who::Other });
                }
            }
            _ => {}
        }
        self.closure(
            closure,
            frame,
            matches!(team.call, TeamCall::Each | TeamCall::Any | TeamCall::Sum | TeamCall::Least),
        );
        self.mode = Mode::Uniform;
        self.end_phase(span);
        match team.call {
            // They wait for all before they tell, so that nothing is read any more; whether what was
            // written is seen is another matter.
            TeamCall::Any | TeamCall::Sum | TeamCall::Least => {
                if self.pending.iter().any(Access::writes) {
                    self.barriers.votes.insert(super::key(span));
                }
                self.pending.clear();
            }
            TeamCall::SumParts(_) => {
                let at = format!("{}:{}:{}", span.file, span.line, span.column);
                let parts = Object::row(format!("parts at {at}"));
                let write = Access { object: parts.clone(), what: What::Write, who: Who::Other };
                if self.pending.iter().any(|old| old.meets(&write)) {
                    self.barriers.calls.insert(super::key(span));
                }
                // The parts are written, then the team waits, then all read them.
                self.pending = vec![Access { object: parts, what: What::Read, who: Who::Other }];
            }
            _ => {}
        }
    }

    /// The body of a closure; `strided` says that its parameter is the thread's own index.
    fn closure(&mut self, closure: &Closure, frame: &Frame, strided: bool) {
        let mut inner = Frame { once: false, ..frame.clone() };
        if let (true, Some(i)) = (strided, closure.params.first()) {
            inner.known.insert(*i, Known::Own);
        }
        let mut own = super::declared(&closure.body);
        own.extend(&closure.params);
        inner.own = Some(own);
        self.visit(&closure.body, &mut inner);
    }

    /// What a new variable stands for.
    pub(super) fn bind(&mut self, pattern: &Pattern, init: &Expr, frame: &mut Frame) {
        match (pattern, &init.bare().kind) {
            (Pattern::Bind(var), _) => {
                let known = self.known(init, frame).or_else(|| Self::lasting(*var, init, frame));
                match known {
                    Some(Known::Own | Known::Number(_)) if self.changes(*var, frame) => {}
                    Some(known) => drop(frame.known.insert(*var, known)),
                    None => {}
                }
            }
            (Pattern::Tuple(patterns), Kind::Tuple(parts)) => {
                for (pattern, part) in patterns.iter().zip(parts) {
                    self.bind(pattern, part, frame);
                }
            }
            _ => {}
        }
    }
}

impl Analysis<'_> {
    /// A number of the contract's function outside of its loops, which is there once.
    fn lasting(var: VarId, init: &Expr, frame: &Frame) -> Option<Known> {
        (frame.once && init.ty == Ty::Usize).then_some(Known::Number(var))
    }
}

fn has_team(expr: &Expr) -> bool {
    let mut found = false;
    crate::walk::everything(expr, &mut |part| found |= matches!(part.kind, Kind::Team(_)));
    found
}
