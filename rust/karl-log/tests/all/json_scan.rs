//! The fast scan and the trusted parser give the same values, on valid texts always and on damaged ones wherever
//! both accept.

use std::ops::Range;

use karl_log::json::project::{Path, PathTree, Scan, ScanFault, Scanned, scan};
use karl_log::json::reference_parser::{lookup, parse};
use karl_log::json::scalar::{RewardValue, reward};
use proptest::prelude::*;
use proptest::sample::select;

use crate::logs;

const KEYS: [&str; 12] = [
    "id",
    r"i\u0064",
    "group",
    r"\u0067roup",
    "meta",
    r"me\u0074a",
    "a.b",
    "ключ",
    r"\\",
    r#"q\"q"#,
    "x",
    "",
];
const SEGMENTS: [&str; 8] = ["id", "group", "meta", r"a\.b", "ключ", "\\", "q\"q", "x"];
const LEAVES: [&str; 26] = [
    "0",
    "-0",
    "-0.0",
    "1e5",
    "1E+05",
    "12.50e-3",
    "9007199254740993",
    "1e400",
    "123456789012345678901234567890",
    "true",
    "false",
    "null",
    "NaN",
    "Infinity",
    "-Infinity",
    r#""""#,
    r#""a\"}]{[,:""#,
    r#""\\""#,
    r#""\\\"""#,
    r#""\u00e9\ud83d\ude00""#,
    r#""{\"id\": 1}""#,
    "\"\u{2028}\u{1f600}\u{7f}\"",
    "[]",
    "{}",
    r#""NaN""#,
    r#""\/\b\f""#,
];

fn space() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", "", " ", "\n", "\r\n\t", "  \t"])
}

fn padded(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (space(), inner, space()).prop_map(|(before, inner, after)| format!("{before}{inner}{after}"))
}

fn object_of(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let key = padded(select(&KEYS[..]).prop_map(|key| format!("\"{key}\"")));
    let member = (key, padded(value)).prop_map(|(key, value)| format!("{key}:{value}"));
    (space(), prop::collection::vec(member, 0..7)).prop_map(|(space, members)| {
        if members.is_empty() { format!("{{{space}}}") } else { format!("{{{}}}", members.join(",")) }
    })
}

fn object() -> impl Strategy<Value = String> {
    let leaf = select(&LEAVES[..]).prop_map(str::to_owned).boxed();
    let value = leaf.prop_recursive(4, 40, 6, |inner| {
        let list = prop::collection::vec(padded(inner.clone()), 1..4)
            .prop_map(|items| format!("[{}]", items.join(",")));
        prop_oneof![1 => list, 3 => object_of(inner)]
    });
    object_of(value)
}

fn paths() -> impl Strategy<Value = Vec<Path>> {
    let path = prop::collection::vec(select(&SEGMENTS[..]), 1..4)
        .prop_map(|segments| Path::parse(&segments.join(".")).unwrap());
    prop::collection::vec(path, 0..6)
}

type Values = Vec<Option<Range<usize>>>;

/// What a scan that has seen other texts says, beside what one says that has not.
fn both(
    used: &mut Scan,
    text: &[u8],
    wanted: &PathTree,
) -> [std::result::Result<(Scanned, Values), ScanFault>; 2] {
    let mut values = vec![None; wanted.slots()];
    let said = used.object(text, &mut values).map(|found| (found, values.clone()));
    [said, scan(text, wanted, &mut values).map(|found| (found, values))]
}

fn scanned(text: &[u8], paths: &[Path]) -> Option<(Scanned, Values)> {
    let wanted = PathTree::new(paths);
    let mut values = vec![Some(0..usize::MAX); wanted.slots()];
    scan(text, &wanted, &mut values).ok().map(|found| (found, values))
}

/// Where both accept the text, they agree on every wanted value. Whether both did.
fn agree(text: &[u8], paths: &[Path]) -> std::result::Result<bool, TestCaseError> {
    let Some((found, values)) = scanned(text, paths) else { return Ok(false) };
    let Ok(record) = parse(&text[..found.end]) else { return Ok(false) };
    for (path, range) in paths.iter().zip(values) {
        let fast = range.map(|range| parse(&text[range]).unwrap());
        prop_assert_eq!(
            fast.as_ref(),
            lookup(&record, path),
            "{:?} in {}",
            path,
            String::from_utf8_lossy(text)
        );
    }
    Ok(true)
}

proptest! {
    #![proptest_config(logs::fixed(600))]

    #[test]
    fn on_a_valid_object_both_agree_on_every_value_and_on_the_end(
        text in object(), paths in paths(), rest in select(vec!["", " ", "{\"id\":9}", "]", "\u{feff}"]),
    ) {
        let welded = format!("{text}{rest}");
        prop_assert!(agree(welded.as_bytes(), &paths)?, "one refused {}", text);
        prop_assert_eq!(scanned(welded.as_bytes(), &paths).unwrap().0.end, text.len());
    }

    #[test]
    fn what_was_scanned_before_changes_nothing(
        texts in prop::collection::vec(object(), 1..6), paths in paths(), order in prop::collection::vec(0_usize..6, 1..20),
        at in any::<prop::sample::Index>(), byte in select(b"{}[]\",:\\n x".to_vec()),
    ) {
        let wanted = PathTree::new(&paths);
        let mut used = Scan::new(wanted.clone());
        for number in order {
            let mut text = texts[number % texts.len()].clone().into_bytes();
            let [said, alone] = both(&mut used, &text, &wanted);
            prop_assert_eq!(said, alone, "{}", text.escape_ascii());
            let at = at.index(text.len());
            text[at] = byte;
            let [said, alone] = both(&mut used, &text, &wanted);
            prop_assert_eq!(said, alone, "{}", text.escape_ascii());
            let [said, alone] = both(&mut used, &text[..at], &wanted);
            prop_assert_eq!(said, alone, "{}", text[..at].escape_ascii());
        }
    }

    #[test]
    fn a_changed_byte_makes_neither_panic_nor_differ(
        text in object(), paths in paths(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        structural in select(b"{}[]\",:\\ntf0-.\x00\x80".to_vec()),
    ) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        for byte in [byte, structural] {
            bytes[at] = byte;
            agree(&bytes, &paths)?;
        }
    }

    #[test]
    fn a_text_cut_anywhere_is_refused(text in object(), paths in paths()) {
        for cut in 0..text.len() {
            prop_assert!(scanned(&text.as_bytes()[..cut], &paths).is_none(), "{}", &text.as_bytes()[..cut].escape_ascii());
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), paths in paths()) {
        let object = [b"{\"id\":", &bytes[..]].concat();
        agree(&bytes, &paths)?;
        agree(&object, &paths)?;
    }

    #[test]
    fn a_reward_has_the_bits_of_the_correctly_rounded_number(
        text in "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", bits in any::<u64>(),
    ) {
        let exact = f64::from_bits(bits);
        let written = if exact.is_finite() { format!("{exact:e}") } else { "0".to_owned() };
        for text in [text, written] {
            let wanted = text.parse::<f64>().unwrap() + 0.0;
            match reward(Some(text.as_bytes())) {
                RewardValue::Value(value) => prop_assert_eq!(value.to_bits(), wanted.to_bits(), "{}", text),
                other => prop_assert!(other == RewardValue::Infinite && wanted.abs() > 1e100, "{}", text),
            }
        }
    }
}

#[test]
fn nested_decoys_and_strings_that_look_like_members_are_passed_over() {
    let text = br#"{"x":{"id":1},"y":["id",{"id":2}],"z":"\"id\":3,","id":4}"#;
    let (_, values) = scanned(text, &[Path::parse("id").unwrap()]).unwrap();
    assert_eq!(&text[values[0].clone().unwrap()], b"4");
}

#[test]
fn a_key_that_stands_twice_is_reported_and_the_last_counts() {
    let text = br#"{"id":1,"meta":{"id":7},"i\u0064":2}"#;
    let (found, values) =
        scanned(text, &[Path::parse("id").unwrap(), Path::parse("meta.id").unwrap()]).unwrap();
    assert!(found.duplicate);
    assert_eq!(
        (&text[values[0].clone().unwrap()], &text[values[1].clone().unwrap()]),
        (&b"2"[..], &b"7"[..])
    );
}

#[test]
fn a_replaced_object_takes_its_members_with_it() {
    let text = br#"{"meta":{"id":7},"meta":{"x":1}}"#;
    let (_, values) = scanned(text, &[Path::parse("meta.id").unwrap()]).unwrap();
    assert_eq!(values, [None]);
}

#[test]
fn a_path_with_an_empty_segment_is_refused() {
    for text in ["", ".", "a.", ".a", "a..b"] {
        assert!(matches!(Path::parse(text), Err(karl_log::Error::Field { .. })), "{text:?}");
    }
    assert_eq!(Path::parse(r"a\.b.c\d").unwrap().segments(), ["a.b", r"c\d"]);
}
