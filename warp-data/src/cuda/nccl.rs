//! NCCL: communication between GPUs, on any number of machines. The library is looked up when it is needed.
#![expect(unsafe_code, reason = "calls NCCL's C functions, which are found at run time")]

use super::array::DeviceArray;
use super::device::Device;
use super::nccl_library::{Config, Functions, Handle, ID, SUCCESS, UniqueId, failed, functions};
use crate::error::Result;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warp_core::DType;

const IN_PROGRESS: c_int = 7;
/// `ncclUint8`.
const BYTES: c_int = 1;
/// `ncclFloat32`.
const FLOATS: c_int = 7;
/// `ncclSum`.
const SUM: c_int = 0;
/// How often a call that goes on is asked for.
const TURN: Duration = Duration::from_micros(20);

/// The id of a new communicator, which one rank requests and sends to the others.
///
/// # Errors
/// No NCCL, or one without a way to the network.
pub fn nccl_unique_id() -> Result<Vec<u8>> {
    let functions = functions()?;
    let mut id = UniqueId([0; ID]);
    // SAFETY: writes the name.
    let code = unsafe { (functions.unique_id)(&raw mut id) };
    check(functions, null_mut(), code, "naming a communicator of NCCL")?;
    Ok(id.0.map(|byte| byte as u8).to_vec())
}

/// An array of this rank, and where those of all ranks or their sum go.
#[derive(Debug, Clone, Copy)]
pub struct Transfer<'a> {
    /// What this rank gives.
    pub send: &'a DeviceArray,
    /// What it gets.
    pub receive: &'a DeviceArray,
}

/// A rank among those that gather and sum arrays, on its device's stream. What NCCL has for it stays until the process ends:
/// to free it, all ranks would have to be there, and one of them may be gone.
#[derive(Debug)]
pub struct Communicator {
    /// Null once it has ended.
    handle: Cell<Handle>,
    device: Device,
    size: usize,
    timeout: Duration,
}

// SAFETY: NCCL's communicators may be used from any thread, by one at a time: all uses need `&self` of an
// object that is not `Sync`.
unsafe impl Send for Communicator {}

/// A communicator that nobody else has any more.
struct Ended(Handle);

// SAFETY: NCCL's communicators may be used from any thread, and this is the only one.
unsafe impl Send for Ended {}

/// Whether a communicator of this process was aborted.
static ABORTED: AtomicBool = AtomicBool::new(false);

// SAFETY: C's function, which every platform has; it takes any number, and only ends the process.
unsafe extern "C" {
    safe fn _exit(code: c_int) -> !;
}

/// Ends the process here, without the handlers that run at its end, if it has aborted a communicator: NCCL takes it
/// down on threads of its own, which crash where CUDA goes first.
pub fn exit_if_aborted(code: u8) {
    if ABORTED.load(Ordering::Relaxed) {
        // Its handler at exit would have done so; if nobody reads any more, there is nobody to tell.
        let _ = std::io::stdout().flush();
        _exit(code.into());
    }
}

/// What [`Communicator::begin`] does, in messages.
const JOINING: &str = "joining the other GPUs through NCCL";

impl Communicator {
    /// Begins to join the ranks that were told `name`; this one is number `rank` of `size`. Nothing may be gathered
    /// before [`Communicator::is_ready`]; what is gathered then has begun within `timeout`.
    ///
    /// # Errors
    /// No NCCL, or GPUs without any way to each other.
    pub fn begin(
        device: &Device,
        name: &[u8],
        rank: usize,
        size: usize,
        timeout: Duration,
    ) -> Result<Self> {
        let functions = functions()?;
        device.bind()?;
        let mut id = UniqueId([0; ID]);
        id.0.iter_mut().zip(name).for_each(|(to, byte)| *to = *byte as c_char);
        let (mut handle, mut config) = (null_mut(), Config::new());
        // SAFETY: handle and configuration are there during the call; the name is passed by value.
        let code = unsafe {
            (functions.join)(&raw mut handle, size as c_int, id, rank as c_int, &raw mut config)
        };
        if code != IN_PROGRESS {
            check(functions, null_mut(), code, JOINING)?;
        }
        Ok(Self { handle: Cell::new(handle), device: device.clone(), size, timeout })
    }

    /// Whether all ranks have joined.
    ///
    /// # Errors
    /// GPUs without any way to each other.
    pub fn is_ready(&self) -> Result<bool> {
        let functions = functions()?;
        match self.state(functions)? {
            IN_PROGRESS => Ok(false),
            code => check(functions, self.handle.get(), code, JOINING).map(|()| true),
        }
    }

    /// Copies arrays of all ranks, in their order, behind each other, and adds those to be `summed` up, f32, in an
    /// order that NCCL chooses; on the device's stream, all in one go.
    ///
    /// # Errors
    /// Arrays that do not fit or are on another GPU, or ranks that have lost each other.
    pub fn exchange(&self, gathered: &[Transfer<'_>], summed: &[Transfer<'_>]) -> Result<()> {
        let functions = functions()?;
        let doing = "exchanging arrays through NCCL";
        let wrong = |reason: String| failed(doing, &reason);
        gathered
            .iter()
            .try_for_each(|transfer| self.check_transfer(*transfer, self.size))
            .map_err(wrong)?;
        summed.iter().try_for_each(|transfer| self.check_transfer(*transfer, 1)).map_err(wrong)?;
        if let Some(other) = summed.iter().find(|transfer| transfer.send.dtype() != DType::F32) {
            return Err(failed(doing, &format!("\"{}\" is not of f32", other.send.name())));
        }
        let handle = self.handle.get();
        if handle.is_null() {
            return Err(failed(doing, "it has been ended"));
        }
        self.device.bind()?;
        let mut lock = self.device.lock_stream();
        let all = gathered.iter().chain(summed);
        lock.keep(|| {
            all.flat_map(|transfer| [transfer.send.clone(), transfer.receive.clone()])
                .collect::<Vec<_>>()
        });
        let stream = self.device.stream().cu_stream().cast::<c_void>();
        let ends = |transfer: &Transfer<'_>| {
            (transfer.send.ptr() as *const c_void, transfer.receive.ptr() as *mut c_void)
        };
        let goes_on = |code: c_int| code == SUCCESS || code == IN_PROGRESS;
        // SAFETY: addresses and lengths are those of arrays of this device, which stay until its stream has
        // passed this: launches and copies hold the stream's lock, and what is recorded keeps them.
        let code = unsafe {
            let mut code = (functions.group_start)();
            for transfer in gathered {
                let ((from, to), n) = (ends(transfer), transfer.send.bytes());
                let one = (functions.all_gather)(from, to, n, BYTES, handle, stream);
                code = if goes_on(code) { one } else { code };
            }
            for transfer in summed {
                let ((from, to), n) = (ends(transfer), transfer.send.len());
                let one = (functions.all_reduce)(from, to, n, FLOATS, SUM, handle, stream);
                code = if goes_on(code) { one } else { code };
            }
            let end = (functions.group_end)();
            if goes_on(code) { end } else { code }
        };
        drop(lock);
        if code != IN_PROGRESS {
            check(functions, handle, code, doing)?;
        }
        self.settle(doing)
    }

    /// Checks that both arrays are here, and that so many copies of the one fit into the other; the error says what
    /// is wrong.
    fn check_transfer(
        &self,
        transfer: Transfer<'_>,
        copies: usize,
    ) -> std::result::Result<(), String> {
        let Transfer { send: from, receive: to } = transfer;
        let here = |array: &DeviceArray| Arc::ptr_eq(array.device().stream(), self.device.stream());
        let (given, got) = (from.name(), to.name());
        if !here(from) || !here(to) {
            return Err(format!("\"{given}\" or \"{got}\" is on another GPU"));
        }
        if to.bytes() < from.bytes() * copies {
            return Err(format!("\"{got}\" is too small for {copies} copies of \"{given}\""));
        }
        Ok(())
    }

    /// Whether it was aborted: what was recorded with it may not be replayed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.handle.get().is_null()
    }

    /// Whether all is well with the other ranks, as far as NCCL knows.
    ///
    /// # Errors
    /// What NCCL has noticed.
    pub fn check_async_error(&self) -> Result<()> {
        let functions = functions()?;
        match self.state(functions)? {
            IN_PROGRESS => Ok(()),
            code => check(functions, self.handle.get(), code, "looking after NCCL"),
        }
    }

    /// Ends what is under way: no kernel waits for another rank any more. Nothing can be gathered after it.
    ///
    /// NCCL comes back only when all graphs that were recorded with it are gone, so nobody waits for that.
    pub fn abort(&self) {
        let ended = Ended(self.handle.replace(null_mut()));
        if let (Ok(functions), false) = (functions(), ended.0.is_null()) {
            ABORTED.store(true, Ordering::Relaxed);
            let end = move || {
                // The whole of it: the closure would else capture the pointer alone, which is not `Send`.
                let ended = ended;
                let Ended(handle) = ended;
                // SAFETY: made by `begin` and ended once; it frees what the communicator has, whatever others do.
                unsafe { (functions.abort)(handle) };
            };
            // Where no thread can start, the communicator stays until the process ends, which has lost a rank.
            let _ = std::thread::Builder::new().spawn(end);
        }
    }

    /// Waits until what was asked for has begun.
    fn settle(&self, doing: &str) -> Result<()> {
        let functions = functions()?;
        let since = Instant::now();
        loop {
            match self.state(functions)? {
                SUCCESS => return Ok(()),
                IN_PROGRESS if since.elapsed() > self.timeout => {
                    let seconds = self.timeout.as_secs_f64();
                    return Err(failed(doing, &format!("not done after {seconds} s")));
                }
                IN_PROGRESS => std::thread::sleep(TURN),
                code => return check(functions, self.handle.get(), code, doing),
            }
        }
    }

    fn state(&self, functions: &Functions) -> Result<c_int> {
        let (handle, mut state) = (self.handle.get(), SUCCESS);
        if handle.is_null() {
            return Ok(SUCCESS);
        }
        // SAFETY: the communicator has not ended; the call writes an integer.
        let code = unsafe { (functions.async_error)(handle, &raw mut state) };
        check(functions, handle, code, "asking NCCL")?;
        Ok(state)
    }
}

fn check(functions: &Functions, handle: Handle, code: c_int, doing: &str) -> Result<()> {
    if code == SUCCESS {
        return Ok(());
    }
    // SAFETY: both give static or library-owned strings that end with a zero byte.
    let words = unsafe {
        let last = (functions.last_error)(handle);
        let of_code = (functions.error_string)(code);
        [of_code, last]
            .iter()
            .filter(|words| !words.is_null())
            .map(|words| CStr::from_ptr(*words).to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    Err(failed(doing, words.join(": ").trim_end_matches([':', ' ', '\n'])))
}

#[cfg(test)]
mod tests {
    use super::super::nccl_library::find;
    use super::*;
    use std::io::Write;
    use std::process::Command;

    /// A library that stands for NCCL, built with the machine's C compiler; none if there is none.
    fn stub(name: &str, flags: &[&str]) -> Option<String> {
        let folder = std::env::temp_dir();
        let process = std::process::id();
        let [source, library] =
            ["c", "so"].map(|end| folder.join(format!("libnccl-{process}-{name}.{end}")));
        std::fs::write(&source, include_str!("nccl_stub.c")).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-shared", "-fPIC"]).args(flags).arg("-o").arg(&library).arg(&source);
        let said = cc.output();
        std::fs::remove_file(&source).unwrap();
        let Ok(said) = said else {
            let test = std::thread::current().name().unwrap_or_default().to_string();
            // Past the harness, which shows nothing of tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: no C compiler found (cc)");
            return None;
        };
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        Some(library.to_str().unwrap().into())
    }

    /// What comes of looking for such a library, which is gone afterwards.
    fn found(
        name: &str,
        flags: &[&str],
    ) -> Option<(String, std::result::Result<Functions, String>)> {
        let path = stub(name, flags)?;
        let found = find(Some(&path));
        std::fs::remove_file(&path).unwrap();
        Some((path, found))
    }

    #[test]
    fn a_good_library_is_called_as_its_header_says() {
        let Some((path, found)) = found("good", &["-DVERSION=22809"]) else { return };
        let functions = found.unwrap();
        assert_eq!(functions.path, path);
        let (mut id, mut handle, mut config) = (UniqueId([0; ID]), null_mut(), Config::new());
        let mut join = |rank: c_int| {
            // SAFETY: as NCCL's own, the stub writes a name and a handle, and reads the rest.
            unsafe {
                check(&functions, null_mut(), (functions.unique_id)(&raw mut id), "naming")
                    .unwrap();
                (functions.join)(&raw mut handle, 16, id, rank, &raw mut config)
            }
        };
        assert_eq!(join(5), IN_PROGRESS);
        let refused = check(&functions, null_mut(), join(6), "joining the others").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "joining the others failed: invalid argument: nobody has come"
        );
        let mut states = [0; 4];
        // SAFETY: the handle is the one that the stub gave; states are integers.
        unsafe {
            for state in &mut states {
                assert_eq!((functions.async_error)(handle, state), SUCCESS);
            }
            assert_eq!((functions.abort)(handle), SUCCESS);
        }
        assert_eq!(states, [IN_PROGRESS, IN_PROGRESS, SUCCESS, SUCCESS]);
    }

    #[test]
    fn an_old_library_is_a_sentence() {
        let Some((path, found)) = found("old", &["-DVERSION=21708"]) else { return };
        let error = found.err().unwrap();
        assert_eq!(error, format!("{path} is of version 2.17.8; 2.18 or newer is needed"));
    }

    #[test]
    fn a_library_of_another_make_is_a_sentence() {
        let flags = ["-DVERSION=22809", "-DWITHOUT_ALL_GATHER"];
        let Some((path, found)) = found("lacking", &flags) else { return };
        assert_eq!(found.err().unwrap(), format!("{path} has no function ncclAllGather"));
    }
}
