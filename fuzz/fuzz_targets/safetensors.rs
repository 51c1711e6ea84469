//! Fuzzes the reader of a checkpoint's tensors.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = warp_examples::parsers::safetensors(bytes);
});
