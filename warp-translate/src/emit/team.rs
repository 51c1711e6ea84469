//! Calls of `warp_core::team` as loops over the threads of a team.

use crate::diagnostic::{Result, Span, fault};
use crate::emit::value::prec;
use crate::emit::{Effects, Emitter, Leave, Target, Val};
use crate::ir::{Closure, Expr, Team, TeamCall};

/// What goes on between threads comes before what follows and after what came before.
const ORDERED: Effects = Effects { reads: true, draws: true, writes: true };

impl Emitter<'_> {
    pub(super) fn team_value(&mut self, team: &Team, expr: &Expr) -> Result<Val> {
        let Some(closure) = &team.closure else {
            return fault(expr.span, "scratch of a team gets a name of its own by `let`");
        };
        let n = match (&team.call, team.args.first()) {
            (TeamCall::Once | TeamCall::Fill, _) | (_, None) => Val::atom(""),
            (_, Some(n)) => self.val(n)?,
        };
        if self.barriers.before_call(expr.span) {
            self.line("warp_sync();");
        }
        self.lines.effects = self.lines.effects.with(ORDERED);
        match &team.call {
            TeamCall::Each => {
                self.strided(closure, &n, Target::Discard)?;
                Ok(Val::atom(""))
            }
            TeamCall::Once => {
                self.open("if (warp_first() == 0) {");
                self.closure_body(closure, &Target::Discard, Leave::Nowhere)?;
                self.close("}");
                Ok(Val::atom(""))
            }
            TeamCall::Any => {
                let name = self.unique("found", None);
                self.line(format!("bool {name} = false;"));
                self.strided(closure, &n, Target::Fold(name.clone(), "|"))?;
                self.settle(expr.span);
                Ok(Val::atom(format!("warp_team_any({name})")).with(ORDERED))
            }
            TeamCall::Sum => {
                let name = self.unique("share", None);
                self.line(format!("int {name} = 0;"));
                self.strided(closure, &n, Target::Fold(name.clone(), "wrapping"))?;
                self.settle(expr.span);
                Ok(Val::atom(format!("warp_team_sum({name})")).with(ORDERED))
            }
            TeamCall::Least => {
                let name = self.unique("least", None);
                self.line(format!("long long {name} = 0x7fffffffffffffffll;"));
                self.strided(closure, &n, Target::Fold(name.clone(), "least"))?;
                self.settle(expr.span);
                Ok(Val::atom(format!("warp_team_least({name})")).with(ORDERED))
            }
            TeamCall::SumParts(parts) => self.sum_parts(closure, &n, *parts),
            TeamCall::Fill => self.fill(team, closure),
            TeamCall::Scratch(_) => fault(expr.span, "scratch has no closure"),
        }
    }

    /// Before a vote or a sum: what was written is seen by whoever it tells.
    fn settle(&mut self, span: Span) {
        if self.barriers.before_vote(span) {
            self.line("warp_settle();");
        }
    }

    fn closure_body(&mut self, closure: &Closure, target: &Target, leave: Leave) -> Result<()> {
        let outer = std::mem::replace(&mut self.leave, leave);
        let loops = std::mem::take(&mut self.loops);
        let result = self.inner(&closure.body, target);
        self.leave = outer;
        self.loops = loops;
        result
    }

    /// A loop over a thread's share of the indices.
    fn strided(&mut self, closure: &Closure, n: &Val, target: Target) -> Result<()> {
        self.scopes.push(Default::default());
        let i = self.fresh_name(closure.params[0], true);
        let head = format!(
            "for (unsigned int {i} = warp_first(); {i} < {}; {i} += warp_stride()) {{",
            n.at(prec::SHIFT)
        );
        self.open(head);
        self.closure_body(closure, &target, Leave::Round(target.clone(), 0))?;
        self.close("}");
        self.scopes.pop();
        Ok(())
    }

    fn sum_parts(&mut self, closure: &Closure, n: &Val, parts: u64) -> Result<Val> {
        let [all, part, sum, total] =
            ["parts", "part", "sum", "total"].map(|name| self.unique(name, None));
        self.line(format!("WARP_SHARED(float, {all}, {parts});"));
        let range = format!("{part} < {parts}u; {part} += warp_stride()");
        self.open(format!("for (unsigned int {part} = warp_first(); {range}) {{"));
        self.line(format!("float {sum} = 0.0f;"));
        let i = self.fresh_name(closure.params[0], true);
        let bound = n.at(prec::SHIFT);
        self.open(format!("for (unsigned int {i} = {part}; {i} < {bound}; {i} += {parts}u) {{"));
        let target = Target::Fold(sum.clone(), "+");
        self.closure_body(closure, &target, Leave::Round(target.clone(), 0))?;
        self.close("}");
        self.line(format!("{all}[{part}] = {sum};"));
        self.close("}");
        self.line("warp_sync();");
        self.line(format!("float {total} = 0.0f;"));
        let head = format!("for (unsigned int {part} = 0u; {part} < {parts}u; ++{part})");
        self.line(format!("{head} {total} += {all}[{part}];"));
        Ok(Val::atom(total))
    }

    fn fill(&mut self, team: &Team, closure: &Closure) -> Result<Val> {
        use crate::emit::expr::How::Value;
        let pointer = match self.row(&team.args[0])? {
            Some(row) => row.pointer.text,
            None => format!("{}.at", self.slice(&team.args[0])?.at(prec::ATOM)),
        };
        let size = self.operands(&[(&team.args[1], Value), (&team.args[2], Value)])?;
        let name = self.unique("element", None);
        self.lambda(&name, closure)?;
        let (rows, width) = (&size[0].text, &size[1].text);
        Ok(Val::atom(format!("warp_team_fill({pointer}, {rows}, {width}, {name})")).with(ORDERED))
    }
}
