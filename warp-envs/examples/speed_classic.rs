//! Scratch.
use warp_envs::{VecOptions, registry};
fn main() {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let threads: usize = std::env::var("THREADS").ok().and_then(|t| t.parse().ok()).unwrap_or(1);
    for (name, group, choices, bound) in [
        ("cartpole", "pole", 2, 0.0f32),
        ("acrobot", "arm", 3, 0.0),
        ("mountain_car", "car", 3, 0.0),
        ("continuous_mountain_car", "car", 0, 1.0),
        ("pendulum", "pendulum", 0, 2.0),
    ] {
        if !only.is_empty() && !only.iter().any(|o| o == name) {
            continue;
        }
        let options = VecOptions { n_envs: 1024, threads, ..Default::default() };
        let mut envs = registry().get(name).unwrap().make(&Default::default(), &options).unwrap();
        let mut draw = warp_core::Draw::new(5, 0, 0, warp_core::Purpose::RandomAction);
        let mut next = move || draw.next_u32() >> 8;
        let discrete: Vec<Vec<i32>> = (0..64)
            .map(|_| {
                (0..1024).map(|_| if choices > 0 { (next() % choices) as i32 } else { 0 }).collect()
            })
            .collect();
        let real: Vec<Vec<f32>> = (0..64)
            .map(|_| (0..1024).map(|_| (next() as f32 / 8_388_608.0 - 1.0) * bound).collect())
            .collect();
        let array = format!("action.{group}");
        let mut best = 0.0f64;
        for _ in 0..12 {
            let n = 4_000;
            let t = std::time::Instant::now();
            for i in 0..n {
                if choices > 0 {
                    envs.store_mut()
                        .get_mut::<i32>(&array)
                        .unwrap()
                        .copy_from_slice(&discrete[i % 64]);
                } else {
                    envs.store_mut().get_mut::<f32>(&array).unwrap().copy_from_slice(&real[i % 64]);
                }
                envs.step().unwrap();
            }
            best = best.max(n as f64 * 1024.0 / t.elapsed().as_secs_f64() / 1e6);
        }
        println!("{name} threads {threads}: best {best:.1} M steps/s, {:?}", envs.take_episodes());
    }
}
