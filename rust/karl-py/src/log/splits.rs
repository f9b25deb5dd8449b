//! Binding of `karl_log::splits`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use karl_log::cancel::Watch;
use karl_log::detect::{FileLayout, Input};
use karl_log::format::{Overrides, by_name};
use karl_log::input::codec::Codec;
use karl_log::input::prefetch::Prefetch;
use karl_log::input::source::Source;
use karl_log::read::{Probed, ReadSettings, probe_or_skip};
use karl_log::second_pass::read_places;
use karl_log::splits::{
    FileForm, PartPlace, Split, fields_of, is_enough, is_sound, join, scan, unpacked_size, with_copy,
};
use karl_log::{Error, Place, extract};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Log, compared, wishes};
use crate::boundary::error::{UsageError, to_python};
use crate::boundary::release_gil::enter;

/// Form of a file, as another process is told it: layout, key of the array under which the records are, format, number
/// of a file beside it, and compression.
type FormParts = (String, Option<String>, String, Option<u64>, String);

/// Copy of a file that the second pass reads: index of the file, path, size and last change of the file itself.
type CopyParts = (usize, PathBuf, u64, f64);

/// A log that several processes read in splits: one of them probes its files and joins the parts, all scan.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct LogSplits {
    settings: ReadSettings,
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    inputs: Vec<Input>,
    skipped: Vec<(PathBuf, String)>,
    refused: Vec<(PathBuf, String)>,
}

#[pymethods]
impl LogSplits {
    #[new]
    #[pyo3(signature = (
        *, format=None, id=None, group=None, reward=None, messages=None, prompt=None, completion=None, system=None, tools=None, domain=None,
        partition=None, order=None, max_line_bytes, compare=None, domain_asked, strict, threads
    ))]
    #[allow(clippy::too_many_arguments, reason = "as those of read")]
    fn new(
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
        partition: Option<String>,
        order: Option<String>,
        max_line_bytes: usize,
        compare: Option<&str>,
        domain_asked: bool,
        strict: bool,
        threads: usize,
    ) -> PyResult<Self> {
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
            partition,
            order,
        };
        let scan = extract::ScanSettings { compare: compared(compare)?, domain_asked, strict };
        let settings = ReadSettings { wishes: wishes(format, overrides, max_line_bytes)?, scan, threads };
        Ok(Self { settings, files: Mutex::default() })
    }

    /// Add a file whose beginning, or all of it, is at `head`; return its form, or None if it is skipped for holding no
    /// records. With `part` the beginning has to show what the whole file would: else nothing is added, and False
    /// returned.
    fn probe(
        &self,
        py: Python<'_>,
        head: PathBuf,
        name: &str,
        optional: bool,
        part: bool,
    ) -> PyResult<(bool, Option<FormParts>)> {
        let (enough, probed) = enter(py, None, |watch| {
            let source = Source { optional, ..Source::open(&head, name)? };
            if part && !is_enough(&source, self.settings.wishes.max_line_bytes, watch)? {
                return Ok::<_, Error>((false, None));
            }
            probe_or_skip(source, &self.settings.wishes, watch).map(|probed| (true, Some(probed)))
        })?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        match probed {
            Some(Probed::Input(input)) => {
                let form = form_parts(&FileForm::from(&*input));
                files.inputs.push(*input);
                return Ok((true, Some(form)));
            }
            Some(Probed::Skipped(path, why)) => files.skipped.push((path, why)),
            Some(Probed::Refused(path, why)) => files.refused.push((path, why)),
            None => {}
        }
        Ok((enough, None))
    }

    /// Return the parts of a file's path that are in the names of its records, None for one that its path does not have.
    fn file_parts(&self, name: &str, form: FormParts) -> PyResult<Vec<Option<String>>> {
        let fields = fields_of(name, &form_of(form)?, &self.settings).map_err(to_python)?;
        Ok(fields.file_parts().into_iter().map(|part| part.map(str::to_owned)).collect())
    }

    /// Scan the records that begin in a range of a file, or in all of it; `copy` holds its bytes from `base` on. Of a
    /// packed file `frames` are the bytes that unpack to the range. Return the part, whether the file has to be scanned
    /// as a whole, and whether the scan met the end of the copy.
    #[pyo3(signature = (copy, name, form, *, range=None, frames=None, base=0))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        copy: PathBuf,
        name: &str,
        form: FormParts,
        range: Option<(u64, u64)>,
        frames: Option<(u64, u64)>,
        base: u64,
    ) -> PyResult<(Bound<'py, PyBytes>, bool, bool)> {
        let form = form_of(form)?;
        let split = Split { range, frames, base };
        let scanned = enter(py, None, |watch| scan(&copy, name, &form, split, &self.settings, watch))?;
        Ok((PyBytes::new(py, &scanned.part), scanned.beyond, scanned.ended))
    }

    /// Return the bytes at some places of a file of which `copy` is a whole copy, in ascending order of offsets; of a
    /// packed file from a frame on, which `start` has: its first byte in the copy, its offset in the unpacked file.
    #[staticmethod]
    #[pyo3(signature = (copy, name, places, *, start=(0, 0)))]
    fn records<'py>(
        py: Python<'py>,
        copy: PathBuf,
        name: &str,
        places: Vec<(u64, u32)>,
        start: (u64, u64),
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let records =
            enter(py, None, |watch| read_places(&Source::open(&copy, name)?, start, &places, watch))?;
        Ok(records.iter().map(|record| PyBytes::new(py, record)).collect())
    }

    /// Return the bytes that frames of a zstd file unpack to; None if they are damaged.
    #[staticmethod]
    fn unpacked_size(
        py: Python<'_>,
        copy: PathBuf,
        name: &str,
        frames: (u64, u64),
        base: u64,
    ) -> PyResult<Option<u64>> {
        enter(py, None, |watch| unpacked_size(&copy, name, frames, base, Codec::Zstd, watch))
    }

    /// Return whether a part is whole.
    #[staticmethod]
    fn is_sound(part: &[u8]) -> bool {
        is_sound(part)
    }

    /// Join the parts of all files, which are in `spool`: of each the index of its file, its offset and its length, in
    /// the order of files and of their bytes. Records are read again from `copies`, where a file has one: `fetch` is
    /// called with the index of the file, the offset and the length of each record, and writes them there.
    #[pyo3(signature = (spool, parts, *, copies, fetch=None))]
    fn join(
        &self,
        py: Python<'_>,
        spool: PathBuf,
        parts: Vec<(usize, u64, usize)>,
        copies: Vec<CopyParts>,
        fetch: Option<Py<PyAny>>,
    ) -> PyResult<Log> {
        let Files { mut inputs, skipped, refused } =
            std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner));
        for (at, path, size, modified) in copies {
            let unknown = || UsageError::new_err(format!("there is no file {at}"));
            let input = inputs.get_mut(at).ok_or_else(unknown)?;
            *input = with_copy(input.clone(), path, size, modified);
        }
        if let Some((at, ..)) = parts.iter().find(|(at, ..)| *at >= inputs.len()) {
            return Err(UsageError::new_err(format!("there is no file {at}")));
        }
        let place = |(input, offset, length)| PartPlace { input, offset, length };
        let parts: Vec<PartPlace> = parts.into_iter().map(place).collect();
        let mut inner = enter(py, None, |watch: &Watch| join(inputs, &spool, &parts, &self.settings, watch))?;
        (inner.skipped, inner.refused) = (skipped, refused);
        inner.prefetch = fetch.map(|fetch| Prefetch::new(move |places| ask(&fetch, places)));
        Ok(Log { inner: Arc::new(inner), log_weights: None })
    }
}

/// Have records brought by a function of the caller.
fn ask(fetch: &Py<PyAny>, places: &[Place]) -> karl_log::Result<()> {
    let places: Vec<(usize, u64, u32)> =
        places.iter().map(|place| (place.input, place.offset, place.length)).collect();
    Python::attach(|py| fetch.call1(py, (places,)).map(drop)).map_err(|error| Error::Fetch(Box::new(error)))
}

fn form_parts(form: &FileForm) -> FormParts {
    let (layout, key) = match &form.layout {
        FileLayout::Lines => ("lines", None),
        FileLayout::Array => ("array", None),
        FileLayout::Member(key) => ("member", Some(key.clone())),
        FileLayout::Named(key) => ("named", key.clone()),
        FileLayout::Values => ("values", None),
    };
    (layout.to_owned(), key, form.format.name.to_owned(), form.number, form.codec.name().to_owned())
}

fn form_of((layout, key, format, number, codec): FormParts) -> PyResult<FileForm> {
    let unknown = |what: &str, name: &str| UsageError::new_err(format!("unknown {what} {name:?}"));
    let layout = match (layout.as_str(), key) {
        ("lines", _) => FileLayout::Lines,
        ("array", _) => FileLayout::Array,
        ("member", Some(key)) => FileLayout::Member(key),
        ("named", key) => FileLayout::Named(key),
        ("values", _) => FileLayout::Values,
        _ => return Err(unknown("layout", &layout)),
    };
    let codecs = [Codec::Plain, Codec::Gzip, Codec::Zstd];
    Ok(FileForm {
        layout,
        format: by_name(&format).ok_or_else(|| unknown("format", &format))?,
        number,
        codec: codecs
            .into_iter()
            .find(|known| known.name() == codec)
            .ok_or_else(|| unknown("codec", &codec))?,
    })
}
