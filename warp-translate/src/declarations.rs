//! The declarations before the functions: constants, structs and enums.

use crate::declared::{Declared, FieldType};
use crate::diagnostic::{Result, fault};
use crate::emit::{Emitter, c_name, wrap};
use crate::infer::{constant_value, type_of};
use crate::ir::Kind;
use crate::program::{Program, comments};
use crate::team::Barriers;
use crate::types::{ItemId, Ty};
use crate::walk;

impl Program<'_> {
    /// Constants, structs and enums, each after those that it is made of.
    pub(crate) fn constants(&mut self) -> String {
        let mut blocks: Vec<(ItemId, String)> = Vec::new();
        let mut at = 0;
        // Writing one may bring up others.
        while at < self.globals.needed.len() {
            let mut new: Vec<ItemId> = self.globals.needed[at..].to_vec();
            at = self.globals.needed.len();
            new.sort_by_key(|item| self.place(*item));
            for item in new {
                self.declare(item, &mut blocks);
            }
        }
        let mut text = String::new();
        let mut after_struct = false;
        for (item, block) in &blocks {
            let is_const = matches!(self.modules.items[*item].what, Declared::Const(_));
            if !text.is_empty() && (!is_const || after_struct) {
                text += "\n";
            }
            after_struct = !is_const;
            text += block;
        }
        text
    }

    fn declare(&mut self, item: ItemId, blocks: &mut Vec<(ItemId, String)>) {
        if blocks.iter().any(|(done, _)| *done == item) {
            return;
        }
        let before = self.globals.needed.len();
        let made = match &self.modules.items[item].what {
            Declared::Const(_) => self.constant(item),
            Declared::Enum(_) => self.enumeration(item),
            _ => self.structure(item),
        };
        let new: Vec<ItemId> = self.globals.needed[before..].to_vec();
        for part in new {
            self.declare(part, blocks);
        }
        match made {
            Ok((text, parts)) => {
                for part in parts {
                    if part != item {
                        self.declare(part, blocks);
                    }
                }
                blocks.push((item, text));
            }
            Err(fault) => self.faults.push(fault),
        }
    }

    fn constant(&mut self, item: ItemId) -> Result<(String, Vec<ItemId>)> {
        let (value, of) = constant_value(self.modules, &self.world, item)?;
        let mut parts = Vec::new();
        walk::everything(&value, &mut |expr| {
            if let Kind::Const(part) | Kind::Variant(part, _) = expr.kind {
                parts.push(part);
            }
        });
        let name = self.globals.item(self.modules, item);
        let declared = match &value.ty {
            Ty::Array(element, n) if element.is_scalar() => {
                let element = self.globals.ty(self.modules, element);
                format!("__device__ static const {element} {name}[{n}]")
            }
            ty if ty.is_scalar() || matches!(ty, Ty::Enum(_)) => {
                let ty = self.globals.ty(self.modules, ty);
                format!("static constexpr {ty} {name}")
            }
            other => {
                return fault(
                    value.span,
                    format!("constants are scalars and arrays of scalars, not {}", other.rust()),
                );
            }
        };
        let barriers = Barriers::default();
        let emitter = Emitter::new(self.modules, &self.world, &mut self.globals, &of, &barriers);
        let value = emitter.constant(&value)?;
        let docs = comments(&self.modules.items[item].docs);
        let mut lines = wrap(&format!("{declared} = {value};"), 0);
        // A unit or a few words stand behind, more stand above.
        match &docs[..] {
            [one] if lines.len() == 1 && lines[0].len() + one.len() < 100 => {
                lines[0] = format!("{} {one}", lines[0]);
            }
            _ => lines.splice(0..0, docs).for_each(drop),
        }
        Ok((lines.join("\n") + "\n", parts))
    }

    fn enumeration(&mut self, item: ItemId) -> Result<(String, Vec<ItemId>)> {
        let name = self.globals.item(self.modules, item);
        let of = &self.modules.items[item];
        let (module, span, docs) = (of.module, of.span, comments(&of.docs));
        let Declared::Enum(variants) = &of.what else {
            return fault(of.span, "this is not an enum");
        };
        let variants = variants.clone();
        let mut lines = docs;
        lines.push(format!("enum class {name} : int {{"));
        let mut next = 0;
        for variant in variants {
            if let Some(value) = &variant.value {
                next = crate::infer::evaluate(self.modules, module, value)?;
            }
            if i32::try_from(next).is_err() {
                let sentence =
                    format!("variant `{}` is {next}, which does not fit in i32", variant.name);
                return fault(span, sentence);
            }
            lines.extend(comments(&variant.docs).iter().map(|line| format!("    {line}")));
            lines.push(format!("    {} = {next},", c_name(&variant.name)));
            next += 1;
        }
        lines.push("};\n".into());
        Ok((lines.join("\n"), Vec::new()))
    }

    fn structure(&mut self, item: ItemId) -> Result<(String, Vec<ItemId>)> {
        let name = self.globals.item(self.modules, item);
        let of = &self.modules.items[item];
        let (module, span) = (of.module, of.span);
        let mut lines = comments(&of.docs);
        let Declared::Struct(fields) = &of.what else {
            return fault(span, format!("`{name}` is not a struct that a body can use"));
        };
        let fields = fields.clone();
        let mut parts = Vec::new();
        lines.push(format!("struct {name} {{"));
        for field in fields {
            let FieldType::Plain(ty) = &field.ty else { continue };
            let ty = type_of(self.modules, &self.world, module, None, ty)?;
            if matches!(ty, Ty::Ref(..) | Ty::Slice(..)) {
                let sentence =
                    format!("field `{}` of `{name}` is a reference; pass it by itself", field.name);
                return fault(span, sentence);
            }
            items_of(&ty, &mut parts);
            let ty = self.globals.ty(self.modules, &ty);
            lines.extend(comments(&field.docs).iter().map(|line| format!("    {line}")));
            lines.push(format!("    {ty} {};", c_name(&field.name)));
        }
        lines.push("};\n".into());
        Ok((lines.join("\n"), parts))
    }
}

fn items_of(ty: &Ty, into: &mut Vec<ItemId>) {
    match ty {
        Ty::Struct(item) | Ty::Enum(item) => into.push(*item),
        Ty::Array(element, _) => items_of(element, into),
        Ty::Tuple(parts) => parts.iter().for_each(|part| items_of(part, into)),
        _ => {}
    }
}
