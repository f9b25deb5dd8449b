//! Conversion of one Arrow column to numbers or names, as kernels take them.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::DataType;
use karl_log::columns::category::{Builder, Category};
use pyo3::prelude::*;

use crate::boundary::error::{DTypeError, LayoutError};

/// An element type of columns that kernels take.
pub(crate) trait Cell: ArrowNativeType {
    /// Its type in Arrow.
    type Arrow: ArrowPrimitiveType<Native = Self>;
    /// Value for a null: NaN is a missing number, -1 no group and no row.
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

/// Return the numbers of a column of exactly this type: the owner's memory where it is one chunk without nulls.
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

/// Return the numbers of a column of any numeric type, plain or behind a dictionary, as a log's are read: the nearest
/// float64, true is 1, NaN for a null.
pub(crate) fn reals(name: &str, chunks: &[ArrayRef], kind: &DataType) -> PyResult<Vec<f64>> {
    if *kind == DataType::Float64 {
        return Ok(numbers::<f64>(name, chunks, kind)?.to_vec());
    }
    let unfit = || refused(name, kind, "numbers");
    chunk_reals(&new_empty_array(kind)).ok_or_else(unfit)?;
    let chunks = chunks.iter().map(|chunk| chunk_reals(chunk).ok_or_else(unfit));
    Ok(chunks.collect::<PyResult<Vec<_>>>()?.concat())
}

#[allow(clippy::cast_precision_loss, reason = "the nearest number, as a log's integers are read")]
fn chunk_reals(array: &dyn Array) -> Option<Vec<f64>> {
    fn or_nan<T>(values: impl Iterator<Item = Option<T>>, real: impl Fn(T) -> f64) -> Vec<f64> {
        values.map(|value| value.map_or(f64::NAN, &real)).collect()
    }
    Some(match array.data_type() {
        DataType::Float64 => or_nan(array.as_primitive::<Float64Type>().iter(), |number| number),
        DataType::Float32 => or_nan(array.as_primitive::<Float32Type>().iter(), f64::from),
        DataType::Float16 => or_nan(array.as_primitive::<Float16Type>().iter(), f64::from),
        DataType::Boolean => or_nan(array.as_boolean().iter(), f64::from),
        DataType::Null => vec![f64::NAN; array.len()],
        DataType::Dictionary(..) => {
            let values = chunk_reals(array.as_any_dictionary().values())?;
            or_nan(places(array).into_iter(), |at| values.get(at).copied().unwrap_or(f64::NAN))
        }
        kind if kind.is_integer() => or_nan(integers(array)?, |number| number as f64),
        _ => or_nan(decimals(array)?, |digits| digits.parse().unwrap_or(f64::NAN)),
    })
}

/// Return names coded by first appearance, of a column of text, integers, decimals or booleans, plain or as a
/// dictionary. Each is the text that it would be in a log.
pub(crate) fn category(name: &str, chunks: &[ArrayRef], kind: &DataType) -> PyResult<Category> {
    let mut category = Builder::new();
    if !each_name(&new_empty_array(kind), &mut |_| {}) {
        return Err(refused(name, kind, "strings, integers, decimals or booleans"));
    }
    for chunk in chunks {
        // Not every producer of strings looks whether they are UTF-8.
        chunk
            .to_data()
            .validate_full()
            .map_err(|error| LayoutError::new_err(format!("{name} cannot be read as Arrow data: {error}")))?;
        each_name(chunk, &mut |text| category.push(text));
    }
    Ok(category.finish())
}

/// Push the name of each value, and return false where the type has none.
fn each_name(array: &dyn Array, push: &mut dyn FnMut(Option<&str>)) -> bool {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().for_each(push),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().for_each(push),
        DataType::Utf8View => array.as_string_view().iter().for_each(push),
        DataType::Null => (0..array.len()).for_each(|_| push(None)),
        DataType::Boolean => {
            let names =
                array.as_boolean().iter().map(|flag| flag.map(|flag| if flag { "true" } else { "false" }));
            names.for_each(push);
        }
        DataType::Dictionary(..) => {
            let mut values: Vec<Option<String>> = Vec::new();
            let mut keep = |text: Option<&str>| values.push(text.map(str::to_owned));
            if !each_name(array.as_any_dictionary().values(), &mut keep) {
                return false;
            }
            for at in places(array) {
                push(at.and_then(|at| values.get(at)?.as_deref()));
            }
        }
        _ => {
            let Some(texts) = written(array) else { return false };
            texts.for_each(|text| push(text.as_deref()));
        }
    }
    true
}

/// Return the integers or decimals of a column as they are written.
fn written(array: &dyn Array) -> Option<Box<dyn Iterator<Item = Option<String>> + '_>> {
    match integers(array) {
        Some(whole) => Some(Box::new(whole.map(|number| number.map(|number| number.to_string())))),
        None => decimals(array),
    }
}

/// Return the position in the dictionary of each value of a dictionary column.
fn places(array: &dyn Array) -> Vec<Option<usize>> {
    let dictionary = array.as_any_dictionary();
    let keys = dictionary.keys();
    if dictionary.values().is_empty() {
        return vec![None; array.len()];
    }
    let place = |(row, key)| (!keys.is_null(row)).then_some(key);
    dictionary.normalized_keys().into_iter().enumerate().map(place).collect()
}

/// Return whether a column holds text, plain or as a dictionary.
pub(crate) fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Return the decimals of a column of any width, with all the digits of their type.
fn decimals(array: &dyn Array) -> Option<Box<dyn Iterator<Item = Option<String>> + '_>> {
    match array.data_type() {
        DataType::Decimal32(..) => Some(digits::<Decimal32Type>(array)),
        DataType::Decimal64(..) => Some(digits::<Decimal64Type>(array)),
        DataType::Decimal128(..) => Some(digits::<Decimal128Type>(array)),
        DataType::Decimal256(..) => Some(digits::<Decimal256Type>(array)),
        _ => None,
    }
}

fn digits<T: DecimalType>(array: &dyn Array) -> Box<dyn Iterator<Item = Option<String>> + '_> {
    let column = array.as_primitive::<T>();
    Box::new((0..column.len()).map(|row| (!column.is_null(row)).then(|| column.value_as_string(row))))
}

/// Return the integers of a column of any width.
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

/// Return the refusal of a column by its type.
pub(crate) fn refused(name: &str, kind: &DataType, wanted: &str) -> PyErr {
    let got = if kind.is_nested() { "nested values".to_owned() } else { kind.to_string() };
    DTypeError::new_err(format!("{name} is an Arrow column of {got}, wanted {wanted}"))
}
