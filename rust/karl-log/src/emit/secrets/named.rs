//! Secrets by the name of what they are assigned to: `DB_PASSWORD=...`, `"apiKey": "..."`, `--token ...`.

use super::judge::{is_basic, is_key, is_password};
use super::search::{NAMES, Secret};

/// The rank of what has no form of its own.
pub(super) const RANK: usize = 1000;

/// How long a name is, at most, before and behind the word in it.
const LONGEST: usize = 64;

/// How long a value is, at most.
const LONGEST_VALUE: usize = 4096;

/// Ends of names of passwords, without their dashes, in small letters.
const PASSWORDS: [&str; 8] =
    ["password", "passwd", "passphrase", "passcode", "pwd", "requirepass", "masterauth", "userpass"];

/// Ends of names of keys, likewise.
#[rustfmt::skip]
const KEYS: [&str; 48] = [
    "secretkey", "apikey", "accesskey", "privatekey", "authkey", "accountkey", "sharedkey", "signingkey",
    "encryptionkey", "masterkey", "storagekey", "servicekey", "licensekey", "ingestkey", "writekey", "readkey",
    "adminkey", "appkey", "applicationkey", "subscriptionkey", "integrationkey", "deploykey", "serverkey", "clientkey",
    "sessionkey", "consumerkey", "restkey", "functionskey", "hmackey", "jwtkey", "rolekey", "webhookkey", "openaikey",
    "anthropickey", "mistralkey", "coherekey", "deepgramkey", "elevenlabskey", "geminikey", "azurekey", "awskey",
    "stripekey", "datadogkey", "algoliakey", "segmentkey", "sendgridkey", "mailgunkey", "twiliokey",
];

/// Ends of names of tokens and the like, likewise.
const TOKENS: [&str; 9] = [
    "secret",
    "token",
    "secretid",
    "privatekeyid",
    "clientkeydata",
    "credential",
    "credentials",
    "authorization",
    "accesskeysecret",
];

/// Parts of names of what is no secret, likewise.
#[rustfmt::skip]
const HARMLESS: [&str; 23] = [
    "public", "pagetoken", "nexttoken", "synctoken", "continuationtoken", "cancellationtoken", "csrf", "idempotency",
    "eostoken", "bostoken", "padtoken", "unktoken", "masktoken", "septoken", "clstoken", "cachekey", "pubkey",
    "tokenizer", "imagetoken", "clienttoken",
    "changetoken", "requesttoken", "purchasetoken",
];

/// Words behind a name that say where or how its value is kept.
const TAILS: [&str; 12] =
    ["value", "prod", "production", "dev", "staging", "live", "b64", "base64", "plain", "raw", "text", "str"];

/// What a value has to look like to be a secret under its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Password,
    Key,
    Aws,
    Basic,
}

/// Whether a name holds a word that the name of a secret holds.
fn has_word(name: &str) -> bool {
    let bytes = name.as_bytes();
    let word = |at: usize| {
        NAMES.iter().any(|word| {
            bytes[at..].get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
        })
    };
    (3..=LONGEST).contains(&bytes.len()) && (0..bytes.len() - 2).any(word)
}

/// What a name asks of its value; `None` where it is no name of a secret.
fn kind(name: &str) -> Option<Kind> {
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
    let ends = |ends: &[&str]| ends.iter().any(|end| plain.ends_with(end));
    let is_key = || if plain.ends_with("key") { ends(&KEYS) } else { ends(&TOKENS) };
    let upper = || name.ends_with("_KEY") && !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let kind = match () {
        () if ends(&["secretaccesskey", "awssecretkey", "awssecret"]) => Kind::Aws,
        () if ends(&PASSWORDS) || is_pass(name) => Kind::Password,
        () if plain == "auth" || name.ends_with("_auth") => Kind::Basic,
        () if is_key() || upper() => Kind::Key,
        () => return None,
    };
    (!HARMLESS.iter().any(|part| plain.contains(part))).then_some(kind)
}

/// Whether a name ends in the word `pass`.
fn is_pass(name: &str) -> bool {
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let at = name.len().saturating_sub(4);
    let Some((before, word)) = name.split_at_checked(at) else { return false };
    match word {
        "pass" | "PASS" => {
            before.is_empty() || before.ends_with(['_', '-', '.']) || before == "DB" || before == "db"
        }
        "Pass" => true,
        _ => false,
    }
}

/// The family of a value under its name, if it looks like a secret.
pub(super) fn family(name: &str, value: &str) -> Option<&'static str> {
    let kind = if has_word(name) { kind(name)? } else { return None };
    let value = value.trim_end_matches(['.', '!']);
    match kind {
        Kind::Aws if is_aws(value) => Some("aws-secret-key"),
        Kind::Aws | Kind::Key if is_key(value) || is_passworded(value) => Some("named-key"),
        Kind::Password if is_password(value) || is_key(value) => Some("named-password"),
        Kind::Basic if is_basic(value) => Some("basic-auth"),
        Kind::Basic if is_key(value) => Some("named-key"),
        _ => None,
    }
}

/// Whether a value has the form of a secret access key of AWS.
fn is_aws(value: &str) -> bool {
    value.len() == 40
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/+=".contains(&byte))
        && value.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether a value of a name that says only `secret` is a strong password.
fn is_passworded(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let kinds = [has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase), has(u8::is_ascii_digit)];
    value.len() >= 10
        && kinds.iter().all(|&kind| kind)
        && has(|byte| b"!@#$%^&*+=?~".contains(byte))
        && is_password(value)
}

/// The secret that stands behind a name with one of its words at a place, and where the name ends.
pub(super) fn assigned(text: &str, from: usize, to: usize) -> (usize, Option<Secret>) {
    let bytes = text.as_bytes();
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let begin = from
        - bytes[..from].iter().rev().take(LONGEST).take_while(|byte| part(byte) || **byte == b'.').count();
    let end = to + bytes[to..].iter().take(LONGEST).take_while(part).count();
    let name = &text[begin..end];
    // Most words that stand here are those of sentences and code.
    let follows = bytes.get(end).is_some_and(|byte| b"\"'`\\=:(,>%]?& \t\n\x1b".contains(byte));
    // `Pass::run`, `arn:aws:...:secret:name`.
    let path =
        bytes[end..].starts_with(b"::") || bytes[end..].starts_with(b":") && bytes[..begin].ends_with(b":");
    if !follows || path || kind(name).is_none() {
        return (end, None);
    }
    let secret = Cursor { text, at: end }.value(name);
    // Names inside of a long value are none, and looking at each would take a time that grows with its square.
    let inside = |byte: &&u8| !byte.is_ascii_whitespace() && !b"\"'`\\<>,;&|()".contains(byte);
    let run = bytes[end..].iter().take(LONGEST_VALUE).take_while(inside).count();
    (if run > 256 { end + run } else { end }, secret)
}

/// Reads what stands between a name and its value, in any encoding.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// How a value begins.
enum Opening<'a> {
    /// With a quote, spelt so.
    Quote(&'a str),
    Bare,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The secret that is the value of a name that ends here.
    fn value(mut self, name: &str) -> Option<Secret> {
        let quoted = self.quote().is_some();
        self.skip_any(&["]", ")", "?"]);
        let spaces = self.space();
        let sign = self.sign(quoted, spaces)?;
        // `pass` alone is a verb, too.
        let verb = name.rsplit('.').next().is_some_and(|word| word.eq_ignore_ascii_case("pass"));
        if verb && !matches!(sign, "=" | ":" | "=>" | "%3D" | "%3A") {
            return None;
        }
        self.space();
        let opening = self.quote().map_or(Opening::Bare, Opening::Quote);
        match opening {
            Opening::Quote(quote) => self
                .inside(name, quote)
                .filter(|secret| sign != " " || self.is_sure(name, &self.text[secret.from..secret.to])),
            Opening::Bare if quoted || sign == "(" || sign == "," => self.typed(name),
            Opening::Bare => self.bare(name, sign).or_else(|| self.typed(name)),
        }
    }

    /// The value up to the quote that closes it.
    fn inside(&self, name: &str, quote: &str) -> Option<Secret> {
        let length = closing(self.rest(), quote)?;
        let value = &self.rest()[..length];
        let broken = value.contains([' ', '\n', '\t'])
            && !value.starts_with("Bearer ")
            && !value.starts_with("Basic ");
        if broken {
            return None;
        }
        let family = family(name, &plain(value))?;
        Some(Secret::new(self.at, self.at + length, family, RANK))
    }

    /// A value without quotes: up to a space, or to what ends one in code.
    fn bare(&self, name: &str, sign: &str) -> Option<Secret> {
        let environment = sign == "=" && !name.bytes().any(|byte| byte.is_ascii_lowercase());
        let ends = |byte: u8| {
            byte.is_ascii_whitespace()
                || b"\"'`\\<>".contains(&byte)
                || byte == 0x1b
                || (!environment && b",;|)}]".contains(&byte))
                || byte == b'&'
        };
        let mut length = self.rest().bytes().take(LONGEST_VALUE).take_while(|&byte| !ends(byte)).count();
        let escapes = ["%26", "%20", "%0A", "%0a", "%0D", "%22", "%27", "%7D", "%2C", "%5C"];
        let encoded = sign
            .starts_with('%')
            .then(|| escapes.iter().filter_map(|end| self.rest()[..length].find(end)).min());
        length = encoded.flatten().unwrap_or(length);
        let value = self.rest()[..length].trim_end_matches([',', ';', '.', ':']);
        let family = family(name, value)?;
        let sure = environment || sign != " " || self.is_sure(name, value);
        // `PASS: TestOfIt` is what runs of tests say, and `key: Type = 3` declares.
        let told = sign == ":" && matches!(name, "pass" | "Pass" | "PASS");
        let declared = self.rest()[length..].trim_start_matches(' ').starts_with('=');
        let strong = |value: &str| value.len() >= 10 && is_key(value) || is_passworded(value);
        let code =
            !environment && !name.starts_with('-') && value.contains(['(', '[', '{']) && !strong(value);
        (sure && !code && !told && !declared)
            .then(|| Secret::new(self.at, self.at + value.len(), family, RANK))
    }

    /// Whether a value that follows a name without a sign is assigned to it.
    fn is_sure(&self, name: &str, value: &str) -> bool {
        is_key(value) || name.starts_with('-') || is_set(self.text, self.at, name)
    }

    /// The value behind the type of a variable: `password: str = "..."`, `const apiKey string = "..."`.
    fn typed(&mut self, name: &str) -> Option<Secret> {
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_&<>?[]|. *':".contains(byte);
        let length = self.rest().bytes().take(40).take_while(part).count();
        if length == 0 || !self.rest()[length..].starts_with('=') {
            return None;
        }
        self.at += length + 1;
        self.space();
        let quote = self.quote()?;
        self.inside(name, quote)
    }

    /// Passes over spaces and colours of the terminal; whether there were any.
    fn space(&mut self) -> bool {
        let from = self.at;
        loop {
            let rest = self.rest();
            let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            let colour =
                ["\u{1b}[", "\\u001b[", "\\x1b[", "\\033["].iter().find(|begin| rest.starts_with(**begin));
            match colour {
                _ if spaces > 0 => self.at += spaces,
                _ if rest.starts_with("%20") => self.at += 3,
                Some(begin) => {
                    let number = rest
                        .bytes()
                        .skip(begin.len())
                        .take_while(|byte| !byte.is_ascii_alphabetic())
                        .take(12)
                        .count();
                    self.at = self
                        .text
                        .floor_char_boundary((self.at + begin.len() + number + 1).min(self.text.len()));
                }
                None => return self.at > from,
            }
        }
    }

    /// Passes over one of some texts.
    fn skip_any(&mut self, wanted: &[&str]) {
        if let Some(one) = wanted.iter().find(|one| self.rest().starts_with(**one)) {
            self.at += one.len();
        }
    }

    /// What assigns: a sign, or a space between a name and a value.
    fn sign(&mut self, quoted: bool, spaces: bool) -> Option<&'static str> {
        const SIGNS: [&str; 16] = [
            "=>",
            ":=",
            "==",
            "=",
            ":",
            "%3D%3D",
            "%3D",
            "%3d",
            "%3A",
            "%3a",
            "%253D",
            "%253A",
            "\\u003d",
            "\\u003a",
            "\\\\u003d",
            "=3D",
        ];
        let rest = self.rest();
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            return Some(if sign.starts_with("\\") { "=" } else { sign });
        }
        if let Some(length) = paired(rest) {
            self.at += length;
            return Some(":");
        }
        match rest.as_bytes().first() {
            Some(b'(') if !quoted => self.take("("),
            Some(b',') if quoted => self.take(","),
            Some(b'>') if !quoted => self.take(">"),
            _ if spaces && !quoted => Some(" "),
            _ => None,
        }
    }

    fn take(&mut self, sign: &'static str) -> Option<&'static str> {
        self.at += sign.len();
        Some(sign)
    }

    /// A quote as some encoding spells it.
    fn quote(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let slashes = rest.bytes().take_while(|&byte| byte == b'\\').count();
        let length = match rest.as_bytes().get(slashes) {
            Some(b'"' | b'\'' | b'`') => Some(slashes + 1),
            Some(b'u') if slashes > 0 => ["u0022", "u0027"]
                .iter()
                .find(|quote| rest[slashes..].starts_with(**quote))
                .map(|quote| slashes + quote.len()),
            _ => ["%22", "%27", "%2522", "&quot;", "&#34;", "&#39;", "&#x27;", "&apos;"]
                .iter()
                .find(|quote| rest.starts_with(**quote))
                .map(|quote| quote.len()),
        }?;
        self.at += length;
        Some(&rest[..length])
    }
}

/// How long a value is in front of the quote that closes it.
fn closing(rest: &str, quote: &str) -> Option<usize> {
    let slashes = quote.bytes().take_while(|&byte| byte == b'\\').count();
    let (mark, all) = (&quote[slashes..], rest.as_bytes());
    let mut from = 0;
    loop {
        let at =
            from + rest.get(from..rest.floor_char_boundary((from + 8192).min(rest.len())))?.find(mark)?;
        let before = all[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
        if before % (2 * (slashes + 1)) == slashes || before < slashes {
            return Some(at - before.min(slashes));
        }
        from = at + mark.len();
    }
}

/// A value without the escapes of its encodings, to be judged.
fn plain(value: &str) -> String {
    value
        .replace("%3D", "=")
        .replace("%2B", "+")
        .replace("%2F", "/")
        .replace("%2b", "+")
        .replace("%2f", "/")
        .replace("\\u003d", "=")
        .replace("\\u0026", "&")
        .replace('\\', "")
}

/// How long the rest of a pair is whose first half is a name: `name: DB_PASSWORD, value: `.
fn paired(rest: &str) -> Option<usize> {
    let between =
        |byte: &u8| byte.is_ascii_whitespace() || b",\\\"'".contains(byte) || *byte == b'n' || *byte == b'-';
    let gap = rest.bytes().take(48).take_while(between).count();
    let behind = rest[gap..].strip_prefix("value").or_else(|| rest[gap..].strip_prefix("Value"))?;
    let sign = behind.trim_start_matches(['\\', '"', '\'', ' ']);
    let found = gap > 0 && sign.starts_with([':', '=']);
    found.then(|| rest.len() - sign.len() + 1)
}

/// Whether a name without a sign is set by the word in front of it: `ENV NAME value`, `configure set name value`.
fn is_set(text: &str, at: usize, name: &str) -> bool {
    let before = text[..at].trim_end();
    let before = before.strip_suffix(name).unwrap_or(before).trim_end();
    let tail = before[before.floor_char_boundary(before.len().saturating_sub(12))..].to_ascii_lowercase();
    ["set", "env", "arg", "export", "-x", "setx", "identified", "with"]
        .iter()
        .any(|word| tail.ends_with(word))
}
