//! JVM and .NET: Gradle, Maven, sbt, Clojure, dotnet.

use karl_log::format::Component::Build;

use super::runner::Runner;

pub(super) const RUNNERS: [Runner; 8] = [
    Runner {
        name: "gradle",
        commands: &["gradle *test", "gradlew *test", "gradle check", "gradlew check"],
        line: r"(?m)^BUILD (?:SUCCESSFUL|FAILED) in .*$|^\d+ tests completed, .*$",
        passed: r"^BUILD SUCCESSFUL",
        failed: r"^BUILD FAILED|([1-9]\d*) failed",
        failures: &["BUILD FAILED in"],
        ..Runner::NOTHING
    },
    Runner {
        name: "maven",
        commands: &["mvn *test", "mvnw *test", "mvn *verify", "mvnw *verify"],
        unless: &["-DskipTests", "-Dmaven.test.skip=true", "test-compile"],
        // Those of a single class have its time behind them.
        line: r"(?m)^(?:\[\w+\] )?Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+\s*$",
        passed: r"Tests run: ([1-9]\d*)",
        failed: r"(?:Failures|Errors): (\d+)",
        broken: r"(?m)^\[(?:INFO|ERROR)\] BUILD FAILURE.*$",
        none: r"No tests to run|No tests were executed",
        ..Runner::NOTHING
    },
    Runner {
        name: "sbt",
        commands: &["sbt *test", "sbtn *test", "mill *test"],
        unless: &["test:compile", "Test/compile"],
        line: r"(?m)^\[(?:info|error)\] (?:Tests: succeeded .*|(?:Passed|Failed|Error): Total .*)$",
        passed: r"succeeded ([1-9]\d*)|Passed ([1-9]\d*)",
        failed: r"[Ff]ailed ([1-9]\d*)|Errors ([1-9]\d*)",
        broken: r"(?m)^\[error\] .*Compilation failed.*$",
        above: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "clojure test",
        commands: &["lein test", "clj *test", "clojure *test", "bb *test"],
        line: r"(?m)^Ran [1-9]\d* tests containing \d+ assertions\.\s+\d+ failures, \d+ errors\.",
        passed: r"^Ran (\d+)",
        failed: r"([1-9]\d*) (?:failures|errors)",
        none: r"(?m)^Ran 0 tests containing",
        above: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "dotnet test",
        commands: &["dotnet test", "dotnet vstest"],
        unless: &["--list-tests", "-t"],
        line: r"(?m)^\s*(?:Passed|Failed)!\s+- Failed: .*$|^\s*Test summary: total: .*$",
        passed: r"(?:Passed|succeeded):\s+([1-9]\d*)",
        failed: r"(?i-u)\bfailed:\s+([1-9]\d*)",
        broken: r"(?m)^.*: error [A-Z]+\d+: .*$|^Test Run Aborted.*$|^Build FAILED.*$",
        none: r"No test is available in|No test matches the given",
        above: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "gradle build",
        component: Build,
        commands: &["gradle *build", "gradlew *build", "gradle *assemble", "gradlew *assemble"],
        line: r"(?m)^BUILD (?:SUCCESSFUL|FAILED) in .*$",
        passed: r"SUCCESSFUL",
        failed: r"FAILED",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "maven build",
        component: Build,
        commands: &[
            "mvn *compile",
            "mvnw *compile",
            "mvn *package",
            "mvnw *package",
            "mvn *install",
            "mvnw *install",
        ],
        line: r"(?m)^\[(?:INFO|ERROR)\] BUILD (?:SUCCESS|FAILURE)\s*$",
        passed: r"SUCCESS",
        failed: r"FAILURE",
        whole: true,
        ..Runner::NOTHING
    },
    Runner {
        name: "dotnet build",
        component: Build,
        commands: &["dotnet build", "dotnet publish"],
        line: r"(?m)^\s*Build succeeded.*$|^\s*Build FAILED.*$|^\s*Build failed with .*$",
        passed: r"succeeded",
        failed: r"(?i-u)failed",
        whole: true,
        ..Runner::NOTHING
    },
];
