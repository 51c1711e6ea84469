//! Arguments of the kernels of replicas that go their own way.

crate::kernel_args! {
    /// What such replicas have beside a run's arrays, and which of them are to do what.
    pub(super) struct OwnArgs {
        seed_low: &[u32],
        seed_high: &[u32],
        /// Draws so far.
        event: &mut [u32],
        /// Whether an episode is on.
        phase: &mut [u8],
        /// Steps of the episode that ended in this step, where the next has begun.
        final_length: &mut [u32],
        /// Which are to move.
        ids: &[u32],
        /// What was refused: kind, replica, group, element, two words of the value.
        trouble: &mut [u32],
        /// A word of the host's that says whether anything was.
        flag: u64,
        /// How many are to move.
        n: u32,
        /// Whether those of `ids`; else the first `n`.
        some: u32,
        /// Whether each begins an episode.
        begin: u32,
        /// What follows the end of an episode.
        auto_reset: u32,
    }
}
