//! Deep deterministic policy gradient (Lillicrap et al., 2016): a deterministic actor that ascends the gradient of one
//! critic with respect to the action, and target networks of both.

use super::deterministic::Actor;
use super::plan_builder::PlanBuilder;
use super::{Algorithm, CellId, Engine, FigureId, Gradients, Greedy, ModelId};
use super::{OptimiserId, PassId, Plan, RowsId, RowsOf, Variant};
use crate::algorithm::PolicyPlan;
use crate::error::Result;
use crate::loss::deterministic::{ACTOR_GRADIENT, ACTOR_LOSS, CRITIC_LOSS, OUTPUTS, SQUASH};
use warp_core::EnvSpec;

/// DDPG's passes, row functions and optimisers.
#[derive(Debug)]
pub struct Ddpg {
    actor: Actor,
    squash_next: RowsId,
    critic_target_pass: PassId,
    critic: PassId,
    critic_loss: RowsId,
    critic_step: OptimiserId,
    critic_of_actor: PassId,
    actor_loss: RowsId,
    actor_gradient: RowsId,
    actor_step: OptimiserId,
    targets: [ModelId; 2],
    tau: CellId,
    figures: [FigureId; 3],
}

impl Ddpg {
    /// Declares DDPG for a policy.
    ///
    /// # Errors
    /// The action space is not a `Box`.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        let mut plan = PlanBuilder::default();
        let common = plan.common(policy, spec)?;
        let (replay, inv_batch_size, dim) =
            (common.replay, common.inv_batch_size, common.action_width);
        let actor = Actor::plan(&mut plan, policy, spec, &common)?;
        let network = PlanBuilder::perceptron(policy, common.obs_width + dim, 1);
        let critic_model = plan.model("critic", network);
        let critic_target = plan.target(critic_model);

        let next_action = plan.column("next_action", RowsOf::Batch, dim);
        let squash_next =
            plan.rows(&SQUASH, &[], &[plan.output(actor.target_pass)], &[next_action]);
        let critic_target_pass =
            plan.pass("next_q", critic_target, &[replay.next_obs, next_action]);
        let critic = plan.pass_and_back("q", critic_model, &[replay.obs, replay.action]);
        let [critic_loss, actor_loss] = ["critic_loss", "actor_loss"].map(|name| plan.number(name));
        let critic_loss_rows = plan.rows(
            &CRITIC_LOSS,
            &[inv_batch_size],
            &[
                replay.reward,
                replay.discount,
                replay.weight,
                plan.output(critic_target_pass),
                critic.output,
            ],
            &[critic.d_output, critic_loss, replay.error],
        );

        let inputs = [replay.obs, actor.action];
        let critic_of_actor = plan.pass_and_back_to("q_of_actor", critic_model, &inputs, 1);
        let actor_loss_rows = plan.rows(
            &ACTOR_LOSS,
            &[inv_batch_size],
            &[replay.weight, critic_of_actor.output],
            &[critic_of_actor.d_output, actor_loss],
        );
        let actor_gradient = plan.rows(
            &ACTOR_GRADIENT,
            &[],
            &[actor.action, critic_of_actor.d_input],
            &[actor.on_batch.d_output],
        );

        let rate = common.learning_rate;
        let critic_step = plan.optimiser("critic", &[critic_model], common.critic_rate, policy);
        let actor_step = plan.optimiser("actor", &[actor.model], rate, policy);
        let figures = [
            plan.figure("critic_loss", critic_loss),
            plan.figure("actor_loss", actor_loss),
            plan.figure("q", critic.output),
        ];
        let targets = [actor.target, critic_target];
        let plan =
            plan.finish(policy, &common, Greedy { pass: actor.act_pass, outputs: Some(&OUTPUTS) });
        let algorithm = Self {
            actor,
            squash_next,
            critic_target_pass,
            critic: critic.pass,
            critic_loss: critic_loss_rows,
            critic_step,
            critic_of_actor: critic_of_actor.pass,
            actor_loss: actor_loss_rows,
            actor_gradient,
            actor_step,
            targets,
            tau: common.tau,
            figures,
        };
        Ok((plan, algorithm))
    }
}

impl Algorithm for Ddpg {
    fn act(&self, engine: &mut dyn Engine) -> Result<()> {
        self.actor.act(engine)
    }

    fn update(&self, engine: &mut dyn Engine, _: Variant) -> Result<()> {
        engine.sample()?;
        // Critic: towards r + gamma Q'(s', mu'(s')).
        engine.forward(&[self.actor.target_pass, self.actor.on_batch.pass])?;
        engine.rows(self.squash_next)?;
        engine.rows(self.actor.squash)?;
        engine.forward(&[self.critic, self.critic_target_pass])?;
        engine.rows(self.critic_loss)?;
        engine.backward(&[self.critic], Gradients::OfParameters)?;
        engine.step(self.critic_step)?;

        // Actor: up the critic's slope by the action.
        engine.forward(&[self.critic_of_actor])?;
        engine.rows(self.actor_loss)?;
        engine.backward(&[self.critic_of_actor], Gradients::OfInput)?;
        engine.rows(self.actor_gradient)?;
        engine.backward(&[self.actor.on_batch.pass], Gradients::OfParameters)?;
        engine.step(self.actor_step)?;

        engine.polyak_update(&self.targets, self.tau)?;
        engine.figures(&self.figures)
    }
}
