//! Random bodies in the subset, as Rust text without defects: nothing in them overflows where Rust
//! would stop.

use crate::expressions::{ALL, Ty};
use crate::random::Random;

use Ty::{Bool, F32, I32, I64, U8, U32, U64, Usize};

/// The making of one function.
pub(crate) struct Body {
    pub(crate) random: Random,
    text: String,
    indent: usize,
    /// Variables in scope: name, type, whether they may be written.
    vars: Vec<(String, Ty, bool)>,
    count: usize,
    depth: usize,
    loops: usize,
}

/// Function number `k`.
pub(crate) fn function(k: usize, seed: u64) -> String {
    let mut body = Body {
        random: Random(seed.wrapping_add((k as u64) << 32)),
        text: String::new(),
        indent: 1,
        vars: vec![
            ("a".into(), F32, false),
            ("b".into(), F32, false),
            ("i".into(), I32, false),
            ("j".into(), I32, false),
            ("u".into(), U32, false),
            ("v".into(), U32, false),
        ],
        count: 0,
        depth: 0,
        loops: 0,
    };
    body.line("let mut hash = 0x811c_9dc5_u32;");
    body.line("let mut counter = u;");
    body.line("let mut floats = [a, b, 1.5, -0.0];");
    body.line("let mut both = Both { number: tame(a), count: i, flag: a < b, parts: [i, j, 5] };");
    body.vars.push(("counter".into(), U32, true));
    let n = 3 + body.random.below(6);
    for _ in 0..n {
        body.statement();
    }
    body.hash_all();
    body.line("hash = mixed(hash, bits(both.number) ^ both.count as u32 ^ u32::from(both.flag));");
    body.line("hash = mixed(hash, bits(total(&floats)));");
    body.line("hash = mixed(hash, sum_of(&both.parts) as u32);");
    body.line("hash");
    let head = "a: f32, b: f32, i: i32, j: i32, u: u32, v: u32";
    format!("\nfn f_{k}({head}) -> u32 {{\n{}}}\n", body.text)
}

impl Body {
    pub(crate) fn line(&mut self, text: &str) {
        self.text.push_str(&"    ".repeat(self.indent));
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(crate) fn fresh(&mut self) -> String {
        self.count += 1;
        format!("x{}", self.count)
    }

    /// Variables that no newer one of the same name hides.
    fn visible(&self) -> Vec<(String, Ty, bool)> {
        let mut seen: Vec<(String, Ty, bool)> = Vec::new();
        for var in self.vars.iter().rev() {
            if !seen.iter().any(|(name, ..)| *name == var.0) {
                seen.push(var.clone());
            }
        }
        seen.reverse();
        seen
    }

    pub(crate) fn var(&mut self, ty: Ty, written: bool) -> Option<String> {
        let visible = self.visible().into_iter();
        let fitting: Vec<String> = visible
            .filter(|(_, other, mutable)| *other == ty && (*mutable || !written))
            .map(|(name, ..)| name)
            .collect();
        if fitting.is_empty() { None } else { Some(self.random.pick(&fitting)) }
    }

    fn hash_all(&mut self) {
        for (name, ty, _) in self.visible() {
            let word = match ty {
                F32 => format!("bits({name})"),
                Bool => format!("u32::from({name})"),
                U64 | I64 => format!("({name} as u32) ^ (({name} >> 32) as u32)"),
                _ => format!("{name} as u32"),
            };
            self.line(&format!("hash = mixed(hash, {word});"));
        }
    }

    /// A block of statements, whose variables end with it.
    fn block(&mut self, n: usize) {
        let known = self.vars.len();
        self.inside(n);
        self.vars.truncate(known);
    }

    /// Statements of a block that goes on after them.
    fn inside(&mut self, n: usize) {
        self.indent += 1;
        self.depth += 1;
        for _ in 0..n {
            self.statement();
        }
        self.depth -= 1;
        self.indent -= 1;
    }

    fn statement(&mut self) {
        let deep = self.depth >= 3;
        match self.random.below(if deep { 9 } else { 21 }) {
            0..=2 => self.declare(),
            3 | 4 => self.assign(),
            5 => self.array(),
            6 => self.structure(),
            7 => self.tuple(),
            8 => self.open(),
            9 | 10 => {
                let condition = self.expr(Bool, 2);
                self.line(&format!("if {condition} {{"));
                let n = 1 + self.random.below(2);
                self.block(n);
                if self.random.chance(60) {
                    if self.random.chance(40) {
                        let other = self.expr(Bool, 1);
                        self.line(&format!("}} else if {other} {{"));
                        self.block(1);
                    }
                    self.line("} else {");
                    self.block(1);
                }
                self.line("}");
            }
            11 | 12 => self.for_loop(),
            13 => self.while_loop(),
            14 => self.loop_value(),
            15 | 16 => self.choice(),
            17 => self.closure(),
            18 => self.order(),
            19 => self.block_value(),
            _ => self.early(),
        }
    }

    fn declare(&mut self) {
        let ty = self.random.pick(&ALL);
        let value = self.expr(ty, 3);
        // Now and then under a name that is taken, of the same type or another.
        let own: Vec<String> = self.vars.iter().skip(7).map(|var| var.0.clone()).collect();
        let shadows = !own.is_empty() && self.random.chance(25);
        let name = if shadows { self.random.pick(&own) } else { self.fresh() };
        let mutable = self.random.chance(60);
        let keyword = if mutable { "let mut" } else { "let" };
        let typed = if self.random.chance(30) { format!(": {}", ty.name()) } else { String::new() };
        let value = match typed.is_empty() {
            true => self.certain(&value, ty),
            false => value,
        };
        self.line(&format!("{keyword} {name}{typed} = {value};"));
        self.vars.push((name, ty, mutable));
    }

    /// An expression whose type does not depend on its use.
    fn certain(&mut self, text: &str, ty: Ty) -> String {
        match ty {
            Bool => text.to_string(),
            _ => self.cast_literal(text, ty),
        }
    }

    fn cast_literal(&mut self, text: &str, ty: Ty) -> String {
        let literal = text.chars().all(|c| c.is_ascii_digit() || "._-".contains(c));
        if literal {
            format!("{text}_{}", ty.name()).replace("._", ".0_")
        } else {
            text.to_string()
        }
    }

    fn assign(&mut self) {
        let ty = self.random.pick(&ALL);
        let Some(name) = self.var(ty, true) else { return self.declare() };
        let value = self.expr(ty, 2);
        match ty {
            F32 => {
                let op = self.random.pick(&["+=", "-=", "*=", "/=", "%=", "="]);
                self.line(&format!("{name} {op} {value};"));
                self.line(&format!("{name} = tame({name});"));
            }
            Bool => {
                let op = self.random.pick(&["|=", "&=", "^=", "="]);
                self.line(&format!("{name} {op} {value};"));
            }
            _ => match self.random.below(4) {
                0 => {
                    let op = self.random.pick(&["|=", "&=", "^="]);
                    self.line(&format!("{name} {op} {value};"));
                }
                1 => {
                    let op = self.random.pick(&["<<=", ">>="]);
                    let amount = self.random.below(if ty == U8 { 8 } else { 32 });
                    self.line(&format!("{name} {op} {amount};"));
                    if ty == Usize {
                        self.line(&format!("{name} &= 0xffff;"));
                    }
                }
                2 => {
                    let by = 1 + self.random.below(100);
                    self.line(&format!("{name} %= {by};"));
                }
                _ => self.line(&format!("{name} = {value};")),
            },
        }
    }

    fn array(&mut self) {
        if self.random.chance(25) {
            return self.moving();
        }
        let index = self.expr(Usize, 1);
        let value = self.expr(F32, 2);
        match self.random.below(4) {
            0 => self.line(&format!("floats[({index}) & 3] = tame({value});")),
            1 => self.line(&format!("floats[({index}) % 4] += tame({value}) * 0.25;")),
            part => {
                let by = self.fresh();
                self.line(&format!("let {by} = tame({value});"));
                let whole = if part == 2 { "floats[1..]" } else { "floats" };
                self.line(&format!("scaled(&mut {whole}, {by});"));
            }
        }
        let name = self.fresh();
        self.line(&format!("let {name} = tame(floats[({index}) & 3] + total(&floats));"));
        self.vars.push((name, F32, false));
    }

    fn structure(&mut self) {
        let (x, n) = (self.expr(F32, 1), self.expr(I32, 1));
        match self.random.below(7) {
            0 => self.line(&format!("both.number = both.grown(tame({x}));")),
            1 => self.line(&format!("both.count_up({n});")),
            2 => {
                let flag = self.expr(Bool, 1);
                let parts = self.random.pick(&["both.turned(3)", "both.parts", "[1, i, -3]"]);
                self.line(&format!(
                    "both = Both {{ count: {n}, parts: {parts}, number: tame({x}), flag: {flag} }};"
                ));
            }
            3..=5 => self.array_field(&n),
            _ => {
                let (first, second) = (self.fresh(), self.fresh());
                self.line(&format!("let Both {{ number: {first}, count: {second}, .. }} = both;"));
                self.vars.push((first, F32, false));
                self.vars.push((second, I32, false));
            }
        }
    }

    /// An array in a struct: by element, whole, as a slice, and copied out.
    fn array_field(&mut self, n: &str) {
        let index = self.expr(Usize, 1);
        let name = self.fresh();
        match self.random.below(5) {
            0 => return self.line(&format!("both.parts[({index}) % 3] = {n};")),
            1 => return self.line(&format!("both.parts = both.turned({n});")),
            2 => return self.line(&format!("both.fill_up({n});")),
            3 => self.line(&format!("let {name} = sum_of(&both.parts[1..]) ^ ({n});")),
            _ => {
                let copy = self.fresh();
                self.line(&format!("let mut {copy} = both.parts;"));
                self.line(&format!("{copy}[({index}) % 3] = {n};"));
                self.line(&format!("let {name} = sum_of(&{copy}) ^ both.parts[({index}) % 3];"));
            }
        }
        self.vars.push((name, I32, false));
    }

    fn tuple(&mut self) {
        let (x, n) = (self.expr(F32, 1), self.expr(I32, 1));
        let [first, second, third] = [self.fresh(), self.fresh(), self.fresh()];
        match self.random.below(3) {
            0 => {
                self.line(&format!("let ({first}, {second}, {third}) = split(tame({x}), {n});"));
                self.vars.push((third, Bool, false));
            }
            1 => {
                self.line(&format!("let (mut {first}, {second}) = (tame({x}), {n});"));
                self.line(&format!("({first}, both.number) = (both.number, {first});"));
            }
            _ => self.line(&format!("let ({first}, {second}) = (tame({x}), {n});")),
        }
        self.vars.push((first, F32, false));
        self.vars.push((second, I32, false));
    }

    fn for_loop(&mut self) {
        let name = self.fresh();
        let ty = self.random.pick(&[Usize, I32, U32]);
        let (low, high) = (self.random.below(4), 4 + self.random.below(5));
        let sign = if ty == I32 && self.random.chance(40) { "-" } else { "" };
        let low = format!("{sign}{low}_{}", ty.name());
        // Ends that C++ knows, that it does not, and at the end of the type.
        let (low, high) = match self.random.below(5) {
            0 | 1 => (low, format!("(({}) & 7)", self.expr(ty, 1))),
            2 if ty != Usize => {
                (format!("{}::MAX - {high}", ty.name()), format!("{}::MAX", ty.name()))
            }
            _ => (low, high.to_string()),
        };
        let range = match self.random.below(5) {
            0 => format!("({low}..{high}).rev()"),
            1 => format!("{low}..={high}"),
            2 => format!("({low}..{high}).step_by({})", 1 + self.random.below(3)),
            3 => format!("({low}..={high}).rev()"),
            _ => format!("{low}..{high}"),
        };
        self.line(&format!("for {name} in {range} {{"));
        let known = self.vars.len();
        self.vars.push((name.clone(), ty, false));
        self.indent += 1;
        self.line(&format!("hash = mixed(hash, {name} as u32);"));
        self.indent -= 1;
        self.loops += 1;
        self.inside(1);
        if self.random.chance(40) {
            // Of what the statements have declared, too.
            let condition = self.expr(Bool, 1);
            let leave = self.random.pick(&["break", "continue"]);
            self.line(&format!("    if {condition} {{"));
            self.line(&format!("        {leave};"));
            self.line("    }");
            self.line("    both.count_up(1);");
        }
        self.loops -= 1;
        self.vars.truncate(known);
        self.line("}");
    }

    fn while_loop(&mut self) {
        let name = self.fresh();
        self.line(&format!("let mut {name} = 0_i32;"));
        let condition = self.expr(Bool, 1);
        let n = 2 + self.random.below(4);
        self.line(&format!("while {name} < {n} && ({condition} || {name} < 2) {{"));
        self.line(&format!("    {name} += 1;"));
        self.block(1);
        self.line("}");
        self.vars.push((name, I32, false));
    }

    fn loop_value(&mut self) {
        let (name, ty) = (self.fresh(), self.random.pick(&[F32, I32, U32]));
        let (value, other) = (self.expr(ty, 1), self.expr(ty, 1));
        let condition = self.expr(Bool, 1);
        let round = self.fresh();
        self.line(&format!("let mut {round} = 0_i32;"));
        self.line(&format!("let {name}: {} = loop {{", ty.name()));
        self.line(&format!("    {round} += 1;"));
        self.line(&format!("    if {condition} {{"));
        self.line(&format!("        break {value};"));
        self.line("    }");
        self.line(&format!("    if {round} > 3 {{"));
        self.line(&format!("        break {other};"));
        self.line("    }");
        self.line("};");
        self.vars.push((name, ty, false));
    }

    fn choice(&mut self) {
        let (name, ty) = (self.fresh(), self.random.pick(&[F32, I32, U32, Bool]));
        let of = self.expr(I32, 2);
        let mut value = || {
            let text = self.expr(ty, 1);
            if self.random.chance(25) {
                format!("{{ hash = mixed(hash, bumped(&mut counter)); {text} }}")
            } else {
                text
            }
        };
        let values = [value(), value(), value(), value(), value()];
        let condition = self.expr(Bool, 1);
        if self.random.chance(30) {
            self.line(&format!("let {name}: {} = match kind_of({of}) {{", ty.name()));
            self.line(&format!("    Kind::First => {},", values[0]));
            self.line(&format!("    Kind::Second => {},", values[1]));
            self.line(&format!("    Kind::Third => {},", values[2]));
        } else {
            self.line(&format!("let {name}: {} = match ({of}, {condition}) {{", ty.name()));
            self.line(&format!("    (0, _) | (7, true) => {},", values[0]));
            self.line(&format!("    (LEAST, false) => {},", values[1]));
            self.line(&format!("    (1..=9 | 100.., _) => {},", values[2]));
            self.line(&format!("    (n, true) if n < -20 => {},", values[3]));
            let grown = "n = n.wrapping_mul(3); hash = mixed(hash, n as u32);";
            self.line(&format!("    (mut n, _) if n > 90 => {{ {grown} {} }}", values[0]));
            self.line(&format!("    (mut n, _) => {{ {grown} {} }}", values[4]));
        }
        self.line("};");
        self.vars.push((name, ty, false));
    }

    fn closure(&mut self) {
        let (name, value) = (self.fresh(), self.expr(F32, 1));
        let result = self.fresh();
        self.line(&format!("let {name} = |x: f32, n: usize| tame(x * {value} + floats[n & 3]);"));
        let (x, n) = (self.expr(F32, 1), self.expr(Usize, 1));
        self.line(&format!("let {result} = {name}(tame({x}), {n});"));
        self.vars.push((result, F32, false));
    }

    /// Operands that change what others read.
    fn order(&mut self) {
        let name = self.fresh();
        let value = self.expr(U32, 1);
        let text = match self.random.below(5) {
            0 => format!("bumped(&mut counter).wrapping_sub(bumped(&mut counter) ^ ({value}))"),
            1 => "counter ^ bumped(&mut counter) ^ (counter << 1)".to_string(),
            2 => format!("mixed(counter, {{ counter ^= {value}; bumped(&mut counter) }})"),
            3 => format!("mixed(bumped(&mut counter), mixed(counter, {value}))"),
            _ => format!(
                "if bumped(&mut counter) % 2 == 0 && bumped(&mut counter) % 3 == 0 {{ counter }} else \
                 {{ {value} }}"
            ),
        };
        self.line(&format!("let {name} = {text};"));
        self.vars.push((name, U32, false));
    }

    fn block_value(&mut self) {
        let (name, ty) = (self.fresh(), self.random.pick(&ALL));
        self.line(&format!("let {name}: {} = {{", ty.name()));
        self.indent += 1;
        let known = self.vars.len();
        self.depth += 1;
        self.declare();
        let value = self.expr(ty, 2);
        self.line(&value);
        self.depth -= 1;
        self.vars.truncate(known);
        self.indent -= 1;
        self.line("};");
        self.vars.push((name, ty, false));
    }

    fn early(&mut self) {
        let condition = self.expr(Bool, 2);
        if self.random.chance(30) {
            self.line(&format!("if {condition} {{"));
            self.line("    return mixed(hash, counter);");
            self.line("}");
        }
    }
}
