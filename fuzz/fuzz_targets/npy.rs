//! Fuzzes the reader of single arrays.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = warp_examples::parsers::npy(bytes);
});
