//! Reward from an outcome, with stated weights.

use karl_core::reward::{complement, composite_of};
use karl_log::format::Component;

use super::outcome::Outcome;

/// Weight of a component in the reward of `--rate outcomes`; the weights, in 64ths, add up to 1. What the work itself
/// earned counts most. A session that was not stopped or asked for again may still be worth nothing, and
/// `attribution` is a share of the lines, not their worth: these have none.
#[must_use]
pub const fn weight(component: Component) -> f64 {
    match component {
        Component::Verified | Component::Survived | Component::Tests => 12.0 / 64.0,
        Component::Merged | Component::Reverted | Component::Corrected => 6.0 / 64.0,
        Component::Committed => 4.0 / 64.0,
        Component::Build | Component::Lint => 3.0 / 64.0,
        Component::Attribution | Component::Interrupted | Component::AskedAgain => 0.0,
    }
}

/// Return the reward of an outcome: the weight of an unknown component is shared among the others; `None` if
/// none with a weight is known.
pub(super) fn reward(outcome: &Outcome) -> Option<f64> {
    let weighed = outcome.values().filter(|(component, _)| weight(*component) > 0.0);
    let (values, weights): (Vec<f64>, Vec<f64>) = weighed
        .map(|(component, value)| {
            let value = value.map(|value| if component.is_cost() { complement(value) } else { value });
            (value.unwrap_or(f64::NAN), weight(component))
        })
        .unzip();
    Some(composite_of(&values, &weights, &vec![true; values.len()])).filter(|reward| reward.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Evidence;
    use super::*;

    #[test]
    fn weights_of_unknown_components_are_shared() {
        assert!((Component::ALL.into_iter().map(weight).sum::<f64>() - 1.0).abs() < f64::EPSILON);
        let mut outcome = Outcome::default();
        assert_eq!(reward(&outcome), None);
        outcome.set(Component::Interrupted, 0.0, Evidence::default());
        assert_eq!(reward(&outcome), None);
        outcome.set(Component::Tests, 1.0, Evidence::default());
        assert_eq!(reward(&outcome), Some(1.0));
        outcome.set(Component::Reverted, 1.0, Evidence::default());
        assert!((reward(&outcome).unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }
}
