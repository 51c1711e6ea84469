//! Soft actor-critic (Haarnoja et al., 2018) for elements of a box: two critics with targets, a
//! squashed Gaussian actor, and a temperature that is learned unless it is given.

use super::critics::TwinCritics;
use super::plan_builder::{Common, PlanBuilder};
use super::temperature::Temperature;
use super::{Algorithm, CellId, ColumnId, Engine, FigureId, Gradients, Greedy, noise};
use super::{ModelId, OptimiserId, PassId, Plan, Replay, RowsId, RowsOf, Variant};
use crate::algorithm::PolicyPlan;
use crate::error::Result;
use crate::loss::sac::{
    ACT, ACTOR_GRADIENT, ACTOR_LOSS, CRITIC_LOSS, SAMPLE_ACTION, TEMPERATURE_LOSS,
};
use warp_core::EnvSpec;

/// SAC's passes, row functions and optimisers.
#[derive(Debug)]
pub struct Sac {
    act_pass: PassId,
    act: RowsId,
    explore: RowsId,
    next: SampledAction,
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

/// A pass of the actor and an action sampled from what it gives.
#[derive(Debug, Clone, Copy)]
struct SampledAction {
    pass: PassId,
    sample: RowsId,
    action: ColumnId,
    /// The normal numbers that the action was made of.
    noise: ColumnId,
    log_prob: ColumnId,
}

impl SampledAction {
    fn plan(
        plan: &mut PlanBuilder,
        name: &str,
        pass: PassId,
        range: [CellId; 2],
        dim: usize,
    ) -> Self {
        let action = plan.column(&format!("{name}_action"), RowsOf::Batch, dim);
        let noise = plan.column(&format!("{name}_noise"), RowsOf::Batch, dim);
        let log_prob = plan.number(&format!("{name}_log_prob"));
        let writes = [action, noise, log_prob];
        let sample = plan.rows(&SAMPLE_ACTION, &range, &[plan.output(pass)], &writes);
        Self { pass, sample, action, noise, log_prob }
    }
}

/// The actor on the batch, and the critics on what it samples there.
#[derive(Debug)]
struct Actor {
    sampled: SampledAction,
    critics: [PassId; 2],
    loss: RowsId,
    gradient: RowsId,
    /// Its loss, batch `[1]`.
    figure: ColumnId,
}

impl Actor {
    fn plan(
        plan: &mut PlanBuilder,
        common: &Common,
        actor: ModelId,
        critics: [ModelId; 2],
        range: [CellId; 2],
        log_alpha: ColumnId,
    ) -> Self {
        let (replay, inv_batch_size) = (common.replay, common.inv_batch_size);
        let on_batch = plan.pass_and_back("output", actor, &[replay.obs]);
        let sampled =
            SampledAction::plan(plan, "sampled", on_batch.pass, range, common.action_width);
        let [first, second] = critics;
        let inputs = [replay.obs, sampled.action];
        let [q_1, q_2] = [("sampled_q_1", first), ("sampled_q_2", second)]
            .map(|(name, critic)| plan.pass_and_back_to(name, critic, &inputs, 1));
        let figure = plan.number("actor_loss");
        let reads = [replay.weight, log_alpha, sampled.log_prob, q_1.output, q_2.output];
        let writes = [q_1.d_output, q_2.d_output, figure];
        let loss = plan.rows(&ACTOR_LOSS, &[inv_batch_size], &reads, &writes);
        let gradient = plan.rows(
            &ACTOR_GRADIENT,
            &[inv_batch_size, range[0], range[1]],
            &[
                replay.weight,
                on_batch.output,
                sampled.action,
                sampled.noise,
                log_alpha,
                q_1.d_input,
                q_2.d_input,
            ],
            &[on_batch.d_output],
        );
        let critics = [q_1.pass, q_2.pass];
        Self { sampled, critics, loss, gradient, figure }
    }
}

impl Sac {
    /// Declares SAC for a policy.
    ///
    /// # Errors
    /// The action space is not a `Box`.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        let keys = &policy.config;
        let mut plan = PlanBuilder::default();
        let common = plan.common(policy, spec)?;
        let (acting, replay, dim) = (common.acting, common.replay, common.action_width);
        let (inv_batch_size, rate) = (common.inv_batch_size, common.learning_rate);
        let range = [("log_std_min", keys.log_std_min), ("log_std_max", keys.log_std_max)]
            .map(|(name, bound)| plan.constant(name, bound));
        let actor_model =
            plan.model("actor", PlanBuilder::perceptron(policy, common.obs_width, 2 * dim));

        let act_pass = plan.pass("output_acting", actor_model, &[acting.obs]);
        let policy_action = plan.column("policy_action", RowsOf::Acting, dim);
        let act = plan.rows(&ACT, &range, &[plan.output(act_pass)], &[policy_action]);
        let explore = noise::explore(&mut plan, policy, spec, &common, policy_action)?;

        let pass = plan.pass("next_output", actor_model, &[replay.next_obs]);
        let next = SampledAction::plan(&mut plan, "next", pass, range, dim);
        let network = PlanBuilder::perceptron(policy, common.obs_width + dim, 1);
        let now = [replay.obs, replay.action];
        let critics = TwinCritics::plan(&mut plan, &network, &now, &[replay.next_obs, next.action]);
        let temperature = Temperature::plan(&mut plan, policy);
        let log_alpha = temperature.log_alpha;
        let ([q_1, q_2], [next_q_1, next_q_2]) = (critics.q(), critics.next_q(&plan));
        let [d_q_1, d_q_2] = critics.d_q();
        let loss = plan.number("critic_loss");
        let Replay { reward, discount, weight, error, .. } = replay;
        let reads =
            [reward, discount, weight, log_alpha, next.log_prob, next_q_1, next_q_2, q_1, q_2];
        let critic_loss =
            plan.rows(&CRITIC_LOSS, &[inv_batch_size], &reads, &[d_q_1, d_q_2, loss, error]);
        let actor = Actor::plan(&mut plan, &common, actor_model, critics.models, range, log_alpha);

        let critic_step = plan.optimiser("critics", &critics.models, common.critic_rate, policy);
        let actor_step = plan.optimiser("actor", &[actor_model], rate, policy);
        let mut figures =
            vec![plan.figure("critic_loss", loss), plan.figure("actor_loss", actor.figure)];
        figures.push(plan.figure("q", q_1));
        let temperature_loss = temperature.learned.map(|learned| {
            let [alpha, entropy] = ["alpha", "entropy"].map(|name| plan.number(name));
            figures.extend([plan.figure("alpha", alpha), plan.figure("entropy", entropy)]);
            let target_entropy =
                plan.constant("target_entropy", keys.target_entropy.unwrap_or(-(dim as f64)));
            let reads = [weight, log_alpha, actor.sampled.log_prob];
            let writes = [learned.pass.d_output, alpha, entropy];
            plan.rows(&TEMPERATURE_LOSS, &[inv_batch_size, target_entropy], &reads, &writes)
        });
        let temperature = temperature.with_rate(&mut plan, rate, policy);
        let plan = plan.finish(policy, &common, Greedy { pass: act_pass, outputs: None });
        let algorithm = Self {
            act_pass,
            act,
            explore,
            next,
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

impl Algorithm for Sac {
    fn act(&self, engine: &mut dyn Engine) -> Result<()> {
        engine.forward(&[self.act_pass])?;
        engine.rows(self.act)?;
        engine.rows(self.explore)
    }

    fn update(&self, engine: &mut dyn Engine, _: Variant) -> Result<()> {
        let Self { next, critics, actor, temperature, .. } = self;
        engine.sample()?;
        // Actions here and in what follows, by the actor and the temperature of before this update.
        temperature.forward(engine)?;
        engine.forward(&[next.pass, actor.sampled.pass])?;
        engine.rows(next.sample)?;
        engine.rows(actor.sampled.sample)?;

        // Critics: towards r + gamma (min Q'(s', a') - alpha log pi(a'|s')).
        engine.forward(&critics.passes())?;
        engine.rows(self.critic_loss)?;
        engine.backward(&critics.learning(), Gradients::OfParameters)?;
        engine.step(self.critic_step)?;

        // Actor: towards actions of high value and high entropy, through the critics to their inputs.
        engine.forward(&actor.critics)?;
        engine.rows(actor.loss)?;
        engine.backward(&actor.critics, Gradients::OfInput)?;
        engine.rows(actor.gradient)?;
        engine.backward(&[actor.sampled.pass], Gradients::OfParameters)?;
        engine.step(self.actor_step)?;

        // Temperature: towards the target entropy.
        if let Some(loss) = self.temperature_loss {
            engine.rows(loss)?;
            temperature.learn(engine)?;
        }
        engine.polyak_update(&critics.targets, self.tau)?;
        engine.figures(&self.figures)
    }
}
