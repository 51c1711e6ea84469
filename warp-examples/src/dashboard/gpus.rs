//! How much of the machine's NVIDIA GPUs is in use, as their driver's management library (NVML) says.

use nvml_wrapper::Nvml;

/// One GPU at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuUse {
    /// Its number and name.
    pub name: String,
    /// Fraction of the last sampling interval in which a kernel ran, 0 to 1.
    pub busy: f64,
    /// Bytes in use, by all processes.
    pub used: u64,
    /// Bytes that there are.
    pub total: u64,
}

impl GpuUse {
    /// In a line.
    #[must_use]
    pub fn line(&self) -> String {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let Self { name, busy, used, total } = self;
        let (used, total) = (gigabytes(*used), gigabytes(*total));
        format!("{name}: busy {:.0} %, memory {used:.1} of {total:.0} GB", 100.0 * busy)
    }
}

/// Reads how much is in use.
#[derive(Debug)]
pub struct Gpus(Option<Nvml>);

impl Gpus {
    /// Looks for the library; without it there are no GPUs.
    #[must_use]
    pub fn find() -> Self {
        Self(Nvml::init().ok())
    }

    /// All GPUs of this machine, as they are now; none that can't be asked.
    #[must_use]
    pub fn now(&self) -> Vec<GpuUse> {
        let Some(nvml) = &self.0 else { return Vec::new() };
        let gpu = |index| {
            let device = nvml.device_by_index(index).ok()?;
            let memory = device.memory_info().ok()?;
            Some(GpuUse {
                name: format!("GPU {index}, {}", device.name().ok()?),
                busy: f64::from(device.utilization_rates().ok()?.gpu) / 100.0,
                used: memory.used,
                total: memory.total,
            })
        };
        (0..nvml.device_count().unwrap_or(0)).filter_map(gpu).collect()
    }
}
