//! Statements of random bodies in which the two languages would differ if they were written alike.

use crate::expressions::Ty::{F32, Usize};
use crate::generate::Body;

impl Body {
    /// Integers to which nothing but casts gives a type.
    pub(crate) fn open(&mut self) {
        let (name, parts) = (self.fresh(), self.fresh());
        let (start, by) = (self.random.below(9), 1 + self.random.below(5));
        self.line(&format!("let mut {name} = {start};"));
        let index = self.expr(Usize, 1);
        self.line(&format!("let mut {parts} = [{start}, -{by}, {}, 0];", 100 * by));
        self.line(&format!("{parts}[({index}) & 3] -= {by};"));
        match self.random.below(3) {
            0 => self.line(&format!("for _ in 0..{} {{ {name} -= {by}; }}", 2 + start % 4)),
            1 => self.line(&format!("{name} = {name} << 28 >> {by};")),
            _ => self.line(&format!("{name} = ({parts}[2] - {parts}[1]) / ({by} - 7);")),
        }
        for value in [name, format!("{parts}[({index}) & 3]"), format!("({parts}[1] + 1)")] {
            let through = self.random.pick(&["i64", "u64", "u8", "i32", "usize"]);
            let word = match through {
                "i64" | "u64" => format!("({value} as {through} >> 20) as u32"),
                "usize" => format!("({value} as u8 as usize) as u32"),
                _ => format!("({value} as {through}) as u32"),
            };
            self.line(&format!("hash = mixed(hash, {word});"));
        }
    }

    /// A place of an array whose index changes what it is made of.
    pub(crate) fn moving(&mut self) {
        let value = self.expr(F32, 1);
        match self.random.below(4) {
            0 => {
                let op = self.random.pick(&["%=", "+=", "/="]);
                let place = "floats[(bumped(&mut counter) & 3) as usize]";
                self.line(&format!("{place} {op} tame({value});"));
                self.line("for k in 0..4 { floats[k] = tame(floats[k]); }");
            }
            1 => self.line("both.parts[(bumped(&mut counter) % 3) as usize] <<= 3;"),
            2 => self.line("both.parts[(bumped(&mut counter) % 3) as usize] >>= counter & 7;"),
            _ => {
                self.line("both.parts[{ counter ^= 1; (counter % 3) as usize }] ^= counter as i32;")
            }
        }
    }
}
