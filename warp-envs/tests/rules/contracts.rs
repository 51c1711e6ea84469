//! The contract of worlds whose rules are tested within the crate, by the registry.

use warp_envs::registry;

fn check(name: &str, texts: &[&str]) {
    for text in texts {
        registry().get(name).unwrap().check(&text.parse().unwrap(), 7).unwrap();
    }
}

#[test]
fn covid19_keeps_the_contract() {
    check("covid19", &["episode_length = 33\ndelivery_interval = 3"]);
}

#[test]
fn rice_n_keeps_the_contract() {
    // With negotiation it would take as long again; recordings of either are replayed.
    check("rice_n", &["num_discrete_action_levels = 3"]);
}

#[test]
fn tag_continuous_keeps_the_contract() {
    check(
        "tag_continuous",
        &[
            "num_taggers = 2\nnum_runners = 5\ntagging_distance = 0.1",
            "num_taggers = 2\nnum_runners = 5\nrunner_exits_game_after_tagged = false\n\
             tagging_distance = 0.2\nuse_full_observation = false\nnum_other_agents_observed = 7",
            "num_taggers = 3\nnum_runners = 20\nuse_full_observation = false\ngrid_length = 3\n\
             tagging_distance = 0.05\nnum_other_agents_observed = 13\nedge_hit_penalty = -0.5",
            "num_taggers = 1\nnum_runners = 1\nepisode_length = 1",
            "num_acceleration_levels = 0\nnum_turn_levels = 1\nuse_full_observation = false\n\
             num_other_agents_observed = 0",
            "num_taggers = 1\nnum_runners = 2\nmax_speed = 0",
        ],
    );
}
