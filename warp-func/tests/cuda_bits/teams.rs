//! Functions of teams: teams of several sizes, with rows in global and in shared memory.

use super::files::Bodies;
use super::one_by_one;
use libtest_mimic::Failed;
use warp_core::DType;
use warp_func::cuda::{Arg, DeviceArray, Kernels, Launch, Source};

/// Elements of each row, and words of a team's three rows.
const LEN: usize = 16;
const WORDS: usize = 3 * LEN;

/// Blocks of a launch: several teams get each input.
const BLOCKS: usize = 6;

/// The threads that run a body, and where its rows lie.
#[derive(Debug, Clone, Copy)]
struct Team {
    threads: usize,
    /// Teams that share a block.
    teams: usize,
    /// Whether rows lie in shared memory.
    shared: bool,
}

/// A part of a warp, a warp, several warps.
const TEAMS: [Team; 3] = [
    Team { threads: 4, teams: 8, shared: false },
    Team { threads: 32, teams: 4, shared: true },
    Team { threads: 128, teams: 1, shared: false },
];

/// What surrounds the functions: rows that begin as in `warp-translate/tests/bits`.
const HEAD: &str = include_str!("teams.cuh");

fn units_of_team(bodies: &Bodies, n: usize, team: Team) -> Vec<Source> {
    let (of_team, inputs) = (BLOCKS * team.teams, bodies.input.len());
    let units = one_by_one::units(bodies, n, HEAD, |k| {
        format!(
            "extern \"C\" __global__ void of_t_{k}(const unsigned int* in, BitsRows* all) {{
    unsigned int w = blockIdx.x * WARP_TEAMS + threadIdx.x / WARP_TEAM;
    BITS_ROWS(all[{k}u * {of_team}u + w]);
    t_{k}({{rows.x, BITS_LEN}}, {{rows.z, BITS_LEN}}, {{rows.y, BITS_LEN}}, (int)in[w % {inputs}u]);
    BITS_KEEP(all[{k}u * {of_team}u + w]);
}}
"
        )
    });
    let define = |unit: Source| {
        let unit = unit.define("WARP_TEAM", team.threads).define("WARP_TEAMS", team.teams);
        unit.define("BITS_LEN", format!("{LEN}u")).define("BITS_SHARED", u8::from(team.shared))
    };
    units.into_iter().map(define).collect()
}

fn read() -> Result<(Bodies, usize), Failed> {
    let bodies = Bodies::read("teams")?;
    let n = bodies.count(bodies.input.len() * WORDS)?;
    Ok((bodies, n))
}

/// The kernels for teams of all sizes, as text.
pub(crate) fn units() -> Result<Vec<Source>, Failed> {
    let (bodies, n) = read()?;
    Ok(TEAMS.iter().flat_map(|team| units_of_team(&bodies, n, *team)).collect())
}

/// Runs all functions by teams of all sizes and compares every word.
pub(crate) fn compare(kernels: &Kernels) -> Result<(), Failed> {
    let (bodies, n) = read()?;
    TEAMS.iter().try_for_each(|team| compare_team(kernels, &bodies, n, *team))
}

fn compare_team(kernels: &Kernels, bodies: &Bodies, n: usize, team: Team) -> Result<(), Failed> {
    let (device, of_team) = (kernels.device(), BLOCKS * team.teams);
    let input = DeviceArray::from_slice(device, "input", &[bodies.input.len()], &bodies.input)?;
    let rows = DeviceArray::zeros(device, "rows", DType::U32, &[n, of_team, WORDS])?;
    let args = [Arg::array(&input, bodies.input.len()), Arg::array(&rows, n * of_team * WORDS)];
    let threads = (team.threads * team.teams) as u32;
    let launch = Launch { blocks: BLOCKS as u32, threads, ..Launch::default() };
    let units = units_of_team(bodies, n, team);
    let called = format!("{team:?}");
    one_by_one::launch(kernels, &units, (bodies, "t", n), (&launch, &args))
        .map_err(|error| format!("{called}: {}", error.message().unwrap_or_default()))?;
    same(bodies, n, team, &rows.pull::<u32>()?)
}

/// Every team has what Rust has for its input.
fn same(bodies: &Bodies, n: usize, team: Team, found: &[u32]) -> Result<(), Failed> {
    let of_team = BLOCKS * team.teams;
    for (at, words) in found.chunks_exact(WORDS).enumerate() {
        let (k, w) = (at / of_team, at % of_team);
        let input = w % bodies.input.len();
        let expected = &bodies.expected[(input * n + k) * WORDS..][..WORDS];
        // A NaN's payload means nothing; the last row is of integers.
        let plain = |i: usize| match f32::from_bits(words[i]).is_nan() && i < 2 * LEN {
            true => 0x7fc0_0000,
            false => words[i],
        };
        if let Some(i) = (0..WORDS).find(|&i| plain(i) != expected[i]) {
            let message = format!(
                "{team:?}: t_{k} differs in word {i} of team {w}, given {:x}: {:x} from Rust, {:x} \
                 from the GPU\n{}",
                bodies.input[input],
                expected[i],
                words[i],
                bodies.text_of(&format!("t_{k}")),
            );
            return Err(message.into());
        }
    }
    Ok(())
}
