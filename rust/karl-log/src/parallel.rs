//! One function over many items on several threads, with the results in the order of the items.

use std::thread;

/// Maps `items` in equal parts, one a thread; the calling thread takes the first.
pub(crate) fn map<T: Send, R: Send>(
    mut items: Vec<T>,
    threads: usize,
    one: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let share = items.len().div_ceil(threads.max(1)).max(1);
    let mut parts = Vec::new();
    while items.len() > share {
        parts.push(items.split_off(items.len() - share));
    }
    let all = |part: Vec<T>| part.into_iter().map(&one).collect::<Vec<R>>();
    thread::scope(|scope| {
        let workers: Vec<_> = parts.into_iter().rev().map(|part| scope.spawn(|| all(part))).collect();
        let mut results = all(items);
        for worker in workers {
            match worker.join() {
                Ok(part) => results.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
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
