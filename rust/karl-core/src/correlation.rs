//! Columns with missing numbers: what is known of each, and how they go together.

use crate::numeric::sum::Compensated;

/// Fewest rows for a correlation: two always lie on a line.
const FEWEST: u64 = 3;

/// Numbers of a column that are known; NaN is missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Rows with a number.
    pub count: u64,
    /// Mean of the numbers; NaN without any.
    pub mean: f64,
    /// True if two or more numbers are known and all are equal: the column carries no signal.
    pub constant: bool,
}

impl Known {
    /// Return what is known of a column. Cost: one pass.
    #[must_use]
    pub fn of(column: &[f64]) -> Self {
        let mut known = column.iter().copied().filter(|value| !value.is_nan());
        let first = known.clone().next();
        let (count, total) = known.clone().fold((0, Compensated::default()), |(count, mut total), value| {
            total.add(value);
            (count + 1, total)
        });
        let constant = count > 1 && known.all(|value| Some(value) == first);
        Self { count, mean: total.value() / count as f64, constant }
    }
}

/// Correlation of two columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// Rows in which both are known.
    pub count: u64,
    /// Pearson's coefficient r = sum(dx dy) / sqrt(sum(dx^2) sum(dy^2)), dx and dy from the means of these rows.
    pub coefficient: f64,
}

/// Return the correlation of two columns over the rows in which both are known; None for fewer than three
/// rows, or if one column is constant in them. Columns are as long as the shorter. Cost: two passes.
#[must_use]
pub fn correlation(x: &[f64], y: &[f64]) -> Option<Correlation> {
    let both = || x.iter().zip(y).filter(|(x, y)| !x.is_nan() && !y.is_nan());
    let count = both().count() as u64;
    if count < FEWEST {
        return None;
    }
    let mean = |value: fn((&f64, &f64)) -> f64| sum(both().map(value)) / count as f64;
    let (mean_x, mean_y) = (mean(|(x, _)| *x), mean(|(_, y)| *y));
    let square_x = sum(both().map(|(x, _)| (x - mean_x) * (x - mean_x)));
    let square_y = sum(both().map(|(_, y)| (y - mean_y) * (y - mean_y)));
    let product = sum(both().map(|(x, y)| (x - mean_x) * (y - mean_y)));
    // Roots one by one: the product of two large sums may be infinite.
    let coefficient = (product / square_x.sqrt() / square_y.sqrt()).clamp(-1.0, 1.0);
    let known_x = Known::of(&both().map(|(x, _)| *x).collect::<Vec<_>>());
    let known_y = Known::of(&both().map(|(_, y)| *y).collect::<Vec<_>>());
    let is_known = coefficient.is_finite() && !known_x.constant && !known_y.constant;
    is_known.then_some(Correlation { count, coefficient })
}

fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let mut total = Compensated::default();
    values.for_each(|value| total.add(value));
    total.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: f64 = f64::NAN;

    #[test]
    fn what_is_known_leaves_out_missing_numbers() {
        assert_eq!(Known::of(&[1.0, NONE, 0.0]), Known { count: 2, mean: 0.5, constant: false });
        assert_eq!(Known::of(&[0.1, 0.1, NONE]), Known { count: 2, mean: 0.1, constant: true });
        // One number alone is not called constant.
        assert_eq!(Known::of(&[1.0]), Known { count: 1, mean: 1.0, constant: false });
        let nothing = Known::of(&[NONE]);
        assert!(nothing.count == 0 && nothing.mean.is_nan() && !nothing.constant);
    }

    #[test]
    fn a_correlation_is_pearsons_over_the_rows_that_are_known_in_both() {
        let is_near = |found: Option<Correlation>, count, wanted: f64| {
            found.is_some_and(|found| found.count == count && (found.coefficient - wanted).abs() < 1e-14)
        };
        assert!(is_near(correlation(&[1.0, 2.0, 3.0, 4.0, NONE], &[1.0, 3.0, 2.0, 4.0, 9.0]), 4, 0.8));
        let line = [0.1, 0.2, 0.3];
        assert!(is_near(correlation(&line, &line), 3, 1.0));
        assert!(is_near(correlation(&line, &line.map(|x| -x)), 3, -1.0));
    }

    #[test]
    fn constant_columns_and_two_rows_have_no_correlation() {
        assert_eq!(correlation(&[1.0, 2.0, NONE], &[1.0, 2.0, 3.0]), None);
        assert_eq!(correlation(&[0.1; 4], &[1.0, 2.0, 3.0, 4.0]), None);
        // Constant where both are known.
        assert_eq!(correlation(&[1.0, 1.0, 1.0, 2.0], &[1.0, 2.0, 3.0, NONE]), None);
    }
}
