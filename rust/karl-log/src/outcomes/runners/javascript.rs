//! JavaScript and TypeScript: jest, vitest, mocha, tsc, eslint.

use super::runner::Runner;
use crate::outcomes::component::Component::{Build, Lint};

pub(super) const RUNNERS: [Runner; 6] = [
    Runner {
        name: "jest",
        commands: &["jest"],
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
        commands: &["mocha"],
        line: r"(?m)^\s*\d+ (?:passing|failing)\b.*$",
        passed: r"([1-9]\d*) passing",
        failed: r"(\d+) failing",
        broken: r"(?m)^Error: Cannot find module.*$|^SyntaxError: .*$",
        none: r"(?m)^\s*0 passing|^Error: No test files found",
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
