//! Elements of an array, and concatenated values.

use std::io::{self, Read};

use super::values::{Until, Values};
use super::{Piece, Window};

/// Elements of an array, or values of a stream of values.
#[derive(Debug)]
pub struct Elements<R> {
    window: Window<R>,
    limit: usize,
    values: Values,
}

impl<R: Read> Elements<R> {
    /// Return the elements from the window's position on, inside `open` arrays.
    pub(crate) fn new(window: Window<R>, limit: usize, until: Until, open: usize) -> Self {
        let values = Values::new(until, open, window.offset());
        Self { window, limit, values }
    }

    /// Return the next element.
    ///
    /// # Errors
    /// Errors of the reader.
    #[expect(clippy::should_implement_trait, reason = "a piece borrows from the stream")]
    pub fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        let next = self.values.next(&mut self.window, self.limit)?;
        Ok(next.piece(&mut self.window))
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns at most so many bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let step = self.1.min(out.len());
            self.0.read(&mut out[..step])
        }
    }

    fn pieces(text: &str, step: usize, limit: usize, until: Until, open: usize) -> Vec<String> {
        let mut elements = Elements::new(Window::new(Trickle(text.as_bytes(), step), 0), limit, until, open);
        let mut out = Vec::new();
        while let Some(piece) = elements.next().unwrap() {
            out.push(format!("{piece:?}"));
        }
        out
    }

    #[test]
    fn elements_do_not_depend_on_how_the_bytes_arrive() {
        let text = r#" {"a":"]\\\"}"} ,[[1],{}] , 12, "x\"y" , null {} , } : ] {"b":1} [2"#;
        for (until, open) in [(Until::Bracket, 1), (Until::Stream, 1), (Until::Stream, 0)] {
            for limit in 0..20 {
                let wanted = pieces(text, usize::MAX, limit, until, open);
                for step in 1..9 {
                    assert_eq!(
                        pieces(text, step, limit, until, open),
                        wanted,
                        "{until:?} {open} {limit} {step}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_array_that_is_not_closed_ends_in_one_piece_that_says_so() {
        for (text, count, last) in
            [("1, 2", 3, "Cut"), ("1, [2", 2, "ended: false"), ("", 1, "Cut"), ("1]", 1, "ended: true")]
        {
            let found = pieces(text, 2, 99, Until::Stream, 1);
            assert!(found.len() == count && found[count - 1].contains(last), "{text}: {found:?}");
        }
    }
}
