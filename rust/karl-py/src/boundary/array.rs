//! Array arguments: borrowed as they are, copied where no value changes, or rejected with their name.
//!
//! A `NumPy` array of the right type is never copied. An Arrow column is copied if it has nulls or several chunks, and so
//! are lists, integers and names, by `karl_fast._columns`.

use std::sync::OnceLock;

use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use karl_core::{Groups, Key, Keys};
use numpy::{
    Element, PyArrayDescrMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::boundary::arrow;
use crate::boundary::arrow::columns::{Cell, category, is_text, numbers};
use crate::boundary::error::{ArgumentError, DTypeError, LayoutError, to_python};

/// A column of numbers, wherever its memory is.
pub(crate) enum Column<'py, T: Element + Cell> {
    /// In a `NumPy` array, which is borrowed.
    Borrowed(PyReadonlyArray1<'py, T>),
    /// In Arrow memory, shared with its owner or copied.
    Arrow(ScalarBuffer<T>),
}

impl<T: Element + Cell> Column<'_, T> {
    /// Return the numbers.
    pub(crate) fn as_slice(&self) -> PyResult<&[T]> {
        match self {
            Self::Borrowed(array) => Ok(array.as_slice()?),
            Self::Arrow(values) => Ok(values),
        }
    }
}

/// Return a contiguous one-dimensional `NumPy` array, or an Arrow column, of exactly this element type.
///
/// A null is NaN in a column of numbers, and -1, which says "none", in one of integers.
pub(crate) fn column<'py, T: Element + Cell>(
    name: &str,
    object: &Bound<'py, PyAny>,
) -> PyResult<Column<'py, T>> {
    if object.cast::<PyUntypedArray>().is_err() && arrow::has_arrow_interface(object)? {
        let (chunks, kind) = arrow::chunks(name, object)?;
        return Ok(Column::Arrow(numbers(name, &chunks, &kind)?));
    }
    let copy = if holds::<T>(object) { None } else { converted(name, object, &type_name::<T>(object.py()))? };
    let object = copy.as_ref().unwrap_or(object);
    check::<T>(name, object, 1)?;
    let array: PyReadonlyArray1<'py, T> = object.extract()?;
    if array.as_slice().is_err() { Err(misaligned(name)) } else { Ok(Column::Borrowed(array)) }
}

/// Return whether an object is a `NumPy` array of this element type.
fn holds<T: Element>(object: &Bound<'_, PyAny>) -> bool {
    let wanted = T::get_dtype(object.py());
    object.cast::<PyUntypedArray>().is_ok_and(|array| array.dtype().is_equiv_to(&wanted))
}

fn type_name<T: Element>(py: Python<'_>) -> String {
    T::get_dtype(py).to_string()
}

/// Return a copy of a list, of integers or of names in the type that a kernel takes; None where nothing is copied, and
/// the object is refused.
fn converted<'py>(
    name: &str,
    object: &Bound<'py, PyAny>,
    wanted: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    static CONVERTED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let function = CONVERTED.import(object.py(), "karl_fast._columns", "converted")?;
    let copy = function.call1((name, object, wanted))?;
    Ok((!copy.is_none()).then_some(copy))
}

/// A column of f32 or f64, whichever came.
pub(crate) enum Reals<'py> {
    Single(Column<'py, f32>),
    Double(Column<'py, f64>),
}

/// Calls a kernel that is generic over what a column holds: `with_reals!(&column, |slice| kernel(slice))`.
macro_rules! with_reals {
    ($column:expr, |$slice:ident| $work:expr) => {
        match $column {
            $crate::boundary::array::Reals::Single(column) => {
                let $slice = column.as_slice()?;
                $work
            }
            $crate::boundary::array::Reals::Double(column) => {
                let $slice = column.as_slice()?;
                $work
            }
        }
    };
}
pub(crate) use with_reals;

/// Return a contiguous one-dimensional column of float32 or float64. Nothing is cast: a kernel widens as it reads.
pub(crate) fn reals<'py>(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Reals<'py>> {
    let refused = |what: String| {
        let wanted = "a NumPy array or an Arrow column of float32 or float64";
        Err(DTypeError::new_err(format!("{name} {what}, wanted {wanted}")))
    };
    let Ok(array) = object.cast::<PyUntypedArray>() else {
        if !arrow::has_arrow_interface(object)? {
            return match converted(name, object, "float64")? {
                Some(copy) => column(name, &copy).map(Reals::Double),
                None => refused(format!("is a {}", object.get_type().name()?)),
            };
        }
        // Asked for once: a stream can be read no second time.
        let (chunks, kind) = arrow::chunks(name, object)?;
        return match kind {
            DataType::Float32 => Ok(Reals::Single(Column::Arrow(numbers(name, &chunks, &kind)?))),
            DataType::Float64 => Ok(Reals::Double(Column::Arrow(numbers(name, &chunks, &kind)?))),
            _ => refused(format!("is an Arrow column of {kind}")),
        };
    };
    if array.dtype().is_equiv_to(&f32::get_dtype(object.py())) {
        return column(name, object).map(Reals::Single);
    }
    if array.dtype().is_equiv_to(&f64::get_dtype(object.py())) {
        return column(name, object).map(Reals::Double);
    }
    match converted(name, object, "float64")? {
        Some(copy) => column(name, &copy).map(Reals::Double),
        None => refused(format!("has dtype {}", array.dtype())),
    }
}

/// Return a column of float32 or float64 for a kernel that keeps f64: single numbers are widened here, once.
pub(crate) fn widened<'py>(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Column<'py, f64>> {
    match reals(name, object)? {
        Reals::Double(column) => Ok(column),
        Reals::Single(column) => {
            Ok(Column::Arrow(column.as_slice()?.iter().map(|&value| f64::from(value)).collect()))
        }
    }
}

/// Return a contiguous one-dimensional `NumPy` array of bool. Arrow packs bool in bits, which no slice can borrow.
pub(crate) fn flags<'py>(name: &str, object: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray1<'py, bool>> {
    let copy = if holds::<bool>(object) { None } else { converted(name, object, "bool")? };
    let object = copy.as_ref().unwrap_or(object);
    if object.cast::<PyUntypedArray>().is_err() {
        let kind = object.get_type().name()?;
        return Err(DTypeError::new_err(format!("{name} is a {kind}, wanted a NumPy array of bool")));
    }
    check::<bool>(name, object, 1)?;
    object.extract()
}

fn check<T: Element>(name: &str, object: &Bound<'_, PyAny>, dimensions: usize) -> PyResult<()> {
    let wanted = T::get_dtype(object.py());
    let Ok(array) = object.cast::<PyUntypedArray>() else {
        let kind = object.get_type().name()?;
        let message = format!("{name} is a {kind}, wanted a NumPy array or an Arrow column of {wanted}");
        return Err(DTypeError::new_err(message));
    };
    if !array.dtype().is_equiv_to(&wanted) {
        return Err(DTypeError::new_err(format!("{name} has dtype {}, wanted {wanted}", array.dtype())));
    }
    if array.ndim() != dimensions {
        let got = array.ndim();
        return Err(LayoutError::new_err(format!("{name} has {got} dimensions, wanted {dimensions}")));
    }
    if !array.is_c_contiguous() {
        let message = format!("{name} is not contiguous, wanted a copy by numpy.ascontiguousarray");
        return Err(LayoutError::new_err(message));
    }
    Ok(())
}

/// Return the error of an array with the right dtype, dimensions and contiguity, but the wrong alignment.
fn misaligned(name: &str) -> PyErr {
    LayoutError::new_err(format!("{name} is not aligned in memory, wanted a copy by numpy.array"))
}

/// Group ids, one a row; a negative one says that the row has no group. Names may stand in their place.
pub(crate) fn groups(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Groups<'static>> {
    numbered(name, object, Groups::from_ids)
}

/// Return the same for what does not depend on the order of groups, which costs less.
pub(crate) fn groups_in_any_order(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Groups<'static>> {
    numbered(name, object, Groups::from_ids_in_any_order)
}

fn numbered(
    name: &str,
    object: &Bound<'_, PyAny>,
    number: fn(&[i64]) -> karl_core::error::Result<Groups<'static>>,
) -> PyResult<Groups<'static>> {
    let groups = if object.cast::<PyUntypedArray>().is_err() && arrow::has_arrow_interface(object)? {
        let (chunks, kind) = arrow::chunks(name, object)?;
        if is_text(&kind) {
            let category = category(name, &chunks, &kind)?;
            Groups::from_codes(category.codes().into_owned(), category.names().len())
        } else {
            number(&numbers::<i64>(name, &chunks, &kind)?)
        }
    } else {
        let copy = if holds::<i64>(object) { None } else { converted(name, object, "groups")? };
        number(column::<i64>(name, copy.as_ref().unwrap_or(object))?.as_slice()?)
    };
    groups.map_err(|error| to_python(error.into()))
}

/// Return a new array for a kernel that fills all of it: it is uninitialised until written. It is
/// `NumPy` that allocates, for it asks for large pages, and no pass goes into zeros that are written over.
pub(crate) fn fresh<T: Element>(py: Python<'_>, rows: usize) -> PyResult<PyReadwriteArray1<'_, T>> {
    static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let array = EMPTY.import(py, "numpy", "empty")?.call1((rows, T::get_dtype(py)))?;
    array.extract()
}

/// Return the number of cores: array functions take no number of threads, and results do not depend on it.
pub(crate) fn threads() -> usize {
    /// Asking the system takes longer than a small kernel does.
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Return the keys of the rows: from `[B, 3]` of low and high half of the id and ordinal, or from their index.
pub(crate) fn keys(object: Option<&Bound<'_, PyAny>>, rows: usize) -> PyResult<Keys> {
    let Some(object) = object else {
        return Ok(Keys::of_indices(rows));
    };
    check::<u64>("keys", object, 2)?;
    let table: PyReadonlyArray2<'_, u64> = object.extract()?;
    if table.shape()[0] != rows {
        let message = format!("keys has {} rows, wanted {rows}", table.shape()[0]);
        return Err(ArgumentError::new_err(message));
    }
    if table.shape()[1] != 3 {
        return Err(LayoutError::new_err(format!("keys has {} columns, wanted 3", table.shape()[1])));
    }
    let (rows, _) = table.as_slice().map_err(|_| misaligned("keys"))?.as_chunks::<3>();
    Ok(Keys::given(rows.iter().copied().map(Key::from_words).collect()))
}

/// Return a count, which no negative number is.
pub(crate) fn count(what: &'static str, value: i64) -> PyResult<usize> {
    let refused = |_| ArgumentError::new_err(format!("{what} is {value}, wanted 0 or more"));
    usize::try_from(value).map_err(refused)
}

/// Return a count of 32 bits, which is what a formula takes of tokens and of rollouts.
pub(crate) fn small_count(what: &'static str, value: i64) -> PyResult<u32> {
    let got = count(what, value)?;
    let most = u32::MAX as usize;
    u32::try_from(got).map_err(|_| to_python(karl_core::Error::Most { what, got, most }.into()))
}

/// Return the number subtracted from the count under a variance: 0 or 1.
pub(crate) fn freedom(ddof: i64) -> PyResult<u8> {
    match ddof {
        0 => Ok(0),
        1 => Ok(1),
        _ => Err(ArgumentError::new_err(format!("ddof is {ddof}, wanted 0 or 1"))),
    }
}
