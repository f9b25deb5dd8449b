//! Each family of secrets, in texts, nested JSON, escapes, keys and addresses.

use karl_log::export::{ExportSettings, Prepared, Shape};
use karl_log::read::read;
use karl_log::{Error, Watch};
use serde_json::{Map, Value, json};

use super::{assert_gone, counts, drafted, many, raw, secrets};
use crate::logs;

#[test]
fn each_family_is_replaced_and_counted_and_its_surroundings_stay() {
    for (family, before, secret, after) in secrets() {
        let draft = raw(&json!({"text": format!("so {before}{secret}{after} it is")}));
        assert_gone(&draft, family, &secret, logs::first(&draft));
        let row: Value = serde_json::from_str(logs::first(&draft)).unwrap();
        assert_eq!(row["text"], format!("so {before}[REDACTED:{family}]{after} it is"));
    }
}

#[test]
fn at_least_twenty_families_are_known() {
    let families: std::collections::BTreeSet<_> = secrets().into_iter().map(|(family, ..)| family).collect();
    assert_eq!(families.len(), 20);
}

#[test]
fn a_secret_is_found_after_any_neighbour() {
    for (family, before, secret, after) in secrets() {
        for left in ["", "=", "\"", "'", "\n", "密钥", "é", "\u{1b}[32m", "\\n", "\\t", "\\u0026"] {
            let draft = raw(&json!({"text": format!("{left}{before}{secret}{after}")}));
            assert_gone(&draft, family, &secret, left);
        }
    }
}

#[test]
fn a_secret_inside_json_inside_a_string_is_found() {
    for (family, before, secret, after) in secrets() {
        let mut text = json!({"command": format!("x\n{before}{secret}{after}\n")}).to_string();
        for level in 1..3 {
            let draft = raw(&json!({"messages": [{"tool_calls": [{"arguments": text}]}]}));
            let last = secret.lines().last().unwrap();
            assert!(
                !logs::first(&draft).contains(last) && counts(&draft) == [(family, 1)],
                "{family} at level {level}"
            );
            text = json!({ "inner": text }).to_string();
        }
    }
}

#[test]
fn a_secret_written_with_escapes_is_found() {
    for (family, before, secret, after) in secrets() {
        let unit = |unit| format!("\\u{unit:04x}");
        let escape = |text: &str| text.encode_utf16().map(unit).collect::<String>();
        let draft = drafted(
            &format!("{{\"text\":\"{}\"}}", escape(&format!("{before}{secret}{after}"))),
            Shape::Raw,
            false,
        );
        assert_gone(&draft, family, &secret, "escaped");
    }
}

#[test]
fn a_secret_in_a_key_an_id_or_a_replaced_value_is_found() {
    let secret = ["gh", "p_", &many(36)].concat();
    for record in
        [json!({"x": {secret.clone(): 1}}), json!({secret.clone(): 1}), json!({"id": secret, "group": 1})]
    {
        assert_gone(&raw(&record), "github", &secret, &record.to_string());
    }
    let chat = drafted(&json!({"id": secret, "text": "t"}).to_string(), Shape::Chat, false);
    assert!(!logs::first(&chat).contains(&secret));
    let hidden = drafted(&format!("{{\"a\":\"{secret}\",\"a\":\"clean\"}}"), Shape::Raw, false);
    assert_eq!(logs::first(&hidden), r#"{"a":"clean"}"#);
}

#[test]
fn two_secret_keys_keep_their_values() {
    let record: Map<String, Value> =
        (0..3).map(|at| (["gh", "p_", &many(36 + at)].concat(), json!(at))).collect();
    let row: Value = serde_json::from_str(logs::first(&raw(&Value::Object(record)))).unwrap();
    let values: Vec<_> = row.as_object().unwrap().values().cloned().collect();
    assert_eq!(values, [json!(0), json!(1), json!(2)]);
}

#[test]
fn replacing_twice_changes_and_counts_nothing_more() {
    let part = |(_, before, secret, after)| format!("{before}{secret}{after} ");
    let text: String = secrets().into_iter().map(part).collect();
    let once = raw(&json!({"text": text, "at": format!("https://u:{}@h", ["gh", "p_", &many(36)].concat())}));
    assert!(once.secrets.values().sum::<u64>() >= 25);
    let twice = drafted(logs::first(&once), Shape::Raw, false);
    assert_eq!((&twice.lines, counts(&twice)), (&once.lines, vec![]));
}

#[test]
fn secrets_stay_if_the_caller_says_so() {
    let secret = ["gh", "p_", &many(36)].concat();
    let record = format!("{{ \"text\":\"{secret}\"}}");
    let draft = drafted(&record, Shape::Raw, true);
    assert_eq!((draft.lines, draft.secrets.len()), (vec![Some(record)], 0));
}

#[test]
fn what_two_families_match_is_replaced_once() {
    let secret = ["gh", "p_", &many(36)].concat();
    for (text, clean) in [
        (format!("https://{secret}@github.com/a/b"), "https://[REDACTED:github]@github.com/a/b"),
        (format!("https://user:{secret}@github.com/a"), "https://user:[REDACTED:github]@github.com/a"),
        (format!("GITHUB_TOKEN={secret}"), "GITHUB_TOKEN=[REDACTED:github]"),
        (format!("Authorization: Bearer {secret}"), "Authorization: Bearer [REDACTED:github]"),
    ] {
        let draft = raw(&json!({"text": text}));
        assert_eq!(logs::first(&draft), json!({"text": clean}).to_string());
        assert_eq!(counts(&draft), [("github", 1)], "{text}");
    }
}

#[test]
fn passwords_in_addresses_are_found() {
    for (text, clean) in [
        ("redis://:pw7Kx2@h:6379/0", "redis://:[REDACTED:url-password]@h:6379/0"),
        ("POSTGRES://u:pw7Kx2@h/d", "POSTGRES://u:[REDACTED:url-password]@h/d"),
        ("postgres://u:p7@Kx/2w@db.io:5432/d", "postgres://u:[REDACTED:url-password]@db.io:5432/d"),
        ("amqp%3A%2F%2Fu%3Apw7Kx2%40h%2Fv", "amqp%3A%2F%2Fu%3A[REDACTED:url-password]%40h%2Fv"),
        ("mysql:\\/\\/u:pw7Kx2@h\\/d", "mysql:\\/\\/u:[REDACTED:url-password]@h\\/d"),
    ] {
        assert_eq!(logs::first(&raw(&json!({"text": text}))), json!({"text": clean}).to_string());
    }
}

#[test]
fn beginnings_of_secrets_over_and_over_take_no_quadratic_time() {
    let seeds = [
        "a://b:",
        "a://@",
        "sk-ant-",
        "eyJ-",
        "token=",
        "\"password\": \"",
        "{\"",
        "sk-",
        "eyJ",
        "aws_secret_access_key ",
        "-----BEGIN PRIVATE KEY-----",
        "\\n",
        "é",
    ];
    for seed in seeds {
        let text = seed.repeat(60_000 / seed.len());
        let secret = ["gh", "p_", &many(36)].concat();
        let draft = raw(&json!({"text": text, "secret": secret}));
        assert_eq!(draft.secrets.get("github"), Some(&1), "{seed}");
    }
}

#[test]
fn a_stopped_draft_says_so() {
    let folder = logs::folder();
    let log =
        read(logs::open(&logs::files(&folder, &["{\"text\":\"t\"}"])), &logs::settings(), &Watch::new())
            .unwrap();
    let watch = Watch::new();
    watch.stop();
    let facts = karl_log::export::SelectionValues { rewards: &[0.0], scores: &[0.0], log_weight: &|_| 0.0 };
    let ranking = karl_core::sample::Ranking::given(&[0], 1).unwrap();
    let settings = ExportSettings {
        shape: Shape::Chat,
        allow_secrets: false,
        pseudonyms: None,
        prepared: Prepared::Held,
        max_per_group: None,
        dealt: false,
        seed: 0,
        threads: 2,
    };
    assert!(matches!(
        karl_log::export::draft(
            &log,
            facts,
            karl_log::export::Draw::Ranked { ranking, count: 1, strata: None },
            settings,
            None,
            &watch,
        ),
        Err(Error::Interrupted)
    ));
}
