//! One function over many items on several threads, with the results in the order of the items.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Maps `items`, each by the next thread that is free; the calling thread is one of them.
pub(crate) fn map<T: Send, R: Send>(items: Vec<T>, threads: usize, one: impl Fn(T) -> R + Sync) -> Vec<R> {
    let workers = threads.clamp(1, items.len().max(1));
    let queue = Mutex::new(items.into_iter().enumerate());
    // The lock is held while an item is taken, not while it is worked on.
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut done = Vec::new();
        while let Some((at, item)) = next() {
            done.push((at, one(item)));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
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
