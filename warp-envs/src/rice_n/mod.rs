//! RICE-N: 27 regions decide what they save, how much carbon they avoid and with whom they trade, while the
//! world warms.
//!
//! **Intended use**: research on learning with many agents. The model is far simpler than the world's economy
//! and climate; no policy that is learned here is advice.
//!
//! Model of Zhang, Williams, Phade and others (2022, arXiv:2208.07004; the figures of the regions stand in
//! `regions.rs`). An activity step is five years from 2015 on, and there are twenty. Nothing is drawn: replicas
//! differ by actions alone.
//!
//! **Actions** of a region, `MultiDiscrete`, K = `num_discrete_action_levels`; level n stands for n / K:
//! savings, mitigation, the share of output that may be exported, 27 tariffs on imports from each region, 27
//! desired imports from each. With `negotiation_on` then follow, for each partner in turn, the mitigation that
//! is promised to it and the one that is requested from it, and 27 answers (1 accepts, 2 levels).
//!
//! **An activity step**, for region i (capital k, labour l, technology A, intensity s, balance B; T the warmth
//! of the atmosphere, tau the number of the step from 1 on):
//! damage d = 1 / (1 + 0.00236 T^2); production Y = A k^0.3 (l / 1000)^0.7; cost of mitigation
//! p = 550 / 2600 (1 - 0.001)^(tau - 1) s; output Q = d (1 - p mitigation^2.6) Y; investment I = savings Q;
//! B grows by a tenth. Imports from j are wanted as a part of Q, at most Q in all; debt takes them away,
//! by 10 B / (capital at the start). Exports are at most the allowed share of Q and what investment leaves.
//! Tariffs are those of the step before. Consumption C = (sqrt(Q - I - exports) / 2 + sum of sqrt(net import from
//! j) / 52)^2; utility U = L ((C / L + 1)^-0.45 - 1) / -0.45, L = l / 1000; B gains five times exports less
//! imports. Then carbon and warmth move by linear maps, with emissions s (1 - mitigation) Y of all and of land,
//! and capital, labour, technology and intensity go on to the next step.
//!
//! **Negotiation**: each activity step comes after a step of proposals and one of answers, 60 steps in all. A
//! region must then mitigate at least the most that it promised to one who accepted, or accepted at another's
//! request: the mask of its mitigation leaves out the levels below. Masks are advice.
//!
//! **Reward**: the utility, 0 in steps of negotiation. **The end**: terminated after the last activity step.
//!
//! **Observation** of a region (1043 numbers, with negotiation 1207):
//!
//! | numbers | element |
//! |---|---|
//! | 27 | its number, one-hot |
//! | 2, 3 | temperature of atmosphere and ocean / 10; carbon in atmosphere, upper and lower ocean / 10,000 |
//! | 3 | exogenous forcing; emissions of land, per region; time / 100 |
//! | 0 or 1 | stage, with negotiation: 1 after proposals, 2 after answers, 0 else |
//! | 10 x 27 | of all regions capital / 10,000, capital that is left after a step, labour / 10,000, output Q / 1000, investment / 1000, consumption / 1000, savings, mitigation, export share, balance / 1000 |
//! | 27 x 27 | tariffs / 100 |
//! | 9 | its technology / 100, intensity / 0.1, cost of mitigation, damage, abatement, production / 1000, utility, utility discounted by 1.5 % a year, reward |
//! | 0 or 1 | the least mitigation that was agreed |
//! | 0 or 6 x 27 | what it promised and was promised, requested and was requested, answered and was answered |
//!
//! **Statistics**: `utility`, the sum of all regions' utilities; `temperature` of the atmosphere at the end;
//! `carbon` in it.
//!
//! **Deviations**: all numbers are f32. The debt of the original's GPU program, B / 10 x capital, is a slip, and not
//! repeated.
//!
//! **A yardstick**: the constant policy that saves 3 / 10, mitigates nothing, exports up to 3 / 10, sets no
//! tariffs and wants 1 / 10 from each partner has a `utility` of 151.0 over an episode; random play has about
//! 107. Greedy policies after training stand beside them in docs/results.md.

mod observe;
mod regions;
mod step;
mod tables;
#[cfg(test)]
mod tests;

use tables::Tables;
use warp_core::{
    Actions, Draw, Env, EnvSpec, GroupSpec, Kernel, Layout, LimitEnds, Observation, Result, Space,
    StepOut, Table, TimeLimit, View, in_range,
};

/// Regions.
pub const N_REGIONS: usize = 27;
/// Pairs of regions.
const N_PAIRS: usize = N_REGIONS * N_REGIONS;
/// Activity steps of an episode.
pub const N_ACTIVITIES: usize = 20;
/// Heads of savings, mitigation, export share, tariffs and imports.
const N_HEADS: usize = 3 + 2 * N_REGIONS;
/// Heads of promises, requests and answers.
const N_NEGOTIATED_HEADS: usize = 3 * N_REGIONS;
/// Numbers that a region sees.
const WIDTH: usize = 1043;
/// With negotiation.
const NEGOTIATED_WIDTH: usize = 1207;

warp_core::config! {
    /// The configuration of [`RiceN`].
    pub struct RiceNConfig {
        /// Levels of each decision, 2 to 1000.
        pub num_discrete_action_levels: u32 = 10,
        /// Whether regions negotiate before they act.
        pub negotiation_on: bool = false,
    }
}

warp_core::params! {
    /// What all replicas share.
    pub struct RiceNParams {
        /// Levels of each decision.
        levels: i32,
        /// 1: regions negotiate.
        negotiation: i32,
    }
}

warp_core::state! {
    /// The world.
    pub struct RiceNState {
        /// Warming of atmosphere and ocean, K.
        global_temperature: [f32; n_layers],
        /// Carbon in the atmosphere, the upper and the lower ocean, Gt.
        global_carbon_mass: [f32; n_reservoirs],
        /// Forcing by other gases, W/m^2.
        global_exogenous_emissions: f32,
        /// Emissions of land, per region.
        global_land_emissions: f32,
        /// Steps since the start.
        timestep: i32,
        /// Activity steps since the start.
        activity_timestep: i32,
        /// The part of capital that a step leaves.
        capital_depreciation: f32,
        /// The part of production that warmth leaves.
        damages: f32,
        /// Trillion USD.
        capital: [f32; n_regions],
        /// Million people.
        labor: [f32; n_regions],
        /// Technology.
        production_factor: [f32; n_regions],
        /// Carbon per production.
        intensity: [f32; n_regions],
        /// What other regions owe, trillion USD; negative: debt.
        current_balance: [f32; n_regions],
        /// Before damage and mitigation, trillion USD per year.
        production: [f32; n_regions],
        /// What is left of it.
        gross_output: [f32; n_regions],
        /// The part of it that is saved.
        investment: [f32; n_regions],
        /// Domestic and foreign goods in one number.
        consumption: [f32; n_regions],
        /// The last decision on savings.
        savings: [f32; n_regions],
        /// The last decision on mitigation.
        mitigation_rate: [f32; n_regions],
        /// The last decision on exports.
        max_export_limit: [f32; n_regions],
        /// What full mitigation costs, as a part of production.
        mitigation_cost: [f32; n_regions],
        /// What mitigation costs.
        abatement_cost: [f32; n_regions],
        /// Utility of the last activity step.
        utility: [f32; n_regions],
        /// Utility of the last activity step, discounted to 2015.
        social_welfare: [f32; n_regions],
        /// Reward of the last step.
        reward: [f32; n_regions],
        /// The least mitigation that was agreed.
        minimum_mitigation_rate: [f32; n_regions],
        /// On imports to the first from the second.
        tariffs: [f32; n_regions, n_regions],
        /// Mitigation that the first promises to the second; one row without negotiation.
        promised_mitigation_rate: [f32; n_negotiators, n_regions],
        /// Mitigation that the first requests from the second.
        requested_mitigation_rate: [f32; n_negotiators, n_regions],
        /// 1: the first accepts the proposal of the second.
        proposal_decisions: [f32; n_negotiators, n_regions],
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct RiceN {
    params: RiceNParams,
    tables: Tables,
}

impl RiceN {
    fn negotiates(&self) -> bool {
        self.params.negotiation == 1
    }

    /// Choices of each head.
    fn heads(&self) -> Vec<usize> {
        let levels = self.params.levels as usize;
        let mut sizes = vec![levels; N_HEADS];
        if self.negotiates() {
            sizes.extend([levels; 2 * N_REGIONS]);
            sizes.extend([2; N_REGIONS]);
        }
        sizes
    }
}

impl Env for RiceN {
    const NAME: &'static str = "rice_n";
    const NOTICE: Option<&'static str> = Some(
        "rice_n is a toy model for research on learning, not for decisions about real policy: those need \
         experts in climate and in economics",
    );
    type Config = RiceNConfig;
    type Params = RiceNParams;
    type State = RiceNState<'static>;

    fn new(config: &RiceNConfig) -> Result<Self> {
        let levels = config.num_discrete_action_levels;
        in_range("num_discrete_action_levels", levels, 2, 1000)?;
        let negotiation = i32::from(config.negotiation_on);
        let params = RiceNParams { levels: levels as i32, negotiation };
        Ok(Self { params, tables: Tables::new() })
    }

    fn spec(&self) -> EnvSpec {
        let sizes = self.heads();
        let width = if self.negotiates() { NEGOTIATED_WIDTH } else { WIDTH };
        let mask = Space::boxed(0.0, 1.0, &[sizes.iter().sum()]);
        let steps = N_ACTIVITIES as u32 * if self.negotiates() { 3 } else { 1 };
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![GroupSpec {
                name: "region".into(),
                n_agents: N_REGIONS,
                observation: Space::Dict(vec![
                    (warp_core::space::ACTION_MASK.into(), mask),
                    ("features".into(), Space::unbounded(width)),
                ]),
                action: Space::MultiDiscrete { sizes },
                mortal: false,
            }],
            time_limit: TimeLimit { steps, ends: LimitEnds::Terminated },
            statistics: ["utility", "temperature", "carbon"].map(String::from).to_vec(),
            global_observation: None,
        }
    }

    fn params(&self) -> &RiceNParams {
        &self.params
    }

    fn tables(&self) -> Vec<Table<'_>> {
        self.tables.named()
    }

    fn dims(&self) -> Vec<(&'static str, usize)> {
        let negotiators = if self.negotiates() { N_REGIONS } else { 1 };
        vec![
            ("n_layers", 2),
            ("n_reservoirs", 3),
            ("n_regions", N_REGIONS),
            ("n_negotiators", negotiators),
        ]
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "rice_n/step.cu", text, layout: Layout::TeamPerReplica })
    }

    #[inline(always)]
    fn reset(&self, state: &mut View<'_, Self>, _draw: &mut Draw) {
        step::reset(&self.tables, state);
    }

    #[inline(always)]
    fn observe(&self, state: &View<'_, Self>, out: &mut Observation<'_>) {
        observe::observe(&self.params, state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut View<'_, Self>,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, &self.tables, state, actions, out);
    }
}
