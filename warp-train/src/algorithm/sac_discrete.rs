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
    act_pass: PassId,
    act: RowsId,
    next_pass: PassId,
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
        plan: &mut PlanBuilder,
        common: &Common,
        actor: ModelId,
        critics: [ModelId; 2],
        log_alpha: ColumnId,
    ) -> Self {
        let obs = common.replay.obs;
        let logits = plan.pass_and_back("logits", actor, &[obs]);
        let [first, second] = critics;
        let critics = [("q_1_now", first), ("q_2_now", second)]
            .map(|(name, model)| plan.pass(name, model, &[obs]));
        let [q_1, q_2] = critics.map(|pass| plan.output(pass));
        let [loss, entropy] = ["actor_loss", "entropy"].map(|name| plan.number(name));
        let (weight, mask) = (common.replay.weight, common.allowed.now);
        let reads = [weight, mask, log_alpha, logits.output, q_1, q_2];
        let writes = [logits.d_output, loss, entropy];
        let rows = plan.rows(&ACTOR_LOSS, &[common.inv_batch_size], &reads, &writes);
        Self { logits, critics, rows, loss, entropy }
    }

    /// The loss of a temperature that is learned, and the temperature: towards the target entropy, or where masks say
    /// which choices are allowed, a share of the largest entropy that these have.
    fn temperature(
        &self,
        plan: &mut PlanBuilder,
        policy: &PolicyPlan,
        common: &Common,
        learned: Learned,
    ) -> (RowsId, ColumnId) {
        let (Common { inv_batch_size, replay, .. }, alpha) = (common, plan.number("alpha"));
        let (weight, log_alpha, entropy) = (replay.weight, learned.pass.output, self.entropy);
        let writes = [learned.pass.d_output, alpha];
        let given = policy.config.target_entropy;
        if let (Some(mask), None) = (replay.mask, given) {
            let entropy_share = plan.constant("entropy_share", MASKED_ENTROPY_SHARE);
            let reads = [weight, mask, log_alpha, entropy];
            let cells = [*inv_batch_size, entropy_share];
            return (plan.rows(&MASKED_TEMPERATURE_LOSS, &cells, &reads, &writes), alpha);
        }
        let largest = (common.n_choices as f64).ln();
        let target_entropy =
            plan.constant("target_entropy", given.unwrap_or(ENTROPY_SHARE * largest));
        let reads = [weight, log_alpha, entropy];
        (plan.rows(&TEMPERATURE_LOSS, &[*inv_batch_size, target_entropy], &reads, &writes), alpha)
    }
}

impl SacDiscrete {
    /// Declares discrete SAC for a policy.
    ///
    /// # Errors
    /// The action space is not `Discrete`.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        refuse_noise(policy)?;
        let mut plan = PlanBuilder::default();
        let common = plan.common(policy, spec)?;
        let Common { acting, replay, inv_batch_size, allowed, .. } = common;
        let n = PlanBuilder::choices(policy, spec, &common)?;
        let network = PlanBuilder::perceptron(policy, common.obs_width, n);
        let actor_model = plan.model("actor", network.clone());
        let critics = TwinCritics::plan(&mut plan, &network, &[replay.obs], &[replay.next_obs]);
        let temperature = Temperature::plan(&mut plan, policy);
        let log_alpha = temperature.log_alpha;

        let act_pass = plan.pass("logits_acting", actor_model, &[acting.obs]);
        let reads = [plan.output(act_pass), allowed.acting];
        let act =
            plan.rows(&ACT, &[common.acting.random], &reads, &[acting.action, acting.env_action]);

        let next_pass = plan.pass("next_logits", actor_model, &[replay.next_obs]);
        let ([q_1, q_2], [next_q_1, next_q_2]) = (critics.q(), critics.next_q(&plan));
        let [d_q_1, d_q_2] = critics.d_q();
        let [loss, value] = ["critic_loss", "value"].map(|name| plan.number(name));
        let Replay { reward, discount, weight, action, error, .. } = replay;
        let (next, next_logits) = (allowed.next, plan.output(next_pass));
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
        let critic_loss = plan.rows(&CRITIC_LOSS, &[inv_batch_size], &reads, &writes);

        let actor = Actor::plan(&mut plan, &common, actor_model, critics.models, log_alpha);

        let rate = common.learning_rate;
        let critic_step = plan.optimiser("critics", &critics.models, common.critic_rate, policy);
        let actor_step = plan.optimiser("actor", &[actor_model], rate, policy);
        let mut figures = vec![
            plan.figure("critic_loss", loss),
            plan.figure("actor_loss", actor.loss),
            plan.figure("q", value),
            plan.figure("entropy", actor.entropy),
        ];
        let temperature_loss = temperature.learned.map(|learned| {
            let (rows, alpha) = actor.temperature(&mut plan, policy, &common, learned);
            figures.push(plan.figure("alpha", alpha));
            rows
        });
        let temperature = temperature.with_rate(&mut plan, rate, policy);
        let plan = plan.finish(policy, &common, Greedy { pass: act_pass, outputs: None });
        let algorithm = Self {
            act_pass,
            act,
            next_pass,
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
        engine.forward(&[self.act_pass])?;
        engine.rows(self.act)
    }

    fn update(&self, engine: &mut dyn Engine, _: Variant) -> Result<()> {
        engine.sample()?;
        self.temperature.forward(engine)?;
        // Critics: towards r + gamma E(min Q'(s', a') - alpha log pi(a'|s')).
        engine.forward(&[self.next_pass, self.actor.logits.pass])?;
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
