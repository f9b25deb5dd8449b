//! Elixir, Erlang, Haskell, OCaml and Julia.

use super::runner::Runner;

pub(super) const RUNNERS: [Runner; 5] = [
    Runner {
        name: "mix test",
        commands: &["mix test"],
        line: r"(?m)^(?:\d+ (?:doctests?|properties|property), )*\d+ tests?, \d+ failures?.*$",
        passed: r"([1-9]\d*) (?:tests?|doctests?|propert\w+),",
        failed: r"([1-9]\d*) failures?",
        broken: r"(?m)^== Compilation error in .*$|^\*\* \((?:CompileError|SyntaxError|TokenMissingError)\).*$",
        none: r"There are no tests to run",
        above: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "rebar3",
        commands: &["rebar3 eunit", "rebar3 ct", "rebar3 proper"],
        line: r"(?m)^\s*All \d+ tests passed\.\s*$|^\d+ tests, \d+ failures.*$|^Failed \d+ tests\..*$",
        passed: r"All ([1-9]\d*) tests|^([1-9]\d*) tests,",
        failed: r"([1-9]\d*) failures|Failed ([1-9]\d*)",
        above: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "cabal test",
        commands: &["cabal test", "stack test", "cabal *test"],
        line: r"(?m)^All \d+ tests passed.*$|^\d+ out of \d+ tests failed.*$|^\d+ of \d+ test suites .*$|^Test suite \S+: FAIL$",
        passed: r"All ([1-9]\d*) tests|^([1-9]\d*) of \d+ test suites",
        failed: r"^([1-9]\d*) out of|: FAIL$",
        broken: r"(?m)^\S+\.hs:\d+:\d+: error.*$",
        above: true,
        own_output: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "dune test",
        commands: &["dune test", "dune runtest"],
        line: r"(?m)^Test Successful in .*$|^\d+ failures?! in .*$|^\S*File .\S+., line \d+.*$",
        passed: r"^Test Successful",
        failed: r"^([1-9]\d*) failures?!|File ",
        above: true,
        own_output: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "julia",
        commands: &["julia *pkg.test"],
        line: r"(?m)^\s*Testing .* tests passed\s*$|^ERROR: .*(?:did not pass|errored during testing).*$",
        passed: r"tests passed",
        failed: r"^ERROR",
        whole: true,
        ..Runner::NOTHING
    },
];
