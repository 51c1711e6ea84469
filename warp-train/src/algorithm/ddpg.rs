//! Deep deterministic policy gradient (Lillicrap et al., 2016): one critic, whose slope by the action
//! the actor climbs, and targets of both.

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
    critic_next: PassId,
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
        let mut d = PlanBuilder::default();
        let common = d.common(policy, spec)?;
        let (replay, share, dim) = (common.replay, common.share, common.action_width);
        let actor = Actor::plan(&mut d, policy, spec, &common)?;
        let network = PlanBuilder::perceptron(policy, common.obs_width + dim, 1);
        let critic_model = d.model("critic", network);
        let critic_target = d.target(critic_model);

        let next_action = d.column("next_action", RowsOf::Batch, dim);
        let squash_next = d.rows(&SQUASH, &[], &[d.output(actor.next)], &[next_action]);
        let critic_next = d.pass("next_q", critic_target, &[replay.next_obs, next_action]);
        let critic = d.pass_and_back("q", critic_model, &[replay.obs, replay.action]);
        let [critic_loss, actor_loss] = ["critic_loss", "actor_loss"].map(|name| d.number(name));
        let critic_loss_rows = d.rows(
            &CRITIC_LOSS,
            &[share],
            &[replay.reward, replay.discount, replay.weight, d.output(critic_next), critic.output],
            &[critic.d_output, critic_loss, replay.error],
        );

        let inputs = [replay.obs, actor.action];
        let critic_of_actor = d.pass_and_back_to("q_of_actor", critic_model, &inputs, 1);
        let actor_loss_rows = d.rows(
            &ACTOR_LOSS,
            &[share],
            &[replay.weight, critic_of_actor.output],
            &[critic_of_actor.d_output, actor_loss],
        );
        let actor_gradient = d.rows(
            &ACTOR_GRADIENT,
            &[],
            &[actor.action, critic_of_actor.d_input],
            &[actor.output.d_output],
        );

        let rate = common.learning_rate;
        let critic_step = d.optimiser("critic", &[critic_model], common.critic_rate, policy);
        let actor_step = d.optimiser("actor", &[actor.model], rate, policy);
        let figures = [
            d.figure("critic_loss", critic_loss),
            d.figure("actor_loss", actor_loss),
            d.figure("q", critic.output),
        ];
        let targets = [actor.target, critic_target];
        let plan = d.finish(policy, &common, Greedy { pass: actor.acts, outputs: Some(&OUTPUTS) });
        let algorithm = Self {
            actor,
            squash_next,
            critic_next,
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
        engine.forward(&[self.actor.next, self.actor.output.pass])?;
        engine.rows(self.squash_next)?;
        engine.rows(self.actor.squash)?;
        engine.forward(&[self.critic, self.critic_next])?;
        engine.rows(self.critic_loss)?;
        engine.backward(&[self.critic], Gradients::OfParameters)?;
        engine.step(self.critic_step)?;

        // Actor: up the critic's slope by the action.
        engine.forward(&[self.critic_of_actor])?;
        engine.rows(self.actor_loss)?;
        engine.backward(&[self.critic_of_actor], Gradients::OfInput)?;
        engine.rows(self.actor_gradient)?;
        engine.backward(&[self.actor.output.pass], Gradients::OfParameters)?;
        engine.step(self.actor_step)?;

        engine.polyak_update(&self.targets, self.tau)?;
        engine.figures(&self.figures)
    }
}
