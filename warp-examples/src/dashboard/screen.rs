//! The terminal while a dashboard has it: another screen, no echo, no cursor; all is as it was however it ends.

use super::gpus::Gpus;
use super::model::Shown;
use super::view::{self, Machine};
use crate::output::{held, hold, release};
#[cfg(unix)]
use crate::terminal_keys::Keys;
use anyhow::{Context, Result};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use std::io::{Stdout, stdout};

/// The terminal.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    gpus: Gpus,
    #[cfg(unix)]
    keys: Keys,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").finish_non_exhaustive()
    }
}

impl Screen {
    /// Takes the terminal; what is told meanwhile is shown by the dashboard.
    ///
    /// # Errors
    /// A terminal that can't be written.
    pub fn open() -> Result<Self> {
        #[cfg(unix)]
        let keys = Keys::open();
        execute!(stdout(), EnterAlternateScreen).context("cannot write to the terminal")?;
        hold();
        let terminal = Terminal::new(CrosstermBackend::new(stdout()));
        let terminal = terminal.context("cannot write to the terminal");
        let Ok(terminal) = terminal else {
            leave();
            return Err(anyhow::anyhow!("cannot write to the terminal"));
        };
        Ok(Self {
            terminal,
            gpus: Gpus::find(),
            #[cfg(unix)]
            keys,
        })
    }

    /// Shows the runs, and how much of the GPUs is in use.
    ///
    /// # Errors
    /// A terminal that can't be written.
    pub fn show(&mut self, runs: &[&Shown], how_to_leave: &str) -> Result<()> {
        let machine = Machine { gpus: &self.gpus.now(), messages: &held() };
        let drawn = self.terminal.draw(|frame| view::draw(frame, runs, machine, how_to_leave));
        drawn.map(|_| ()).context("cannot write to the terminal")
    }

    /// Whether `q` was pressed since this was asked last.
    #[must_use]
    pub fn quit(&self) -> bool {
        #[cfg(unix)]
        return self.keys.quit();
        #[cfg(not(unix))]
        false
    }
}

fn leave() {
    let _ = execute!(stdout(), LeaveAlternateScreen, ratatui::crossterm::cursor::Show);
    release();
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}
