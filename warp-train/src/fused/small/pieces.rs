//! The small learner on ranks that NCCL connects: an update in pieces, a kernel per minibatch, between which gradients
//! are gathered. Host side of `pieces.cuh`.
//!
//! All but the first piece are recorded in the first iteration and replayed in the others: started one by one, each
//! kernel and each gather would begin later after the one before.

use super::shared::{PieceArgs, SmallRun, UpdateArgs};
use crate::engine::collectives::{Gathered, NcclRank, RankConnector};
use crate::error::Result;
use warp_core::DType::{F32, U32};
use warp_func::cuda::{DeviceArray, DeviceStruct, Function, Graph, KernelArgs, Launch, Module};

/// What the pieces leave for each other, and the way to the other ranks.
#[derive(Debug)]
pub(super) struct Pieces {
    /// All but the first piece, once they have been recorded.
    recorded: Option<Graph>,
    nccl: NcclRank,
    kernel: Function,
    /// Minibatches of an iteration.
    updates: usize,
    /// Where in the run the iteration at hand is.
    place: DeviceArray,
    /// Sums for the moments of advantages of this rank, f64, and of all ranks; none where they are not normalised.
    moments: Option<[DeviceArray; 2]>,
    /// This rank's gradient, before it is divided by the number of samples, and those of all ranks.
    gradient: DeviceArray,
    gradients: DeviceArray,
    /// Every thread's sums of losses.
    losses: DeviceArray,
    norms: DeviceArray,
}

/// How large a policy is, and how its update is launched.
pub(super) struct Of<'a> {
    pub(super) module: &'a Module,
    pub(super) launch: Launch,
    pub(super) updates: usize,
    /// Numbers of a gradient, those between its networks' included.
    pub(super) own: usize,
    /// Sums for the moments of advantages; 0 where they are not normalised.
    pub(super) moments: usize,
}

impl Pieces {
    /// Joins the other ranks, which are all to call it.
    ///
    /// # Errors
    /// No NCCL, ranks out of reach, or too little memory.
    pub(super) fn new(connector: &RankConnector, of: &Of<'_>) -> Result<Self> {
        let (gpu, world) = (connector.device(), connector.world());
        let &Of { module, launch, updates, own, moments } = of;
        let make = |name: &str, dtype, n: usize| DeviceArray::zeros(gpu, name, dtype, &[n]);
        let pair = || -> Result<[DeviceArray; 2]> {
            let all = make("moments of ranks", U32, 2 * moments * world.size())?;
            Ok([make("moments of this rank", U32, 2 * moments)?, all])
        };
        Ok(Self {
            recorded: None,
            nccl: connector.join()?,
            kernel: module.function("small_piece")?,
            updates,
            place: make("place in the run", U32, SmallRun::WORDS)?,
            moments: (moments > 0).then(pair).transpose()?,
            gradient: make("gradient of this rank", F32, own)?,
            gradients: make("gradients of ranks", F32, own * world.size())?,
            losses: make("losses of threads", F32, 5 * (launch.blocks * launch.threads) as usize)?,
            norms: make("norms of minibatches", F32, 2)?,
        })
    }

    /// Starts an update; `args` differ from one to the next in where the run is.
    ///
    /// # Errors
    /// What the driver or NCCL refuses.
    pub(super) fn learn(&mut self, launch: &Launch, args: &UpdateArgs<'_>) -> Result<()> {
        self.nccl.check()?;
        self.piece(launch, args, -1)?;
        let mut recorded = match self.recorded.take() {
            Some(recorded) => recorded,
            None => Graph::capture(self.place.device(), || self.minibatches(launch, args))?,
        };
        recorded.launch()?;
        self.recorded = Some(recorded);
        Ok(())
    }

    /// Gathers moments, and takes the minibatches one after the other.
    fn minibatches(&self, launch: &Launch, args: &UpdateArgs<'_>) -> Result<()> {
        if let Some([own, all]) = &self.moments {
            self.nccl.gather(&[Gathered { own, all }])?;
        }
        for update in 0..self.updates {
            self.piece(launch, args, update as i32)?;
            let gradients = Gathered { own: &self.gradient, all: &self.gradients };
            self.nccl.gather(&[gradients])?;
        }
        self.piece(launch, args, self.updates as i32)
    }

    fn piece(&self, launch: &Launch, args: &UpdateArgs<'_>, update: i32) -> Result<()> {
        // Where there are no moments, nothing reads them.
        let [moments, all_moments] =
            self.moments.as_ref().map_or([&self.norms; 2], |moments| moments.each_ref());
        let piece = PieceArgs {
            update,
            place: &self.place,
            moments,
            all_moments,
            gradient: &self.gradient,
            gradients: &self.gradients,
            losses: &self.losses,
            norms: &self.norms,
        };
        Ok(self.kernel.launch(launch, &[args.arg(), piece.arg()])?)
    }

    /// Waits for the GPU, and for no rank that is gone.
    ///
    /// # Errors
    /// A rank that was waited for in vain.
    pub(super) fn wait(&self, iterations: u64) -> Result<()> {
        self.nccl.wait(iterations)
    }
}
