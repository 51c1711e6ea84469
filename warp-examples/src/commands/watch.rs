//! `warp watch`: plays an episode in the terminal, until it ends or `q` is pressed.

#[cfg(unix)]
use super::play::{PlayArgs, play};
use super::stop::Stop;
use crate::Outcome;
use crate::output::one_line;
use crate::render::terminal::{Depth, draw};
use crate::terminal_keys::Keys;
use anyhow::{Result, bail};
use clap::Args;
use console::Term;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use warp_func::Registry;

/// Smallest window in which there is something to be seen, rows and columns.
const SMALLEST: (u16, u16) = (8, 20);

/// Play an episode of a run in the terminal.
#[derive(Debug, Clone, Args)]
pub struct WatchArgs {
    /// The episode.
    #[command(flatten)]
    pub play: PlayArgs,
}

/// The text of the last row.
const LEAVE: &str = if cfg!(unix) { "q leaves" } else { "Ctrl-C leaves" };

/// How often keys are checked while a moment is shown.
const LISTEN_EVERY: Duration = Duration::from_millis(50);

/// Hides the cursor and reads keys; everything is restored however the command ends.
struct Stage {
    #[cfg(unix)]
    keys: Keys,
}

impl Stage {
    fn open() -> Result<Self> {
        let stage = Self {
            #[cfg(unix)]
            keys: Keys::open(),
        };
        show("\x1b[?25l")?;
        Ok(stage)
    }

    /// Waits until `next`; true if it is time to leave, because of a key or of `stop`.
    fn wait(&self, next: Instant, stop: &Stop) -> bool {
        loop {
            #[cfg(unix)]
            if self.keys.quit() {
                return true;
            }
            let left = next.saturating_duration_since(Instant::now());
            if stop.is_asked() || left.is_zero() {
                return stop.is_asked();
            }
            std::thread::sleep(left.min(LISTEN_EVERY));
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = show("\x1b[0m\x1b[?25h\r\n");
    }
}

fn show(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Runs the command.
///
/// # Errors
/// No terminal, a run or checkpoint that can't be opened, or options that do not fit it.
pub fn execute(args: &WatchArgs, registry: &Registry) -> Result<Outcome> {
    let instead = "make an animation with warp render RUN -o FILE.gif";
    if !std::io::stdout().is_terminal() {
        bail!("warp watch needs a terminal; {instead}");
    }
    // An editor's shell, say, which would show the codes themselves.
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        bail!(
            "warp watch needs a terminal that moves its cursor, which TERM=dumb does not; {instead}"
        );
    }
    let depth = match std::env::var("COLORTERM") {
        Ok(value) if value == "truecolor" || value == "24bit" => Depth::True,
        _ => Depth::Xterm,
    };
    let stop = Stop::listen()?;
    let (mut stage, mut last_size) = (None::<Stage>, None);
    let (mut next, pause) = (Instant::now(), Duration::from_secs(1) / args.play.fps);
    play(&args.play, registry, &mut |moment| {
        // Only once the run is known to exist.
        let stage = match &mut stage {
            Some(stage) => stage,
            none => {
                next = Instant::now();
                none.insert(Stage::open()?)
            }
        };
        let (rows, columns) = Term::stdout().size_checked().unwrap_or((24, 80));
        if rows < SMALLEST.0 || columns < SMALLEST.1 {
            let (rows, columns) = SMALLEST;
            bail!("the window is too small: {rows} rows and {columns} columns are needed");
        }
        if last_size.replace((rows, columns)) != Some((rows, columns)) {
            show("\x1b[2J")?;
        }
        let line = one_line(&format!("{}   {}", moment.heading.name, moment.summary()));
        let cut = |line: &str| line.chars().take(usize::from(columns)).collect::<String>();
        let (line, leave) = (cut(&line), cut(LEAVE));
        // One row for the heading, one for the hint on how to quit.
        let (columns, rows) = (usize::from(columns), usize::from(rows) - 2);
        let picture = draw(&moment.scene, columns, rows, depth)?;
        show(&format!("\x1b[H{line}\x1b[K\r\n{picture}{leave}\x1b[K"))?;
        next += pause;
        let leave = stage.wait(next, &stop);
        Ok(if leave { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    drop(stage);
    Ok(stop.asked_by().map_or(Outcome::Done, |signal| Outcome::Interrupted { signal }))
}
