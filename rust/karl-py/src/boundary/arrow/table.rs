//! A log as one Arrow record batch, one row a record, in the log's order.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, FixedSizeBinaryArray, Float64Array, LargeStringArray, PrimitiveArray,
    RecordBatch, UInt32Array, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer, ToByteSlice};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use bytes::Bytes;
use karl_log::Log;
use karl_log::columns::category::Category;

/// Names of the columns of a log beyond the fixed ones.
pub(crate) struct Wanted {
    /// The components of the reward; none where the reward is one.
    pub(crate) components: Vec<String>,
    /// The weight of each component.
    pub(crate) weights: Vec<f64>,
    /// True if records have a partition.
    pub(crate) partition: bool,
}

type Column = (Field, Box<dyn FnOnce() -> Result<ArrayRef, ArrowError>>);

/// Return the type of the batch that [`rows`] makes.
pub(crate) fn schema(log: &Arc<Log>, log_weights: Option<&Arc<Vec<f64>>>, wanted: &Wanted) -> Schema {
    Schema::new(columns(log, log_weights, wanted).into_iter().map(|(field, _)| field).collect::<Vec<_>>())
}

/// Every record.
///
/// # Errors
/// More names than a dictionary of 32 bits has room for, or weights that are not those of the components.
pub(crate) fn rows(
    log: &Arc<Log>,
    log_weights: Option<&Arc<Vec<f64>>>,
    wanted: &Wanted,
) -> Result<RecordBatch, ArrowError> {
    let columns = columns(log, log_weights, wanted).into_iter();
    let made = columns.map(|(field, make)| Ok((Arc::new(field), make()?)));
    let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) =
        made.collect::<Result<Vec<_>, ArrowError>>()?.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// Return each column's field and constructor: one list, so that the schema cannot differ from the rows.
fn columns(log: &Arc<Log>, log_weights: Option<&Arc<Vec<f64>>>, wanted: &Wanted) -> Vec<Column> {
    let rows = u32::try_from(log.len()).unwrap_or(u32::MAX);
    let mut columns = vec![
        column("row", DataType::UInt32, false, move || Ok(UInt32Array::from_iter_values(0..rows))),
        of(log, "id_hash", DataType::FixedSizeBinary(HASH), false, |log| {
            hashes(log.keys.iter().map(|key| key.id))
        }),
        of(log, "ordinal", DataType::UInt64, false, |log| {
            Ok(UInt64Array::from_iter_values(log.keys.iter().map(|key| key.ordinal)))
        }),
        of(log, "group", names_type(), true, |log| names(&log.group)),
        of(log, "domain", names_type(), true, |log| names(&log.domain)),
        reward(log, wanted),
    ];
    for (index, name) in wanted.components.iter().enumerate() {
        let name = format!("reward.{name}");
        columns.push(of(log, &name, DataType::Float64, true, move |log| Ok(shared(log, index))));
    }
    if let Some(log_weights) = log_weights.map(Arc::clone) {
        columns
            .push(column("log_weight", DataType::Float64, true, move || Ok(nullable(log_weights.to_vec()))));
    }
    columns.extend(places(log, wanted.partition));
    columns
}

fn reward(log: &Arc<Log>, wanted: &Wanted) -> Column {
    let weights = wanted.weights.clone();
    of(log, "reward", DataType::Float64, true, move |log| {
        if let Some(reward) = &log.reward {
            return Ok(nullable(reward.clone()));
        }
        if weights == [1.0] && log.components.len() == 1 {
            return Ok(shared(log, 0));
        }
        log.composite(&weights).map(nullable).map_err(|error| ArrowError::ExternalError(Box::new(error)))
    })
}

/// Return the columns with the place of a record, so that another program can find it, and with the other facts of
/// the log.
fn places(log: &Arc<Log>, partition: bool) -> Vec<Column> {
    let mut columns = Vec::new();
    if partition {
        columns.push(of(log, "partition", names_type(), true, |log| names(&log.partition)));
    }
    if log.fingerprints.is_some() {
        columns.push(of(log, "trajectory_hash", DataType::FixedSizeBinary(HASH), false, |log| {
            hashes(log.fingerprints.iter().flatten().copied())
        }));
    }
    columns.push(of(log, "file", names_type(), true, |log| {
        let paths = log.inputs.iter().map(|input| input.source.name.as_str());
        dictionary(log.places().map(|place| u32::try_from(place.input).ok()), paths)
    }));
    columns.push(of(log, "offset", DataType::UInt64, false, |log| {
        Ok(UInt64Array::from_iter_values(log.places().map(|place| place.offset)))
    }));
    columns.push(of(log, "length", DataType::UInt32, false, |log| {
        Ok(UInt32Array::from_iter_values(log.places().map(|place| place.length)))
    }));
    columns
}

fn of<A: arrow_array::Array + 'static>(
    log: &Arc<Log>,
    name: &str,
    kind: DataType,
    nullable: bool,
    make: impl FnOnce(&Arc<Log>) -> Result<A, ArrowError> + 'static,
) -> Column {
    let log = Arc::clone(log);
    column(name, kind, nullable, move || make(&log))
}

fn column<A: arrow_array::Array + 'static>(
    name: &str,
    kind: DataType,
    nullable: bool,
    make: impl FnOnce() -> Result<A, ArrowError> + 'static,
) -> Column {
    (Field::new(name, kind, nullable), Box::new(move || Ok(Arc::new(make()?) as ArrayRef)))
}

/// The bytes of a hash.
const HASH: i32 = 16;

/// Hashes, most significant byte first: what XXH3-128 is written as everywhere.
fn hashes(values: impl Iterator<Item = u128>) -> Result<FixedSizeBinaryArray, ArrowError> {
    let bytes: Vec<u8> = values.flat_map(u128::to_be_bytes).collect();
    FixedSizeBinaryArray::try_new(HASH, Buffer::from_vec(bytes), None)
}

fn names_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8))
}

fn names(category: &Category) -> Result<DictionaryArray<Int32Type>, ArrowError> {
    let codes = category.codes();
    let codes = codes.iter().map(|&code| (code != karl_log::intern::NONE).then_some(code));
    dictionary(codes, category.names().iter())
}

/// Large strings, because all names of a log may be longer than 2 GiB together.
fn dictionary<'a>(
    codes: impl Iterator<Item = Option<u32>>,
    names: impl Iterator<Item = &'a str>,
) -> Result<DictionaryArray<Int32Type>, ArrowError> {
    let code = |code: Option<u32>| {
        code.map(|code| i32::try_from(code).map_err(|_| ArrowError::DictionaryKeyOverflowError)).transpose()
    };
    let codes: PrimitiveArray<Int32Type> = codes.map(code).collect::<Result<Vec<_>, _>>()?.into();
    DictionaryArray::try_new(codes, Arc::new(LargeStringArray::from_iter_values(names)))
}

/// A component of the reward as Arrow reads it: the log's own memory, and a null where it is missing.
struct Shared {
    log: Arc<Log>,
    component: usize,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.log.components.get(self.component).map_or(&[], |values| values.to_byte_slice())
    }
}

fn shared(log: &Arc<Log>, component: usize) -> Float64Array {
    let values = Bytes::from_owner(Shared { log: Arc::clone(log), component });
    with_nulls(ScalarBuffer::from(Buffer::from(values)))
}

fn nullable(values: Vec<f64>) -> Float64Array {
    with_nulls(ScalarBuffer::from(values))
}

fn with_nulls(values: ScalarBuffer<f64>) -> Float64Array {
    let present =
        BooleanBuffer::collect_bool(values.len(), |row| values.get(row).is_some_and(|value| !value.is_nan()));
    let nulls = NullBuffer::new(present);
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    Float64Array::new(values, nulls)
}
