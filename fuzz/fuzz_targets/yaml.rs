//! Fuzzes the reader of WarpDrive's run configurations.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = warp_examples::parsers::yaml(bytes);
});
