//! Fuzzes the reader of runs' configurations.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = warp_examples::parsers::toml(bytes);
});
