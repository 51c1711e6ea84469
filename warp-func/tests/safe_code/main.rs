//! What code without `unsafe` may try: states written by hand instead of by `state!`, and stores
//! exchanged behind an executor. It meets a panic or nothing at all, and never memory of others.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

#[cfg(feature = "replicas")]
mod replicas;
#[path = "../worlds/mod.rs"]
mod worlds;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use warp_core::{
    Actions, DType, Draw, Env, EnvSpec, Field, FieldSource, LimitEnds, Observation, Record, Result,
    Space, State, StepOut, TimeLimit,
};
use warp_func::{CpuVecEnv, ThreadPool, VecEnv, VecOptions};
use worlds::crowd::{Crowd, CrowdConfig};
use worlds::{act, make};

/// What a state that is written by hand does.
const ASKS_TOO_OFTEN: u8 = 0;
const ASKS_FOR_ANOTHER_TYPE: u8 = 1;
const SAYS_VALUE_AND_TAKES_ROWS: u8 = 2;
const WRITES_WHEN_DROPPED: u8 = 3;
const PANICS_WITH_A_BOMB: u8 = 4;

/// Two rows, both of two elements.
struct ByHand<const TRICK: u8>;

struct Rows<'a> {
    x: &'a mut [f32],
    _others: Option<&'a mut [f32]>,
    trick: u8,
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        if self.trick == WRITES_WHEN_DROPPED {
            self.x[0] += 100.0;
        }
    }
}

impl<const TRICK: u8> Record for ByHand<TRICK> {
    const NAME: &'static str = "ByHand";
    const FIELDS: &'static [Field] = &[
        Field { name: "x", dtype: DType::F32, dims: &["n"] },
        Field { name: "y", dtype: DType::I32, dims: &["n"] },
    ];
}

impl<const TRICK: u8> State for ByHand<TRICK> {
    const SCALARS: bool = TRICK == SAYS_VALUE_AND_TAKES_ROWS;
    type View<'a> = Rows<'a>;

    fn view<'a>(source: &mut impl FieldSource<'a>) -> Rows<'a> {
        let x = source.row();
        let others = match TRICK {
            ASKS_TOO_OFTEN => {
                source.row::<i32>();
                Some(source.row())
            }
            ASKS_FOR_ANOTHER_TYPE => Some(source.row()),
            _ => None,
        };
        Rows { x, _others: others, trick: TRICK }
    }

    fn save(_: &Rows<'_>, mut put: impl FnMut(usize, u32)) {
        put(0, f32::NAN.to_bits());
    }
}

warp_core::config! {
    /// Nothing to choose.
    struct NoConfig {
        /// Not used.
        n: u32 = 2,
    }
}
warp_core::params! {
    /// What all replicas share.
    struct NoParams { n: u32 }
}

struct Tricky<const TRICK: u8>(NoParams);

impl<const TRICK: u8> Env for Tricky<TRICK> {
    const NAME: &'static str = "tricky";
    type Config = NoConfig;
    type Params = NoParams;
    type State = ByHand<TRICK>;

    fn new(config: &NoConfig) -> Result<Self> {
        Ok(Self(NoParams { n: config.n }))
    }
    fn spec(&self) -> EnvSpec {
        let limit = TimeLimit { steps: 9, ends: LimitEnds::Truncated };
        let (observation, action) = (Space::unbounded(1), Space::Discrete { n: 2 });
        EnvSpec::one_agent(Self::NAME, "agent", observation, action, limit)
    }
    fn params(&self) -> &NoParams {
        &self.0
    }
    fn dims(&self) -> Vec<(&'static str, usize)> {
        vec![("n", self.0.n as usize)]
    }
    fn reset(&self, state: &mut Rows<'_>, _: &mut Draw) {
        state.x.fill(0.0);
    }
    fn observe(&self, state: &Rows<'_>, out: &mut Observation<'_>) {
        out.obs[0][0] = state.x[0];
    }
    fn step(&self, state: &mut Rows<'_>, _: &Actions<'_>, _: &mut Draw, _: &mut StepOut<'_>) {
        if TRICK == PANICS_WITH_A_BOMB {
            std::panic::panic_any(Bomb);
        }
        state.x[0] = 1.0;
    }
}

/// What not even the payload of a panic may be: it panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("not even the payload can be dropped");
    }
}

fn tricky<const TRICK: u8>() -> CpuVecEnv<Tricky<TRICK>> {
    make(&NoConfig::default(), 3, 1)
}

/// What the executor panics with when it first meets the state.
fn refused<const TRICK: u8>() -> String {
    let payload = catch_unwind(|| drop(tricky::<TRICK>())).unwrap_err();
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[test]
fn a_view_gets_each_field_once_and_as_what_it_is() {
    let more = refused::<ASKS_TOO_OFTEN>();
    assert!(more.contains("a view has no more fields than its state"), "{more}");
    let other = refused::<ASKS_FOR_ANOTHER_TYPE>();
    assert!(other.contains("a view has the types of its state"), "{other}");
    let rows = refused::<SAYS_VALUE_AND_TAKES_ROWS>();
    assert!(rows.contains("a state of scalars is built from bits"), "{rows}");
}

#[test]
fn a_view_is_gone_before_the_next_one_is_made_and_rows_are_not_saved() {
    let mut envs = tricky::<WRITES_WHEN_DROPPED>();
    envs.step().unwrap();
    // 1 by the step, 100 when its view was dropped; then seen, and 100 more.
    let (obs, x) = (envs.ids().obs[0], envs.ids().state[0]);
    assert_eq!(envs.store().slice::<f32>(obs), [101.0; 3]);
    assert_eq!(envs.store().slice::<f32>(x), [201.0, 0.0, 201.0, 0.0, 201.0, 0.0]);
}

/// A state of one byte, though a view of bits reads words.
struct Narrow;

impl Record for Narrow {
    const NAME: &'static str = "Narrow";
    const FIELDS: &'static [Field] = &[Field { name: "x", dtype: DType::U8, dims: &[] }];
}

impl State for Narrow {
    const SCALARS: bool = true;
    type View<'a> = u32;

    fn view<'a>(source: &mut impl FieldSource<'a>) -> u32 {
        source.bits()
    }

    fn save(x: &u32, mut put: impl FnMut(usize, u32)) {
        put(0, *x);
    }
}

struct OfBytes(Tricky<WRITES_WHEN_DROPPED>);

impl Env for OfBytes {
    const NAME: &'static str = "of_bytes";
    type Config = NoConfig;
    type Params = NoParams;
    type State = Narrow;

    fn new(config: &NoConfig) -> Result<Self> {
        Ok(Self(Tricky::new(config)?))
    }
    fn spec(&self) -> EnvSpec {
        self.0.spec()
    }
    fn params(&self) -> &NoParams {
        self.0.params()
    }
    fn reset(&self, state: &mut u32, _: &mut Draw) {
        *state = 1;
    }
    fn observe(&self, state: &u32, out: &mut Observation<'_>) {
        out.obs[0][0] = *state as f32;
    }
    fn step(&self, state: &mut u32, _: &Actions<'_>, _: &mut Draw, _: &mut StepOut<'_>) {
        *state += 1;
    }
}

#[test]
fn a_state_of_bytes_is_refused() {
    let env = OfBytes::new(&NoConfig::default()).unwrap();
    let envs = CpuVecEnv::new(env, VecOptions { n_envs: 100_000, ..VecOptions::default() });
    let said = envs.map(drop).unwrap_err().to_string();
    assert!(said.contains("\"x\" is u8: a state has f32, i32 and u32"), "{said}");
}

#[test]
fn an_executor_keeps_its_store() {
    let config = CrowdConfig::default();
    let (mut one, mut two) = (make::<Crowd>(&config, 70, 2), make::<Crowd>(&config, 70, 2));
    let (mut of_one, mut of_two) = (one.store_mut(), two.store_mut());
    std::mem::swap(&mut of_one, &mut of_two);
    let untouched = two.store();
    let length = two.ids().episode_length;
    let before: &[u32] = untouched.slice(length);
    act(&mut one, 0);
    one.step().unwrap();
    assert_eq!(before, [0; 70]);
    assert_eq!(one.store().slice::<u32>(length), [1; 70]);
}

#[test]
fn work_of_a_thread_pool_is_over_when_its_panic_is_seen() {
    let mut thread_pool = ThreadPool::new(3);
    let (begun, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let blown = catch_unwind(AssertUnwindSafe(|| {
        thread_pool.run(8, &|_| {
            if begun.fetch_add(1, Relaxed).is_multiple_of(2) {
                std::panic::panic_any(Bomb);
            }
            std::thread::sleep(Duration::from_millis(30));
            finished.fetch_add(1, Relaxed);
        });
    }));
    assert_eq!(finished.into_inner(), begun.into_inner() / 2);
    assert_eq!(blown.unwrap_err().downcast_ref::<&str>(), Some(&"a task panicked"));
    // And it is over: the next round is one like any other.
    let done = AtomicUsize::new(0);
    thread_pool.run(8, &|_| {
        done.fetch_add(1, Relaxed);
    });
    assert_eq!(done.into_inner(), 8);
}
