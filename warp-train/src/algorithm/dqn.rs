//! Deep Q-network (Mnih et al., 2015), with a double network's choice (van Hasselt et al., 2016) and
//! duelling values (Wang et al., 2016) as keys.

use super::plan_builder::PlanBuilder;
use super::{Algorithm, CellId, ColumnId, Engine, FigureId, Gradients, Greedy, ModelId};
use super::{OptimiserId, PassId, Plan, RowsId, RowsOf, Variant};
use crate::algorithm::PolicyPlan;
use crate::error::Result;
use crate::loss::dqn::{ACT, DUEL, DUEL_GRADIENT, LOSS};
use warp_core::EnvSpec;

/// The network alone.
const NETWORK: Variant = Variant(0);
/// The network, then its target.
const NETWORK_AND_TARGET: Variant = Variant(1);

/// DQN's passes, row functions and optimiser.
#[derive(Debug)]
pub struct Dqn {
    acts: Values,
    act: RowsId,
    next: Values,
    /// The network's own values of what follows, if it chooses.
    chooser: Option<Values>,
    q: Values,
    loss: RowsId,
    duel_gradient: Option<RowsId>,
    step: OptimiserId,
    target: ModelId,
    target_interval: u64,
    tau: CellId,
    figures: [FigureId; 2],
}

/// A pass and what makes values of its outputs, if they are not values themselves.
#[derive(Debug, Clone, Copy)]
struct Values {
    pass: PassId,
    duel: Option<RowsId>,
    q: ColumnId,
}

impl Values {
    fn plan(d: &mut PlanBuilder, name: &str, pass: PassId, duel: Option<(RowsOf, usize)>) -> Self {
        let Some((rows, n)) = duel else { return Self { pass, duel: None, q: d.output(pass) } };
        let q = d.column(name, rows, n);
        Self { pass, duel: Some(d.rows(&DUEL, &[], &[d.output(pass)], &[q])), q }
    }
}

impl Dqn {
    /// Declares DQN for a policy.
    ///
    /// # Errors
    /// The action space is not `Discrete`.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        let keys = &policy.config;
        let mut d = PlanBuilder::default();
        let common = d.common(policy, spec)?;
        let (acting, replay, allowed) = (common.acting, common.replay, common.allowed);
        let n = PlanBuilder::choices(policy, spec, &common)?;
        let width = n + usize::from(keys.dueling);
        let model = d.model("q", PlanBuilder::perceptron(policy, common.obs_width, width));
        let target = d.target(model);
        let duel = |rows| keys.dueling.then_some((rows, n));

        let pass = d.pass("output_acting", model, &[acting.obs]);
        let acts = Values::plan(&mut d, "q_acting", pass, duel(RowsOf::Acting));
        let epsilon = d.exploration("epsilon", &keys.epsilon, policy);
        let writes = [acting.action, acting.sent];
        let act =
            d.rows(&ACT, &[common.acting.random, epsilon], &[acts.q, allowed.acting], &writes);

        let pass = d.pass("next_output", target, &[replay.next_obs]);
        let next = Values::plan(&mut d, "next_q", pass, duel(RowsOf::Batch));
        let chooser = keys.double.then(|| {
            let pass = d.pass("chooser_output", model, &[replay.next_obs]);
            Values::plan(&mut d, "chooser_q", pass, duel(RowsOf::Batch))
        });
        let output = d.pass_and_back("output", model, &[replay.obs]);
        let q = Values::plan(&mut d, "q", output.pass, duel(RowsOf::Batch));
        let d_q = match q.duel {
            Some(_) => d.column("d_q", RowsOf::Batch, n),
            None => output.d_output,
        };
        let [loss, value] = ["loss", "value"].map(|name| d.number(name));
        let loss_rows = d.rows(
            &LOSS,
            &[common.share],
            &[
                replay.reward,
                replay.discount,
                replay.weight,
                replay.action,
                allowed.next,
                next.q,
                chooser.map_or(next.q, |chooser| chooser.q),
                q.q,
            ],
            &[d_q, loss, replay.error, value],
        );
        let duel_gradient = q.duel.map(|_| d.rows(&DUEL_GRADIENT, &[], &[d_q], &[output.d_output]));
        let step = d.optimiser("q", &[model], common.learning_rate, policy);
        let figures = [d.figure("loss", loss), d.figure("q", value)];
        let outputs = keys.dueling.then_some(&DUEL);
        let plan = d.finish(policy, &common, Greedy { pass: acts.pass, outputs });
        let algorithm = Self {
            acts,
            act,
            next,
            chooser,
            q,
            loss: loss_rows,
            duel_gradient,
            step,
            target,
            target_interval: keys.target_interval as u64,
            tau: common.tau,
            figures,
        };
        Ok((plan, algorithm))
    }
}

impl Algorithm for Dqn {
    fn act(&self, engine: &mut dyn Engine) -> Result<()> {
        engine.forward(&[self.acts.pass])?;
        if let Some(duel) = self.acts.duel {
            engine.rows(duel)?;
        }
        engine.rows(self.act)
    }

    fn n_variants(&self) -> usize {
        2
    }

    fn variant(&self, update: u64) -> Variant {
        let moves = (update + 1).is_multiple_of(self.target_interval);
        if moves { NETWORK_AND_TARGET } else { NETWORK }
    }

    fn update(&self, engine: &mut dyn Engine, variant: Variant) -> Result<()> {
        engine.sample()?;
        // Values: of what was seen, of what follows by the target, and by the network that chooses.
        let all = [Some(self.q), Some(self.next), self.chooser];
        let all: Vec<Values> = all.into_iter().flatten().collect();
        let passes: Vec<PassId> = all.iter().map(|values| values.pass).collect();
        engine.forward(&passes)?;
        all.iter().filter_map(|values| values.duel).try_for_each(|duel| engine.rows(duel))?;

        // Towards r + gamma Q'(s', a').
        engine.rows(self.loss)?;
        if let Some(gradient) = self.duel_gradient {
            engine.rows(gradient)?;
        }
        engine.backward(&[self.q.pass], Gradients::OfParameters)?;
        engine.step(self.step)?;
        if variant == NETWORK_AND_TARGET {
            engine.polyak_update(&[self.target], self.tau)?;
        }
        engine.figures(&self.figures)
    }
}
