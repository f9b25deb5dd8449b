//! Placeholders and other texts that only look like secrets.

use serde_json::json;

use super::{counts, hex, many, raw};
use crate::logs;

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
