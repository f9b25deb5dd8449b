//! Build facts of this extension module, and the vector unit of this machine.

use pyo3::prelude::*;

/// The facts of a build, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct BuildFacts {
    target: &'static str,
    profile: &'static str,
    rustc: &'static str,
    abi: &'static str,
    simd: &'static str,
}

/// Return target, Python ABI, profile and rustc of this build, and the vector unit that the byte search uses on this
/// machine.
#[pyfunction]
pub(crate) fn build_facts() -> BuildFacts {
    BuildFacts {
        target: env!("KARL_FAST_TARGET"),
        profile: if cfg!(debug_assertions) { "debug" } else { "release" },
        rustc: env!("KARL_FAST_RUSTC"),
        // The feature of pyo3 in Cargo.toml.
        abi: "abi3-py311",
        simd: simd(),
    }
}

/// Return the vector unit that memchr chooses at run time.
#[cfg(target_arch = "x86_64")]
fn simd() -> &'static str {
    if std::arch::is_x86_feature_detected!("avx2") { "avx2" } else { "sse2" }
}

#[cfg(target_arch = "aarch64")]
fn simd() -> &'static str {
    "neon"
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn simd() -> &'static str {
    "none"
}
