//! Order of a record: a number or a time.

use super::scalar::number;
use super::unescape::unescape;
use crate::time::moment;

/// Value that orders records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// Number of any unit.
    Number(f64),
    /// Seconds since 1970 of an RFC 3339 time. Times of this century that are a microsecond apart differ.
    Time(f64),
}

impl Order {
    /// Return the number that is compared.
    pub(crate) const fn value(self) -> f64 {
        match self {
            Self::Number(value) | Self::Time(value) => value,
        }
    }

    /// Return whether it is a time.
    pub(crate) const fn is_time(self) -> bool {
        matches!(self, Self::Time(_))
    }
}

/// Parse an order; None if it is missing or anything but a finite number or an RFC 3339 time.
pub(crate) fn order(raw: Option<&[u8]>) -> Option<Order> {
    let raw = raw?;
    if raw.starts_with(b"\"") {
        let (seconds, nanoseconds) = moment(unescape(raw)?.as_bytes())?;
        return Some(Order::Time(seconds as f64 + f64::from(nanoseconds) * 1e-9));
    }
    // Adding 0.0 turns -0.0 into 0.0, which is no other order.
    let value = number(raw)?.parse::<f64>().ok()? + 0.0;
    value.is_finite().then_some(Order::Number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_finite_number_or_a_time() {
        assert_eq!(order(Some(b"-0.0")).map(|order| order.value().to_bits()), Some(0));
        assert_eq!(order(Some(b"17e2")), Some(Order::Number(1700.0)));
        assert_eq!(order(Some(br#""1970-01-02T00:00:00.25\u005a""#)), Some(Order::Time(86_400.25)));
        for bad in ["null", "true", "NaN", "Infinity", "1e999", "\"17\"", "\"2026-01-06\"", "[1]", "{}", ""] {
            assert_eq!(order(Some(bad.as_bytes())), None, "{bad}");
        }
        assert_eq!(order(None), None);
    }
}
