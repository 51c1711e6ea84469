//! Scratch.
use warp_envs::{VecOptions, registry};
fn main() {
    for threads in [1, 2] {
        let mut envs = registry()
            .get("cartpole")
            .unwrap()
            .make(&Default::default(), &VecOptions { n_envs: 1024, threads, ..Default::default() })
            .unwrap();
        let mut x = 1u32;
        for a in envs.store_mut().get_mut::<i32>("action.pole").unwrap() {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            *a = (x >> 31) as i32;
        }
        let t = std::time::Instant::now();
        let n = 50_000;
        for i in 0..n {
            if i % 16 == 0 {
                for a in envs.store_mut().get_mut::<i32>("action.pole").unwrap() {
                    x = x.wrapping_mul(1664525).wrapping_add(1013904223);
                    *a = (x >> 31) as i32;
                }
            }
            envs.step().unwrap();
        }
        println!(
            "{threads}: {:.1} M/s, {:?}",
            n as f64 * 1024.0 / t.elapsed().as_secs_f64() / 1e6,
            envs.take_episodes().length.sum / 1e6
        );
    }
}
