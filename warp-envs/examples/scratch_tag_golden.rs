//! Scratch.
use std::collections::HashMap;
use warp_core::{
    Config, Env,
    single::{GroupAction, Single},
};
use warp_envs::{tag_continuous::*, tag_gridworld::*};
type A = HashMap<String, (Vec<usize>, Vec<f64>)>;
fn read(p: &str) -> A {
    let b = std::fs::read(p).unwrap();
    let mut i = 0;
    let u = |i: &mut usize| {
        let v = u32::from_le_bytes(b[*i..*i + 4].try_into().unwrap());
        *i += 4;
        v as usize
    };
    let mut out = A::new();
    while i < b.len() {
        let n = u(&mut i);
        let name = String::from_utf8(b[i..i + n].to_vec()).unwrap();
        i += n;
        let nd = u(&mut i);
        let shape: Vec<usize> = (0..nd).map(|_| u(&mut i)).collect();
        let c: usize = shape.iter().product();
        let v = (0..c)
            .map(|k| f64::from_le_bytes(b[i + 8 * k..i + 8 * k + 8].try_into().unwrap()))
            .collect();
        i += 8 * c;
        out.insert(name, (shape, v));
    }
    out
}
fn cont(case: &str, margin: f64) {
    let dir = "/tmp/tag_golden/";
    let a = read(&format!("{dir}{case}.bin"));
    let text = std::fs::read_to_string(format!("{dir}{case}.toml")).unwrap();
    let config = TagContinuousConfig::from_table(&text.parse().unwrap()).unwrap();
    let env = TagContinuous::new(&config).unwrap();
    assert_eq!(f64::from(env.params().distance_margin_for_reward), margin);
    let types = &a["agent_types"].1;
    let n = types.len();
    let perm: Vec<usize> =
        (0..n).filter(|i| types[*i] == 1.0).chain((0..n).filter(|i| types[*i] == 0.0)).collect();
    let nt = config.num_taggers as usize;
    for t in env.tables() {
        if let (Some(g), warp_core::TableData::F32(d)) = (a.get(t.name), t.data) {
            let per_agent = t.name == "skill_levels" || t.name == "step_rewards";
            for (j, v) in d.iter().enumerate() {
                assert_eq!(f64::from(*v), g.1[if per_agent { perm[j] } else { j }], "{}", t.name);
            }
            assert_eq!(d.len(), g.1.len());
        }
    }
    let steps = a["actions"].0[0];
    let f = a["observations"].0[2];
    let row = |name: &str, t: usize| -> Vec<f64> {
        let v = &a[name].1;
        perm.iter().map(|p| v[t * n + p]).collect()
    };
    let full = config.use_full_observation;
    let (mut state_err, mut free_err, mut obs_err, mut rew_err, mut skipped, mut done_bad) =
        (0f64, 0f64, 0f64, 0f64, 0, 0);
    for free in [false, true] {
        let mut one = Single::new(TagContinuous::new(&config).unwrap(), 0).unwrap();
        let load = |one: &mut Single<TagContinuous>, t: usize| {
            one.edit(|s| {
                let set = |d: &mut [f32], name: &str| {
                    for (d, v) in d.iter_mut().zip(row(name, t)) {
                        *d = v as f32
                    }
                };
                set(s.loc_x, "loc_x");
                set(s.loc_y, "loc_y");
                set(s.speed, "speed");
                set(s.direction, "direction");
                set(s.acceleration, "acceleration");
                for (d, v) in s.still_in_the_game.iter_mut().zip(row("still_in_the_game", t)) {
                    *d = v as i32
                }
                for (d, v) in
                    s.was_in_the_game.iter_mut().zip(row("still_in_the_game", t.max(1) - 1))
                {
                    *d = v as i32
                }
                *s.num_runners = a["num_runners"].1[t] as i32;
                *s.timestep = t as i32;
            })
        };
        load(&mut one, 0);
        for t in 0..=steps {
            // compare row t
            if !free || t == 0 {
                let ours: Vec<f32> = one.obs(0).iter().chain(one.obs(1)).copied().collect();
                for i in 0..n {
                    let p = perm[i];
                    if a["fragile_neighbors"].1[t * n + p] != 0.0 {
                        skipped += 1;
                        continue;
                    }
                    for k in 0..f {
                        // k in original index
                        let mine = if full && k < f - 1 {
                            let (blk, o) = (k / (n - 1), k % (n - 1));
                            let other = if o < p { o } else { o + 1 };
                            let jo = perm.iter().position(|q| *q == other).unwrap();
                            blk * (n - 1) + if jo < i { jo } else { jo - 1 }
                        } else {
                            k
                        };
                        let g = a["observations"].1[(t * n + p) * f + k];
                        let mut d = (f64::from(ours[i * f + mine]) - g).abs();
                        let s = (f - 1) / 7;
                        if k >= 4 * s && k < 5 * s {
                            d = d.min((d - 1.0).abs());
                        }
                        obs_err = obs_err.max(d);
                    }
                }
            }
            if t == steps {
                break;
            }
            if !free {
                load(&mut one, t);
            }
            let acts: Vec<i32> = perm
                .iter()
                .flat_map(|p| {
                    let b = (t * n + p) * 2;
                    [a["actions"].1[b] as i32, a["actions"].1[b + 1] as i32]
                })
                .collect();
            let ended = one
                .step(&[
                    GroupAction::Discrete(acts[..2 * nt].to_vec()),
                    GroupAction::Discrete(acts[2 * nt..].to_vec()),
                ])
                .unwrap();
            if !free {
                if u8::from(ended.terminated) as f64 != a["done"].1[t] {
                    done_bad += 1;
                }
                let ours: Vec<f32> = one.reward(0).iter().chain(one.reward(1)).copied().collect();
                for i in 0..n {
                    if a["fragile_edge"].1[t * n + perm[i]] != 0.0
                        || a["fragile_tag"].1[t * n + perm[i]] != 0.0
                    {
                        skipped += 1;
                        continue;
                    }
                    rew_err =
                        rew_err.max((f64::from(ours[i]) - a["rewards"].1[t * n + perm[i]]).abs());
                }
                if !one.alive(1).is_empty() {
                    let still = row("still_in_the_game", t + 1);
                    for (x, y) in one.alive(1).iter().zip(&still[nt..]) {
                        assert_eq!(f64::from(*x), *y);
                    }
                }
            }
            let mut err = 0f64;
            one.edit(|s| {
                let mut cmp = |d: &[f32], name: &str| {
                    for (d, v) in d.iter().zip(row(name, t + 1)) {
                        let mut e = (f64::from(*d) - v).abs();
                        if name == "direction" {
                            e = e.min((e - std::f64::consts::TAU).abs());
                        }
                        err = err.max(e);
                    }
                };
                cmp(s.loc_x, "loc_x");
                cmp(s.loc_y, "loc_y");
                cmp(s.speed, "speed");
                cmp(s.direction, "direction");
                cmp(s.acceleration, "acceleration");
                for (i, (d, v)) in s
                    .edge_hit_reward_penalty
                    .iter()
                    .zip(row("edge_hit_reward_penalty", t + 1))
                    .enumerate()
                {
                    if a["fragile_edge"].1[t * n + perm[i]] == 0.0 && !free {
                        assert!((f64::from(*d) - v).abs() < 1e-6);
                    }
                }
                for (d, v) in s.still_in_the_game.iter().zip(row("still_in_the_game", t + 1)) {
                    assert_eq!(f64::from(*d), v)
                }
                assert_eq!(f64::from(*s.num_runners), a["num_runners"].1[t + 1]);
            });
            if free { free_err = free_err.max(err) } else { state_err = state_err.max(err) }
        }
    }
    println!(
        "{case}: N {n} F {f} steps {steps}: state {state_err:.1e} free {free_err:.1e} obs {obs_err:.1e} reward {rew_err:.1e} skipped {skipped} done mismatches {done_bad}"
    );
}
fn grid(case: &str) {
    let dir = "/tmp/tag_golden/";
    let a = read(&format!("{dir}{case}.bin"));
    let text = std::fs::read_to_string(format!("{dir}{case}.toml")).unwrap();
    let config = TagGridworldConfig::from_table(&text.parse().unwrap()).unwrap();
    let n = config.num_taggers as usize + 1;
    let (steps, f) = (a["actions"].0[0], a["observations"].0[2]);
    let (mut obs_err, mut rew_err, mut bad) = (0f64, 0f64, 0);
    for free in [false, true] {
        let mut one = Single::new(TagGridworld::new(&config).unwrap(), 0).unwrap();
        let load = |one: &mut Single<TagGridworld>, t: usize| {
            one.edit(|s| {
                for i in 0..n {
                    s.loc_x[i] = a["loc_x"].1[t * n + i] as i32;
                    s.loc_y[i] = a["loc_y"].1[t * n + i] as i32;
                }
                *s.timestep = a["timestep"].1[t] as i32;
            })
        };
        load(&mut one, 0);
        for t in 0..=steps {
            for (k, v) in one.obs(0).iter().chain(one.obs(1)).enumerate() {
                obs_err = obs_err.max((f64::from(*v) - a["observations"].1[t * n * f + k]).abs());
            }
            if t == steps {
                break;
            }
            if !free {
                load(&mut one, t);
            }
            let acts: Vec<i32> = (0..n).map(|i| a["actions"].1[t * n + i] as i32).collect();
            let ended = one
                .step(&[
                    GroupAction::Discrete(acts[..n - 1].to_vec()),
                    GroupAction::Discrete(acts[n - 1..].to_vec()),
                ])
                .unwrap();
            if u8::from(ended.terminated) as f64 != a["done"].1[t] {
                bad += 1;
            }
            for (k, v) in one.reward(0).iter().chain(one.reward(1)).enumerate() {
                rew_err = rew_err.max((f64::from(*v) - a["rewards"].1[t * n + k]).abs());
            }
            one.edit(|s| {
                for i in 0..n {
                    assert_eq!(f64::from(s.loc_x[i]), a["loc_x"].1[(t + 1) * n + i]);
                    assert_eq!(f64::from(s.loc_y[i]), a["loc_y"].1[(t + 1) * n + i]);
                }
            });
        }
    }
    println!(
        "{case}: N {n} F {f} steps {steps}: state exact, obs {obs_err:.1e} reward {rew_err:.1e} done mismatches {bad}"
    );
}
fn main() {
    let mut names: Vec<_> = std::fs::read_dir("/tmp/tag_golden")
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "env"))
        .collect();
    names.sort();
    for p in names {
        let text = std::fs::read_to_string(&p).unwrap();
        let (env, margin) = text.split_once(' ').unwrap();
        let case = p.file_stem().unwrap().to_str().unwrap();
        if env == "tag_continuous" { cont(case, margin.parse().unwrap()) } else { grid(case) }
    }
}
