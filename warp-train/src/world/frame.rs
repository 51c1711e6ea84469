//! A message between processes: `WARP`, its kind, what it is about, its length, its bytes.

use super::{Cause, Over};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const MAGIC: [u8; 4] = *b"WARP";
/// How often who waits looks whether it is late.
const TURN: Duration = Duration::from_millis(100);
/// What a read says that took too long.
pub(super) const LATE: &str = "nothing came in time";

/// What a message says that a rank gave up is about.
const CAUSES: [(Cause, &str); 3] =
    [(Cause::Lost, ""), (Cause::Users, "the user's"), (Cause::Broken, "a broken run")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Hello = 1,
    Welcome = 2,
    Refused = 3,
    Said = 4,
    AllSaid = 5,
    GaveUp = 6,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        use Kind::{AllSaid, GaveUp, Hello, Refused, Said, Welcome};
        [Hello, Welcome, Refused, Said, AllSaid, GaveUp].into_iter().find(|k| *k as u8 == byte)
    }
}

/// A message.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) what: String,
    pub(super) bytes: Vec<u8>,
}

impl Frame {
    pub(super) fn new(kind: Kind, what: &str, bytes: &[u8]) -> Self {
        Self { kind, what: what.into(), bytes: bytes.to_vec() }
    }

    /// That a rank gave up.
    pub(super) fn gave_up(over: &Over) -> Self {
        let cause = CAUSES.iter().find(|(cause, _)| *cause == over.cause);
        Self::new(Kind::GaveUp, cause.map_or("", |(_, word)| word), over.why.as_bytes())
    }

    /// Why a rank gave up; another word than those known is of one that knows more, and taken for a loss.
    pub(super) fn over(&self) -> Over {
        let cause = CAUSES.iter().find(|(_, word)| *word == self.what);
        let cause = cause.map_or(Cause::Lost, |(cause, _)| *cause);
        Over { why: String::from_utf8_lossy(&self.bytes).into_owned(), cause }
    }
}

/// Sends a frame within `timeout`.
pub(super) fn send(stream: &mut TcpStream, frame: &Frame, timeout: Duration) -> Result<(), String> {
    let Frame { kind, what, bytes } = frame;
    let mut head = MAGIC.to_vec();
    head.extend([*kind as u8, what.len() as u8]);
    head.extend((bytes.len() as u64).to_le_bytes());
    head.extend(what.bytes());
    stream.set_write_timeout(Some(timeout.max(TURN))).map_err(|e| e.to_string())?;
    stream.write_all(&head).and_then(|()| stream.write_all(bytes)).map_err(|e| e.to_string())
}

/// A frame that comes before `until`, of `most` bytes at most.
pub(super) fn receive(stream: &mut TcpStream, until: Instant, most: u64) -> Result<Frame, String> {
    let mut head = [0; 14];
    read_all(stream, &mut head, until)?;
    let (magic, rest) = head.split_at(4);
    let (kind, what, length) = (Kind::of(rest[0]), rest[1], &rest[2..]);
    let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let Some(kind) = kind.filter(|_| magic == MAGIC) else {
        return Err("not a message of a rank".into());
    };
    if length > most {
        return Err(format!("a message of {length} bytes, {most} at most"));
    }
    let mut name = vec![0; usize::from(what)];
    read_all(stream, &mut name, until)?;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        // Memory is taken as bytes come, whatever length was claimed.
        let from = bytes.len();
        bytes.resize(from + (length as usize - from).min(1 << 20), 0);
        read_all(stream, &mut bytes[from..], until)?;
    }
    Ok(Frame { kind, what: String::from_utf8_lossy(&name).into_owned(), bytes })
}

fn read_all(stream: &mut TcpStream, mut into: &mut [u8], until: Instant) -> Result<(), String> {
    while !into.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LATE.into());
        }
        stream.set_read_timeout(Some(left)).map_err(|e| e.to_string())?;
        match stream.read(into) {
            Ok(0) => return Err("its connection has ended".into()),
            Ok(n) => into = &mut into[n..],
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e.to_string()),
        }
    }
    Ok(())
}
