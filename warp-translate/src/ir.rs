//! A body with every name resolved and every type known: what the text is written from.

use crate::diagnostic::Span;
use crate::types::{ItemId, Ty};

pub(crate) type VarId = usize;

/// An expression.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) kind: Kind,
    pub(crate) ty: Ty,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Value, and how it was written: with `0x` or not.
    Int(u128, bool),
    /// Digits, without underscores and suffix.
    Float(String),
    Bool(bool),
    Unit,
    Var(VarId),
    /// A value that the text has put into a variable of its own.
    Held(VarId),
    Const(ItemId),
    Variant(ItemId, usize),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Assign(Box<Expr>, Box<Expr>),
    AssignWith(Binary, Box<Expr>, Box<Expr>),
    Cast(Box<Expr>),
    /// A field of something, by name; tuples have `0`, `1` ...
    Field(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    /// `x[low..high]`.
    Part(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// Length of an array or a slice.
    Len(Box<Expr>),
    /// `&x` and `&mut x`.
    Ref(Box<Expr>),
    Deref(Box<Expr>),
    /// `&[T; N]` where a slice is wanted.
    AsSlice(Box<Expr>),
    Paren(Box<Expr>),
    Call(ItemId, Vec<Expr>),
    /// A function of the framework or of CUDA by its C name.
    Builtin(Builtin, Vec<Expr>),
    CallClosure(VarId, Vec<Expr>),
    Closure(Box<Closure>),
    Tuple(Vec<Expr>),
    Array(Vec<Expr>),
    Repeat(Box<Expr>),
    Struct(ItemId, Vec<(String, Expr)>),
    If(Box<Expr>, Box<Block>, Option<Box<Expr>>),
    Match(Box<Expr>, Vec<Arm>),
    Block(Box<Block>),
    Loop(Box<Block>),
    While(Box<Expr>, Box<Block>),
    For(Box<For>),
    Break(Option<Box<Expr>>),
    Continue,
    Return(Option<Box<Expr>>),
    Team(Box<Team>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Minus,
    Not,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// `&&`.
    Both,
    /// `||`.
    Either,
}

/// A function that is there in C already.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Builtin {
    pub(crate) name: String,
    pub(crate) form: Form,
}

/// How a builtin is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `name(a, b)`.
    Call,
    /// `name(&draw, b)`, which moves the stream on.
    Draws,
    /// `name(&draw, b)`, which does not.
    Stream,
    /// `name(x, &a, &b)`, whose value is the tuple of what it writes.
    SinCos,
    /// A value as it stands.
    Value,
    /// `get_clamped`.
    Clamped,
    /// `name(&array[index], value)`.
    Add,
}

#[derive(Debug, Clone)]
pub(crate) struct Closure {
    pub(crate) params: Vec<VarId>,
    pub(crate) body: Expr,
}

#[derive(Debug, Clone)]
pub(crate) struct Arm {
    pub(crate) pattern: Pattern,
    pub(crate) guard: Option<Expr>,
    pub(crate) body: Expr,
}

#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    Any,
    Bind(VarId),
    /// A constant.
    Value(Expr),
    /// `low..=high`, `low..high`: the flag says whether `high` is in it.
    Range(Option<Expr>, Option<Expr>, bool),
    Either(Vec<Pattern>),
    Tuple(Vec<Pattern>),
    Array(Vec<Pattern>),
    Struct(Vec<(String, Pattern)>),
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) stmts: Vec<Stmt>,
    pub(crate) tail: Option<Expr>,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) struct Stmt {
    pub(crate) kind: StmtKind,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum StmtKind {
    Let(Box<Pattern>, Option<Expr>),
    Expr(Expr),
    /// A constant, which the text declares outside.
    Const,
}

#[derive(Debug, Clone)]
pub(crate) struct For {
    /// None for `_`.
    pub(crate) var: Option<VarId>,
    pub(crate) ty: Ty,
    pub(crate) low: Expr,
    pub(crate) high: Expr,
    pub(crate) inclusive: bool,
    pub(crate) reversed: bool,
    pub(crate) step: Option<Expr>,
    pub(crate) body: Block,
}

/// A call of `warp_core::team`.
#[derive(Debug, Clone)]
pub(crate) struct Team {
    pub(crate) call: TeamCall,
    /// What stands before the closure.
    pub(crate) args: Vec<Expr>,
    pub(crate) closure: Option<Closure>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TeamCall {
    Each,
    Once,
    Any,
    Sum,
    Least,
    /// With the number of parts.
    SumParts(u64),
    Fill,
    /// Scratch of the team, with its element.
    Scratch(Ty),
}

/// A variable.
#[derive(Debug, Clone)]
pub(crate) struct Var {
    pub(crate) name: String,
    pub(crate) ty: Ty,
    pub(crate) mutable: bool,
    pub(crate) param: bool,
    /// A reference to it, or a closure that sees it, may live on.
    pub(crate) captured: bool,
    /// How often it is named.
    pub(crate) uses: usize,
}

/// A function with its body.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) params: Vec<Param>,
    pub(crate) output: Ty,
    pub(crate) body: Block,
    pub(crate) vars: Vec<Var>,
}

/// A parameter of a function: its pattern and, if that is no plain name, the variable taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Param {
    pub(crate) var: VarId,
    pub(crate) pattern: Pattern,
}

impl Expr {
    /// Without parentheses around it.
    pub(crate) fn bare(&self) -> &Expr {
        match &self.kind {
            Kind::Paren(inner) => inner.bare(),
            _ => self,
        }
    }
}

impl Binary {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Div => "/",
            Binary::Rem => "%",
            Binary::And => "&",
            Binary::Or => "|",
            Binary::Xor => "^",
            Binary::Shl => "<<",
            Binary::Shr => ">>",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
            Binary::Less => "<",
            Binary::LessEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterEqual => ">=",
            Binary::Both => "&&",
            Binary::Either => "||",
        }
    }

    pub(crate) fn compares(self) -> bool {
        use Binary::*;
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }
}
