//! The corpora of the fuzzer's targets, through the same entries: `good-*` is taken, `bad-*` refused,
//! and damage to either is no reason to panic.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

use std::path::{Path, PathBuf};
use warp_examples::parsers::ALL;

/// The files of a target with their names, in alphabetical order.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora").join(target);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
    let file = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    };
    let mut files: Vec<_> = entries.map(file).collect();
    files.sort();
    files
}

#[test]
fn every_file_of_a_corpus_is_what_its_name_says() {
    for (target, parse) in ALL {
        let files = corpus(target);
        for kind in ["good-", "bad-"] {
            assert!(
                files.iter().any(|(name, _)| name.starts_with(kind)),
                "{target} has no {kind}*"
            );
        }
        for (name, bytes) in files {
            assert_eq!(parse(&bytes), name.starts_with("good-"), "{target}/{name}");
        }
    }
}

#[test]
fn a_damaged_file_is_no_reason_to_panic() {
    for (target, parse) in ALL {
        for (_, bytes) in corpus(target) {
            // So many places that a target takes a second at most.
            let step = bytes.len().div_ceil(60).max(1);
            for at in (0..bytes.len()).step_by(step) {
                let _ = parse(&bytes[..at]);
                for flip in [0x01, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= flip;
                    let _ = parse(&damaged);
                }
            }
        }
    }
}
