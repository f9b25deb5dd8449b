//! Credit in a tree of trajectories: a root that called others, which may have called others, and one reward for all.

use crate::check::{check_counts, check_length};
use crate::error::{Error, Result};

/// How the credit of a root is divided among the segments of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeCredit {
    /// In proportion to their tokens: every token of a tree has one over the number of its tokens, whatever called what
    /// and wherever it was cut.
    Tokens,
    /// `1 / segments` for those of the root; `1 / (callees * segments)` for those of a trajectory that was called. A tree
    /// has 1 in all without callees, and 2 with them. Reference: rl-experiments @667c1a8, `rlm_grpo`.
    Calls,
}

/// Return the root of each trajectory.
///
/// Shapes: `[B]`; `parents` are rows, negative for a root. Cost: linear.
///
/// # Errors
/// [`Error::Row`] for a parent that is not a row; [`Error::Circle`] for a row that its parents lead back to.
pub fn tree_roots(parents: &[i64]) -> Result<Vec<usize>> {
    const UNKNOWN: usize = usize::MAX;
    let (count, mut roots, mut path) = (parents.len(), vec![UNKNOWN; parents.len()], Vec::new());
    for first in 0..count {
        let mut row = first;
        while roots[row] == UNKNOWN && parents[row] >= 0 {
            path.push(row);
            // A way that is longer than there are rows goes round, and its end is in the circle.
            if path.len() > count {
                return Err(Error::Circle { what: "parents", row });
            }
            let parent = usize::try_from(parents[row]).ok().filter(|&parent| parent < count);
            row = parent.ok_or(Error::Row { index: row, row: parents[row], count })?;
        }
        let root = if roots[row] == UNKNOWN { row } else { roots[row] };
        roots[row] = root;
        path.drain(..).for_each(|row| roots[row] = root);
    }
    Ok(roots)
}

/// Return the weight of each segment, for the mean loss of its tokens.
///
/// ```text
/// Tokens:  w_s = tokens_s / tokens of the tree
/// Calls:   w_s = 1 / segments of the root;    1 / (callees of the root, theirs included, * segments of its trajectory)
/// ```
///
/// With [`TreeCredit::Tokens`] the weights of a tree add up to 1. A segment without tokens has no loss; by calls it
/// counts as a segment all the same.
/// Shapes: `parents` `[B]`, `rows` and `tokens` `[S]` (the trajectory of a segment, and its tokens), result `[S]`.
///
/// # Errors
/// As [`tree_roots`]; [`Error::Length`] for columns that do not match; [`Error::Outside`] for a negative count;
/// [`Error::Row`] for a segment of no row.
pub fn segment_weights(
    parents: &[i64],
    rows: &[i64],
    tokens: &[i64],
    credit: TreeCredit,
) -> Result<Vec<f64>> {
    check_length("tokens", tokens.len(), rows.len())?;
    check_counts("tokens", tokens)?;
    let (roots, count) = (tree_roots(parents)?, parents.len());
    let own = |(index, &row): (usize, &i64)| {
        usize::try_from(row).ok().filter(|&row| row < count).ok_or(Error::Row { index, row, count })
    };
    let rows: Vec<usize> = rows.iter().enumerate().map(own).collect::<Result<_>>()?;
    let (mut sizes, mut segments, mut callees) = (vec![0.0; count], vec![0.0; count], vec![0.0; count]);
    for (&row, &tokens) in rows.iter().zip(tokens) {
        sizes[roots[row]] += tokens as f64;
        segments[row] += 1.0;
    }
    for row in (0..count).filter(|&row| roots[row] != row) {
        callees[roots[row]] += 1.0;
    }
    let weight = |(&row, &tokens): (&usize, &i64)| match credit {
        TreeCredit::Tokens if tokens == 0 => 0.0,
        TreeCredit::Tokens => tokens as f64 / sizes[roots[row]],
        TreeCredit::Calls if roots[row] == row => 1.0 / segments[row],
        TreeCredit::Calls => 1.0 / (callees[roots[row]] * segments[row]),
    };
    Ok(rows.iter().zip(tokens).map(weight).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_found_from_any_depth_and_a_circle_is_refused() {
        assert_eq!(tree_roots(&[-1, 0, 1, -1, 3, 2]).unwrap(), [0, 0, 0, 3, 3, 0]);
        assert_eq!(tree_roots(&[1, 2, -1]).unwrap(), [2, 2, 2]);
        for (parents, circle) in [(&[0][..], &[0][..]), (&[1, 0], &[0, 1]), (&[1, 2, 1], &[1, 2])] {
            let error = tree_roots(parents).unwrap_err();
            assert!(
                matches!(error, Error::Circle { row, .. } if circle.contains(&row)),
                "{parents:?}: {error}"
            );
        }
        assert_eq!(tree_roots(&[5]), Err(Error::Row { index: 0, row: 5, count: 1 }));
        assert_eq!(tree_roots(&[1, 9]), Err(Error::Row { index: 1, row: 9, count: 2 }));
    }

    #[test]
    fn by_tokens_a_tree_counts_as_one_and_by_calls_as_one_or_two() {
        let (parents, rows, tokens) = ([-1, 0, 0, -1], [0, 0, 1, 2, 2, 3], [4, 2, 6, 1, 7, 5]);
        let of = |credit| segment_weights(&parents, &rows, &tokens, credit).unwrap();
        let by_tokens = of(TreeCredit::Tokens);
        assert!((by_tokens[..5].iter().sum::<f64>() - 1.0).abs() < 1e-15);
        assert!((by_tokens[5] - 1.0).abs() < 1e-15);
        assert_eq!(of(TreeCredit::Calls), [0.5, 0.5, 0.5, 0.25, 0.25, 1.0]);
    }
}
