//! Accesses to what a team shares.

use crate::ir::VarId;

/// A row or a scalar of the state or of the outputs, or scratch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) name: String,
    /// The group, if it is one by one; None may be any.
    pub(super) group: Option<String>,
    /// Whether it is one number, and no row.
    pub(super) scalar: bool,
    pub(super) part: Part,
}

/// Which elements of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Any.
    All,
    /// Those before the element with this variable's number: of `x[..n]`.
    Below(VarId),
    /// The one with this variable's number: `x[n]`.
    At(VarId),
}

impl Part {
    fn is_apart_from(self, other: Part) -> bool {
        matches!((self, other), (Part::Below(n), Part::At(m)) | (Part::At(n), Part::Below(m)) if n == m)
    }
}

/// The object of a function by hand.
const EVERYTHING: &str = "*";

impl Object {
    /// A row of this name.
    pub(super) fn row(name: String) -> Self {
        Self { name, group: None, scalar: false, part: Part::All }
    }

    /// All objects there are.
    pub(super) fn everything() -> Self {
        Self::row(EVERYTHING.into())
    }
}

/// Whose access it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// The element with the index of the strided loop.
    Own,
    /// The first thread.
    Once,
    /// Any thread, any element.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Read,
    Write,
    /// `team::add`.
    Add,
}

/// What is done to an object since the last barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) object: Object,
    pub(super) what: What,
    pub(super) who: Who,
}

impl Access {
    pub(super) fn writes(&self) -> bool {
        self.what != What::Read
    }

    /// Whether another thread's access may meet this one at the same element.
    pub(super) fn meets(&self, other: &Access) -> bool {
        let groups = match (&self.object.group, &other.object.group) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        let everything =
            [&self.object, &other.object].iter().any(|object| object.name == EVERYTHING);
        let same = everything || (self.object.name == other.object.name && groups);
        let apart = match (self.who, other.who) {
            (Who::Own, Who::Own) | (Who::Once, Who::Once) => true,
            _ if self.object.part.is_apart_from(other.object.part) => true,
            _ => self.what == What::Add && other.what == What::Add,
        };
        same && !apart && (self.writes() || other.writes())
    }
}
