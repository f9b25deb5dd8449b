//! Secrets are replaced and counted wherever they stand in a row, and what only looks like one is left alone.
//!
//! Every secret is put together at run time, so that none stands in this file.

mod families;
mod is_json;
mod placeholders;
mod private_keys;

use karl_log::Watch;
use karl_log::export::{Draft, ExportSettings, Prepared, Shape};
use karl_log::read::read;
use serde_json::Value;

use crate::logs;

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
            seed: 0,
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
