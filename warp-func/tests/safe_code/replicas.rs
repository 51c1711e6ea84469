//! The same of replicas that each go their own way.

use super::{NoConfig, OfBytes, PANICS_WITH_A_BOMB, Tricky, WRITES_WHEN_DROPPED};
use warp_core::Env;
use warp_core::single::GroupAction;
use warp_func::{Orders, ReplicaOptions, ReplicaQueue, Replicas};

/// One replica or more, each a state written by hand.
fn replicas<const TRICK: u8>(n: u64) -> Replicas {
    let env = Tricky::<TRICK>::new(&NoConfig::default()).unwrap();
    let options = ReplicaOptions { threads: 2, ..ReplicaOptions::new((0..n).collect()) };
    Replicas::new(env, options).unwrap()
}

/// A step of the first `n` replicas.
fn orders(n: u32) -> Orders {
    let actions = vec![GroupAction::Discrete(vec![0; n as usize])];
    Orders { ids: (0..n).collect(), actions }
}

#[test]
fn replicas_make_one_view_at_a_time() {
    let mut replicas = replicas::<WRITES_WHEN_DROPPED>(1);
    let mut batch = replicas.new_batch(1).unwrap();
    replicas.step(&mut orders(1), &mut batch).unwrap();
    let x = |replicas: &Replicas| replicas.store().get::<f32>("x").unwrap()[0];
    // 0 by the reset, 100 when its view was dropped; then seen, and 100 more.
    assert_eq!(batch.store().get::<f32>("obs.agent").unwrap(), [100.0]);
    assert_eq!(x(&replicas), 200.0);
    replicas.check_state(&[0]).unwrap();
    assert_eq!(x(&replicas), 400.0);
}

#[test]
fn replicas_of_a_queue_are_not_exchanged() {
    let mut queue = ReplicaQueue::new(replicas::<WRITES_WHEN_DROPPED>(3)).unwrap();
    let mut others = replicas::<WRITES_WHEN_DROPPED>(3);
    std::mem::swap(queue.replicas_mut().unwrap(), &mut others);
    let refused = queue.send(orders(3)).unwrap_err().to_string();
    assert!(refused.contains("they may be changed, but not exchanged"), "{refused}");
    std::mem::swap(queue.replicas_mut().unwrap(), &mut others);
    queue.send(orders(3)).unwrap();
    let mut batch = queue.new_batch(3).unwrap();
    queue.recv(3, &mut batch).unwrap();
}

#[test]
fn who_receives_hears_of_a_panic_whatever_its_payload_does() {
    let mut queue = ReplicaQueue::new(replicas::<PANICS_WITH_A_BOMB>(2)).unwrap();
    let mut batch = queue.new_batch(2).unwrap();
    // The first one begins the episodes.
    queue.send(orders(2)).unwrap();
    queue.recv(2, &mut batch).unwrap();
    queue.send(orders(2)).unwrap();
    // The owner helps, and what panics on its own thread is caught as well.
    assert!(queue.recv(2, &mut batch).is_err());
}

#[test]
fn a_state_of_bytes_is_refused() {
    let env = OfBytes::new(&NoConfig::default()).unwrap();
    let said = Replicas::new(env, ReplicaOptions::new(vec![0])).unwrap_err().to_string();
    assert!(said.contains("\"x\" is u8: a state has f32, i32 and u32"), "{said}");
}
