//! Tells the extension module what it was built for and with. No time and no path is among it: the same source and
//! toolchain give the same bytes.

#![allow(clippy::print_stdout, reason = "Cargo reads it")]

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (name, value) in [("KARL_FAST_TARGET", variable("TARGET")), ("KARL_FAST_RUSTC", rustc())] {
        println!("cargo::rustc-env={name}={value}");
    }
}

/// Return a variable of this build from Cargo.
fn variable(name: &str) -> String {
    println!("cargo::rerun-if-env-changed={name}");
    std::env::var(name).unwrap_or_else(|_| "unknown".to_owned())
}

/// The version of the compiler, like `1.89.0`.
fn rustc() -> String {
    let output = Command::new(variable("RUSTC")).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.split_whitespace().nth(1).unwrap_or("unknown").to_owned()
}
