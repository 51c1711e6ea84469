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
    act_values: Values,
    act: RowsId,
    target_next: Values,
    /// The network's own values of what follows, if it chooses.
    online_next: Option<Values>,
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
    fn plan(
        plan: &mut PlanBuilder,
        name: &str,
        pass: PassId,
        duel: Option<(RowsOf, usize)>,
    ) -> Self {
        let Some((rows, n)) = duel else { return Self { pass, duel: None, q: plan.output(pass) } };
        let q = plan.column(name, rows, n);
        Self { pass, duel: Some(plan.rows(&DUEL, &[], &[plan.output(pass)], &[q])), q }
    }
}

impl Dqn {
    /// Declares DQN for a policy.
    ///
    /// # Errors
    /// The action space is not `Discrete`.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        let keys = &policy.config;
        let mut plan = PlanBuilder::default();
        let common = plan.common(policy, spec)?;
        let (acting, replay, allowed) = (common.acting, common.replay, common.allowed);
        let n = PlanBuilder::choices(policy, spec, &common)?;
        let width = n + usize::from(keys.dueling);
        let model = plan.model("q", PlanBuilder::perceptron(policy, common.obs_width, width));
        let target = plan.target(model);
        let duel = |rows| keys.dueling.then_some((rows, n));

        let pass = plan.pass("output_acting", model, &[acting.obs]);
        let act_values = Values::plan(&mut plan, "q_acting", pass, duel(RowsOf::Acting));
        let epsilon = plan.exploration("epsilon", &keys.epsilon, policy);
        let writes = [acting.action, acting.env_action];
        let act = plan.rows(
            &ACT,
            &[common.acting.random, epsilon],
            &[act_values.q, allowed.acting],
            &writes,
        );

        let pass = plan.pass("next_output", target, &[replay.next_obs]);
        let target_next = Values::plan(&mut plan, "next_q", pass, duel(RowsOf::Batch));
        let online_next = keys.double.then(|| {
            let pass = plan.pass("online_next_output", model, &[replay.next_obs]);
            Values::plan(&mut plan, "online_next_q", pass, duel(RowsOf::Batch))
        });
        let on_batch = plan.pass_and_back("output", model, &[replay.obs]);
        let q = Values::plan(&mut plan, "q", on_batch.pass, duel(RowsOf::Batch));
        let d_q = match q.duel {
            Some(_) => plan.column("d_q", RowsOf::Batch, n),
            None => on_batch.d_output,
        };
        let [loss, value] = ["loss", "value"].map(|name| plan.number(name));
        let loss_rows = plan.rows(
            &LOSS,
            &[common.inv_batch_size],
            &[
                replay.reward,
                replay.discount,
                replay.weight,
                replay.action,
                allowed.next,
                target_next.q,
                online_next.map_or(target_next.q, |online_next| online_next.q),
                q.q,
            ],
            &[d_q, loss, replay.error, value],
        );
        let duel_gradient =
            q.duel.map(|_| plan.rows(&DUEL_GRADIENT, &[], &[d_q], &[on_batch.d_output]));
        let step = plan.optimiser("q", &[model], common.learning_rate, policy);
        let figures = [plan.figure("loss", loss), plan.figure("q", value)];
        let outputs = keys.dueling.then_some(&DUEL);
        let plan = plan.finish(policy, &common, Greedy { pass: act_values.pass, outputs });
        let algorithm = Self {
            act_values,
            act,
            target_next,
            online_next,
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
        engine.forward(&[self.act_values.pass])?;
        if let Some(duel) = self.act_values.duel {
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
        let all = [Some(self.q), Some(self.target_next), self.online_next];
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
