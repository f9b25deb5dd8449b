//! RFC 3339 timestamps: `2026-02-03T03:49:21.951Z`, or with an offset.

/// Return the milliseconds since 1970 of a timestamp; None for any other text.
#[must_use]
pub fn milliseconds(text: &[u8]) -> Option<i64> {
    let (seconds, nanoseconds) = moment(text)?;
    Some(seconds * 1000 + i64::from(nanoseconds / 1_000_000))
}

/// Return the timestamp of some milliseconds since 1970, in UTC; None beyond the years 0 to 9999.
#[must_use]
pub fn timestamp(milliseconds: i64) -> Option<String> {
    let (days, rest) = (milliseconds.div_euclid(86_400_000), milliseconds.rem_euclid(86_400_000));
    let (year, month, day) = date(days)?;
    let (seconds, fraction) = (rest / 1000, rest % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{fraction:03}Z"))
}

/// Return the date of some days since 1970, the opposite of [`days`].
fn date(days: i64) -> Option<(i64, i64, i64)> {
    let days = days.checked_add(719_468)?;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (0..=9999).contains(&year).then_some((year, month, day))
}

/// Return the whole seconds since 1970 of a timestamp, and the nanoseconds after them; None for any other text.
pub(crate) fn moment(text: &[u8]) -> Option<(i64, u32)> {
    let text = text.is_ascii().then(|| std::str::from_utf8(text).ok())??;
    let (date, time) = text.split_at_checked(10)?;
    let days = days(digits(date, 0..4)?, digits(date, 5..7)?, digits(date, 8..10)?)?;
    let (hours, minutes, seconds) = (digits(time, 1..3)?, digits(time, 4..6)?, digits(time, 7..9)?);
    let separators = [date.as_bytes()[4], date.as_bytes()[7], time.as_bytes()[3], time.as_bytes()[6]];
    let begins = matches!(time.as_bytes()[0], b'T' | b't' | b' ');
    // A leap second is the 60th.
    if separators != *b"--::" || !begins || hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let (nanoseconds, zone) = fraction(time.get(9..)?)?;
    Some((((days * 24 + hours) * 60 + minutes - offset(zone)?) * 60 + seconds, nanoseconds))
}

/// Return the nanoseconds of a fraction of a second, 0 without one, and the text after it; digits beyond nine are cut.
fn fraction(text: &str) -> Option<(u32, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let (digits, zone) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    let nine = format!("{:0<9}", digits.get(..9).unwrap_or(digits));
    Some((if digits.is_empty() { None } else { nine.parse().ok() }?, zone))
}

/// Return the number of some digits, which have to be digits alone.
fn digits(text: &str, at: std::ops::Range<usize>) -> Option<i64> {
    let text = text.get(at)?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Return the days since 1970 of a date of the Gregorian calendar (Howard Hinnant, "chrono-compatible
/// low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=length(year, month)).contains(&day) {
        return None;
    }
    // Years begin in March, so that a leap day is a year's last.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

/// Return the days of a month.
fn length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
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
    let (hours, minutes) = (digits(zone, 1..3)?, digits(zone, 4..6)?);
    let sound = zone.len() == 6 && zone.as_bytes()[3] == b':' && hours <= 23 && minutes <= 59;
    sound.then_some(sign * (hours * 60 + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_back() {
        for moment in [0, -1, 951_825_600_123, 1_767_703_257_519, 4_107_542_399_999, -62_135_596_800_000] {
            let text = timestamp(moment).unwrap();
            assert_eq!(milliseconds(text.as_bytes()), Some(moment), "{text}");
        }
        assert_eq!(timestamp(951_825_600_123).as_deref(), Some("2000-02-29T12:00:00.123Z"));
        assert_eq!((timestamp(i64::MAX), timestamp(i64::MIN)), (None, None));
    }

    #[test]
    fn moments_by_hand() {
        for (text, wanted) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01T00:00:00.5Z", Some(500)),
            ("2000-02-29T12:00:00.123456Z", Some(951_825_600_123)),
            ("2026-01-06T13:40:57.519166+01:00", Some(1_767_703_257_519)),
            ("2026-01-06 13:40:57.5-01:30", Some(1_767_712_257_500)),
            ("1969-12-31T23:59:59.999Z", Some(-1)),
            ("2026-13-06T13:40:57Z", None),
            ("2026-02-29T13:40:57Z", None),
            ("2026-01-06T24:40:57Z", None),
            ("2026-01-06T13-40-57Z", None),
            ("2026/01/06T13:40:57Z", None),
            ("+026-01-06T13:40:57Z", None),
            ("2026-01-06T13:40:57.Z", None),
            ("2026-01-06T13:40:57+01:00 CET", None),
            ("2026-01-06", None),
            ("2026-01-06T13:40:57", None),
            ("", None),
            ("zwölf Uhr mittags im März", None),
        ] {
            assert_eq!(milliseconds(text.as_bytes()), wanted, "{text}");
        }
        assert_eq!(moment(b"1969-12-31T23:59:59.1234567891Z"), Some((-1, 123_456_789)));
    }
}
