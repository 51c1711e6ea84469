//! Numbers that are staged for a GPU that is at work.

use super::add;
use super::device::another;
use warp_core::DType;
use warp_data::cuda::{HostWord, Staging};
use warp_func::cuda::{Arg, Build, Device, DeviceArray, Function, Graph, Launch, Source};

/// A kernel that keeps its stream busy until the host has written a word, or has not for five seconds.
const HOLD: &str = "extern \"C\" __global__ void hold(unsigned long long word, unsigned int* seen) {\n\
    unsigned long long begin, now;\n\
    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(begin));\n\
    do {\n\
        *seen = *(volatile unsigned int*)word;\n\
        asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));\n\
    } while (*seen == 0u && now - begin < 5000000000ull);\n}\n";

/// Arrays that are filled and read by turns, and what keeps the GPU from it.
struct Turns {
    hold: Function,
    add: Function,
    word: HostWord,
    seen: DeviceArray,
    from: DeviceArray,
    to: [DeviceArray; 3],
}

impl Turns {
    fn new(n: usize) -> Self {
        let kernels = another();
        let function = |source: &Source, name: &str| {
            kernels.compile(source, Build::Parity).unwrap().function(name).unwrap()
        };
        let device = kernels.device();
        let array = || DeviceArray::zeros(device, "a", DType::F32, &[n]).unwrap();
        Self {
            hold: function(&Source::new("hold.cu", HOLD), "hold"),
            add: function(&add("0.5f"), "add"),
            word: HostWord::new(device).unwrap(),
            seen: DeviceArray::zeros(device, "seen", DType::U32, &[1]).unwrap(),
            from: array(),
            to: [array(), array(), array()],
        }
    }

    fn device(&self) -> &Device {
        self.from.device()
    }

    /// Fills the one array for each of the others from it, and only then lets the GPU begin; returns whether it had to wait
    /// for that, and not the host for the GPU.
    fn take(&self, staging: &mut Staging, first: f32) -> bool {
        let (n, launch) = (self.from.len(), Launch::over(self.from.len(), 32));
        self.device().synchronize().unwrap();
        self.word.set(0);
        let args = [Arg::U64(self.word.address()), Arg::array(&self.seen, 1)];
        self.hold.launch(&Launch::over(1, 1), &args).unwrap();
        for (i, to) in self.to.iter().enumerate() {
            staging.push(&self.from, &vec![first + i as f32; n]).unwrap();
            let args =
                [Arg::array(&self.from, n), Arg::array(to, n), Arg::U32(n as u32), Arg::I32(1)];
            self.add.launch(&launch, &args).unwrap();
        }
        self.word.set(1);
        for (i, to) in self.to.iter().enumerate() {
            assert_eq!(to.pull::<f32>().unwrap(), vec![first + i as f32 + 0.5; n]);
        }
        self.seen.pull::<u32>().unwrap() == [1]
    }
}

/// Both what is small enough for the driver to send it with its commands, and what is not.
pub(crate) fn in_order() {
    for n in [100, 1 << 20] {
        let (turns, mut staging) = (Turns::new(n), Staging::default());
        // Memory is pinned and kernels are loaded, which may wait.
        turns.take(&mut staging, 1.0);
        assert!(turns.take(&mut staging, 10.0), "the host waited for the GPU with {n} numbers");
        // An idle GPU needs no staging.
        turns.device().synchronize().unwrap();
        staging.push(&turns.from, &vec![7.0f32; n]).unwrap();
        assert_eq!(turns.from.pull::<f32>().unwrap(), vec![7.0; n]);
    }
}

/// What an array refuses, it refuses staged, and so does a stream that records.
pub(crate) fn refused() {
    let kernels = another();
    let a = DeviceArray::from_slice(kernels.device(), "a", &[2], &[1.0f32, 2.0]).unwrap();
    let mut staging = Staging::default();
    for wrong in [staging.push(&a, &[1.0f32]), staging.push(&a, &[1u32, 2])] {
        assert!(wrong.unwrap_err().to_string().starts_with("array \"a\" of shape [2] "));
    }
    let refused = Graph::capture(kernels.device(), || staging.push(&a, &[3.0f32, 4.0]));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("copying array \"a\" to the GPU"), "{refused}");
    assert_eq!(a.pull::<f32>().unwrap(), [1.0, 2.0]);
}
