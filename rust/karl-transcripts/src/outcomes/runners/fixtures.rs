//! Outputs of real runs, shortened, and of those in the documentation of runners that are not installed here.

use super::*;

const PASSED: char = '+';
const FAILED: char = '-';
const EMPTY: char = '0';
const STOPPED: char = '!';
const UNKNOWN: char = '?';

/// Runner, output and verdict.
const OUTPUTS: &[(&str, &str, char)] = &[
    ("pytest", "..            [100%]\n2 passed in 4.19s\n", PASSED),
    (
        "pytest",
        "FAILED test_fail.py::T::test_b - AssertionError: 2 != 3\n1 failed, 1 passed in 4.52s\n",
        FAILED,
    ),
    (
        "pytest",
        "\x1b[31m====== \x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m1 passed\x1b[0m\x1b[31m in 5.24s\x1b[0m\x1b[31m ======\x1b[0m\n",
        FAILED,
    ),
    ("pytest", "!!!! Interrupted: 1 error during collection !!!!\n1 error in 4.82s\n", FAILED),
    ("pytest", "\nno tests ran in 4.50s\n", EMPTY),
    ("pytest", "\n2 deselected in 4.24s\n", EMPTY),
    (
        "pytest",
        "!!!!!! KeyboardInterrupt !!!!!!\n/x/test_stop.py:1: KeyboardInterrupt\nno tests ran in 5.57s\n",
        STOPPED,
    ),
    (
        "pytest",
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007 (most recent call first):\n",
        FAILED,
    ),
    ("pytest", "..F...                 [ 24%]\n", UNKNOWN),
    ("pytest", "===== 812 passed, 3 skipped, 2 warnings in 61.20s (0:01:01) =====\n", PASSED),
    ("unittest", "..\n------\nRan 2 tests in 0.000s\n\nOK\n", PASSED),
    ("unittest", "------\nRan 2 tests in 0.001s\n\nFAILED (failures=1)\n", FAILED),
    ("unittest", "------\nRan 1 test in 0.000s\n\nFAILED (errors=1)\n", FAILED),
    ("unittest", "------\nRan 0 tests in 0.000s\n\nOK\n", EMPTY),
    ("unittest", "------\nRan 0 tests in 0.000s\n\nNO TESTS RAN\n", EMPTY),
    ("unittest", "------\nRan 12 tests in 3.1s\n", UNKNOWN),
    (
        "cargo test",
        "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n",
        PASSED,
    ),
    (
        "cargo test",
        "test result: \x1b[32mok\x1b(B\x1b[m. 2 passed; 0 failed; 0 ignored\n\ntest result: \x1b[31mFAILED\x1b(B\x1b[m. 1 passed; 1 failed; 0 ignored\n",
        FAILED,
    ),
    (
        "cargo test",
        "error[E0425]: cannot find value `x` in this scope\nerror: could not compile `a` (lib test)\n",
        FAILED,
    ),
    (
        "cargo test",
        "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 2 filtered out\n",
        EMPTY,
    ),
    ("cargo nextest", "     Summary [   0.012s] 3 tests run: 3 passed, 0 skipped\n", PASSED),
    ("cargo nextest", "     Summary [   0.020s] 2/9 tests run: 1 passed, 1 failed, 0 skipped\n", FAILED),
    ("cargo nextest", "error: no tests to run\n", EMPTY),
    ("go test", "ok  \tgithub.com/a/b/redact\t(cached)\n?   \tgithub.com/a/b\t[no test files]\n", PASSED),
    (
        "go test",
        "--- FAIL: TestAdd (0.00s)\n    add_test.go:9: got 3\nFAIL\nFAIL\tgithub.com/a/b\t0.01s\nFAIL\n",
        FAILED,
    ),
    (
        "go test",
        "# a/b [a/b.test]\n./add_test.go:9:2: undefined: Add\nFAIL\ta/b [build failed]\nFAIL\n",
        FAILED,
    ),
    ("go test", "ok  \ta/b\t0.2s [no tests to run]\n", EMPTY),
    (
        "go test",
        "=== RUN   TestAdd\n--- PASS: TestAdd (0.00s)\nPASS\nok  \ta/b\t0.2s\tcoverage: 71.0% of statements\n",
        PASSED,
    ),
    ("go test", "signal: interrupt\nFAIL\ta/b\t1.2s\n", STOPPED),
    ("jest", "Test Suites: 1 passed, 1 total\nTests:       1 skipped, 2 passed, 3 total\n", PASSED),
    ("jest", "Test Suites: 1 failed, 1 total\nTests:       1 failed, 2 passed, 3 total\n", FAILED),
    ("jest", "Test Suites: 1 failed, 1 total\nTests:       0 total\n", FAILED),
    ("jest", "No tests found, exiting with code 1\n", EMPTY),
    ("vitest", " Test Files  1 passed (1)\n      Tests  2 passed (2)\n", PASSED),
    (
        "vitest",
        " Test Files  1 failed | 2 passed (3)\n      Tests  1 failed | 5 passed | 1 skipped (7)\n",
        FAILED,
    ),
    ("vitest", " Test Files  1 failed (1)\n      Tests  no tests\n", FAILED),
    ("vitest", "No test files found, exiting with code 1\n", EMPTY),
    ("mocha", "\n  2 passing (10ms)\n  1 pending\n", PASSED),
    ("mocha", "\n  2 passing (10ms)\n  1 failing\n", FAILED),
    ("mocha", "\n  0 passing (1ms)\n", EMPTY),
    ("gradle", "> Task :test\n\nBUILD SUCCESSFUL in 5s\n3 actionable tasks: 3 executed\n", PASSED),
    ("gradle", "5 tests completed, 1 failed\n\nBUILD FAILED in 3s\n", FAILED),
    (
        "maven",
        "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s -- in a.ATest\n[INFO] Results:\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS\n",
        PASSED,
    ),
    ("maven", "[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE\n", FAILED),
    ("maven", "[ERROR] COMPILATION ERROR : \n[INFO] BUILD FAILURE\n", FAILED),
    ("maven", "[INFO] No tests to run.\n[INFO] BUILD SUCCESS\n", EMPTY),
    (
        "dotnet test",
        "Passed!  - Failed:     0, Passed:     3, Skipped:     0, Total:     3, Duration: 10 ms - X.dll (net8.0)\n",
        PASSED,
    ),
    (
        "dotnet test",
        "Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3, Duration: 10 ms\n",
        FAILED,
    ),
    ("dotnet test", "Test summary: total: 3, failed: 0, succeeded: 3, skipped: 0, duration: 1.2s\n", PASSED),
    ("dotnet test", "Test summary: total: 3, failed: 1, succeeded: 2, skipped: 0, duration: 1.2s\n", FAILED),
    ("ctest", "100% tests passed, 0 tests failed out of 3\n", PASSED),
    ("ctest", "67% tests passed, 1 tests failed out of 3\n", FAILED),
    ("ctest", "No tests were found!!!\n", EMPTY),
    ("rspec", "3 examples, 0 failures, 1 pending\n", PASSED),
    ("rspec", "3 examples, 1 failure\n", FAILED),
    ("rspec", "0 examples, 0 failures, 1 error occurred outside of examples\n", FAILED),
    ("rspec", "0 examples, 0 failures\n", EMPTY),
    ("phpunit", "OK (3 tests, 3 assertions)\n", PASSED),
    ("phpunit", "OK, but there were issues!\nTests: 3, Assertions: 3, Warnings: 1.\n", PASSED),
    ("phpunit", "FAILURES!\nTests: 3, Assertions: 3, Failures: 1.\n", FAILED),
    ("phpunit", "No tests executed!\n", EMPTY),
    ("swift test", "\t Executed 3 tests, with 0 failures (0 unexpected) in 0.002 (0.004) seconds\n", PASSED),
    ("swift test", "\t Executed 3 tests, with 1 failure (0 unexpected) in 0.002 (0.004) seconds\n", FAILED),
    ("swift test", "✔ Test run with 3 tests passed after 0.001 seconds.\n", PASSED),
    ("swift test", "✘ Test run with 3 tests failed after 0.001 seconds with 1 issue.\n", FAILED),
    ("node --test", "# tests 3\n# pass 3\n# fail 0\n# cancelled 0\n# skipped 0\n", PASSED),
    ("node --test", "ℹ tests 3\nℹ pass 2\nℹ fail 1\n", FAILED),
    ("node --test", "# tests 0\n# pass 0\n# fail 0\n", EMPTY),
    ("bun test", " 5 pass\n 0 fail\n 12 expect() calls\nRan 5 tests across 1 files. [12.00ms]\n", PASSED),
    ("bun test", " 4 pass\n 1 fail\nRan 5 tests across 1 files. [12.00ms]\n", FAILED),
    ("deno test", "ok | 5 passed | 0 failed (10ms)\n", PASSED),
    ("deno test", "FAILED | 3 passed | 1 failed (5ms)\n\nerror: Test failed\n", FAILED),
    ("playwright", "Running 5 tests using 2 workers\n  5 passed (3.2s)\n", PASSED),
    ("playwright", "  1 failed\n    [chromium] › a.spec.ts:3:5 › x\n  4 passed (5.1s)\n", FAILED),
    ("cypress", "    ✔  All specs passed!                        00:05       12       12\n", PASSED),
    ("cypress", "    ✖  1 of 3 failed (33%)                      00:05       12       11\n", FAILED),
    ("ava", "  5 tests passed\n", PASSED),
    ("ava", "  4 tests passed\n  1 test failed\n", FAILED),
    ("karma", "Chrome 120 (Linux): Executed 5 of 5 SUCCESS (0.1 secs / 0.05 secs)\n", PASSED),
    ("karma", "Chrome 120 (Linux): Executed 5 of 5 (1 FAILED) (0.1 secs / 0.05 secs)\n", FAILED),
    (
        "sbt",
        "[info] Tests: succeeded 5, failed 0, canceled 0, ignored 0, pending 0\n[info] All tests passed.\n",
        PASSED,
    ),
    ("sbt", "[error] Failed: Total 3, Failed 1, Errors 0, Passed 2\n", FAILED),
    ("clojure test", "Ran 5 tests containing 10 assertions.\n0 failures, 0 errors.\n", PASSED),
    ("clojure test", "Ran 5 tests containing 10 assertions.\n1 failures, 0 errors.\n", FAILED),
    (
        "ginkgo",
        "Ran 5 of 5 Specs in 0.001 seconds\nSUCCESS! -- 5 Passed | 0 Failed | 0 Pending | 0 Skipped\n",
        PASSED,
    ),
    ("ginkgo", "FAIL! -- 4 Passed | 1 Failed | 0 Pending | 0 Skipped\n", FAILED),
    ("xcodebuild", "** TEST SUCCEEDED **\n", PASSED),
    ("xcodebuild", "** TEST FAILED **\n", FAILED),
    (
        "meson test",
        "Ok:                 5   \nExpected Fail:      0   \nFail:               0   \nTimeout:            0\n",
        PASSED,
    ),
    ("meson test", "Ok:                 4   \nFail:               1   \n", FAILED),
    ("bazel test", "Executed 3 out of 3 tests: 3 tests pass.\n", PASSED),
    ("bazel test", "Executed 1 out of 3 tests: 2 tests pass and 1 fails locally.\n", FAILED),
    ("dart test", "00:01 +5: All tests passed!\n", PASSED),
    ("dart test", "00:01 +4 -1: Some tests failed.\n", FAILED),
    ("zig test", "All 5 tests passed.\n", PASSED),
    ("zig test", "Build Summary: 5/7 steps succeeded; 1 failed; 9/10 tests passed; 1 failed\n", FAILED),
    (
        "forge test",
        "Ran 1 test suite in 1.2ms (1ms CPU time): 5 tests passed, 0 failed, 0 skipped (5 total tests)\n",
        PASSED,
    ),
    (
        "forge test",
        "Ran 2 test suites in 1ms (1ms CPU time): 4 tests passed, 1 failed, 0 skipped (5 total tests)\n",
        FAILED,
    ),
    ("behave", "1 feature passed, 0 failed, 0 skipped\n3 scenarios passed, 0 failed, 0 skipped\n", PASSED),
    ("behave", "0 features passed, 1 failed, 0 skipped\n", FAILED),
    ("robot", "5 tests, 5 passed, 0 failed\n", PASSED),
    ("robot", "5 tests, 4 passed, 1 failed\n", FAILED),
    ("pest", "  Tests:    1 skipped, 5 passed (12 assertions)\n  Duration: 0.1s\n", PASSED),
    ("pest", "  Tests:    1 failed, 4 passed (12 assertions)\n", FAILED),
    ("minitest", "10 runs, 20 assertions, 0 failures, 0 errors, 0 skips\n", PASSED),
    ("minitest", "10 runs, 20 assertions, 0 failures, 1 errors, 0 skips\n", FAILED),
    ("minitest", "0 runs, 0 assertions, 0 failures, 0 errors, 0 skips\n", EMPTY),
    ("prove", "All tests successful.\nFiles=1, Tests=5\nResult: PASS\n", PASSED),
    ("prove", "Files=1, Tests=5\nResult: FAIL\n", FAILED),
    ("bats", "5 tests, 0 failures\n", PASSED),
    ("bats", "1..2\nok 1 a\nnot ok 2 b\n", FAILED),
    ("mix test", "Finished in 0.1 seconds\n5 doctests, 10 tests, 0 failures, 2 excluded\n", PASSED),
    ("mix test", "10 tests, 1 failure\n", FAILED),
    ("cabal test", "All 5 tests passed (0.01s)\n1 of 1 test suites (1 of 1 test cases) passed.\n", PASSED),
    ("cabal test", "1 out of 5 tests failed (0.01s)\n", FAILED),
    ("dune test", "Test Successful in 0.001s. 5 tests run.\n", PASSED),
    ("rebar3", "  All 5 tests passed.\n", PASSED),
    ("julia", "     Testing Shop tests passed \n", PASSED),
    ("mypy", "Success: no issues found in 3 source files\n", PASSED),
    (
        "mypy",
        "a.py:1: error: Name \"x\" is not defined  [name-defined]\nFound 1 error in 1 file (checked 3 source files)\n",
        FAILED,
    ),
    ("ruff", "All checks passed!\n", PASSED),
    ("ruff", "Found 3 errors.\n[*] 1 fixable with the `--fix` option.\n", FAILED),
    ("ruff", "Found 3 errors (3 fixed, 0 remaining).\n", PASSED),
    ("ruff", "Found 3 errors (2 fixed, 1 remaining).\n", FAILED),
    ("ruff", "Would reformat: a.py\n1 file would be reformatted\n", FAILED),
    ("tsc", "src/a.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.\n", FAILED),
    ("tsc", "", UNKNOWN),
    ("eslint", "✖ 3 problems (2 errors, 1 warning)\n", FAILED),
    ("eslint", "✖ 1 problem (0 errors, 1 warning)\n", PASSED),
    (
        "cargo clippy",
        "warning: unused variable: `x`\n    Finished `dev` profile [unoptimized] target(s) in 0.61s\n",
        PASSED,
    ),
    ("cargo clippy", "error: this loop never actually loops\nerror: could not compile `a` (lib)\n", FAILED),
    ("cargo build", "    Finished `release` profile [optimized] target(s) in 9.61s\n", PASSED),
    ("go vet", "0 issues.\n", PASSED),
    ("go vet", "cmd/a.go:3:2: declared and not used: x (typecheck)\n1 issues:\n* typecheck: 1\n", FAILED),
    ("swift build", "Build complete! (3.21s)\n", PASSED),
    ("dotnet build", "Build succeeded.\n    0 Warning(s)\n    0 Error(s)\n", PASSED),
    ("maven build", "[INFO] BUILD FAILURE\n", FAILED),
];

fn verdict(name: &str, output: &str, seen: OutputContext) -> char {
    let runner = all().find(|runner| runner.name == name);
    match read(runner.unwrap(), output, seen) {
        Reading::Passed(_) => PASSED,
        Reading::Failed(_) => FAILED,
        Reading::Empty => EMPTY,
        Reading::Stopped => STOPPED,
        Reading::Unknown => UNKNOWN,
    }
}

#[test]
fn verdicts_by_hand() {
    let seen = OutputContext { alone: true, filtered: false };
    for &(name, output, wanted) in OUTPUTS {
        assert_eq!(verdict(name, output, seen), wanted, "{name}: {output}");
    }
}

/// Through `grep` or `head` a failure may be lost, unless it stands in the same line.
#[test]
fn a_part_of_an_output_shows_failures_and_no_success() {
    let seen = OutputContext { alone: true, filtered: true };
    for &(name, output, wanted) in OUTPUTS {
        let whole = all().any(|runner| runner.name == name && runner.whole);
        let wanted = if wanted == PASSED && !whole { UNKNOWN } else { wanted };
        assert_eq!(verdict(name, output, seen), wanted, "{name}: {output}");
    }
}

#[test]
fn an_output_without_its_end_says_nothing() {
    let seen = OutputContext { alone: true, filtered: false };
    for name in
        ["pytest", "unittest", "cargo test", "cargo nextest", "jest", "vitest", "mocha", "rspec", "phpunit"]
    {
        assert_eq!(
            verdict(name, "collecting ...\ntest a ... ok\n... [30000 characters truncated] ...", seen),
            UNKNOWN
        );
    }
}
