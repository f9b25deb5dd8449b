//! C, C++ and Swift: `CTest`, make, cmake, swift.

use super::runner::Runner;
use crate::outcomes::component::Component::Build;

pub(super) const RUNNERS: [Runner; 4] = [
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
