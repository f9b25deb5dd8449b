//! Names of secrets, `DB_PASSWORD` or `apiKey`, and checks of their values.

use super::is_secret::{
    is_basic, is_key, is_mixed_key, is_password, is_seed, is_strong, is_weak, is_weak_value,
};
use super::secret::NAMES;

/// Maximum length of a name before and after its word.
pub(super) const LONGEST: usize = 64;

/// Endings of names of passwords, without separators, in lower case.
const PASSWORDS: [&str; 8] =
    ["password", "passwd", "passphrase", "passcode", "pwd", "requirepass", "masterauth", "userpass"];

/// Endings of names of keys, likewise.
#[rustfmt::skip]
const KEYS: [&str; 50] = [
    "secretkey", "apikey", "accesskey", "privatekey", "authkey", "accountkey", "sharedkey", "signingkey",
    "encryptionkey", "masterkey", "storagekey", "servicekey", "licensekey", "ingestkey", "writekey", "readkey",
    "adminkey", "appkey", "applicationkey", "subscriptionkey", "integrationkey", "deploykey", "serverkey", "clientkey",
    "sessionkey", "consumerkey", "restkey", "functionskey", "hmackey", "jwtkey", "rolekey", "webhookkey", "openaikey",
    "anthropickey", "mistralkey", "coherekey", "deepgramkey", "elevenlabskey", "geminikey", "azurekey", "awskey",
    "sdkkey", "mobilekey", "stripekey", "datadogkey", "algoliakey", "segmentkey", "sendgridkey", "mailgunkey", "twiliokey",
];

/// Services without a form of their own whose keys are named after them, as in `deepl_key`, likewise.
#[rustfmt::skip]
const SERVICES: [&str; 60] = [
    "abuseipdb", "adobe", "alchemy", "amplitude", "assemblyai", "auth0", "baseten", "bing", "bitly", "browserless",
    "brave", "calendly", "cloudinary", "coinbase", "coingecko", "deepl", "etherscan", "exa", "fal", "fastly", "finnhub",
    "gcp", "giphy", "google", "grafana", "groq", "here", "hunter", "huggingface", "infura", "intercom", "klaviyo", "lark",
    "linear", "mailjet", "mapbox", "maps", "mixpanel", "newsapi", "notion", "opencage", "openweather", "pexels",
    "pinecone", "polygon", "postmark", "quandl", "replicate", "scrapingbee", "sentry", "serpapi", "shodan", "slack",
    "telegram", "unsplash", "virustotal", "weather", "xai", "youtube", "zenrows",
];

/// Endings of names of tokens and similar, likewise.
const TOKENS: [&str; 10] = [
    "secret",
    "token",
    "secretid",
    "privatekeyid",
    "clientkeydata",
    "credential",
    "credentials",
    "authorization",
    "accesskeysecret",
    "secretkeybase",
];

/// Parts of names that do not name a secret, likewise.
#[rustfmt::skip]
const HARMLESS: [&str; 34] = [
    "public", "pagetoken", "nexttoken", "synctoken", "continuationtoken", "cancellationtoken", "csrf", "idempotency",
    "eostoken", "bostoken", "padtoken", "unktoken", "masktoken", "septoken", "clstoken", "cachekey", "pubkey",
    "tokenizer", "imagetoken", "clienttoken",
    "changetoken", "requesttoken", "purchasetoken", "gpgkey", "hostkey", "partitionkey", "sortkey", "primarykey",
    "foreignkey", "objectkey", "s3key", "logkey", "commitkey", "routingkey",
];

/// Words after a name that describe the place or form of its value.
const TAILS: [&str; 12] =
    ["value", "prod", "production", "dev", "staging", "live", "b64", "base64", "plain", "raw", "text", "str"];

/// Owners of a password in a lower-case name that ends in `pass`: `first_pass` and `forward_pass` are not
/// passwords.
const OWNERS: [&str; 24] = [
    "db", "database", "user", "admin", "root", "login", "auth", "basic", "http", "proxy", "smtp", "imap",
    "mail", "ftp", "ssh", "sudo", "sql", "postgres", "pg", "redis", "mongo", "amqp", "rabbit", "rabbitmq",
];

/// Check that a value has to pass to be a secret under its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NameKind {
    Password,
    Key,
    Aws,
    Basic,
    /// A key of something unknown: its value has to be of capitals, small letters and digits.
    AnyKey,
}

/// Return whether a name has a word of the name of a secret.
fn has_word(name: &str) -> bool {
    let bytes = name.as_bytes();
    let word = |at: usize| {
        // The cheap question first: 0x7f is `_`.
        matches!(bytes[at] | 0x20, b'a' | b'c' | b'k' | b'p' | b's' | b't' | b'-' | 0x7f)
            && NAMES.iter().any(|word| {
                bytes[at..].get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
            })
    };
    (3..=LONGEST).contains(&bytes.len()) && (0..bytes.len() - 2).any(word)
}

/// Return whether [`literal`] may find a secret under a name.
pub(super) fn may_name(name: &str) -> bool {
    !name.is_empty() && (is_seed_name(name) || has_word(name) && kind(name).is_some())
}

/// Return the check for the value of a name; `None` if it is not the name of a secret.
pub(super) fn kind(name: &str) -> Option<NameKind> {
    let name = name.trim_matches(['-', '_', '.']);
    let mut plain: String = name
        .bytes()
        .filter(u8::is_ascii_alphanumeric)
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect();
    plain.truncate(plain.trim_end_matches(|letter: char| letter.is_ascii_digit()).len());
    for tail in TAILS {
        if plain.len() > tail.len() + 4 && plain.ends_with(tail) {
            plain.truncate(plain.len() - tail.len());
        }
    }
    // Plural, for a list.
    if ["passwords", "passwds", "tokens", "secrets", "keys"].iter().any(|end| plain.ends_with(end)) {
        plain.pop();
    }
    // Most endings differ in the last letter.
    let last = plain.bytes().last();
    let ends = |ends: &[&str]| ends.iter().any(|end| end.bytes().last() == last && plain.ends_with(end));
    let is_key = || if plain.ends_with("key") { ends(&KEYS) } else { ends(&TOKENS) };
    let upper = || name.ends_with("_KEY") && !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let kind = match () {
        () if ends(&["secretaccesskey", "awssecretkey", "awssecret"]) => NameKind::Aws,
        () if ends(&PASSWORDS) || is_pass(name) => NameKind::Password,
        () if plain == "auth" || name.ends_with("_auth") => NameKind::Basic,
        () if is_key() || upper() || is_service(&plain) || is_access_token(name) => NameKind::Key,
        () if ["_key", "-key", "Key"].iter().any(|end| name.ends_with(end)) => NameKind::AnyKey,
        () => return None,
    };
    (!HARMLESS.iter().any(|part| plain.contains(part))).then_some(kind)
}

/// Return whether a name is that of a personal access token, `GITLAB_PAT`.
fn is_access_token(name: &str) -> bool {
    let end = name.len().checked_sub("_pat".len()).and_then(|at| name.get(at..));
    end.is_some_and(|end| ["_pat", "-pat"].iter().any(|pat| end.eq_ignore_ascii_case(pat)))
}

/// Return whether a name is that of the key of a known service.
fn is_service(plain: &str) -> bool {
    plain.strip_suffix("key").is_some_and(|owner| SERVICES.iter().any(|service| owner.ends_with(service)))
}

/// Return whether a name ends in the word `pass`.
fn is_pass(name: &str) -> bool {
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let at = name.len().saturating_sub(4);
    let Some((before, word)) = name.split_at_checked(at) else { return false };
    let owner = before.trim_end_matches(['_', '-', '.']).to_ascii_lowercase();
    let is_known = owner.is_empty() || OWNERS.iter().any(|known| owner.ends_with(known));
    match word {
        "PASS" => before.ends_with('_') || before == "DB" || before.is_empty(),
        "pass" => is_known && (owner.is_empty() || owner.len() < before.len() || owner == "db"),
        "Pass" => is_known,
        _ => false,
    }
}

/// Return the family of a value under its name, if it looks like a secret.
pub(super) fn family(name: &str, value: &str) -> Option<&'static str> {
    let kind = if has_word(name) { kind(name)? } else { return None };
    let value = value.trim_end_matches(['.', '!']);
    if is_folder(name) && value.starts_with(['/', '~', '\\']) {
        return None;
    }
    match kind {
        NameKind::Aws if is_aws(value) => Some("aws-secret-key"),
        NameKind::Aws | NameKind::Key if is_key(value) || is_passworded(value) => Some("named-key"),
        NameKind::AnyKey if is_mixed_key(value) => Some("named-key"),
        NameKind::Password if is_password(value) || is_key(value) => Some("named-password"),
        NameKind::Basic if is_basic(value) => Some("basic-auth"),
        NameKind::Basic if is_key(value) => Some("named-key"),
        _ => None,
    }
}

/// Return the family of a value in quotes under its name, if it looks like a secret.
///
/// Several words are a secret only after the name of a scheme, or if one of them is a strong password.
pub(super) fn quoted(name: &str, value: &str) -> Option<&'static str> {
    let scheme = value.starts_with("Bearer ") || value.starts_with("Basic ");
    let strong =
        || value.len() <= 128 && kind(name) == Some(NameKind::Password) && value.split(' ').any(is_strong);
    if value.contains(['\n', '\t']) || value.starts_with(['{', '[', '"']) && value.contains(' ') {
        return None;
    }
    if value.contains(' ') && !scheme { strong().then_some("named-password") } else { family(name, value) }
}

/// Return the same for a complete string under the name: there letters or digits alone are a password, too.
pub(super) fn literal(name: &str, value: &str) -> Option<&'static str> {
    if is_seed_name(name) && is_seed(value) {
        return Some("seed-phrase");
    }
    if !has_word(name) {
        return None;
    }
    // `Hidden` may be the text of a form, and `hunterTwo` is none.
    let inner = value.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
    let is_capital = !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_weak = || if is_capital || inner { is_weak_value(value) } else { is_weak(value) };
    let weak = || (is_weak() && kind(name) == Some(NameKind::Password)).then_some("named-password");
    quoted(name, value).or_else(weak)
}

/// Return whether a name is that of a seed phrase: `mnemonic`, `seedPhrase`, `RECOVERY_PHRASE`.
fn is_seed_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    ["mnemonic", "phrase", "bip39", "seed", "seedwords", "seed_words", "seed-words"].iter().any(|end| {
        bytes.len().checked_sub(end.len()).is_some_and(|at| bytes[at..].eq_ignore_ascii_case(end.as_bytes()))
    })
}

/// Return whether a name is that of the working directory of a shell.
fn is_folder(name: &str) -> bool {
    matches!(name, "PWD" | "OLDPWD" | "INIT_PWD" | "pwd" | "oldpwd")
}

/// Return whether a value has the form of a secret access key of AWS.
pub(super) fn is_aws(value: &str) -> bool {
    value.len() == 40
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/+=".contains(&byte))
        && value.bytes().any(|byte| byte.is_ascii_digit())
}

/// Return whether the value of a name with no word but `secret` is a strong password.
pub(super) fn is_passworded(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let kinds = [has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase), has(u8::is_ascii_digit)];
    value.len() >= 10
        && kinds.iter().all(|&kind| kind)
        && has(|byte| b"!@#$%^&*+=?~".contains(byte))
        && is_password(value)
}
