//! A scene as text: two pixels to a character, one above the other.

use super::canvas::{Frame, fitted};
use anyhow::Result;
use std::fmt::Write;
use warp_func::drawing::Scene;

/// Pixels are drawn this much larger and then reduced.
const DETAIL: usize = 4;

/// How many colours a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The 256 of xterm.
    Xterm,
    /// All of them.
    True,
}

/// The scene in the given columns and rows of characters, each row ending in a line feed.
///
/// # Errors
/// A size for which there is no memory.
pub fn draw(scene: &Scene, columns: usize, rows: usize, depth: Depth) -> Result<String> {
    let (width, height) = (columns * DETAIL, 2 * rows * DETAIL);
    let frame = fitted(scene, width as u32, height as u32, DETAIL as f32)?;
    let mut text = String::new();
    for row in 0..rows {
        let mut last = None;
        for column in 0..columns {
            let colours = (reduced(&frame, column, 2 * row), reduced(&frame, column, 2 * row + 1));
            if last != Some(colours) {
                let (upper, lower) = (code(colours.0, depth), code(colours.1, depth));
                let _ = write!(text, "\x1b[38;{upper};48;{lower}m");
                last = Some(colours);
            }
            text.push('\u{2580}');
        }
        text.push_str("\x1b[0m\r\n");
    }
    Ok(text)
}

/// The mean of the pixels that make one.
fn reduced(frame: &Frame, column: usize, row: usize) -> [u8; 3] {
    [0, 1, 2].map(|channel| {
        let at = |i: usize| {
            let (x, y) = (column * DETAIL + i % DETAIL, row * DETAIL + i / DETAIL);
            usize::from(frame.pixels[3 * (y * frame.width as usize + x) + channel])
        };
        ((0..DETAIL * DETAIL).map(at).sum::<usize>() / (DETAIL * DETAIL)) as u8
    })
}

/// The colour in an escape sequence.
fn code([red, green, blue]: [u8; 3], depth: Depth) -> String {
    if depth == Depth::True {
        return format!("2;{red};{green};{blue}");
    }
    // The cube of xterm has the levels 0, 95, 135, 175, 215 and 255.
    let level = |part: u8| if part < 48 { 0 } else { (u32::from(part).max(75) - 35) / 40 };
    format!("5;{}", 16 + 36 * level(red) + 6 * level(green) + level(blue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_func::drawing::colours;

    #[test]
    fn a_scene_fills_its_characters() {
        let mut scene = Scene::new(0.0..4.0, 0.0..4.0);
        scene.rectangle((0.0, 0.0), (4.0, 2.0), colours::INK);
        let text = draw(&scene, 4, 2, Depth::True).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], "\x1b[38;2;250;250;252;48;2;250;250;252m▀▀▀▀\x1b[0m");
        assert_eq!(lines[1], "\x1b[38;2;40;44;52;48;2;40;44;52m▀▀▀▀\x1b[0m");
    }

    #[test]
    fn colours_of_xterm_are_near() {
        assert_eq!(code([255, 255, 255], Depth::Xterm), "5;231");
        assert_eq!(code([0, 0, 0], Depth::Xterm), "5;16");
        assert_eq!(code([0, 135, 95], Depth::Xterm), "5;29");
    }
}
