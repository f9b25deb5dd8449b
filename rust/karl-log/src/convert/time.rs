//! Timestamps of transcripts: `2026-02-03T03:49:21.951Z`, or with an offset.

/// Return the milliseconds since 1970 of an RFC 3339 timestamp; None for any other text.
pub(crate) fn milliseconds(text: &[u8]) -> Option<i64> {
    let text = text.is_ascii().then(|| std::str::from_utf8(text).ok())??;
    let (date, time) = text.split_at_checked(10)?;
    let number = |from: usize, to: usize, text: &str| text.get(from..to)?.parse::<u32>().ok().map(i64::from);
    let days = days(number(0, 4, date)?, number(5, 7, date)?, number(8, 10, date)?)?;
    let (hours, minutes, seconds) = (number(1, 3, time)?, number(4, 6, time)?, number(7, 9, time)?);
    let rest = time.get(9..)?;
    let digits = rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let fraction = if digits == 0 { "000".to_owned() } else { format!("{:0<3}", &rest[1..=digits]) };
    let zone = rest.get(if digits == 0 { 0 } else { 1 + digits }..)?;
    let seconds = ((days * 24 + hours) * 60 + minutes - offset(zone)?) * 60 + seconds;
    Some(seconds * 1000 + number(0, 3, &fraction)?)
}

/// Return the days since 1970 of a date of the Gregorian calendar (Howard Hinnant, "chrono-compatible
/// low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that a leap day is a year's last.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

/// Return the minutes of a zone ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let number = |from: usize, to: usize| zone.get(from..to)?.parse::<u32>().ok().map(i64::from);
    Some(sign * (number(1, 3)? * 60 + number(4, 6)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_by_hand() {
        for (text, wanted) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01T00:00:00.5Z", Some(500)),
            ("2000-02-29T12:00:00.123456Z", Some(951_825_600_123)),
            ("2026-01-06T13:40:57.519166+01:00", Some(1_767_703_257_519)),
            ("1969-12-31T23:59:59.999Z", Some(-1)),
            ("2026-13-06T13:40:57Z", None),
            ("2026-01-06", None),
            ("2026-01-06T13:40:57", None),
            ("", None),
            ("zwölf Uhr mittags im März", None),
        ] {
            assert_eq!(milliseconds(text.as_bytes()), wanted, "{text}");
        }
    }
}
