//! Families of secrets with a form of their own: keys of services, by the prefixes, lengths and alphabets that they use,
//! and passwords in commands and headers.
//!
//! A pattern is tried at each of its signs, and matches from the sign on, or from `back` bytes before it.
//! `\b` at its start requires the start of a word. The group `secret`, or else the whole match, is replaced.
//! If two families match one text, the earlier one names it.
//!
//! Abbreviations denote a character in any encoding: `<eq>`, `<slash>`, `<b64>`, `<pad>`, `<dollar>` and `<ws>`.
//!
//! A wheel links `regex` with no Unicode tables but that of `\s`: `(?i-u:...)` may be used, `(?i)` and `\w`
//! may not.

use super::is_secret::{
    is_basic, is_bearer, is_bearer_password, is_field, is_key, is_password, is_random, is_seed, is_strong,
    is_typed, is_typed_word,
};

/// Form of a family of secrets.
#[derive(Clone, Copy)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) pattern: &'static str,
    pub(super) signs: &'static [&'static str],
    /// Bytes of a match before its sign.
    pub(super) back: usize,
    /// Further check of the secret.
    pub(super) check: fn(&str) -> bool,
    /// Check of the text before a match.
    pub(super) before: fn(&str) -> bool,
    /// Check of the text from the sign on that every match passes: without it most signs would have a pattern compiled and
    /// tried that words of English begin.
    pub(super) ahead: fn(&str) -> bool,
    /// True if the form is so short that base64 may match it by chance: then matches inside base64 are
    /// rejected.
    pub(super) alone: bool,
}

const fn any(_: &str) -> bool {
    true
}

type PatternRow = (&'static str, &'static str, &'static [&'static str]);

const fn family((name, pattern, signs): PatternRow) -> Family {
    Family { name, pattern, signs, back: 0, check: any, before: any, ahead: any, alone: false }
}

const fn checked(row: PatternRow, check: fn(&str) -> bool) -> Family {
    Family { check, ..family(row) }
}

const fn alone(row: PatternRow) -> Family {
    Family { alone: true, ..checked(row, is_random) }
}

const fn ahead(ahead: fn(&str) -> bool, family: Family) -> Family {
    Family { ahead, ..family }
}

const fn behind(back: usize, row: PatternRow) -> Family {
    Family { back, ..family(row) }
}

/// Number of families.
pub(super) const COUNT: usize = SERVICES.len() + COMMANDS.len();

/// Families, the more specific ones first.
pub(super) static FAMILIES: [Family; COUNT] = {
    let mut all = [SERVICES[0]; COUNT];
    let mut at = 0;
    while at < COUNT {
        all[at] = if at < SERVICES.len() { SERVICES[at] } else { COMMANDS[at - SERVICES.len()] };
        at += 1;
    }
    all
};

/// Keys of services.
#[rustfmt::skip]
const SERVICES: &[Family] = &[
    // Clouds
    family(("aws-access-key", r"\b(?:A[KS]IA[A-Z2-7]{16}|A(?:BIA|CCA)[A-Z0-9]{16}|A3T[A-Z0-9][A-Z2-7]{16}\b)", &["A3T", "AKIA", "ASIA", "ABIA", "ACCA"])),
    family(("aws-bedrock", r"\bABSK<b64>{100,}<pad>{0,2}", &["ABSK"])),
    family(("aws-bedrock", r"\bbedrock-api-key-(?:<b64>|<pad>){20,}", &["bedrock-api-key-"])),
    family(("azure-storage", r"AccountKey<eq>(?P<secret><b64>{80,88}(?:=|%(?:25)*3[Dd]|\\+u003[dD]){0,2})", &["AccountKey"])),
    behind(76, ("azure-storage", r"<b64>{76}\+(?:ASt|ACDb)<b64>{6}==", &["+ASt", "+ACDb"])),
    behind(4, ("azure-ad", r"[A-Za-z0-9_~.][A-Za-z0-9_~.]{2}[0-9]Q~[A-Za-z0-9_~.-]{31,36}", &["Q~"])),
    family(("azure-sas", r"sig<eq>(?P<secret><b64>{42,44}(?:=|%(?:25)*3[Dd]|\\+u003[dD])?)", &["sig=", "sig%", "sig\\"])),
    behind(52, ("azure-openai", r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{22,26}", &["JQQJ99"])),
    behind(76, ("azure-devops", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}", &["AZDO"])),
    behind(44, ("azure-functions", r"[A-Za-z0-9_-]{44}AzFu[A-Za-z0-9_-]{5}[AQgw]==", &["AzFu"])),
    behind(42, ("azure-search", r"[A-Za-z0-9]{42}AzSe[A-Za-z0-9]{6}", &["AzSe"])),
    family(("google", r"\bAIza[A-Za-z0-9_-]{35}", &["AIza"])),
    family(("google-oauth", r"\bGOCSPX-[A-Za-z0-9_-]{24,}", &["GOCSPX-"])),
    family(("google-oauth", r"\bya29\.[A-Za-z0-9_.-]{20,}", &["ya29."])),
    family(("google-oauth", r"\b1(?:<slash>){2}0[A-Za-z0-9_-]{40,}", &["1//0", "1%2F", "1%2f", "1%25", "1\\/"])),
    family(("alibaba", r"\bLTAI[A-Za-z0-9]{12,24}", &["LTAI"])),
    family(("aiven", r"\b(?:AVNS_[A-Za-z0-9_-]{17,}|aivenv1(?:<b64>|<pad>){30,})", &["AVNS_", "aivenv1"])),
    family(("cloudflare", r"\beyJhIjoi<b64>{100,}<pad>{0,2}", &["eyJhIjoi"])),
    checked(("cloudflare", r"\b0x4AAAAAAA[A-Za-z0-9_-]{24,}", &["0x4AAAAAAA"]), is_random),
    family(("digitalocean", r"\bdo[opr]_v1_[0-9a-f]{64}", &["doo_v1_", "dop_v1_", "dor_v1_"])),
    family(("fly", r"\bfm[12][ar]?_<b64>{60,}<pad>{0,3}", &["fm1", "fm2_"])),
    family(("fly", r"\bfo1_[A-Za-z0-9_-]{43}", &["fo1_"])),
    family(("heroku", r"\bHRKU-[A-Za-z0-9_-]{30,}", &["HRKU-"])),
    family(("netlify", r"\bnf[a-z]_[A-Za-z0-9_-]{36,}", &["nfp_", "nfc_", "nfo_", "nfu_"])),
    family(("planetscale", r"\bpscale_[a-z]{2,5}_[A-Za-z0-9_=.-]{30,}", &["pscale_"])),
    family(("render", r"\brnd_[A-Za-z0-9]{28,}", &["rnd_"])),
    alone(("scaleway", r"\bSCW[A-Z0-9]{17}\b", &["SCW"])),
    family(("scalingo", r"\btk-us-[A-Za-z0-9_-]{48}", &["tk-us-"])),
    family(("supabase", r"\bsbp_(?:oauth_|v0_)?[0-9a-f]{40}", &["sbp_"])),
    family(("supabase", r"\bsb_(?:secret|publishable)_[A-Za-z0-9_-]{20,}", &["sb_secret_", "sb_publishable_"])),
    behind(14, ("terraform", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}", &[".atlasv1."])),
    family(("vault", r"\bhv[sbr]\.[A-Za-z0-9_-]{20,}", &["hvs.", "hvb.", "hvr."])),
    alone(("vault", r"\bs\.[A-Za-z0-9]{24}\b", &["s."])),
    family(("vercel", r"\bvc[pikarts]_[A-Za-z0-9]{24,}", &["vcp_", "vci_", "vck_", "vca_", "vcr_", "vct_", "vcs_"])),
    family(("vercel", r"\bvercel_blob_rw_[A-Za-z0-9]{8,}_[A-Za-z0-9]{20,}", &["vercel_blob_rw_"])),
    family(("yandex", r"\bt1\.[A-Za-z0-9_-]{10,}={0,2}\.[A-Za-z0-9_-]{86}={0,2}", &["t1."])),
    family(("yandex", r"\b(?:AQVN[A-Za-z0-9_-]{35,38}|y[0-9]_[A-Za-z0-9_-]{50,})", &["AQVN", "y0_", "y1_", "y2_", "y3_"])),
    alone(("yandex", r"\bYC[A-Za-z0-9_-]{38}\b", &["YC"])),
    behind(76, ("azure", r"<b64>{76}(?:APIM|\+ABa|\+AMC)<b64>{5}[AQgw]==", &["APIM", "+ABa", "+AMC"])),
    behind(33, ("azure", r"<b64>{33}(?:AIoT|AzCa|\+ASb|\+AEh|\+ARm)[A-P]<b64>{5}=", &["AIoT", "AzCa", "+ASb", "+AEh", "+ARm"])),
    behind(42, ("azure-registry", r"<b64>{42}\+ACR[A-D][A-Za-z0-9]{5}", &["+ACR"])),
    family(("signed-url", r"X-(?:Amz|Goog)-Signature<eq>(?P<secret>[0-9a-f]{64,})", &["X-Amz-Signature", "X-Goog-Signature"])),
    checked(("tencent", r"\bAKID[A-Za-z0-9]{32}", &["AKID"]), is_random),
    family(("upcloud", r"\bucat_[A-Z0-9]{26}", &["ucat_"])),
    checked(("volcengine", r"\bAKLT<b64>{30,}<pad>{0,2}", &["AKLT"]), is_random),
    family(("vercel", r"\bvercel_blob_rw_[A-Za-z0-9]{16}_[A-Za-z0-9]{30}", &["vercel_blob_rw_"])),
    family(("convex", r"\b(?:prod|dev|preview)(?::|%(?:25)*3[Aa])[a-z]+-[a-z]+-[0-9]{1,4}(?:\||%(?:25)*7[Cc])(?P<secret><b64>{40,}<pad>{0,2})", &["prod:", "dev:", "preview:", "prod%", "dev%", "preview%"])),
    // Models and their hosts
    family(("google", r"\bAQ\.Ab8[A-Za-z0-9_-]{40,}", &["AQ.Ab8"])),
    family(("helicone", r"\bsk-helicone-[a-z0-9-]{20,}", &["sk-helicone-"])),
    family(("anthropic", r"\bsk-ant-[A-Za-z0-9_-]{20,}", &["sk-ant-"])),
    family(("openrouter", r"\bsk-or-(?:v[0-9]-)?[0-9a-zA-Z]{32,}", &["sk-or-"])),
    family(("langfuse", r"\b[sp]k-lf-[0-9a-f]{8}-[0-9a-f-]{27}", &["sk-lf-", "pk-lf-"])),
    family(("openai", r"\bsk-(?:[A-Za-z0-9]{32,}|(?:proj|svcacct|admin|service|None)-[A-Za-z0-9_-]{32,})", &["sk-"])),
    family(("hugging-face", r"\b(?:hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{30,})\b", &["hf_", "api_org_"])),
    family(("xai", r"\bxai-[A-Za-z0-9_-]{60,}", &["xai-"])),
    family(("groq", r"\bgsk_[A-Za-z0-9]{40,}", &["gsk_"])),
    family(("replicate", r"\br8_[A-Za-z0-9_-]{30,}", &["r8_"])),
    family(("perplexity", r"\bpplx-[A-Za-z0-9]{40,}", &["pplx-"])),
    alone(("fireworks", r"\bfw_[A-Za-z0-9]{20,}", &["fw_"])),
    family(("together", r"\btgp_v1_[A-Za-z0-9_-]{36,}", &["tgp_v1_"])),
    family(("cerebras", r"\bcsk-[A-Za-z0-9]{32,}", &["csk-"])),
    family(("nvidia", r"\bnvapi-[A-Za-z0-9_-]{50,}", &["nvapi-"])),
    family(("elevenlabs", r"\bsk_[0-9a-f]{48}\b", &["sk_"])),
    family(("langsmith", r"\blsv2_[a-z]{2}_[A-Za-z0-9_]{32,}", &["lsv2_"])),
    family(("langsmith", r"\bls__[A-Za-z0-9]{32,}", &["ls__"])),
    family(("wandb", r"\bwandb_v[0-9]_[A-Za-z0-9_-]{30,}", &["wandb_v"])),
    family(("wandb", r"wandb(?:\.login\(|[ _-]?login)[^\n\\]{0,24}?(?P<secret>[0-9a-f]{40})", &["wandb"])),
    family(("pinecone", r"\bpcsk_[A-Za-z0-9_]{40,}", &["pcsk_"])),
    alone(("voyage", r"\bpa-[A-Za-z0-9_-]{43}\b", &["pa-"])),
    family(("jina", r"\bjina_[A-Za-z0-9_-]{50,}", &["jina_"])),
    family(("tavily", r"\btvly-[A-Za-z0-9-]{20,}", &["tvly-"])),
    family(("firecrawl", r"\bfc-[0-9a-f]{32}\b", &["fc-"])),
    family(("e2b", r"\be2b_[0-9a-f]{40}", &["e2b_"])),
    family(("runpod", r"\brpa_[A-Za-z0-9]{40,}", &["rpa_"])),
    family(("context7", r"\bctx7sk-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["ctx7sk-"])),
    checked(("coze", r"\b[ps]at_[A-Za-z0-9]{64}\b", &["pat_", "sat_"]), is_random),
    family(("cursor", r"\bkey_[0-9a-f]{64}\b", &["key_"])),
    alone(("dify", r"\b(?:app|dataset)-[A-Za-z0-9]{24}\b", &["app-", "dataset-"])),
    family(("friendli", r"\bflp_[A-Za-z0-9]{40,}", &["flp_"])),
    family(("llamacloud", r"\bllx-[A-Za-z0-9]{40,}", &["llx-"])),
    alone(("mem0", r"\bm0-[A-Za-z0-9]{40}\b", &["m0-"])),
    alone(("modal", r"\ba[ks]-[A-Za-z0-9]{22}\b", &["ak-", "as-"])),
    family(("turbopuffer", r"\btpuf_[A-Za-z0-9]{30,}", &["tpuf_"])),
    family(("voiceflow", r"\bVF\.(?:DM|WS)\.[0-9a-f]{24}\.[A-Za-z0-9]{16}", &["VF.DM.", "VF.WS."])),
    Family { check: |value| value.rsplit('.').next().is_some_and(is_random), ..alone(("zhipu", r"\b[0-9a-f]{32}\.[A-Za-z0-9]{16}\b", &[])) },
    // Code, packages and builds
    family(("deno", r"\bdd[pwo]_[A-Za-z0-9]{36,}", &["ddp_", "ddw_", "ddo_"])),
    family(("inngest", r"\bsignkey-(?:prod|test|branch)-[0-9a-f]{32,}", &["signkey-"])),
    family(("trigger-dev", r"\btr_(?:dev|prod|stg|preview|pat)_[A-Za-z0-9]{20,}", &["tr_dev_", "tr_prod_", "tr_stg_", "tr_preview_", "tr_pat_"])),
    family(("defined-networking", r"\bdnkey-[A-Z0-9]{26}-[A-Za-z0-9]{52}", &["dnkey-"])),
    family(("intra42", r"\bs-s4t2(?:ud|af)-[0-9a-f]{64}", &["s-s4t2"])),
    family(("github", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"])),
    family(("gitlab", r"\bgl(?:pat|dt|rt|soat|ft|ffct|imt|agent|oas|cbt|wt)-[A-Za-z0-9_.-]{20,}", &["glpat-", "gldt-", "glrt-", "glsoat-", "glft-", "glffct-", "glimt-", "glagent-", "gloas-", "glcbt-", "glwt-"])),
    family(("gitlab", r"_gitlab_session=(?P<secret>[0-9a-z]{32})", &["_gitlab_session="])),
    family(("gitlab", r"\b(?:glptt-[0-9a-f]{40}|GR1348941[A-Za-z0-9_-]{20,})", &["glptt-", "GR1348941"])),
    family(("atlassian", r"\b(?:AT[ACS]TT3[A-Za-z0-9_=-]{40,}|ATCTT3[A-Za-z0-9_=-]{40,})", &["ATATT3", "ATCTT3", "ATSTT3"])),
    family(("bitbucket", r"\bATBB[A-Za-z0-9_=-]{24,}", &["ATBB"])),
    family(("buildkite", r"\bbk[a-z]{2}_[A-Za-z0-9]{36,}", &["bkua_", "bkct_", "bkaj_", "bkat_"])),
    family(("circleci", r"\bCCI(?:PAT|PRJ)_[A-Za-z0-9]{8,}_[0-9a-f]{40}", &["CCIPAT_", "CCIPRJ_"])),
    family(("clojars", r"\bCLOJARS_[0-9a-zA-Z]{60}", &["CLOJARS_"])),
    alone(("crates-io", r"\bcio[A-Za-z0-9]{32}\b", &["cio"])),
    family(("docker", r"\bdckr_[a-z]{3}_[A-Za-z0-9_-]{20,}", &["dckr_"])),
    family(("doppler", r"\bdp\.(?:ct|pt|st|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}", &["dp."])),
    family(("gitea-runner", r"\bgitea_[0-9a-f]{40}", &["gitea_"])),
    family(("harness", r"\b[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}", &["pat.", "sat."])),
    family(("infracost", r"\bico-[A-Za-z0-9]{32}", &["ico-"])),
    family(("ionic", r"\bion_[A-Za-z0-9]{42}", &["ion_"])),
    family(("jfrog", r"\bAKCp[A-Za-z0-9]{60,}", &["AKCp"])),
    family(("jfrog", r"\bcmVmd[A-Za-z0-9]{55,}", &["cmVmd"])),
    family(("npm", r"\bnpm_[A-Za-z0-9]{36}", &["npm_"])),
    family(("nuget", r"\boy2[a-z0-9]{43}", &["oy2"])),
    checked(("octopus", r"\bAPI-[A-Z0-9]{26,}", &["API-"]), |value| value.bytes().any(|byte| byte.is_ascii_digit())),
    family(("openshift", r"\bsha256~[A-Za-z0-9_-]{43}", &["sha256~"])),
    family(("prefect", r"\bpn[ub]_[A-Za-z0-9]{36}", &["pnu_", "pnb_"])),
    family(("pulumi", r"\bpul-[0-9a-f]{40}", &["pul-"])),
    family(("pypi", r"\bpypi-Ag[A-Za-z0-9_-]{50,}", &["pypi-Ag"])),
    family(("rubygems", r"\brubygems_[0-9a-f]{42,52}", &["rubygems_"])),
    family(("snyk", r"\bsnyk_[a-z]{3}\.[A-Za-z0-9_.-]{30,}", &["snyk_"])),
    family(("sonarqube", r"\bsq[upa]_[A-Za-z0-9]{40}", &["squ_", "sqp_", "sqa_"])),
    family(("sourcegraph", r"\bsgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}", &["sgp_"])),
    family(("sourcegraph", r"\bslk_[0-9a-f]{64}", &["slk_"])),
    family(("segment", r"\bsgp_[A-Za-z0-9]{64}", &["sgp_"])),
    family(("stackhawk", r"\bhawk\.[A-Za-z0-9_-]{20}\.[A-Za-z0-9_-]{20}", &["hawk."])),
    family(("dagster", r"\bagent(?::|%(?:25)*3[Aa])[a-z0-9-]{1,40}(?::|%(?:25)*3[Aa])(?P<secret>[0-9a-f]{32})\b", &["agent:", "agent%"])),
    family(("authress", r"\b(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.(?:<b64>|<pad>){30,120}", &["sc_", "ext_", "scauth_", "authress_"])),
    family(("openvsx", r"\bovsx[ap]t_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["ovsxat_", "ovsxpt_"])),
    family(("rootly", r"\brootly_[0-9a-f]{64}", &["rootly_"])),
    family(("sidekiq", r"CONTRIBSYS__COM[^\n]{0,8}?(?P<secret>[0-9a-f]{8}:[0-9a-f]{8})\b", &["CONTRIBSYS__COM"])),
    family(("thunderstore", r"\btss_[A-Za-z0-9]{46}", &["tss_"])),
    family(("truenas", r"login_with_api_key[^\n]{0,80}?(?P<secret>[0-9]{1,4}-[A-Za-z0-9]{64})", &["login_with_api_key"])),
    family(("unkey", r"\bunkey_[A-Za-z0-9]{20,}", &["unkey_"])),
    family(("val-town", r"\bvtwn_[A-Za-z0-9]{20,}", &["vtwn_"])),
    family(("zuplo", r"\bzpka_[a-z0-9]{32}_[a-z0-9]{8}", &["zpka_"])),
    // Data, monitoring and networks
    family(("axiom", r"\bxa[ap]t-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["xaat-", "xapt-"])),
    family(("logfire", r"\bpylf_v[0-9]_[a-z]{2,}_[A-Za-z0-9]{40,}", &["pylf_v"])),
    family(("neon", r"\bnapi_[a-z0-9]{50,}", &["napi_"])),
    family(("xata", r"\bxau_[A-Za-z0-9]{30,}", &["xau_"])),
    family(("airtable", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{60,66}", &[])),
    family(("cloudflare", r"\bv1\.0-[0-9a-f]{24}-[0-9a-f]{100,}", &["v1.0-"])),
    family(("cloudflare", r"\bcf(?:ut|at|k|ot)_[A-Za-z0-9_-]{40,}", &["cfut_", "cfat_", "cfk_", "cfot_"])),
    family(("clickhouse", r"\b4b1d[A-Za-z0-9]{38}\b", &["4b1d"])),
    family(("confluent", r"\bcflt<b64>{60}", &["cflt"])),
    family(("contentful", r"\bCFPAT-[A-Za-z0-9_-]{43}", &["CFPAT-"])),
    family(("databricks", r"\bdapi[0-9a-f]{32}(?:-[0-9])?\b", &["dapi"])),
    family(("dynatrace", r"\bdt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}", &["dt0"])),
    family(("grafana", r"\bglsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}", &["glsa_"])),
    family(("grafana", r"\b(?:glc_<b64>{32,}|eyJrIjoi<b64>{40,})<pad>{0,3}", &["glc_", "eyJrIjoi"])),
    family(("honeycomb", r"\bhc[a-z]{3}_[A-Za-z0-9]{50,}", &["hcaik_", "hcbik_", "hcxik_"])),
    family(("launchdarkly", r"(?:aunch[Dd]arkly|LAUNCHDARKLY|LD_|(?:SDK|sdk|MOBILE|mobile)_?(?:KEY|[Kk]ey))[^\n]{0,64}?(?P<secret>(?:api|sdk|mob|rel)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})", &["aunchdarkly", "aunchDarkly", "LAUNCHDARKLY", "LD_", "SDK_", "SDKK", "sdk_", "sdkK", "MOBILE_", "mobile_", "mobileK"])),
    behind(36, ("maxmind", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", &["_mmk"])),
    family(("mongodb-atlas", r"\bmdb_sa_sk_[A-Za-z0-9_-]{30,}", &["mdb_sa_sk_"])),
    family(("new-relic", r"\bNR(?:AK|II|RA|JS|AA|SP)-[A-Za-z0-9_-]{19,}", &["NRAK-", "NRII-", "NRRA-", "NRJS-", "NRAA-", "NRSP-"])),
    behind(36, ("new-relic", r"[A-Za-z0-9]{36}NRAL", &["NRAL"])),
    alone(("pagerduty", r"\bu(?:\+|%(?:25)*2[Bb])[A-Za-z0-9_+-]{18}", &["u+", "u%2"])),
    family(("posthog", r"\bph[xc]_[A-Za-z0-9_-]{40,}", &["phx_", "phc_"])),
    behind(10, ("rapidapi", r"[0-9a-f]{10}msh[0-9a-f]{15}p1[0-9a-f]{6}jsn[0-9a-f]{12}", &["msh"])),
    family(("sentry", r"\bsntry[su]_(?:<b64>|[=_-]|%(?:25)*3[Dd]){50,}", &["sntrys_", "sntryu_"])),
    family(("tailscale", r"\btskey-[a-z]+-[A-Za-z0-9_-]{16,}", &["tskey-"])),
    family(("growthbook", r"\bsecret_(?:admin|readonly|user)_[A-Za-z0-9]{30,}", &["secret_admin_", "secret_readonly_", "secret_user_"])),
    family(("pangea", r"\bpts_[a-z0-9]{32}", &["pts_"])),
    checked(("statsig", r"\b(?:secret|console)-[A-Za-z0-9]{40,}\b", &["secret-", "console-"]), is_random),
    family(("ubidots", r"\bBBFF-[A-Za-z0-9]{30}", &["BBFF-"])),
    family(("samsara", r"\bsamsara_api_[A-Za-z0-9]{30,}", &["samsara_api_"])),
    // Mail, chat and work
    family(("onesignal", r"\bos_v2_(?:app|org)_[a-z0-9]{60,}", &["os_v2_"])),
    family(("asana", r"\b[0-2]/[0-9]{16}(?:/[0-9]{16})?:[0-9a-f]{32}", &["0/1", "1/1", "2/1", "0/2", "1/2", "2/2"])),
    family(("adobe", r"\bp8e-[A-Za-z0-9-]{32}", &["p8e-"])),
    family(("adafruit", r"\baio_[A-Za-z0-9]{28}", &["aio_"])),
    family(("apify", r"\bapify_api_[A-Za-z0-9]{30,}", &["apify_api_"])),
    family(("cal-com", r"\bcal_(?:live_)?[0-9a-f]{32}\b", &["cal_"])),
    family(("clickup", r"\bpk_[0-9]{7,9}_[A-Z0-9]{32}", &["pk_"])),
    alone(("discord", r"\b[A-Za-z0-9][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}", &[])),
    family(("discord-webhook", r"webhooks<slash>[0-9]{15,21}<slash>(?P<secret>[A-Za-z0-9_-]{50,})", &["webhooks/", "webhooks%", "webhooks\\"])),
    family(("dropbox", r"\bsl\.(?:u\.)?[A-Za-z0-9_-]{100,}", &["sl."])),
    family(("figma", r"\bfig[duo]_[A-Za-z0-9_-]{36,}", &["figd_", "figu_", "figo_"])),
    family(("frame-io", r"\bfio-u-[A-Za-z0-9_=-]{60,64}", &["fio-u-"])),
    family(("hubspot", r"\bpat-[a-z]{2}[0-9]-[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}", &["pat-na", "pat-eu", "pat-ap"])),
    family(("linear", r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}", &["lin_api_", "lin_oauth_"])),
    behind(32, ("mailchimp", r"[0-9a-f]{32}-us[0-9]{1,2}", &["-us1", "-us2", "-us3", "-us4", "-us5", "-us6", "-us7", "-us8", "-us9"])),
    family(("mailgun", r"\b(?:pub)?key-[0-9a-f]{32}\b", &["key-", "pubkey-"])),
    family(("mailgun", r"\b[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b", &[])),
    alone(("mandrill", r"\bmd-[A-Za-z0-9_-]{22}\b", &["md-"])),
    family(("mapbox", r"\b[spt]k\.[A-Za-z0-9_-]{50,}\.[A-Za-z0-9_-]{20,}", &["sk.", "pk.", "tk."])),
    family(("notion", r"\b(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})\b", &["ntn_", "secret_"])),
    family(("okta", r"\bSSWS(?:<ws>)+(?P<secret>[A-Za-z0-9_-]{30,})", &["SSWS"])),
    family(("postman", r"\bPMAK-[0-9a-zA-Z]{24}-[0-9a-zA-Z]{34}", &["PMAK-"])),
    family(("readme", r"\brdme_[a-z0-9]{60,}", &["rdme_"])),
    family(("resend", r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b", &["re_"])),
    family(("salesforce", r"\b00[A-Za-z0-9]{13,16}(?:!|%(?:25)*21)[A-Za-z0-9_.]{80,}", &["00D"])),
    family(("sendgrid", r"\bSG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}", &["SG."])),
    family(("sendinblue", r"\bx(?:keysib|smtpsib)-[0-9a-f]{64}-[A-Za-z0-9]{16}", &["xkeysib-", "xsmtpsib-"])),
    family(("shopify", r"\bshp(?:at|ca|pa|ss|tka|ua|rt)_[0-9a-fA-F]{30,}", &["shpat_", "shpca_", "shppa_", "shpss_", "shptka_", "shpua_", "shprt_"])),
    family(("slack", r"\b(?:xoxe\.xox[bp]-[0-9]-[A-Za-z0-9]{100,}|xoxd-(?:[.~%]|<b64>){10,}<pad>{0,2}|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,})", &["xox", "xapp-"])),
    behind(8, ("slack-webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}", &["hooks.slack.com"])),
    family(("slack-webhook", r"hooks\.slack\.com<slash>(?:services|workflows|triggers)<slash>(?:[A-Za-z0-9_-]|<slash>){20,}", &["hooks.slack.com"])),
    family(("teams-webhook", r"webhook\.office\.com<slash>webhookb2<slash>(?P<secret>(?:[A-Za-z0-9@-]|%40){60,}<slash>IncomingWebhook<slash>[0-9a-f]{32}<slash>[A-Za-z0-9-]{20,})", &["webhook.office.com"])),
    behind(10, ("telegram", r"[0-9]{10}(?::|%(?:25)*3[Aa])A[A-Za-z0-9_-]{34}", &[":A", "%3AA", "%3aA", "%253AA"])),
    behind(9, ("telegram", r"[0-9]{9}(?::|%(?:25)*3[Aa])A[A-Za-z0-9_-]{34}", &[":A", "%3AA", "%3aA", "%253AA"])),
    behind(8, ("telegram", r"[0-9]{8}(?::|%(?:25)*3[Aa])A[A-Za-z0-9_-]{34}", &[":A", "%3AA", "%3aA", "%253AA"])),
    family(("trello", r"\bATTA[0-9a-zA-Z]{64,}", &["ATTA"])),
    family(("twilio", r"\b(?:SK|AC)[0-9A-Fa-f]{32}\b", &["SK", "AC"])),
    family(("typeform", r"\btfp_[A-Za-z0-9_.=-]{40,}", &["tfp_"])),
    family(("zapier-webhook", r"hooks\.zapier\.com<slash>hooks<slash>catch<slash>(?P<secret>[0-9]+<slash>[A-Za-z0-9]{5,})", &["hooks.zapier.com"])),
    checked(("beamer", r"(?:beamer|BEAMER|Beamer)[^\n]{0,40}?(?P<secret>b_[A-Za-z0-9=_-]{44})", &["beamer", "BEAMER", "Beamer"]), is_random),
    family(("instagram", r"\bIGQV[A-Za-z0-9_-]{100,}", &["IGQV"])),
    family(("intercom", r"\bdG9rOj<b64>{46,48}<pad>{0,2}", &["dG9rOj"])),
    family(("klaviyo", r"\bpk_[0-9a-f]{34}\b", &["pk_"])),
    checked(("lichess", r"\bli[op]_[A-Za-z0-9]{20}\b", &["lip_", "lio_"]), is_random),
    family(("mailersend", r"\bmlsn\.[0-9a-f]{60,}", &["mlsn."])),
    family(("nylas", r"\bnyk_v0_[A-Za-z0-9]{60,}", &["nyk_v0_"])),
    family(("svix", r"\btestsk_[A-Za-z0-9_-]{32,}", &["testsk_"])),
    family(("teamwork", r"\btkn\.v1_<b64>{60,}<pad>{0,2}", &["tkn.v1_"])),
    family(("telnyx", r"\bKEY[0-9A-Fa-f]{32}_[A-Za-z0-9]{22}", &["KEY0", "KEY1"])),
    family(("teams-webhook", r"outlook\.office\.com<slash>webhook<slash>(?P<secret>(?:[A-Za-z0-9@-]|%40){60,}<slash>IncomingWebhook<slash>[0-9a-f]{32}<slash>[A-Za-z0-9-]{20,})", &["outlook.office.com"])),
    family(("webhook", r"hook\.[a-z]{2}[0-9]\.make\.com<slash>(?P<secret>[a-z0-9]{32})", &["hook.eu", "hook.us"])),
    family(("webhook", r"maker\.ifttt\.com<slash>trigger<slash>[^\s/]{1,64}<slash>(?:json<slash>)?with<slash>key<slash>(?P<secret>[A-Za-z0-9_-]{20,})", &["maker.ifttt.com"])),
    family(("webhook", r"open\.(?:feishu\.cn|larksuite\.com)<slash>open-apis<slash>bot<slash>v2<slash>hook<slash>(?P<secret>[0-9a-f-]{36})", &["open.feishu.cn", "open.larksuite.com"])),
    family(("webhook", r"tines\.(?:com|io)<slash>webhook<slash>(?P<secret>[0-9a-f]{32}<slash>[0-9a-f]{32})", &["tines.com", "tines.io"])),
    family(("zoho", r"\b1000\.[0-9a-f]{32}\.[0-9a-f]{32}", &["1000."])),
    checked(("twitter", r"\bA{19,24}(?:[A-Za-z0-9]|%(?:25)*2[BbFf]){20,60}%(?:25)*3D[A-Za-z0-9]{40,60}", &["AAAAAAAAAAAAAAAAAAA"]), is_random),
    // Money
    family(("polar", r"\bpolar_[a-z]{2,}_[A-Za-z0-9]{30,}", &["polar_"])),
    family(("duffel", r"\bduffel_(?:test|live)_[A-Za-z0-9_=-]{40,}", &["duffel_"])),
    family(("easypost", r"\bEZ[AT]K[A-Za-z0-9]{54}", &["EZAK", "EZTK"])),
    family(("flutterwave", r"\bFLW(?:SEC|PUB)K(?:_TEST)?-[0-9a-zA-Z]{12,}(?:-X)?", &["FLWSECK", "FLWPUBK"])),
    family(("lob", r"\b(?:live|test)_(?:[0-9a-f]{35}|pub_[0-9a-f]{31})\b", &["live_", "test_"])),
    family(("pagarme", r"\bak_live_[A-Za-z0-9]{30}", &["ak_live_"])),
    family(("plaid", r"\baccess-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["access-"])),
    family(("settlemint", r"\bsm_[aps]at_[A-Za-z0-9]{16}", &["sm_aat_", "sm_pat_", "sm_sat_"])),
    family(("shippo", r"\bshippo_(?:live|test)_[0-9a-fA-F]{40}", &["shippo_"])),
    family(("square", r"\bsq0(?:atp|csp)-[A-Za-z0-9_-]{22,}", &["sq0atp-", "sq0csp-"])),
    alone(("square", r"\bEAAA[A-Za-z0-9_-]{56,62}\b", &["EAAA"])),
    family(("stripe", r"\b[srp]k_(?:live|test|prod)_[A-Za-z0-9]{16,}", &["sk_live_", "rk_live_", "pk_live_", "sk_test_", "rk_test_", "pk_test_", "sk_prod_", "rk_prod_", "pk_prod_"])),
    family(("stripe", r"\bwhsec_<b64>{24,}<pad>{0,2}", &["whsec_"])),
    family(("adyen", r"\bAQE[a-z]hmf[a-z]<b64>{60,}", &["AQE"])),
    family(("braintree", r"\baccess_token(?:\$|%(?:25)*24)(?:production|sandbox)(?:\$|%(?:25)*24)[a-z0-9]{16}(?:\$|%(?:25)*24)[0-9a-f]{32}", &["access_token$", "access_token%"])),
    checked(("gocardless", r"\blive_[A-Za-z0-9_-]{40}\b", &["live_"]), is_random),
    checked(("imagekit", r"\bprivate_<b64>{27}<pad>", &["private_"]), is_random),
    family(("liveblocks", r"\b[sp]k_(?:prod|dev)_[A-Za-z0-9_-]{40,}", &["sk_prod_", "sk_dev_", "pk_prod_", "pk_dev_"])),
    family(("paddle", r"\bpdl_(?:live|sdbx)_apikey_[a-z0-9]{26}_[A-Za-z0-9]{22}_[A-Za-z0-9]{3}", &["pdl_live_apikey_", "pdl_sdbx_apikey_"])),
    family(("ramp", r"\bramp_(?:id|sec)_[A-Za-z0-9]{40,}", &["ramp_id_", "ramp_sec_"])),
    family(("razorpay", r"\brzp_(?:live|test)_[A-Za-z0-9]{14}", &["rzp_live_", "rzp_test_"])),
    // People and keys
    family(("bitwarden", r"\b0\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.[A-Za-z0-9]{20,}(?::|%(?:25)*3[Aa])<b64>{20,}<pad>{0,2}", &[])),
    family(("bitwarden", r"BW_SESSION<eq>['\x22\\]*(?P<secret><b64>{60,}<pad>{0,2})", &["BW_SESSION"])),
    family(("bitwarden", r"--session[ =]+['\x22\\]*(?P<secret><b64>{80,}<pad>{0,2})", &["--session"])),
    family(("1password", r"\bops_eyJ<b64>{50,}<pad>{0,3}", &["ops_eyJ"])),
    family(("1password", r"\bA3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}", &["A3-"])),
    family(("age", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}", &["AGE-SECRET-KEY-1"])),
    alone(("facebook", r"\bEAA[A-Za-z0-9]{90,}", &["EAA"])),
    family(("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}", &["eyJ"])),
    family(("private-key", r"LS0tLS1CRUdJTiB(?:QUklWQ|SU0EgUFJJ|FQyBQUkl|PUEVOU1NIIFBS|EU0EgUFJJ|FTkNSWVBURUQg|QR1AgUFJJ)<b64>{40,}<pad>{0,2}", &["LS0tLS1CRUdJTiB"])),
    family(("onfido", r"\bapi_(?:live|sandbox)(?:_[a-z]{2})?\.[A-Za-z0-9_-]{11}\.[A-Za-z0-9_-]{32}", &["api_live", "api_sandbox"])),
    family(("persona", r"\bpersona_(?:production|sandbox)_[0-9a-f-]{36}", &["persona_production_", "persona_sandbox_"])),
    alone(("recaptcha", r"\b6L[A-Za-z0-9_-]{38}\b", &["6L"])),
    family(("stytch", r"\bsecret-(?:live|test)-[A-Za-z0-9_-]{30,}=?", &["secret-live-", "secret-test-"])),
    family(("password-hash", r"<dollar>2[abxy]?<dollar>[0-9]{2}<dollar>[./A-Za-z0-9]{53}", &["$2$", "$2a$", "$2b$", "$2x$", "$2y$", "\\$2a\\", "\\$2b\\", "\\$2y\\", "%242a%", "%242b%", "%242y%"])),
    family(("password-hash", r"<dollar>(?:[156]|apr1|md5|sha1|gy|y|7)<dollar>(?:rounds=[0-9]{1,9}<dollar>)?[./A-Za-z0-9]{1,24}<dollar>(?:[./A-Za-z0-9]{1,64}<dollar>)?[./A-Za-z0-9]{22,86}", &["$1$", "$5$", "$6$", "$apr1$", "$md5$", "$sha1$", "$y$", "$gy$", "$7$", "\\$1\\", "\\$5\\", "\\$6\\", "\\$apr1\\", "\\$y\\", "%241%", "%245%", "%246%", "%24apr1%", "%24y%"])),
    family(("password-hash", r"<dollar>argon2(?:id|i|d)<dollar>v=[0-9]+<dollar>m=[0-9,tp=]+<dollar><b64>{8,}<dollar><b64>{16,}", &["$argon2", "\\$argon2", "%24argon2"])),
    family(("password-hash", r"<dollar>(?:scrypt|pbkdf2(?:-sha[0-9]{1,3})?|bcrypt-sha256)<dollar>[a-z0-9=,.]{1,40}<dollar>[./+A-Za-z0-9]{6,64}<dollar>[./+A-Za-z0-9]{22,}={0,2}", &["$scrypt$", "$pbkdf2", "$bcrypt-sha256$", "\\$scrypt", "\\$pbkdf2"])),
    family(("password-hash", r"<dollar>[PHS]<dollar>[./A-Za-z0-9]{31,52}", &["$P$", "$H$", "$S$", "\\$P\\", "\\$H\\", "\\$S\\"])),
    family(("password-hash", r"\bpbkdf2_sha(?:1|256|512)<dollar>[0-9]+<dollar>[A-Za-z0-9./]{6,64}<dollar><b64>{27,}<pad>{0,2}", &["pbkdf2_sha"])),
    family(("password-hash", r"\b(?:pbkdf2:sha[0-9]{1,3}:[0-9]+|scrypt:[0-9]+:[0-9]+:[0-9]+)<dollar>[A-Za-z0-9./]{4,64}<dollar>[0-9a-f]{40,128}", &["pbkdf2:sha", "scrypt:"])),
    family(("password-hash", r"\bSCRAM-SHA-(?:1|256|512)<dollar>[0-9]+:<b64>{8,}<pad>{0,2}<dollar><b64>{27,}<pad>{0,2}:<b64>{27,}<pad>{0,2}", &["SCRAM-SHA-"])),
    family(("password-hash", r"\{(?:SSHA|SHA|SMD5|MD5)(?:256|384|512)?\}(?P<secret><b64>{22,}<pad>{0,2})", &["{SSHA", "{SHA", "{SMD5", "{MD5"])),
];

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

/// Passwords in commands and headers.
#[rustfmt::skip]
const COMMANDS: &[Family] = &[
    // Commands and headers
    ahead(is_bearer_ahead, checked(("bearer", r"[Bb]earer(?:<ws>)+(?P<secret>(?:[A-Za-z0-9._~=-]|<b64>|(?::|\||%(?:25)*3[Aa]|%(?:25)*7[Cc])[A-Za-z0-9]){16,}<pad>{0,2})", &["Bearer", "bearer"]), is_bearer)),
    ahead(is_user_ahead, checked(("bearer", r#"[Bb]earer(?:<ws>)+[A-Za-z0-9._-]{1,64}:(?P<secret>[^\s'"\\,;]{8,256})"#, &["Bearer", "bearer"]), is_bearer_password)),
    checked(("basic-auth", r"[Bb]asic(?:<ws>)+(?P<secret><b64>{8,}<pad>{0,2})", &["Basic", "basic"]), is_basic),
    checked(("command-password", r#"[ '"](?:-u|--user|-a|--auth)[ =]+['"\\]*[^\s'"\\:@]{0,64}:(?P<secret>[^\s'"\\]{6,128})"#, &[" -u", "\"-u", "'-u", " --user", " -a ", " --auth"]), is_strong),
    ahead(is_curl_user_ahead, checked(("command-password", r#"curl[^\n|]{0,600}?[ '"](?:-[A-Za-z]{0,8}[uU]|--user|--proxy-user)[ =]*['"\\]*[^\s'"\\:@]{1,64}:(?P<secret>[^\s'"\\]{4,128})"#, &["curl"]), is_typed_word)),
    checked(("command-password", r#"mysql(?:dump|admin|import|check|show)?(?:\s[^\n|;\\]{0,120}?)?\s-p['"]?(?P<secret>[^\s'"\\]{6,128})"#, &["mysql"]), |value| is_typed_word(value) && !value.starts_with("ort")),
    checked(("command-password", r"mysqladmin\s[^\n|;]{0,120}?\spassword\s+<pw>", &["mysqladmin"]), is_typed),
    checked(("command-password", r"(?:sshpass|rdesktop)\s(?:[^\n|;\\]{0,80}?\s)?-p[ =]?<pw>", &["sshpass", "rdesktop"]), is_typed_word),
    checked(("command-password", r"(?:docker|podman|az|oc|cf|helm registry|skopeo) login\s[^\n|;\\]{0,160}?\s-p[ =]?<pw>", &["docker login", "podman login", "az login", "oc login", "cf login", "helm registry login", "skopeo login"]), is_typed),
    checked(("command-password", r"redis-cli\s[^\n|;\\]{0,120}?\s(?:-a|--pass)[ =]?<pw>", &["redis-cli"]), is_typed),
    checked(("command-password", r"mongo(?:sh|dump|restore|export|import|stat|top)?\s[^\n|;\\]{0,200}?\s(?:-p ?|--password[ =])<pw>", &["mongo"]), is_typed),
    checked(("command-password", r"ldap(?:search|add|modify|delete|whoami|passwd|compare)\s[^\n|;\\]{0,160}?\s-w ?<pw>", &["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd", "ldapcompare"]), is_typed),
    ahead(|text| text.contains("-P"), checked(("command-password", r"(?:sqlcmd|bcp|isql|zip)\s(?:[^\n|;\\]{0,160}?\s)?-P ?<pw>", &["sqlcmd ", "bcp ", "isql ", "zip "]), is_password)),
    checked(("command-password", r"(?:7za?|7zz|rar|unrar)\s[^\n|;\\]{0,160}?\s-p<pw>", &["7z ", "7za ", "7zz ", "rar "]), is_password),
    checked(("command-password", r"(?:smbclient|rpcclient|smbmap|net)\s[^\n|;\\]{0,160}?\s-U ?['\x22]?[^\s%'\x22]{1,64}%<pw>", &["smbclient", "rpcclient", "net rpc", "net ads"]), is_typed),
    checked(("command-password", r"freerdp[^\n|;]{0,160}?\s/p:<pw>", &["freerdp"]), is_typed),
    checked(("command-password", r"htpasswd\s+-[A-Za-z]*b[A-Za-z]*\s+\S{1,128}\s+\S{1,64}\s+<pw>", &["htpasswd"]), is_typed),
    checked(("command-password", r"(?:-storepass|-keypass|-srcstorepass|-deststorepass|-srckeypass|-destkeypass)\s+<pw>", &["-storepass", "-keypass", "-srcstorepass", "-deststorepass", "-srckeypass", "-destkeypass"]), is_typed),
    checked(("command-password", r"(?:net user|wpa_passphrase|smbpasswd -a)\s+[^\s/]{1,64}\s+<pw>", &["net user ", "wpa_passphrase "]), is_typed),
    checked(("command-password", r"lftp\s[^\n|;]{0,120}?-u ?[^\s,]{1,64},<pw>", &["lftp"]), is_typed),
    checked(("command-password", r"sqlplus\s+(?:-[A-Za-z]+\s+)*['\x22]?[A-Za-z0-9_$#]{1,64}/['\x22]?(?P<secret>[^\s'\x22\\@]{4,128})", &["sqlplus"]), is_typed),
    checked(("command-password", r"nmcli\s[^\n|;]{0,160}?\spassword\s+<pw>", &["nmcli"]), is_typed),
    ahead(|text| text.contains("pass:"), checked(("command-password", r"-pass(?:in|out)?\s+['\x22]?pass:<pw>", &["-pass"]), is_typed)),
    checked(("command-password", r"openssl\s[^\n|;]{0,200}?\s-k\s+<pw>", &["openssl "]), is_typed),
    ahead(|text| text.contains('|'), checked(("command-password", r#"(?:echo|printf)(?:\s+-[a-z]+)?\s+['"\\]*(?:[A-Za-z0-9_.@-]{1,64}:)?(?P<secret>[^\s'":\\]{4,128})(?:\\+n)?['"\\]*\s*\|\s*(?:sudo\s+)?(?:chpasswd|passwd|sudo\s+-[a-zA-Z]*S|kinit|cryptsetup|[^\n|]{0,120}?--(?:password-stdin|passphrase-fd|stdin|with-token))"#, &["echo ", "printf "]), is_typed)),
    ahead(is_identified_by, checked(("command-password", r#"(?i-u:identified\s+(?:with\s+[a-z0-9_'"]+\s+)?by\s+(?:password\s+)?)[\\]*['"](?P<secret>[^'"\s]{4,128}?)[\\]*['"]"#, &["IDENTIFIED", "identified", "Identified"]), is_typed)),
    ahead(is_identified_by, checked(("command-password", r"(?i-u:identified\s+by\s+)(?P<secret>[^'\x22\s\\;]{4,128})", &["IDENTIFIED", "identified", "Identified"]), is_strong)),
    checked(("command-password", r#"(?i-u:(?:create|alter)\s+(?:user|role|login)\s)[^\n;']{0,120}?(?i-u:password\s*=?\s*)(?:N?[\\]*['"])(?P<secret>[^'"\s]{4,128}?)[\\]*['"]"#, &["CREATE USER", "create user", "Create User", "ALTER USER", "alter user", "Alter User", "CREATE ROLE", "create role", "ALTER ROLE", "alter role", "CREATE LOGIN", "create login", "ALTER LOGIN", "alter login"]), is_typed),
    checked(("command-password", r"(?:requirepass|masterauth)(?:\s|\\+[nt])+<pw>", &["requirepass", "masterauth"]), is_password),
    checked(("command-password", r"(?:AUTH|auth)\s+(?:[a-z]{1,32}\s+)?<pw>", &["AUTH ", "auth "]), |value| is_strong(value) && !value.starts_with("0x")),
    checked(("command-password", r"(?i-u:psexec)[^\n|;]{0,120}?\s-p\s+<pw>", &["psexec", "PsExec", "PSEXEC"]), is_typed),
    checked(("cookie", r#"[Cc]ookie['"]?:\s?['"]?[^\n'"]{0,600}?(?i-u:sess|sid|auth|token|jwt)[A-Za-z0-9_.-]{0,20}=(?P<secret>[^\s'";\\]{16,1024})"#, &["Cookie:", "Cookie\":", "Cookie':", "cookie:", "cookie\":", "cookie':"]), is_random),
    checked(("query-key", r"[?&](?:key|appid|app_id|sig|signature|hapikey)=(?P<secret>[A-Za-z0-9_-]{24,256})", &["?key=", "&key=", "?appid=", "&appid=", "?app_id=", "&app_id=", "?sig=", "&sig=", "?signature=", "&signature=", "?hapikey=", "&hapikey="]), is_key),
    Family { before: is_host, ..checked(("pgpass", r#":(?:[0-9]{4,5}|\*):(?:\*|[A-Za-z_][^:\s'"\\]{0,63}):[^:\s'"\\]{1,64}:(?P<secret>(?:\\[:\\]|[^\s:'"\\]){4,128})(?:[\s'"\\]|\z)"#, &[":5432:", ":5433:", ":5434:", ":5435:", ":5436:", ":5439:", ":6432:", ":6543:", ":15432:", ":25060:", ":25061:", ":*:"]), is_field) },
    checked(("seed-phrase", SEED, &["nemonic", "NEMONIC", "hrase", "HRASE", "bip39", "BIP39", "BIP-39", "seed: ", "Seed: ", "seed:\n", "seed = ", "seed=", "SEED=", "SEED: ", "seed\": ", "seed is", "eed words", "EED_WORDS", "eed_words", "eedWords"]), is_seed),
    ahead(|text| text.contains("password"), checked(("netrc", r"(?:machine(?:\s|\\+[nrt])+[^\s\\]+|default)(?:\s|\\+[nrt])+login(?:\s|\\+[nrt])+[^\s\\]+(?:\s|\\+[nrt])+(?:account(?:\s|\\+[nrt])+[^\s\\]+(?:\s|\\+[nrt])+)?password(?:\s|\\+[nrt])+(?P<secret>[^\s\\'\x22]{4,256})", &["machine", "default"]), is_field)),
    ahead(|text| text.contains("password"), checked(("netrc", r"login(?:\s|\\+[nrt])+[^\s\\]+(?:\s|\\+[nrt])+password(?:\s|\\+[nrt])+(?P<secret>[^\s\\'\x22]{4,256})", &["login"]), |value| is_password(value) || is_key(value))),
];

/// Return whether a text ends in the host of a line of a `.pgpass` file: alone, or behind the name of that file.
fn is_host(before: &str) -> bool {
    let start = before.rfind(|letter: char| letter.is_whitespace() || "'\"\\=".contains(letter));
    let field = &before[start.map_or(0, |at| at + 1)..];
    let (place, host) = field.rsplit_once(':').unwrap_or(("", field));
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"*._-/@".contains(&byte);
    !host.is_empty() && host.bytes().all(fits) && (place.is_empty() || place.contains("pgpass"))
}

/// Return the text behind the first separator after `Bearer`, and behind all spaces that follow; `None` without one.
fn bearer_value(text: &str) -> Option<&str> {
    let width = |rest: &str| match rest.as_bytes() {
        [b' ' | b'\t' | b'+', ..] => 1,
        rest if rest.starts_with(b"%20") => 3,
        _ => 0,
    };
    let rest = text.get("Bearer".len()..)?;
    let first = width(rest);
    let mut at = first;
    let mut from = first;
    while at < rest.len() && width(&rest[at..]) > 0 {
        let is_space = b" \t".contains(&rest.as_bytes()[at]);
        at += width(&rest[at..]);
        // `+` and `%20` may also begin a token.
        from = if is_space { at } else { from };
    }
    (first > 0).then(|| &rest[from..])
}

/// Return whether a token of 16 characters may stand behind `Bearer`.
fn is_bearer_ahead(text: &str) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~=-+/%\\:|".contains(byte);
    bearer_value(text)
        .and_then(|value| value.as_bytes().get(..16))
        .is_some_and(|token| token.iter().all(fits))
}

/// Return whether a name and a colon may stand behind `Bearer`.
fn is_user_ahead(text: &str) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+%".contains(byte);
    bearer_value(text).is_some_and(|value| {
        let name = value.bytes().take_while(fits).count();
        value.as_bytes().get(name) == Some(&b':')
    })
}

/// Return whether an option for a user stands in the command that begins with `curl`.
fn is_curl_user_ahead(text: &str) -> bool {
    let line = text.split(['\n', '|']).next().unwrap_or(text);
    let option = |rest: &str| {
        let mut word = rest.bytes().take_while(|byte| byte.is_ascii_alphabetic() || *byte == b'-');
        word.any(|byte| byte.eq_ignore_ascii_case(&b'u'))
    };
    line.match_indices('-').any(|(at, _)| line[..at].ends_with([' ', '\'', '"']) && option(&line[at..]))
}

/// Return whether `by` or `with` stands behind `IDENTIFIED`.
fn is_identified_by(text: &str) -> bool {
    let rest = text.get("identified".len()..).unwrap_or_default();
    let word = rest.trim_start();
    let begins = |with: &str| word.get(..with.len()).is_some_and(|word| word.eq_ignore_ascii_case(with));
    word.len() < rest.len() && (begins("by") || begins("with"))
}
