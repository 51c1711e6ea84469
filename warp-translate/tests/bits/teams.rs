//! Random bodies of teams: phases over shared rows that keep the rules of `warp_core::team`.

use crate::random::Random;

/// Elements of each row.
pub(crate) const LEN: usize = 16;

const FLOATS: [&str; 2] = ["x", "z"];

struct Team {
    random: Random,
    text: String,
    indent: usize,
    count: usize,
    /// Values that all threads know, of type i32.
    alike: Vec<String>,
}

/// Function number `k` over two rows of f32 and one of i32.
pub(crate) fn function(k: usize, seed: u64) -> String {
    let random = Random(seed.wrapping_add((k as u64) << 32));
    let alike = vec!["p".into()];
    let mut team = Team { random, text: String::new(), indent: 1, count: 0, alike };
    team.line(&format!("let mut own = team::shared::<f32, {LEN}>();"));
    team.line("let n = x.len();");
    team.line("let last = n - 1;");
    team.line("for i in team::each(n) { own[i] = tame(x[i] * 0.5); }");
    let n = 3 + team.random.below(5);
    for _ in 0..n {
        team.phase(0);
    }
    let sum = team.alike.join(").wrapping_add(");
    team.line(&format!("team::once(|| y[0] = y[0].wrapping_add(({sum})));"));
    format!("\nfn t_{k}(x: &mut [f32], z: &mut [f32], y: &mut [i32], p: i32) {{\n{}}}\n", team.text)
}

impl Team {
    fn line(&mut self, text: &str) {
        self.text.push_str(&"    ".repeat(self.indent));
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn fresh(&mut self) -> String {
        self.count += 1;
        format!("s{}", self.count)
    }

    /// A float of the shared rows but for `without`, of which only the own element may be read.
    fn read(&mut self, without: &str) -> String {
        let from = self.random.pick(&["x", "z", "own"]);
        let at = if from == without || self.random.chance(40) {
            "i".into()
        } else {
            let by = self.random.below(LEN);
            self.random.pick(&[
                format!("(i + {by}) % n"),
                format!("{by}"),
                format!("(i * 3) % {LEN}"),
            ])
        };
        let alike = self.random.pick(&self.alike.clone());
        match self.random.below(4) {
            0 => format!("tame({from}[{at}] * 1.5 - (({alike} & 7) as f32))"),
            1 => format!("math::sin({from}[{at}])"),
            2 => format!("if {from}[{at}] < 0.5 {{ {from}[{at}] }} else {{ 0.25 }}"),
            _ => format!("{from}[{at}]"),
        }
    }

    fn phase(&mut self, depth: usize) {
        match self.random.below(if depth > 1 { 9 } else { 12 }) {
            0 | 1 => {
                let to = self.random.pick(&["x", "z", "own"]);
                let (a, b) = (self.read(to), self.read(to));
                self.line("for i in team::each(n) {");
                if self.random.chance(30) {
                    let left_out = self.random.below(4);
                    self.line(&format!("    if y[i] & 3 == {left_out} {{"));
                    self.line("        continue;");
                    self.line("    }");
                }
                self.line(&format!("    let other = {a};"));
                self.line(&format!("    {to}[i] = tame(other + ({b}));"));
                self.line("}");
            }
            2 => {
                let (from, at) = (self.random.pick(&FLOATS), self.random.below(LEN));
                let other = self.random.below(LEN);
                self.line("team::once(|| {");
                self.line(&format!("    {from}[{at}] = tame(own[{other}] + 1.0);"));
                self.line(&format!("    y[{other}] ^= p;"));
                self.line("});");
            }
            3 => {
                let value = self.read("");
                let by = 1 + self.random.below(5);
                self.line("for i in team::each(n) {");
                self.line(&format!("    let value = {value};"));
                self.line(&format!("    team::add(y, i * {by} % n, value as i32);"));
                self.line("}");
            }
            4..=6 => self.tell(),
            7 => {
                let to = self.random.pick(&FLOATS);
                let from = if to == "x" { "z" } else { "x" };
                self.line(&format!("team::fill({to}, 4, {}, |row, column| {{", LEN / 4));
                self.line(&format!(
                    "    if row == column {{ 1.0 }} else {{ {from}[row * 4 + column] }}"
                ));
                self.line("});");
            }
            8 => {
                let (to, part) = (self.random.pick(&FLOATS), self.fresh());
                self.line(&format!("let {part} = &mut {to}[..last];"));
                self.line(&format!(
                    "for i in team::each(last) {{ {part}[i] = tame({part}[i] + 0.5); }}"
                ));
                self.line(&format!("team::once(|| {to}[last] = tame(own[3] - {to}[last]));"));
            }
            9 => {
                let alike = self.random.pick(&self.alike.clone());
                self.line(&format!("if {alike} & 1 == 0 {{"));
                self.nested(depth);
                self.line("} else {");
                self.nested(depth);
                self.line("}");
            }
            10 => {
                let rounds = 2 + self.random.below(2);
                self.line(&format!("for _ in 0..{rounds} {{"));
                self.nested(depth);
                self.line("}");
            }
            _ => {
                let name = self.fresh();
                let at = self.random.below(LEN);
                self.line(&format!("let {name} = y[{at}].wrapping_add((x[{at}] * 2.0) as i32);"));
                self.alike.push(format!("({name} & 0xffff)"));
            }
        }
    }

    /// A value that all threads get from all.
    fn tell(&mut self) {
        let (name, value) = (self.fresh(), self.read(""));
        match self.random.below(4) {
            0 => self.line(&format!("let {name} = i32::from(team::any(n, |i| ({value}) > 0.75));")),
            1 => self.line(&format!("let {name} = team::sum(n, |i| y[i] & 0xff);")),
            2 => {
                let key = format!("(i64::from(({value}) as i32) << 32) - i as i64");
                let bits = "(least ^ (least >> 31)) as i32";
                self.line(&format!("let least = team::least(n, |i| {key});"));
                self.line(&format!("let {name} = {bits};"));
            }
            _ => {
                let parts = self.random.pick(&[1, 3, 4, 8]);
                let sum = format!("team::sum_parts::<{parts}>(n, |i| {value})");
                self.line(&format!("let {name} = {sum} as i32;"));
            }
        }
        self.alike.push(name);
    }

    fn nested(&mut self, depth: usize) {
        let known = self.alike.len();
        self.indent += 1;
        for _ in 0..1 + self.random.below(2) {
            self.phase(depth + 1);
        }
        self.indent -= 1;
        self.alike.truncate(known);
    }
}
