"""Surroundings of private keys, passwords and commands in which a secret hides, and values that stand for one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WHOLE: dict[str, Callable[[str], str]] = {
    "env file": lambda v: f"A=1\nDB_PASSWORD={v}\nNEXT=1",
    "export": lambda v: f"export DB_PASSWORD={v}",
    "diff": lambda v: f"+DB_PASSWORD={v}\n",
    "yaml": lambda v: f"db:\n  password: {v}\n  user: x",
    "ini": lambda v: f"[db]\npassword = {v}\nuser=x",
    "properties": lambda v: f"spring.datasource.password={v}\nx=y",
    "quoted": lambda v: f'password = "{v}"',
    "cut": lambda v: f'{{"password": "{v}',
    "logfmt": lambda v: f"login user=bob password={v} ok=1",
    "docker": lambda v: f"docker run -e 'DB_PASSWORD={v}' image",
    "json": lambda v: json.dumps({"password": v}),
    "json 2": lambda v: json.dumps({"cmd": f"export DB_PASSWORD={v}\nrun"}),
    "json in text": lambda v: f'x {{"cmd": "export DB_PASSWORD={v}", "n": 1}} y',
}
"""Syntaxes that say where a value ends."""

FRAMES: dict[str, Callable[[int, str], str]] = {
    "grep -n": lambda n, s: f"/home/a/.ssh/id_rsa:{n}:{s}",
    "grep": lambda _, s: f"id_rsa:{s}",
    "grep -A": lambda n, s: f"id_rsa-{n}-{s}" if n > 1 else f"$ grep -nA9 KEY *\nid_rsa:{n}:{s}",
    "cat -n": lambda n, s: f"{n:>6}\t{s}",
    "iso": lambda n, s: f"2026-11-24T01:02:{n:02}.{n * 37:03}Z {s}",
    "logging": lambda n, s: f"2026-11-24 01:02:{n:02},{n * 37:03} INFO deploy: {s}",
    "brackets": lambda n, s: f"[2026-11-24T01:02:{n:02}Z] {s}",
    "syslog": lambda n, s: f"Nov 24 01:02:{n:02} host app[812]: {s}",
    "compose": lambda _, s: f"web_1  | {s}",
    "workflow": lambda n, s: f"build\tstep\t2026-11-24T01:02:{n:02}.0000000Z {s}",
    "comment": lambda _, s: f"// {s}",
    "table": lambda n, s: f"| {n} | {s} |",
    "echo": lambda _, s: f'echo "{s}" >> key.pem',
    "container": lambda n, s: json.dumps(
        {"log": s + "\n", "stream": "stdout", "time": f"2026-11-24T01:02:{n:02}.{n}Z"}
    ),
    "ndjson": lambda n, s: json.dumps({"line": n, "text": s}),
}
"""What tools write around each line of a file."""

STRINGS: dict[str, Callable[[list[str]], object]] = {
    "array": lambda lines: lines,
    "ends": lambda lines: [line + "\n" for line in lines],
    "grep": lambda lines: [f"id_rsa:{n}:{line}" for n, line in enumerate(lines)],
    "objects": lambda lines: [{"text": line, "kind": "line"} for line in lines],
    "values": lambda lines: {f"l{n}": line for n, line in enumerate(lines)},
    "nested": lambda lines: {"a": json.dumps({"lines": lines})},
}
"""JSON values in which each line of a key is a string of its own."""

BESIDE = [
    "{id},{key}",
    "{key},{id}",
    '"{id}","{key}"',
    "User name,Access key ID,Secret access key\nbob,{id},{key}\n",
    "| bob | {id} | {key} |",
    "{id}:{key}",
    "client('s3', '{id}', '{key}')",
    "AWS Access Key ID [None]: {id}\nAWS Secret Access Key [None]: {key}\nDefault region name [None]: eu-1",
    '["{id}", "{key}"]',
    '{{"a": "{id}", "b": "{key}"}}',
]
"""Places of a secret access key of AWS that has no name."""

SIGNS = ["%3D", "%253D", "%25253D", "=3D", "\\x3d", "\\u003d", "%u003D", "&#61;", "&#x3D;", "&equals;", "\\075"]
"""The sign between name and value in the encodings that logs carry."""

WEAK = [
    "DB_PASSWORD={}",
    "export PGPASSWORD={}",
    "+SMTP_PASS={}\n",
    "docker run -e POSTGRES_PASSWORD={} image",
    "      POSTGRES_PASSWORD: {}\n",
    "ENV DB_PASSWORD {}",
    "spring.datasource.password={}",
    "tool --password {} go",
    "tool --password={}",
    "<password>{}</password>",
    "connect(user='x', password='{}')",
    'os.environ["DB_PASSWORD"] = "{}"',
    '{{"username": "bob", "password": "{}"}}',
    "https://x.io/?password={}&a=1",
    "user=bob password={} host=x",
    "Password={};Server=x",
]
"""Names that can be no other thing's: what stands behind them is a password of whatever letters or digits."""

LISTS = [
    'passwords = ["{}", "{}"]',
    "PASSWORDS = [\n    '{}',\n    '{}',\n]",
    "passwords:\n  - {}\n  - {}\nusers:\n  - bob",
    "PASSWORDS={},{}",
    '{{"passwords": ["{}", "{}"], "n": 1}}',
    '{{"password": ["{}", "{}"], "users": ["bob"]}}',
]

COMMANDS = [
    "curl -sSu bob:{} https://x",
    "curl -ubob:{} https://x",
    "curl --proxy-user bob:{} x",
    "http -a bob:{} x",
    '["curl", "-u", "bob:{}", "x"]',
    '["tool", "--password", "{}", "x"]',
    '["mysql", "-p{}", "x"]',
    "mysql -uroot -p'{}' db",
    "mysqladmin -u root password '{}'",
    "mongosh -u x -p {} h",
    "redis-cli -h x -a {} ping",
    "sshpass -p {} ssh x",
    "docker login -u x -p {} reg",
    "echo '{}' | docker login -u x --password-stdin r",
    'echo "bob:{}" | sudo chpasswd',
    "echo {} | sudo -S ls",
    "openssl rsa -in k -passin pass:{} -out o",
    "openssl enc -aes-256-cbc -k {} -in x",
    "ldapsearch -x -D cn=admin -w {} -b x",
    "smbclient //h/s -U bob%{}",
    "sqlcmd -S h -U sa -P {} -Q x",
    "xfreerdp /u:bob /p:{} /v:h",
    "htpasswd -bc f bob {}",
    "keytool -storepass {} -list",
    "net user bob {} /add",
    "sqlplus scott/{}@db",
    "7z x -p{} a.7z",
    'CREATE USER bob IDENTIFIED BY "{}"',
    "ALTER USER bob IDENTIFIED BY {};",
    "CREATE USER bob IDENTIFIED WITH mysql_native_password BY '{}'",
    "CREATE ROLE bob WITH LOGIN PASSWORD '{}'",
]

STANDS_FOR = [
    *("%(password)s", "#{ENV['X']}", "@PASSWORD@", "#PASSWORD#", "__DB_PASSWORD__", "%%PASSWORD%%", "!PASSWORD!"),
    *("{{password}}", "<%= password1 %>", "@{password1}", ":password", "&password", "*key1", "[FILTERED]"),
    *("^[A-Za-z0-9_]{8,}$", "/^(?=.*[A-Z]).{8,}$/", "[a-zA-Z0-9_-]{20,}", "(?P<x>.+)", "\\d+"),
    *("sys.argv[1]", "argv[1]", "ARGV[0]", "params[:password]", "$_POST['password']", "request.form['pw1']"),
    *("ENV['DB_PASS']", "ENV.fetch('X1')", "tokens[i-1]", "Optional[str]", "str|None", "password?.trim1", "&self.key1"),
    *("vault:secret/data/x1#password", "op://vault/item1/password", "file:///run/secrets/x1"),
]

ORDINARY = [
    'cache_key = "5f4dcc3b5aa765d61d8327deb882cf99"',
    'sort_key="createdAt2024DescByUserNameThenId"',
    '{"idempotency_key": "aB3dE6gH9jK2mN5pQ8sT1vW4"}',
    '{"sessionId": "3c88babd-0bf8-55a8-9a73-98a084ec3a25"}',
    "GET /x?key=user_profile_settings_page",
    "md5: d41d8cd98f00b204e9800998ecf8427e.tar.gz",
    "d41d8cd98f00b204e9800998ecf8427e.abcdefghijklmnop",
    "Cookie: theme=dark; lang=en",
    "Set-Cookie: session=deleted; Path=/",
    "secret-management-and-rotation-policies-overview",
    "echo $1$2$3 $6",
    "dev: express-server-1",
    'foo_key = "SomeVeryLongClassNameWithNumber42AndMore7"',
    "app-7d4b9c8f6d-x2x4q",
    "the hash $2b$12$ is of bcrypt",
    "get-pattern abc123DEF456ghi789JKL012",
    "PWD=/tmp/tmp.Xa8Kd92k",
    "OLDPWD=/home/x/Zk29dkAA1/b",
    "S3_KEY=uploads/2024/x.png",
    "OBJECT_KEY=uploads/2024/aB3dE5fG7h.png",
    "mysql -h db -port3306",
    "mysql --port3306 -u x",
    "sort -u file:name12",
    "chown -u root:wheel99",
    "test_3f786850e387550fdab836ed7e6dc881",
    "sdk-9f86d081-884c-4d65-9a2f-eaa0c55ad015",
    "API-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "tests: PASS=1234567",
    "total_tokens: 12345678",
    '{"password": "Wachtwoord", "username": "Gebruikersnaam"}',
    '{"type": "password", "password": "string"}',
    "tokens = ['the', 'cat9', 'sat']",
    "password=password, user=user",
    "$password=$_GET[x];",
    "const PASSWORD = getPassword;",
    "Identified by Foo1 in the paper",
    "github://org:repo@sha/precip/catalog.yml",
    "DEVSTAT_PRIORITY_PASS = 0x030,",
    "#define CKA_SECONDARY_AUTH 0x00000200UL",
]
