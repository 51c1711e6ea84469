//! The text of an expression with its precedence, and what evaluating it does.

/// Precedences of C++, from loose to tight.
pub(crate) mod prec {
    pub(crate) const TERNARY: u8 = 3;
    pub(crate) const EITHER: u8 = 4;
    pub(crate) const BOTH: u8 = 5;
    pub(crate) const OR: u8 = 6;
    pub(crate) const XOR: u8 = 7;
    pub(crate) const AND: u8 = 8;
    pub(crate) const EQUAL: u8 = 9;
    pub(crate) const LESS: u8 = 10;
    pub(crate) const SHIFT: u8 = 11;
    pub(crate) const ADD: u8 = 12;
    pub(crate) const MUL: u8 = 13;
    pub(crate) const UNARY: u8 = 15;
    pub(crate) const ATOM: u8 = 16;
}

/// What evaluating something does that an order could matter for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Effects {
    /// Depends on something that may be written.
    pub(crate) reads: bool,
    /// Moves a stream of random numbers on.
    pub(crate) draws: bool,
    /// Writes something.
    pub(crate) writes: bool,
}

impl Effects {
    pub(crate) const READS: Self = Self { reads: true, draws: false, writes: false };
    pub(crate) const DRAWS: Self = Self { reads: false, draws: true, writes: false };
    pub(crate) const WRITES: Self = Self { reads: false, draws: false, writes: true };

    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            reads: self.reads || other.reads,
            draws: self.draws || other.draws,
            writes: self.writes || other.writes,
        }
    }

    /// Whether the order of the two can be told afterwards.
    pub(crate) fn disturbs(self, other: Self) -> bool {
        (self.writes && (other.reads || other.writes))
            || (other.writes && self.reads)
            || (self.draws && other.draws)
    }

    pub(crate) fn none(self) -> bool {
        self == Self::default()
    }
}

/// The text of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Val {
    pub(crate) text: String,
    pub(crate) prec: u8,
    pub(crate) effects: Effects,
}

impl Val {
    pub(crate) fn new(text: impl Into<String>, prec: u8) -> Self {
        Self { text: text.into(), prec, effects: Effects::default() }
    }

    pub(crate) fn atom(text: impl Into<String>) -> Self {
        Self::new(text, prec::ATOM)
    }

    pub(crate) fn with(mut self, effects: Effects) -> Self {
        self.effects = self.effects.with(effects);
        self
    }

    /// The text as an operand that binds at least as tightly as `least`.
    pub(crate) fn at(&self, least: u8) -> String {
        if self.prec >= least { self.text.clone() } else { format!("({})", self.text) }
    }
}
