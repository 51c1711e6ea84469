//! The k nearest agents, exactly, without a heap and almost without branches.
//!
//! Squared distances are compared as the integers that their bits are, which order in the same way
//! since they are not negative. Sixteen agents search at once. First each takes the smallest
//! distance of every 32nd agent: the k-th smallest of these 32 is a bound that at least k agents keep,
//! and hardly more do (for k = 10 about 12, whatever their number). Those few are collected, and sorted
//! by a network that does the same for all sixteen searchers. More than [`PASS`] are found in several
//! passes, and more agents than fit in a block one block after the other, so there is no limit to
//! either and no scratch memory beyond the stack.

use super::tile::{LANES, load};

/// Agents found in one pass at most; more would overflow the slots too often.
pub(super) const PASS: usize = 10;
/// Candidates of one searcher at most.
const SLOTS: usize = 16;
/// Agents whose distances are held at once.
const BLOCK: usize = 128;
/// Classes of agents whose smallest distances make the bound; twice what the network sorts.
const COLUMNS: usize = 2 * SLOTS;
/// The bits of infinity: beyond every agent in the game.
const FAR: i32 = 0x7f80_0000;

/// Who may be seen from where.
pub(super) struct Crowd<'a> {
    /// Place, f32 `[n_agents]`.
    pub(super) x: &'a [f32],
    /// Place, f32 `[n_agents]`.
    pub(super) y: &'a [f32],
    /// Only agents with 1 are found, i32 `[n_agents]`.
    pub(super) in_game: &'a [i32],
}

/// An agent seen from another: the bits of the squared distance, and below them its number, so that
/// of equally distant ones the lower number comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Neighbour(i64);

impl Neighbour {
    /// Before all others.
    pub(super) const FIRST: Neighbour = Neighbour(-1);
    /// After all others; stands where there is none.
    pub(super) const NONE: Neighbour = Neighbour(i64::MAX);

    #[inline(always)]
    fn new(key: i32, agent: usize) -> Self {
        Self((i64::from(key) << 32) | agent as i64)
    }

    /// The bits of its squared distance.
    #[inline(always)]
    fn key(self) -> i32 {
        (self.0 >> 32) as i32
    }

    /// Its number; of [`Neighbour::NONE`] one that no agent has.
    #[inline(always)]
    pub(super) fn agent(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Working memory, on the stack.
pub(super) struct Nearest {
    /// The first agent of the block whose places are here.
    first: usize,
    /// Places; infinite for agents out of the game and beyond the last.
    x: [f32; BLOCK],
    y: [f32; BLOCK],
    keys: [i32; BLOCK],
    /// Per searcher: keys above it are not worth collecting.
    limit: [i32; LANES],
    /// Per searcher: the number of candidates.
    len: [usize; LANES],
    /// Candidates, then the nearest in order, then [`Neighbour::NONE`].
    slots: [[Neighbour; LANES]; SLOTS],
}

impl Nearest {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            first: usize::MAX,
            x: [f32::INFINITY; BLOCK],
            y: [0.0; BLOCK],
            keys: [FAR; BLOCK],
            limit: [0; LANES],
            len: [0; LANES],
            slots: [[Neighbour::NONE; LANES]; SLOTS],
        }
    }

    /// For each of the agents from `agent` on: the `wanted` (1 to [`PASS`]) that come next after
    /// `last` in order of distance, [`Neighbour::NONE`] if there are no more, `[rank][searcher]`. What
    /// searchers out of the game find means nothing.
    #[inline(always)]
    pub(super) fn after<const AGAIN: bool>(
        &mut self,
        crowd: &Crowd<'_>,
        agent: usize,
        last: &[Neighbour; LANES],
        wanted: usize,
    ) -> &[[Neighbour; LANES]] {
        let n = crowd.x.len();
        let place = (load(crowd.x, agent), load(crowd.y, agent));
        self.limit = [FAR - 1; LANES];
        self.slots = [[Neighbour::NONE; LANES]; SLOTS];
        // Who does not search has all it wants.
        for (l, len) in self.len.iter_mut().enumerate() {
            *len = if agent + l < n && crowd.in_game[agent + l] != 0 { 0 } else { wanted };
        }
        let searching = self.len.map(|len| len == 0);
        for first in (0..n).step_by(BLOCK) {
            if self.first != first {
                self.enter(crowd, first);
            }
            if n > SLOTS && self.len.iter().any(|len| *len < wanted) {
                self.bound::<AGAIN>(&place, last, wanted);
            }
            for l in 0..LANES {
                if searching[l] {
                    self.collect::<AGAIN>(
                        (place.0[l], place.1[l]),
                        agent + l,
                        last[l],
                        (l, wanted),
                    );
                }
            }
            sort(&mut self.slots);
            if n > BLOCK {
                self.keep(wanted);
            }
        }
        &self.slots[..wanted]
    }

    /// Copies the places of a block.
    #[inline(always)]
    fn enter(&mut self, crowd: &Crowd<'_>, first: usize) {
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

    /// Lowers the limits to a number that at least `wanted` of the block's keys do not exceed.
    #[inline(always)]
    fn bound<const AGAIN: bool>(
        &mut self,
        place: &([f32; LANES], [f32; LANES]),
        last: &[Neighbour; LANES],
        wanted: usize,
    ) {
        let mut columns = [[[FAR; LANES]; SLOTS]; 2];
        for (c, column) in columns.as_flattened_mut().iter_mut().enumerate() {
            for l in 0..LANES {
                let mut least = FAR;
                for row in 0..BLOCK / COLUMNS {
                    let other = row * COLUMNS + c;
                    let (dx, dy) = (self.x[other] - place.0[l], self.y[other] - place.1[l]);
                    let key = (dx * dx + dy * dy).to_bits() as i32;
                    let passed = AGAIN && Neighbour::new(key, self.first + other) <= last[l];
                    least = least.min(if passed { FAR } else { key });
                }
                column[l] = least;
            }
        }
        let [a, b] = &mut columns;
        sort(a);
        sort(b);
        // One more than wanted, since the searcher itself is nearest. Of two sorted rows taken
        // together the k-th is the least of what taking i from one and k - i from the other needs.
        let k = wanted + 1;
        let mut bound = [FAR - 1; LANES];
        for i in 0..=k {
            for l in 0..LANES {
                let from_a = if i > 0 { a[i - 1][l] } else { 0 };
                let from_b = if i < k { b[k - i - 1][l] } else { 0 };
                bound[l] = bound[l].min(from_a.max(from_b));
            }
        }
        for (limit, bound) in self.limit.iter_mut().zip(bound) {
            *limit = bound.min(*limit);
        }
    }

    /// Puts the block's agents within the limit into the slots of searcher `l`, in order of number.
    #[inline(always)]
    fn collect<const AGAIN: bool>(
        &mut self,
        place: (f32, f32),
        agent: usize,
        last: Neighbour,
        (l, wanted): (usize, usize),
    ) {
        let limit = self.limit[l];
        let mut close = [0; BLOCK];
        let places = self.x.iter().zip(&self.y);
        for ((close, key), (x, y)) in close.iter_mut().zip(&mut self.keys).zip(places) {
            let (dx, dy) = (x - place.0, y - place.1);
            *key = (dx * dx + dy * dy).to_bits() as i32;
            *close = u8::from(*key <= limit);
        }
        let mut len = self.len[l];
        for (word, flags) in close.as_chunks::<64>().0.iter().enumerate() {
            let mut bits = pack(flags);
            while bits != 0 {
                let at = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let other = Neighbour::new(self.keys[at], self.first + at);
                if other.agent() == agent || (AGAIN && other <= last) {
                    continue;
                }
                if len == SLOTS {
                    self.squeeze(l, wanted);
                    len = wanted;
                }
                self.slots[len][l] = other;
                len += 1;
            }
        }
        self.len[l] = len;
    }

    /// Makes room in the slots of searcher `l`: keeps the nearest and lowers the limit.
    #[cold]
    #[inline(never)]
    fn squeeze(&mut self, l: usize, wanted: usize) {
        let mut all = self.slots.map(|slot| slot[l]);
        all.sort_unstable();
        self.limit[l] = all[wanted - 1].key();
        all[wanted..].fill(Neighbour::NONE);
        for (slot, neighbour) in self.slots.iter_mut().zip(all) {
            slot[l] = neighbour;
        }
    }

    /// Drops all but the nearest before the next block, and lowers the limits.
    #[inline(always)]
    fn keep(&mut self, wanted: usize) {
        self.slots[wanted..].fill([Neighbour::NONE; LANES]);
        for l in 0..LANES {
            self.len[l] = self.len[l].min(wanted);
            self.limit[l] = self.limit[l].min(self.slots[wanted - 1][l].key());
        }
    }
}

/// The lowest bits of 64 bytes, each 0 or 1, as the bits of a word.
#[inline(always)]
fn pack(flags: &[u8; 64]) -> u64 {
    let mut word = 0;
    for (i, eight) in flags.as_chunks::<8>().0.iter().enumerate() {
        // The product brings bit 8 i of the eight bytes to bit 56 + i.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= bits << (8 * i);
    }
    word
}

/// Sorts each lane by Batcher's odd-even merge network.
#[inline(always)]
fn sort<T: Copy + Ord>(rows: &mut [[T; LANES]; SLOTS]) {
    for l in 0..LANES {
        let mut v: [T; SLOTS] = std::array::from_fn(|i| rows[i][l]);
        macro_rules! exchange {
            ($(($a:literal, $b:literal))*) => {$(
                let (low, high) = (v[$a].min(v[$b]), v[$a].max(v[$b]));
                v[$a] = low;
                v[$b] = high;
            )*};
        }
        exchange! {
            (0, 1) (2, 3) (4, 5) (6, 7) (8, 9) (10, 11) (12, 13) (14, 15) (0, 2) (1, 3) (4, 6)
            (5, 7) (8, 10) (9, 11) (12, 14) (13, 15) (1, 2) (5, 6) (9, 10) (13, 14) (0, 4) (1, 5)
            (2, 6) (3, 7) (8, 12) (9, 13) (10, 14) (11, 15) (2, 4) (3, 5) (10, 12) (11, 13) (1, 2)
            (3, 4) (5, 6) (9, 10) (11, 12) (13, 14) (0, 8) (1, 9) (2, 10) (3, 11) (4, 12) (5, 13)
            (6, 14) (7, 15) (4, 8) (5, 9) (6, 10) (7, 11) (2, 4) (3, 5) (6, 8) (7, 9) (10, 12)
            (11, 13) (1, 2) (3, 4) (5, 6) (7, 8) (9, 10) (11, 12) (13, 14)
        }
        for (row, value) in rows.iter_mut().zip(v) {
            row[l] = value;
        }
    }
}
