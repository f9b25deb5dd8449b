//! Secrets are replaced and counted wherever they stand in a row, and what only looks like one is left alone.
//!
//! Every secret is put together at run time, so that none stands in this file.
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

mod logs;

use karl_log::export::{Draft, ExportSettings, Prepared, Shape};
use karl_log::read::read;
use karl_log::{Error, Watch};
use serde_json::{Map, Value, json};

/// So many characters of an alphabet, none of them special.
fn many(count: usize) -> String {
    "a1B2c3D4e5".chars().cycle().take(count).collect()
}

fn hex(count: usize) -> String {
    "0f1e2d3c".chars().cycle().take(count).collect()
}

/// Family, what stands before the secret, the secret, and what stands after it.
fn secrets() -> Vec<(&'static str, String, String, &'static str)> {
    let bare = |family, parts: &[&str]| (family, String::new(), parts.concat(), "");
    let key = |kind: &str| {
        format!(
            "-----{}{kind}PRIVATE KEY-----\nMII{}\n-----{}{kind}PRIVATE KEY-----",
            "BEGIN ",
            many(64),
            "END "
        )
    };
    vec![
        bare("anthropic", &["sk-", "ant-api03-", &many(24)]),
        bare("aws-access-key", &["AK", "IA", "ABCDEFGHIJKLMNOP"]),
        ("aws-secret-key", "AWS_SECRET_ACCESS".to_owned() + "_KEY=", many(40), ""),
        ("aws-secret-key", "MY_aws_secret_access".to_owned() + "_key\": \"", many(40), "\""),
        ("azure-storage", "Account".to_owned() + "Key=", many(86) + "==", ""),
        bare("databricks", &["da", "pi", &hex(32)]),
        bare("digitalocean", &["do", "p_v1_", &hex(64)]),
        bare("github", &["gh", "p_", &many(36)]),
        bare("github", &["github", "_pat_", &many(40)]),
        bare("gitlab", &["gl", "pat-", &many(20)]),
        bare("google", &["AI", "za", &many(35)]),
        bare("hugging-face", &["h", "f_", &many(34)]),
        bare("jwt", &["ey", "J", &many(20), ".ey", "J", &many(30), ".", &many(40)]),
        bare("npm", &["np", "m_", &many(36)]),
        bare("openai", &["sk-", "proj-", &many(48)]),
        bare("openai", &["sk", "-", &many(48)]),
        bare("private-key", &[&key("RSA ")]),
        bare("private-key", &[&key("")]),
        bare("pypi", &["pypi", "-AgE", &many(60)]),
        bare("sendgrid", &["S", "G.", &many(22), ".", &many(43)]),
        bare("slack", &["xo", "xb-", &many(24)]),
        bare("slack", &["xa", "pp-1-", &many(24)]),
        bare("slack-webhook", &["https://hooks.", "slack.com/services/", "T0/B0/", &many(24)]),
        bare("stripe", &["sk", "_live_", &many(24)]),
        bare("stripe", &["sk", "_test_", &many(24)]),
        ("url-password", "postgres://user:".to_owned(), many(10), "@db.example.com/x"),
    ]
}

fn drafted(record: &str, shape: Shape, allow_secrets: bool) -> Draft {
    let folder = logs::folder();
    let log = read(logs::open(&logs::files(&folder, &[record])), &logs::settings(), &Watch::new()).unwrap();
    logs::draft_of(
        &log,
        &[0],
        1,
        ExportSettings {
            shape,
            allow_secrets,
            pseudonyms: None,
            prepared: Prepared::Held,
            max_per_group: None,
            dealt: false,
            threads: 1,
        },
    )
}

fn raw(record: &Value) -> Draft {
    drafted(&record.to_string(), Shape::Raw, false)
}

fn counts(draft: &Draft) -> Vec<(&'static str, u64)> {
    draft.secrets.clone().into_iter().collect()
}

/// The secret must be gone from the row, and counted once under its family.
fn assert_gone(draft: &Draft, family: &'static str, secret: &str, row: &str) {
    assert!(!logs::first(draft).contains(secret.lines().last().unwrap()), "{family}: {row}");
    assert!(logs::first(draft).contains(&format!("[REDACTED:{family}]")), "{family}: {}", logs::first(draft));
    assert_eq!(counts(draft), [(family, 1)], "{row}");
}

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
fn what_only_looks_like_a_secret_stays() {
    let misses = [
        ["sk-", "learn"].concat(),
        ["sk-", &many(31)].concat(),
        ["task-", "sk", &many(40)].concat(),
        ["ta", "sk-", &many(40)].concat(),
        ["AK", "IA", "ABCDEFGHIJKLMNO"].concat(),
        ["AK", "IA", "abcdefghijklmnop"].concat(),
        ["xAK", "IA", "ABCDEFGHIJKLMNOP"].concat(),
        ["gh", "p_", &many(35)].concat(),
        ["ngh", "p_", &many(36)].concat(),
        ["gl", "pat-", &many(19)].concat(),
        ["AI", "za", &many(34)].concat(),
        ["h", "f_", &many(29)].concat(),
        ["h", "f_", "hub_download"].concat(),
        ["da", "pi", &hex(31)].concat(),
        ["np", "m_", "run_build"].concat(),
        "eyJhbGciOi.x.y".to_owned(),
        "https://example.com:8080/a@b".to_owned(),
        "https://user@example.com".to_owned(),
        "ssh://git@github.com:22/x".to_owned(),
        "https://u:short@h".to_owned(),
        "aws_secret_access_key = os.environ".to_owned(),
        "-----BEGIN PUBLIC KEY-----".to_owned(),
        "-----BEGIN CERTIFICATE-----".to_owned(),
        ["xo", "xb-short"].concat(),
        hex(64),
        many(40),
        "AccountKey=".to_owned(),
        "[REDACTED:openai]".to_owned(),
        "https://hooks.slack.com/docs".to_owned(),
    ];
    for miss in misses {
        let record = json!({"text": format!("see {miss} .")});
        let draft = raw(&record);
        assert_eq!((logs::first(&draft), counts(&draft)), (record.to_string().as_str(), vec![]), "{miss}");
    }
}

/// Lines of base64 as a key has them.
fn lines(count: usize, end: &str) -> String {
    (0..count).map(|line| many(63) + &line.to_string() + end).collect()
}

#[test]
fn a_mention_of_a_private_key_takes_nothing_with_it() {
    let begin = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let end = ["-----END RSA ", "PRIVATE KEY-----"].concat();
    for text in [
        format!("look for `{begin}` in the files, then answer"),
        format!("grep -l '{begin}' *\nid_rsa\nthe rest of it"),
        format!("{begin}\n...\n{end} is how it looks"),
        format!("if text.startswith(\"{begin}\"):\n    return load(text)\n"),
        format!("{begin} and much later\n{end}"),
    ] {
        let record = json!({"text": text});
        assert_eq!(logs::first(&raw(&record)), record.to_string(), "{text}");
    }
}

#[test]
fn a_private_key_is_replaced_however_its_lines_are_written() {
    let begin = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let end = ["-----END RSA ", "PRIVATE KEY-----"].concat();
    for line in [
        "\n",
        "\r\n",
        "\\n",
        "\\\\n",
        "\\r\\n",
        "\n+",
        "\n-",
        "\n    ",
        "\n   12\u{2192}",
        "\n12: ",
        "\n> ",
        "%0A",
    ] {
        let key = format!("{begin}{line}{}{end}", lines(6, line));
        let draft = raw(&json!({"text": format!("a {key} b")}));
        assert_eq!(
            logs::first(&draft),
            json!({"text": "a [REDACTED:private-key] b"}).to_string(),
            "{line:?}"
        );
        assert_eq!(counts(&draft), [("private-key", 1)], "{line:?}");
    }
    let header = format!(
        "{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{}\n\n{}{end}",
        hex(32),
        lines(6, "\n")
    );
    assert_eq!(counts(&raw(&json!({"text": header}))), [("private-key", 1)]);
}

#[test]
fn of_a_private_key_without_an_end_only_its_body_is_replaced() {
    let begin = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let text = format!("{begin}\n{}\nthe output was cut here", lines(5, "\n"));
    let draft = raw(&json!({"text": text}));
    let clean = format!("{begin}\n[REDACTED:private-key]\n\nthe output was cut here");
    assert_eq!(logs::first(&draft), json!({"text": clean}).to_string());
}

#[test]
fn a_private_key_in_quoted_lines_keeps_its_quotes() {
    let begin = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let end = ["-----END RSA ", "PRIVATE KEY-----"].concat();
    let lines: Vec<String> = (0..3).map(|line| format!("{}{line}", many(63))).collect();
    let text = json!([begin, lines[0], lines[1], lines[2], end, "next"]).to_string();
    let draft = raw(&json!({"text": format!("see {text}")}));
    let clean = json!([begin, "[REDACTED:private-key]", "", "", end, "next"]).to_string();
    assert_eq!(logs::first(&draft), json!({"text": format!("see {clean}")}).to_string());
    assert_eq!(counts(&draft), [("private-key", 1)]);
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
fn what_stands_for_a_password_in_an_address_stays() {
    for value in
        ["<password>", "${TOKEN}", "$TOKEN", "changeme", "********", "{{ secrets.TOKEN }}", "password123"]
    {
        let record = json!({"text": format!("postgres://user:{value}@host/x")});
        assert_eq!(logs::first(&raw(&record)), record.to_string(), "{value}");
    }
}

#[test]
fn what_stands_for_a_secret_stays() {
    for value in [
        "<YOUR_API_KEY>",
        "${TOKEN}",
        "$TOKEN",
        "$(pass show x)",
        "os.environ[\"X\"]",
        "xxxxxxxxxxxxxxxx",
        "****************",
        "changeme",
        "getpass.getpass()",
        "None",
        "null",
        "str",
        "self.password",
        "settings.api_key",
        "your-api-key-here-123",
        "{{ secrets.TOKEN }}",
        "process.env.API_KEY",
        "password123",
    ] {
        for text in [
            format!("api_key = {value}"),
            format!("\"password\": \"{value}\""),
            format!("export DB_PASSWORD={value}"),
            format!("--token {value} go"),
            format!("token: {value}"),
        ] {
            let record = json!({"text": text});
            assert_eq!(logs::first(&raw(&record)), record.to_string(), "{text}");
        }
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
    let facts = karl_log::export::RowFacts { rewards: &[0.0], scores: &[0.0], log_weight: &|_| 0.0 };
    let ranking = karl_core::sample::Ranking::given(&[0], 1).unwrap();
    let settings = ExportSettings {
        shape: Shape::Chat,
        allow_secrets: false,
        pseudonyms: None,
        prepared: Prepared::Held,
        max_per_group: None,
        dealt: false,
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
