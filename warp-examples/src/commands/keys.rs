//! Keys that are pressed while something is shown.

use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use std::io::stdin;

/// Hears of keys as they are pressed, and puts the terminal back when it is dropped.
pub(crate) struct Keys {
    /// How the terminal was; none if standard input is no terminal.
    before: Option<Termios>,
}

impl Keys {
    /// Has the terminal hand over keys at once, without showing them. Ctrl-C stays a signal.
    pub(crate) fn open() -> Self {
        let listen = |before: Termios| {
            let mut now = before.clone();
            now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // A read returns what is there, if only nothing.
            now.special_codes[SpecialCodeIndex::VMIN] = 0;
            now.special_codes[SpecialCodeIndex::VTIME] = 0;
            termios::tcsetattr(stdin(), OptionalActions::Now, &now).ok().map(|()| before)
        };
        Self { before: termios::tcgetattr(stdin()).ok().and_then(listen) }
    }

    /// Whether `q` was pressed since this was asked last.
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
