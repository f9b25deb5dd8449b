//! Files that end, or are damaged, at any byte: the rows before it are kept, and one row says that something is lost.

use std::io::Write;

use karl_log::{Error, Log};

use crate::logs::{bad, bad_count, balanced, columns, gzip, log, settings, try_read, zstd};

const ROWS: [&str; 3] = [
    r#"{"id":"a","x":[1,{"y":"]}\n"}],"reward":0.5}"#,
    r#"{"id":"b","group":"g","reward":true}"#,
    r#"{"id":"c","reward":-1e-3 }"#,
];

/// What may end a file: how its records lie in it, and how many of them a text that is cut at some byte still has.
const LAYOUTS: [(&str, &str, &str); 5] = [
    ("", "\n", "\n"),
    ("[", ",", "]\n"),
    ("[\n ", " ,\n ", "\n]"),
    ("{\"results\": [", ", ", "], \"end\": 1}"),
    ("\n", " ", "\n"),
];

fn text((start, between, end): (&str, &str, &str)) -> String {
    format!("{start}{}{end}", ROWS.join(between))
}

/// How many whole records the first bytes of a text hold.
fn whole(text: &str, cut: usize) -> usize {
    ROWS.iter().filter(|row| text[..cut].contains(*row)).count()
}

/// One row at most is lost in a file, and it has one of these names.
fn one_loss(log: &Log, names: &[&str], place: &str) {
    let bad = bad(log);
    assert!(
        balanced(log) && bad.len() <= 1 && bad.iter().all(|(name, _)| names.contains(name)),
        "{bad:?} {place}"
    );
}

#[test]
fn a_plain_file_that_ends_anywhere_keeps_the_rows_before_and_one_row_is_torn() {
    for (text, end) in LAYOUTS.map(|layout| (text(layout), layout.2)) {
        let document = text.starts_with('{') && end.starts_with(']');
        for cut in 0..=text.len() {
            let place = format!("{:?}", &text[..cut]);
            match try_read(&[&text[..cut]], &settings()) {
                Ok(log) => {
                    // A document that ends before its first record is one line that is not a record.
                    let names =
                        if document { &["torn", "not_an_object", "missing_reward"][..] } else { &["torn"] };
                    one_loss(&log, names, &place);
                    assert!(log.len() >= whole(&text, cut) || document && whole(&text, cut) == 0, "{place}");
                }
                Err(error) => assert!(document && matches!(error, Error::Document { .. }), "{error} {place}"),
            }
        }
    }
}

#[test]
fn a_packed_file_that_ends_anywhere_keeps_the_rows_before_and_loses_one_row() {
    for pack in [gzip, zstd] {
        for text in LAYOUTS.map(text) {
            let packed = pack(text.as_bytes());
            let complete = columns(&log(&packed));
            for cut in 4..=packed.len() {
                let log = log(&packed[..cut]);
                one_loss(
                    &log,
                    &["torn", "damaged_stream"],
                    &format!("{cut} of {} for {text:?}", packed.len()),
                );
                assert!(bad_count(&log) == 1 || columns(&log) == complete);
            }
        }
    }
}

/// Each row as a member or frame of its own: what the first of them hold is known to the byte.
#[test]
fn members_before_the_end_keep_their_rows_in_every_layout() {
    for pack in [gzip, zstd] {
        // Records that share a line are read when the line's end was seen: the last layout keeps none of them.
        for layout @ (start, between, end) in LAYOUTS.into_iter().take(4) {
            let (first, second) = (format!("{start}{}{between}", ROWS[0]), format!("{}{between}", ROWS[1]));
            let parts = [first, second, format!("{}{end}", ROWS[2])].map(|part| pack(part.as_bytes()));
            let (one, two) = (parts[0].len(), parts[0].len() + parts[1].len());
            let packed = parts.concat();
            for cut in one + 3..packed.len() {
                let log = log(&packed[..cut]);
                let kept = if cut < two + 3 { 1 } else { 2 };
                assert!(log.len() >= kept, "{} rows at {cut} of {layout:?}", log.len());
                one_loss(&log, &["torn", "damaged_stream"], &format!("{cut} {layout:?}"));
            }
        }
    }
}

fn rows(count: u64) -> String {
    let row = |at: u64| {
        let noise = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!(
            "{{\"id\":{at},\"reward\":{}.25,\"text\":\"{noise:x}{:x}\"}}\n",
            at % 3,
            noise.rotate_left(17)
        )
    };
    (0..count).map(row).collect()
}

/// How many whole rows a decoder gives that is asked for one byte at a time.
fn reachable(mut decoder: impl std::io::Read) -> usize {
    let (mut byte, mut lines) = ([0], 0);
    while decoder.read(&mut byte).is_ok_and(|count| count > 0) {
        lines += usize::from(byte == [b'\n']);
    }
    lines
}

#[test]
fn damage_costs_no_row_that_could_be_unpacked() {
    let text = rows(3000);
    let mut checked = zstd::Encoder::new(Vec::new(), 1).unwrap();
    checked.include_checksum(true).unwrap();
    checked.write_all(text.as_bytes()).unwrap();
    for packed in [gzip(text.as_bytes()), checked.finish().unwrap()] {
        let mut partly = 0;
        for at in (20..packed.len()).step_by(packed.len() / 23) {
            let mut bytes = packed.clone();
            bytes[at] ^= 0x55;
            let wanted = if bytes[0] == 0x1f {
                reachable(flate2::read::MultiGzDecoder::new(&bytes[..]))
            } else {
                reachable(zstd::Decoder::new(&bytes[..]).unwrap())
            };
            let log = log(&bytes);
            let read = usize::try_from(log.accounts[0].read).unwrap();
            assert!(read >= wanted, "{read} rows of {wanted}, byte {at}");
            partly += usize::from(0 < wanted && wanted < 3000);
        }
        assert!(partly > 1, "{partly}");
    }
}
