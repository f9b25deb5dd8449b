//! Binding of `karl_log::stream`.

use std::path::PathBuf;
use std::sync::Arc;

use karl_core::stream::StreamSettings as Draw;
use karl_log::extract;
use karl_log::format::{Component, Overrides};
use karl_log::input::pipe::Pipe;
use karl_log::read::ReadSettings;
use pyo3::prelude::*;

use crate::boundary::release_gil::enter;
use crate::log::{Log, wishes};
use crate::reward::asymmetric;

/// Reads a pipe once, holding the records that a draw of a weighted reservoir could need: `room` of them, which are
/// written to the empty file `kept`.
#[pyfunction]
#[pyo3(signature = (
    path, *, kept, weights, min_reward, shaping=None, inverse_temperature, seed, room, format=None, id=None, group=None, reward=None,
    messages=None, prompt=None, completion=None, system=None, tools=None, domain=None, max_line_bytes, domain_asked, strict, threads, progress=None
))]
#[allow(
    clippy::too_many_arguments,
    reason = "one keyword a setting; the Python layer holds them in one object"
)]
pub(crate) fn stream(
    py: Python<'_>,
    path: (PathBuf, String),
    kept: PathBuf,
    weights: Vec<f64>,
    min_reward: Option<f64>,
    shaping: Option<(f64, f64, f64)>,
    inverse_temperature: f64,
    seed: u64,
    room: usize,
    format: Option<&str>,
    id: Option<String>,
    group: Option<String>,
    reward: Option<Vec<String>>,
    messages: Option<String>,
    prompt: Option<String>,
    completion: Option<String>,
    system: Option<String>,
    tools: Option<String>,
    domain: Option<String>,
    max_line_bytes: usize,
    domain_asked: bool,
    strict: bool,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Log> {
    let shared = reward.iter().flatten().map(|path| Component::at(path).is_some()).collect();
    let overrides = Overrides {
        id,
        group,
        reward,
        messages,
        prompt,
        completion,
        system,
        tools,
        domain,
        partition: None,
        order: None,
    };
    let scan = extract::ScanSettings { compare: None, domain_asked, strict };
    let settings = ReadSettings { wishes: wishes(format, overrides, max_line_bytes)?, scan, threads };
    let shaping = asymmetric(shaping)?;
    let draw = Draw { weights, shared, min_reward, shaping, inverse_temperature, seed, room };
    let (path, name) = path;
    let inner = enter(py, progress.as_ref(), |watch| {
        karl_log::stream::read(Pipe::named(&name, &path), &name, &kept, &settings, draw, watch)
    })?;
    Ok(Log { inner: Arc::new(inner), log_weights: None })
}
