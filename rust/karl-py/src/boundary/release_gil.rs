//! The ways into the crates: release the interpreter lock, work, convert the error. [`enter`] is for what reads files
//! or takes long, [`compute`] for kernels.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use karl_log::Watch;
use pyo3::prelude::*;

use crate::boundary::error::to_python;

/// Interval of the checks for Ctrl-C while the caller's thread waits. Short enough to feel immediate.
const TICK: Duration = Duration::from_millis(20);

type Work<'a> = Box<dyn FnOnce(&Watch) -> Result<(), karl_log::Error> + Send + 'a>;

/// Run `work` on a thread of its own while the calling thread waits for it and for signals: Python handles those on
/// its main thread alone, so that thread must be free to look. A signal that raises (Ctrl-C, SIGTERM) stops the
/// work at its next look at the watch, and its exception is what the caller gets.
///
/// `progress`, if given, is called about fifty times a second, and once at the end of work that went well, with the bytes
/// done so far and the bytes to do, 0 where those are not known.
pub(crate) fn enter<T, E>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Watch) -> Result<T, E> + Send,
) -> PyResult<T>
where
    T: Send,
    E: Into<karl_log::Error> + Send,
{
    let mut result = None;
    let work = |watch: &Watch| work(watch).map(|value| result = Some(value)).map_err(Into::into);
    supervise(py, progress, Box::new(work))?;
    Ok(result.unwrap_or_else(|| unreachable!("work without an error leaves its result")))
}

/// [`enter`] of boxed work, so that what starts the thread and waits for it is compiled once.
fn supervise(py: Python<'_>, progress: Option<&Py<PyAny>>, work: Work<'_>) -> PyResult<()> {
    let watch = Watch::new();
    py.detach(|| {
        let (done, waiting) = channel::<()>();
        thread::scope(|scope| {
            let watch = &watch;
            let worker = scope.spawn(move || {
                let result = work(watch);
                drop(done);
                result
            });
            let mut raised = None;
            while waiting.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = Python::attach(|py| look(py, progress, watch)) {
                    watch.stop();
                    raised = raised.or(Some(error));
                }
            }
            match (worker.join(), raised) {
                (_, Some(error)) => Err(error),
                (Ok(result), None) => {
                    result.map_err(to_python)?;
                    Python::attach(|py| tell(py, progress, watch))
                }
                (Err(panic), None) => std::panic::resume_unwind(panic),
            }
        })
    })
}

/// Run a kernel over arrays on the calling thread, which is not free to see Ctrl-C until it is done: a second or two
/// for the largest arrays. A thread to wait on would cost more than most kernels do.
pub(crate) fn compute<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> karl_core::Result<T> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(|error| to_python(error.into()))
}

fn look(py: Python<'_>, progress: Option<&Py<PyAny>>, watch: &Watch) -> PyResult<()> {
    py.check_signals()?;
    tell(py, progress, watch)
}

fn tell(py: Python<'_>, progress: Option<&Py<PyAny>>, watch: &Watch) -> PyResult<()> {
    match progress {
        Some(progress) => progress.call1(py, (watch.bytes(), watch.expected())).map(drop),
        None => Ok(()),
    }
}
