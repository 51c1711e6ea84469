//! The k nearest agents, exactly, without a heap and almost without branches.
//!
//! Squared distances are compared as the integers that their bits are, which order in the same way
//! since they are not negative. An agent's distances are taken sixteen at a time; the smallest of each
//! of the sixteen columns are candidates' rivals: the k-th smallest of these is a bound that at
//! least k agents keep, and hardly more do (for k = 10, about 14 of any number). Those few are ranked by
//! comparing all with all. More than [`PASS`] are found in several passes, and more agents than
//! fit in a block one block after the other, so there is no limit to either and no scratch memory.

use super::LANES;

/// Agents found in one pass at most. Below [`LANES`], or the bound would be a loose one.
pub(super) const PASS: usize = 12;
/// Candidates at most, a power of two; room for a pass and several chunks.
const POOL: usize = 64;
/// Keys whose comparisons fit in a word.
const WORD: usize = 64;
/// The bits of infinity: whoever is out of the game, and the agent itself.
const FAR: i32 = 0x7f80_0000;
/// So few agents are all candidates.
const FEW: usize = 32;

/// Who may be seen from where.
pub(super) struct Crowd<'a> {
    /// Place, f32 `[n_agents]`.
    pub(super) x: &'a [f32],
    /// Place, f32 `[n_agents]`.
    pub(super) y: &'a [f32],
    /// Only agents with 1 are found, i32 `[n_agents]`.
    pub(super) in_game: &'a [i32],
}

/// One agent seen from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Neighbour {
    /// Squared distance, as bits.
    key: i32,
    agent: i32,
}

impl Neighbour {
    /// Before all others.
    pub(super) const NONE: Neighbour = Neighbour { key: -1, agent: -1 };

    /// Its number.
    #[inline(always)]
    pub(super) fn agent(self) -> usize {
        self.agent as usize
    }
}

/// Working memory on the stack, for blocks of `BLOCK` agents.
pub(super) struct Nearest<const BLOCK: usize> {
    /// The first agent of the block whose places are here.
    first: usize,
    /// Places; infinite for agents out of the game and beyond the last.
    x: [f32; BLOCK],
    y: [f32; BLOCK],
    keys: [i32; BLOCK],
    pool: Pool,
}

/// Candidates; of equally distant ones the lower number comes first.
struct Pool {
    keys: [i32; POOL],
    agents: [i32; POOL],
    len: usize,
    sorted: [Neighbour; POOL],
}

impl<const BLOCK: usize> Nearest<BLOCK> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let pool = Pool {
            keys: [FAR; POOL],
            agents: [0; POOL],
            len: 0,
            sorted: [Neighbour::NONE; POOL],
        };
        let (x, y, keys) = ([0.0; BLOCK], [0.0; BLOCK], [FAR; BLOCK]);
        Self { first: usize::MAX, x, y, keys, pool }
    }

    /// The `wanted` (1 to [`PASS`]) agents that come next after `last` in order of distance from
    /// `agent`; fewer if there are no more.
    #[inline(always)]
    pub(super) fn after(
        &mut self,
        crowd: &Crowd<'_>,
        agent: usize,
        last: Neighbour,
        wanted: usize,
    ) -> &[Neighbour] {
        let n = crowd.x.len();
        let mut limit = FAR - 1;
        self.pool.len = 0;
        for first in (0..n).step_by(BLOCK) {
            let len = BLOCK.min(n - first).next_multiple_of(LANES);
            if self.first != first {
                self.load(crowd, first);
            }
            self.measure((crowd.x[agent], crowd.y[agent]), agent, last, len);
            if n > FEW {
                limit = limit.min(bound(&self.keys[..len], wanted));
            }
            for (word, keys) in self.keys[..len].chunks(WORD).enumerate() {
                let mut close = up_to(keys, limit);
                while close != 0 {
                    let at = close.trailing_zeros() as usize;
                    close &= close - 1;
                    self.pool.push(keys[at], (first + word * WORD + at) as i32);
                    if self.pool.len == POOL {
                        limit = limit.min(self.pool.keep(wanted));
                    }
                }
            }
        }
        self.pool.keep(wanted);
        &self.pool.sorted[..self.pool.len]
    }

    /// Copies the places of a block.
    #[inline(always)]
    fn load(&mut self, crowd: &Crowd<'_>, first: usize) {
        self.first = first;
        let len = BLOCK.min(crowd.x.len() - first);
        let range = first..first + len;
        let from = crowd.x[range.clone()].iter().zip(&crowd.in_game[range.clone()]);
        for (to, (x, in_game)) in self.x.iter_mut().zip(from) {
            *to = if *in_game != 0 { *x } else { f32::INFINITY };
        }
        self.x[len..].fill(f32::INFINITY);
        self.y[..len].copy_from_slice(&crowd.y[range]);
    }

    /// Squared distances of the block's first `len` agents from a place, as bits; [`FAR`] for `agent`
    /// itself and for everyone up to `last`.
    #[inline(always)]
    fn measure(&mut self, place: (f32, f32), agent: usize, last: Neighbour, len: usize) {
        let tiles = self.keys[..len].chunks_exact_mut(LANES);
        let places = self.x[..len].chunks_exact(LANES).zip(self.y[..len].chunks_exact(LANES));
        let mut number = self.first as i32;
        for (keys, (x, y)) in tiles.zip(places) {
            for l in 0..LANES {
                let (dx, dy) = (x[l] - place.0, y[l] - place.1);
                let key = (dx * dx + dy * dy).to_bits() as i32;
                let other = number + l as i32;
                let passed = (key < last.key) | ((key == last.key) & (other <= last.agent));
                keys[l] = if passed | (other == agent as i32) { FAR } else { key };
            }
            number += LANES as i32;
        }
    }
}

/// A number that at least `wanted` keys do not exceed, or one below [`FAR`].
#[inline(always)]
fn bound(keys: &[i32], wanted: usize) -> i32 {
    let mut columns = [FAR; LANES];
    for keys in keys.chunks_exact(LANES) {
        for l in 0..LANES {
            columns[l] = columns[l].min(keys[l]);
        }
    }
    let rank = ranks(&columns);
    let chosen = |l: usize| if rank[l] == wanted as i32 - 1 { columns[l] } else { 0 };
    (0..LANES).map(chosen).sum::<i32>().min(FAR - 1)
}

/// A bit for each of at most [`WORD`] keys that is not above `limit`.
#[inline(always)]
fn up_to(keys: &[i32], limit: i32) -> u64 {
    let mut word = 0;
    for (chunk, keys) in keys.chunks_exact(LANES).enumerate() {
        let mut bits = 0;
        for l in 0..LANES {
            bits |= u16::from(keys[l] <= limit) << l;
        }
        word |= u64::from(bits) << (LANES * chunk);
    }
    word
}

/// The place of each key in ascending order; of equal ones the first comes first.
#[inline(always)]
fn ranks<const N: usize>(keys: &[i32; N]) -> [i32; N] {
    let mut ranks = [0; N];
    for (b, key) in keys.iter().enumerate() {
        for a in 0..N {
            // Keys are integers: `key < k + 1` is `key <= k`.
            ranks[a] += i32::from(*key < keys[a] + i32::from(b < a));
        }
    }
    ranks
}

impl Pool {
    #[inline(always)]
    fn push(&mut self, key: i32, agent: i32) {
        self.keys[self.len % POOL] = key;
        self.agents[self.len % POOL] = agent;
        self.len += 1;
    }

    /// Sorts, drops all but the first `wanted`, and returns the key of the last if there are as many.
    #[inline(always)]
    fn keep(&mut self, wanted: usize) -> i32 {
        match self.len {
            0..=16 => self.sort::<16>(),
            17..=32 => self.sort::<32>(),
            _ => self.sort::<POOL>(),
        }
        let full = self.len >= wanted;
        self.len = self.len.min(wanted);
        for (i, neighbour) in self.sorted[..self.len].iter().enumerate() {
            self.keys[i] = neighbour.key;
            self.agents[i] = neighbour.agent;
        }
        if full { self.sorted[wanted - 1].key } else { FAR - 1 }
    }

    /// Fills `sorted` from the first `N` places, of which `len` are taken.
    #[inline(always)]
    fn sort<const N: usize>(&mut self) {
        let mut keys = [FAR; N];
        keys[..self.len].copy_from_slice(&self.keys[..self.len]);
        let ranks = ranks(&keys);
        for (a, rank) in ranks[..self.len].iter().enumerate() {
            let neighbour = Neighbour { key: self.keys[a], agent: self.agents[a] };
            self.sorted[*rank as usize % POOL] = neighbour;
        }
    }
}
