//! Sharing chunks of rows among threads so that the number of threads cannot change a result.

use std::sync::{Mutex, PoisonError};

/// Fewest rows in a chunk: below this a chunk's fixed cost in burn outweighs its arithmetic.
const MIN_CHUNK_ROWS: usize = 256;
/// Most chunks per batch: each keeps a gradient of the whole policy.
const MAX_CHUNKS: usize = 32;

/// Rows per chunk for a batch of `n_rows` rows: a function of `n_rows` alone.
pub(super) fn chunk_rows(n_rows: usize) -> usize {
    MIN_CHUNK_ROWS.max(n_rows.div_ceil(MAX_CHUNKS))
}

/// Calls `work` once for each item, on up to `threads` threads (this one among them).
///
/// Items must not depend on each other: which thread takes which is left to chance.
///
/// # Errors
/// One of the errors that `work` gave; items not yet taken at that time are left out.
pub(super) fn for_each<Items, Item, Error>(
    items: Items,
    threads: usize,
    work: impl Fn(Item) -> Result<(), Error> + Sync,
) -> Result<(), Error>
where
    Items: ExactSizeIterator<Item = Item> + Send,
    Item: Send,
    Error: Send,
{
    let n_threads = threads.min(items.len());
    if n_threads <= 1 {
        return items.into_iter().try_for_each(work);
    }
    let queue = Mutex::new(items);
    let failure = Mutex::new(None);
    let run = || {
        while let Some(item) = take(&queue) {
            if let Err(error) = work(item) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                while take(&queue).is_some() {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n_threads {
            scope.spawn(run);
        }
        run();
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn take<Items: Iterator>(queue: &Mutex<Items>) -> Option<Items::Item> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        for threads in [1, 2, 5] {
            let mut slots = vec![0; 37];
            let items = slots.iter_mut().enumerate();
            for_each(items, threads, |(i, slot)| {
                *slot += i + 1;
                Ok::<(), ()>(())
            })
            .unwrap();
            assert!(slots.iter().enumerate().all(|(i, slot)| *slot == i + 1));
        }
    }

    #[test]
    fn an_error_comes_back() {
        let result = for_each(0..10, 3, |i| if i == 4 { Err(i) } else { Ok(()) });
        assert_eq!(result, Err(4));
    }

    #[test]
    fn chunks_cover_a_batch() {
        assert_eq!(chunk_rows(0), 256);
        assert_eq!(chunk_rows(1024), 256);
        assert_eq!(chunk_rows(100_000), 3_125);
    }
}
