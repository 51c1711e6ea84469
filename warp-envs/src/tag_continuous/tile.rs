//! Tiles of agents on the stack, which alias nothing and therefore vectorise.

/// Agents that are worked on together.
pub(super) const LANES: usize = 16;

/// Up to [`LANES`] elements from `first` on, the rest zero.
#[inline(always)]
pub(super) fn load<T: Copy + Default>(from: &[T], first: usize) -> [T; LANES] {
    let from = &from[first..];
    if let Some(tile) = from.first_chunk::<LANES>() {
        return *tile;
    }
    let mut tile = [T::default(); LANES];
    for (to, from) in tile.iter_mut().zip(from) {
        *to = *from;
    }
    tile
}

/// The counterpart of [`load`].
#[inline(always)]
pub(super) fn store<T: Copy>(to: &mut [T], first: usize, tile: &[T; LANES]) {
    let to = &mut to[first..];
    if let Some(to) = to.first_chunk_mut::<LANES>() {
        *to = *tile;
        return;
    }
    for (to, from) in to.iter_mut().zip(tile) {
        *to = *from;
    }
}
