//! The kernel registry: turns source code into loaded functions, and compiles each source once.
#![expect(unsafe_code, reason = "loads machine code into the driver")]

use super::compiler::{self, Build, Source};
use super::launch::Function;
use super::{cache, signature};
use crate::error::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ScopedJoinHandle};
use std::time::Instant;
use warp_data::cuda::Device;
use warp_data::cuda::cudarc::driver::{DriverError, result, sys};

/// Compiled modules of one device; cloning it clones the handle.
#[derive(Debug, Clone)]
pub struct Kernels {
    device: Device,
    loaded: Arc<Mutex<HashMap<String, Module>>>,
    begun: Arc<Begun>,
    seconds: Seconds,
}

/// What kernels have cost those who asked for them, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KernelSeconds {
    /// Waiting for machine code that had to be compiled.
    pub compiling: f64,
    /// Waiting for machine code, compiled or from the cache.
    pub waiting: f64,
    /// Loading it into the driver, and finding its functions.
    pub loading: f64,
}

/// [`KernelSeconds`] that a registry and its modules add to.
#[derive(Debug, Clone, Default)]
struct Seconds(Arc<Mutex<KernelSeconds>>);

impl Seconds {
    fn now(&self) -> MutexGuard<'_, KernelSeconds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Machine code, and the seconds that the compiler took for it.
type Compiled = Result<(Vec<u8>, f64)>;

/// Units that threads compile before anybody asks for them, by the names of their entries in the cache.
#[derive(Debug, Default)]
struct Begun(Mutex<HashMap<String, JoinHandle<Compiled>>>);

impl Begun {
    fn units(&self) -> MutexGuard<'_, HashMap<String, JoinHandle<Compiled>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // The compiler is not to be at work while the process takes it down.
        for (_, thread) in self.units().drain() {
            let _ = thread.join();
        }
    }
}

/// Machine code that is loaded, for launches on a stream of its GPU; cloning it clones the handle.
#[derive(Debug, Clone)]
pub struct Module {
    loaded: Arc<Loaded>,
    device: Device,
}

#[derive(Debug)]
struct Loaded {
    /// Streams of one GPU on which its kernels are launched.
    devices: Mutex<Vec<Device>>,
    handle: sys::CUmodule,
    name: String,
    text: String,
    seconds: Seconds,
}

// SAFETY: a module handle may be used from any thread that has made its context current, which every
// use here does.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        let devices = self.devices.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Its kernels may still run; nothing can be done about an error here.
        devices.iter().for_each(|device| drop(device.synchronize()));
        if devices.first().is_some_and(|device| device.bind().is_ok()) {
            // SAFETY: loaded once by `Kernels::load`; every function of it holds this module.
            let _ = unsafe { result::module::unload(self.handle) };
        }
    }
}

impl Module {
    /// The same machine code, launched on the stream of `device`, which is the same GPU.
    fn on(&self, device: &Device) -> Self {
        let mut devices = self.loaded.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if !devices.iter().any(|known| Arc::ptr_eq(known.stream(), device.stream())) {
            devices.push(device.clone());
        }
        Self { loaded: Arc::clone(&self.loaded), device: device.clone() }
    }

    /// The GPU, with the stream of launches.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}

impl Kernels {
    /// No kernels yet.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        let (loaded, begun) = (Arc::default(), Arc::default());
        Self { device: device.clone(), loaded, begun, seconds: Seconds::default() }
    }

    /// These kernels on another stream of their GPU; none is loaded twice.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn on_other_stream(&self) -> Result<Self> {
        Ok(Self { device: Device::open(self.device.info().ordinal)?, ..self.clone() })
    }

    /// The device that they run on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Seconds spent waiting for the compiler so far; 0 if everything came from the cache.
    #[must_use]
    pub fn compile_seconds(&self) -> f64 {
        self.seconds().compiling
    }

    /// What kernels have cost so far.
    #[must_use]
    pub fn seconds(&self) -> KernelSeconds {
        *self.seconds.now()
    }

    /// The module of `source`: from this registry, from the cache on disk, or compiled now.
    ///
    /// # Errors
    /// No NVRTC, code that does not compile, or machine code that the driver refuses.
    pub fn compile(&self, source: &Source, build: Build) -> Result<Module> {
        self.compile_all(&[(source, build)]).map(|mut modules| modules.remove(0))
    }

    /// Begins to compile `units`, each by a thread of its own, and returns at once; whoever asks for one later waits
    /// for that thread, and hears what went wrong.
    pub fn begin(&self, units: Vec<(Source, Build)>) {
        let arch = compiler::architecture(self.device.info().capability);
        for (source, build) in units {
            let Ok(key) = cache::key(&source, build, &arch) else { continue };
            let arch = arch.clone();
            let compile = move || cache::machine_code(&source, build, &arch);
            self.begun.units().entry(key).or_insert_with(|| std::thread::spawn(compile));
        }
    }

    /// Units that were begun and that nobody has asked for.
    #[must_use]
    pub fn n_begun(&self) -> usize {
        self.begun.units().len()
    }

    /// Units that are loaded.
    #[must_use]
    pub fn n_loaded(&self) -> usize {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The modules of `units`, in their order; those that have to be compiled are so side by side.
    ///
    /// # Errors
    /// As [`Kernels::compile`], of the first one that fails.
    pub fn compile_all(&self, units: &[(&Source, Build)]) -> Result<Vec<Module>> {
        let started = Instant::now();
        let arch = &compiler::architecture(self.device.info().capability);
        let key = |(source, build): &(&Source, Build)| cache::key(source, *build, arch);
        let keys = units.iter().map(key).collect::<Result<Vec<_>>>()?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut known, mut missing) = (HashSet::new(), Vec::new());
        for (key, (source, build)) in keys.iter().zip(units) {
            if !loaded.contains_key(key) && known.insert(key) {
                missing.push((key, *source, *build));
            }
        }
        let codes = self.machine_code(&missing, arch);
        let waited = started.elapsed().as_secs_f64();
        self.seconds.now().waiting += waited;
        let mut compiled = false;
        for ((key, source, _), code) in missing.into_iter().zip(codes) {
            let (code, seconds) = code.unwrap_or_else(|panic| resume_unwind(panic))?;
            compiled |= seconds > 0.0;
            loaded.insert(key.clone(), self.load(source, &code)?);
        }
        if compiled {
            self.seconds.now().compiling += waited;
        }
        Ok(keys.iter().map(|key| loaded[key].on(&self.device)).collect())
    }

    /// The machine code of `units`, from threads that have begun with it or from new ones.
    fn machine_code(
        &self,
        units: &[(&String, &Source, Build)],
        arch: &str,
    ) -> Vec<std::thread::Result<Compiled>> {
        let begun: Vec<_> = units.iter().map(|(key, ..)| self.begun.units().remove(*key)).collect();
        std::thread::scope(|scope| {
            let compiling = |(&(_, source, build), begun): (&_, Option<_>)| match begun {
                Some(thread) => Err(thread),
                None => Ok(scope.spawn(move || cache::machine_code(source, build, arch))),
            };
            // All have begun before one is waited for.
            let compiling: Vec<_> = units.iter().zip(begun).map(compiling).collect();
            let join = |thread: std::result::Result<ScopedJoinHandle<'_, _>, JoinHandle<_>>| {
                thread.map_or_else(JoinHandle::join, ScopedJoinHandle::join)
            };
            compiling.into_iter().map(join).collect()
        })
    }

    fn load(&self, source: &Source, code: &[u8]) -> Result<Module> {
        let started = Instant::now();
        self.device.bind()?;
        // SAFETY: the image is machine code that NVRTC made, whole, as its digest says.
        let handle = unsafe { result::module::load_data(code.as_ptr().cast()) }
            .map_err(|e| cuda(&format!("loading the machine code of {}", source.name), e))?;
        let headers = source.headers.iter().map(|(_, text)| text.as_str());
        let text = headers.chain([source.text.as_str()]).collect::<Vec<_>>().join("\n");
        let (devices, name) = (Mutex::new(vec![self.device.clone()]), source.name.clone());
        let seconds = self.seconds.clone();
        seconds.now().loading += started.elapsed().as_secs_f64();
        let loaded = Arc::new(Loaded { devices, handle, name, text, seconds });
        Ok(Module { loaded, device: self.device.clone() })
    }
}

impl Module {
    /// The kernel called `name`.
    ///
    /// # Errors
    /// No such kernel.
    pub fn function(&self, name: &str) -> Result<Function> {
        let started = Instant::now();
        let missing = || Error::Launch {
            kernel: name.into(),
            reason: format!("{} defines no such kernel", self.loaded.name),
        };
        let parameters = signature::parse(&self.loaded.text, name).ok_or_else(missing)?;
        self.device.bind()?;
        let c_name = CString::new(name).map_err(|_| missing())?;
        // SAFETY: the module is loaded as long as `self.loaded` lives.
        let handle = unsafe { result::module::get_function(self.loaded.handle, c_name) }
            .map_err(|_| missing())?;
        let sizes = (0..parameters.len())
            .map(|i| parameter_size(handle, i))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|e| cuda(&format!("asking for the parameters of {name}"), e))?;
        // Now, not with its first launch, which would be while another GPU waits for this one.
        // SAFETY: the function is the module's.
        unsafe { sys::cuFuncLoad(handle) }
            .result()
            .map_err(|e| cuda(&format!("loading {name}"), e))?;
        self.loaded.seconds.now().loading += started.elapsed().as_secs_f64();
        Ok(Function {
            name: name.into(),
            parameters: parameters.into(),
            sizes: sizes.into(),
            handle,
            module: self.clone(),
        })
    }
}

/// Bytes of parameter `index`.
fn parameter_size(
    function: sys::CUfunction,
    index: usize,
) -> std::result::Result<usize, DriverError> {
    let (mut offset, mut size) = (0, 0);
    // SAFETY: the function is loaded, and the call writes two integers.
    unsafe {
        sys::cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut size).result()?;
    }
    Ok(size)
}

fn cuda(doing: &str, error: DriverError) -> Error {
    Error::Data(warp_data::Error::Cuda { doing: doing.into(), reason: error.to_string() })
}
