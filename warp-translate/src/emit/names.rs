//! Names in C, and what a text needs besides its functions.

use crate::emit::Emitter;
use crate::emit::reserved::{around, item_name, local_name};
use crate::ir::VarId;
use crate::modules::Modules;
use crate::types::{ItemId, Ty};
use std::collections::HashMap;

/// What all functions of a text share.
#[derive(Debug, Default)]
pub(crate) struct Globals {
    /// C names of items, and whose they are.
    names: HashMap<ItemId, String>,
    taken: HashMap<String, ItemId>,
    /// Names that are no item's: dimensions.
    pub(crate) reserved: Vec<String>,
    /// Constants, structs and enums that the text needs, in the order in which they came up.
    pub(crate) needed: Vec<ItemId>,
}

impl Globals {
    /// The C name of an item; of two with one name the later gets its module's in front.
    pub(crate) fn item(&mut self, modules: &Modules, item: ItemId) -> String {
        if let Some(name) = self.names.get(&item) {
            return name.clone();
        }
        let of = &modules.items[item];
        let plain = item_name(&of.name);
        let upper = plain.chars().all(|c| !c.is_ascii_lowercase());
        let module = &modules.modules[of.module].name;
        let module = if upper { module.to_uppercase() } else { module.clone() };
        let mut name = plain.clone();
        let mut count = 1;
        while self.taken.contains_key(&name) || self.reserved.contains(&name) || around(&name) {
            name = if count == 1 {
                format!("{module}_{plain}")
            } else {
                format!("{module}_{plain}_{count}")
            };
            count += 1;
        }
        self.taken.insert(name.clone(), item);
        self.names.insert(item, name.clone());
        name
    }

    /// The same, of something that must stand in the text before its functions.
    pub(crate) fn need(&mut self, modules: &Modules, item: ItemId) -> String {
        if !self.needed.contains(&item) {
            self.needed.push(item);
        }
        self.item(modules, item)
    }

    /// A type in C.
    pub(crate) fn ty(&mut self, modules: &Modules, ty: &Ty) -> String {
        match ty {
            Ty::F32 => "float".into(),
            Ty::I32 => "int".into(),
            Ty::U32 | Ty::Usize => "unsigned int".into(),
            Ty::I64 => "long long".into(),
            Ty::U64 => "unsigned long long".into(),
            Ty::U8 => "unsigned char".into(),
            Ty::Bool => "bool".into(),
            Ty::Array(element, n) => format!("WarpArray<{}, {n}>", self.ty(modules, element)),
            Ty::Slice(element, true) => format!("WarpSlice<{}>", self.ty(modules, element)),
            Ty::Slice(element, false) => format!("WarpSlice<const {}>", self.ty(modules, element)),
            Ty::Ref(inner, mutable) => match &**inner {
                Ty::Ref(..) | Ty::Slice(..) => self.ty(modules, inner),
                // What the environment shares is never written.
                Ty::World | Ty::Tables | Ty::Params | Ty::Actions => {
                    format!("const {}&", self.ty(modules, inner))
                }
                inner if *mutable => format!("{}&", self.ty(modules, inner)),
                inner => format!("const {}&", self.ty(modules, inner)),
            },
            Ty::Tuple(parts) => {
                let names: Vec<String> = parts.iter().map(|part| self.ty(modules, part)).collect();
                format!("WarpTuple{}<{}>", parts.len(), names.join(", "))
            }
            Ty::Struct(item) | Ty::Enum(item) => self.need(modules, *item),
            Ty::Draw => "WarpDraw".into(),
            Ty::World | Ty::Tables => "Env".into(),
            Ty::Params => "Params".into(),
            Ty::State => "State".into(),
            Ty::Actions => "Actions".into(),
            Ty::StepOut => "StepOut".into(),
            Ty::Observation => "Observation".into(),
            Ty::Unit | Ty::Never | Ty::Groups(_) | Ty::Closure(_) | Ty::Var(_) => "void".into(),
        }
    }
}

impl Emitter<'_> {
    /// A type in C.
    pub(crate) fn c_type(&mut self, ty: &Ty) -> String {
        self.ty(ty)
    }

    /// Gives the environment its name in a function of the contract.
    pub(crate) fn name_world(&mut self, var: VarId) -> String {
        if self.function.vars[var].name != "self" {
            return self.fresh_name(var, true);
        }
        let name = self.keep_world();
        self.names.insert(var, name.clone());
        name
    }

    /// The name of the environment, which no variable of the function gets then.
    pub(crate) fn keep_world(&mut self) -> String {
        self.unique("env", None)
    }

    pub(super) fn ty(&mut self, ty: &Ty) -> String {
        self.globals.ty(self.modules, ty)
    }

    fn in_use(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.contains_key(name))
            || self.globals.reserved.iter().any(|other| other == name)
            || self.globals.taken.contains_key(name)
    }

    /// A C name for a variable. A variable that takes the place of another in the same block, as in
    /// `let x = f(x)`, may take its name over; then the flag is true, and no declaration is due.
    pub(super) fn fresh_name(&mut self, var: VarId, apart: bool) -> String {
        self.name_or_reuse(var, apart).0
    }

    pub(super) fn name_or_reuse(&mut self, var: VarId, apart: bool) -> (String, bool) {
        let own = &self.function.vars[var];
        let plain =
            if own.name.is_empty() || own.name == "_" { "unused" } else { own.name.as_str() };
        let plain = local_name(plain);
        if !apart && let Some(name) = self.reusable(var, &plain) {
            if let Some(scope) = self.scopes.last_mut() {
                scope.insert(name.clone(), var);
            }
            self.names.insert(var, name.clone());
            return (name, true);
        }
        let name = self.unique(&plain, Some(var));
        self.names.insert(var, name.clone());
        (name, false)
    }

    fn reusable(&self, var: VarId, name: &str) -> Option<String> {
        let own = &self.function.vars[var];
        let previous = *self.scopes.last()?.get(name)?;
        let other = self.function.vars.get(previous)?;
        let free = |v: VarId| !self.function.vars[v].captured && !self.pinned.contains(&v);
        let same = other.ty == own.ty && own.ty.is_scalar() && local_name(&other.name) == name;
        (same && free(var) && free(previous)).then(|| name.to_string())
    }

    /// A name that nothing else has, made from `plain`.
    pub(super) fn unique(&mut self, plain: &str, var: Option<VarId>) -> String {
        let mut name = plain.to_string();
        let mut count = 1;
        while self.in_use(&name) {
            count += 1;
            name = format!("{plain}_{count}");
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone(), var.unwrap_or(VarId::MAX));
        }
        name
    }
}
