//! Random expressions of every scalar type, whose values stay in range.

use crate::generate::Body;
use crate::random::Random;

/// Scalar types that bodies compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ty {
    F32,
    I32,
    U32,
    I64,
    U64,
    U8,
    Usize,
    Bool,
}

use Ty::{Bool, F32, I32, I64, U8, U32, U64, Usize};

const NUMBERS: [Ty; 6] = [I32, U32, I64, U64, U8, Usize];
pub(crate) const ALL: [Ty; 8] = [F32, I32, U32, I64, U64, U8, Usize, Bool];

impl Ty {
    pub(crate) fn name(self) -> &'static str {
        match self {
            F32 => "f32",
            I32 => "i32",
            U32 => "u32",
            I64 => "i64",
            U64 => "u64",
            U8 => "u8",
            Usize => "usize",
            Bool => "bool",
        }
    }

    fn signed(self) -> bool {
        matches!(self, I32 | I64)
    }
}

/// A literal of a type.
fn literal(random: &mut Random, ty: Ty) -> String {
    match ty {
        F32 => random
            .pick(&["0.0", "1.0", "-2.5", "0.1", "3.75", "-0.0", "1.0e-3", "123.456", "HALF"])
            .into(),
        I32 => random.pick(&["0", "1", "-1", "7", "-13", "1000", "LEAST", "0x7f"]).into(),
        U32 => random.pick(&["0", "1", "5", "0xff", "1000", "4_000_000_000"]).into(),
        I64 => random.pick(&["0", "-1", "5_000_000_000", "77"]).into(),
        U64 => random.pick(&["0", "1", "0xffff_ffff_ffff", "99"]).into(),
        U8 => random.pick(&["0", "1", "200", "255", "b'a'"]).into(),
        Usize => random.pick(&["0", "1", "2", "17"]).into(),
        Bool => random.pick(&["true", "false"]).into(),
    }
}

impl Body {
    /// An expression of a type; sums and products of it stay in range.
    pub(crate) fn expr(&mut self, ty: Ty, depth: usize) -> String {
        if depth == 0 || self.random.chance(12) {
            return match self.var(ty, false) {
                Some(name) if self.random.chance(75) => name,
                _ => {
                    let text = literal(&mut self.random, ty);
                    if ty == Bool || text.chars().any(char::is_uppercase) || text.starts_with("b'")
                    {
                        text
                    } else {
                        typed(&text, ty)
                    }
                }
            };
        }
        match ty {
            F32 => self.float(depth - 1),
            Bool => self.condition(depth - 1),
            _ => self.whole(ty, depth - 1),
        }
    }

    fn float(&mut self, depth: usize) -> String {
        let x = self.expr(F32, depth);
        match self.random.below(17) {
            0 => format!("tame({x} + {})", self.expr(F32, depth)),
            1 => format!("tame(({x}) * ({}) - {})", self.expr(F32, depth), self.expr(F32, depth)),
            2 => format!("tame(({x}) / ({}))", self.expr(F32, depth)),
            3 => format!("tame(({x}) % ({}))", self.expr(F32, depth)),
            4 => {
                let method =
                    self.random.pick(&["abs", "floor", "ceil", "trunc", "round", "signum"]);
                format!("({x}).{method}()")
            }
            5 => format!("tame(({x}).abs().sqrt())"),
            6 => format!("({x}).copysign({})", self.expr(F32, depth)),
            7 => format!("({x}).clamp(-2.0, 3.5)"),
            8 => {
                let function = self.random.pick(&["sin", "cos", "tanh", "wrap_angle"]);
                format!("tame(math::{function}({x}))")
            }
            9 => {
                let function = self.random.pick(&["min", "max"]);
                format!("math::{function}({x}, {})", self.expr(F32, depth))
            }
            10 => {
                let from = self.random.pick(&NUMBERS);
                format!("tame(({}) as f32)", self.expr(from, depth))
            }
            11 => format!(
                "if {} {{ {x} }} else {{ {} }}",
                self.expr(Bool, depth),
                self.expr(F32, depth)
            )
            .pipe(),
            12 => format!("-({x})"),
            13 => format!("tame(f32::from_bits(({}) & 0x7fff_ffff))", self.expr(U32, depth)),
            14 => format!("floats[({}) & 3]", self.expr(Usize, depth)).pipe_tame(),
            15 => format!("tame(floats.get_clamped({}))", self.expr(I32, depth)),
            _ => format!("both.grown({x})"),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let (a, b) = (self.expr(Bool, depth), self.expr(Bool, depth));
        match self.random.below(9) {
            0 => format!("({a} && {b})"),
            1 => format!("({a} || {b})"),
            2 => format!("({a} | {b})"),
            3 => format!("({a} & !{b})"),
            4 => format!("({a} != {b})"),
            5 => {
                let what = self.random.pick(&["is_nan", "is_finite", "is_infinite"]);
                format!("(({}) / ({})).{what}()", self.expr(F32, depth), self.expr(F32, depth))
            }
            6 => format!("(kind_of({}) == Kind::Second)", self.expr(I32, depth)),
            _ => {
                let ty = self.random.pick(&[F32, I32, U32, I64, U64, U8, Usize]);
                let op = self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("(({}) {op} ({}))", self.expr(ty, depth), self.expr(ty, depth))
            }
        }
    }

    fn whole(&mut self, ty: Ty, depth: usize) -> String {
        let name = ty.name();
        let (x, y) = (self.expr(ty, depth), self.expr(ty, depth));
        if ty == Usize {
            return self.index(&x, &y, depth);
        }
        if ty == I32 && self.random.chance(5) {
            return format!("both.parts[({}) % 3]", self.expr(Usize, depth));
        }
        match self.random.below(20) {
            0 => format!("({x}).wrapping_add({y})"),
            1 => format!("({x}).wrapping_mul({y})"),
            2 => format!("({x}).wrapping_sub({y})"),
            3 => format!("((({x}) & 0x3f) + (({y}) & 0x3f))"),
            4 => format!("((({x}) & 7) * (({y}) & 7))"),
            5 => format!("(({x}) / ((({y}) & 15) + 1))"),
            6 => format!("(({x}) % ((({y}) & 15) + 1))"),
            7 => format!("(({x}) {} ({y}))", self.random.pick(&["&", "|", "^"])),
            8 => format!("(({x}) >> (({y}) & 7))"),
            9 => format!("(({x}) << {})", self.random.below(if ty == U8 { 8 } else { 32 })),
            10 => format!(
                "({x}).{}({y})",
                self.random.pick(&["min", "max", "saturating_add", "saturating_sub"])
            ),
            11 => format!("({x}).clamp(3, 90)"),
            12 => format!("!({x})"),
            13 => format!(
                "({x}).rotate_{}({})",
                self.random.pick(&["left", "right"]),
                self.random.below(40)
            ),
            14 => {
                let count = self.random.pick(&[
                    "count_ones",
                    "leading_zeros",
                    "trailing_zeros",
                    "count_zeros",
                ]);
                format!("(({x}).{count}() as {name})")
            }
            15 => format!("({x}).rem_euclid((({y}) & 15) + 1)"),
            16 if ty.signed() => self.random.pick(&[
                format!("({x}).wrapping_neg()"),
                format!("(({x}) >> 1).abs()"),
                format!("({x}).signum()"),
                format!("(({x}).unsigned_abs() as {name})"),
                format!("-(({x}) >> 1)"),
            ]),
            16 => format!("({x}).abs_diff({y})"),
            17 => format!("({} as {name})", self.expr(F32, depth).wrapped()),
            18 => {
                let from = self.random.pick(&[I32, U32, I64, U64, U8]);
                format!("({} as {name})", self.expr(from, depth).wrapped())
            }
            _ => format!("if {} {{ {x} }} else {{ {y} }}", self.expr(Bool, depth)).pipe(),
        }
    }

    /// Small, as a GPU's usize has 32 bits.
    fn index(&mut self, x: &str, y: &str, depth: usize) -> String {
        match self.random.below(7) {
            0 => format!("((({x}) & 0xff) + (({y}) & 0xff))"),
            1 => format!("((({x}) & 0xf) * (({y}) & 0xf))"),
            2 => format!("(({x}) / ((({y}) & 7) + 1))"),
            3 => format!("({x}).min({y})"),
            4 => format!("((({}) & 0xffff) as usize)", self.expr(U32, depth)),
            5 => format!("({x}).max(floats.len())"),
            _ => format!("(({x}) % 23)"),
        }
    }
}

/// A number with its type's name.
fn typed(text: &str, ty: Ty) -> String {
    let negative = text.starts_with('-');
    let named = format!("{text}_{}", ty.name());
    if negative { format!("({named})") } else { named }
}

trait Wrapped {
    fn wrapped(self) -> String;
    fn pipe(self) -> String;
    fn pipe_tame(self) -> String;
}

impl Wrapped for String {
    fn wrapped(self) -> String {
        format!("({self})")
    }
    fn pipe(self) -> String {
        format!("({self})")
    }
    fn pipe_tame(self) -> String {
        format!("tame({self})")
    }
}
