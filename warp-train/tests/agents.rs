//! Policies that act for some agents of a group: each sees, moves and learns from its own, and no other.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use runs::{AnyLearner, Folder, TAG, bits, bits_of, config, iterate, trainer};
use warp_func::VecEnv;
use warp_sample::Mode;
use warp_train::evaluate::{EvalOptions, choose_actions, evaluate};
use warp_train::rollout::Rollout;
use warp_train::run::Snapshot;
use warp_train::{Actions, Checkpoint, Learner, TrainConfig, Trainer, checkpoint, native};

/// Four runners and two taggers, dealt to three policies that have the agents of no group one after the other.
const DEALT: &str = "[policy.even]\ngroups = [\"runner[0,2]\", \"tagger[1]\"]\nlearning_rate = 1e-3\n\
                     [policy.odd]\ngroups = [\"runner[1,3]\"]\nnorm_obs = true\n\
                     [policy.chief]\ngroups = [\"tagger[0]\"]\nhidden = [6]\nnorm_reward = true";

/// Group and agent of each row of a replica, policy after policy.
fn places(config: &TrainConfig) -> Vec<Vec<(usize, usize)>> {
    let each = config.policies.iter().map(|plan| {
        let ranges = plan.agents.iter();
        ranges.flat_map(|range| range.agents().map(|agent| (range.group, agent))).collect()
    });
    each.collect()
}

/// Number of the element of an array `[n_envs, agents of the group, width]` where an agent's row begins.
fn at(envs: &dyn VecEnv, replica: usize, (group, agent): (usize, usize), width: usize) -> usize {
    (replica * envs.spec().groups[group].n_agents + agent) * width
}

#[test]
fn rollouts_hold_what_their_own_agents_saw_did_and_got() {
    let config = config(TAG, "num_steps = 1\nnum_minibatches = 1", DEALT);
    let places = places(&config);
    let sizes: Vec<usize> = places.iter().map(Vec::len).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 6);
    let mut trainer = trainer(&config, 1);
    let registry = warp_envs::registry();
    let entry = registry.get("tag_continuous").unwrap();
    let mut envs = entry.make(&config.env, &config.vec_options()).unwrap();
    let mut rollout = Rollout::new(&config);
    let mut learner = AnyLearner::new(&config, 1).unwrap();
    learner.load_state(&trainer.learner().state()).unwrap();
    let (mut rewarded, mut gone) = (0, 0);
    for _ in 0..30 {
        choose_actions(&mut learner, &mut rollout, &mut *envs, Mode::Sample, &[false; 3]).unwrap();
        let seen: Vec<Vec<f32>> = rollout.policies.iter().map(|p| p.obs_at(0).to_vec()).collect();
        for (policy, places) in places.iter().enumerate() {
            let part = &rollout.policies[policy];
            let (width, n_agents) = (part.width, places.len());
            for (row, place) in (0..config.run.num_envs * n_agents)
                .map(|row| (row, (row / n_agents, places[row % n_agents])))
            {
                let (replica, (group, _)) = place;
                let ids = envs.ids();
                let obs = envs.store().slice::<f32>(ids.obs[group]);
                let from = at(&*envs, replica, place.1, width);
                assert_eq!(seen[policy][row * width..][..width], obs[from..][..width]);
                let sent = envs.store().slice::<i32>(ids.action[group]);
                let from = at(&*envs, replica, place.1, 2);
                let Actions::Discrete(own) = &part.actions else { panic!("{:?}", part.actions) };
                assert_eq!(own[2 * row..][..2], sent[from..][..2]);
                let alive = ids.alive[group].map(|id| envs.store().slice::<u8>(id));
                let alive = alive.map(|alive| alive[at(&*envs, replica, place.1, 1)]);
                if let Some(weight) = part.weights.get(row) {
                    assert_eq!(*weight, f32::from(alive.unwrap_or(1)));
                    gone += u32::from(*weight == 0.0);
                }
            }
        }
        envs.step().unwrap();
        for (part, places) in rollout.policies.iter_mut().zip(&places) {
            part.store_outcome(0, &*envs);
            for row in 0..part.n_rows {
                let (replica, place) = (row / places.len(), places[row % places.len()]);
                let rewards = envs.store().slice::<f32>(envs.ids().reward[place.0]);
                assert_eq!(part.rewards[row], rewards[at(&*envs, replica, place, 1)]);
                rewarded += u32::from(part.rewards[row] != 0.0);
            }
        }
    }
    assert!(rewarded > 100 && gone > 100, "{rewarded} {gone}");
    iterate(&mut trainer, 1);
}

#[test]
fn each_policy_has_weights_and_keys_of_its_own() {
    let tables = DEALT.replace("norm_reward = true", "to_train = false");
    let run = |threads| {
        let mut trainer = trainer(&config(TAG, "", &tables), threads);
        let before = trainer.learner().state();
        iterate(&mut trainer, 3);
        (before, trainer.learner().state())
    };
    let (before, after) = run(1);
    assert_eq!(bits_of(&before, "chief"), bits_of(&after, "chief"));
    for policy in ["even", "odd"] {
        assert_ne!(bits_of(&before, policy), bits_of(&after, policy));
    }
    assert_eq!(bits(&after), bits(&run(2).1));
    // Of those that observations are normalised by: two runners of four.
    let rows = after.statistics.iter().find(|s| s.name == "odd.obs_count").unwrap();
    assert!(rows.data[0] > 0.0 && rows.data[0] <= (3 * 12 * 24 * 2) as f64, "{rows:?}");
}

/// A group dealt agent by agent to one policy is the group.
#[test]
fn all_agents_by_number_are_the_group() {
    let trained = |groups: &str| {
        let tables = format!("[policy.all]\ngroups = {groups}");
        let mut trainer = trainer(&config(TAG, "norm_obs = true", &tables), 1);
        iterate(&mut trainer, 2);
        bits(&trainer.learner().state())
    };
    assert_eq!(
        trained(r#"["runner[0-1]", "tagger[1]", "tagger[0]", "runner[2,3]"]"#),
        trained(r#"["runner", "tagger"]"#)
    );
}

#[test]
fn a_run_goes_on_from_a_checkpoint_bit_by_bit() {
    let tag = "[policy.a]\ngroups = [\"runner[0,3]\", \"tagger[0]\"]\n\
               [policy.b]\ngroups = [\"tagger[1]\", \"runner[1-2]\"]";
    let grid =
        "[policy.a]\ngroups = [\"runner\", \"tagger[0,2]\"]\n[policy.b]\ngroups = [\"tagger[1]\"]";
    let dqn = "env_id = \"tag_gridworld\"\nalgorithm = \"dqn\"\nnum_envs = 5\nnum_steps = 8\nhidden = [8]\n\
               learning_starts = 0\nbuffer_size = 2000\n[env]\nnum_taggers = 3\ngrid_length = 4";
    for config in [config(TAG, "", tag), config(dqn, "", grid)] {
        let mut straight = whole(&config);
        iterate(&mut straight, 4);
        let mut first = whole(&config);
        iterate(&mut first, 2);
        let folder = Folder::new(&format!("agents-{}", config.run.env_id));
        let snapshot = Snapshot::of(&first.counters(), first.learner().state(), first.envs());
        let path = checkpoint::save(folder.path(), &snapshot).unwrap();
        let mut second = whole(&config);
        second.restore(&Checkpoint::open(&path).unwrap()).unwrap();
        iterate(&mut second, 2);
        assert_eq!(bits(&straight.learner().state()), bits(&second.learner().state()));
    }
}

fn whole(config: &TrainConfig) -> Trainer {
    let learner = native::learner(config, 1).unwrap();
    Trainer::new(config.clone(), &warp_envs::registry(), learner, 1).unwrap()
}

/// What policies of one group earn is told apart, and adds up to what the group earns.
#[test]
fn evaluations_have_the_return_of_each_policy() {
    let config = config(TAG, "", DEALT);
    let mut learner = AnyLearner::new(&config, 1).unwrap();
    let mut evaluation = |random: &[&str]| {
        let options = EvalOptions {
            episodes: 20,
            mode: Mode::Greedy,
            random: random.iter().map(ToString::to_string).collect(),
            threads: 1,
        };
        evaluate(&mut learner, &config, &warp_envs::registry(), &options).unwrap()
    };
    let found = evaluation(&[]);
    let sum = |by: &std::collections::BTreeMap<String, f64>| by.values().sum::<f64>();
    assert_eq!(found.policy_return.len(), 3);
    assert!((sum(&found.policy_return) - sum(&found.group_return)).abs() < 1e-9, "{found:?}");
    assert_ne!(found.policy_return, evaluation(&["chief"]).policy_return);
    // Whole groups are told apart by themselves.
    let whole = runs::config(TAG, "", "");
    let mut learner = AnyLearner::new(&whole, 1).unwrap();
    let options = EvalOptions { episodes: 2, mode: Mode::Greedy, random: Vec::new(), threads: 1 };
    let found = evaluate(&mut learner, &whole, &warp_envs::registry(), &options).unwrap();
    assert!(found.policy_return.is_empty());
}
