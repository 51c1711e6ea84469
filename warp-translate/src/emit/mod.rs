//! From [`crate::ir`] to C++ text.

mod block;
mod call;
mod choice;
mod constant;
mod control;
mod expr;
mod forms;
mod names;
mod place;
mod reserved;
mod team;
mod value;

pub(crate) use names::Globals;
pub(crate) use reserved::{c_name, is_name};
pub(crate) use value::{Effects, Val};

use crate::diagnostic::{Result, Span};
use crate::infer::World;
use crate::ir::{Expr, Function, Kind, Pattern, VarId};
use crate::modules::Modules;
use crate::team::Barriers;
use crate::types::Ty;
use std::collections::{HashMap, HashSet};

/// Columns of a line at most.
const WIDTH: usize = 100;

/// Lines that belong together, and what running them does.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Vec<String>,
    effects: Effects,
}

/// Where the value of a statement goes.
#[derive(Debug, Clone, PartialEq)]
enum Target {
    Discard,
    Assign(String),
    Return,
    /// Into a sum or the like: name and operator.
    Fold(String, &'static str),
}

/// What `return` means where the text is.
#[derive(Debug, Clone, PartialEq)]
enum Leave {
    Function,
    /// The round of a strided loop, whose value goes there; the number of loops around it.
    Round(Target, usize),
    /// Nothing: a closure that one thread runs.
    Nowhere,
}

/// The text of one function in the making.
pub(crate) struct Emitter<'m> {
    modules: &'m mut Modules,
    world: &'m World,
    globals: &'m mut Globals,
    function: &'m Function,
    barriers: &'m Barriers,
    lines: Lines,
    indent: usize,
    /// C names of variables.
    names: HashMap<VarId, String>,
    /// Variables that stand for a row, with its place and its length.
    rows: HashMap<VarId, Expr>,
    /// Variables of scratch, with the text of their length.
    scratch: HashMap<VarId, String>,
    /// Variables that must keep their value, as something else is made of them.
    pinned: HashSet<VarId>,
    /// Variables whose value C++ knows when it compiles.
    constants: HashSet<VarId>,
    /// C names in use, and the newest variable of each Rust name, block by block.
    scopes: Vec<HashMap<String, VarId>>,
    leave: Leave,
    /// Where each loop's value goes.
    loops: Vec<Target>,
    /// The last source line whose comments are written.
    cursor: usize,
}

impl<'m> Emitter<'m> {
    pub(crate) fn new(
        modules: &'m mut Modules,
        world: &'m World,
        globals: &'m mut Globals,
        function: &'m Function,
        barriers: &'m Barriers,
    ) -> Self {
        Self {
            modules,
            world,
            globals,
            function,
            barriers,
            lines: Lines::default(),
            indent: 1,
            names: HashMap::new(),
            rows: HashMap::new(),
            scratch: HashMap::new(),
            pinned: HashSet::new(),
            constants: HashSet::new(),
            scopes: vec![HashMap::new()],
            leave: Leave::Function,
            loops: Vec::new(),
            cursor: 0,
        }
    }

    /// Gives a parameter its name in C.
    pub(crate) fn name_param(&mut self, var: VarId) -> String {
        self.fresh_name(var, true)
    }

    /// The lines of the function's body, indented by one level.
    pub(crate) fn body(mut self) -> Result<Vec<String>> {
        let function = self.function;
        self.cursor = function.body.span.line;
        for param in &function.params {
            if !matches!(param.pattern, Pattern::Any) {
                let place = self.var_expr(param.var, function.body.span);
                self.take_apart(&param.pattern, &place)?;
            }
        }
        let target = if function.output == Ty::Unit { Target::Discard } else { Target::Return };
        self.block_into(&function.body, &target)?;
        Ok(self.lines.lines)
    }

    fn var_expr(&self, var: VarId, span: Span) -> Expr {
        Expr { kind: Kind::Var(var), ty: self.function.vars[var].ty.clone(), span }
    }

    fn line(&mut self, text: impl AsRef<str>) {
        let indent = "    ".repeat(self.indent);
        for line in wrap(text.as_ref(), self.indent * 4) {
            self.lines.lines.push(format!("{indent}{line}"));
        }
    }

    fn open(&mut self, text: impl AsRef<str>) {
        self.line(text);
        self.indent += 1;
        self.scopes.push(HashMap::new());
    }

    fn close(&mut self, text: &str) {
        self.indent -= 1;
        self.scopes.pop();
        self.line(text);
    }

    /// What `f` writes, apart.
    fn apart<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Lines)> {
        let before = std::mem::take(&mut self.lines);
        let result = f(self);
        let lines = std::mem::replace(&mut self.lines, before);
        Ok((result?, lines))
    }

    fn append(&mut self, lines: Lines) {
        self.lines.lines.extend(lines.lines);
        self.lines.effects = self.lines.effects.with(lines.effects);
    }

    /// Comments of lines before `line`.
    fn comments_before(&mut self, line: usize) {
        let file = self.function.body.span.file;
        let comments = self.modules.sources.get(file).map(|source| &source.comments.alone);
        let found: Vec<String> = comments
            .into_iter()
            .flat_map(|alone| alone.range(self.cursor + 1..line.max(self.cursor + 1)))
            .map(|(_, text)| text.clone())
            .collect();
        for text in found {
            self.comment(&text);
        }
        self.cursor = self.cursor.max(line);
    }

    fn comment(&mut self, text: &str) {
        let indent = "    ".repeat(self.indent);
        for line in comment_lines(text, self.indent * 4) {
            self.lines.lines.push(format!("{indent}{line}"));
        }
    }

    /// Puts the comment behind `line` of the source behind the last line written.
    fn comment_behind(&mut self, line: usize) {
        let file = self.function.body.span.file;
        let behind = self.modules.sources.get(file).map(|source| &source.comments.behind);
        let Some(text) = behind.and_then(|behind| behind.get(&line)).cloned() else { return };
        match self.lines.lines.last_mut() {
            Some(last) if last.len() + text.len() + 4 <= WIDTH && !last.contains("//") => {
                last.push_str(" // ");
                last.push_str(&ended(&text));
            }
            _ => self.comment(&text),
        }
    }
}

/// A line of a comment that ends where it says: a backslash at its end would draw the next line in, as
/// would its trigraph, and a carriage return inside is the end of a line for some compilers.
pub(crate) fn ended(line: &str) -> String {
    let mut line = line.replace(char::is_control, " ").trim_end().to_string();
    if line.ends_with('\\') || line.ends_with("??/") {
        line.push('.');
    }
    line
}

/// A comment as lines of `//`.
pub(crate) fn comment_lines(text: &str, indent: usize) -> Vec<String> {
    let mut lines = vec![String::from("//")];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if lines[last].len() + 1 + word.len() + indent > WIDTH && lines[last].len() > 2 {
            lines.push(format!("// {word}"));
        } else {
            lines[last] = format!("{} {word}", lines[last]);
        }
    }
    lines.iter().map(|line| ended(line)).collect()
}

/// Breaks a line of code that is too long, at the outermost blanks that come before its end; what
/// follows stands under what the open bracket holds.
pub(crate) fn wrap(text: &str, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.trim_end().to_string();
    let room = WIDTH - indent.min(WIDTH / 2);
    while rest.len() > room {
        let Some(at) = break_at(&rest, room) else { break };
        let next = rest[at..].trim_start().to_string();
        let line = rest[..at].trim_end().to_string();
        let under = open_bracket(&line).filter(|column| *column <= room / 2).unwrap_or(4);
        rest = format!("{}{next}", " ".repeat(under));
        lines.push(line);
    }
    lines.push(rest);
    lines
}

/// The column behind the innermost bracket that a line leaves open; that of its first word if it
/// leaves none open and is itself a continuation.
fn open_bracket(line: &str) -> Option<usize> {
    let mut open = Vec::new();
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'(' | b'[' => open.push(at + 1),
            b')' | b']' => drop(open.pop()),
            _ => {}
        }
    }
    let first = line.len() - line.trim_start().len();
    open.last().copied().or((first > 0).then_some(first))
}

/// Where to break: of the blanks that leave a line within `room`, one of the outermost, as far
/// right as it goes.
fn break_at(text: &str, room: usize) -> Option<usize> {
    let (mut depth, mut best) = (0_i32, None::<(i32, usize)>);
    let start = text.len() - text.trim_start().len();
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b' ' if at > start + 8 && at <= room => {
                let before = bytes[at - 1];
                let keyword = text[..at].ends_with("return") || text[..at].ends_with("unsigned");
                // Types and operators stay with what follows them; commas and operators end a line.
                let alone = !b" (".contains(&before) && operator_alone(&text[..at]);
                let ends = b",;".contains(&before) || alone;
                let loose = ends && !keyword && !text[at..].starts_with(" = ");
                // A little further in is fine if it fills the line much better.
                let cost = depth * 12 + ((room - at) as i32) / 3;
                if loose && best.is_none_or(|(least, _)| cost <= least) {
                    best = Some((cost, at));
                }
            }
            _ => {}
        }
    }
    best.map(|(_, at)| at)
}

/// Whether a text ends with an operator between two operands.
fn operator_alone(text: &str) -> bool {
    let word = text.rsplit(' ').next().unwrap_or_default();
    let operators = ["=", "?", ":", "&", "|", "&&", "||", "+", "-", "*", "/", "%", "^", "<", ">"];
    operators.contains(&word) || ["==", "!=", "<=", ">=", "+=", "-=", "*=", "|="].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_at_their_outermost_blanks() {
        let call = "float x = function_of_many(alpha_beta_gamma + 1.0f, delta_epsilon * 2.0f, \
                    zeta_eta_theta - 3.0f, iota);";
        let lines = wrap(call, 4);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| line.len() <= 96), "{lines:?}");
        assert!(lines[0].ends_with(','), "{lines:?}");
        let joined = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        assert_eq!(joined, call);
        assert_eq!(wrap("short;", 4), ["short;"]);
    }

    #[test]
    fn no_line_of_a_comment_draws_the_next_one_in() {
        assert_eq!(comment_lines("either / or \\", 0), ["// either / or \\."]);
        assert_eq!(comment_lines("what??/ ", 0), ["// what??/."]);
        assert_eq!(comment_lines("one \\ two\r", 0), ["// one \\ two"]);
        let long = format!("{} \\ {}", "word ".repeat(18), "word ".repeat(4));
        let lines = comment_lines(&long, 0);
        assert!(lines.len() > 1 && lines.iter().all(|line| !line.ends_with('\\')), "{lines:?}");
        assert_eq!(ended("\\ \u{1}"), "\\.");
    }
}
