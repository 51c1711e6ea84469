//! Soft actor-critic for one discrete action (Christodoulou, 2019): critics value every choice, so that
//! the actor's loss is an expectation, without sampling.

use super::critics::TwinCritics;
use super::plan_builder::{Common, LearningPass, PlanBuilder};
use super::temperature::{Learned, Temperature};
use super::{Algorithm, CellId, ColumnId, Engine, FigureId, Gradients, Greedy, ModelId};
use super::{OptimiserId, PassId, Plan, Replay, RowsId, Variant};
use crate::algorithm::{Noise, PolicyPlan};
use crate::error::{Error, Result};
use crate::loss::sac_discrete::{
    ACT, ACTOR_LOSS, CRITIC_LOSS, MASKED_TEMPERATURE_LOSS, TEMPERATURE_LOSS,
};
use warp_core::EnvSpec;

/// Share of the largest entropy that a learned temperature aims at, as in the paper.
const ENTROPY_SHARE: f64 = 0.98;
/// The same where masks forbid choices, as in CleanRL: the largest entropy is that of the allowed choices, and a policy that
/// maximises reward and entropy prefers states with many of them, so that 0.98 can be out of reach at any temperature.
const MASKED_ENTROPY_SHARE: f64 = 0.89;

/// Discrete SAC's passes, row functions and optimisers.
#[derive(Debug)]
pub struct SacDiscrete {
    actor_acts: PassId,
    act: RowsId,
    actor_next: PassId,
    critics: TwinCritics,
    critic_loss: RowsId,
    critic_step: OptimiserId,
    actor: Actor,
    actor_step: OptimiserId,
    temperature: Temperature,
    temperature_loss: Option<RowsId>,
    tau: CellId,
    figures: Vec<FigureId>,
}

/// The actor on the batch, and the critics there after their step.
#[derive(Debug)]
struct Actor {
    logits: LearningPass,
    critics: [PassId; 2],
    rows: RowsId,
    /// Its loss, batch `[1]`.
    loss: ColumnId,
    /// Batch `[1]`.
    entropy: ColumnId,
}

impl Actor {
    fn plan(
        d: &mut PlanBuilder,
        common: &Common,
        actor: ModelId,
        critics: [ModelId; 2],
        log_alpha: ColumnId,
    ) -> Self {
        let obs = common.replay.obs;
        let logits = d.pass_and_back("logits", actor, &[obs]);
        let [first, second] = critics;
        let critics = [("q_1_now", first), ("q_2_now", second)]
            .map(|(name, model)| d.pass(name, model, &[obs]));
        let [q_1, q_2] = critics.map(|pass| d.output(pass));
        let [loss, entropy] = ["actor_loss", "entropy"].map(|name| d.number(name));
        let (weight, mask) = (common.replay.weight, common.allowed.now);
        let reads = [weight, mask, log_alpha, logits.output, q_1, q_2];
        let writes = [logits.d_output, loss, entropy];
        let rows = d.rows(&ACTOR_LOSS, &[common.share], &reads, &writes);
        Self { logits, critics, rows, loss, entropy }
    }

    /// The loss of a temperature that is learned, and the temperature: towards the target entropy, or where masks say
    /// which choices are allowed, a share of the largest entropy that these have.
    fn temperature(
        &self,
        d: &mut PlanBuilder,
        policy: &PolicyPlan,
        common: &Common,
        learned: Learned,
    ) -> (RowsId, ColumnId) {
        let (Common { share, replay, .. }, alpha) = (common, d.number("alpha"));
        let (weight, log_alpha, entropy) = (replay.weight, learned.pass.output, self.entropy);
        let writes = [learned.pass.d_output, alpha];
        let aim = policy.config.target_entropy;
        if let (Some(mask), None) = (replay.mask, aim) {
            let aim = d.constant("entropy_share", MASKED_ENTROPY_SHARE);
            let reads = [weight, mask, log_alpha, entropy];
            return (d.rows(&MASKED_TEMPERATURE_LOSS, &[*share, aim], &reads, &writes), alpha);
        }
        let aim = aim.unwrap_or_else(|| ENTROPY_SHARE * (common.n_choices as f64).ln());
        let aim = d.constant("target_entropy", aim);
        let reads = [weight, log_alpha, entropy];
        (d.rows(&TEMPERATURE_LOSS, &[*share, aim], &reads, &writes), alpha)
    }
}

impl SacDiscrete {
    /// Declares discrete SAC for a policy.
    ///
    /// # Errors
    /// The action space is not `Discrete`.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        refuse_noise(policy)?;
        let mut d = PlanBuilder::default();
        let common = d.common(policy, spec)?;
        let Common { acting, replay, share, allowed, .. } = common;
        let n = PlanBuilder::choices(policy, spec, &common)?;
        let network = PlanBuilder::perceptron(policy, common.obs_width, n);
        let actor_model = d.model("actor", network.clone());
        let critics = TwinCritics::plan(&mut d, &network, &[replay.obs], &[replay.next_obs]);
        let temperature = Temperature::plan(&mut d, policy);
        let log_alpha = temperature.log_alpha;

        let actor_acts = d.pass("logits_acting", actor_model, &[acting.obs]);
        let reads = [d.output(actor_acts), allowed.acting];
        let act = d.rows(&ACT, &[common.acting.random], &reads, &[acting.action, acting.sent]);

        let actor_next = d.pass("next_logits", actor_model, &[replay.next_obs]);
        let ([q_1, q_2], [next_q_1, next_q_2]) = (critics.q(), critics.next_q(&d));
        let [d_q_1, d_q_2] = critics.d_q();
        let [loss, value] = ["critic_loss", "value"].map(|name| d.number(name));
        let Replay { reward, discount, weight, action, error, .. } = replay;
        let (next, next_logits) = (allowed.next, d.output(actor_next));
        let reads = [
            reward,
            discount,
            weight,
            action,
            next,
            log_alpha,
            next_logits,
            next_q_1,
            next_q_2,
            q_1,
            q_2,
        ];
        let writes = [d_q_1, d_q_2, loss, error, value];
        let critic_loss = d.rows(&CRITIC_LOSS, &[share], &reads, &writes);

        let actor = Actor::plan(&mut d, &common, actor_model, critics.models, log_alpha);

        let rate = common.learning_rate;
        let critic_step = d.optimiser("critics", &critics.models, common.critic_rate, policy);
        let actor_step = d.optimiser("actor", &[actor_model], rate, policy);
        let mut figures = vec![
            d.figure("critic_loss", loss),
            d.figure("actor_loss", actor.loss),
            d.figure("q", value),
            d.figure("entropy", actor.entropy),
        ];
        let temperature_loss = temperature.learned.map(|learned| {
            let (rows, alpha) = actor.temperature(&mut d, policy, &common, learned);
            figures.push(d.figure("alpha", alpha));
            rows
        });
        let temperature = temperature.with_rate(&mut d, rate, policy);
        let plan = d.finish(policy, &common, Greedy { pass: actor_acts, outputs: None });
        let algorithm = Self {
            actor_acts,
            act,
            actor_next,
            critics,
            critic_loss,
            critic_step,
            actor,
            actor_step,
            temperature,
            temperature_loss,
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
        engine.forward(&[self.actor_next, self.actor.logits.pass])?;
        engine.forward(&self.critics.passes())?;
        engine.rows(self.critic_loss)?;
        engine.backward(&self.critics.learning(), Gradients::OfParameters)?;
        engine.step(self.critic_step)?;

        // Actor: towards choices of high value and high entropy.
        engine.forward(&self.actor.critics)?;
        engine.rows(self.actor.rows)?;
        engine.backward(&[self.actor.logits.pass], Gradients::OfParameters)?;
        engine.step(self.actor_step)?;

        // Temperature: towards the target entropy.
        if let Some(loss) = self.temperature_loss {
            engine.rows(loss)?;
            self.temperature.learn(engine)?;
        }
        engine.polyak_update(&self.critics.targets, self.tau)?;
        engine.figures(&self.figures)
    }
}

/// Noise is added to actions within a box; a choice is drawn.
fn refuse_noise(policy: &PolicyPlan) -> Result<()> {
    match policy.config.noise {
        Noise::None => Ok(()),
        _ => Err(Error::Invalid(format!(
            "policy \"{}\": noise is for actions in a Box; a discrete action is sampled",
            policy.name
        ))),
    }
}
