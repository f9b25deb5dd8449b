//! Issue or pull request that a request names.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::next_turn::own_words;

/// Address of an issue or of a pull or merge request, or `owner/name#12`, which is of GitHub; ASCII, since the tables of
/// Unicode are not built in.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let address = r"https?://([\w.-]+(?:/[\w.-]+){2,}?)/(?:-/)?(issues|pull|merge_requests)/(\d+)";
    Regex::new(&format!(r"(?i-u){address}|(?:^|[\s(])([\w.-]+/[\w.-]+)#(\d+)\b")).ok()
});

/// Return the one issue or pull request that a prompt names with its repository; `None` for none or several.
///
/// Issues and pull requests of GitHub share their numbers; merge requests of GitLab have their own.
pub(super) fn issue(prompt: &str) -> Option<String> {
    let own = own_words(prompt);
    let name = |found: regex::Captures<'_>| match (found.get(1), found.get(4)) {
        (Some(repository), _) => {
            let mark = if found[2].eq_ignore_ascii_case("merge_requests") { '!' } else { '#' };
            format!("{}{mark}{}", repository.as_str().to_lowercase(), &found[3])
        }
        (None, repository) => {
            let repository = repository.map_or("", |repository| repository.as_str());
            format!("github.com/{}#{}", repository.to_lowercase(), &found[5])
        }
    };
    let mut names: BTreeSet<String> = NAMED.as_ref()?.captures_iter(&own).map(name).collect();
    if names.len() == 1 { names.pop_first() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_with_one_issue_of_a_named_repository_is_of_that_issue() {
        let same =
            ["fix https://github.com/Acme/Shop/issues/12 please", "acme/shop#12: again", "(acme/shop#12)"];
        for prompt in same {
            assert_eq!(issue(prompt).as_deref(), Some("github.com/acme/shop#12"), "{prompt}");
        }
        let merge = "see https://git.acme.io/web/team/shop/-/merge_requests/3/diffs";
        assert_eq!(issue(merge).as_deref(), Some("git.acme.io/web/team/shop!3"));
        let none = [
            "fix #12",
            "acme/shop#1 and acme/shop#2",
            "as in ```\nacme/shop#12\n```",
            "https://x.io/a/issues/1",
        ];
        for prompt in none {
            assert_eq!(issue(prompt), None, "{prompt}");
        }
    }
}
