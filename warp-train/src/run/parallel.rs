//! Work on many things of one kind, by several threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does `work` for each of `n` numbers, on `threads` threads; the results in their order.
pub(in crate::run) fn each<T: Send>(
    threads: usize,
    n: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= n {
                return made;
            }
            made.push((number, work(number)));
        }
    };
    let mut made = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(n)).map(|_| scope.spawn(take)).collect();
        let mut made = take();
        for other in others {
            made.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        made
    });
    made.sort_by_key(|(number, _)| *number);
    made.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_worked_on_once_and_results_are_in_order() {
        for (threads, n) in [(1, 0), (1, 3), (4, 0), (4, 3), (4, 1000)] {
            let found = each(threads, n, |number| 2 * number);
            assert_eq!(found, (0..n).map(|number| 2 * number).collect::<Vec<_>>());
        }
    }
}
