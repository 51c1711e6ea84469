//! The one way to the terminal: lines for people, on standard output and standard error.
//!
//! Names come from arguments, paths and files, and a terminal obeys the escape sequences in them. So
//! whatever is said passes through [`plain`], and the crate's lints forbid `println!` everywhere.

use anyhow::{Result, bail};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

/// Whether a character steers a terminal, or turns what stands around it.
fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

/// `text` as a terminal may have it, lines and tabs as they are: what would steer it is shown as
/// `\u001b`, which TOML and JSON read as the same character.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// As [`plain`], in one line.
#[must_use]
pub fn one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

/// A number with three digits, a letter and a space.
pub(crate) fn short(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2} G ", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M ", n / 1e6),
        n if n >= 1e3 => format!("{:.1} k ", n / 1e3),
        n => format!("{n:.1} "),
    }
}

/// An error and its causes, each said once: some quote their cause themselves.
#[must_use]
pub fn sentence(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// Prints a line, or several, on standard output. A reader that has left (`| head`) is no error.
pub(crate) fn say(text: &str) -> Result<()> {
    say_to(&mut std::io::stdout().lock(), text)
}

/// As [`say`], to `out`.
pub(crate) fn say_to(out: &mut dyn Write, text: &str) -> Result<()> {
    match writeln!(out, "{}", plain(text)).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => bail!("the result cannot be written: {e}"),
        _ => Ok(()),
    }
}

/// Prints a line, or several, on standard error, where nobody needs to listen; held back while something else has
/// the terminal ([`hold`]).
pub(crate) fn tell(text: &str) {
    let text = plain(text);
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *held {
        Some(lines) => lines.push(text.into_owned()),
        None => {
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }
}

/// What was told while the terminal is somebody else's; nothing is held back else.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// From now on what is told is held back.
#[cfg(feature = "dashboard")]
pub(crate) fn hold() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

/// What is held back.
#[cfg(feature = "dashboard")]
pub(crate) fn held() -> Vec<String> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

/// Tells what was held back, and all that follows at once.
#[cfg(feature = "dashboard")]
pub(crate) fn release() {
    let lines = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    lines.unwrap_or_default().iter().for_each(|line| tell(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_shown_instead() {
        assert_eq!(
            plain("a\x1b[2Jb\x07\x7f\u{9b}c\r"),
            "a\\u001b[2Jb\\u0007\\u007f\\u009bc\\u000d"
        );
        assert_eq!(plain("evil\u{202e}gpj.exe"), "evil\\u202egpj.exe");
        assert!(matches!(plain("Zürich, 東京\n\tx"), Cow::Borrowed(_)));
        assert_eq!(one_line("a\nb\tc\x1b"), "a b c\\u001b");
    }

    #[test]
    fn json_and_toml_that_were_made_plain_say_the_same() {
        let evil = "\x1b\u{7f}\u{9b}\u{202e}";
        let json = serde_json::to_string(evil).unwrap();
        assert_eq!(serde_json::from_str::<String>(&plain(&json)).unwrap(), evil);
        let toml = format!("x = {}", toml::Value::from(evil));
        let table: toml::Table = plain(&toml).parse().unwrap();
        assert_eq!(table["x"].as_str(), Some(evil));
    }
}
