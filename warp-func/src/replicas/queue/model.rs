//! The board, tried by loom in every order of the threads' steps, under the memory model of Rust:
//! `cargo xtask loom`.

use super::board::{Board, Place, Turn};
use super::sync::Arc;
use loom::thread::spawn;

/// A job is its rows' numbers, and what comes of a row is its number and 10.
type Numbers = Board<Arc<Vec<u32>>, Vec<u32>>;

fn put(board: &Numbers, job: &[u32]) {
    let done: Vec<u32> = job.iter().map(|number| number + 10).collect();
    board.deliver(done.len(), |ring, Place { first, rows }| {
        let size = ring.len();
        (0..rows).for_each(|row| ring[(first + row) % size] = done[row]);
    });
}

fn take(board: &Numbers, rows: usize) -> Vec<u32> {
    let mut taken = Vec::new();
    loop {
        let turn = board.take(rows, |ring, Place { first, rows }| {
            let size = ring.len();
            taken.extend((0..rows).map(|row| ring[(first + row) % size]));
        });
        match turn {
            Turn::Taken => return taken,
            Turn::Help(piece) => put(board, &piece.job[piece.rows]),
            Turn::Broken => panic!("nothing has panicked"),
        }
    }
}

fn check(threads: usize, piece: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let board: Arc<Numbers> = Arc::new(Board::new(vec![0; 3], 3));
        let serve = |board: Arc<Numbers>| {
            spawn(move || {
                while let Some(piece) = board.next() {
                    put(&board, &piece.job[piece.rows]);
                }
            })
        };
        let workers: Vec<_> = (0..threads).map(|_| serve(Arc::clone(&board))).collect();
        board.post(Arc::new(vec![0, 1, 2]), 3, piece);
        // Two of three, whoever is first; these two again; then all that are left.
        let first = take(&board, 2);
        let again = first.iter().map(|number| number - 10).collect();
        board.post(Arc::new(again), 2, piece);
        let mut rest = take(&board, 2);
        rest.extend(take(&board, 1));
        let mut expected = vec![10, 11, 12];
        expected.extend(&first);
        let mut seen = [first, rest].concat();
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen, expected, "every row comes once for each time that it was sent");
        board.close();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn one_worker_and_its_owner_finish_every_row_in_every_order() {
    check(1, 1);
    check(1, 2);
}

#[test]
fn two_workers_and_their_owner_finish_every_row_in_every_order() {
    check(2, 1);
}

#[test]
fn an_owner_without_workers_does_it_all() {
    check(0, 2);
}

#[test]
fn nobody_waits_for_what_has_panicked() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let board: Arc<Numbers> = Arc::new(Board::new(vec![0; 2], 2));
        let at_work = Arc::clone(&board);
        let worker = spawn(move || {
            if at_work.next().is_some() {
                at_work.give_up();
            }
        });
        board.post(Arc::new(vec![0]), 1, 1);
        match board.take(1, |_, _| {}) {
            Turn::Broken => {}
            Turn::Help(_) => board.close(),
            Turn::Taken => panic!("nothing was delivered"),
        }
        worker.join().unwrap();
    });
}
