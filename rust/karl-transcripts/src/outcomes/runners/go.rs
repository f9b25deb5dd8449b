//! Go: go test, gotestsum, builds and linters.

use karl_log::format::Component::{Build, Lint};

use super::runner::Runner;

pub(super) const RUNNERS: [Runner; 5] = [
    Runner {
        name: "go test",
        commands: &["go test", "richgo test", "gotest"],
        unless: &["-list", "-c"],
        // A package without tests to run has more behind its time.
        line: r"(?m)^ok\s+\S+\s+(?:\(cached\)|[\d.]+s)(?:\s+coverage: .*)?\s*$|^(?:\s*--- FAIL: |FAIL\b).*$|^PASS\s*$",
        passed: r"^ok\s|^PASS",
        failed: r"^FAIL\b|--- FAIL: ",
        broken: r"(?m)^panic: .*$|^\S+\.go:\d+:\d+: .*$",
        none: r"no tests? (?:files|to run)",
        stopped: r"(?m)^signal: interrupt",
        failures: &["FAIL"],
        ..Runner::NOTHING
    },
    Runner {
        name: "gotestsum",
        commands: &["gotestsum"],
        line: r"(?m)^DONE \d+ tests?.*$",
        passed: r"^DONE ([1-9]\d*) tests?",
        failed: r"(\d+) (?:failures?|errors?)",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "ginkgo",
        commands: &["ginkgo"],
        unless: &["bootstrap", "generate", "version", "build"],
        line: r"(?m)^(?:SUCCESS|FAIL)! -- \d+ Passed.*$",
        passed: r"([1-9]\d*) Passed",
        failed: r"(\d+) Failed",
        above: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "go build",
        component: Build,
        commands: &["go build", "go install"],
        line: r"(?m)^\S+\.go:\d+:\d+: .*$",
        failed: r"^\S",
        ..Runner::NOTHING
    },
    Runner {
        name: "go vet",
        component: Lint,
        commands: &["go vet", "golangci-lint", "staticcheck"],
        line: r"(?m)^0 issues\.$|^\d+ issues:$|^\S+\.go:\d+:\d+: .*$",
        passed: r"^0 issues()",
        failed: r"^([1-9]\d*) issues|^\S+\.go:\d+",
        ..Runner::NOTHING
    },
];
