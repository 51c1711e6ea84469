//! Twin delayed deterministic policy gradient (Fujimoto et al., 2018): DDPG with two critics, of which
//! the smaller counts, noise on the target's actions, and an actor that learns less often. With `atoms` critics
//! give a distribution over values (Bellemare et al., 2017) and the actor follows the smaller of both critics' mean
//! values, as in FastTD3 (Seo et al., 2025), instead of the first critic's.

use super::critics::TwinCritics;
use super::deterministic::Actor;
use super::plan_builder::{Common, PlanBuilder};
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
    actor_loss: ActorLoss,
    actor_step: OptimiserId,
    targets: [ModelId; 3],
    tau: CellId,
    critic_figures: [FigureId; 2],
    actor_figures: [FigureId; 1],
}

/// The critics on the actor's own actions, and the way back from their values to what the actor gives.
#[derive(Debug)]
struct ActorLoss {
    critics: Vec<PassId>,
    loss: RowsId,
    gradient: RowsId,
    /// The loss, batch `[1]`.
    figure: ColumnId,
}

/// The losses as row functions, and the first critic's values on the batch.
struct Losses {
    critics: RowsId,
    actor: ActorLoss,
    q: ColumnId,
}

impl Losses {
    /// Of critics that give values: the actor follows the first one's. `loss` is the critics' column.
    fn of_values(
        plan: &mut PlanBuilder,
        common: &Common,
        critics: &TwinCritics,
        actor: &Actor,
        loss: ColumnId,
    ) -> Self {
        let Replay { obs, reward, discount, weight, error, .. } = common.replay;
        let ([q_1, q_2], [next_q_1, next_q_2]) = (critics.q(), critics.next_q(plan));
        let [d_q_1, d_q_2] = critics.d_q();
        let reads = [reward, discount, weight, next_q_1, next_q_2, q_1, q_2];
        let writes = [d_q_1, d_q_2, loss, error];
        let cells = [common.inv_batch_size];
        let critic_loss = plan.rows(&TWIN_CRITIC_LOSS, &cells, &reads, &writes);

        let inputs = [obs, actor.action];
        let q = plan.pass_and_back_to("q_of_actor", critics.models[0], &inputs, 1);
        let figure = plan.number("actor_loss");
        let actor_loss = plan.rows(&ACTOR_LOSS, &cells, &[weight, q.output], &[q.d_output, figure]);
        let reads = [actor.action, q.d_input];
        let gradient = plan.rows(&ACTOR_GRADIENT, &[], &reads, &[actor.on_batch.d_output]);
        let actor = ActorLoss { critics: vec![q.pass], loss: actor_loss, gradient, figure };
        Self { critics: critic_loss, actor, q: q_1 }
    }

    /// Of critics that give distributions: the actor follows the smaller of their means.
    fn of_distributions(
        plan: &mut PlanBuilder,
        keys: &PolicyConfig,
        common: &Common,
        critics: &TwinCritics,
        actor: &Actor,
        loss: ColumnId,
    ) -> Self {
        let Replay { obs, reward, discount, weight, error, .. } = common.replay;
        let [value_min, value_max] = [("value_min", keys.value_min), ("value_max", keys.value_max)]
            .map(|(name, value)| plan.constant(name, value));
        let cells = [common.inv_batch_size, value_min, value_max];
        let ([logits_1, logits_2], [next_1, next_2]) = (critics.q(), critics.next_q(plan));
        let [d_logits_1, d_logits_2] = critics.d_q();
        let target = plan.column("target", RowsOf::Batch, keys.atoms);
        let q = plan.number("q");
        let reads = [reward, discount, weight, next_1, next_2, logits_1, logits_2];
        let writes = [d_logits_1, d_logits_2, target, loss, error, q];
        let critic_loss = plan.rows(&value_distribution::TWIN_CRITIC_LOSS, &cells, &reads, &writes);

        let ([first, second], inputs) = (critics.models, [obs, actor.action]);
        let [of_1, of_2] = [("q_of_actor_1", first), ("q_of_actor_2", second)]
            .map(|(name, critic)| plan.pass_and_back_to(name, critic, &inputs, 1));
        let figure = plan.number("actor_loss");
        let reads = [weight, of_1.output, of_2.output];
        let writes = [of_1.d_output, of_2.d_output, figure];
        let actor_loss = plan.rows(&value_distribution::ACTOR_LOSS, &cells, &reads, &writes);
        let reads = [actor.action, of_1.d_input, of_2.d_input];
        let writes = [actor.on_batch.d_output];
        let gradient = plan.rows(&value_distribution::ACTOR_GRADIENT, &[], &reads, &writes);
        let critics = vec![of_1.pass, of_2.pass];
        let actor = ActorLoss { critics, loss: actor_loss, gradient, figure };
        Self { critics: critic_loss, actor, q }
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
        let loss = plan.number("critic_loss");
        let losses = match keys.atoms {
            1 => Losses::of_values(&mut plan, &common, &critics, &actor, loss),
            _ => Losses::of_distributions(&mut plan, keys, &common, &critics, &actor, loss),
        };

        let rate = common.learning_rate;
        let critic_step = plan.optimiser("critics", &critics.models, common.critic_rate, policy);
        let actor_step = plan.optimiser("actor", &[actor.model], rate, policy);
        let critic_figures = [plan.figure("critic_loss", loss), plan.figure("q", losses.q)];
        let actor_figures = [plan.figure("actor_loss", losses.actor.figure)];
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
            actor_loss: losses.actor,
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

        // Actor: up the slope of its actions' values.
        engine.forward(&[self.actor.on_batch.pass])?;
        engine.rows(self.actor.squash)?;
        engine.forward(&self.actor_loss.critics)?;
        engine.rows(self.actor_loss.loss)?;
        engine.backward(&self.actor_loss.critics, Gradients::OfInput)?;
        engine.rows(self.actor_loss.gradient)?;
        engine.backward(&[self.actor.on_batch.pass], Gradients::OfParameters)?;
        engine.step(self.actor_step)?;
        engine.polyak_update(&self.targets, self.tau)?;
        engine.figures(&self.actor_figures)
    }
}
