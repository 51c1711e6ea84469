//! Fuzzes the reader of recordings and reset pools.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = warp_examples::parsers::npz(bytes);
});
