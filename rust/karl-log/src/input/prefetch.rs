//! Bytes that are brought here before they are read.

use std::fmt;
use std::sync::Arc;

use crate::columns::Place;
use crate::error::Result;

/// Function that writes the bytes of records into the files of their sources, at their places.
///
/// Records of an object store, and those of packed files that another machine unpacks, are brought here in one call
/// for all records that are wanted, before any is read.
#[derive(Clone)]
pub struct Prefetch(Arc<Bring>);

type Bring = dyn Fn(&[Place]) -> Result<()> + Send + Sync;

impl Prefetch {
    /// Create it from the function.
    pub fn new(bring: impl Fn(&[Place]) -> Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(bring))
    }

    /// Bring the records at these places.
    ///
    /// # Errors
    /// As the function.
    pub fn bring(&self, places: &[Place]) -> Result<()> {
        (self.0)(places)
    }
}

impl fmt::Debug for Prefetch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Prefetch")
    }
}
