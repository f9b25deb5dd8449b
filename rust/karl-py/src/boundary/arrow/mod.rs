//! Columns that come and go by the Arrow `PyCapsule` protocol, so that any engine can make one and hand it back.
//!
//! [`capsule`] opens what arrives. Its memory is shared with its owner where one chunk holds it without nulls, and
//! copied otherwise.

mod capsule;
pub(crate) mod columns;
pub(crate) mod frame;
pub(crate) mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions, StructArray};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use capsule::Chunks;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::boundary::error::{LayoutError, LogError};
use crate::boundary::release_gil::enter;

/// Return whether an object has one of the two methods of the Arrow `PyCapsule` interface.
pub(crate) fn has_arrow_interface(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.hasattr("__arrow_c_array__")? || object.hasattr("__arrow_c_stream__")?)
}

/// Return the chunks of a column and their type.
pub(crate) fn chunks(name: &str, object: &Bound<'_, PyAny>) -> PyResult<(Vec<ArrayRef>, DataType)> {
    let py = object.py();
    taken_over(py, name, || {
        let chunks = Chunks::import(object)?;
        let kind = chunks.data_type().clone();
        Ok((drained(py, name, chunks)?, kind))
    })
}

/// Return the batches of a table and their schema.
pub(crate) fn batches(name: &str, object: &Bound<'_, PyAny>) -> PyResult<(Vec<RecordBatch>, SchemaRef)> {
    let py = object.py();
    taken_over(py, name, || {
        let chunks = Chunks::import(object)?;
        let DataType::Struct(fields) = chunks.data_type() else {
            let kind = chunks.data_type();
            return Err(LayoutError::new_err(format!("{name} is a column of {kind}, wanted a table")));
        };
        let schema = SchemaRef::new(Schema::new(fields.clone()));
        let batches = chunks.map(|chunk| batch(&schema, &chunk?));
        Ok((drained(py, name, batches)?, schema.clone()))
    })
}

/// Turn a struct array into the record batch of its columns.
fn batch(schema: &SchemaRef, array: &ArrayRef) -> Result<RecordBatch, ArrowError> {
    if array.null_count() > 0 {
        return Err(ArrowError::CDataInterface("its rows are nullable structs, wanted columns".to_owned()));
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(array.len()));
    let columns = StructArray::from(array.to_data()).into_parts().1;
    RecordBatch::try_new_with_options(schema.clone(), columns, &rows)
}

/// Return a stream of one batch, for whoever takes it over; the capsule releases it otherwise.
pub(crate) fn stream(
    py: Python<'_>,
    batch: Result<RecordBatch, ArrowError>,
) -> PyResult<Bound<'_, PyCapsule>> {
    let batch = batch.map_err(|error| LogError::new_err(error.to_string()))?;
    let schema = batch.schema();
    let reader = RecordBatchIterator::new([Ok(batch)], schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
}

/// Return the type of a table.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| LogError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// Everything that a stream still has. Its owner may compute it only now, and may need the interpreter for that.
fn drained<T: Send>(
    py: Python<'_>,
    name: &str,
    stream: impl Iterator<Item = Result<T, ArrowError>> + Send,
) -> PyResult<Vec<T>> {
    let found = enter(py, None, |_| Ok::<_, karl_log::Error>(stream.collect::<Result<Vec<T>, _>>()))?;
    found.map_err(|error| LayoutError::new_err(format!("{name} cannot be read as Arrow data: {error}")))
}

/// Return the result of `take`; an error of the exchange names the argument and keeps its cause.
///
/// The crates below panic on a capsule that was already consumed, and on a stream that fails without a message.
fn taken_over<T>(py: Python<'_>, name: &str, take: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let wrapped =
        |reason: &str| LayoutError::new_err(format!("{name} cannot be read as Arrow data: {reason}"));
    match catch_unwind(AssertUnwindSafe(take)) {
        Ok(Err(error)) if error.is_instance_of::<LayoutError>(py) => Err(error),
        Ok(Err(error)) if error.is_instance_of::<PyException>(py) => {
            let outer = wrapped(&error.value(py).to_string());
            outer.set_cause(py, Some(error));
            Err(outer)
        }
        Ok(result) => result,
        Err(_) => Err(wrapped("its capsule was consumed before, or is damaged")),
    }
}
