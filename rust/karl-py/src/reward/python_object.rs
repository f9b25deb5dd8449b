//! A Python object that can be looked into, for the reward of a record.

use karl_log::karl_rewards::within;
use karl_reward::{Fault, Node, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// A dict and what is in it.
pub(super) struct Object<'py>(pub(super) Bound<'py, PyAny>);

impl<'py> Object<'py> {
    fn dict(&self) -> Result<&Bound<'py, PyDict>, Fault> {
        self.0.cast::<PyDict>().map_err(|_| Fault::Attribute)
    }

    fn truth(&self) -> bool {
        self.0.is_truthy().unwrap_or(true)
    }
}

fn text(text: &Bound<'_, PyString>) -> String {
    text.to_string_lossy().into_owned()
}

fn whole<'a>(number: &Bound<'_, PyAny>) -> Value<'a> {
    match (number.extract::<i64>(), number.extract::<f64>()) {
        (Ok(value), _) => Value::Int(value),
        (_, Ok(value)) => Value::Float(value),
        _ => Value::Vast { negative: number.lt(0).unwrap_or(false) },
    }
}

impl Node<'static> for Object<'_> {
    fn value(&self) -> Result<Value<'static>, Fault> {
        let object = &self.0;
        Ok(if object.is_none() {
            Value::Null
        } else if let Ok(value) = object.cast::<PyBool>() {
            Value::Bool(value.is_true())
        } else if object.is_instance_of::<PyInt>() {
            whole(object)
        } else if let Ok(value) = object.cast::<PyFloat>() {
            Value::Float(value.value())
        } else if let Ok(value) = object.cast::<PyString>() {
            Value::Text(text(value).into())
        } else if object.is_instance_of::<PyDict>() {
            Value::Object { some: self.truth() }
        } else {
            Value::List { some: self.truth() }
        })
    }

    fn fields<const N: usize>(&self, keys: [&str; N]) -> Result<[Option<Self>; N], Fault> {
        let dict = self.dict()?;
        Ok(keys.map(|key| dict.get_item(key).ok().flatten().map(Object)))
    }

    fn each(&self, mut visit: impl FnMut(Option<Self>) -> Result<(), Fault>) -> Result<(), Fault> {
        if let Ok(list) = self.0.cast::<PyList>() {
            return list.iter().try_for_each(|element| visit(Some(Object(element))));
        }
        if let Ok(tuple) = self.0.cast::<PyTuple>() {
            return tuple.iter().try_for_each(|element| visit(Some(Object(element))));
        }
        match self.value()? {
            Value::Text(_) | Value::Object { .. } => {
                (0..self.0.len().unwrap_or(0)).try_for_each(|_| visit(None))
            }
            _ => Err(Fault::Type),
        }
    }

    fn entries(&self, mut visit: impl FnMut(&str, Self) -> Result<(), Fault>) -> Result<(), Fault> {
        self.dict()?.iter().try_for_each(|(key, value)| {
            let name = key.cast::<PyString>().map(text).unwrap_or_default();
            visit(&name, Object(value))
        })
    }

    fn embedded<const N: usize>(&self, keys: [&str; N]) -> Result<Option<[Value<'static>; N]>, Fault> {
        let Value::Text(text) = self.value()? else { return Ok(None) };
        within(&text, keys)
    }
}
