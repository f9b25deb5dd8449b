//! Passwords in commands and headers.

use super::family::{Family, checked};
use super::is_secret::{
    is_basic, is_bearer, is_bearer_password, is_field, is_key, is_password, is_seed, is_strong, is_typed,
    is_typed_word,
};
use super::randomness::is_random;

/// Twelve to twenty-four short words behind a name like `MNEMONIC=` or `seed phrase:`.
#[rustfmt::skip]
const SEED: &str = concat!(
    r"(?:[A-Za-z0-9_-]|BIP-39){3,12}(?: ?(?:words?|phrase|key))?(?: ?\([^)\n]{0,24}\))?['\x22\\*]*(?: is)?(?: ?[=:>]+|[ \t]?\n|\\n| ['\x22])(?:\\+[nrt]|[\s'\x22\\\[(]|[0-9]{1,2}[.):])*",
    r"(?P<secret>",
    r"(?:[a-z]{3,8}(?:\\+[nrt]|[ \t\n,'\x22\\]|[0-9]{1,2}[.):]){1,8}){23}[a-z]{3,8}|",
    r"(?:[a-z]{3,8}(?:\\+[nrt]|[ \t\n,'\x22\\]|[0-9]{1,2}[.):]){1,8}){20}[a-z]{3,8}|",
    r"(?:[a-z]{3,8}(?:\\+[nrt]|[ \t\n,'\x22\\]|[0-9]{1,2}[.):]){1,8}){17}[a-z]{3,8}|",
    r"(?:[a-z]{3,8}(?:\\+[nrt]|[ \t\n,'\x22\\]|[0-9]{1,2}[.):]){1,8}){14}[a-z]{3,8}|",
    r"(?:[a-z]{3,8}(?:\\+[nrt]|[ \t\n,'\x22\\]|[0-9]{1,2}[.):]){1,8}){11}[a-z]{3,8}",
    r")(?:[^a-z]|\z)",
);

#[rustfmt::skip]
pub(super) const COMMANDS: &[Family] = &[
    // Commands and headers
    checked(("bearer", r"[Bb]earer(?:<ws>)+(?P<secret>(?:[A-Za-z0-9._~=-]|<b64>|(?::|\||%(?:25)*3[Aa]|%(?:25)*7[Cc])[A-Za-z0-9]){16,}<pad>{0,2})", &["Bearer", "bearer"]), is_bearer),
    checked(("bearer", r#"[Bb]earer(?:<ws>)+[A-Za-z0-9._-]{1,64}:(?P<secret>[^\s'"\\,;]{8,256})"#, &["Bearer", "bearer"]), is_bearer_password),
    checked(("basic-auth", r"[Bb]asic(?:<ws>)+(?P<secret><b64>{8,}<pad>{0,2})", &["Basic", "basic"]), is_basic),
    checked(("command-password", r#"[ '"](?:-u|--user|-a|--auth)[ =]+['"\\]*[^\s'"\\:@]{0,64}:(?P<secret>[^\s'"\\]{6,128})"#, &[" -u", "\"-u", "'-u", " --user", " -a ", " --auth"]), is_strong),
    checked(("command-password", r#"curl[^\n|]{0,600}?[ '"](?:-[A-Za-z]{0,8}[uU]|--user|--proxy-user)[ =]*['"\\]*[^\s'"\\:@]{1,64}:(?P<secret>[^\s'"\\]{4,128})"#, &["curl"]), is_typed_word),
    checked(("command-password", r#"mysql(?:dump|admin|import|check|show)?(?:\s[^\n|;\\]{0,120}?)?\s-p['"]?(?P<secret>[^\s'"\\]{6,128})"#, &["mysql"]), |value| is_typed_word(value) && !value.starts_with("ort")),
    checked(("command-password", r"mysqladmin\s[^\n|;]{0,120}?\spassword\s+<pw>", &["mysqladmin"]), is_typed),
    checked(("command-password", r"(?:sshpass|rdesktop)\s(?:[^\n|;\\]{0,80}?\s)?-p[ =]?<pw>", &["sshpass", "rdesktop"]), is_typed_word),
    checked(("command-password", r"(?:docker|podman|az|oc|cf|helm registry|skopeo) login\s[^\n|;\\]{0,160}?\s-p[ =]?<pw>", &["docker login", "podman login", "az login", "oc login", "cf login", "helm registry login", "skopeo login"]), is_typed),
    checked(("command-password", r"redis-cli\s[^\n|;\\]{0,120}?\s(?:-a|--pass)[ =]?<pw>", &["redis-cli"]), is_typed),
    checked(("command-password", r"mongo(?:sh|dump|restore|export|import|stat|top)?\s[^\n|;\\]{0,200}?\s(?:-p ?|--password[ =])<pw>", &["mongo"]), is_typed),
    checked(("command-password", r"ldap(?:search|add|modify|delete|whoami|passwd|compare)\s[^\n|;\\]{0,160}?\s-w ?<pw>", &["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd", "ldapcompare"]), is_typed),
    checked(("command-password", r"(?:sqlcmd|bcp|isql|zip)\s(?:[^\n|;\\]{0,160}?\s)?-P ?<pw>", &["sqlcmd ", "bcp ", "isql ", "zip "]), is_password),
    checked(("command-password", r"(?:7za?|7zz|rar|unrar)\s[^\n|;\\]{0,160}?\s-p<pw>", &["7z ", "7za ", "7zz ", "rar "]), is_password),
    checked(("command-password", r"(?:smbclient|rpcclient|smbmap|net)\s[^\n|;\\]{0,160}?\s-U ?['\x22]?[^\s%'\x22]{1,64}%<pw>", &["smbclient", "rpcclient", "net rpc", "net ads"]), is_typed),
    checked(("command-password", r"freerdp[^\n|;]{0,160}?\s/p:<pw>", &["freerdp"]), is_typed),
    checked(("command-password", r"htpasswd\s+-[A-Za-z]*b[A-Za-z]*\s+\S{1,128}\s+\S{1,64}\s+<pw>", &["htpasswd"]), is_typed),
    checked(("command-password", r"(?:-storepass|-keypass|-srcstorepass|-deststorepass|-srckeypass|-destkeypass)\s+<pw>", &["-storepass", "-keypass", "-srcstorepass", "-deststorepass", "-srckeypass", "-destkeypass"]), is_typed),
    checked(("command-password", r"(?:net user|wpa_passphrase|smbpasswd -a)\s+[^\s/]{1,64}\s+<pw>", &["net user ", "wpa_passphrase "]), is_typed),
    checked(("command-password", r"lftp\s[^\n|;]{0,120}?-u ?[^\s,]{1,64},<pw>", &["lftp"]), is_typed),
    checked(("command-password", r"sqlplus\s+(?:-[A-Za-z]+\s+)*['\x22]?[A-Za-z0-9_$#]{1,64}/['\x22]?(?P<secret>[^\s'\x22\\@]{4,128})", &["sqlplus"]), is_typed),
    checked(("command-password", r"nmcli\s[^\n|;]{0,160}?\spassword\s+<pw>", &["nmcli"]), is_typed),
    checked(("command-password", r"-pass(?:in|out)?\s+['\x22]?pass:<pw>", &["-pass"]), is_typed),
    checked(("command-password", r"openssl\s[^\n|;]{0,200}?\s-k\s+<pw>", &["openssl "]), is_typed),
    checked(("command-password", r#"(?:echo|printf)(?:\s+-[a-z]+)?\s+['"\\]*(?:[A-Za-z0-9_.@-]{1,64}:)?(?P<secret>[^\s'":\\]{4,128})(?:\\+n)?['"\\]*\s*\|\s*(?:sudo\s+)?(?:chpasswd|passwd|sudo\s+-[a-zA-Z]*S|kinit|cryptsetup|[^\n|]{0,120}?--(?:password-stdin|passphrase-fd|stdin|with-token))"#, &["echo ", "printf "]), is_typed),
    checked(("command-password", r#"(?i-u:identified\s+(?:with\s+[a-z0-9_'"]+\s+)?by\s+(?:password\s+)?)[\\]*['"](?P<secret>[^'"\s]{4,128}?)[\\]*['"]"#, &["IDENTIFIED", "identified", "Identified"]), is_typed),
    checked(("command-password", r"(?i-u:identified\s+by\s+)(?P<secret>[^'\x22\s\\;]{4,128})", &["IDENTIFIED", "identified", "Identified"]), is_strong),
    checked(("command-password", r#"(?i-u:(?:create|alter)\s+(?:user|role|login)\s)[^\n;']{0,120}?(?i-u:password\s*=?\s*)(?:N?[\\]*['"])(?P<secret>[^'"\s]{4,128}?)[\\]*['"]"#, &["CREATE USER", "create user", "Create User", "ALTER USER", "alter user", "Alter User", "CREATE ROLE", "create role", "ALTER ROLE", "alter role", "CREATE LOGIN", "create login", "ALTER LOGIN", "alter login"]), is_typed),
    checked(("command-password", r"(?:requirepass|masterauth)(?:\s|\\+[nt])+<pw>", &["requirepass", "masterauth"]), is_password),
    checked(("command-password", r"(?:AUTH|auth)\s+(?:[a-z]{1,32}\s+)?<pw>", &["AUTH ", "auth "]), |value| is_strong(value) && !value.starts_with("0x")),
    checked(("command-password", r"(?i-u:psexec)[^\n|;]{0,120}?\s-p\s+<pw>", &["psexec", "PsExec", "PSEXEC"]), is_typed),
    checked(("cookie", r#"[Cc]ookie['"]?:\s?['"]?[^\n'"]{0,600}?(?i-u:sess|sid|auth|token|jwt)[A-Za-z0-9_.-]{0,20}=(?P<secret>[^\s'";\\]{16,1024})"#, &["Cookie:", "Cookie\":", "Cookie':", "cookie:", "cookie\":", "cookie':"]), is_random),
    checked(("query-key", r"[?&](?:key|appid|app_id|sig|signature|hapikey)=(?P<secret>[A-Za-z0-9_-]{24,256})", &["?key=", "&key=", "?appid=", "&appid=", "?app_id=", "&app_id=", "?sig=", "&sig=", "?signature=", "&signature=", "?hapikey=", "&hapikey="]), is_key),
    Family { before: is_host, ..checked(("pgpass", r#":(?:[0-9]{4,5}|\*):(?:\*|[A-Za-z_][^:\s'"\\]{0,63}):[^:\s'"\\]{1,64}:(?P<secret>(?:\\[:\\]|[^\s:'"\\]){4,128})(?:[\s'"\\]|\z)"#, &[":5432:", ":5433:", ":5434:", ":5435:", ":5436:", ":5439:", ":6432:", ":6543:", ":15432:", ":25060:", ":25061:", ":*:"]), is_field) },
    checked(("seed-phrase", SEED, &["nemonic", "NEMONIC", "hrase", "HRASE", "bip39", "BIP39", "BIP-39", "seed: ", "Seed: ", "seed:\n", "seed = ", "seed=", "SEED=", "SEED: ", "seed\": ", "seed is", "eed words", "EED_WORDS", "eed_words", "eedWords"]), is_seed),
    checked(("netrc", r"(?:machine(?:\s|\\+[nrt])+[^\s\\]+|default)(?:\s|\\+[nrt])+login(?:\s|\\+[nrt])+[^\s\\]+(?:\s|\\+[nrt])+(?:account(?:\s|\\+[nrt])+[^\s\\]+(?:\s|\\+[nrt])+)?password(?:\s|\\+[nrt])+(?P<secret>[^\s\\'\x22]{4,256})", &["machine", "default"]), is_field),
    checked(("netrc", r"login(?:\s|\\+[nrt])+[^\s\\]+(?:\s|\\+[nrt])+password(?:\s|\\+[nrt])+(?P<secret>[^\s\\'\x22]{4,256})", &["login"]), |value| is_password(value) || is_key(value)),
];

/// Return whether a text ends in the host of a line of a `.pgpass` file: alone, or behind the name of that file.
fn is_host(before: &str) -> bool {
    let start = before.rfind(|letter: char| letter.is_whitespace() || "'\"\\=".contains(letter));
    let field = &before[start.map_or(0, |at| at + 1)..];
    let (place, host) = field.rsplit_once(':').unwrap_or(("", field));
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"*._-/@".contains(&byte);
    !host.is_empty() && host.bytes().all(fits) && (place.is_empty() || place.contains("pgpass"))
}
