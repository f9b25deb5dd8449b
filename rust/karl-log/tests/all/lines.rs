//! Lines: where one ends, what a torn, blank, welded or overlong one counts as, and where it stood.

use std::io::{self, Read};

use karl_log::framing::Lines;
use proptest::prelude::*;

use crate::logs::{self, bad, balanced, columns, fixed, log, log_with, settings, strictly};

/// A reader that gives at most so many bytes at a time, and is interrupted before each.
struct Trickle<'a>(&'a [u8], usize, bool);

impl Read for Trickle<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.2 = !self.2;
        if self.2 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let step = self.1.min(out.len());
        self.0.read(&mut out[..step])
    }
}

fn pieces(bytes: &[u8], step: usize, limit: usize) -> Vec<String> {
    let mut lines = Lines::new(Trickle(bytes, step, false), 0, u64::MAX, limit);
    lines.skip_mark().unwrap();
    let mut out = Vec::new();
    while let Some(piece) = lines.next().unwrap() {
        out.push(format!("{piece:?}"));
    }
    out
}

fn limited(bytes: &[u8], limit: usize) -> karl_log::Log {
    let mut settings = settings();
    settings.wishes.max_line_bytes = limit;
    log_with(&[bytes], &settings)
}

proptest! {
    #![proptest_config(fixed(200))]

    #[test]
    fn lines_do_not_depend_on_how_the_bytes_arrive(
        bytes in prop::collection::vec(prop::sample::select(b"ab\r\n\n\0\xef\xbb\xbf{}".to_vec()), 0..60),
        step in 1_usize..20, limit in 0_usize..12,
    ) {
        prop_assert_eq!(pieces(&bytes, step, limit), pieces(&bytes, usize::MAX, limit));
    }
}

const ROWS: [&str; 3] = [
    r#"{"id":"a","x":[1,{"y":"}\n"}],"reward":0.5}"#,
    r#"{"id":"b","reward":true}"#,
    r#"{"id":"c","reward":-1e-3 }"#,
];

#[test]
fn line_ends_of_windows_a_mark_and_blank_lines_change_no_row() {
    let plain = log(ROWS.join("\n") + "\n");
    let windows = log("\u{feff}".to_owned() + &ROWS.join("\r\n\r\n \t\r\n") + "\r\n\r\n");
    assert_eq!(columns(&windows), columns(&plain));
    assert_eq!((windows.accounts[0].read, windows.accounts[0].blank), (3, 5));
}

#[test]
fn only_a_line_feed_ends_a_line() {
    let log = log("{\"id\":\"\u{2028}\u{2029}\u{85}\x0b\x0c\",\r\"reward\":1}\n{\"id\":2,\"reward\":1}");
    assert_eq!((log.len() as u64 + logs::bad_count(&log), log.accounts[0].read), (2, 2));
}

#[test]
fn separators_that_are_no_line_ends_stay_in_their_string() {
    let log = log("{\"id\":\"\u{2028}\u{2029}\u{85}\",\"reward\":1}\n{\"id\":2,\"reward\":1}\n");
    assert_eq!((log.len(), bad(&log)), (2, vec![]));
}

#[test]
fn zero_bytes_are_a_bad_row_and_not_a_blank_line() {
    let log = log([ROWS[0].as_bytes(), b"\n\0\0\0\0\n", ROWS[1].as_bytes(), b"\n\0\0"].concat());
    assert_eq!((log.len(), bad(&log)), (2, vec![("not_an_object", 2), ("not_an_object", 4)]));
}

#[test]
fn welded_records_are_all_read_and_counted_once_a_line() {
    let log = log(format!("{0}{1}\n{2}\n{0} {1}\t{2}\n", ROWS[0], ROWS[1], ROWS[2]));
    assert_eq!((log.len(), log.accounts[0].welded, bad(&log)), (6, 2, vec![]));
}

#[test]
fn what_follows_a_welded_record_is_counted_on_its_line() {
    let log = log(format!("{0}{1},\n{1}{{\"id\":\n{2}\nx\n", ROWS[0], ROWS[1], ROWS[2]));
    assert_eq!(bad(&log), [("malformed", 2), ("not_an_object", 4)]);
    assert_eq!((log.len(), log.accounts[0].welded), (4, 1));
    assert!(balanced(&log));
}

#[test]
fn a_line_at_the_limit_is_read_and_one_over_is_too_long() {
    for (length, long) in [(39, false), (40, false), (41, true), (300_000, true), (2_000_000, true)] {
        let row = format!("{{\"id\":\"{}\",\"reward\":1}}", "x".repeat(length - 20));
        let log = limited(format!("{{\"reward\":1}}\n{row}\n{{\"reward\":2}}\n{row}").as_bytes(), 40);
        assert_eq!(row.len(), length);
        let wanted = if long { vec![("too_long", 2), ("too_long", 4)] } else { vec![] };
        assert_eq!((bad(&log), log.len()), (wanted, if long { 2 } else { 4 }), "{length}");
    }
}

#[test]
fn an_element_at_the_limit_is_read_and_one_over_is_too_long() {
    for (length, long) in [(39, false), (40, false), (41, true), (300_000, true), (2_000_000, true)] {
        let row = format!("{{\"id\":\"{}\",\"reward\":1}}", "x".repeat(length - 20));
        let log = limited(format!("[{{\"reward\":1}},{row},\n{{\"reward\":2}}\n,{row}]").as_bytes(), 40);
        let wanted = if long { vec![("too_long", 2), ("too_long", 4)] } else { vec![] };
        assert_eq!((bad(&log), log.len()), (wanted, if long { 2 } else { 4 }), "{length}");
    }
}

#[test]
fn a_bad_row_is_found_at_its_line_and_byte_whatever_the_range() {
    let text = format!("{}\n\nbad\n{}{}\n[1]\n{{\"id\":{{}}}}\n", ROWS[0], ROWS[1], ROWS[2]);
    let offset = |part: &str| text.find(part).unwrap() as u64;
    for range in 1..=text.len() as u64 + 1 {
        let log = logs::log_in_ranges(&text, range, 2);
        let places: Vec<_> = log.accounts[0].places.iter().map(|bad| (bad.line, bad.offset)).collect();
        assert_eq!(places, [(3, offset("bad")), (5, offset("[1]\n")), (6, offset("{\"id\":{}"))], "{range}");
    }
}

#[test]
fn strict_reading_also_refuses_what_the_scan_passes_over() {
    let text = "{\"id\":1,\"x\":bogus}\n{\"id\":2,\"id\":3}\n{\"id\":4,\"x\":NaN}\n";
    let log = log_with(&[text], &strictly());
    assert_eq!((log.len(), bad(&log)), (1, vec![("malformed", 1), ("duplicate_key", 2)]));
    let lenient = logs::log(text);
    assert_eq!((lenient.len(), lenient.accounts[0].duplicate_keys), (3, 1));
}
