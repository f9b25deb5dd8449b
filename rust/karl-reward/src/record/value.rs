//! Meaning of values of a record in Python: truth, number, equality, and the classes of what it raises.

use std::borrow::Cow;

/// The class of what Python raises on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `AttributeError`: a value that is not an object where one has to be, or a command that is not text.
    Attribute,
    /// `TypeError`: a value that is not a number, list or name where one has to be.
    Type,
    /// `ZeroDivisionError`.
    ZeroDivision,
    /// `OverflowError`: a whole number beyond every float.
    Overflow,
    /// `ValueError`: the text is not JSON.
    Syntax,
}

/// One value of a record. Lists and objects keep only their truth in Python: whether they have elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// No such key.
    Absent,
    /// `null`, Python's `None`.
    Null,
    /// A truth value; as a number it is 1 or 0.
    Bool(bool),
    /// A whole number of at most 64 bits.
    Int(i64),
    /// A float, or a whole number of more bits, rounded to the nearest float.
    Float(f64),
    /// A whole number beyond every float; only its sign is left.
    Vast {
        /// True if it is below 0.
        negative: bool,
    },
    /// A text.
    Text(Cow<'a, str>),
    /// A list.
    List {
        /// True if it has elements.
        some: bool,
    },
    /// An object.
    Object {
        /// True if it has keys.
        some: bool,
    },
}

/// Identity of a value in a set of names: equal where Python's `==` and `hash` agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NameKey<'a> {
    Null,
    Whole(i64),
    Real(u64),
    Vast { negative: bool },
    Text(&'a str),
}

impl Value<'_> {
    /// Return whether the key is missing or its value is null.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Absent | Self::Null)
    }

    /// Return Python's truth: None, 0 and empty values are false.
    #[must_use]
    pub fn truth(&self) -> bool {
        match self {
            Self::Absent | Self::Null => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Vast { .. } => true,
            Self::Text(text) => !text.is_empty(),
            Self::List { some } | Self::Object { some } => *some,
        }
    }

    /// Return the value of `true` or `false`; None for other values.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// Return whether it is that text.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        matches!(self, Self::Text(own) if own == text)
    }

    /// Return whether it is one of those texts.
    pub(crate) fn is_in(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.is(text))
    }

    /// Return the value, or 0 where the key is missing.
    pub(crate) fn or_zero(&self) -> Self {
        if matches!(self, Self::Absent) { Self::Int(0) } else { self.clone() }
    }

    /// Return the value as a number.
    pub(crate) fn number(&self) -> Result<Number, Fault> {
        match *self {
            Self::Bool(value) => Ok(Number::Int(i64::from(value))),
            Self::Int(value) => Ok(Number::Int(value)),
            Self::Float(value) => Ok(Number::Float(value)),
            Self::Vast { negative } => Ok(Number::Vast { negative }),
            _ => Err(Fault::Type),
        }
    }

    /// Return whether it equals 0; false for a value that is not a number.
    pub(crate) fn is_zero(&self) -> bool {
        self.number().is_ok_and(|number| number.compare(0, |float| float == 0.0, i64::eq))
    }

    /// Return its name in a set.
    pub(crate) fn name(&self) -> Result<NameKey<'_>, Fault> {
        match self {
            Self::Text(text) => Ok(NameKey::Text(text)),
            Self::List { .. } | Self::Object { .. } => Err(Fault::Type),
            Self::Absent | Self::Null => Ok(NameKey::Null),
            _ => Ok(self.number()?.name()),
        }
    }
}

/// A number of Python: whole numbers stay whole.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i64),
    Float(f64),
    Vast { negative: bool },
}

impl Number {
    fn compare(self, bound: i64, float: impl Fn(f64) -> bool, int: impl Fn(&i64, &i64) -> bool) -> bool {
        match self {
            Self::Int(value) => int(&value, &bound),
            Self::Float(value) => float(value),
            Self::Vast { negative } => int(&if negative { i64::MIN } else { i64::MAX }, &bound),
        }
    }

    /// Return `self > bound`, false for NaN.
    pub(crate) fn above(self, bound: i32) -> bool {
        self.compare(bound.into(), |value| value > bound.into(), i64::gt)
    }

    /// Return `self < bound`, false for NaN.
    pub(crate) fn below(self, bound: i32) -> bool {
        self.compare(bound.into(), |value| value < bound.into(), i64::lt)
    }

    /// Return the nearest float.
    pub(crate) fn float(self) -> Result<f64, Fault> {
        match self {
            Self::Int(value) => Ok(value as f64),
            Self::Float(value) => Ok(value),
            Self::Vast { .. } => Err(Fault::Overflow),
        }
    }

    /// Return `self / other`: of two whole numbers the float nearest to their quotient.
    pub(crate) fn over(self, other: Self) -> Result<f64, Fault> {
        match (self, other) {
            (_, Self::Int(0)) => Err(Fault::ZeroDivision),
            (Self::Int(over), Self::Int(under)) => Ok(quotient(over, under)),
            (Self::Int(_), Self::Vast { .. }) => Ok(0.0),
            (Self::Vast { negative: one }, Self::Vast { negative: two }) => {
                Ok(if one == two { 1.0 } else { -1.0 })
            }
            _ => match (self.float()?, other.float()?) {
                (_, 0.0) => Err(Fault::ZeroDivision),
                (over, under) => Ok(over / under),
            },
        }
    }

    /// `self + other`.
    pub(crate) fn plus(self, other: Self) -> Result<Self, Fault> {
        match (self, other) {
            (Self::Int(one), Self::Int(two)) => {
                Ok(one.checked_add(two).map_or(Self::Float(one as f64 + two as f64), Self::Int))
            }
            (vast @ Self::Vast { .. }, Self::Int(_))
            | (Self::Int(_) | Self::Vast { .. }, vast @ Self::Vast { .. }) => Ok(vast),
            _ => Ok(Self::Float(self.float()? + other.float()?)),
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::float_cmp,
        reason = "a cast saturates, and the way back shows it"
    )]
    fn name(self) -> NameKey<'static> {
        match self {
            Self::Int(value) => NameKey::Whole(value),
            Self::Float(value) if value as i64 as f64 == value && value < 9.2e18 => {
                NameKey::Whole(value as i64)
            }
            Self::Float(value) => NameKey::Real(value.to_bits()),
            Self::Vast { negative } => NameKey::Vast { negative },
        }
    }
}

/// Return the float nearest to the quotient of whole numbers, ties to even: one division below 2^53, and beyond it 56
/// bits of the quotient, the lowest of which is set where anything is left over.
fn quotient(over: i64, under: i64) -> f64 {
    const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
    let (top, bottom) = (over.unsigned_abs(), under.unsigned_abs());
    if top <= EXACT && bottom <= EXACT {
        return over as f64 / under as f64;
    }
    let shift = (56 + top.leading_zeros()).saturating_sub(bottom.leading_zeros());
    let (top, bottom) = (u128::from(top) << shift, u128::from(bottom));
    let bits = (top / bottom) | u128::from(top % bottom != 0);
    let size = bits as f64 / (1_u128 << shift) as f64;
    if (over < 0) == (under < 0) { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_every_float_has_the_name_of_no_float() {
        let least = Value::Float(f64::from_bits(1));
        assert_ne!(Value::Vast { negative: true }.name(), least.name());
        assert_ne!(Value::Vast { negative: true }.name(), Value::Vast { negative: false }.name());
    }

    #[test]
    fn whole_numbers_divide_to_the_nearest_float() {
        // By Python's `/`.
        assert_eq!(quotient(9_007_199_254_740_993, 3).to_bits(), 3_002_399_751_580_331.0_f64.to_bits());
        assert_eq!(quotient(i64::MAX, i64::MIN).to_bits(), (-1.0_f64).to_bits());
        assert_eq!(quotient(1, i64::MAX).to_bits(), (1.084_202_172_485_504_4e-19_f64).to_bits());
        assert_eq!(
            quotient(9_223_372_036_854_775_295, 1).to_bits(),
            (9.223_372_036_854_775e18_f64).to_bits()
        );
        assert_eq!(quotient(0, -3).to_bits(), (-0.0_f64).to_bits());
    }
}
