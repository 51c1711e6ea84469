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
    ACT, ACTOR_GRADIENT, ACTOR_LOSS, CRITIC_LOSS, DRAW_ACTION, TEMPERATURE_LOSS,
};
use warp_core::EnvSpec;

/// SAC's passes, row functions and optimisers.
#[derive(Debug)]
pub struct Sac {
    acts: PassId,
    act: RowsId,
    explore: RowsId,
    next: Drawn,
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

/// A pass of the actor and an action drawn from what it gives.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    pass: PassId,
    draw: RowsId,
    action: ColumnId,
    /// The normal numbers that the action was made of.
    noise: ColumnId,
    log_prob: ColumnId,
}

impl Drawn {
    fn plan(d: &mut PlanBuilder, name: &str, pass: PassId, range: [CellId; 2], dim: usize) -> Self {
        let action = d.column(&format!("{name}_action"), RowsOf::Batch, dim);
        let noise = d.column(&format!("{name}_noise"), RowsOf::Batch, dim);
        let log_prob = d.number(&format!("{name}_log_prob"));
        let writes = [action, noise, log_prob];
        let draw = d.rows(&DRAW_ACTION, &range, &[d.output(pass)], &writes);
        Self { pass, draw, action, noise, log_prob }
    }
}

/// The actor on the batch, and the critics on what it draws there.
#[derive(Debug)]
struct Actor {
    drawn: Drawn,
    critics: [PassId; 2],
    loss: RowsId,
    gradient: RowsId,
    /// Its loss, batch `[1]`.
    figure: ColumnId,
}

impl Actor {
    fn plan(
        d: &mut PlanBuilder,
        common: &Common,
        actor: ModelId,
        critics: [ModelId; 2],
        range: [CellId; 2],
        log_alpha: ColumnId,
    ) -> Self {
        let (replay, share) = (common.replay, common.share);
        let output = d.pass_and_back("output", actor, &[replay.obs]);
        let drawn = Drawn::plan(d, "drawn", output.pass, range, common.action_width);
        let [first, second] = critics;
        let inputs = [replay.obs, drawn.action];
        let [q_1, q_2] = [("drawn_q_1", first), ("drawn_q_2", second)]
            .map(|(name, critic)| d.pass_and_back_to(name, critic, &inputs, 1));
        let figure = d.number("actor_loss");
        let reads = [replay.weight, log_alpha, drawn.log_prob, q_1.output, q_2.output];
        let writes = [q_1.d_output, q_2.d_output, figure];
        let loss = d.rows(&ACTOR_LOSS, &[share], &reads, &writes);
        let gradient = d.rows(
            &ACTOR_GRADIENT,
            &[share, range[0], range[1]],
            &[
                replay.weight,
                output.output,
                drawn.action,
                drawn.noise,
                log_alpha,
                q_1.d_input,
                q_2.d_input,
            ],
            &[output.d_output],
        );
        let critics = [q_1.pass, q_2.pass];
        Self { drawn, critics, loss, gradient, figure }
    }
}

impl Sac {
    /// Declares SAC for a policy.
    ///
    /// # Errors
    /// The action space is not a `Box`.
    pub fn plan(policy: &PolicyPlan, spec: &EnvSpec) -> Result<(Plan, Self)> {
        let keys = &policy.config;
        let mut d = PlanBuilder::default();
        let common = d.common(policy, spec)?;
        let (acting, replay, dim) = (common.acting, common.replay, common.action_width);
        let (share, rate) = (common.share, common.learning_rate);
        let range = [("log_std_min", keys.log_std_min), ("log_std_max", keys.log_std_max)]
            .map(|(name, bound)| d.constant(name, bound));
        let actor_model =
            d.model("actor", PlanBuilder::perceptron(policy, common.obs_width, 2 * dim));

        let acts = d.pass("output_acting", actor_model, &[acting.obs]);
        let wanted = d.column("wanted", RowsOf::Acting, dim);
        let act = d.rows(&ACT, &range, &[d.output(acts)], &[wanted]);
        let explore = noise::explore(&mut d, policy, spec, &common, wanted)?;

        let pass = d.pass("next_output", actor_model, &[replay.next_obs]);
        let next = Drawn::plan(&mut d, "next", pass, range, dim);
        let network = PlanBuilder::perceptron(policy, common.obs_width + dim, 1);
        let now = [replay.obs, replay.action];
        let critics = TwinCritics::plan(&mut d, &network, &now, &[replay.next_obs, next.action]);
        let temperature = Temperature::plan(&mut d, policy);
        let log_alpha = temperature.log_alpha;
        let ([q_1, q_2], [next_q_1, next_q_2]) = (critics.q(), critics.next_q(&d));
        let [d_q_1, d_q_2] = critics.d_q();
        let loss = d.number("critic_loss");
        let Replay { reward, discount, weight, error, .. } = replay;
        let reads =
            [reward, discount, weight, log_alpha, next.log_prob, next_q_1, next_q_2, q_1, q_2];
        let critic_loss = d.rows(&CRITIC_LOSS, &[share], &reads, &[d_q_1, d_q_2, loss, error]);
        let actor = Actor::plan(&mut d, &common, actor_model, critics.models, range, log_alpha);

        let critic_step = d.optimiser("critics", &critics.models, common.critic_rate, policy);
        let actor_step = d.optimiser("actor", &[actor_model], rate, policy);
        let mut figures = vec![d.figure("critic_loss", loss), d.figure("actor_loss", actor.figure)];
        figures.push(d.figure("q", q_1));
        let temperature_loss = temperature.learned.map(|learned| {
            let [alpha, entropy] = ["alpha", "entropy"].map(|name| d.number(name));
            figures.extend([d.figure("alpha", alpha), d.figure("entropy", entropy)]);
            let aim = d.constant("target_entropy", keys.target_entropy.unwrap_or(-(dim as f64)));
            let reads = [weight, log_alpha, actor.drawn.log_prob];
            let writes = [learned.pass.d_output, alpha, entropy];
            d.rows(&TEMPERATURE_LOSS, &[share, aim], &reads, &writes)
        });
        let temperature = temperature.with_rate(&mut d, rate, policy);
        let plan = d.finish(policy, &common, Greedy { pass: acts, outputs: None });
        let algorithm = Self {
            acts,
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
        engine.forward(&[self.acts])?;
        engine.rows(self.act)?;
        engine.rows(self.explore)
    }

    fn update(&self, engine: &mut dyn Engine, _: Variant) -> Result<()> {
        let Self { next, critics, actor, temperature, .. } = self;
        engine.sample()?;
        // Actions here and in what follows, by the actor and the temperature of before this update.
        temperature.forward(engine)?;
        engine.forward(&[next.pass, actor.drawn.pass])?;
        engine.rows(next.draw)?;
        engine.rows(actor.drawn.draw)?;

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
        engine.backward(&[actor.drawn.pass], Gradients::OfParameters)?;
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
