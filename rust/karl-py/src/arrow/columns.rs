//! One Arrow column as what a kernel takes: numbers, or names.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::DataType;
use karl_log::category::{Builder, Category};
use pyo3::prelude::*;

use crate::error::DTypeError;

/// An element type of columns that kernels take.
pub(crate) trait Cell: ArrowNativeType {
    /// Its type in Arrow.
    type Arrow: ArrowPrimitiveType<Native = Self>;
    /// What stands for a null: NaN is a missing number, -1 no group and no row.
    const MISSING: Self;
    /// Its name.
    const NAME: &'static str;
}

impl Cell for f64 {
    type Arrow = Float64Type;
    const MISSING: Self = Self::NAN;
    const NAME: &'static str = "float64";
}

impl Cell for f32 {
    type Arrow = Float32Type;
    const MISSING: Self = Self::NAN;
    const NAME: &'static str = "float32";
}

impl Cell for i64 {
    type Arrow = Int64Type;
    const MISSING: Self = -1;
    const NAME: &'static str = "int64";
}

/// The numbers of a column of exactly this type: the owner's memory where it is one chunk without nulls.
pub(crate) fn numbers<T: Cell>(
    name: &str,
    chunks: &[ArrayRef],
    kind: &DataType,
) -> PyResult<ScalarBuffer<T>> {
    if *kind != T::Arrow::DATA_TYPE {
        return Err(refused(name, kind, T::NAME));
    }
    match chunks {
        [one] if one.null_count() == 0 => Ok(one.as_primitive::<T::Arrow>().values().clone()),
        _ => Ok(chunks.iter().flat_map(|chunk| present::<T>(chunk)).collect()),
    }
}

fn present<T: Cell>(chunk: &ArrayRef) -> impl Iterator<Item = T> {
    chunk.as_primitive::<T::Arrow>().iter().map(|value| value.unwrap_or(T::MISSING))
}

/// The numbers of a column of any numeric type, as a log's are read: widened, true is 1, NaN for a null.
#[allow(clippy::cast_precision_loss, reason = "the nearest number, as a log's integers are read")]
pub(crate) fn reals(name: &str, chunks: &[ArrayRef], kind: &DataType) -> PyResult<Vec<f64>> {
    let or_nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
    match kind {
        DataType::Float64 => Ok(numbers::<f64>(name, chunks, kind)?.to_vec()),
        DataType::Float32 => Ok(numbers::<f32>(name, chunks, kind)?.iter().copied().map(f64::from).collect()),
        DataType::Float16 => {
            let halves = chunks.iter().flat_map(|chunk| chunk.as_primitive::<Float16Type>().iter());
            Ok(halves.map(|half| or_nan(half.map(f64::from))).collect())
        }
        DataType::Boolean => {
            let flags = chunks.iter().flat_map(|chunk| chunk.as_boolean().iter());
            Ok(flags.map(|flag| or_nan(flag.map(f64::from))).collect())
        }
        _ if kind.is_integer() => {
            let whole = chunks.iter().filter_map(|chunk| integers(chunk)).flatten();
            Ok(whole.map(|number| or_nan(number.map(|number| number as f64))).collect())
        }
        _ => Err(refused(name, kind, "numbers")),
    }
}

/// Names coded by first appearance: a column of texts, plain, large, as views, or behind a dictionary; or of integers.
pub(crate) fn category(name: &str, chunks: &[ArrayRef], kind: &DataType) -> PyResult<Category> {
    if !is_text(kind) && !kind.is_integer() {
        return Err(refused(name, kind, "strings or integers"));
    }
    let mut category = Builder::new();
    for chunk in chunks {
        for text in texts(chunk).into_iter().flatten() {
            category.push(text);
        }
        for number in integers(chunk).into_iter().flatten() {
            category.push(number.map(|number| number.to_string()).as_deref());
        }
    }
    Ok(category.finish())
}

/// Whether a column holds texts, plain or behind a dictionary.
pub(crate) fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

fn texts(array: &dyn Array) -> Option<Vec<Option<&str>>> {
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().iter().collect()),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().iter().collect()),
        DataType::Utf8View => Some(array.as_string_view().iter().collect()),
        DataType::Dictionary(..) => behind_dictionary(array),
        _ => None,
    }
}

fn behind_dictionary(array: &dyn Array) -> Option<Vec<Option<&str>>> {
    let dictionary = array.as_any_dictionary();
    let values = texts(dictionary.values())?;
    if values.is_empty() {
        return Some(vec![None; array.len()]);
    }
    let keys = dictionary.keys();
    let name = |(row, key): (usize, usize)| if keys.is_null(row) { None } else { *values.get(key)? };
    Some(dictionary.normalized_keys().into_iter().enumerate().map(name).collect())
}

/// The integers of a column of any width.
pub(crate) fn integers(array: &dyn Array) -> Option<Box<dyn Iterator<Item = Option<i128>> + '_>> {
    match array.data_type() {
        DataType::Int8 => Some(widened::<Int8Type>(array)),
        DataType::Int16 => Some(widened::<Int16Type>(array)),
        DataType::Int32 => Some(widened::<Int32Type>(array)),
        DataType::Int64 => Some(widened::<Int64Type>(array)),
        DataType::UInt8 => Some(widened::<UInt8Type>(array)),
        DataType::UInt16 => Some(widened::<UInt16Type>(array)),
        DataType::UInt32 => Some(widened::<UInt32Type>(array)),
        DataType::UInt64 => Some(widened::<UInt64Type>(array)),
        _ => None,
    }
}

fn widened<T>(array: &dyn Array) -> Box<dyn Iterator<Item = Option<i128>> + '_>
where
    T: ArrowPrimitiveType<Native: Into<i128>>,
{
    Box::new(array.as_primitive::<T>().iter().map(|value| value.map(Into::into)))
}

/// The refusal of a column by its type.
pub(crate) fn refused(name: &str, kind: &DataType, wanted: &str) -> PyErr {
    let got = if kind.is_nested() { "nested values".to_owned() } else { kind.to_string() };
    DTypeError::new_err(format!("{name} is an Arrow column of {got}, wanted {wanted}"))
}
