//! JavaScript and TypeScript: jest, vitest, mocha, the runners of Node, Bun and Deno, browsers, tsc, eslint.

use karl_log::format::Component::{Build, Lint};

use super::runner::Runner;

pub(super) const RUNNERS: [Runner; 13] = [
    Runner {
        name: "jest",
        commands: &["jest", "react-scripts test", "craco test", "vue-cli-service test:unit"],
        unless: &["--listTests", "--showConfig"],
        line: r"(?m)^\s*Tests: .*\btotal\s*$|^\s*Test Suites: .*\bfailed\b.*$",
        passed: r"(\d+) passed",
        failed: r"(\d+) failed",
        none: r"(?m)^No tests found|^Tests:\s+0 total",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "vitest",
        commands: &["vitest"],
        unless: &["list"],
        line: r"(?m)^\s*Tests  .*\(\d+\)\s*$|^\s*Test Files  .*\bfailed\b.*$|^\s*Errors  \d+ errors?\s*$",
        passed: r"(\d+) passed",
        failed: r"(\d+) (?:failed|errors?)",
        none: r"No test files found",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "mocha",
        commands: &["mocha", "hardhat test", "electron-mocha"],
        line: r"(?m)^\s*\d+ (?:passing|failing)\b.*$",
        passed: r"([1-9]\d*) passing",
        failed: r"(\d+) failing",
        broken: r"(?m)^Error: Cannot find module.*$|^SyntaxError: .*$",
        none: r"(?m)^\s*0 passing|^Error: No test files found",
        ..Runner::NOTHING
    },
    Runner {
        name: "node --test",
        commands: &["node *--test", "tap", "tape"],
        line: r"(?m)^(?:#|ℹ) (?:pass|fail|cancelled) +\d+\s*$",
        passed: r"pass +([1-9]\d*)",
        failed: r"(?:fail|cancelled) +(\d+)",
        none: r"(?m)^(?:#|ℹ) tests +0\s*$",
        failures: &["# fail", "ℹ fail"],
        ..Runner::NOTHING
    },
    Runner {
        name: "bun test",
        commands: &["bun test"],
        line: r"(?m)^ *\d+ (?:pass|fail)\s*$",
        passed: r"([1-9]\d*) pass",
        failed: r"([1-9]\d*) fail",
        none: r"(?m)^error: .*(?:no tests found|did not match any test files)|^0 test files matching",
        failures: &["fail"],
        ..Runner::NOTHING
    },
    Runner {
        name: "deno test",
        commands: &["deno test"],
        line: r"(?m)^(?:ok|FAILED) \| .*\d+ passed.*$",
        passed: r"(\d+) passed",
        failed: r"(\d+) failed",
        broken: r"(?m)^error: .*$",
        none: r"(?m)^error: No test modules found",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "playwright",
        commands: &["playwright test"],
        unless: &["--list"],
        line: r"(?m)^\s*\d+ (?:passed|failed|interrupted)\b.*$",
        passed: r"([1-9]\d*) passed",
        failed: r"(\d+) failed",
        none: r"(?m)^Error: No tests found",
        stopped: r"(?m)^\s*\d+ interrupted$",
        failures: &["failed"],
        above: true,
        own_output: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "cypress",
        commands: &["cypress run"],
        line: r"(?m)^.*\bAll specs passed!.*$|^.*\b\d+ of \d+ failed \(.*$",
        passed: r"All specs passed!",
        failed: r"(\d+) of \d+ failed",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "ava",
        commands: &["ava"],
        line: r"(?m)^\s*\d+ (?:tests? (?:passed|failed)|uncaught exceptions?).*$",
        passed: r"([1-9]\d*) tests? passed",
        failed: r"(\d+) (?:tests? failed|uncaught)",
        above: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "karma",
        commands: &["karma start", "ng test"],
        line: r"(?m)^.*\bExecuted \d+ of \d+ .*$",
        passed: r"Executed [1-9]\d* of \d+ .*SUCCESS",
        failed: r"\((\d+) FAILED\)",
        failures: &["FAILED"],
        ..Runner::NOTHING
    },
    Runner {
        name: "tsc",
        component: Lint,
        commands: &["tsc *--noemit", "vue-tsc *--noemit"],
        line: r"(?m)^.*\berror TS\d+: .*$",
        failed: r"error TS",
        ..Runner::NOTHING
    },
    Runner {
        name: "tsc build",
        component: Build,
        commands: &["tsc", "vue-tsc"],
        unless: &["--noEmit", "--version", "-v", "--init"],
        line: r"(?m)^.*\berror TS\d+: .*$",
        failed: r"error TS",
        ..Runner::NOTHING
    },
    Runner {
        name: "eslint",
        component: Lint,
        commands: &["eslint", "biome check", "biome lint", "prettier *--check"],
        line: r"(?m)^.*\d+ problems? \(\d+ errors?, .*\).*$|^Code style issues found.*$|^All matched files use Prettier.*$",
        passed: r"\(0 errors()|^All matched",
        failed: r"\(([1-9]\d*) errors?|^Code style issues",
        whole: true,
        ..Runner::NOTHING
    },
];
