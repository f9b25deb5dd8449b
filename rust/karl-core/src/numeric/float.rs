//! Numbers as they are stored: f32 or f64. Every sum over them is f64.

/// A stored number. Kernels take both and widen in registers, so that f32 halves what is read and costs no digits after.
pub trait Real: Copy + Default + PartialOrd + Send + Sync + 'static {
    /// Return the number as f64, which is exact.
    fn widen(self) -> f64;
    /// Return the nearest number that can be stored.
    fn narrow(value: f64) -> Self;
}

impl Real for f64 {
    #[inline]
    fn widen(self) -> f64 {
        self
    }

    #[inline]
    fn narrow(value: f64) -> Self {
        value
    }
}

impl Real for f32 {
    #[inline]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "rounding to the nearest is what is asked for")]
    fn narrow(value: f64) -> Self {
        value as Self
    }
}
