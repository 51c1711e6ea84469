//! `warp watch` in a terminal of its own: it says how to leave, and leaves the terminal as it was.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use warp_command::Folder;

/// A terminal: what is written to it is typed, what is read is shown.
fn terminal() -> (File, File) {
    let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&outer).unwrap();
    unlockpt(&outer).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&outer, size).unwrap();
    let name = ptsname(&outer, Vec::new()).unwrap().into_string().unwrap();
    let inner = File::options().read(true).write(true).open(name).unwrap();
    (File::from(outer), inner)
}

#[test]
fn q_leaves_and_the_terminal_is_as_it_was() {
    let folder = Folder::new("watch");
    folder.train(&["--steps", "128", "--out", "run"]);
    let (outer, inner) = terminal();
    let before = tcgetattr(&inner).unwrap();
    let mut command = folder.command(&["watch", "run", "--fps", "1", "--random", "pole"]);
    command.env("TERM", "xterm");
    command.stdin(inner.try_clone().unwrap()).stdout(inner.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let (shown, seen) = mpsc::channel();
    let mut screen = outer.try_clone().unwrap();
    // Ends with the test binary at the latest: a terminal has no end while it is open.
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = screen.read(&mut bytes) {
            let _ = shown.send(String::from_utf8_lossy(&bytes[..n]).into_owned());
        }
    });
    let mut text = String::new();
    while !text.contains("q leaves") {
        text += &seen.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let during = tcgetattr(&inner).unwrap().local_modes;
    assert!(!during.contains(LocalModes::ECHO) && !during.contains(LocalModes::ICANON));
    assert!(during.contains(LocalModes::ISIG), "Ctrl-C must stay a signal");
    let pressed = Instant::now();
    (&outer).write_all(b"xq").unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    // At a step per second the shortest episode takes longer.
    assert!(pressed.elapsed() < Duration::from_secs(5), "{:?}", pressed.elapsed());
    while let Ok(more) = seen.recv_timeout(Duration::from_millis(200)) {
        text += &more;
    }
    let hidden = text.rfind("\x1b[?25l").unwrap();
    assert!(text.rfind("\x1b[?25h").unwrap() > hidden, "the cursor is still hidden");
    let after = tcgetattr(&inner).unwrap();
    assert_eq!(after.local_modes, before.local_modes);
    assert_eq!(format!("{:?}", after.special_codes), format!("{:?}", before.special_codes));
}

#[test]
fn a_terminal_that_moves_no_cursor_is_refused() {
    let folder = Folder::new("watch-dumb");
    let (_outer, inner) = terminal();
    let mut command = folder.command(&["watch", "run"]);
    command.env("TERM", "dumb").stdin(inner.try_clone().unwrap()).stdout(inner);
    command.stderr(std::process::Stdio::piped());
    let said = command.spawn().unwrap().wait_with_output().unwrap();
    let words = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(2), "{words}");
    assert!(words.contains("needs a terminal that moves its cursor, which TERM=dumb does not"));
}
