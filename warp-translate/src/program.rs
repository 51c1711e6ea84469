//! The whole text: what is reachable from the entries, helpers before who calls them.

use crate::declared::{Declared, FieldType};
use crate::diagnostic::{Fault, Result, Span, fault};
use crate::emit::{Emitter, Globals, comment_lines, wrap};
use crate::infer::{World, function};
use crate::ir::{Function, Kind, VarId};
use crate::modules::{ModuleId, Modules};
use crate::team::{Analysis, Barriers, has_phases};
use crate::types::{ItemId, Ty};
use crate::walk;
use std::collections::HashMap;

/// A function of the text: one of the contract's, or a helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Entry(&'static str),
    Helper,
}

/// The parameters of the contract's functions: type and how C passes it.
type Slot = (Ty, &'static str);

fn slots(entry: &str) -> Vec<Slot> {
    let env = (Ty::World, "const Env&");
    let draw = (Ty::Draw, "WarpDraw&");
    match entry {
        "reset" => vec![env, (Ty::State, "State&"), draw],
        "observe" => vec![env, (Ty::State, "const State&"), (Ty::Observation, "Observation&")],
        _ => vec![
            env,
            (Ty::State, "State&"),
            (Ty::Actions, "const Actions&"),
            draw,
            (Ty::StepOut, "StepOut&"),
        ],
    }
}

/// The making of one text.
pub(crate) struct Program<'m> {
    pub(crate) modules: &'m mut Modules,
    pub(crate) world: World,
    pub(crate) globals: Globals,
    functions: HashMap<ItemId, Function>,
    /// Helpers in the order of the text, with their lines.
    done: Vec<(ItemId, Vec<String>)>,
    /// Whether a team of threads runs it.
    team: bool,
    barriers: Barriers,
    /// Whether functions call themselves.
    circular: bool,
    pub(crate) faults: Vec<Fault>,
}

impl<'m> Program<'m> {
    pub(crate) fn new(modules: &'m mut Modules, world: World, team: bool) -> Self {
        let mut globals = Globals::default();
        if let Some(state) = world.state
            && let Declared::State(fields) = &modules.items[state].what
        {
            for field in fields {
                if let FieldType::Rows(_, dims) = &field.ty {
                    globals.reserved.extend(dims.iter().cloned());
                }
            }
        }
        let (functions, done, faults) = (HashMap::new(), Vec::new(), Vec::new());
        let barriers = Barriers::default();
        Self { modules, world, globals, functions, done, team, barriers, circular: false, faults }
    }

    /// The functions of the contract, each with the item that is its body.
    pub(crate) fn entries(&mut self, entries: &[(&'static str, ItemId)]) {
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|(_, item)| self.place(*item));
        let bodies: Vec<ItemId> = sorted.iter().map(|(_, item)| *item).collect();
        self.analyse(&bodies);
        for (name, item) in sorted {
            self.emit(item, Role::Entry(name));
        }
    }

    /// Finds where a team waits in functions that begin and end with a barrier.
    fn analyse(&mut self, items: &[ItemId]) {
        items.iter().for_each(|item| self.load_all(*item, &mut Vec::new()));
        if self.circular {
            return;
        }
        let twins = self.functions.keys().copied();
        let twins =
            twins.filter(|item| crate::twin::in_cuda(self.modules, *item).is_some()).collect();
        let mut analysis = Analysis::new(&self.functions, twins);
        for item in items {
            if self.team || has_phases(&self.functions, *item) {
                analysis.entry(*item);
            }
        }
        self.faults.append(&mut analysis.faults);
        self.barriers = analysis.barriers;
    }

    /// Reads a function and all that it calls.
    fn load_all(&mut self, item: ItemId, above: &mut Vec<ItemId>) {
        if self.functions.contains_key(&item) || !self.load(item) {
            return;
        }
        above.push(item);
        for (callee, span) in self.calls(item) {
            if above.contains(&callee) {
                let name = &self.modules.items[callee].name;
                let sentence = format!("`{name}` calls itself; write a loop");
                self.faults.push(Fault { span, sentence });
                self.circular = true;
            } else {
                self.load_all(callee, above);
            }
        }
        above.pop();
    }

    /// Functions under their own names.
    pub(crate) fn helpers(&mut self, items: &[ItemId]) {
        self.analyse(items);
        for item in items {
            self.emit(*item, Role::Helper);
        }
    }

    pub(crate) fn place(&self, item: ItemId) -> (usize, usize) {
        let span = self.modules.items[item].span;
        (span.file, span.line)
    }

    fn load(&mut self, item: ItemId) -> bool {
        if self.functions.contains_key(&item) {
            return true;
        }
        match function(self.modules, &self.world, item) {
            Ok(made) => {
                self.functions.insert(item, made);
                true
            }
            Err(fault) => {
                self.faults.push(fault);
                false
            }
        }
    }

    /// What a function calls, and where.
    fn calls(&self, item: ItemId) -> Vec<(ItemId, Span)> {
        let mut calls = Vec::new();
        if let Some(function) = self.functions.get(&item) {
            walk::all(&function.body, &mut |expr| {
                if let Kind::Call(callee, _) = expr.kind {
                    calls.push((callee, expr.span));
                }
            });
        }
        calls.sort_by_key(|(callee, _)| self.place(*callee));
        calls
    }

    /// Writes a function after those that it calls.
    fn emit(&mut self, item: ItemId, role: Role) {
        let again = role == Role::Helper && self.done.iter().any(|(done, _)| *done == item);
        if again || self.circular || !self.functions.contains_key(&item) {
            return;
        }
        for (callee, _) in self.calls(item) {
            self.emit(callee, Role::Helper);
        }
        match self.written(item, role) {
            Ok(lines) => self.done.push((item, lines)),
            Err(fault) => self.faults.push(fault),
        }
    }

    fn written(&mut self, item: ItemId, role: Role) -> Result<Vec<String>> {
        let of = self.functions[&item].clone();
        let barriers = self.barriers.clone();
        let twin = crate::twin::in_cuda(self.modules, item);
        let mut lines = comments(&self.modules.items[item].docs);
        lines.splice(0..0, self.comments_above(item));
        let name = match role {
            Role::Entry(name) => name.to_string(),
            Role::Helper => self.globals.item(self.modules, item),
        };
        let mut emitter =
            Emitter::new(self.modules, &self.world, &mut self.globals, &of, &barriers);
        let (head, prelude) = match role {
            Role::Entry(_) => entry_head(&mut emitter, &of, &name),
            Role::Helper => (helper_head(&mut emitter, &of, &name), Vec::new()),
        };
        if let Some(path) = &twin {
            let Ok(text) = std::fs::read_to_string(path) else {
                let sentence = format!("the twin {} cannot be read", path.display());
                return fault(self.modules.items[item].span, sentence);
            };
            lines.extend(wrap(&head.replace(" {", ";"), 0));
            lines.push(String::new());
            lines.extend(text.trim_end().lines().map(String::from));
            return Ok(lines);
        }
        let body = emitter.body()?;
        lines.extend(wrap(&head, 0));
        lines.extend(prelude);
        lines.extend(body);
        lines.push("}".into());
        Ok(lines)
    }

    /// Plain comments right above an item.
    fn comments_above(&self, item: ItemId) -> Vec<String> {
        let span = self.modules.items[item].span;
        let Some(source) = self.modules.sources.get(span.file) else { return Vec::new() };
        let mut lines = Vec::new();
        let mut line = span.line;
        while line > 1
            && let Some(text) = source.comments.alone.get(&(line - 1))
        {
            lines.push(text.clone());
            line -= 1;
        }
        lines.reverse();
        lines.iter().flat_map(|text| comment_lines(text, 0)).collect()
    }

    /// Everything that was written.
    pub(crate) fn text(mut self, header: &str) -> std::result::Result<String, Vec<Fault>> {
        let mut text = format!("{header}\n");
        let constants = self.constants();
        if !constants.is_empty() {
            text += "\n";
            text += &constants;
        }
        for (_, lines) in &self.done {
            text += "\n";
            text += &lines.join("\n");
            text += "\n";
        }
        if self.faults.is_empty() { Ok(text) } else { Err(self.faults) }
    }
}

/// Documentation as comments: links lose their brackets.
pub(crate) fn comments(docs: &[String]) -> Vec<String> {
    let line = |text: &String| text.replace("[`", "`").replace("`]", "`");
    docs.iter().flat_map(|text| comment_lines(&line(text), 0)).collect()
}

/// The head of a function of the contract, and the lines that its body begins with.
fn entry_head(emitter: &mut Emitter<'_>, of: &Function, name: &str) -> (String, Vec<String>) {
    let var_of = |wanted: &Ty| {
        let mut params = of.params.iter();
        params.find(|param| of.vars[param.var].ty.behind() == wanted).map(|param| param.var)
    };
    let used = |var: &VarId| of.vars[*var].uses > 0;
    let views = [(Ty::Params, "const Params&", "env.params"), (Ty::Tables, "const Env&", "env")];
    let viewed = views.iter().any(|(ty, ..)| var_of(ty).is_some_and(|var| used(&var)));
    let mut params = Vec::new();
    for (ty, c_type) in slots(name) {
        let name = match var_of(&ty).filter(used) {
            Some(var) if ty == Ty::World => Some(emitter.name_world(var)),
            Some(var) => Some(emitter.name_param(var)),
            None if ty == Ty::World && viewed => Some(emitter.keep_world()),
            None => None,
        };
        params.push(match name {
            Some(name) => format!("{c_type} {name}"),
            None => c_type.to_string(),
        });
    }
    let mut prelude = Vec::new();
    for (ty, c_type, value) in views {
        if let Some(var) = var_of(&ty).filter(used) {
            prelude.push(format!("    {c_type} {} = {value};", emitter.name_param(var)));
        }
    }
    (format!("__device__ inline void {name}({}) {{", params.join(", ")), prelude)
}

fn helper_head(emitter: &mut Emitter<'_>, of: &Function, name: &str) -> String {
    let mut params = Vec::new();
    for param in &of.params {
        let ty = emitter.c_type(&of.vars[param.var].ty);
        params.push(format!("{ty} {}", emitter.name_param(param.var)));
    }
    let output = emitter.c_type(&of.output);
    format!("__device__ inline {output} {name}({}) {{", params.join(", "))
}

/// The types that an `impl Env` names, and the items that are the bodies of its functions.
pub(crate) fn world_of(
    modules: &mut Modules,
    module: ModuleId,
) -> Result<(World, Vec<(&'static str, ItemId)>)> {
    let found = modules
        .items
        .iter()
        .position(|item| item.module == module && matches!(item.what, Declared::World(_)));
    let Some(found) = found else {
        let span = Span { file: modules.modules[module].file, ..Span::default() };
        return fault(span, "there is no `impl Env for ...` in this file");
    };
    let span = modules.items[found].span;
    let Declared::World(of) = &modules.items[found].what else { return fault(span, "no world") };
    let of = of.clone();
    let world = crate::entry::types(modules, module, &of, span)?;
    let mut entries = Vec::new();
    for name in ["reset", "observe", "step"] {
        entries.push((name, crate::entry::body(modules, &world, module, &of, name, span)?));
    }
    Ok((world, entries))
}
