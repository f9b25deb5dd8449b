//! What each kind of id, group and reward comes to in the columns.

use karl_core::rng::id128;
use karl_log::format::Overrides;
use karl_log::log::Account;
use karl_log::read::ReadSettings;
use karl_log::rejects::OrderKinds;

use crate::logs::{bad, log, log_with, settings};

/// The reward column's bits, or the reason why the row is bad.
fn reward(text: &str) -> Result<u64, &'static str> {
    let log = log(format!("{{\"id\":1,\"reward\":{text},\"x\":0}}\n"));
    if log.is_empty() { Err(bad(&log)[0].0) } else { Ok(log.components[0][0].to_bits()) }
}

#[test]
fn a_reward_is_a_number_or_a_truth_value() {
    let cases = [
        ("0.1", 0.1),
        ("1", 1.0),
        ("-2.5e-3", -2.5e-3),
        ("9007199254740993", 9_007_199_254_740_992.0),
        ("-0.0", 0.0),
        ("-0", 0.0),
        ("1e-400", 0.0),
        ("5e-324", 5e-324),
        ("1e100", 1e100_f64),
        ("true", 1.0),
        ("false", 0.0),
        ("0.1000000000000000055511151231257827", 0.1),
    ];
    for (text, wanted) in cases {
        assert_eq!(reward(text), Ok(wanted.to_bits()), "{text}");
    }
}

#[test]
fn a_missing_reward_is_missing_and_not_zero() {
    for text in ["null", "NaN"] {
        assert!(f64::from_bits(reward(text).unwrap()).is_nan(), "{text}");
    }
    assert!(log("{\"id\":1}\n").components[0][0].is_nan());
}

#[test]
fn any_other_reward_is_a_bad_row_by_name() {
    for text in [
        "\"0.5\"",
        "\"\"",
        "[]",
        "[1]",
        "{}",
        "{\"value\":1}",
        "nan",
        "inf",
        "01",
        "+1",
        "1.",
        "--1",
        "0x1",
        "1_0",
    ] {
        assert_eq!(reward(text), Err("reward_not_a_number"), "{text}");
    }
    for text in
        ["Infinity", "-Infinity", "1e400", "1.0000000000000002e100", "-1.7976931348623157e308", "-1e400"]
    {
        assert_eq!(reward(text), Err("reward_infinite"), "{text}");
    }
}

/// The group's name, `None` for none, or the reason why the row is bad.
fn group(raw: &[u8]) -> Result<Option<String>, &'static str> {
    let log = log([b"{\"id\":1,\"group\":", raw, b",\"reward\":1}\n"].concat());
    if log.is_empty() { Err(bad(&log)[0].0) } else { Ok(log.group.name(0).map(str::to_owned)) }
}

#[test]
fn a_group_is_the_text_of_a_string_number_or_truth_value() {
    let cases: [(&[u8], Option<&str>); 12] = [
        (b"\"a\"", Some("a")),
        (b"\"\"", Some("")),
        (b"\"\\u0061\\n\"", Some("a\n")),
        (b"7", Some("7")),
        (b"7.0", Some("7.0")),
        (b"1e400", Some("1e400")),
        (b"-0", Some("-0")),
        (b"true", Some("true")),
        (b"false", Some("false")),
        (b"null", None),
        (b"\"\\ud83d\\ude00\"", Some("\u{1f600}")),
        (b"\"null\"", Some("null")),
    ];
    for (raw, wanted) in cases {
        assert_eq!(group(raw), Ok(wanted.map(str::to_owned)), "{}", raw.escape_ascii());
    }
}

#[test]
fn any_other_group_is_a_bad_row() {
    let cases: [&[u8]; 9] =
        [b"{}", b"[]", b"[\"a\"]", b"\"\\ud800\"", b"\"\xff\"", b"\"\x01\"", b"NaN", b"abc", b"\"\\x\""];
    for raw in cases {
        assert_eq!(group(raw), Err("bad_group"), "{}", raw.escape_ascii());
    }
}

#[test]
fn an_id_is_the_hash_of_its_text_however_it_is_written() {
    let log = log("{\"id\":\"a7\"}\n{\"id\":\"\\u00617\"}\n{\"\\u0069d\" : \"a7\" }\n");
    assert!(log.keys.iter().all(|key| key.id == id128(b"a7")));
    assert_eq!((log.len(), log.accounts[0].without_id), (3, 0));
}

#[test]
fn a_record_without_id_has_the_hash_of_its_bytes() {
    for row in ["{\"reward\":1}", "{\"id\":null}"] {
        let log = log(format!("{row}\n"));
        assert_eq!(
            (log.keys.get(0).id, log.digests()[0], log.accounts[0].without_id),
            (id128(row.as_bytes()), (id128(row.as_bytes()) >> 64) as u64, 1)
        );
    }
}

#[test]
fn an_id_that_is_no_text_is_a_bad_row() {
    for raw in ["{}", "[1]", "\"\\ud800\"", "NaN", "{\"id\":1}"] {
        assert_eq!(bad(&log(format!("{{\"id\":{raw}}}\n"))), [("bad_id", 1)], "{raw}");
    }
}

#[test]
fn an_id_of_several_parts_needs_them_all() {
    let overrides = Overrides { id: Some("meta.task, n".to_owned()), ..Overrides::default() };
    let mut settings = settings();
    settings.wishes.overrides = overrides;
    let text = "{\"meta\":{\"task\":\"t\"},\"n\":3,\"reward\":1}\n{\"n\":3,\"reward\":1}\n{\"meta\":{\"task\":[]},\"n\":3}\n";
    let log = log_with(&[text], &settings);
    assert!(log.keys.iter().any(|key| key.id == id128(b"t/3")));
    assert_eq!((log.len(), log.accounts[0].without_id, bad(&log)), (2, 1, vec![("bad_id", 3)]));
}

#[test]
fn every_component_has_its_column_and_one_bad_one_spoils_the_row() {
    let mut settings = ReadSettings { threads: 2, ..settings() };
    settings.wishes.overrides.reward = Some(vec!["r.a".to_owned(), "r.b".to_owned()]);
    settings.wishes.overrides.partition = Some("p".to_owned());
    let text = "{\"r\":{\"a\":1,\"b\":2},\"p\":\"x\"}\n{\"r\":{\"a\":3}}\n{\"r\":{\"a\":1,\"b\":\"2\"}}\n{\"r\":{},\"p\":[]}\n";
    let log = log_with(&[text], &settings);
    assert_eq!(
        (log.len(), log.components.len(), bad(&log)),
        (2, 2, vec![("reward_not_a_number", 3), ("bad_category", 4)])
    );
    let row = usize::from(log.components[0][0] > 2.0);
    assert_eq!((log.components[1][row].to_bits(), log.partition.name(row)), (2.0_f64.to_bits(), Some("x")));
}

#[test]
fn an_order_is_a_column_beside_the_components_and_a_row_without_one_is_a_bad_row() {
    let mut settings = ReadSettings { threads: 2, ..settings() };
    settings.wishes.overrides.order = Some("meta.at".to_owned());
    let texts = [
        "{\"id\":1,\"reward\":1,\"meta\":{\"at\":\"1970-01-01T00:00:02Z\"}}\n{\"id\":2,\"reward\":1,\"meta\":{}}\n",
        "\n{\"id\":3,\"reward\":2,\"meta\":{\"at\":7}}\n{\"id\":4,\"meta\":{\"at\":\"soon\"}}\n",
    ];
    let log = log_with(&texts, &settings);
    let mut orders: Vec<(f64, f64)> =
        log.components[0].iter().copied().zip(log.order.clone().unwrap()).collect();
    orders.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!((orders, log.components.len()), (vec![(1.0, 2.0), (2.0, 7.0)], 1));
    let [first, second] = &log.accounts[..] else { panic!("two files") };
    assert_eq!(first.orders, OrderKinds { number: None, time: Some((1, 0)) });
    assert_eq!(second.orders, OrderKinds { number: Some((2, 1)), time: None });
    let value = |account: &Account| (account.places[0].reason.name(), account.places[0].value.clone());
    assert_eq!(value(first), ("bad_order", None));
    assert_eq!(value(second), ("bad_order", Some("\"soon\"".to_owned())));
}

#[test]
fn identical_trajectories_of_one_group_are_told_whatever_their_ids() {
    let text = "{\"id\":1,\"group\":\"g\",\"text\":\"x\"}\n{\"id\":2,\"group\":\"g\",\"text\":\"x\"}\n{\"id\":3,\"group\":\"h\",\"text\":\"x\"}\n{\"id\":4,\"group\":\"g\",\"prompt\":\"x\"}\n";
    assert_eq!(log(text).duplicates(), (0, Some(1)));
}
