//! `warp train -v`: where the time goes from the beginning of the command to the end of its first iteration.

use crate::commands::device::{Device, KernelWaits};
use crate::output::tell;
use std::sync::Arc;
use std::time::Instant;
use warp_train::callback::Flow;
use warp_train::metrics::IterationMetrics;
use warp_train::{Callback, Result, Trainer};

/// A part of a start, which begins where the one before it ends.
#[derive(Debug)]
struct Part {
    name: &'static str,
    seconds: f64,
    /// How much of it was waiting for kernels.
    kernels: KernelWaits,
}

/// Separates the parts of a start, which add up to the whole.
#[derive(Debug)]
pub(super) struct StartClock {
    part_began: Instant,
    kernels_before: KernelWaits,
    parts: Vec<Part>,
    device: Device,
}

impl StartClock {
    /// At the beginning of a command.
    pub(super) fn begin() -> Self {
        Self {
            part_began: Instant::now(),
            kernels_before: KernelWaits::default(),
            parts: Vec::new(),
            device: Device::Cpu,
        }
    }

    /// From now on, waiting is for kernels of `device`.
    pub(super) fn watch(&mut self, device: &Device) {
        self.device = device.clone();
    }

    /// Everything since the last part becomes the part `name`.
    pub(super) fn part(&mut self, name: &'static str) {
        let (now, after) = (Instant::now(), self.device.kernel_waits());
        let before = std::mem::replace(&mut self.kernels_before, after);
        let began = std::mem::replace(&mut self.part_began, now);
        let kernels = KernelWaits {
            machine_code: after.machine_code - before.machine_code,
            loading: after.loading - before.loading,
        };
        self.parts.push(Part { name, seconds: (now - began).as_secs_f64(), kernels });
    }

    /// The report of the start, which is over once the first iterations are done.
    pub(super) fn end(self) -> StartReport {
        StartReport { clock: Some(self) }
    }
}

/// Reports the start-up time after the first iterations, and does nothing else.
pub(super) struct StartReport {
    clock: Option<StartClock>,
}

impl Callback for StartReport {
    fn iteration(&mut self, _trainer: &Trainer, _done: &Arc<[IterationMetrics]>) -> Result<Flow> {
        if let Some(mut clock) = self.clock.take() {
            clock.part("first iteration");
            tell(&line(&clock.parts));
        }
        Ok(Flow::Continue(()))
    }
}

/// All parts in one line.
fn line(parts: &[Part]) -> String {
    let total: f64 = parts.iter().map(|part| part.seconds).sum();
    let parts: Vec<String> = parts.iter().map(described).collect();
    format!("start: {total:.3} s: {}", parts.join(", "))
}

fn described(part: &Part) -> String {
    let Part { name, seconds, kernels: KernelWaits { machine_code, loading } } = part;
    match machine_code + loading > 0.0 {
        true => {
            format!("{name} {seconds:.3} (machine code {machine_code:.3}, loading {loading:.3})")
        }
        false => format!("{name} {seconds:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_say_what_was_waiting() {
        let part = |name, seconds, machine_code, loading| Part {
            name,
            seconds,
            kernels: KernelWaits { machine_code, loading },
        };
        let parts = [part("device", 0.25, 0.0, 0.0), part("learner", 0.5, 0.125, 0.0625)];
        let wanted =
            "start: 0.750 s: device 0.250, learner 0.500 (machine code 0.125, loading 0.062)";
        assert_eq!(line(&parts), wanted);
    }
}
