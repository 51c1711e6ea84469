//! Keys pressed while something is shown.

use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use std::io::stdin;

/// Reads keys as they are pressed, and restores the terminal when dropped.
pub(crate) struct Keys {
    /// The terminal's previous settings; none if standard input is not a terminal.
    before: Option<Termios>,
}

impl Keys {
    /// Makes the terminal pass on keys at once, without echoing them. Ctrl-C stays a signal.
    pub(crate) fn open() -> Self {
        let listen = |before: Termios| {
            let mut now = before.clone();
            now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // A read returns what is available, even if that is nothing.
            now.special_codes[SpecialCodeIndex::VMIN] = 0;
            now.special_codes[SpecialCodeIndex::VTIME] = 0;
            termios::tcsetattr(stdin(), OptionalActions::Now, &now).ok().map(|()| before)
        };
        Self { before: termios::tcgetattr(stdin()).ok().and_then(listen) }
    }

    /// Whether `q` was pressed since the last call.
    pub(crate) fn quit(&self) -> bool {
        let mut pressed = [0; 64];
        let read = || rustix::io::read(stdin(), &mut pressed).unwrap_or(0);
        let n = self.before.is_some().then(read).unwrap_or(0);
        pressed[..n].iter().any(|key| b"qQ".contains(key))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(stdin(), OptionalActions::Flush, before);
        }
    }
}
