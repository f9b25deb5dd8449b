"""Secrets made from descriptions of their formats, in the surroundings in which logs carry them.

The descriptions are written down beside the public rule sets and know nothing of the patterns of the program.
"""

from __future__ import annotations

import json
import re
import string
import zlib
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "h": "0123456789abcdef",
    "b": string.ascii_letters + string.digits + "+/",
    "w": string.ascii_letters + string.digits + "_-",
    "d": string.digits,
    "2": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "L": string.ascii_letters,
}

# `{a36}`: so many characters of an alphabet; `{uuid}`: one. What is split by `|` stands apart in this file only, so
# that no scanner takes it for a leak.
FORMATS = {
    "1password": "ops|_eyJ{a250}",
    "adafruit": "aio|_{a28}",
    "adobe": "p8e|-{l32}",
    "age": "AGE-SECRET|-KEY-1{u58}",
    "airtable": "pat|{a14}.{h64}",
    "alibaba": "LTAI|{a20}",
    "anthropic": "sk-ant|-api03-{w93}AA",
    "apify": "apify|_api_{a36}",
    "artifactory": "AKCp|{a69}",
    "asana": "1/|12{d14}:{h32}",
    "atlassian": "ATATT3|{w186}",
    "aws": "AKIA|{216}",
    "aws bedrock": "ABSK|{b128}",
    "aws session": "ASIA|{216}",
    "axiom": "xaat|-{uuid}",
    "azure ad": "{a3}8Q|~{a34}",
    "azure sas": "sv=2022-11-02&sig|={b43}%3D",
    "azure storage": "AccountKey|={b86}==",
    "bitbucket": "ATBB|{a32}",
    "buildkite": "bkua|_{l40}",
    "cal.com": "cal|_live_{h32}",
    "cerebras": "csk|-{l48}",
    "circleci": "CCIPAT|_{a22}_{h40}",
    "clickhouse": "4b1d|{a38}",
    "clickup": "pk|_{d8}_{u32}",
    "clojars": "CLOJARS|_{h60}",
    "cloudflare ca": "v1.0|-{h24}-{h146}",
    "confluent": "cflt|{b60}",
    "contentful": "CFPAT|-{w43}",
    "crates.io": "cio|{a32}",
    "databricks": "dapi|{h32}",
    "deepseek": "sk|-{h32}",
    "defined networking": "dnkey|-{u26}-{l52}",
    "deno": "ddp|_{a36}",
    "digitalocean": "dop|_v1_{h64}",
    "discord": "M{a23}.|{w6}.{w27}",
    "discord webhook": "https://discord.com/api/|webhooks/{d18}/{w68}",
    "docker": "dckr|_pat_{w27}",
    "doppler": "dp.|pt.{a43}",
    "dropbox": "sl.|{w135}",
    "duffel": "duffel|_live_{w43}",
    "dynatrace": "dt0c01|.{u24}.{u64}",
    "e2b": "e2b|_{h40}",
    "easypost": "EZAK|{a54}",
    "elevenlabs": "sk|_{h48}",
    "facebook": "EAA|M{a120}",
    "figma": "figd|_{w40}",
    "firecrawl": "fc|-{h32}",
    "fireworks": "fw|_{a24}",
    "flutterwave": "FLWSECK|_TEST-{h32}-X",
    "fly": "fm2|_{b100}",
    "frame.io": "fio-u|-{w64}",
    "gemini": "AQ|.Ab8{w50}",
    "github": "ghp|_{a36}",
    "github app": "ghs|_{a36}",
    "github fine": "github|_pat_{a22}_{a59}",
    "gitlab": "glpat|-{w20}",
    "gitlab trigger": "glptt|-{h40}",
    "google": "AIza|{w35}",
    "google oauth": "GOCSPX|-{w28}",
    "google token": "ya29|.{w100}",
    "grafana": "glsa|_{a32}_{h8}",
    "grafana cloud": "glc|_{b64}",
    "groq": "gsk|_{a52}",
    "harness": "pat|.{a22}.{a24}.{a20}",
    "helicone": "sk-helicone|-{l7}-{l7}-{l7}-{l7}",
    "heroku": "HRKU|-AA{w58}",
    "honeycomb": "hcaik|_{l58}",
    "hubspot": "pat|-na1-{uuid}",
    "hugging face": "hf|_{L34}",
    "infracost": "ico|-{a32}",
    "inngest": "signkey|-prod-{h64}",
    "intra42": "s-s4t2ud|-{h64}",
    "ionic": "ion|_{a42}",
    "jina": "jina|_{h32}{a32}",
    "jwt": "eyJ|{a20}.eyJ{a60}.{w43}",
    "langfuse": "sk-lf|-{uuid}",
    "langsmith": "lsv2|_pt_{h32}_{h10}",
    "linear": "lin|_api_{a40}",
    "lob": "live|_{h35}",
    "logfire": "pylf|_v1_us_{a43}",
    "mailchimp": "{h32}|-us12",
    "mailgun": "key|-{h32}",
    "mailgun new": "{h32}|-{h8}-{h8}",
    "mandrill": "md|-{w22}",
    "mapbox": "sk|.eyJ{a60}.{a22}",
    "mongodb atlas": "mdb_sa_sk|_{w40}",
    "neon": "napi|_{l64}",
    "netlify": "nfp|_{a36}",
    "new relic": "NRAK|-{u27}",
    "notion": "ntn|_{d11}{a35}",
    "notion old": "secret|_{a43}",
    "npm": "npm|_{a36}",
    "nuget": "oy2|{l43}",
    "nvidia": "nvapi|-{w64}",
    "octopus": "API|-{u26}",
    "onesignal": "os_v2_app|_{l103}",
    "openai": "sk|-{a20}T3BlbkFJ{a20}",
    "openai project": "sk-proj|-{w74}T3BlbkFJ{w74}",
    "openrouter": "sk-or|-v1-{h64}",
    "openshift": "sha256|~{w43}",
    "pagarme": "ak_live|_{a30}",
    "pagerduty": "u+|{w18}",
    "perplexity": "pplx|-{a48}",
    "pinecone": "pcsk|_{a6}_{a63}",
    "plaid": "access-|production-{uuid}",
    "planetscale": "pscale|_tkn_{w43}",
    "polar": "polar_oat|_{a43}",
    "posthog": "phx|_{a43}",
    "postman": "PMAK|-{h24}-{h34}",
    "prefect": "pnu|_{a36}",
    "pulumi": "pul|-{h40}",
    "pypi": "pypi|-AgEIcHlwaS5vcmc{w120}",
    "readme": "rdme|_{l70}",
    "render": "rnd|_{a28}",
    "replicate": "r8|_{a37}",
    "resend": "re|_{a8}_{a24}",
    "rubygems": "rubygems|_{h48}",
    "runpod": "rpa|_{u46}",
    "salesforce": "00D|{a12}!{a96}",
    "scaleway": "SCW|{u17}",
    "scalingo": "tk-us|-{w48}",
    "sendgrid": "SG|.{w22}.{w43}",
    "sendinblue": "xkeysib|-{h64}-{a16}",
    "sentry": "sntryu|_{h64}",
    "sentry org": "sntrys|_eyJ{a100}_{b43}",
    "settlemint": "sm_aat|_{a16}",
    "shippo": "shippo|_live_{h40}",
    "shopify": "shpat|_{h32}",
    "slack": "xoxb|-{d12}-{d12}-{a24}",
    "slack app": "xapp|-1-A{u10}-{d13}-{h64}",
    "slack webhook": "https://hooks.slack.com/|services/T{u10}/B{u10}/{a24}",
    "sonarqube": "squ|_{h40}",
    "sourcegraph": "sgp|_{h40}",
    "square": "sq0atp|-{w22}",
    "stackhawk": "hawk|.{w20}.{w20}",
    "stripe": "sk|_live_{a24}",
    "stripe test": "sk|_test_{a24}",
    "stripe webhook": "whsec|_{a32}",
    "supabase": "sbp|_{h40}",
    "supabase secret": "sb|_secret_{w31}",
    "tailscale": "tskey|-auth-{a12}-{a32}",
    "tavily": "tvly|-dev-{a32}",
    "telegram": "{d10}|:AA{w33}",
    "terraform": "{a14}|.atlasv1.{w67}",
    "together": "tgp_v1|_{w43}",
    "trello": "ATTA|{h72}",
    "trigger.dev": "tr_prod|_{a24}",
    "twilio": "SK|{h32}",
    "typeform": "tfp|_{w59}",
    "vault": "hvs|.{w95}",
    "vault old": "s|.{a24}",
    "vercel": "vcp|_{a24}",
    "voyage": "pa|-{w43}",
    "wandb": "wandb_v1|_{w80}",
    "xai": "xai|-{a80}",
    "xata": "xau|_{a43}",
    "yandex": "AQVN|{w36}",
    "zapier": "https://hooks.zapier.com/|hooks/catch/{d7}/{l7}",
}
"""Families whose secrets have a form of their own."""

NAMED = {
    "AWS_SECRET_ACCESS_KEY": "{b40}",
    "AZURE_CLIENT_SECRET": "{a40}",
    "COHERE_API_KEY": "{a40}",
    "LAUNCHDARKLY_SDK_KEY": "sdk-{uuid}",
    "DATADOG_API_KEY": "{h32}",
    "DD_APP_KEY": "{h40}",
    "DEEPGRAM_API_KEY": "{h40}",
    "MISTRAL_API_KEY": "{a32}",
    "WANDB_API_KEY": "{h40}",
    "TWILIO_AUTH_TOKEN": "{h32}",
    "CLOUDFLARE_API_TOKEN": "{w40}",
    "CLOUDFLARE_API_KEY": "{h37}",
    "ALGOLIA_ADMIN_KEY": "{h32}",
    "FASTLY_API_TOKEN": "{w32}",
    "CONFLUENT_SECRET": "{b64}",
    "SNYK_TOKEN": "{uuid}",
    "HEROKU_API_KEY": "{uuid}",
    "OKTA_API_TOKEN": "00{w40}",
    "TWITTER_ACCESS_TOKEN_SECRET": "{a45}",
    "ASSEMBLYAI_API_KEY": "{h32}",
    "VERCEL_TOKEN": "{a24}",
    "INTERCOM_ACCESS_TOKEN": "{a59}=",
    "JWT_SECRET": "{a48}",
    "SESSION_SECRET": "{h64}",
    "NPM_TOKEN": "{uuid}",
    "DISCORD_CLIENT_SECRET": "{a32}",
    "DB_PASSWORD": "{a16}",
    "POSTGRES_PASSWORD": "{a12}!{a3}",
    "DB_PASS": "{a14}#{a2}",
    "MYSQL_PWD": "{a18}",
    "PASSWORD": "{a20}",
}
"""Names of variables, and the forms of their values, which say nothing by themselves."""


def secret(form: str, draw: random.Random) -> str:
    """Return a secret of a form."""

    def part(match: re.Match[str]) -> str:
        if match[1] == "uuid":
            return "-".join("".join(draw.choices(ALPHABETS["h"], k=n)) for n in (8, 4, 4, 4, 12))
        return "".join(draw.choices(ALPHABETS[match[1][0]], k=int(match[1][1:])))

    return re.sub(r"\{(\w+)\}", part, form.replace("|", ""))


def _nested(text: str, levels: int) -> str:
    for _ in range(levels):
        text = json.dumps({"cmd": text, "n": 1})
    return text


BARE: dict[str, Callable[[str], str]] = {
    "sentence": lambda s: f"the key is {s}, keep it",
    "alone": lambda s: s,
    "word before": lambda s: f"x_{s}",
    "quoted": lambda s: f'client = Client("{s}")',
    "single": lambda s: f"use('{s}');",
    "env": lambda s: f"export KEY={s}\nnext",
    "env quoted": lambda s: f"export MY_KEY='{s}'",
    "yaml": lambda s: f"app:\n  key: {s}\n  next: 1",
    "toml": lambda s: f'key = "{s}"',
    "dockerfile": lambda s: f"ENV KEY {s}",
    "diff": lambda s: f"-old\n+{s}\n",
    "diff env": lambda s: f"@@ -1 +1 @@\n+KEY={s}",
    "numbered": lambda s: f"    12\u2192KEY={s}\n    13\u2192",
    "numbered tab": lambda s: f"12:\t{s}",
    "colour": lambda s: f"\x1b[32m{s}\x1b[0m",
    "grep": lambda s: f"a:\x1b[01;31m\x1b[K{s}\x1b[m\x1b[K",
    "json": lambda s: json.dumps({"a": s}),
    "json 2": lambda s: _nested(f"run {s} now", 2),
    "json 3": lambda s: _nested(f"line\n{s}\nend", 3),
    "escaped": lambda s: 'out: {\\"k\\": \\"' + s + '\\"}',
    "newline escape": lambda s: f"a\\n{s}\\nb",
    "unicode": lambda s: f"key\\u003d{s}",
    "query": lambda s: f"https://api.example.com/v1?key={s}&x=1",
    "url": lambda s: "q%3D" + quote(s, safe="") + "%26x",
    "header": lambda s: f"curl -H 'X-Key: {s}' https://x",
    "xml": lambda s: f"<key>{s}</key>",
    "html": lambda s: f"key=&quot;{s}&quot;",
    "comma": lambda s: f"a,{s},b",
    "markdown": lambda s: f"`{s}`",
    "grep -n": lambda s: f"src/.env:12:KEY={s}\nsrc/.env-13-A=1",
    "timed": lambda s: f"2026-11-24T01:02:03.456Z INFO app using {s} for it",
    "syslog": lambda s: f"Nov 24 01:02:03 host app[812]: key={s}; next",
    "logfmt": lambda s: f'level=info key={s} msg="started"',
    "container": lambda s: json.dumps({"log": f"key {s}\n", "stream": "stdout"}) + "\n" + json.dumps({"log": "x\n"}),
    "diff quoted": lambda s: f'-  key: "old",\n+  key: "{s}",\n',
    "url twice": lambda s: "q%253D" + quote(quote(s, safe=""), safe="") + "%2526x",
    "mail": lambda s: f"key=3D{s}",
    "bytes": lambda s: f"key\\x3d{s}",
    "argv": lambda s: json.dumps(["tool", "--key", s, "go"]),
    "form": lambda s: f"curl -d 'a=1&key={s}&b=2' https://x",
    "csv": lambda s: f'name,key\n"bob","{s}"\n',
    "table": lambda s: f"| bob | {s} | 1 |",
}
"""Surroundings of what is found by its form."""

ASSIGNED: dict[str, Callable[[str, str], str]] = {
    "env": lambda n, s: f"{n}={s}",
    "export": lambda n, s: f"export {n}='{s}'\n",
    "env file": lambda n, s: f"A=1\n{n}={s}\nB=2",
    "spaces": lambda n, s: f'{n} = "{s}"',
    "lower": lambda n, s: f'{n.lower()} = "{s}"',
    "json": lambda n, s: json.dumps({n.lower(): s}),
    "json 2": lambda n, s: _nested(json.dumps({n: s}), 1),
    "json 3": lambda n, s: _nested(json.dumps({n: s}), 2),
    "inside": lambda n, s: _nested(f"export {n}={s} && run", 2),
    "escaped": lambda n, s: 'said {\\"' + n + '\\": \\"' + s + '\\"}',
    "yaml": lambda n, s: f"env:\n  {n}: {s}\n",
    "k8s": lambda n, s: f'- name: {n}\n  value: "{s}"\n',
    "docker": lambda n, s: f"docker run -e {n}={s} image",
    "dockerfile": lambda n, s: f"ENV {n} {s}",
    "diff": lambda n, s: f"-{n}=\n+{n}={s}\n",
    "numbered": lambda n, s: f"   12\u2192{n}={s}\n",
    "option": lambda n, s: f"tool --{n.lower().replace('_', '-')} {s} go",
    "option =": lambda n, s: f"tool --{n.lower().replace('_', '-')}={s}",
    "python": lambda n, s: f'os.environ["{n}"] = "{s}"',
    "dict": lambda n, s: f"config = {{'{n.lower()}': '{s}', 'x': 1}}",
    "call": lambda n, s: f'connect({n.lower()}="{s}")',
    "url": lambda n, s: f"{n}%3D{quote(s, safe='')}%26x",
    "unicode": lambda n, s: f"{n}\\u003d{s}",
    "colour": lambda n, s: f"\x1b[36m{n}\x1b[0m=\x1b[32m{s}\x1b[0m",
    "typed": lambda n, s: f'{n.lower()}: str = "{s}"',
    "xml": lambda n, s: f"<{n.lower()}>{s}</{n.lower()}>",
    "grep -n": lambda n, s: f"src/.env:12:{n}={s}\nsrc/.env-13-A=1",
    "timed": lambda n, s: f"2026-11-24T01:02:03.456Z INFO env {n}={s} set",
    "container": lambda n, s: json.dumps({"log": f"{n}={s}\n", "stream": "stdout"}) + "\n" + json.dumps({"log": "x\n"}),
    "url twice": lambda n, s: f"{n}%253D{quote(quote(s, safe=''), safe='')}%2526x",
    "mail": lambda n, s: f"{n}=3D{s}",
    "form": lambda n, s: f"curl -d 'a=1&{n.lower()}={s}&b=2' https://x",
    "compose": lambda n, s: f"    environment:\n      - {n}={s}\n      - B=2\n",
    "properties": lambda n, s: f"app.{n.lower().replace('_', '.')}={s}\nb=2",
    "argv": lambda n, s: json.dumps(["tool", f"--{n.lower().replace('_', '-')}", s, "go"]),
    "shell": lambda n, s: f"{n}={s} ./run && echo done",
}
"""Surroundings of what is found by its name."""


def bare(draw: random.Random) -> Iterator[tuple[str, str, str, str]]:
    """Yield family, surroundings, secret and text of every pair, with a new secret for each."""
    for family, form in FORMATS.items():
        for place, around in BARE.items():
            one = secret(form, draw)
            yield family, place, one, around(one)


def assigned(draw: random.Random) -> Iterator[tuple[str, str, str, str]]:
    """Yield the same for secrets by name."""
    for name, form in NAMED.items():
        for place, around in ASSIGNED.items():
            one = secret(form, draw)
            yield name, place, one, around(name, one)


def is_kept(secret: str, clean: str) -> bool:
    """Tell whether the part of a secret that matters is still there, however it is encoded."""
    core = secret[8:] if len(secret) < 30 else secret[12:-6]
    once = quote(core, safe="")
    return any(form in clean for form in (core, once, quote(once, safe="")))


def is_held_out(family: str, place: str) -> bool:
    """Tell whether a family in a place belongs to the half on which no pattern is adjusted."""
    return zlib.crc32(f"{family}|{place}".encode()) % 2 == 1
