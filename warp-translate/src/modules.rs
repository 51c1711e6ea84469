//! Modules and what they declare; files are found and read as names are followed.

use crate::conditional::{SENTENCE, attributes, has_conditional_parts, is_conditional};
use crate::declared::{Declared, declared_in, docs_of};
use crate::diagnostic::{Result, Span, fault};
use crate::source::{Source, span_of};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;

pub(crate) type ModuleId = usize;

/// All that was read.
#[derive(Default)]
pub(crate) struct Modules {
    pub(crate) sources: Vec<Source>,
    pub(crate) modules: Vec<Module>,
    pub(crate) items: Vec<Item>,
    by_path: HashMap<PathBuf, ModuleId>,
}

/// One module.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) file: usize,
    /// Documentation of the file.
    pub(crate) docs: Vec<String>,
    pub(crate) items: HashMap<String, usize>,
    /// Functions of `impl` blocks, by type and name.
    pub(crate) methods: HashMap<(String, String), usize>,
    uses: HashMap<String, (Vec<String>, Span)>,
    globs: Vec<Vec<String>>,
    children: HashMap<String, ModuleId>,
    /// `mod name;`, not yet read.
    declared: HashMap<String, Span>,
    parent: Option<ModuleId>,
    /// Of a block of a function, which declares constants: what is around it.
    outer: Option<ModuleId>,
    /// Where `mod name;` is looked for.
    folder: PathBuf,
}

/// Something that a module declares.
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) module: ModuleId,
    pub(crate) span: Span,
    pub(crate) docs: Vec<String>,
    pub(crate) what: Declared,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found {
    Item(usize),
    Module(ModuleId),
    /// Of another crate, from its name on.
    Outside(Vec<String>),
}

impl Modules {
    /// Whether a `use` of a module ends in `*`.
    pub(crate) fn has_globs(&self, id: ModuleId) -> bool {
        let of = &self.modules[id];
        !of.globs.is_empty() || of.outer.is_some_and(|outer| self.has_globs(outer))
    }

    /// A block of a function as a module that declares its constants; all other names are those of `outer`.
    pub(crate) fn block(&mut self, outer: ModuleId, constants: &[&syn::ItemConst]) -> ModuleId {
        let (name, file) = (self.modules[outer].name.clone(), self.modules[outer].file);
        self.modules.push(Module { name, file, outer: Some(outer), ..Module::default() });
        let id = self.modules.len() - 1;
        for constant in constants {
            let at = (self.span(id, constant), docs_of(&constant.attrs));
            let what = Declared::Const(Box::new((*constant).clone()));
            self.add(id, constant.ident.to_string(), at, what);
        }
        id
    }

    /// The module of a file, which is read the first time.
    pub(crate) fn file(&mut self, path: &Path) -> Result<ModuleId> {
        if let Some(module) = self.by_path.get(path) {
            return Ok(*module);
        }
        let (source, ast) = Source::read(path, self.sources.len()).inspect_err(|_| {
            // The message needs the file's name.
            self.sources.push(Source {
                path: path.to_path_buf(),
                text: String::new(),
                comments: Default::default(),
            });
        })?;
        self.add_file(path, source, &ast)
    }

    pub(crate) fn add_file(
        &mut self,
        path: &Path,
        source: Source,
        ast: &syn::File,
    ) -> Result<ModuleId> {
        let stem = path.file_stem().map(|s| s.to_string_lossy().to_string()).unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let own = matches!(stem.as_str(), "mod" | "lib" | "main");
        let name = match (own, folder.file_name()) {
            (true, Some(name)) => name.to_string_lossy().to_string(),
            _ => stem.clone(),
        };
        let file = self.sources.len();
        self.sources.push(source);
        let module = Module {
            name,
            file,
            docs: docs_of(&ast.attrs),
            folder: if own { folder } else { folder.join(stem) },
            ..Module::default()
        };
        self.modules.push(module);
        let id = self.modules.len() - 1;
        self.by_path.insert(path.to_path_buf(), id);
        self.declare(id, &ast.items)?;
        Ok(id)
    }

    fn declare(&mut self, id: ModuleId, items: &[syn::Item]) -> Result<()> {
        for item in items {
            if is_test(item) {
                continue;
            }
            let span = self.span(id, item);
            let conditional = is_conditional(attributes(item));
            match item {
                syn::Item::Use(item) => self.uses(id, &mut Vec::new(), &item.tree, span),
                syn::Item::Mod(item) => self.child(id, item, span)?,
                syn::Item::Impl(item) => self.methods(id, item),
                other => {
                    let parts = has_conditional_parts(other);
                    for (name, docs, what) in declared_in(other, self.modules[id].file)? {
                        let twice = conditional && self.modules[id].items.contains_key(&name);
                        let what = if parts || twice { Declared::Refused(SENTENCE) } else { what };
                        self.add(id, name, (span, docs), what);
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, id: ModuleId, name: String, at: (Span, Vec<String>), what: Declared) {
        let (span, docs) = at;
        self.items.push(Item { name: name.clone(), module: id, span, docs, what });
        self.modules[id].items.insert(name, self.items.len() - 1);
    }

    fn span(&self, id: ModuleId, node: &impl Spanned) -> Span {
        let span = node.span();
        span_of(self.modules[id].file, span.start(), span.end())
    }

    fn child(&mut self, id: ModuleId, item: &syn::ItemMod, span: Span) -> Result<()> {
        let name = item.ident.to_string();
        let Some((_, items)) = &item.content else {
            self.modules[id].declared.insert(name, span);
            return Ok(());
        };
        let module = Module {
            name: name.clone(),
            file: self.modules[id].file,
            folder: self.modules[id].folder.join(&name),
            parent: Some(id),
            ..Module::default()
        };
        self.modules.push(module);
        let child = self.modules.len() - 1;
        self.modules[id].children.insert(name, child);
        self.declare(child, items)
    }

    fn methods(&mut self, id: ModuleId, item: &syn::ItemImpl) {
        let syn::Type::Path(of) = &*item.self_ty else { return };
        let Some(of) = of.path.segments.last() else { return };
        let of = of.ident.to_string();
        if item.trait_.as_ref().is_some_and(|(_, path, _)| last(path) == "Env") {
            let span = self.span(id, item);
            let what = Declared::World(Box::new(item.clone()));
            self.add(id, format!("impl Env for {of}"), (span, Vec::new()), what);
            return;
        }
        for part in &item.items {
            let syn::ImplItem::Fn(function) = part else { continue };
            let span = self.span(id, function);
            let name = function.sig.ident.to_string();
            let docs = docs_of(&function.attrs);
            let twice = is_conditional(&[&item.attrs[..], &function.attrs[..]].concat())
                && self.modules[id].methods.contains_key(&(of.clone(), name.clone()));
            let what = Declared::Fn(Box::new(syn::ItemFn {
                attrs: function.attrs.clone(),
                vis: function.vis.clone(),
                sig: function.sig.clone(),
                block: Box::new(function.block.clone()),
            }));
            let what = if twice { Declared::Refused(SENTENCE) } else { what };
            self.items.push(Item { name: format!("{of}_{name}"), module: id, span, docs, what });
            let (method, methods) = (self.items.len() - 1, &mut self.modules[id].methods);
            // As in Rust, a type's own method comes before that of a trait.
            match item.trait_ {
                Some(_) => drop(methods.entry((of.clone(), name)).or_insert(method)),
                None => drop(methods.insert((of.clone(), name), method)),
            }
        }
    }

    fn uses(&mut self, id: ModuleId, path: &mut Vec<String>, tree: &syn::UseTree, span: Span) {
        let mut keep = |name: String, path: Vec<String>| {
            let before = self.modules[id].uses.insert(name.clone(), (path.clone(), span));
            if before.is_some_and(|(other, _)| other != path) {
                self.add(id, name, (span, Vec::new()), Declared::Refused(SENTENCE));
            }
        };
        match tree {
            syn::UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.uses(id, path, &part.tree, span);
                path.pop();
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                keep(path.last().cloned().unwrap_or_default(), path.clone());
            }
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                keep(name.clone(), [&path[..], &[name]].concat());
            }
            syn::UseTree::Rename(name) => {
                let whole = [&path[..], &[name.ident.to_string()]].concat();
                keep(name.rename.to_string(), whole);
            }
            syn::UseTree::Glob(_) => self.modules[id].globs.push(path.clone()),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.uses(id, path, tree, span);
                }
            }
        }
    }

    /// Follows a path from a module.
    pub(crate) fn resolve(&mut self, from: ModuleId, path: &[String], span: Span) -> Result<Found> {
        let found = self.follow(from, path, span, 0)?;
        if let Found::Item(item) = found
            && let Declared::Refused(sentence) = self.items[item].what
        {
            return fault(span, sentence);
        }
        Ok(found)
    }

    fn follow(
        &mut self,
        from: ModuleId,
        path: &[String],
        span: Span,
        depth: usize,
    ) -> Result<Found> {
        if depth > 32 {
            return fault(span, format!("`{}` is defined in terms of itself", path.join("::")));
        }
        let Some((first, rest)) = path.split_first() else {
            return Ok(Found::Module(from));
        };
        if let Some(outer) = self.modules[from].outer {
            return match self.modules[from].items.get(first) {
                Some(item) => self.ended(Found::Item(*item), path, span),
                None => self.follow(outer, path, span, depth + 1),
            };
        }
        match first.as_str() {
            "self" => return self.follow(from, rest, span, depth + 1),
            "super" => {
                let parent = self.parent(from, span)?;
                return self.follow(parent, rest, span, depth + 1);
            }
            "crate" => {
                let root = self.root(from, span)?;
                return self.follow(root, rest, span, depth + 1);
            }
            _ => {}
        }
        if let Some(item) = self.modules[from].items.get(first) {
            return self.ended(Found::Item(*item), path, span);
        }
        if let Some(child) = self.child_named(from, first)? {
            return self.follow(child, rest, span, depth + 1);
        }
        if let Some((used, at)) = self.modules[from].uses.get(first).cloned() {
            let whole = [&used[..], rest].concat();
            if used.len() == 1 && used[0] == *first {
                return Ok(Found::Outside(whole));
            }
            return self.follow(from, &whole, at, depth + 1);
        }
        for glob in self.modules[from].globs.clone() {
            let whole = [&glob[..], path].concat();
            if let Ok(found @ Found::Item(_)) = self.follow(from, &whole, span, depth + 1) {
                return Ok(found);
            }
        }
        Ok(Found::Outside(path.to_vec()))
    }

    /// An item, unless something stands behind its name.
    fn ended(&self, found: Found, path: &[String], span: Span) -> Result<Found> {
        if path.len() == 1 {
            return Ok(found);
        }
        let Found::Item(item) = found else { return Ok(found) };
        // `Enum::Variant` and `Struct::function` are taken apart by who asks.
        match self.items[item].what {
            Declared::Enum(_) | Declared::Struct(_) if path.len() == 2 => Ok(found),
            Declared::Refused(_) => Ok(found),
            _ => fault(span, format!("`{}` leads nowhere", path.join("::"))),
        }
    }

    fn child_named(&mut self, from: ModuleId, name: &str) -> Result<Option<ModuleId>> {
        if let Some(child) = self.modules[from].children.get(name) {
            return Ok(Some(*child));
        }
        let Some(span) = self.modules[from].declared.get(name).copied() else { return Ok(None) };
        let folder = &self.modules[from].folder;
        let places = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
        let Some(path) = places.iter().find(|path| path.is_file()) else {
            return fault(span, format!("module {name} has no file {}", places[0].display()));
        };
        let child = self.file(path)?;
        self.modules[child].parent = Some(from);
        self.modules[from].children.insert(name.to_string(), child);
        Ok(Some(child))
    }

    fn parent(&mut self, of: ModuleId, span: Span) -> Result<ModuleId> {
        if let Some(parent) = self.modules[of].parent {
            return Ok(parent);
        }
        let path = self.sources[self.modules[of].file].path.clone();
        let stem = path.file_stem().map(|s| s.to_string_lossy().to_string()).unwrap_or_default();
        let mut folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        if stem == "mod" {
            folder.pop();
        }
        let beside = folder.with_extension("rs");
        let names = ["mod.rs", "lib.rs", "main.rs"].map(|name| folder.join(name));
        let Some(parent) = names.iter().chain([&beside]).find(|path| path.is_file()) else {
            return fault(span, "`super` leads to no file");
        };
        let parent = self.file(&parent.clone())?;
        self.modules[of].parent = Some(parent);
        Ok(parent)
    }

    fn root(&mut self, of: ModuleId, span: Span) -> Result<ModuleId> {
        let path = self.sources[self.modules[of].file].path.clone();
        for folder in path.ancestors().skip(1) {
            for name in ["lib.rs", "main.rs"] {
                if folder.ends_with("src") && folder.join(name).is_file() {
                    return self.file(&folder.join(name));
                }
            }
        }
        fault(span, "`crate` leads to no src/lib.rs or src/main.rs")
    }
}

fn last(path: &syn::Path) -> String {
    path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

fn is_test(item: &syn::Item) -> bool {
    attributes(item).iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let what = list.tokens.to_string();
            what == "test" || what == "not (warp_translate)"
        }
        _ => false,
    })
}
