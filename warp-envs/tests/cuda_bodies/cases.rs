//! Which configurations are compared, besides the default one.

/// A configuration of one environment.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// What is special about it, as a part of the test's name.
    pub(crate) name: &'static str,
    /// The configuration over the defaults, in TOML.
    pub(crate) config: String,
}

/// Configurations of covid19 beside its own.
const COVID19_CASES: [(&str, &str); 3] = [
    ("other_keys", COVID19),
    ("logarithm", "economic_reward_crra_eta = 1"),
    ("near_one", "economic_reward_crra_eta = 1.01"),
];

/// Keys of covid19 that lead to other branches than the defaults.
const COVID19: &str = "episode_length = 40\neconomic_reward_crra_eta = 1.5\nobserve_rate = true\n\
    delivery_interval = 3\nsubsidy_interval = 7\nnum_subsidy_levels = 4\n\
    vaccine_delivery_start_date = \"2020-04-01\"\naction_cooldown_period = 2\n\
    reward_normalization_factor = 3";

/// Agents that do not move: four, and `close` others that these see from afar, side by side within the
/// last bits of their places and the nearer the higher their number.
fn standing(close: u32) -> String {
    let n = close + 4;
    let x = |i: u32| if i < 4 { 1.0 + i as f32 } else { f32::from_bits(5f32.to_bits() + n - i) };
    let x: Vec<String> = (0..n).map(|i| x(i).to_string()).collect();
    format!(
        "num_taggers = 5\nnum_runners = {}\nuse_full_observation = false\nmax_speed = 0\n\
         num_other_agents_observed = 8\nepisode_length = 3\ntagging_distance = 0\n\
         starting_location_x = [{}]\nstarting_location_y = [{}]",
        n - 5,
        x.join(", "),
        vec!["5.0"; n as usize].join(", "),
    )
}

/// What is compared of a toy text besides the defaults: names and configurations.
fn toy_text(env: &str) -> &'static [(&'static str, &'static str)] {
    match env {
        "blackjack" => &[("natural", "sab = false\nnatural = true")],
        "catch" => &[("wide", "height = 7\nwidth = 9"), ("narrow", "height = 2\nwidth = 1")],
        "cliff_walking" => &[("slippery", "is_slippery = true\nepisode_length = 60")],
        "frozen_lake" => &[
            ("large", "map_name = \"8x8\"\nsuccess_rate = 0.6"),
            ("dry", "map_name = \"random\"\nis_slippery = false"),
            ("own", "desc = [\"SFS\", \"HFG\"]\nreward_schedule = [2, -1, -0.1]"),
        ],
        "nchain" => &[("short", "episode_length = 13")],
        "taxi" => &[("rain", "is_rainy = true\nfickle_passenger = true")],
        _ => &[],
    }
}

/// The configurations of environment `env`; of one that is not named here the default.
pub(crate) fn of(env: &str) -> Vec<Case> {
    let named: &[(&str, &str)] = match env {
        "acrobot" | "cartpole" => &[("warpdrive", "preset = \"warpdrive\"\nepisode_length = 60")],
        "mountain_car" | "continuous_mountain_car" => {
            &[("near", "goal_velocity = -0.07\nepisode_length = 400")]
        }
        "catalysis" => &[
            ("near", "initial_state = [22, 9, 5]\nepisode_length = 30\nmin_reward = -0.4"),
            ("anywhere", "exploring_starts = 0.7\nepisode_length = 40"),
        ],
        "catalysis_two_atoms" => &[
            ("near", "final_state = [0, 1, 4, 0, 4, 4]\nepisode_length = 30"),
            ("anywhere", "exploring_starts = 0.7\nepisode_length = 40"),
        ],
        "covid19" => &COVID19_CASES,
        "pendulum" => &[("warpdrive", "preset = \"warpdrive\"")],
        "rice_n" => &[
            ("negotiation", "negotiation_on = true"),
            ("hundred_levels", "num_discrete_action_levels = 100"),
        ],
        "tag_gridworld" => &[
            ("partial", "use_full_observation = false\nnum_taggers = 4\ngrid_length = 6"),
            ("crowd", "use_full_observation = false\nnum_taggers = 70\ngrid_length = 300"),
            ("original", "placement = \"original\"\nnum_taggers = 5\nepisode_length = 50"),
            ("original_pool", "placement = \"original_pool\"\nnum_taggers = 5\ngrid_length = 7"),
        ],
        "tag_continuous" => &[
            (
                "partial",
                "num_taggers = 5\nnum_runners = 37\nuse_full_observation = false\n\
                 num_other_agents_observed = 10\ntagging_distance = 0.03\nedge_hit_penalty = -0.5\n\
                 step_penalty_for_tagger = -0.01\nmax_speed = 0.5",
            ),
            (
                "runners_stay",
                "num_taggers = 3\nnum_runners = 20\nrunner_exits_game_after_tagged = false\n\
                 tagging_distance = 0.2\nstep_reward_for_runner = 0.125\nepisode_length = 40",
            ),
            (
                "fixed_starts",
                "num_taggers = 1\nnum_runners = 3\ngrid_length = 2\ntagging_distance = 0.1\n\
                 starting_location_x = [0, 0.5, 1, 2]\nstarting_location_y = [0, 0.5, 1, 2]\n\
                 starting_directions = [0, 1, 2, -7]\nuse_full_observation = false\n\
                 num_other_agents_observed = 4",
            ),
            (
                "several_passes",
                "num_taggers = 4\nnum_runners = 30\nuse_full_observation = false\n\
                 num_other_agents_observed = 23\ngrid_length = 3\nepisode_length = 30",
            ),
            (
                "nobody_seen",
                "num_taggers = 2\nnum_runners = 2\nuse_full_observation = false\n\
                 num_other_agents_observed = 0\nepisode_length = 20",
            ),
            (
                "several_tiles",
                "num_taggers = 300\nnum_runners = 900\nuse_full_observation = false\n\
                 num_other_agents_observed = 10\ntagging_distance = 0.001\nepisode_length = 2",
            ),
        ],
        _ => toy_text(env),
    };
    let case = |(name, config): &(&'static str, &str)| Case { name, config: (*config).into() };
    let mut cases: Vec<Case> = [("default", "")].iter().chain(named).map(case).collect();
    if env == "tag_continuous" {
        // Few enough to be sorted, and too many.
        cases.push(Case { name: "twenty_close", config: standing(20) });
        cases.push(Case { name: "forty_close", config: standing(40) });
    }
    cases
}
