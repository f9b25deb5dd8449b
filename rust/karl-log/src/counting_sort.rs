//! Sort of items into buckets, in one pass over their counts and one over the items.

/// Sort items by bucket; items of one bucket keep their order. Return them and the end of each bucket.
pub(crate) fn counting_sort<T: Copy + Default>(
    items: &[T],
    buckets: usize,
    bucket: impl Fn(&T) -> usize,
) -> (Vec<T>, Vec<u32>) {
    // One more count than buckets, shifted by one: after the prefix sums each count is the start of its
    // bucket, and after the items are placed it is the end of its bucket.
    let mut next = vec![0_u32; buckets + 1];
    for item in items {
        next[bucket(item) + 1] += 1;
    }
    for at in 0..buckets {
        next[at + 1] += next[at];
    }
    let mut sorted = vec![T::default(); items.len()];
    for item in items {
        let next = &mut next[bucket(item)];
        sorted[*next as usize] = *item;
        *next += 1;
    }
    next.truncate(buckets);
    (sorted, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_stand_one_after_the_other_and_keep_their_order() {
        for count in [0, 1, 7, 100_u32] {
            let items: Vec<(u32, u32)> = (0..count).map(|at| (at * 37 % 5, at)).collect();
            let (sorted, ends) = counting_sort(&items, 6, |item| item.0 as usize);
            assert!(sorted.is_sorted() && sorted.len() == items.len());
            let wanted = (0..6).map(|bucket| items.iter().filter(|item| item.0 <= bucket).count());
            assert!(ends.iter().map(|&end| end as usize).eq(wanted));
        }
    }
}
