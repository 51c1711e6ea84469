//! Both bodies side by side, one step after the other.

use crate::cases::Case;
use crate::program::{compile, written};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use warp_core::{DType, Draw, Purpose, Space};
use warp_envs::{VecEnv, VecOptions};
use warp_func::{Blueprint, Entry};

/// Not a multiple of any vector width.
const REPLICAS: usize = 65;
/// Threads of a team meet at barriers, which takes its time on a few cores.
const REPLICAS_OF_TEAMS: usize = 3;
/// Agents of all replicas at most, as each may look at all others.
const AGENTS: usize = 5_000;
/// Numbers in all arrays that are compared in a case, at most: cuts replicas, then steps.
const NUMBERS: usize = 60_000_000;
const SEED: u64 = 0x1234_5678_9abc_def1;

/// The CUDA body at work in a process of its own.
struct Twin {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl Twin {
    fn start(program: &Path, blueprint: &Blueprint, first_replica: u32) -> Result<Self, String> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let to = child.stdin.take().ok_or("the program has no input")?;
        let from = child.stdout.take().ok_or("the program has no output")?;
        let mut twin = Self { child, to, from };
        let mut words = vec![SEED as u32, (SEED >> 32) as u32, first_replica];
        blueprint.tables.iter().for_each(|table| words.extend(&table.bits));
        twin.write(&words)?;
        Ok(twin)
    }

    fn write(&mut self, words: &[u32]) -> Result<(), String> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.to.write_all(&bytes).and_then(|()| self.to.flush()).map_err(|e| e.to_string())
    }

    fn read(&mut self, n: usize) -> Result<Vec<u32>, String> {
        let mut bytes = vec![0; 4 * n];
        self.from.read_exact(&mut bytes).map_err(|e| format!("the program stopped: {e}"))?;
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Ok(bytes.chunks_exact(4).map(word).collect())
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // It may wait for more, if a comparison failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The elements of an array as words; none if the environment has no such array.
fn words(envs: &dyn VecEnv, name: &str) -> Vec<u32> {
    let Ok(id) = envs.store().id(name) else { return Vec::new() };
    match envs.store().array(id).dtype() {
        DType::F32 => envs.store().slice::<f32>(id).iter().map(|x| x.to_bits()).collect(),
        DType::I32 => envs.store().slice::<i32>(id).iter().map(|x| *x as u32).collect(),
        DType::U32 => envs.store().slice::<u32>(id).to_vec(),
        DType::U8 => envs.store().slice::<u8>(id).iter().map(|x| u32::from(*x)).collect(),
    }
}

/// Compares all arrays with those that the twin writes.
fn compare_arrays(
    envs: &dyn VecEnv,
    twin: &mut Twin,
    names: &[String],
    step: usize,
) -> Result<(), String> {
    let ended: Vec<bool> = words(envs, "terminated")
        .iter()
        .zip(words(envs, "truncated"))
        .map(|(terminated, truncated)| terminated + truncated > 0)
        .collect();
    for name in names {
        let rust = words(envs, name);
        let row_len = rust.len() / ended.len();
        let cuda = twin.read(rust.len())?;
        for (at, (rust, cuda)) in rust.iter().zip(&cuda).enumerate() {
            let replica = at / row_len;
            if rust == cuda || (name.starts_with("final_") && !ended[replica]) {
                continue;
            }
            let [a, b] = [*rust, *cuda].map(f32::from_bits);
            return Err(format!(
                "step {step}, replica {replica}: {name}[{}] of {row_len}: rust {rust:#x} ({a:e}) \
                 .. cuda {cuda:#x} ({b:e})",
                at % row_len
            ));
        }
    }
    Ok(())
}

/// Writes random actions and returns them as words; heads with a mask get allowed ones only.
fn act(envs: &mut dyn VecEnv, step: usize) -> Vec<u32> {
    let (spec, ids) = (envs.spec().clone(), envs.ids().clone());
    let mut given = Vec::new();
    for (g, group) in spec.groups.iter().enumerate() {
        let mask = ids.action_mask[g].map(|id| envs.store().slice::<u8>(id).to_vec());
        let mut draw = Draw::new(SEED, g as u32, step as u32, Purpose::RandomAction);
        if let Space::Box { low, high, .. } = &group.action {
            for (i, value) in
                envs.store_mut().slice_mut::<f32>(ids.action[g]).iter_mut().enumerate()
            {
                let d = i % low.len();
                // Beyond the bounds too, which bodies must treat alike.
                *value = 1.5 * draw.uniform_in(low[d].max(-10.0), high[d].min(10.0));
                given.push(value.to_bits());
            }
            continue;
        }
        let (sizes, mut offset) = (group.action.head_sizes(), 0);
        for (i, action) in envs.store_mut().slice_mut::<i32>(ids.action[g]).iter_mut().enumerate() {
            let size = sizes[i % sizes.len()];
            let mut pick = draw.below(size as u32) as usize;
            while mask.as_ref().is_some_and(|mask| mask[offset + pick] == 0) {
                pick = (pick + 1) % size;
            }
            offset += size;
            *action = pick as i32;
            given.push(pick as u32);
        }
    }
    given
}

/// Compares the bodies of one case.
pub(crate) fn compare(
    entry: &Entry,
    case: &Case,
    team: usize,
    compiler: &str,
) -> Result<(), String> {
    let config = case.config.parse().map_err(|error| format!("{error}"))?;
    let blueprint = entry.blueprint(&config).map_err(|error| error.to_string())?;
    let body = blueprint.body.as_ref().ok_or("the environment has no CUDA body")?;
    let per_replica =
        entry.bytes_per_replica(&config).map_err(|error| error.to_string())? as usize / 4;
    let steps = 2 * blueprint.spec.time_limit.steps as usize + 1;
    let wanted = if team == 1 { REPLICAS } else { REPLICAS_OF_TEAMS };
    let wanted = wanted.min(AGENTS / blueprint.spec.n_agents());
    let n_envs = wanted.min(NUMBERS / per_replica / steps).max(2);
    let steps = steps.min(NUMBERS / per_replica / n_envs);

    let folder = format!("{}_{}_{team}", entry.name, case.name);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda_bodies").join(folder);
    let program = compile(compiler, (&blueprint, body), (n_envs, team), &folder)?;
    let options = VecOptions { n_envs, seed: SEED, first_replica: 5, ..VecOptions::default() };
    let mut envs = entry.make(&config, &options).map_err(|error| error.to_string())?;
    let mut twin = Twin::start(&program, &blueprint, options.first_replica)?;
    let names = written(&blueprint);
    compare_arrays(&*envs, &mut twin, &names, 0)?;
    for step in 1..=steps {
        let given = act(&mut *envs, step);
        twin.write(&given)?;
        envs.step().map_err(|error| error.to_string())?;
        compare_arrays(&*envs, &mut twin, &names, step)?;
    }
    Ok(())
}
