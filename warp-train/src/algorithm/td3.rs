//! Twin delayed deterministic policy gradient (Fujimoto et al., 2018): DDPG with two critics, of which
//! the smaller counts, noise on the target's actions, and an actor that learns less often. With `atoms` critics
//! give a distribution over values (Bellemare et al., 2017), as in FastTD3 (Seo et al., 2025),
//! whose actor follows the smaller of both critics' values; here it follows the first critic's, as TD3's does.

use super::critics::TwinCritics;
use super::deterministic::Actor;
use super::plan_builder::{Common, InputGradientPass, PlanBuilder};
use super::{Algorithm, CellId, ColumnId, Engine, FigureId, Gradients, Greedy, ModelId};
use super::{OptimiserId, PassId, Plan, Replay, RowsId, RowsOf, Variant};
use crate::algorithm::{PolicyConfig, PolicyPlan};
use crate::error::Result;
use crate::loss::deterministic::{ACTOR_GRADIENT, ACTOR_LOSS, OUTPUTS, SMOOTH, TWIN_CRITIC_LOSS};
use crate::loss::value_distribution;
use warp_core::EnvSpec;

/// The critics alone.
const CRITICS: Variant = Variant(0);
/// The critics, then the actor and the targets.
const CRITICS_AND_ACTOR: Variant = Variant(1);

/// TD3's passes, row functions and optimisers.
#[derive(Debug)]
pub struct Td3 {
    actor: Actor,
    policy_delay: u64,
    smooth: RowsId,
    critics: TwinCritics,
    critic_loss: RowsId,
    critic_step: OptimiserId,
    critic_of_actor: PassId,
    actor_loss: RowsId,
    actor_gradient: RowsId,
    actor_step: OptimiserId,
    targets: [ModelId; 3],
    tau: CellId,
    critic_figures: [FigureId; 2],
    actor_figures: [FigureId; 1],
}

/// The losses as row functions, and the first critic's values on the batch.
struct Losses {
    critics: RowsId,
    actor: RowsId,
    q: ColumnId,
}

impl Losses {
    /// Of critics that give values. `actor` is the first one on the actor's actions; `losses` are the critics'
    /// column and the actor's.
    fn of_values(
        plan: &mut PlanBuilder,
        common: &Common,
        critics: &TwinCritics,
        actor: InputGradientPass,
        losses: [ColumnId; 2],
    ) -> Self {
        let Replay { reward, discount, weight, error, .. } = common.replay;
        let ([q_1, q_2], [next_q_1, next_q_2]) = (critics.q(), critics.next_q(plan));
        let [d_q_1, d_q_2] = critics.d_q();
        let reads = [reward, discount, weight, next_q_1, next_q_2, q_1, q_2];
        let writes = [d_q_1, d_q_2, losses[0], error];
        let InputGradientPass { output: q, d_output: d_q, .. } = actor;
        Self {
            critics: plan.rows(&TWIN_CRITIC_LOSS, &[common.inv_batch_size], &reads, &writes),
            actor: plan.rows(
                &ACTOR_LOSS,
                &[common.inv_batch_size],
                &[weight, q],
                &[d_q, losses[1]],
            ),
            q: q_1,
        }
    }

    /// Of critics that give distributions.
    fn of_distributions(
        plan: &mut PlanBuilder,
        keys: &PolicyConfig,
        common: &Common,
        critics: &TwinCritics,
        actor: InputGradientPass,
        losses: [ColumnId; 2],
    ) -> Self {
        let Replay { reward, discount, weight, error, .. } = common.replay;
        let [value_min, value_max] = [("value_min", keys.value_min), ("value_max", keys.value_max)]
            .map(|(name, value)| plan.constant(name, value));
        let cells = [common.inv_batch_size, value_min, value_max];
        let ([logits_1, logits_2], [next_1, next_2]) = (critics.q(), critics.next_q(plan));
        let [d_logits_1, d_logits_2] = critics.d_q();
        let target = plan.column("target", RowsOf::Batch, keys.atoms);
        let q = plan.number("q");
        let reads = [reward, discount, weight, next_1, next_2, logits_1, logits_2];
        let writes = [d_logits_1, d_logits_2, target, losses[0], error, q];
        let InputGradientPass { output: logits, d_output: d_logits, .. } = actor;
        let actor_writes = [d_logits, losses[1]];
        Self {
            critics: plan.rows(&value_distribution::TWIN_CRITIC_LOSS, &cells, &reads, &writes),
            actor: plan.rows(
                &value_distribution::ACTOR_LOSS,
                &cells,
                &[weight, logits],
                &actor_writes,
            ),
            q,
        }
    }
}

impl Td3 {
    /// Declares TD3 for a policy.
    ///
    /// # Errors
    /// The action space is not a `Box`.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        let keys = &policy.config;
        let mut plan = PlanBuilder::default();
        let common = plan.common(policy, spec)?;
        let (replay, dim) = (common.replay, common.action_width);
        let actor = Actor::plan(&mut plan, policy, spec, &common)?;
        let next_action = plan.column("next_action", RowsOf::Batch, dim);
        let noise =
            [("target_noise", keys.target_noise), ("target_noise_clip", keys.target_noise_clip)]
                .map(|(name, value)| plan.constant(name, value));
        let smooth = plan.rows(&SMOOTH, &noise, &[plan.output(actor.target_pass)], &[next_action]);
        let network = PlanBuilder::perceptron(policy, common.obs_width + dim, keys.atoms);
        let now = [replay.obs, replay.action];
        let critics = TwinCritics::plan(&mut plan, &network, &now, &[replay.next_obs, next_action]);
        let inputs = [replay.obs, actor.action];
        let critic_of_actor = plan.pass_and_back_to("q_of_actor", critics.models[0], &inputs, 1);
        let [loss, actor_loss] = ["critic_loss", "actor_loss"].map(|name| plan.number(name));
        let columns = [loss, actor_loss];
        let losses = match keys.atoms {
            1 => Losses::of_values(&mut plan, &common, &critics, critic_of_actor, columns),
            _ => Losses::of_distributions(
                &mut plan,
                keys,
                &common,
                &critics,
                critic_of_actor,
                columns,
            ),
        };
        let actor_gradient = plan.rows(
            &ACTOR_GRADIENT,
            &[],
            &[actor.action, critic_of_actor.d_input],
            &[actor.on_batch.d_output],
        );

        let rate = common.learning_rate;
        let critic_step = plan.optimiser("critics", &critics.models, common.critic_rate, policy);
        let actor_step = plan.optimiser("actor", &[actor.model], rate, policy);
        let critic_figures = [plan.figure("critic_loss", loss), plan.figure("q", losses.q)];
        let actor_figures = [plan.figure("actor_loss", actor_loss)];
        let targets = [actor.target, critics.targets[0], critics.targets[1]];
        let plan =
            plan.finish(policy, &common, Greedy { pass: actor.act_pass, outputs: Some(&OUTPUTS) });
        let algorithm = Self {
            actor,
            policy_delay: keys.policy_delay as u64,
            smooth,
            critics,
            critic_loss: losses.critics,
            critic_step,
            critic_of_actor: critic_of_actor.pass,
            actor_loss: losses.actor,
            actor_gradient,
            actor_step,
            targets,
            tau: common.tau,
            critic_figures,
            actor_figures,
        };
        Ok((plan, algorithm))
    }
}

impl Algorithm for Td3 {
    fn act(&self, engine: &mut dyn Engine) -> Result<()> {
        self.actor.act(engine)
    }

    fn n_variants(&self) -> usize {
        2
    }

    fn variant(&self, update: u64) -> Variant {
        let learns_actor = (update + 1).is_multiple_of(self.policy_delay);
        if learns_actor { CRITICS_AND_ACTOR } else { CRITICS }
    }

    fn update(&self, engine: &mut dyn Engine, variant: Variant) -> Result<()> {
        engine.sample()?;
        // Critics: towards r + gamma min Q'(s', mu'(s') + noise).
        engine.forward(&[self.actor.target_pass])?;
        engine.rows(self.smooth)?;
        engine.forward(&self.critics.passes())?;
        engine.rows(self.critic_loss)?;
        engine.backward(&self.critics.learning(), Gradients::OfParameters)?;
        engine.step(self.critic_step)?;
        engine.figures(&self.critic_figures)?;
        if variant == CRITICS {
            return Ok(());
        }

        // Actor: up the first critic's slope by the action.
        engine.forward(&[self.actor.on_batch.pass])?;
        engine.rows(self.actor.squash)?;
        engine.forward(&[self.critic_of_actor])?;
        engine.rows(self.actor_loss)?;
        engine.backward(&[self.critic_of_actor], Gradients::OfInput)?;
        engine.rows(self.actor_gradient)?;
        engine.backward(&[self.actor.on_batch.pass], Gradients::OfParameters)?;
        engine.step(self.actor_step)?;
        engine.polyak_update(&self.targets, self.tau)?;
        engine.figures(&self.actor_figures)
    }
}
