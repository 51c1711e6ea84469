//! Plans of replays, without naming an environment: which numbers are loaded, which actions
//! are given, what is compared with what and how closely. Adapters write it, `drive` carries it out.

use anyhow::{Result, ensure};
use warp_core::DType;
use warp_data::{ArrayId, Store};
use warp_envs::numpy::Recorded;

/// Everything there is to do for one case.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Recorded transitions.
    pub(super) transitions: usize,
    /// Steps since the episode began, before each transition.
    pub(super) timesteps: Vec<u32>,
    /// What is loaded before a transition; row `t` belongs to transition `t`.
    pub(super) loads: Vec<Track>,
    /// What the agents do; row `t` belongs to transition `t`.
    pub(super) actions: Vec<Track>,
    /// What is compared.
    pub(super) checks: Vec<Check>,
    /// Transitions that are followed from row 0 without loading; 0: none.
    pub(super) free_transitions: usize,
    /// Arrays that do not change: what they hold, and what follows from the configuration.
    pub(super) constants: Vec<Constant>,
    /// Recorded arrays that were put to use otherwise.
    pub(super) used: Vec<String>,
}

/// Recorded numbers in the order of an array of the store.
#[derive(Debug, Clone)]
pub(super) struct Track {
    /// The array of the store.
    pub(super) array: ArrayId,
    /// Elements per replica.
    pub(super) row_len: usize,
    /// The numbers, `[rows, row_len]`.
    pub(super) data: Vec<f64>,
    /// Where each element of a row stands in the recording.
    pub(super) origin: Vec<Origin>,
}

/// Where an element stands in a row of a recorded array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    /// Its place in the row.
    pub(super) flat: usize,
    /// The agent, by its number in the recording.
    pub(super) agent: usize,
    /// The element among those of its agent.
    pub(super) element: usize,
}

/// One comparison.
pub(super) struct Check {
    /// The name of the recorded array.
    pub(super) name: String,
    /// What is expected.
    pub(super) track: Track,
    /// What it is compared with.
    pub(super) seen: Seen,
    /// The row that belongs to what a transition `t` leads to is `t + after`.
    pub(super) after: usize,
    /// Whether row `t` must also be seen when the state before transition `t` is loaded.
    pub(super) observed: bool,
    /// How close one step must come.
    pub(super) teacher: Tolerance,
    /// How close it must stay when it runs free; `None`: not compared.
    pub(super) free: Option<Tolerance>,
    /// Whether small errors in it grow so fast that a free run is compared only as long as its twins stay
    /// together; see `twins`.
    pub(super) grows: bool,
    /// How each element is compared.
    pub(super) rule: Rule,
    /// Elements of an agent that have another bound after one step, and that bound.
    pub(super) loose: (&'static [usize], f64),
}

impl Check {
    /// A comparison of an array of the store with what each transition leads to, in every element.
    pub(super) fn new(
        name: &str,
        track: Track,
        teacher: Tolerance,
        free: Option<Tolerance>,
    ) -> Self {
        Check {
            name: name.into(),
            track,
            seen: Seen::Store,
            after: 0,
            observed: false,
            teacher,
            free,
            grows: false,
            rule: Box::new(|_| Treatment::Plain),
            loose: (&[], 0.0),
        }
    }
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a recorded array is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The array of its track.
    Store,
    /// `terminated | truncated`.
    Done,
}

/// A recorded array that does not change over the steps.
#[derive(Debug)]
pub(super) struct Constant {
    /// The name of the recorded array.
    pub(super) name: String,
    /// What it holds.
    pub(super) recorded: Vec<f64>,
    /// What follows from the configuration.
    pub(super) expected: Vec<f64>,
    /// How close they must be.
    pub(super) tolerance: Tolerance,
}

/// How large a difference may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerance {
    /// The largest difference that passes.
    pub(super) bound: f64,
    /// Whether differences are divided by the expected value where that is larger than 1.
    pub(super) relative: bool,
}

impl Tolerance {
    /// No difference at all.
    pub(super) const EXACT: Tolerance = Tolerance::within(0.0);

    /// Differences up to `bound`.
    pub(super) const fn within(bound: f64) -> Tolerance {
        Tolerance { bound, relative: false }
    }

    /// Differences up to `bound * max(1, |expected|)`.
    pub(super) const fn scaled(bound: f64) -> Tolerance {
        Tolerance { bound, relative: true }
    }
}

/// An element that is about to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The row of the recorded array.
    pub(super) row: usize,
    /// The agent, by its number in the recording.
    pub(super) agent: usize,
    /// The element among those of its agent.
    pub(super) element: usize,
}

/// How one element is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Treatment {
    /// By its difference.
    Plain,
    /// By its difference modulo this period.
    Modulo(f64),
    /// By its difference, which may also be this much more or less.
    Offset(f64),
    /// By its difference, divided by this.
    PerUnit(f64),
    /// Not, because the recording says that it cannot be relied on.
    Skip,
}

/// How the elements of an array are compared.
pub(super) type Rule = Box<dyn Fn(Place) -> Treatment>;

impl Track {
    /// The elements `origin` of every row of `recorded`, for `array` of `store`.
    pub(super) fn gather(
        name: &str,
        recorded: &Recorded,
        store: &Store,
        array: ArrayId,
        origin: Vec<Origin>,
    ) -> Result<Track> {
        let (held, row_len) = (store.array(array), recorded.row_len());
        let whole = held.dtype() != DType::F32;
        ensure!(
            !(whole && recorded.dtype.is_float()),
            "array \"{name}\" holds {}, but \"{}\" takes {}",
            recorded.dtype,
            held.name(),
            held.dtype()
        );
        let row = |row: &[f64]| origin.iter().map(|o| row[o.flat]).collect::<Vec<_>>();
        let data = recorded.data.chunks(row_len.max(1)).flat_map(row).collect();
        Ok(Track { array, row_len: origin.len(), data, origin })
    }

    /// One number per row for every element of `array`.
    pub(super) fn constant(
        store: &Store,
        array: ArrayId,
        rows: impl Iterator<Item = f64>,
    ) -> Track {
        let row_len = store.array(array).row_len();
        let data = rows.flat_map(|value| std::iter::repeat_n(value, row_len)).collect();
        let origin = (0..row_len).map(|flat| Origin { flat, agent: 0, element: flat }).collect();
        Track { array, row_len, data, origin }
    }

    /// The numbers of one row.
    pub(super) fn row(&self, row: usize) -> &[f64] {
        self.data.get(row * self.row_len..(row + 1) * self.row_len).unwrap_or(&[])
    }
}
