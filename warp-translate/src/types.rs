//! Types of the subset, and the unification that finds those of unsuffixed literals.

use crate::diagnostic::{Result, Span, fault};

/// The number of a struct or an enum among the items.
pub(crate) type ItemId = usize;

/// A type. What is borrowed mutably is told from what is not only where C++ is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ty {
    F32,
    I32,
    U32,
    I64,
    U64,
    U8,
    Bool,
    Usize,
    Unit,
    Never,
    /// `[T; N]`.
    Array(Box<Ty>, u64),
    /// `&[T]`, `&mut [T]`, `Vec<T>` and what derefs to them.
    Slice(Box<Ty>, bool),
    /// `&T`, `&mut T`.
    Ref(Box<Ty>, bool),
    Tuple(Vec<Ty>),
    Struct(ItemId),
    Enum(ItemId),
    /// One per group of agents.
    Groups(Box<Ty>),
    Draw,
    /// The environment itself.
    World,
    /// Its tables.
    Tables,
    Params,
    State,
    Actions,
    StepOut,
    Observation,
    /// A closure, by its number.
    Closure(usize),
    Var(usize),
}

/// What a variable of unification may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Any,
    Int,
    Float,
}

#[derive(Debug, Clone)]
enum Slot {
    Free(Kind),
    Bound(Ty),
}

/// The variables of one function.
#[derive(Debug, Default)]
pub(crate) struct Unifier {
    slots: Vec<Slot>,
}

/// Whether a tuple of `n` parts is one that C++ has.
pub(crate) fn tuple_of(n: usize, span: Span) -> Result<()> {
    match n {
        2..=4 => Ok(()),
        _ => fault(span, format!("tuples have 2 to 4 parts, not {n}; use a struct or an array")),
    }
}

impl Ty {
    /// The type behind all references.
    pub(crate) fn behind(&self) -> &Ty {
        match self {
            Ty::Ref(inner, _) => inner.behind(),
            other => other,
        }
    }

    pub(crate) fn is_int(&self) -> bool {
        matches!(self, Ty::I32 | Ty::U32 | Ty::I64 | Ty::U64 | Ty::U8 | Ty::Usize)
    }

    pub(crate) fn is_scalar(&self) -> bool {
        self.is_int() || matches!(self, Ty::F32 | Ty::Bool)
    }

    pub(crate) fn is_signed(&self) -> bool {
        matches!(self, Ty::I32 | Ty::I64)
    }

    /// Bits of an integer on the device.
    pub(crate) fn bits(&self) -> u32 {
        match self {
            Ty::I64 | Ty::U64 => 64,
            Ty::U8 => 8,
            _ => 32,
        }
    }

    /// The name in Rust, for messages.
    pub(crate) fn rust(&self) -> String {
        let name = match self {
            Ty::F32 => "f32",
            Ty::I32 => "i32",
            Ty::U32 => "u32",
            Ty::I64 => "i64",
            Ty::U64 => "u64",
            Ty::U8 => "u8",
            Ty::Bool => "bool",
            Ty::Usize => "usize",
            Ty::Unit => "()",
            Ty::Never => "!",
            Ty::Array(element, n) => return format!("[{}; {n}]", element.rust()),
            Ty::Slice(element, _) => return format!("&[{}]", element.rust()),
            Ty::Ref(inner, _) => return format!("&{}", inner.rust()),
            Ty::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(Ty::rust).collect();
                return format!("({})", parts.join(", "));
            }
            Ty::Struct(_) => "a struct",
            Ty::Enum(_) => "an enum",
            Ty::Groups(_) => "one slice per group",
            Ty::Draw => "Draw",
            Ty::World => "the environment",
            Ty::Tables => "the tables",
            Ty::Params => "the parameters",
            Ty::State => "the state",
            Ty::Actions => "Actions",
            Ty::StepOut => "StepOut",
            Ty::Observation => "Observation",
            Ty::Closure(_) => "a closure",
            Ty::Var(_) => "a type that is not known yet",
        };
        name.to_string()
    }
}

impl Unifier {
    pub(crate) fn fresh(&mut self, kind: Kind) -> Ty {
        self.slots.push(Slot::Free(kind));
        Ty::Var(self.slots.len() - 1)
    }

    /// `ty` with what is known by now, one level deep.
    pub(crate) fn shallow(&self, ty: &Ty) -> Ty {
        match ty {
            Ty::Var(v) => match &self.slots[*v] {
                Slot::Bound(bound) => self.shallow(bound),
                Slot::Free(_) => ty.clone(),
            },
            other => other.clone(),
        }
    }

    /// Whether it is still an integer, or a float, of unknown width.
    pub(crate) fn kind(&self, ty: &Ty) -> Option<Kind> {
        match self.shallow(ty) {
            Ty::Var(v) => match self.slots[v] {
                Slot::Free(kind) => Some(kind),
                Slot::Bound(_) => None,
            },
            _ => None,
        }
    }

    /// `ty` with everything known; literals without any use that fixes them are i32 and f32.
    pub(crate) fn resolve(&self, ty: &Ty) -> Ty {
        match self.shallow(ty) {
            Ty::Var(v) => match self.slots[v] {
                Slot::Free(Kind::Int) => Ty::I32,
                Slot::Free(Kind::Float) => Ty::F32,
                _ => Ty::Var(v),
            },
            Ty::Array(element, n) => Ty::Array(Box::new(self.resolve(&element)), n),
            Ty::Slice(element, m) => Ty::Slice(Box::new(self.resolve(&element)), m),
            Ty::Ref(inner, m) => Ty::Ref(Box::new(self.resolve(&inner)), m),
            Ty::Groups(inner) => Ty::Groups(Box::new(self.resolve(&inner))),
            Ty::Tuple(parts) => Ty::Tuple(parts.iter().map(|part| self.resolve(part)).collect()),
            other => other,
        }
    }

    /// Makes both the same; false if they cannot be.
    pub(crate) fn unify(&mut self, a: &Ty, b: &Ty) -> bool {
        let (a, b) = (self.shallow(a), self.shallow(b));
        match (&a, &b) {
            _ if a == b => true,
            (Ty::Never, _) | (_, Ty::Never) => true,
            (Ty::Var(v), Ty::Var(w)) => self.join(*v, *w),
            (Ty::Var(v), other) | (other, Ty::Var(v)) => self.bind(*v, other),
            (Ty::Array(x, n), Ty::Array(y, m)) => n == m && self.unify(x, y),
            (Ty::Slice(x, _), Ty::Slice(y, _))
            | (Ty::Ref(x, _), Ty::Ref(y, _))
            | (Ty::Groups(x), Ty::Groups(y)) => self.unify(x, y),
            (Ty::Tuple(x), Ty::Tuple(y)) => {
                x.len() == y.len() && x.iter().zip(y).all(|(x, y)| self.unify(x, y))
            }
            _ => false,
        }
    }

    fn join(&mut self, v: usize, w: usize) -> bool {
        let (Slot::Free(a), Slot::Free(b)) = (&self.slots[v], &self.slots[w]) else { return false };
        let (from, to) = match (a, b) {
            (Kind::Any, _) => (v, w),
            (_, Kind::Any) => (w, v),
            (a, b) if a == b => (v, w),
            _ => return false,
        };
        self.slots[from] = Slot::Bound(Ty::Var(to));
        true
    }

    fn bind(&mut self, v: usize, ty: &Ty) -> bool {
        let Slot::Free(kind) = self.slots[v] else { return false };
        let fits = match kind {
            Kind::Any => true,
            Kind::Int => ty.is_int(),
            Kind::Float => *ty == Ty::F32,
        };
        if fits {
            self.slots[v] = Slot::Bound(ty.clone());
        }
        fits
    }
}
