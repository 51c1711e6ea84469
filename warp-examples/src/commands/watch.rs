//! `warp watch`: an episode, live in the terminal.

use super::play::{PlayArgs, play};
use crate::Outcome;
use crate::render::terminal::{Depth, draw};
use anyhow::{Result, bail};
use clap::Args;
use console::Term;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warp_func::Registry;

/// Smallest window in which there is something to be seen, rows and columns.
const SMALLEST: (u16, u16) = (8, 20);

/// Show an episode of a run, live in the terminal.
#[derive(Debug, Clone, Args)]
pub struct WatchArgs {
    /// Which episode.
    #[command(flatten)]
    pub play: PlayArgs,
}

/// Hides the cursor, and shows it again however the command ends.
struct Stage;

impl Stage {
    fn open() -> Result<Self> {
        let stage = Self;
        show("\x1b[?25l")?;
        Ok(stage)
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
    if !std::io::stdout().is_terminal() {
        bail!("warp watch needs a terminal; draw a film with warp render RUN -o FILE.gif");
    }
    let depth = match std::env::var("COLORTERM") {
        Ok(value) if value == "truecolor" || value == "24bit" => Depth::True,
        _ => Depth::Xterm,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // A handler that is there already (the command run twice in one process) serves as well.
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    let (mut stage, mut last_size) = (None, None);
    let (mut next, pause) = (Instant::now(), Duration::from_secs(1) / args.play.fps);
    play(&args.play, registry, &mut |moment| {
        if stage.is_none() {
            // Not before the run is known to be there.
            stage = Some(Stage::open()?);
            next = Instant::now();
        }
        let (rows, columns) = Term::stdout().size_checked().unwrap_or((24, 80));
        if rows < SMALLEST.0 || columns < SMALLEST.1 {
            let (rows, columns) = SMALLEST;
            bail!("the window is too small: {rows} rows and {columns} columns are needed");
        }
        if last_size.replace((rows, columns)) != Some((rows, columns)) {
            show("\x1b[2J")?;
        }
        let line = format!("{}   {}", moment.heading.name, moment.summary());
        let line: String = line.chars().take(usize::from(columns)).collect();
        // One row for the heading, one for the cursor.
        let size = (usize::from(columns), usize::from(rows) - 2);
        let picture = draw(&moment.scene, size, depth)?;
        show(&format!("\x1b[H{line}\x1b[K\r\n{picture}"))?;
        next += pause;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let stopped = stop.load(Ordering::Relaxed);
        Ok(if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    drop(stage);
    let stopped = stop.load(Ordering::Relaxed);
    Ok(if stopped { Outcome::Interrupted } else { Outcome::Done })
}
