//! Blocks, `let` and assignments.

use crate::diagnostic::{Result, Span, fault};
use crate::emit::control::SHORT;
use crate::emit::expr::How;
use crate::emit::value::prec;
use crate::emit::{Effects, Emitter, Leave, Target};
use crate::ir::{Block, Closure, Expr, Form, Kind, Pattern, Stmt, StmtKind, TeamCall, VarId};
use crate::types::Ty;

impl Emitter<'_> {
    /// The statements of a block, and its value.
    pub(super) fn block_into(&mut self, block: &Block, target: &Target) -> Result<()> {
        for stmt in &block.stmts {
            self.comments_of(stmt.span, matches!(stmt.kind, StmtKind::Let(..)));
            self.wait_before(stmt.span);
            self.stmt(stmt)?;
            self.after(stmt.span);
        }
        if let Some(tail) = &block.tail {
            self.comments_of(tail.span, false);
            self.wait_before(tail.span);
            self.into(tail, target)?;
            self.after(tail.span);
        }
        self.comments_before(block.span.end_line);
        Ok(())
    }

    fn wait_before(&mut self, span: Span) {
        if self.barriers.before_stmt(span) {
            self.line("warp_sync();");
        }
    }

    /// Comments before a statement, and those inside one that is no block of others.
    fn comments_of(&mut self, span: Span, flat: bool) {
        self.comments_before(if flat { span.line.max(span.end_line) } else { span.line });
    }

    fn after(&mut self, span: Span) {
        self.comment_behind(span.end_line);
        self.cursor = self.cursor.max(span.end_line);
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        match &stmt.kind {
            StmtKind::Const => Ok(()),
            StmtKind::Expr(expr) => self.into(expr, &Target::Discard),
            StmtKind::Let(pattern, None) => match &**pattern {
                Pattern::Bind(var) => {
                    let name = self.fresh_name(*var, true);
                    let ty = self.ty(&self.function.vars[*var].ty.clone());
                    self.line(format!("{ty} {name};"));
                    Ok(())
                }
                _ => fault(stmt.span, "a variable without a value has a plain name"),
            },
            StmtKind::Let(pattern, Some(init)) => self.bind(pattern, init),
        }
    }

    fn bind(&mut self, pattern: &Pattern, init: &Expr) -> Result<()> {
        match pattern {
            Pattern::Any => self.into(init, &Target::Discard),
            Pattern::Bind(var) => self.bind_var(*var, init),
            Pattern::Tuple(patterns) => self.bind_tuple(patterns, init),
            _ => {
                let place = self.as_place(init)?;
                self.take_apart(pattern, &place)
            }
        }
    }

    fn bind_var(&mut self, var: VarId, init: &Expr) -> Result<()> {
        let own = self.function.vars[var].clone();
        match &own.ty {
            Ty::Closure(_) => return self.bind_closure(var, init),
            Ty::Slice(..) => return self.bind_slice(var, init),
            Ty::Unit | Ty::Never => return self.into(init, &Target::Discard),
            Ty::Ref(..) => {
                if own.mutable {
                    return fault(
                        init.span,
                        "a reference is bound once; use an index that changes",
                    );
                }
                let place = self.place(init)?;
                let (ty, name) = (self.ty(&own.ty), self.fresh_name(var, true));
                self.run(&format!("{ty} {name} = {};", place.text), place.effects);
                return Ok(());
            }
            _ => {}
        }
        let (val, lines) = self.value_of(init)?;
        self.append(lines);
        match val {
            Some(val) if !own.mutable && own.ty == Ty::Usize && self.is_constant(init) => {
                self.pinned.insert(var);
                self.constants.insert(var);
                let name = self.fresh_name(var, true);
                self.line(format!("constexpr unsigned int {name} = {};", val.text));
            }
            Some(val) => {
                let ty = self.ty(&own.ty);
                let (name, reused) = self.name_or_reuse(var, false);
                // `T x = T{...}` says the type twice.
                let text = match val.text.strip_prefix(&ty) {
                    Some(rest) if rest.starts_with('{') => rest.to_string(),
                    _ => val.text.clone(),
                };
                let text = match reused {
                    true => format!("{name} = {};", val.text),
                    false => format!("{ty} {name} = {text};"),
                };
                self.run(&text, val.effects);
            }
            None => {
                let (ty, name) = (self.ty(&own.ty), self.fresh_name(var, true));
                self.line(format!("{ty} {name};"));
                self.into(init, &Target::Assign(name))?;
            }
        }
        Ok(())
    }

    /// Whether C++ knows a value when it compiles, so that it may be the size of an array.
    fn is_constant(&mut self, expr: &Expr) -> bool {
        match &expr.kind {
            Kind::Int(..) | Kind::Const(_) => true,
            Kind::Var(var) => self.constants.contains(var),
            Kind::Paren(inner) => self.is_constant(inner),
            Kind::Cast(inner) => inner.ty.is_int() && self.is_constant(inner),
            Kind::Binary(op, a, b) => !op.compares() && self.is_constant(a) && self.is_constant(b),
            Kind::Len(of) => match of.ty.behind() {
                Ty::Array(..) => true,
                _ => {
                    let row = self.apart(|emitter| emitter.row(of)).ok().and_then(|(row, _)| row);
                    row.is_some_and(|row| row.len.is_some())
                }
            },
            _ => false,
        }
    }

    /// A value in one expression; none if it takes branches with statements.
    fn value_of(&mut self, init: &Expr) -> Result<(Option<crate::emit::Val>, super::Lines)> {
        self.apart(|emitter| match &init.bare().kind {
            Kind::If(..) | Kind::Match(..) => {
                let val = emitter.conditional(init.bare())?;
                Ok(val.filter(|val| val.text.len() <= SHORT))
            }
            Kind::Block(block) if !block.stmts.is_empty() => Ok(None),
            Kind::Loop(_) => Ok(None),
            _ => emitter.val(init).map(Some),
        })
    }

    fn bind_slice(&mut self, var: VarId, init: &Expr) -> Result<()> {
        let own = self.function.vars[var].clone();
        if let Kind::Team(team) = &init.bare().kind
            && let TeamCall::Scratch(element) = &team.call
        {
            if !self.is_constant(&team.args[0]) {
                return fault(
                    team.args[0].span,
                    "the size of scratch is made of constants and lengths of rows of the state",
                );
            }
            let (ty, len) = (self.ty(element), self.val(&team.args[0])?);
            let name = self.fresh_name(var, true);
            self.line(format!("WARP_SHARED({ty}, {name}, {});", len.text));
            self.scratch.insert(var, len.text);
            return Ok(());
        }
        if own.mutable {
            return fault(init.span, "a slice is bound once; use an index that changes");
        }
        let ((row, effects), _) = self.apart(|emitter| {
            let row = emitter.row(init)?;
            let effects = row.as_ref().map(|row| row.pointer.effects).unwrap_or_default();
            Ok((row, effects))
        })?;
        if row.is_some() && !own.mutable && effects.none() {
            self.pin(init);
            self.rows.insert(var, init.clone());
            return Ok(());
        }
        let slice = self.slice(init)?;
        let (ty, name) = (self.ty(&own.ty), self.fresh_name(var, true));
        self.run(&format!("{ty} {name} = {};", slice.text), slice.effects);
        Ok(())
    }

    fn pin(&mut self, expr: &Expr) {
        let mut vars = Vec::new();
        crate::walk::everything(expr, &mut |part| {
            if let Kind::Var(var) = part.kind {
                vars.push(var);
            }
        });
        self.pinned.extend(vars);
    }

    fn bind_closure(&mut self, var: VarId, init: &Expr) -> Result<()> {
        let Kind::Closure(closure) = &init.bare().kind else {
            return fault(init.span, "a closure is written where it gets its name");
        };
        let name = self.fresh_name(var, true);
        self.lambda(&name, closure)
    }

    /// A closure as a lambda.
    pub(super) fn lambda(&mut self, name: &str, closure: &Closure) -> Result<()> {
        self.scopes.push(Default::default());
        let mut params = Vec::new();
        for param in &closure.params {
            let ty = self.ty(&self.function.vars[*param].ty.clone());
            params.push(format!("{ty} {}", self.fresh_name(*param, true)));
        }
        let output = self.ty(&closure.body.ty);
        self.open(format!("auto {name} = [&]({}) -> {output} {{", params.join(", ")));
        let leave = std::mem::replace(&mut self.leave, Leave::Function);
        let loops = std::mem::take(&mut self.loops);
        let target = if closure.body.ty == Ty::Unit { Target::Discard } else { Target::Return };
        self.inner(&closure.body, &target)?;
        self.leave = leave;
        self.loops = loops;
        self.close("};");
        self.scopes.pop();
        Ok(())
    }

    /// The body of a closure, whose braces are there already.
    pub(super) fn inner(&mut self, body: &Expr, target: &Target) -> Result<()> {
        match &body.kind {
            Kind::Block(block) => self.block_into(block, target),
            _ => self.into(body, target),
        }
    }

    fn bind_tuple(&mut self, patterns: &[Pattern], init: &Expr) -> Result<()> {
        match &init.bare().kind {
            // One after the other; none may take the name of another's value over.
            Kind::Tuple(parts) => {
                for part in parts {
                    self.pin(part);
                }
                for (pattern, part) in patterns.iter().zip(parts) {
                    self.bind_apart(pattern, part)?;
                }
                Ok(())
            }
            Kind::Builtin(builtin, args) if builtin.form == Form::SinCos => {
                let angle = self.val(&args[0])?;
                let mut names = Vec::new();
                for pattern in patterns {
                    names.push(match pattern {
                        Pattern::Bind(var) => self.fresh_name(*var, true),
                        _ => self.unique("unused", None),
                    });
                }
                self.line(format!("float {};", names.join(", ")));
                let text = format!("warp_sin_cos({}, &{}, &{});", angle.text, names[0], names[1]);
                self.run(&text, angle.effects);
                Ok(())
            }
            _ => {
                let place = self.as_place(init)?;
                self.take_apart(&Pattern::Tuple(patterns.to_vec()), &place)
            }
        }
    }

    fn bind_apart(&mut self, pattern: &Pattern, init: &Expr) -> Result<()> {
        if let Pattern::Bind(var) = pattern {
            self.pinned.insert(*var);
        }
        self.bind(pattern, init)
    }

    /// Something whose parts can be named: a place, or a variable that holds the value.
    pub(super) fn as_place(&mut self, init: &Expr) -> Result<Expr> {
        if let Kind::Var(_) = init.bare().kind {
            return Ok(init.bare().clone());
        }
        let name = match &init.bare().kind {
            Kind::Call(item, _) => format!("{}_of", self.modules.items[*item].name),
            _ if *init.ty.behind() == Ty::Draw => "own".into(),
            _ => "parts".into(),
        };
        let val = self.val(init)?;
        let held = self.spill(val, &init.ty, &name);
        // A variable that the body does not have: past the end of the function's own.
        let number = VarId::MAX / 2 + self.names.len();
        self.names.insert(number, held.text);
        Ok(Expr { kind: Kind::Held(number), ty: init.ty.clone(), span: init.span })
    }

    /// Names the parts of a place.
    pub(super) fn take_apart(&mut self, pattern: &Pattern, place: &Expr) -> Result<()> {
        let span = place.span;
        let part = |kind: Kind, ty: Ty| Expr { kind, ty, span };
        match (pattern, place.ty.behind().clone()) {
            (Pattern::Any, _) => Ok(()),
            (Pattern::Bind(var), _) => {
                self.pinned.insert(*var);
                self.bind_var(*var, place)
            }
            (Pattern::Tuple(patterns), Ty::Tuple(types)) => {
                for (i, (pattern, ty)) in patterns.iter().zip(types).enumerate() {
                    let field = Kind::Field(Box::new(place.clone()), i.to_string());
                    self.take_apart(pattern, &part(field, ty))?;
                }
                Ok(())
            }
            (Pattern::Array(patterns), Ty::Array(element, _)) => {
                for (i, pattern) in patterns.iter().enumerate() {
                    let index = part(Kind::Int(i as u128, false), Ty::Usize);
                    let at = Kind::Index(Box::new(place.clone()), Box::new(index));
                    self.take_apart(pattern, &part(at, (*element).clone()))?;
                }
                Ok(())
            }
            (Pattern::Struct(fields), ty) => {
                for (name, pattern) in fields {
                    let field = crate::infer::field_of(self.modules, self.world, &ty, name, span)?;
                    let at = Kind::Field(Box::new(place.clone()), name.clone());
                    self.take_apart(pattern, &part(at, field.ty))?;
                }
                Ok(())
            }
            _ => fault(span, "this cannot be destructured like that"),
        }
    }

    pub(super) fn assign(&mut self, place: &Expr, value: &Expr) -> Result<()> {
        if let Kind::Tuple(places) = &place.bare().kind {
            return self.assign_tuple(places, value);
        }
        if matches!(place.ty, Ty::Ref(..) | Ty::Slice(..)) {
            return fault(
                place.span,
                "a reference is bound once; write `*x = ...` for what it refers to",
            );
        }
        let branches = matches!(
            value.bare().kind,
            Kind::If(..) | Kind::Match(..) | Kind::Block(_) | Kind::Loop(_)
        );
        if branches && self.value_of(value)?.0.is_none() {
            // Every branch ends with its value, so what it replaces is read before it is written.
            let (to, lines) = self.apart(|emitter| emitter.place(place))?;
            if lines.lines.is_empty() && to.effects.none() {
                self.lines.effects = self.lines.effects.with(Effects::WRITES);
                return self.into(value, &Target::Assign(to.text));
            }
        }
        let vals = self.operands(&[(value, How::Value), (place, How::Place)])?;
        let effects = vals[0].effects.with(vals[1].effects).with(Effects::WRITES);
        self.run(&format!("{} = {};", vals[1].text, vals[0].text), effects);
        Ok(())
    }

    fn assign_tuple(&mut self, places: &[Expr], value: &Expr) -> Result<()> {
        if let Kind::Builtin(builtin, args) = &value.bare().kind
            && builtin.form == Form::SinCos
        {
            let parts = [(&places[0], How::Place), (&places[1], How::Place)];
            let vals = self.operands(&parts)?;
            let places = [vals[0].at(prec::UNARY), vals[1].at(prec::UNARY)];
            return self.sin_cos_into(args, places);
        }
        // All values are there before the first is written.
        let held = match &value.bare().kind {
            Kind::Tuple(parts) => {
                let mut held = Vec::new();
                for part in parts {
                    let val = self.val(part)?;
                    held.push(self.spill(val, &part.ty, "value").text);
                }
                held
            }
            _ => {
                let val = self.val(value)?;
                let held = self.spill(val, &value.ty, "parts").text;
                (0..places.len()).map(|i| format!("{held}._{i}")).collect()
            }
        };
        for (place, value) in places.iter().zip(held) {
            let to = self.place(place)?;
            self.run(&format!("{} = {value};", to.text), to.effects.with(Effects::WRITES));
        }
        Ok(())
    }
}
