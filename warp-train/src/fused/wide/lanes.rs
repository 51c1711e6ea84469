//! How many lanes of a warp share the heads of a row.

use crate::algorithm::PolicyPlan;

/// Heads of a row that one lane takes by itself, at most.
const MOST_HEADS_OF_A_LANE: usize = 4;
/// Choices that a lane keeps in registers, at most.
const MOST_CHOICES_OF_A_LANE: usize = 32;

/// How many lanes of a warp share a sample's heads where its loss is computed by itself: one, unless heads are many.
pub(super) fn lanes(plan: &PolicyPlan) -> usize {
    match plan.layout.head_sizes().len() {
        0..=MOST_HEADS_OF_A_LANE => 1,
        heads => heads.next_power_of_two().min(32),
    }
}

/// How many lanes of a warp share a row's heads where it acts on outputs in memory.
pub(super) fn lanes_that_act(plan: &PolicyPlan) -> usize {
    if largest_of_many_heads(plan.layout.head_sizes()) > 0 { 32 } else { 1 }
}

/// The choices of the largest head where lanes draw one head each, since there are many, and a head fits into a lane's
/// registers; else 0.
pub(super) fn largest_of_many_heads(sizes: &[usize]) -> usize {
    match sizes.iter().max() {
        Some(&most) if sizes.len() > MOST_HEADS_OF_A_LANE && most <= MOST_CHOICES_OF_A_LANE => most,
        _ => 0,
    }
}

/// The choices of each head where lanes share heads that are alike, and a lane's fit into registers; else 0.
pub(super) fn size_of_many_heads(sizes: &[usize]) -> usize {
    let Some(size) = sizes.first() else { return 0 };
    let are_alike = sizes.len() > MOST_HEADS_OF_A_LANE && sizes.iter().all(|n| n == size);
    let of_lane = size * sizes.len().div_ceil(32);
    if are_alike && of_lane <= MOST_CHOICES_OF_A_LANE { *size } else { 0 }
}
