//! Soft actor-critic for one discrete action (Christodoulou, 2019): critics value every choice, so that
//! the actor's loss is an expectation, without a draw.

use super::draft::Draft;
use super::temperature::Temperature;
use super::{Algorithm, CellId, Engine, FigureId, Gradients, Greedy, ModelId};
use super::{OptimiserId, PassId, Plan, RowsId, Variant};
use crate::config::PolicyPlan;
use crate::error::Result;
use crate::loss::sac_discrete::{ACT, ACTOR_LOSS, CRITIC_LOSS, OUTPUTS, TEMPERATURE_LOSS};
use warp_core::EnvSpec;

/// Share of the largest entropy that a learned temperature aims at.
const ENTROPY_SHARE: f64 = 0.98;

/// Discrete SAC's passes, row functions and optimisers.
#[derive(Debug)]
pub struct SacDiscrete {
    actor_acts: PassId,
    act: RowsId,
    actor_next: PassId,
    critics_next: [PassId; 2],
    critics: [PassId; 2],
    critic_loss: RowsId,
    critic_step: OptimiserId,
    actor: PassId,
    critics_of_actor: [PassId; 2],
    actor_loss: RowsId,
    actor_step: OptimiserId,
    temperature: Temperature,
    temperature_loss: Option<RowsId>,
    targets: [ModelId; 2],
    tau: CellId,
    figures: Vec<FigureId>,
}

impl SacDiscrete {
    /// Declares discrete SAC for a policy.
    ///
    /// # Errors
    /// Actions that are not one of some choices.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        let mut d = Draft::default();
        let common = d.common(policy, spec)?;
        let (acting, replay, share) = (common.acting, common.replay, common.share);
        let allowed = common.allowed;
        let n = Draft::choices(policy, spec, &common)?;
        let network = Draft::perceptron(policy, common.obs_width, n);
        let actor_model = d.model("actor", network.clone());
        let models = ["critic_1", "critic_2"].map(|name| d.model(name, network.clone()));
        let targets = models.map(|model| d.target(model));
        let temperature = Temperature::plan(&mut d, policy);
        let log_alpha = temperature.log_alpha;

        let actor_acts = d.pass("logits_acting", actor_model, &[acting.obs]);
        let reads = [d.output(actor_acts), allowed.acting];
        let act = d.rows(&ACT, &[common.random], &reads, &[acting.action, acting.sent]);

        let actor_next = d.pass("next_logits", actor_model, &[replay.next_obs]);
        let q_next = |(name, target)| d.pass(name, target, &[replay.next_obs]);
        let critics_next = [("next_q_1", targets[0]), ("next_q_2", targets[1])].map(q_next);
        let q = |(name, model)| d.pass_and_back(name, model, &[replay.obs]);
        let critics = [("q_1", models[0]), ("q_2", models[1])].map(q);
        let [critic_loss, actor_loss, value, entropy] =
            ["critic_loss", "actor_loss", "value", "entropy"].map(|name| d.number(name));
        let critic_loss_rows = d.rows(
            &CRITIC_LOSS,
            &[share],
            &[
                replay.reward,
                replay.discount,
                replay.weight,
                replay.action,
                allowed.next,
                log_alpha,
                d.output(actor_next),
                d.output(critics_next[0]),
                d.output(critics_next[1]),
                d.output(critics[0]),
                d.output(critics[1]),
            ],
            &[d.d_output(critics[0]), d.d_output(critics[1]), critic_loss, replay.error, value],
        );

        let actor = d.pass_and_back("logits", actor_model, &[replay.obs]);
        let q = |(name, model)| d.pass(name, model, &[replay.obs]);
        let critics_of_actor = [("q_1_now", models[0]), ("q_2_now", models[1])].map(q);
        let actor_loss_rows = d.rows(
            &ACTOR_LOSS,
            &[share],
            &[
                allowed.now,
                log_alpha,
                d.output(actor),
                d.output(critics_of_actor[0]),
                d.output(critics_of_actor[1]),
            ],
            &[d.d_output(actor), actor_loss, entropy],
        );

        let rate = common.learning_rate;
        let critic_step = d.optimiser("critics", &models, rate, policy);
        let actor_step = d.optimiser("actor", &[actor_model], rate, policy);
        let mut figures = vec![
            d.figure("critic_loss", critic_loss),
            d.figure("actor_loss", actor_loss),
            d.figure("q", value),
            d.figure("entropy", entropy),
        ];
        let temperature_loss = temperature.learned.map(|learned| {
            let aim = ENTROPY_SHARE * (n as f64).ln();
            let aim = policy.config.target_entropy.unwrap_or(aim);
            let aim = d.constant("target_entropy", aim);
            let alpha = d.number("alpha");
            figures.push(d.figure("alpha", alpha));
            let writes = [d.d_output(learned.pass), alpha];
            d.rows(&TEMPERATURE_LOSS, &[share, aim], &[log_alpha, entropy], &writes)
        });
        let temperature = temperature.with_rate(&mut d, rate, policy);
        let plan = d.finish(policy, &common, Greedy { pass: actor_acts, outputs: &OUTPUTS });
        let algorithm = Self {
            actor_acts,
            act,
            actor_next,
            critics_next,
            critics,
            critic_loss: critic_loss_rows,
            critic_step,
            actor,
            critics_of_actor,
            actor_loss: actor_loss_rows,
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

impl Algorithm for SacDiscrete {
    fn act(&self, engine: &mut dyn Engine) -> Result<()> {
        engine.forward(&[self.actor_acts])?;
        engine.rows(self.act)
    }

    fn update(&self, engine: &mut dyn Engine, _: Variant) -> Result<()> {
        engine.sample()?;
        self.temperature.forward(engine)?;
        // Critics: towards r + gamma E(min Q'(s', a') - alpha log pi(a'|s')).
        let [q_1, q_2] = self.critics;
        let [next_1, next_2] = self.critics_next;
        engine.forward(&[self.actor_next, self.actor, q_1, q_2, next_1, next_2])?;
        engine.rows(self.critic_loss)?;
        engine.backward(&self.critics, Gradients::OfParameters)?;
        engine.step(self.critic_step)?;

        // Actor: towards choices of high value and high entropy.
        engine.forward(&self.critics_of_actor)?;
        engine.rows(self.actor_loss)?;
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
