//! NVRTC: compiles CUDA code to machine code for one GPU. Needs no GPU and no toolkit.
#![expect(
    unsafe_code,
    reason = "calls NVRTC's C functions, since headers in memory have no wrapper"
)]

use crate::error::{Error, Result};
use std::ffi::{CString, c_char};
use warp_data::cuda::cudarc::nvrtc::sys;
use warp_data::cuda::library;

/// Functions of NVRTC that came last, of all that are called.
const NEEDED: [(&str, &str); 2] = [("nvrtcVersion", "7.0"), ("nvrtcGetCUBIN", "11.1")];

/// The version from which NVRTC is known to take `--Ofast-compile`.
const OFAST_COMPILE_SINCE: (u32, u32) = (13, 0);

/// One translation unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its file name, for diagnostics.
    pub name: String,
    /// Its text.
    pub text: String,
    /// What it may include: names and texts.
    pub headers: Vec<(String, String)>,
    /// Macros: names and values.
    pub defines: Vec<(String, String)>,
}

/// How exact the machine code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Build {
    /// Bit-equal to the Rust functions: IEEE division and square root, nothing contracted.
    Parity,
    /// Fast: products and sums may fuse, division and square root are good to 2 units in the last
    /// place, and `WARP_RELEASE` is defined, where the text may choose approximate functions.
    Release,
}

impl Source {
    /// A translation unit of just this code, with the framework's headers.
    #[must_use]
    pub fn new(name: &str, text: impl Into<String>) -> Self {
        let headers =
            warp_core::kernel_text::HEADERS.map(|(name, text)| (name.into(), text.into()));
        Self { name: name.into(), text: text.into(), headers: headers.into(), defines: Vec::new() }
    }

    /// Defines a macro.
    #[must_use]
    pub fn define(mut self, name: &str, value: impl ToString) -> Self {
        self.defines.push((name.into(), value.to_string()));
        self
    }

    /// Everything that decides what comes out of the compiler, but for the compiler itself.
    pub(super) fn options(&self, build: Build, arch: &str) -> Vec<String> {
        let mut options: Vec<String> =
            vec![format!("--gpu-architecture={arch}"), "--std=c++17".into(), "--ftz=false".into()];
        match build {
            Build::Parity => {
                options.extend(
                    ["--fmad=false", "--prec-div=true", "--prec-sqrt=true"].map(Into::into),
                );
            }
            Build::Release => {
                let fast =
                    ["--fmad=true", "--prec-div=false", "--prec-sqrt=false", "-DWARP_RELEASE=1"];
                options.extend(fast.map(Into::into));
            }
        }
        options.extend(self.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        options
    }
}

/// The name of a GPU's machine code: `sm_90a` for compute capability 9.0.
pub(super) fn architecture((major, minor): (u32, u32)) -> String {
    // From 9.0 on the `a` opens the instructions that this GPU alone has.
    format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" })
}

/// NVRTC's version, major and minor.
///
/// # Errors
/// No NVRTC: the message says which library was searched for.
pub fn nvrtc_version() -> Result<(u32, u32)> {
    // SAFETY: tries to open the library, whose initialisers are NVIDIA's own.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::NoNvrtc { searched: library::searched("nvrtc") });
    }
    // SAFETY: the library is present; the address is only looked up.
    let has = |name: &[u8]| unsafe { sys::culib().get::<*const ()>(name) }.is_ok();
    if let Some(error) = library::incomplete("libnvrtc.so", &NEEDED, has) {
        return Err(error.into());
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is present, and the call writes two integers.
    let result = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    match result {
        sys::nvrtcResult::NVRTC_SUCCESS => Ok((major.unsigned_abs(), minor.unsigned_abs())),
        other => Err(failure("asking NVRTC for its version", other)),
    }
}

/// Machine code of `source` for `arch`.
///
/// # Errors
/// No NVRTC, or code that does not compile: the message contains the compiler's log.
pub(super) fn compile(source: &Source, build: Build, arch: &str) -> Result<Vec<u8>> {
    nvrtc_version()?;
    compiled(source, &source.options(build, arch))?.machine_code()
}

/// How far [`check_source`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// To the assembler's language, PTX: all that the compiler checks. A third of the time.
    Compiled,
    /// To machine code: what is written in `asm` and how much memory kernels declare is checked, too.
    Assembled,
}

/// Checks that `source` can be compiled for `arch`. Takes a sixth to a half of the time of code that is to run,
/// since it is hardly optimised.
///
/// # Errors
/// No NVRTC, or code that does not compile: the message contains the compiler's log.
pub fn check_source(source: &Source, build: Build, arch: &str, check: Check) -> Result<()> {
    let arch = match check {
        Check::Compiled => arch.replace("sm_", "compute_"),
        Check::Assembled => arch.into(),
    };
    let mut options = source.options(build, &arch);
    if nvrtc_version()? >= OFAST_COMPILE_SINCE {
        options.push("--Ofast-compile=max".into());
    }
    let program = compiled(source, &options)?;
    if check == Check::Compiled || program.machine_code()?.starts_with(b"\x7fELF") {
        Ok(())
    } else {
        Err(Error::Compile { name: source.name.clone(), log: "no machine code came out".into() })
    }
}

fn compiled(source: &Source, options: &[String]) -> Result<Program> {
    let program = Program::new(source)?;
    let compiled = program.compile(options);
    compiled.map_err(|log| Error::Compile { name: source.name.clone(), log })?;
    Ok(program)
}

/// An NVRTC program; destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

impl Program {
    fn new(source: &Source) -> Result<Self> {
        let text = c_string(&source.text, &source.name)?;
        let name = c_string(&source.name, &source.name)?;
        let strings = |part: fn(&(String, String)) -> &String| {
            source.headers.iter().map(|h| c_string(part(h), &h.0)).collect::<Result<Vec<_>>>()
        };
        let (names, texts) = (strings(|h| &h.0)?, strings(|h| &h.1)?);
        let pointers =
            |all: &[CString]| all.iter().map(|s| s.as_ptr()).collect::<Vec<*const c_char>>();
        let (name_pointers, text_pointers) = (pointers(&names), pointers(&texts));
        let mut program = std::ptr::null_mut();
        // SAFETY: all strings are terminated and outlive the call; as many headers as names.
        let result = unsafe {
            sys::nvrtcCreateProgram(
                &raw mut program,
                text.as_ptr(),
                name.as_ptr(),
                names.len() as i32,
                text_pointers.as_ptr(),
                name_pointers.as_ptr(),
            )
        };
        match result {
            sys::nvrtcResult::NVRTC_SUCCESS => Ok(Self(program)),
            other => Err(failure("making an NVRTC program", other)),
        }
    }

    /// Compiles, or returns the log.
    fn compile(&self, options: &[String]) -> std::result::Result<(), String> {
        let options: Vec<CString> =
            options.iter().filter_map(|o| CString::new(o.as_str()).ok()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program lives; the options are terminated and outlive the call.
        let result =
            unsafe { sys::nvrtcCompileProgram(self.0, pointers.len() as i32, pointers.as_ptr()) };
        if result == sys::nvrtcResult::NVRTC_SUCCESS { Ok(()) } else { Err(self.log()) }
    }

    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: writes one integer.
        unsafe { sys::nvrtcGetProgramLogSize(self.0, &raw mut size) };
        let mut log = vec![0u8; size.max(1)];
        // SAFETY: the buffer has the size that was just asked for.
        unsafe { sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) };
        String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_string()
    }

    fn machine_code(&self) -> Result<Vec<u8>> {
        let mut size = 0;
        // SAFETY: writes one integer.
        let result = unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut size) };
        if result != sys::nvrtcResult::NVRTC_SUCCESS || size == 0 {
            return Err(failure("reading the machine code's size", result));
        }
        let mut code = vec![0u8; size];
        // SAFETY: the buffer has the size that was just asked for.
        let result = unsafe { sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()) };
        match result {
            sys::nvrtcResult::NVRTC_SUCCESS => Ok(code),
            other => Err(failure("reading the machine code", other)),
        }
    }
}

fn c_string(text: &str, name: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::Compile { name: name.into(), log: "the text holds a zero byte".into() })
}

fn failure(doing: &str, result: sys::nvrtcResult) -> Error {
    Error::Data(warp_data::Error::Cuda { doing: doing.into(), reason: format!("{result:?}") })
}
