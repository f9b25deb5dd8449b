//! Binding of the settings of an export.

use karl_core::sample::strata::Allocation;
use karl_log::export;
use karl_log::export::{Dealing, Prepared, Shape};
use karl_redact::Pseudonyms;
use pyo3::prelude::*;

use crate::boundary::error::UsageError;
use crate::protection::{PseudonymNames, pseudonyms_of};

/// Settings of the rows to make of records, and of the splits of these rows.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Export {
    pub(super) settings: export::ExportSettings<'static>,
    pub(super) pseudonyms: Option<Pseudonyms>,
    pub(super) dealing: Dealing,
    pub(super) judge: Option<Py<PyAny>>,
    pub(super) per: Option<(String, Allocation)>,
}

#[pymethods]
impl Export {
    /// `judge` gives the name of a rendered row's flaw, or None: `too_many_tokens`, `bad_template`.
    #[new]
    #[pyo3(signature = (*, shape, allow_secrets, pseudonyms=None, prepared, fractions, fewest, seed, threads, max_per_group=None, judge=None, per=None))]
    #[allow(
        clippy::too_many_arguments,
        reason = "one keyword a setting; the Python layer holds them in one object"
    )]
    fn new(
        shape: &str,
        allow_secrets: bool,
        pseudonyms: Option<PseudonymNames>,
        prepared: &str,
        fractions: [f64; 3],
        fewest: usize,
        seed: u64,
        threads: usize,
        max_per_group: Option<usize>,
        judge: Option<Py<PyAny>>,
        per: Option<(String, String)>,
    ) -> PyResult<Self> {
        let unknown = || {
            UsageError::new_err(format!("shape is {shape:?}, wanted chat, prompt-completion, text or raw"))
        };
        let not_prepared =
            || UsageError::new_err(format!("prepared is {prepared:?}, wanted held, judged or unread"));
        let settings = export::ExportSettings {
            shape: Shape::by_name(shape).ok_or_else(unknown)?,
            allow_secrets,
            pseudonyms: None,
            prepared: Prepared::by_name(prepared).ok_or_else(not_prepared)?,
            max_per_group,
            dealt: fractions[0] < 1.0,
            threads,
        };
        let dealing = Dealing { fractions, fewest, seed };
        let unknown = |name: &str| {
            UsageError::new_err(format!("per deals {name:?}, wanted equal, proportional or sqrt"))
        };
        let deal = |(field, deal): (String, String)| {
            Ok((field, Allocation::by_name(&deal).ok_or_else(|| unknown(&deal))?))
        };
        let per = per.map(deal).transpose().map_err(|error: PyErr| error)?;
        let pseudonyms = pseudonyms.map(pseudonyms_of);
        Ok(Self { settings, pseudonyms, dealing, judge, per })
    }

    /// Return the same with every record read and judged before it is written.
    fn judged(&self, py: Python<'_>) -> Self {
        let settings = export::ExportSettings { prepared: self.settings.prepared.judged(), ..self.settings };
        let judge = self.judge.as_ref().map(|judge| judge.clone_ref(py));
        let (pseudonyms, per) = (self.pseudonyms.clone(), self.per.clone());
        Self { settings, pseudonyms, judge, per, dealing: self.dealing }
    }
}

impl Export {
    /// Return the settings, with the replacement of personal data.
    pub(super) fn settings(&self) -> export::ExportSettings<'_> {
        export::ExportSettings { pseudonyms: self.pseudonyms.as_ref(), ..self.settings }
    }
}
