//! Fuzzes the reader of TensorBoard's event files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = warp_examples::parsers::events(bytes);
});
