//! Sampling as CUDA code: the device functions, and what a layout is in C.
//!
//! A kernel of any kind includes [`SAMPLE_CUH`] and samples the actions of a row with the struct that
//! [`layout_text`] writes. The text needs `warp_core::kernel_text::HEADERS`; a host C++ compiler also
//! accepts it.

use crate::bounding::Bounding;
use crate::gaussian::GaussianLayout;
use crate::layout::ActionLayout;
use std::fmt::Write;

/// The text of `sample.cuh`: `warp_sample_heads`, `warp_sample_box` and their like, whose bits are
/// those of [`ActionLayout::sample`] unless `WARP_RELEASE` is defined.
pub const SAMPLE_CUH: &str = include_str!("cuda/sample.cuh");

/// `layout` as a C struct called `name`, for the template parameter `L` of [`SAMPLE_CUH`]'s functions;
/// `masked` says whether rows come with an action mask.
#[must_use]
pub fn layout_text(name: &str, layout: &ActionLayout, masked: bool) -> String {
    let (width, actions) = (layout.output_width(), layout.action_width());
    let mut text = format!("struct {name} {{\n");
    let boxed = matches!(layout, ActionLayout::Continuous(_));
    for (key, value) in [("boxed", boxed), ("masked", masked)] {
        let _ = writeln!(text, "    static constexpr bool {key} = {value};");
    }
    let _ = writeln!(text, "    static constexpr int width = {width}, actions = {actions};");
    let sizes = layout.head_sizes().iter().map(usize::to_string);
    function(&mut text, "constexpr int", "size", sizes);
    match layout {
        ActionLayout::Continuous(elements) => box_text(&mut text, elements),
        // Named in branches that a compiler drops.
        ActionLayout::Discrete(_) => text.push_str("    static constexpr bool squashed = false;\n"),
    }
    text + "};\n"
}

fn box_text(text: &mut String, elements: &GaussianLayout) {
    let squashed = elements.bounding() == Bounding::Squash;
    let _ = writeln!(text, "    static constexpr bool squashed = {squashed};");
    let (min, max) = elements.log_std_range();
    for (name, value) in [("log_std_min", min), ("log_std_max", max)] {
        let _ = writeln!(
            text,
            "    __device__ static inline float {name}() {{ return {}; }}",
            bits(value)
        );
    }
    let numbers: Vec<[f32; 5]> = (0..elements.dim()).map(|i| elements.constants(i)).collect();
    for (at, name) in ["low", "high", "centre", "half_range", "log_half_range"].iter().enumerate() {
        function(text, "inline float", name, numbers.iter().map(|of_one| bits(of_one[at])));
    }
}

/// A function of a head's or an element's number; 0 beyond. Neighbours that are alike share a condition.
fn function(text: &mut String, kind: &str, name: &str, values: impl Iterator<Item = String>) {
    let values: Vec<String> = values.collect();
    let (mut chain, mut end) = (String::new(), 0);
    for alike in values.chunk_by(|a, b| a == b) {
        end += alike.len();
        let _ = write!(chain, "i < {end} ? {} : ", alike[0]);
    }
    let _ = writeln!(text, "    __device__ static {kind} {name}(int i) {{ return {chain}0; }}");
}

/// A float by its bits: infinities have no literal.
fn bits(value: f32) -> String {
    format!("__int_as_float((int)0x{:08x}u)", value.to_bits())
}
