//! Python: pytest, unittest, behave, Robot Framework, mypy, pyright, ruff, flake8, pylint.

use karl_log::format::Component::Lint;

use super::runner::Runner;

pub(super) const RUNNERS: [Runner; 8] = [
    Runner {
        name: "pytest",
        commands: &["pytest", "py.test", "pytest-3", "ptw"],
        unless: &["--collect-only", "--co", "--version", "--help", "--fixtures"],
        line: r"(?m)^(?:=+ )?\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun)\b.* in [\d.]+s.*$",
        passed: r"(\d+) (?:passed|xfailed|xpassed)",
        failed: r"(\d+) (?:failed|errors?)\b",
        broken: r"(?m)^Fatal Python error: .*$|^ImportError while loading conftest.*$",
        none: r"(?m)\bno tests (?:ran|collected)\b|\d+ deselected\b.* in [\d.]+s|\d+ skipped\b.* in [\d.]+s",
        stopped: r"(?m)^!+ KeyboardInterrupt !+$|^(?:E +)?KeyboardInterrupt$|^INTERNALERROR>|^ERROR: usage: |^ERROR: file or directory not found",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "unittest",
        commands: &["unittest", "manage.py test", "django-admin test", "nose2", "nosetests", "stestr run"],
        // `OK` stands on a line of its own, behind the number of tests.
        line: r"(?m)^Ran [1-9]\d* tests? in [\d.]+s\s+OK\b.*$|^FAILED \(.*\)$",
        passed: r"^Ran (\d+)",
        failed: r"(?:failures|errors|unexpected successes)=(\d+)",
        broken: r"(?m)^Fatal Python error: .*$",
        none: r"(?m)^NO TESTS RAN|^Ran 0 tests",
        stopped: r"(?m)^KeyboardInterrupt$",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "behave",
        commands: &["behave"],
        unless: &["--dry-run"],
        line: r"(?m)^\d+ (?:features?|scenarios?) passed, \d+ failed.*$",
        passed: r"^([1-9]\d*) \w+ passed",
        failed: r"(\d+) (?:failed|error)",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "robot",
        commands: &["robot", "pabot"],
        unless: &["--dryrun"],
        line: r"(?m)^\d+ tests?, \d+ passed, \d+ failed.*$",
        passed: r"([1-9]\d*) passed",
        failed: r"(\d+) failed",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "mypy",
        component: Lint,
        commands: &["mypy", "dmypy run", "dmypy check"],
        line: r"(?m)^Success: no issues found in .*$|^Found \d+ errors? in .*$",
        passed: r"^Success",
        failed: r"^Found (\d+)",
        broken: r"(?m)^.+:\d+: error: .*$",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "pyright",
        component: Lint,
        commands: &["pyright", "basedpyright"],
        line: r"(?m)^\d+ errors?, \d+ warnings?.*$",
        passed: r"^0 errors?()",
        failed: r"^([1-9]\d*) errors?",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "ruff",
        component: Lint,
        commands: &["ruff check", "ruff format", "black", "isort"],
        line: r"(?m)^All checks passed!$|^Found \d+ errors?.*$|^\d+ files? (?:would be|already|left|reformatted).*$|^error: .*$",
        passed: r"^All checks|already formatted|left unchanged|\b0 remaining\b",
        failed: r"^Found (\d+) errors?\.$|([1-9]\d*) remaining|^(\d+) files? would be|^error: ",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "flake8",
        component: Lint,
        commands: &["flake8", "pylint", "pyflakes"],
        ..Runner::NOTHING
    },
];
