//! Import of Arrow data through the `PyCapsule` interface (`__arrow_c_array__`, `__arrow_c_stream__`).
//!
//! The one file of karl-py with unsafe code: capsules hold raw pointers, and the C stream interface is three function
//! pointers. Everything else uses the safe types that this file returns.
//!
//! Reference: <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.
#![allow(unsafe_code)]

use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Arrays of one type, one after another: the only array of `__arrow_c_array__`, or the chunks of a stream.
pub(super) enum Chunks {
    /// One array; None once it was taken.
    Array(DataType, Option<FFI_ArrowArray>),
    /// The arrays that a stream still has.
    Stream(DataType, FFI_ArrowArrayStream),
}

impl Chunks {
    /// Import an object that has `__arrow_c_array__` or `__arrow_c_stream__`.
    pub(super) fn import(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.hasattr("__arrow_c_array__")? {
            return import_array(object);
        }
        let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: by the interface a capsule of this name points to an initialized ArrowArrayStream. `from_raw` moves
        // it out and leaves an empty one, which the capsule's destructor does not release again.
        let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
        let kind = stream_type(&mut stream).map_err(refused)?;
        Ok(Self::Stream(kind, stream))
    }

    /// Return the type of every array.
    pub(super) fn data_type(&self) -> &DataType {
        match self {
            Self::Array(kind, _) | Self::Stream(kind, _) => kind,
        }
    }

    fn next_array(&mut self) -> Result<Option<FFI_ArrowArray>, ArrowError> {
        match self {
            Self::Array(_, array) => Ok(array.take()),
            Self::Stream(_, stream) => next_of_stream(stream),
        }
    }
}

impl Iterator for Chunks {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let array = match self.next_array() {
            Ok(array) => array?,
            Err(error) => return Some(Err(error)),
        };
        // SAFETY: the array is owned here and, by the interface, has the layout of the type that came with it.
        let data = unsafe { from_ffi_and_data_type(array, self.data_type().clone()) };
        Some(data.map(make_array))
    }
}

fn import_array(object: &Bound<'_, PyAny>) -> PyResult<Chunks> {
    let capsules = object.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = capsules.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: by the interface a capsule of this name points to an initialized ArrowSchema, which lives as long as the
    // capsule, and the reference ends before the capsule does.
    let kind = DataType::try_from(unsafe { schema.as_ref() }).map_err(refused)?;
    // SAFETY: as for the stream above: the array is moved out, and an empty one stays.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    if array.is_released() {
        return Err(refused(ArrowError::CDataInterface("the array is already released".to_owned())));
    }
    Ok(Chunks::Array(kind, Some(array)))
}

fn stream_type(stream: &mut FFI_ArrowArrayStream) -> Result<DataType, ArrowError> {
    let Some(get_schema) = stream.get_schema.filter(|_| stream.release.is_some()) else {
        return Err(ArrowError::CDataInterface("the stream is already released".to_owned()));
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is not released, so its callbacks are valid; `schema` is an empty structure to fill.
    let code = unsafe { get_schema(stream, &raw mut schema) };
    if code == 0 { DataType::try_from(&schema) } else { Err(last_error(stream, code)) }
}

/// Return the next array of a stream, or None at its end.
fn next_of_stream(stream: &mut FFI_ArrowArrayStream) -> Result<Option<FFI_ArrowArray>, ArrowError> {
    let Some(get_next) = stream.get_next else {
        return Err(ArrowError::CDataInterface("the stream has no get_next".to_owned()));
    };
    let mut array = FFI_ArrowArray::empty();
    // SAFETY: the stream was checked when it was imported and is owned since; `array` is an empty structure to fill.
    let code = unsafe { get_next(stream, &raw mut array) };
    if code != 0 {
        return Err(last_error(stream, code));
    }
    Ok(if array.is_released() { None } else { Some(array) })
}

fn last_error(stream: &mut FFI_ArrowArrayStream, code: i32) -> ArrowError {
    // SAFETY: the stream is not released, so the callback is valid.
    let text = stream.get_last_error.map(|get| unsafe { get(stream) }).filter(|text| !text.is_null());
    let reason = match text {
        // SAFETY: by the interface the text is a C string that is valid until the next call on the stream.
        Some(text) => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        None => format!("the stream failed with code {code} and without a reason"),
    };
    ArrowError::CDataInterface(reason)
}

fn refused(error: ArrowError) -> PyErr {
    PyTypeError::new_err(error.to_string())
}
