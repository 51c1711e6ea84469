//! Soft actor-critic (Haarnoja et al., 2018) for elements of a box: two critics with targets, a
//! squashed Gaussian actor, and a temperature that is learned unless it is given.

use super::draft::Draft;
use super::temperature::Temperature;
use super::{Algorithm, Engine, FigureId, Gradients, Greedy, ModelId, OptimiserId};
use super::{CellId, PassId, Plan, RowsId, Variant};
use crate::config::PolicyPlan;
use crate::error::Result;
use crate::loss::sac::{
    ACT, ACTOR_GRADIENT, ACTOR_LOSS, CRITIC_LOSS, DRAW_ACTION, OUTPUTS, TEMPERATURE_LOSS,
};
use warp_core::EnvSpec;

/// SAC's passes, row functions and optimisers.
#[derive(Debug)]
pub struct Sac {
    actor_acts: PassId,
    act: RowsId,
    actor_next: PassId,
    draw_next: RowsId,
    critics_next: [PassId; 2],
    critics: [PassId; 2],
    critic_loss: RowsId,
    critic_step: OptimiserId,
    actor: PassId,
    draw: RowsId,
    critics_of_actor: [PassId; 2],
    actor_loss: RowsId,
    actor_gradient: RowsId,
    actor_step: OptimiserId,
    temperature: Temperature,
    temperature_loss: Option<RowsId>,
    targets: [ModelId; 2],
    tau: CellId,
    figures: Vec<FigureId>,
}

impl Sac {
    /// Declares SAC for a policy.
    ///
    /// # Errors
    /// Actions that are no box.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        let keys = &policy.config;
        let mut d = Draft::default();
        let common = d.common(policy, spec)?;
        let (acting, replay, share) = (common.acting, common.replay, common.share);
        let bounds = d.bounds(policy, spec)?;
        let dim = common.action_width;
        let range = [
            d.constant("log_std_min", keys.log_std_min),
            d.constant("log_std_max", keys.log_std_max),
        ];

        let actor = d.model("actor", Draft::perceptron(policy, common.obs_width, 2 * dim));
        let critic = Draft::perceptron(policy, common.obs_width + dim, 1);
        let critics = ["critic_1", "critic_2"].map(|name| d.model(name, critic.clone()));
        let targets = critics.map(|critic| d.target(critic));
        let temperature = Temperature::plan(&mut d, policy);
        let log_alpha = temperature.log_alpha;

        let actor_acts = d.pass("output_acting", actor, &[acting.obs]);
        let act = d.rows(
            &ACT,
            &[common.random, range[0], range[1]],
            &[d.output(actor_acts), bounds.low, bounds.high],
            &[acting.action, acting.sent],
        );

        let actor_next = d.pass("next_output", actor, &[replay.next_obs]);
        let [next_action, next_noise, action, noise] =
            ["next_action", "next_noise", "drawn_action", "noise"]
                .map(|name| d.column(name, super::RowsOf::Batch, dim));
        let [next_log_prob, log_prob, critic_loss, actor_loss, alpha, entropy] =
            ["next_log_prob", "log_prob", "critic_loss", "actor_loss", "alpha", "entropy"]
                .map(|name| d.number(name));
        let draw_next = d.rows(
            &DRAW_ACTION,
            &range,
            &[d.output(actor_next)],
            &[next_action, next_noise, next_log_prob],
        );
        let q_next = |(name, target)| d.pass(name, target, &[replay.next_obs, next_action]);
        let critics_next = [("next_q_1", targets[0]), ("next_q_2", targets[1])].map(q_next);
        let q = |(name, critic)| d.pass_and_back(name, critic, &[replay.obs, replay.action]);
        let critics_of_batch = [("q_1", critics[0]), ("q_2", critics[1])].map(q);
        let [q_1, q_2] = critics_of_batch;
        let critic_loss_rows = d.rows(
            &CRITIC_LOSS,
            &[share],
            &[
                replay.reward,
                replay.discount,
                replay.weight,
                log_alpha,
                next_log_prob,
                d.output(critics_next[0]),
                d.output(critics_next[1]),
                d.output(q_1),
                d.output(q_2),
            ],
            &[d.d_output(q_1), d.d_output(q_2), critic_loss, replay.error],
        );

        let actor_pass = d.pass_and_back("output", actor, &[replay.obs]);
        let draw = d.rows(&DRAW_ACTION, &range, &[d.output(actor_pass)], &[action, noise, log_prob]);
        let q = |(name, critic)| d.pass_and_back_to(name, critic, &[replay.obs, action], 1);
        let critics_of_actor = [("q_1_drawn", critics[0]), ("q_2_drawn", critics[1])].map(q);
        let [drawn_1, drawn_2] = critics_of_actor;
        let actor_loss_rows = d.rows(
            &ACTOR_LOSS,
            &[share],
            &[log_alpha, log_prob, d.output(drawn_1), d.output(drawn_2)],
            &[d.d_output(drawn_1), d.d_output(drawn_2), actor_loss],
        );
        let actor_gradient = d.rows(
            &ACTOR_GRADIENT,
            &[share, range[0], range[1]],
            &[
                d.output(actor_pass),
                action,
                noise,
                log_alpha,
                d.d_input(drawn_1),
                d.d_input(drawn_2),
            ],
            &[d.d_output(actor_pass)],
        );

        let rate = common.learning_rate;
        let critic_step = d.optimiser("critics", &critics, rate, policy);
        let actor_step = d.optimiser("actor", &[actor], rate, policy);
        let mut figures = vec![
            d.figure("critic_loss", critic_loss),
            d.figure("actor_loss", actor_loss),
            d.figure("q", d.output(q_1)),
        ];
        let temperature_loss = temperature.learned.map(|learned| {
            let aim = keys.target_entropy.unwrap_or(-(dim as f64));
            let aim = d.constant("target_entropy", aim);
            figures.extend([d.figure("alpha", alpha), d.figure("entropy", entropy)]);
            let writes = [d.d_output(learned.pass), alpha, entropy];
            d.rows(&TEMPERATURE_LOSS, &[share, aim], &[log_alpha, log_prob], &writes)
        });
        let temperature = temperature.with_rate(&mut d, rate, policy);
        let plan = d.finish(policy, &common, Greedy { pass: actor_acts, outputs: &OUTPUTS });
        let algorithm = Self {
            actor_acts,
            act,
            actor_next,
            draw_next,
            critics_next,
            critics: critics_of_batch,
            critic_loss: critic_loss_rows,
            critic_step,
            actor: actor_pass,
            draw,
            critics_of_actor,
            actor_loss: actor_loss_rows,
            actor_gradient,
            actor_step,
            temperature,
            temperature_loss,
            targets,
            tau: common.tau,
            figures,
        };
        Ok((plan, algorithm))
    }
}

impl Algorithm for Sac {
    fn act(&self, engine: &mut dyn Engine) -> Result<()> {
        engine.forward(&[self.actor_acts])?;
        engine.rows(self.act)
    }

    fn update(&self, engine: &mut dyn Engine, _: Variant) -> Result<()> {
        engine.sample()?;
        // Both actors' passes and the temperature, with the parameters of before this update.
        engine.forward(&[self.actor_next, self.actor])?;
        engine.rows(self.draw_next)?;
        engine.rows(self.draw)?;
        self.temperature.forward(engine)?;

        // Critics: towards r + gamma (min Q'(s', a') - alpha log pi(a'|s')).
        let [q_1, q_2] = self.critics;
        let [next_1, next_2] = self.critics_next;
        engine.forward(&[q_1, q_2, next_1, next_2])?;
        engine.rows(self.critic_loss)?;
        engine.backward(&self.critics, Gradients::OfParameters)?;
        engine.step(self.critic_step)?;

        // Actor: towards actions of high value and high entropy, through the critics to their inputs.
        engine.forward(&self.critics_of_actor)?;
        engine.rows(self.actor_loss)?;
        engine.backward(&self.critics_of_actor, Gradients::OfInput)?;
        engine.rows(self.actor_gradient)?;
        engine.backward(&[self.actor], Gradients::OfParameters)?;
        engine.step(self.actor_step)?;

        // Temperature: towards the target entropy.
        if let Some(loss) = self.temperature_loss {
            engine.rows(loss)?;
            self.temperature.learn(engine)?;
        }
        engine.blend(&self.targets, self.tau)?;
        engine.figures(&self.figures)
    }
}
