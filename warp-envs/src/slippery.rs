//! Ground on which a walk may go to either side of where it was meant to.

/// Quarter turns from the direction that was meant: 3 for a draw `u` below `first`, 0 below
/// `second`, else 1.
#[inline(always)]
pub(crate) fn slip(u: f32, first: f32, second: f32) -> i32 {
    if u < first {
        3
    } else if u < second {
        0
    } else {
        1
    }
}
