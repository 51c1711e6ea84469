//! What `warp-translate/tests/bits` has left: translated bodies, their input and Rust's words.

use libtest_mimic::Failed;
use std::path::PathBuf;

/// Where the files lie.
const FOLDER: &str = "WARP_BITS";

/// Bodies of one kind.
pub(crate) struct Bodies {
    /// The kind, which is the folder.
    pub(crate) name: &'static str,
    /// The functions as CUDA code.
    pub(crate) text: String,
    pub(crate) input: Vec<u32>,
    /// What came out of the Rust functions.
    pub(crate) expected: Vec<u32>,
}

/// Why there are no files, if that is so.
pub(crate) fn missing() -> Option<String> {
    std::env::var_os(FOLDER).is_none().then(|| {
        format!(
            "{FOLDER} does not name a folder with bodies, which the test `bits` of warp-translate writes to \
             the folder {FOLDER}_OUT"
        )
    })
}

impl Bodies {
    pub(crate) fn read(name: &'static str) -> Result<Self, Failed> {
        let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap_or_default()).join(name);
        let open = |file: &str| {
            let path = folder.join(file);
            std::fs::read(&path)
                .map_err(|error| Failed::from(format!("{}: {error}", path.display())))
        };
        let (input, expected) = (words(&open("input.bin")?), words(&open("expected.bin")?));
        let text = String::from_utf8(open("bodies.cuh")?)?;
        Ok(Self { name, text, input, expected })
    }

    /// How many functions there are, if each has `words` words of output.
    pub(crate) fn count(&self, words: usize) -> Result<usize, Failed> {
        let n = self.expected.len() / words.max(1);
        if n == 0 || n * words != self.expected.len() {
            let found = self.expected.len();
            return Err(
                format!("{}: {found} words are not {words} of each function", self.name).into()
            );
        }
        Ok(n)
    }

    /// The text of one function, for a message.
    pub(crate) fn text_of(&self, function: &str) -> &str {
        let Some(start) = self.text.find(&format!(" {function}(")) else { return "" };
        let start = self.text[..start].rfind('\n').map_or(0, |end| end + 1);
        let end = self.text[start..].find("\n}\n").map_or(self.text.len(), |end| start + end + 3);
        &self.text[start..end]
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
