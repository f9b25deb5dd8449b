//! C, C++, Swift, Zig, Dart, Solidity and Bazel.

use karl_log::format::Component::Build;

use super::runner::Runner;

pub(super) const RUNNERS: [Runner; 10] = [
    Runner {
        name: "ctest",
        commands: &["ctest"],
        unless: &["-N", "--show-only"],
        line: r"(?m)^\d+% tests passed, .*$",
        passed: r"out of ([1-9]\d*)",
        failed: r", ([1-9]\d*) tests? failed",
        none: r"No tests were found",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "swift test",
        commands: &["swift test"],
        unless: &["list"],
        line: r"(?m)^.*\bExecuted \d+ tests?, with .*$|^.*\bTest run with \d+ tests? .*$",
        passed: r"Executed ([1-9]\d*) tests?|with ([1-9]\d*) tests?.* passed",
        failed: r"with ([1-9]\d*) failures?|with ([1-9]\d*) issues?|with \d+ tests?.* failed",
        broken: r"(?m)^.*\berror: .*$|^.*Fatal error: .*$",
        none: r"Executed 0 tests|Test run with 0 tests",
        own_output: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "xcodebuild",
        commands: &["xcodebuild *test"],
        unless: &["build-for-testing"],
        line: r"(?m)^\*\* TEST (?:EXECUTE )?(?:SUCCEEDED|FAILED) \*\*.*$",
        passed: r"SUCCEEDED",
        failed: r"FAILED",
        broken: r"(?m)^\*\* BUILD FAILED \*\*",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "meson test",
        commands: &["meson test"],
        unless: &["--list"],
        line: r"(?m)^(?:Ok|Fail|Timeout|Unexpected Pass):\s+\d+\s*$",
        passed: r"^Ok:\s+([1-9]\d*)",
        failed: r"^(?:Fail|Timeout|Unexpected Pass):\s+(\d+)",
        none: r"(?m)^No tests defined",
        failures: &["Fail:", "Timeout:"],
        ..Runner::NOTHING
    },
    Runner {
        name: "bazel test",
        commands: &["bazel test", "bazelisk test", "blaze test", "buck2 test", "pants test"],
        line: r"(?m)^Executed \d+ out of \d+ tests?: .*$|^Tests finished: .*$",
        passed: r"([1-9]\d*) tests? pass|Pass ([1-9]\d*)",
        failed: r"([1-9]\d*) fails?\b|(?:Fail|Fatal|Build failure) ([1-9]\d*)|Build failure ([1-9]\d*)",
        broken: r"(?m)^(?:ERROR|FAILED): Build did NOT complete successfully",
        none: r"No test targets were found",
        ..Runner::NOTHING
    },
    Runner {
        name: "dart test",
        commands: &["dart test", "flutter test", "dart *test:test", "very_good test"],
        line: r"(?m)^.*\+\d+.*: (?:All tests passed!|Some tests failed\.).*$",
        passed: r"\+([1-9]\d*).*All tests passed",
        failed: r"Some tests failed",
        none: r"No tests ran\.|All tests skipped",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "zig test",
        commands: &["zig *test"],
        line: r"(?m)^All \d+ tests passed.*$|^Build Summary: .*\btests? .*$|^\d+ passed; .*\bfailed\..*$",
        passed: r"All ([1-9]\d*) tests|([1-9]\d*)/\d+ tests? passed|^([1-9]\d*) passed",
        failed: r"(\d+) failed",
        broken: r"(?m)^\S+\.zig:\d+:\d+: error: .*$",
        ..Runner::NOTHING
    },
    Runner {
        name: "forge test",
        commands: &["forge test", "forge t"],
        line: r"(?m)^Ran \d+ test suites?.* tests passed, .*$",
        passed: r"([1-9]\d*) tests passed",
        failed: r"(\d+) failed",
        broken: r"(?m)^Error: .*Compiler run failed.*$",
        none: r"No tests found in project",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "swift build",
        component: Build,
        commands: &["swift build"],
        line: r"(?m)^Build complete!.*$|^.*\berror: .*$",
        passed: r"^Build complete!",
        failed: r"\berror: ",
        ..Runner::NOTHING
    },
    Runner {
        name: "cmake",
        component: Build,
        commands: &["ninja", "cmake *--build", "meson compile"],
        line: r"(?m)^ninja: build stopped: .*$|^g?make(?:\[\d+\])?: \*\*\* .*$|^.*: error: .*$",
        failed: r"^ninja|\*\*\*|: error: ",
        ..Runner::NOTHING
    },
];
