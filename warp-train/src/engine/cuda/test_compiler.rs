//! The C++ compiler for tests that run text of kernels on the host.

use std::io::Write;
use warp_func::host::Compiler;

/// The compiler. Without one the test is skipped, which is said past the harness: it shows nothing of tests that pass,
/// and has no way to ignore one while it runs.
pub(crate) fn find() -> Option<Compiler> {
    let found = Compiler::find();
    if found.is_none() {
        let test = std::thread::current().name().unwrap_or_default().to_string();
        let reason = "no C++ compiler found ($CXX, c++, g++, clang++)";
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
    }
    found
}
