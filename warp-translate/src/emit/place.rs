//! Places: variables, fields, elements, rows and their lengths.

use crate::diagnostic::{Result, fault};
use crate::emit::value::prec;
use crate::emit::{Effects, Emitter, Val};
use crate::ir::{Expr, Kind, TeamCall};
use crate::types::Ty;

/// A row of known length behind a plain pointer.
pub(super) struct Row {
    pub(super) pointer: Val,
    /// The text of its length, if that is known.
    pub(super) len: Option<Val>,
}

impl Emitter<'_> {
    /// Whether what lies at `place` may be written by somebody.
    pub(super) fn reads(&self, place: &Expr) -> Effects {
        match &place.kind {
            Kind::Var(var) => {
                let own = &self.function.vars[*var];
                let borrowed = match &own.ty {
                    Ty::Ref(inner, mutable) => {
                        *mutable
                            && !matches!(**inner, Ty::World | Ty::Params | Ty::Tables | Ty::Actions)
                    }
                    Ty::Slice(_, mutable) => *mutable,
                    _ => false,
                };
                let row = self.rows.get(var).map_or(Effects::default(), |row| self.reads(row));
                let own = own.mutable || borrowed || self.scratch.contains_key(var);
                if own { Effects::READS } else { row }
            }
            Kind::Field(inner, _)
            | Kind::Index(inner, _)
            | Kind::Part(inner, ..)
            | Kind::Ref(inner)
            | Kind::Deref(inner)
            | Kind::AsSlice(inner)
            | Kind::Paren(inner) => self.reads(inner),
            Kind::Const(_) | Kind::Held(_) => Effects::default(),
            _ => Effects::READS,
        }
    }

    /// The text of a place itself. Its effects are those of finding it, not of reading it.
    pub(super) fn place(&mut self, place: &Expr) -> Result<Val> {
        match &place.kind {
            Kind::Paren(inner) | Kind::Ref(inner) | Kind::Deref(inner) => self.place(inner),
            Kind::Var(var) => match self.names.get(var) {
                Some(name) => Ok(Val::atom(name.clone())),
                None => match self.rows.get(var).cloned() {
                    Some(row) => self.place(&row),
                    None => {
                        let name = self.fresh_name(*var, true);
                        Ok(Val::atom(name))
                    }
                },
            },
            Kind::Held(held) => Ok(Val::atom(self.names[held].clone())),
            Kind::Field(base, name) => self.field_place(base, name, &place.ty),
            Kind::Index(base, index) => {
                if let Some(row) = self.row(base)? {
                    let index = self.subscript(index)?;
                    let text = format!("{}[{}]", row.pointer.at(prec::ATOM), index.text);
                    return Ok(Val::atom(text).with(row.pointer.effects).with(index.effects));
                }
                let is_slice = matches!(base.ty.behind(), Ty::Slice(..));
                let base = match self.constant_array(base) {
                    Some(name) => name,
                    None if is_slice => self.slice(base)?,
                    None => self.place(base)?,
                };
                let (index, lines) = self.apart(|emitter| emitter.subscript(index))?;
                if base.effects.disturbs(index.effects.with(lines.effects)) {
                    let sentence = "an index changes another; evaluate it on a line before";
                    return fault(place.span, sentence);
                }
                self.append(lines);
                let text = format!("{}[{}]", base.at(prec::ATOM), index.text);
                Ok(Val::atom(text).with(base.effects).with(index.effects))
            }
            _ => self.val(place),
        }
    }

    /// The name of a constant array, which C++ does not copy as it stands.
    fn constant_array(&mut self, expr: &Expr) -> Option<Val> {
        match &expr.kind {
            Kind::Paren(inner) | Kind::Ref(inner) | Kind::Deref(inner) => {
                self.constant_array(inner)
            }
            Kind::Const(item) if matches!(expr.ty, Ty::Array(..)) => {
                Some(Val::atom(self.globals.need(self.modules, *item)))
            }
            _ => None,
        }
    }

    /// An index; a literal needs no suffix.
    fn subscript(&mut self, index: &Expr) -> Result<Val> {
        match &index.bare().kind {
            Kind::Int(value, false) => Ok(Val::atom(value.to_string())),
            _ => self.val(index.bare()),
        }
    }

    fn field_place(&mut self, base: &Expr, name: &str, ty: &Ty) -> Result<Val> {
        let of = base.ty.behind().clone();
        let base = self.place(base)?;
        if of == Ty::World && name == "tables" {
            return Ok(base);
        }
        let field = match &of {
            Ty::Tuple(_) => format!("_{name}"),
            _ => c_name_of_field(&of, name),
        };
        let text = format!("{}.{field}", base.at(prec::ATOM));
        // Scalars of a state with rows are pointers.
        if of == Ty::State && matches!(ty, Ty::Ref(..)) {
            return Ok(Val::new(format!("*{text}"), prec::UNARY).with(base.effects));
        }
        Ok(Val::atom(text).with(base.effects))
    }

    /// A slice that is a row of the contract, behind a pointer of its own.
    pub(super) fn row(&mut self, expr: &Expr) -> Result<Option<Row>> {
        match &expr.kind {
            Kind::Paren(inner) | Kind::Ref(inner) | Kind::Deref(inner) => self.row(inner),
            Kind::Var(var) => {
                if let Some(len) = self.scratch.get(var).cloned() {
                    let pointer = Val::atom(self.names[var].clone());
                    return Ok(Some(Row { pointer, len: Some(Val::new(len, prec::UNARY)) }));
                }
                match self.rows.get(var).cloned() {
                    Some(row) => self.row(&row),
                    None => Ok(None),
                }
            }
            Kind::Field(base, name) => self.field_row(base, name, expr),
            Kind::Index(base, group) => {
                let Ty::Groups(_) = base.ty.behind() else { return Ok(None) };
                let Kind::Field(_, what) = &base.bare().kind else { return Ok(None) };
                let what = what.clone();
                let base = self.place(base)?;
                let number = self.group_number(group);
                let group = self.subscript(group)?;
                let len = number.map(|g| Val::atom(format!("WARP_LEN_{what}_{g}")));
                let pointer = Val::atom(format!("{}[{}]", base.text, group.text));
                let pointer = pointer.with(base.effects).with(group.effects);
                Ok(Some(Row { pointer, len }))
            }
            _ => Ok(None),
        }
    }

    fn field_row(&mut self, base: &Expr, name: &str, whole: &Expr) -> Result<Option<Row>> {
        let of = base.ty.behind().clone();
        let len = match &of {
            Ty::State | Ty::Tables => {
                let field =
                    crate::infer::field_of(self.modules, self.world, &of, name, whole.span)?;
                if !matches!(field.ty, Ty::Slice(..)) {
                    return Ok(None);
                }
                match field.dims {
                    Some(dims) => {
                        dims.iter().for_each(|dim| {
                            if !self.globals.reserved.contains(dim) {
                                self.globals.reserved.push(dim.clone());
                            }
                        });
                        let single = dims.len() == 1;
                        let prec = if single { prec::ATOM } else { prec::MUL };
                        Val::new(dims.join(" * "), prec)
                    }
                    None => Val::atom(format!("WARP_TABLE_LEN_{name}")),
                }
            }
            Ty::StepOut if name == "statistics" => Val::atom("WARP_N_STATISTICS"),
            Ty::Observation if name == "global" => Val::atom("WARP_GLOBAL_WIDTH"),
            _ => return Ok(None),
        };
        let base = self.place(base)?;
        let pointer = Val::atom(format!("{}.{name}", base.at(prec::ATOM))).with(base.effects);
        Ok(Some(Row { pointer, len: Some(len) }))
    }

    fn group_number(&mut self, group: &Expr) -> Option<i128> {
        match &group.bare().kind {
            Kind::Int(value, _) => i128::try_from(*value).ok(),
            Kind::Const(item) => {
                let of = &self.modules.items[*item];
                let module = of.module;
                let crate::declared::Declared::Const(constant) = &of.what else { return None };
                let value = constant.expr.clone();
                crate::infer::evaluate(self.modules, module, &value).ok()
            }
            _ => None,
        }
    }

    /// A slice as a value of its own.
    pub(super) fn slice(&mut self, expr: &Expr) -> Result<Val> {
        if let Some(row) = self.row(expr)? {
            let Some(len) = row.len else {
                return fault(
                    expr.span,
                    "the length of this is not known, since its group is not a constant; name the \
                     group",
                );
            };
            let text = format!("warp_slice({}, {})", row.pointer.text, len.text);
            return Ok(Val::atom(text).with(row.pointer.effects));
        }
        match &expr.kind {
            Kind::Paren(inner) | Kind::Ref(inner) | Kind::Deref(inner) => self.slice(inner),
            Kind::Var(_) => self.place(expr),
            Kind::AsSlice(array) => {
                let array = match self.constant_array(array) {
                    Some(name) => name,
                    None => self.place(array)?,
                };
                Ok(Val::atom(format!("warp_slice({})", array.text)).with(array.effects))
            }
            Kind::Part(base, low, high) => {
                let whole = self.slice(base)?;
                let low = match low {
                    Some(low) => self.val(low)?,
                    None => Val::atom("0u"),
                };
                let high = match high {
                    Some(high) => self.val(high)?,
                    None => self.len(base)?,
                };
                let text = format!("warp_part({}, {}, {})", whole.text, low.text, high.text);
                let effects = whole.effects.with(low.effects).with(high.effects);
                Ok(Val::atom(text).with(effects))
            }
            Kind::Field(..) | Kind::Index(..) => self.place(expr),
            Kind::Team(team) if matches!(team.call, TeamCall::Scratch(_)) => {
                fault(expr.span, "scratch of a team gets a name of its own by `let`")
            }
            _ => self.val(expr),
        }
    }

    /// The length of an array or a slice.
    pub(super) fn len(&mut self, of: &Expr) -> Result<Val> {
        if let Ty::Array(_, n) = of.ty.behind() {
            return Ok(Val::atom(format!("{n}u")));
        }
        match self.row(of)? {
            Some(row) => match row.len {
                Some(len) => Ok(len),
                None => {
                    fault(of.span, "the length of this is not known; name the group by a constant")
                }
            },
            None => {
                let slice = self.slice(of)?;
                Ok(Val::atom(format!("{}.len", slice.at(prec::ATOM))).with(slice.effects))
            }
        }
    }
}

/// Fields of the framework's structs are named as in Rust.
fn c_name_of_field(of: &Ty, name: &str) -> String {
    match of {
        Ty::Struct(_) => super::c_name(name),
        _ => name.to_string(),
    }
}
