//! Files and pipes as bytes: opened, unpacked, read ahead, and hashed.

pub mod codec;
pub mod pipe;
pub mod prefetch;
pub(crate) mod read_ahead;
pub mod source;
