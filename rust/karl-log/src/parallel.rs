//! Work shared among threads: any free thread takes the next item.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use karl_core::numeric::parallel::each;

/// Numbers of items, each handed out once.
#[derive(Debug)]
pub struct Queue {
    next: AtomicUsize,
    count: usize,
}

impl Queue {
    /// Return the number of the next item; `None` after the last.
    pub fn take(&self) -> Option<usize> {
        Some(self.next.fetch_add(1, Relaxed)).filter(|&at| at < self.count)
    }

    /// Hand out no more items.
    pub fn close(&self) {
        self.next.store(self.count, Relaxed);
    }
}

/// Run `work` over a queue of `count` items on `threads` threads, including the calling one; return one
/// result per thread.
pub fn share<R: Send>(count: usize, threads: usize, work: impl Fn(&Queue) -> R + Sync) -> Vec<R> {
    let queue = Queue { next: AtomicUsize::new(0), count };
    each(0..threads.clamp(1, count.max(1)), |_| work(&queue))
}

/// Map items on several threads; the results are in the order of the items.
pub fn map<T: Send, R: Send>(items: Vec<T>, threads: usize, one: impl Fn(T) -> R + Sync) -> Vec<R> {
    let items: Vec<Mutex<Option<T>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let take = |at: usize| items[at].lock().unwrap_or_else(PoisonError::into_inner).take();
    let work = |queue: &Queue| {
        let next = || queue.take().and_then(|at| Some((at, take(at)?)));
        std::iter::from_fn(next).map(|(at, item)| (at, one(item))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, R)> = share(items.len(), threads, work).into_iter().flatten().collect();
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_stand_in_the_order_of_the_items_for_any_number_of_threads() {
        for count in 0..20_u32 {
            let wanted: Vec<u32> = (0..count).map(|item| item * item).collect();
            for threads in 0..9 {
                assert_eq!(map((0..count).collect(), threads, |item| item * item), wanted);
            }
        }
    }
}
