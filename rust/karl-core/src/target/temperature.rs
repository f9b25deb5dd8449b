//! The choice of the inverse temperature.

use crate::check::{check_not_negative, check_number};
use crate::error::{Error, Result};

/// Choice of the inverse temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Temperature {
    /// So that the effective sample size is this share of the kept rows, in (0, 1].
    Ess(f64),
    /// So that the divergence KL(target || uniform over the kept rows) is this many nats, from 0 on.
    Kl(f64),
    /// Given: zero or more.
    Inverse(f64),
}

pub(crate) fn check_temperature(temperature: Temperature) -> Result<()> {
    match temperature {
        Temperature::Ess(share) if share > 0.0 && share <= 1.0 => Ok(()),
        Temperature::Ess(value) => Err(Error::Fraction { what: "ess", value }),
        Temperature::Kl(nats) => check_not_negative("kl", nats).and_then(|()| check_number("kl", nats)),
        Temperature::Inverse(value) => check_not_negative("inverse_temperature", value)
            .and_then(|()| check_number("inverse_temperature", value)),
    }
}

pub(super) fn check_inverse_temperature(index: usize, value: f64) -> Result<()> {
    if value == f64::INFINITY {
        return Err(Error::NotFinite { what: "inverse_temperature", index, value });
    }
    check_not_negative("inverse_temperature", value)
}
