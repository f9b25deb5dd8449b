//! The elements of an array, and values that stand one after the other.

use std::io::{self, Read};

use super::{Extent, Piece, Window};

/// The elements of an array, or the values of a stream of values.
#[derive(Debug)]
pub struct Elements<R> {
    window: Window<R>,
    limit: usize,
    until: Until,
}

/// What ends the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The `]` of an array inside a document.
    Bracket,
    /// The `]` of an array that is the document, and then the end of the stream: what follows is read as values.
    BracketThenStream,
    /// The end of the stream: there is no array.
    Stream,
}

enum Next {
    Element,
    End,
    Cut,
}

impl<R: Read> Elements<R> {
    /// The elements from the window's position on: inside an array, or between values.
    pub(crate) fn new(window: Window<R>, limit: usize, until: Until) -> Self {
        Self { window, limit, until }
    }

    /// The next element.
    ///
    /// # Errors
    /// The reader's.
    #[expect(clippy::should_implement_trait, reason = "a piece borrows from the stream")]
    pub fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        match self.advance()? {
            Next::End => return Ok(None),
            Next::Cut => return Ok(Some(self.cut())),
            Next::Element => {}
        }
        let offset = self.window.offset();
        let (length, ended) = match self.window.value(self.limit)? {
            Extent::Passed => return Ok(Some(Piece::TooLong { offset })),
            // A stray bracket or comma is an element of its own, so that the reader always moves on.
            Extent::Kept(length) => (length.max(1), true),
            Extent::Torn(length) => {
                self.until = Until::Stream;
                (length, false)
            }
        };
        Ok(Some(Piece::Text { offset, bytes: self.window.take(length, length), ended }))
    }

    /// Moves to what comes next.
    fn advance(&mut self) -> io::Result<Next> {
        loop {
            match (self.window.peek()?, self.until) {
                (None, Until::Stream) | (Some(b']'), Until::Bracket) => return Ok(Next::End),
                (None, _) => return Ok(Next::Cut),
                (Some(b']'), Until::BracketThenStream) => {
                    self.window.consume(1);
                    self.until = Until::Stream;
                }
                (Some(b','), Until::Bracket | Until::BracketThenStream) => self.window.consume(1),
                (Some(_), _) => return Ok(Next::Element),
            }
        }
    }

    fn cut(&mut self) -> Piece<'static> {
        self.until = Until::Stream;
        Piece::Cut { offset: self.window.offset() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives at most so many bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let step = self.1.min(out.len());
            self.0.read(&mut out[..step])
        }
    }

    fn pieces(text: &str, step: usize, limit: usize, until: Until) -> Vec<String> {
        let mut elements = Elements::new(Window::new(Trickle(text.as_bytes(), step), 0), limit, until);
        let mut out = Vec::new();
        while let Some(piece) = elements.next().unwrap() {
            out.push(format!("{piece:?}"));
        }
        out
    }

    #[test]
    fn elements_do_not_depend_on_how_the_bytes_arrive() {
        let text = r#" {"a":"]\\\"}"} ,[[1],{}] , 12, "x\"y" , null {} , } : ] {"b":1} [2"#;
        for until in [Until::Bracket, Until::BracketThenStream, Until::Stream] {
            for limit in 0..20 {
                let wanted = pieces(text, usize::MAX, limit, until);
                for step in 1..9 {
                    assert_eq!(pieces(text, step, limit, until), wanted, "{until:?} {limit} {step}");
                }
            }
        }
    }

    #[test]
    fn an_array_that_is_not_closed_ends_in_one_piece_that_says_so() {
        for (text, count, last) in
            [("1, 2", 3, "Cut"), ("1, [2", 2, "ended: false"), ("", 1, "Cut"), ("1]", 1, "ended: true")]
        {
            let found = pieces(text, 2, 99, Until::BracketThenStream);
            assert!(found.len() == count && found[count - 1].contains(last), "{text}: {found:?}");
        }
    }
}
