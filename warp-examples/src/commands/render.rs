//! `warp render`: an episode as a GIF film or a PNG strip.

use super::play::{PlayArgs, play};
use super::say;
use crate::Outcome;
use crate::render::Moment;
use crate::render::gif::write_gif;
use crate::render::strip::write_strip;
use anyhow::{Result, bail};
use clap::Args;
use std::ops::ControlFlow;
use std::path::PathBuf;
use warp_func::Registry;

/// Maximum number of moments that are kept.
const MOST: usize = 20_000;

/// Draw an episode of a run.
#[derive(Debug, Clone, Args)]
pub struct RenderArgs {
    /// The episode.
    #[command(flatten)]
    pub play: PlayArgs,
    /// The file to write: an animation (GIF) or some frames side by side (PNG).
    #[arg(short, long, value_name = "FILE.gif | FILE.png")]
    pub out: PathBuf,
    /// Width of a frame in pixels.
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(64..=2048))]
    pub size: u32,
    /// Frames in a PNG strip.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub frames: u32,
}

/// Runs the command.
///
/// # Errors
/// A run or checkpoint that can't be opened, options that do not fit it, or a file that can't be
/// written.
pub fn execute(args: &RenderArgs, registry: &Registry) -> Result<Outcome> {
    let film = match args.out.extension().and_then(|ending| ending.to_str()) {
        Some("gif") => true,
        Some("png") => false,
        _ => bail!("\"{}\": expected a name that ends in .gif or .png", args.out.display()),
    };
    let mut moments = Vec::new();
    play(&args.play, registry, &mut |moment| {
        if moments.len() == MOST {
            bail!("the episode has more than {MOST} steps; shorten it with --steps");
        }
        moments.push(moment);
        Ok(ControlFlow::Continue(()))
    })?;
    if film {
        write_gif(&args.out, &moments, args.size, args.play.fps)?;
    } else {
        write_strip(&args.out, &moments, args.size, args.frames as usize)?;
    }
    let last = moments.last().map_or(String::new(), Moment::summary);
    say(&format!("an episode ({last}) is in {}", args.out.display()))?;
    Ok(Outcome::Done)
}
