//! Table from elsewhere, with columns that replace those of a log.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use karl_log::columns::category::{Builder, Category};
use karl_log::json::scalar::LARGEST;
use pyo3::prelude::*;

use super::columns::{category, integers, reals, refused};
use crate::boundary::error::{ArgumentError, DTypeError, LayoutError};

/// The column that says which record a row is of.
const ROW: &str = "row";

/// A table, and the row of the log that each of its rows is of.
pub(crate) struct LogTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// None where the table has no column of row numbers: its rows are the log's, one by one.
    rows: Option<Vec<u32>>,
    /// Number of rows of the log.
    log_rows: usize,
}

impl LogTable {
    /// Take a table over, and match its rows with those of a log.
    pub(crate) fn new(object: &Bound<'_, PyAny>, log_rows: usize) -> PyResult<Self> {
        if !super::has_arrow_interface(object)? {
            let kind = object.get_type().name()?;
            let message = format!("frame is a {kind}, wanted a table with __arrow_c_stream__");
            return Err(DTypeError::new_err(message));
        }
        let (batches, schema) = super::batches("frame", object)?;
        let mut frame = Self { schema, batches, rows: None, log_rows };
        if frame.schema.fields().iter().any(|field| field.name() == ROW) {
            frame.rows = Some(frame.row_numbers()?);
        } else if frame.len() != log_rows {
            let got = frame.len();
            let message = format!("frame has {got} rows and no column {ROW:?}, wanted {log_rows} rows");
            return Err(LayoutError::new_err(message));
        }
        Ok(frame)
    }

    /// Return the number of rows of the table.
    pub(crate) fn len(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Return whether rows were matched by number.
    pub(crate) fn by_row(&self) -> bool {
        self.rows.is_some()
    }

    /// Rewards in the log's order; NaN for a null, and for a record that is not in the table.
    pub(crate) fn rewards(&self, name: &str) -> PyResult<Vec<f64>> {
        let too_large = |value: f64| value.abs() > LARGEST;
        let values =
            self.floats(name, too_large, "a number up to 1e100 in size, or null where it is missing")?;
        // Adding 0.0 turns -0.0 into 0.0, as in rewards that are read: equal ones have equal bits.
        Ok(values.into_iter().map(|value| value + 0.0).collect())
    }

    /// Log-weights in the log's order; NaN for a null, and for a record that is not in the table.
    pub(crate) fn log_weights(&self, name: &str) -> PyResult<Vec<f64>> {
        self.floats(name, |value| value == f64::INFINITY, "the logarithm of a weight")
    }

    /// Return the names in the log's order, coded by first appearance there.
    pub(crate) fn category(&self, name: &str) -> PyResult<Category> {
        let (chunks, kind) = self.column(name)?;
        let given = category(name, &chunks, &kind)?;
        let mut sources = vec![None; self.log_rows];
        self.place(&mut sources, (0..given.codes().len()).map(Some));
        let mut placed = Builder::new();
        for source in sources {
            placed.push(source.and_then(|row| given.name(row)));
        }
        Ok(placed.finish())
    }

    /// Return the same column, missing where a record is not in the table.
    pub(crate) fn only_present(&self, column: &[f64]) -> Vec<f64> {
        let Some(rows) = &self.rows else { return column.to_vec() };
        let mut kept = vec![f64::NAN; column.len()];
        for row in rows.iter().map(|&row| row as usize) {
            if let (Some(slot), Some(&value)) = (kept.get_mut(row), column.get(row)) {
                *slot = value;
            }
        }
        kept
    }

    fn floats(&self, name: &str, wrong: impl Fn(f64) -> bool, wanted: &str) -> PyResult<Vec<f64>> {
        let (chunks, kind) = self.column(name)?;
        let values = reals(name, &chunks, &kind)?;
        if let Some((index, value)) = values.iter().enumerate().find(|&(_, &value)| wrong(value)) {
            return Err(ArgumentError::new_err(format!(
                "{name} at index {index} is {value}, wanted {wanted}"
            )));
        }
        let mut placed = vec![f64::NAN; self.log_rows];
        self.place(&mut placed, values.iter().copied());
        Ok(placed)
    }

    /// Put the table's values where the log has their records.
    fn place<T>(&self, placed: &mut [T], values: impl Iterator<Item = T>) {
        match &self.rows {
            None => placed.iter_mut().zip(values).for_each(|(slot, value)| *slot = value),
            Some(rows) => rows.iter().zip(values).for_each(|(&row, value)| {
                if let Some(slot) = placed.get_mut(row as usize) {
                    *slot = value;
                }
            }),
        }
    }

    /// Return the one column of this name.
    fn column(&self, name: &str) -> PyResult<(Vec<ArrayRef>, DataType)> {
        let fields = self.schema.fields();
        let found: Vec<usize> = (0..fields.len()).filter(|&at| fields[at].name() == name).collect();
        let &[at] = found.as_slice() else {
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            let (count, names) = (found.len(), names.join(", "));
            let message = format!("frame has {count} columns {name:?}, wanted one; it has {names}");
            return Err(ArgumentError::new_err(message));
        };
        let chunks = self.batches.iter().map(|batch| batch.column(at).clone()).collect();
        Ok((chunks, fields[at].data_type().clone()))
    }

    fn row_numbers(&self) -> PyResult<Vec<u32>> {
        let (chunks, kind) = self.column(ROW)?;
        let mut rows = Vec::with_capacity(self.len());
        let mut seen = vec![false; self.log_rows];
        for chunk in &chunks {
            let numbers = integers(chunk).ok_or_else(|| refused(ROW, &kind, "integers"))?;
            for number in numbers {
                rows.push(self.row(rows.len(), number, &mut seen)?);
            }
        }
        Ok(rows)
    }

    fn row(&self, index: usize, number: Option<i128>, seen: &mut [bool]) -> PyResult<u32> {
        let wrong = |got: String, wanted: String| {
            ArgumentError::new_err(format!("{ROW} at index {index} is {got}, wanted {wanted}"))
        };
        let got = number.map_or_else(|| "null".to_owned(), |number| number.to_string());
        let row = number.and_then(|number| u32::try_from(number).ok());
        match row.and_then(|row| Some((row, seen.get_mut(row as usize)?))) {
            None => Err(wrong(got, format!("a row of the log, 0 to {} exclusive", self.log_rows))),
            Some((_, true)) => Err(wrong(got, "each row once".to_owned())),
            Some((row, fresh)) => {
                *fresh = true;
                Ok(row)
            }
        }
    }
}
