//! Scratch.
use warp_envs::{VecOptions, registry};
fn cpu() -> f64 {
    std::fs::read_to_string("/proc/self/schedstat")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse::<f64>()
        .unwrap()
        / 1e9
}
fn bench(name: &str, config: &str, n_envs: usize) {
    let n_envs = std::env::var("ENVS").map_or(n_envs, |e| e.parse().unwrap());
    for threads in [1, 2] {
        if threads == 2 && std::env::var("ONE").is_ok() {
            continue;
        }
        let mut on_cpu = 0.0;
        let mut best = f64::MAX;
        let mut envs = registry()
            .get(name)
            .unwrap()
            .make(
                &config.parse().unwrap(),
                &VecOptions {
                    n_envs: std::env::var("ENVS").map_or(n_envs, |e| e.parse().unwrap()),
                    threads,
                    ..Default::default()
                },
            )
            .unwrap();
        let mut x = 88172645463325252u64;
        let sizes: Vec<Vec<usize>> =
            envs.spec().groups.iter().map(|g| g.action.head_sizes()).collect();
        let ids = envs.ids().action.clone();
        let mut fill = |envs: &mut Box<dyn warp_envs::VecEnv>| {
            for (g, id) in ids.iter().enumerate() {
                let k = sizes[g].len();
                for (i, a) in envs.store_mut().slice_mut::<i32>(*id).iter_mut().enumerate() {
                    x ^= x << 13;
                    x ^= x >> 7;
                    x ^= x << 17;
                    *a = ((x >> 32) * sizes[g][i % k] as u64 >> 32) as i32;
                }
            }
        };
        let mut total = 0.0;
        let mut steps = 0u64;
        while total < 2.5 {
            fill(&mut envs);
            let m = 4;
            let t = std::time::Instant::now();
            let c = cpu();
            for _ in 0..m {
                let b = std::time::Instant::now();
                envs.step().unwrap();
                best = best.min(b.elapsed().as_secs_f64());
            }
            total += t.elapsed().as_secs_f64();
            on_cpu += cpu() - c;
            steps += m * n_envs as u64;
        }
        let e = envs.take_episodes();
        println!(
            "{name} [{config}] {n_envs} envs, {threads} threads: {:.3} M/s, {:.2} us/step/thread, {:.2} us CPU, best {:.2} us ({:.3} M/s), mean episode {:.1}",
            steps as f64 / total / 1e6,
            total * 1e6 * threads as f64 / steps as f64,
            on_cpu * 1e6 * threads as f64 / steps as f64,
            best * 1e6 * threads as f64 / n_envs as f64,
            n_envs as f64 / best / 1e6,
            e.length.sum / e.count as f64
        );
    }
}
fn main() {
    let which: Vec<String> = std::env::args().skip(1).collect();
    let all = [
        (
            "tag_continuous",
            "num_taggers = 5\nnum_runners = 100\nuse_full_observation = false\nnum_other_agents_observed = 10\n",
            1024,
        ),
        (
            "tag_continuous",
            "num_taggers = 5\nnum_runners = 100\nuse_full_observation = false\nnum_other_agents_observed = 10\nrunner_exits_game_after_tagged = false",
            1024,
        ),
        (
            "tag_continuous",
            "num_taggers = 5\nnum_runners = 100\nuse_full_observation = true\n",
            256,
        ),
        ("tag_continuous", "num_taggers = 2\nnum_runners = 3\nuse_full_observation = true\n", 1024),
        (
            "tag_continuous",
            "num_taggers = 2\nnum_runners = 3\nuse_full_observation = false\n",
            1024,
        ),
        (
            "tag_continuous",
            "num_taggers = 10\nnum_runners = 990\nuse_full_observation = false\nnum_other_agents_observed = 10\n",
            64,
        ),
        (
            "tag_continuous",
            "num_taggers = 5\nnum_runners = 100\nuse_full_observation = false\nnum_other_agents_observed = 50\n",
            256,
        ),
        ("tag_gridworld", "num_taggers = 4\n", 1024),
        ("tag_gridworld", "num_taggers = 4\nuse_full_observation = false", 1024),
        ("tag_gridworld", "num_taggers = 10\n", 1024),
    ];
    for (i, (n, c, e)) in all.iter().enumerate() {
        if which.is_empty() || which.contains(&i.to_string()) {
            bench(n, c, *e);
        }
    }
}
