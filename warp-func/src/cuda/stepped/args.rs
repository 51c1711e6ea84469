//! The arguments of the kernels of environments that another library steps.

crate::kernel_args! {
    /// Where real numbers go.
    pub(super) struct TakeArgs {
        to: &mut [f32],
        /// Elements.
        n: u32,
        /// Elements of a row.
        width: u32,
        /// Whether a row is given as one whole number.
        one_hot: u32,
    }

    /// Where truth values go.
    pub(super) struct FlagArgs {
        to: &mut [u8],
        n: u32,
    }

    /// Choices that become 64-bit whole numbers, of two words each.
    pub(super) struct WidenArgs {
        from: &[i32],
        to: &mut [u32],
        n: u32,
    }

    /// What a step counts.
    pub(super) struct CountArgs {
        run_step: &mut [u32],
        reward: &[f32],
        terminated: &[u8],
        truncated: &mut [u8],
        episode_length: &mut [u32],
        episode_return: &mut [f32],
        /// Episodes that ended since somebody asked, and the sum, the least and the largest of their lengths and
        /// of their returns.
        ended: &mut [u32],
        lengths: &mut [u32],
        shortest: &mut [u32],
        longest: &mut [u32],
        returns: &mut [f32],
        least: &mut [f32],
        most: &mut [f32],
        n: u32,
    }
}
