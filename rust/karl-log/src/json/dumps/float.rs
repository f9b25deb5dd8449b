//! Floats as Python's `repr` writes them.

use std::io::Write;

/// Append the `repr` of a float; of what is not finite, the words of Python's JSON.
pub(crate) fn push_float(out: &mut Vec<u8>, value: f64) {
    if short(out, value).is_some() {
        return;
    }
    // A Vec takes whatever is written.
    let _ = match value {
        _ if value.is_nan() => out.write_all(b"NaN"),
        _ if value.is_infinite() => out.write_all(if value > 0.0 { b"Infinity" } else { b"-Infinity" }),
        _ => finite(out, value),
    };
}

/// Append a float of up to four decimals, as scores are. Whole numbers of 10^-4 below 10^15 have fifteen digits at most,
/// which no shorter decimal shares (see `is_repr`).
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "it is checked"
)]
fn short(out: &mut Vec<u8>, value: f64) -> Option<()> {
    let scaled = (value.abs() * 1e4).round();
    if !(scaled > 0.0 && scaled < 1e15 && scaled / 1e4 == value.abs()) {
        return None;
    }
    if value < 0.0 {
        out.push(b'-');
    }
    let scaled = scaled as u64;
    let (whole, mut decimals) = (scaled / 10_000, scaled % 10_000);
    if whole < 10 {
        out.push(b'0' + whole as u8);
    } else {
        out.extend_from_slice(whole.to_string().as_bytes());
    }
    out.push(b'.');
    loop {
        out.push(b'0' + (decimals / 1000) as u8);
        decimals = decimals % 1000 * 10;
        if decimals == 0 {
            return Some(());
        }
    }
}

/// Append the shortest digits that give the float back, with an exponent below 10^-4 and from 10^16 on.
fn finite(out: &mut Vec<u8>, value: f64) -> std::io::Result<()> {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        Ok(power) if !(-4..16).contains(&power) => write!(out, "{digits}e{power:+03}"),
        _ => write!(out, "{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::push_float;

    /// By `CPython` 3.11's `repr`.
    #[test]
    fn floats_are_written_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.5, "0.5"),
            (0.1234, "0.1234"),
            (-0.7001, "-0.7001"),
            (12.05, "12.05"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000_123, "0.000123"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1e22, "1e+22"),
            (2.5e-7, "2.5e-07"),
            (123_456.789, "123456.789"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ];
        for (value, wanted) in cases {
            let mut out = Vec::new();
            push_float(&mut out, value);
            assert_eq!(String::from_utf8_lossy(&out), wanted);
        }
    }
}
