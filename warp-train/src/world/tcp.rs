//! Ranks that are processes, on one machine or several: a star with rank 0 in its middle.
//!
//! Rank 0 listens until all others have said hello; what anybody else sends there is dropped.

use super::frame::{Frame, Kind, LATE, receive, send};
use super::{Link, Over, Receivers, Round, parts};
use crate::error::Error;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Version of what is said here.
const VERSION: u32 = 1;
/// Bytes of a message at most.
const MOST_BYTES: u64 = 1 << 36;
/// Bytes of a greeting at most: a stranger could claim any number.
const MOST_OF_HELLO: u64 = 1 << 12;
/// How long a stranger may take to say hello.
const GREETING: Duration = Duration::from_secs(2);
/// How often who waits looks whether it is late.
const TURN: Duration = Duration::from_millis(100);
/// How long ranks look for rank 0, and it for them.
pub const MEETING: Duration = Duration::from_secs(60);

/// What a rank says of itself before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Its rank.
    pub rank: usize,
    /// How many ranks it knows of.
    pub size: usize,
    /// What the processes of a run have in common.
    pub token: String,
    /// Digest of its configuration.
    pub config: String,
    /// The GPU it has, by its UUID; empty for a processor.
    pub gpu: String,
}

/// Rank 0, before the others have come.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
}

impl Listener {
    /// Listens at HOST:PORT.
    ///
    /// # Errors
    /// A place that is none, or is taken: an [`Error::Invalid`].
    pub fn bind(place: &str) -> Result<Self, Error> {
        let failed = |e| Error::Invalid(format!("rank 0 can't listen at {place}: {e}"));
        let listener = TcpListener::bind(place).or_else(|error| {
            // The name that others know may not be one of this machine's own, as behind a service.
            let port = place.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            match (error.kind(), port) {
                (ErrorKind::AddrNotAvailable, Some(port)) => TcpListener::bind(("0.0.0.0", port)),
                _ => Err(error),
            }
        });
        let listener = listener.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener })
    }

    /// The port that it listens at.
    ///
    /// # Errors
    /// The system does not say.
    pub fn port(&self) -> Result<u16, String> {
        self.listener.local_addr().map(|at| at.port()).map_err(|e| e.to_string())
    }

    /// Waits until all other ranks have said hello.
    ///
    /// # Errors
    /// A rank that does not come within `patience`: an [`Error::Ranks`]. One of another configuration, or with
    /// another's GPU: an [`Error::Invalid`]. All others get the same error.
    pub fn welcome(
        self,
        own: &Hello,
        patience: Duration,
        timeout: Duration,
    ) -> Result<Box<dyn Link>, Error> {
        let since = Instant::now();
        let mut spokes: Vec<Option<TcpStream>> = (1..own.size).map(|_| None).collect();
        let mut gpus = vec![String::new(); own.size];
        gpus[0].clone_from(&own.gpu);
        while spokes.iter().any(Option::is_none) {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Err(why) = greet(stream, own, &mut spokes, &mut gpus) {
                        let refused = Frame::new(Kind::Refused, "", why.as_bytes());
                        tell_all(spokes.iter_mut().flatten(), &refused);
                        return Err(Error::Invalid(why));
                    }
                }
                Err(_) if since.elapsed() > patience => {
                    let missing = spokes.iter().zip(1..).filter(|(spoke, _)| spoke.is_none());
                    let missing: Vec<String> = missing.map(|(_, rank)| rank.to_string()).collect();
                    let (missing, seconds) = (missing.join(", "), patience.as_secs_f64());
                    let why = format!("rank {missing} did not connect within {seconds} s");
                    let over = Over::lost(why);
                    tell_all(spokes.iter_mut().flatten(), &Frame::gave_up(&over));
                    return Err(over.into());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        let mut spokes: Vec<TcpStream> = spokes.into_iter().flatten().collect();
        for spoke in &mut spokes {
            send(spoke, &Frame::new(Kind::Welcome, "", &[]), timeout).map_err(|e| {
                Error::Ranks(format!("a rank disconnected before the run began: {e}"))
            })?;
        }
        Ok(Box::new(Hub { spokes, timeout, over: None }))
    }
}

/// Hears who has come: a rank, which gets its place; or a stranger or a double, who is sent away. An error is what
/// ends the run before it begins.
fn greet(
    mut stream: TcpStream,
    own: &Hello,
    spokes: &mut [Option<TcpStream>],
    gpus: &mut [String],
) -> Result<(), String> {
    let prepared = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
    let until = Instant::now() + GREETING;
    let Ok(frame) = receive(&mut stream, until, MOST_OF_HELLO) else { return Ok(()) };
    if prepared.is_err() || frame.kind != Kind::Hello {
        return Ok(());
    }
    let mut answer = |kind, why: &str| {
        let _ = send(&mut stream, &Frame::new(kind, "", why.as_bytes()), GREETING);
    };
    let hello = match Hello::read(&frame.bytes) {
        Ok(hello) => hello,
        Err(why) => {
            answer(Kind::Refused, &why);
            return Ok(());
        }
    };
    let Hello { rank, size, token, config, gpu } = &hello;
    if *token != own.token || *size != own.size || *rank == 0 || *rank >= own.size {
        let why = format!(
            "rank {rank} of {size} does not belong to the run of {} ranks at this address",
            own.size
        );
        answer(Kind::Refused, &why);
        return Ok(());
    }
    // One that was restarted while others are still on their way takes its own place again.
    let is_here = |spoke: &mut TcpStream| news(spoke, *rank).is_none();
    if spokes[rank - 1].as_mut().is_some_and(is_here) {
        // Perhaps the end of the one before has not been noticed yet: another start may succeed.
        answer(Kind::GaveUp, &format!("rank {rank} is already connected"));
        return Ok(());
    }
    if *config != own.config {
        let why = format!("rank {rank} has another configuration than rank 0");
        answer(Kind::Refused, &why);
        return Err(why);
    }
    let is_taken = |(other, of): (usize, &String)| other != *rank && of == gpu;
    if !gpu.is_empty() && gpus.iter().enumerate().any(is_taken) {
        let why = format!("rank {rank} uses the same GPU as another rank, {gpu}");
        answer(Kind::Refused, &why);
        return Err(why);
    }
    gpus[*rank].clone_from(gpu);
    spokes[rank - 1] = Some(stream);
    Ok(())
}

/// Joins the run whose rank 0 listens at HOST:PORT.
///
/// # Errors
/// Nobody who listens there within `patience`, or a run that did not begin: an [`Error::Ranks`]. A rank that does not
/// fit the others: an [`Error::Invalid`].
pub fn join(
    place: &str,
    own: &Hello,
    patience: Duration,
    timeout: Duration,
) -> Result<Box<dyn Link>, Error> {
    let since = Instant::now();
    loop {
        let why = match connect(place) {
            Ok(mut stream) => {
                let said = send(&mut stream, &Frame::new(Kind::Hello, "", &own.bytes()), GREETING);
                let until = since + patience + timeout;
                let answer = said.and_then(|()| receive(&mut stream, until, MOST_OF_HELLO));
                match answer {
                    Ok(Frame { kind: Kind::Welcome, .. }) => {
                        return Ok(Box::new(Spoke { hub: stream, timeout, over: None }));
                    }
                    Ok(Frame { kind: Kind::Refused, bytes, .. }) => {
                        return Err(Error::Invalid(String::from_utf8_lossy(&bytes).into_owned()));
                    }
                    Ok(frame) if frame.kind == Kind::GaveUp => return Err(frame.over().into()),
                    Ok(_) => "what listens there is not rank 0".into(),
                    Err(e) => e,
                }
            }
            Err(e) => e.to_string(),
        };
        if since.elapsed() > patience {
            let (rank, seconds) = (own.rank, patience.as_secs_f64());
            return Err(Error::Ranks(format!(
                "rank {rank} found no rank 0 at {place} within {seconds} s: {why}"
            )));
        }
        std::thread::sleep(TURN);
    }
}

fn connect(place: &str) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(ErrorKind::NotFound, "no such host");
    for address in place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, GREETING) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

impl Hello {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let Self { rank, size, token, config, gpu } = self;
        format!("{VERSION}\n{rank}\n{size}\n{config}\n{gpu}\n{token}").into_bytes()
    }

    fn read(bytes: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(bytes);
        let mut parts = text.splitn(6, '\n');
        let mut next = || parts.next().unwrap_or_default();
        let version = next();
        if version != VERSION.to_string() {
            return Err(format!("this is version {VERSION} of the link, not \"{version}\""));
        }
        let number = |text: &str| text.parse().map_err(|_| format!("\"{text}\" is no rank"));
        let (rank, size) = (number(next())?, number(next())?);
        let (config, gpu, token) = (next().into(), next().into(), next().into());
        Ok(Self { rank, size, token, config, gpu })
    }
}

/// Rank 0's end: a stream to each other rank, in their order.
struct Hub {
    spokes: Vec<TcpStream>,
    timeout: Duration,
    over: Option<Over>,
}

impl Hub {
    fn round(&mut self, round: Round, mine: &[u8]) -> Result<Vec<Vec<u8>>, Over> {
        let Round { what, receivers, .. } = round;
        let until = Instant::now() + self.timeout;
        let mut all = vec![mine.to_vec()];
        for (stream, rank) in self.spokes.iter_mut().zip(1..) {
            let frame = receive(stream, until, MOST_BYTES);
            all.push(said(frame, rank, what, self.timeout)?);
        }
        let joined = if receivers == Receivers::All { parts::join(&all) } else { Vec::new() };
        let answer = Frame { kind: Kind::AllSaid, what: what.into(), bytes: joined };
        for (stream, rank) in self.spokes.iter_mut().zip(1..) {
            let sent = send(stream, &answer, self.timeout);
            sent.map_err(|e| {
                Over::lost(format!("rank {rank} disconnected: {what} could not be sent to it: {e}"))
            })?;
        }
        Ok(all)
    }
}

impl Link for Hub {
    fn gather(&mut self, round: Round, mine: &[u8]) -> Result<Vec<Vec<u8>>, Over> {
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        let done = self.round(round, mine);
        if let Err(over) = &done {
            self.over = Some(over.clone());
            tell_all(self.spokes.iter_mut(), &Frame::gave_up(over));
        }
        done
    }

    fn over(&mut self) -> Option<Over> {
        if self.over.is_none() {
            let news = self.spokes.iter_mut().zip(1..).find_map(|(spoke, rank)| news(spoke, rank));
            if let Some(over) = &news {
                tell_all(self.spokes.iter_mut(), &Frame::gave_up(over));
            }
            self.over = news;
        }
        self.over.clone()
    }

    fn give_up(&mut self, over: &Over) {
        if self.over.is_none() {
            let over = over.of_rank(0);
            tell_all(self.spokes.iter_mut(), &Frame::gave_up(&over));
            self.over = Some(over);
        }
    }
}

/// Another rank's end.
struct Spoke {
    hub: TcpStream,
    timeout: Duration,
    over: Option<Over>,
}

impl Spoke {
    fn round(&mut self, round: Round, mine: &[u8]) -> Result<Vec<Vec<u8>>, Over> {
        let Round { what, receivers, patience } = round;
        let gone =
            |e: String| Over::lost(format!("rank 0 disconnected, or is late with {what}: {e}"));
        let mine = Frame::new(Kind::Said, what, mine);
        let sent = send(&mut self.hub, &mine, self.timeout);
        // What rank 0 says last, if it gave up, is worth more than that it is gone.
        let until = Instant::now() + patience.max(self.timeout + self.timeout / 2);
        let frame = receive(&mut self.hub, until, MOST_BYTES);
        let frame = match (frame, sent) {
            (Ok(frame), _) => frame,
            (Err(e), Ok(())) | (Err(_), Err(e)) => return Err(gone(e)),
        };
        match frame {
            Frame { kind: Kind::AllSaid, what: of, bytes } if of == what => match receivers {
                Receivers::All => {
                    parts::split(&bytes).ok_or_else(|| gone("a broken message".into()))
                }
                Receivers::First => Ok(Vec::new()),
            },
            frame if frame.kind == Kind::GaveUp => Err(frame.over()),
            Frame { what: of, .. } => Err(gone(format!("it has reached \"{of}\""))),
        }
    }
}

impl Link for Spoke {
    fn gather(&mut self, round: Round, mine: &[u8]) -> Result<Vec<Vec<u8>>, Over> {
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        let done = self.round(round, mine);
        if let Err(over) = &done {
            self.over = Some(over.clone());
        }
        done
    }

    fn over(&mut self) -> Option<Over> {
        if self.over.is_none() {
            self.over = news(&mut self.hub, 0);
        }
        self.over.clone()
    }

    fn give_up(&mut self, over: &Over) {
        if self.over.is_none() {
            let _ = send(&mut self.hub, &Frame::gave_up(over), GREETING);
            let why = format!("this rank gave up: {}", over.why);
            self.over = Some(Over { why, cause: over.cause });
        }
    }
}

/// Why rank `rank` says no more, if it has given up or is gone; what it says in a round is left where it is.
fn news(stream: &mut TcpStream, rank: usize) -> Option<Over> {
    let mut head = [0; 5];
    stream.set_nonblocking(true).ok()?;
    let seen = stream.peek(&mut head);
    stream.set_nonblocking(false).ok()?;
    match seen {
        Ok(0) => Some(Over::lost(format!("rank {rank} disconnected"))),
        Ok(5) if head[4] == Kind::GaveUp as u8 => {
            let frame = receive(stream, Instant::now() + GREETING, MOST_OF_HELLO).ok()?;
            let over = frame.over();
            Some(if rank == 0 { over } else { over.of_rank(rank) })
        }
        Err(e) if e.kind() != ErrorKind::WouldBlock => {
            Some(Over::lost(format!("rank {rank} disconnected: {e}")))
        }
        _ => None,
    }
}

/// What rank `rank` said in a round about `what`.
fn said(
    frame: Result<Frame, String>,
    rank: usize,
    what: &str,
    timeout: Duration,
) -> Result<Vec<u8>, Over> {
    let why = match frame {
        Ok(Frame { kind: Kind::Said, what: of, bytes }) if of == what => return Ok(bytes),
        Ok(Frame { kind: Kind::Said, what: of, .. }) => {
            format!("rank {rank} has reached {of}, rank 0 {what}")
        }
        Ok(frame) if frame.kind == Kind::GaveUp => return Err(frame.over().of_rank(rank)),
        Ok(Frame { .. }) => format!("rank {rank} sent something that does not belong to a round"),
        Err(e) if e == LATE => {
            let seconds = timeout.as_secs_f64();
            format!("rank {rank} has not reached {what} for {seconds} s")
        }
        Err(e) => format!("rank {rank} disconnected, or sent something unreadable: {e}"),
    };
    Err(Over::lost(why))
}

fn tell_all<'a>(spokes: impl Iterator<Item = &'a mut TcpStream>, frame: &Frame) {
    for spoke in spokes {
        let _ = send(spoke, frame, GREETING);
    }
}
