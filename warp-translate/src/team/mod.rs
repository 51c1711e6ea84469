//! What threads of a team do to what they share, and where they therefore have to wait.
//!
//! The functions of the contract are gone through as they will run: outside of `each`, `once` and
//! their like all threads do the same, inside each does its part. Accesses since the last barrier
//! are kept; a barrier comes before whatever would meet one of another thread. Loops are repeated until
//! nothing changes, and helpers are followed with what they are called with.

mod access;
mod flow;
mod visit;

use crate::diagnostic::{Fault, Span};
use crate::ir::{Closure, Expr, Function, Kind, VarId};
use crate::types::{ItemId, Ty};
use crate::walk;
use access::{Access, Object};
use std::collections::{HashMap, HashSet};

type Place = (usize, usize, usize);

/// Where the team waits.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Barriers {
    calls: HashSet<Place>,
    stmts: HashSet<Place>,
    votes: HashSet<Place>,
}

fn key(span: Span) -> Place {
    (span.file, span.line, span.column)
}

impl Barriers {
    /// Whether the team waits before the call of `warp_core::team` at `span`.
    pub(crate) fn before_call(&self, span: Span) -> bool {
        self.calls.contains(&key(span))
    }

    /// Whether what was written before has to be seen by those whom the vote or sum at `span` tells.
    pub(crate) fn before_vote(&self, span: Span) -> bool {
        self.votes.contains(&key(span))
    }

    /// Whether it waits before the statement at `span`.
    pub(crate) fn before_stmt(&self, span: Span) -> bool {
        self.stmts.contains(&key(span))
    }
}

/// Who runs what is being looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// All threads alike.
    Uniform,
    /// A thread for each index.
    Each,
    /// The first thread.
    Once,
}

/// What is known of a variable.
#[derive(Debug, Clone)]
enum Known {
    /// Exactly the index of the strided loop.
    Own,
    /// The number that this variable of the contract's function, set once and outside of its loops, has.
    Number(VarId),
    /// A row or part of it; the flag says whether its elements have the row's numbers.
    Row(Object, bool),
    /// A reference to an element, and whether that is the thread's own.
    Element(Object, bool),
    /// The stream that all threads have a copy of.
    Draw,
    Closure(Closure),
}

/// The variables of a function that is being gone through.
#[derive(Debug, Default, Clone)]
struct Frame {
    known: HashMap<VarId, Known>,
    /// Variables that the closure around declares; None outside of closures, and in functions that
    /// are called from one, whose variables are all the thread's own.
    own: Option<HashSet<VarId>>,
    /// Whether what is gone through runs once, as the contract's function outside of its loops does.
    once: bool,
    /// The function whose variables these are.
    function: Option<ItemId>,
}

/// The analysis of one function of the contract.
pub(crate) struct Analysis<'f> {
    functions: &'f HashMap<ItemId, Function>,
    pub(crate) barriers: Barriers,
    pub(crate) faults: Vec<Fault>,
    /// Functions by hand, which may touch anything.
    twins: HashSet<ItemId>,
    /// Accesses since the last barrier.
    pending: Vec<Access>,
    /// Those of the statement that is being looked at.
    since_stmt: Vec<Access>,
    stmt: Span,
    /// Whether the statement has had a call of a team.
    phase_in_stmt: bool,
    /// Accesses of the closure that is being looked at.
    phase: Vec<Access>,
    mode: Mode,
    drew_once: Option<Span>,
    drew_alike: Option<Span>,
}

/// Whether a function, or one that it calls, calls `warp_core::team`.
pub(crate) fn has_phases(functions: &HashMap<ItemId, Function>, item: ItemId) -> bool {
    let mut found = false;
    let Some(function) = functions.get(&item) else { return false };
    walk::all(&function.body, &mut |expr| match &expr.kind {
        Kind::Team(_) => found = true,
        Kind::Call(callee, _) if !found => found = has_phases(functions, *callee),
        _ => {}
    });
    found
}

impl<'f> Analysis<'f> {
    pub(crate) fn new(functions: &'f HashMap<ItemId, Function>, twins: HashSet<ItemId>) -> Self {
        Self {
            functions,
            twins,
            barriers: Barriers::default(),
            faults: Vec::new(),
            pending: Vec::new(),
            since_stmt: Vec::new(),
            stmt: Span::default(),
            phase_in_stmt: false,
            phase: Vec::new(),
            mode: Mode::Uniform,
            drew_once: None,
            drew_alike: None,
        }
    }

    /// Goes through a function of the contract, with barriers before and after it.
    pub(crate) fn entry(&mut self, item: ItemId) {
        let Some(function) = self.functions.get(&item) else { return };
        let mut frame = Frame { once: true, function: Some(item), ..Frame::default() };
        for param in &function.params {
            let var = &function.vars[param.var];
            let known = match var.ty.behind() {
                Ty::Draw => Known::Draw,
                // Of a kernel's function rows are shared, too.
                Ty::Slice(..) => {
                    let name = format!("row {}", var.name);
                    Known::Row(Object::row(name), true)
                }
                _ => continue,
            };
            frame.known.insert(param.var, known);
        }
        self.pending.clear();
        (self.drew_once, self.drew_alike) = (None, None);
        self.uniform_block(&function.body, &mut frame, true);
        if let (Some(span), Some(_)) = (self.drew_once, self.drew_alike) {
            self.fault(
                span,
                "random numbers of the shared stream are used in `team::once` or outside of all \
                 closures, not in both: threads would lose count of them",
            );
        }
    }

    /// Whether a variable may be set anew, so that nothing that is known of its first value lasts.
    fn changes(&self, var: VarId, frame: &Frame) -> bool {
        let function = frame.function.and_then(|function| self.functions.get(&function));
        function.and_then(|function| function.vars.get(var)).is_none_or(|var| var.mutable)
    }

    fn fault(&mut self, span: Span, sentence: &str) {
        self.faults.push(Fault { span, sentence: sentence.into() });
    }

    /// Notes an access.
    fn note(&mut self, access: Access, span: Span) {
        if self.mode != Mode::Uniform {
            self.phase.push(access);
            return;
        }
        if access.writes() {
            self.fault(
                span,
                "code that all threads run alike writes local variables only; write this in \
                 `team::each` or `team::once`",
            );
            return;
        }
        if self.pending.iter().any(|other| other.meets(&access)) {
            if self.phase_in_stmt {
                self.fault(
                    span,
                    "read this on a line after the call of `team`, which may write it",
                );
            }
            self.barriers.stmts.insert(key(self.stmt));
            self.pending = self.since_stmt.clone();
        }
        self.since_stmt.push(access.clone());
        self.keep(access);
    }

    fn keep(&mut self, access: Access) {
        if !self.pending.contains(&access) {
            self.pending.push(access);
        }
    }

    /// The accesses of a closure come after a barrier if they must.
    fn end_phase(&mut self, span: Span) {
        let phase = std::mem::take(&mut self.phase);
        let meets = phase.iter().any(|new| self.pending.iter().any(|old| old.meets(new)));
        if meets {
            self.barriers.calls.insert(key(span));
            self.pending.clear();
        }
        phase.into_iter().for_each(|access| self.keep(access));
        self.phase_in_stmt = true;
    }
}

/// The variables that an expression declares.
fn declared(expr: &Expr) -> HashSet<VarId> {
    let mut found = HashSet::new();
    walk::everything(expr, &mut |part| {
        walk::bindings(part, &mut |var| {
            found.insert(var);
        });
    });
    found
}
