//! Source of a record.

use super::value::Value;
use crate::fault::Fault;

/// A value that can be looked into: a Python object, or a piece of raw JSON. The lifetime is that of its texts.
pub trait Node<'a>: Sized {
    /// Return the value.
    ///
    /// # Errors
    /// [`Fault::Syntax`] where it is not a value.
    fn value(&self) -> Result<Value<'a>, Fault>;

    /// Return the values of some keys of an object; of a repeated key, the last.
    ///
    /// # Errors
    /// [`Fault::Attribute`] where it is not an object.
    fn fields<const N: usize>(&self, keys: [&str; N]) -> Result<[Option<Self>; N], Fault>;

    /// Visit what Python iterates over: the elements of a list; of a text its characters and of an object its keys,
    /// as None, for neither can be looked into.
    ///
    /// # Errors
    /// [`Fault::Type`] where Python cannot iterate, and what the visit returns.
    fn each(&self, visit: impl FnMut(Option<Self>) -> Result<(), Fault>) -> Result<(), Fault>;

    /// Visit the keys and values of an object, each key at its first place, with its last value.
    ///
    /// # Errors
    /// [`Fault::Attribute`] where it is not an object, and the error of the visit.
    fn entries(&self, visit: impl FnMut(&str, Self) -> Result<(), Fault>) -> Result<(), Fault>;

    /// Return the values of some keys of the object that is written as JSON in a text; None where there is none.
    ///
    /// # Errors
    /// [`Fault::Syntax`] where the node itself is no value.
    fn embedded<const N: usize>(&self, keys: [&str; N]) -> Result<Option<[Value<'a>; N]>, Fault>;
}

/// Return the values of some keys of an object.
pub(crate) fn values<'a, N: Node<'a>, const K: usize>(
    node: &N,
    keys: [&str; K],
) -> Result<[Value<'a>; K], Fault> {
    let mut values = [const { Value::Absent }; K];
    for (value, field) in values.iter_mut().zip(&node.fields(keys)?) {
        *value = value_of(field.as_ref())?;
    }
    Ok(values)
}

/// Return the value of a node that may be missing.
pub(crate) fn value_of<'a, N: Node<'a>>(node: Option<&N>) -> Result<Value<'a>, Fault> {
    node.map_or(Ok(Value::Absent), Node::value)
}
