//! Bounded reading: a stream whose messages may not be longer than a message is.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hivewright_actors::text::Size;
use tokio::io::{AsyncRead, ReadBuf};

use super::fault::Faults;

/// The largest message of a server, in bytes.
pub(super) const LARGEST: usize = 4 << 20;
/// The most values in a message: small ones take many times their bytes once they are read.
const MOST_VALUES: usize = 200_000;

/// Counts the bytes and values of a message: up to the end of its line, or for events of a stream up to an empty line.
#[derive(Debug)]
pub(super) struct Meter {
    faults: Faults,
    /// The longest message.
    largest: usize,
    length: usize,
    values: usize,
    quote: Quote,
    /// How many line ends make the end of a message.
    ends: usize,
    /// How many there were just now.
    seen: usize,
}

/// Whether a byte stands in a string of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

impl Meter {
    fn new(faults: Faults, largest: usize, ends: usize) -> Self {
        Self { faults, largest, length: 0, values: 0, quote: Quote::Outside, ends, seen: 0 }
    }

    pub(super) fn of_lines(faults: Faults, largest: usize) -> Self {
        Self::new(faults, largest, 1)
    }

    pub(super) fn of_events(faults: Faults) -> Self {
        Self::new(faults, LARGEST, 2)
    }

    pub(super) fn of_body(faults: Faults) -> Self {
        Self::new(faults, LARGEST, usize::MAX)
    }

    /// An error once a message is too large.
    pub(super) fn count(&mut self, bytes: &[u8]) -> io::Result<()> {
        for &byte in bytes {
            self.length += 1;
            self.count_value(byte);
            match byte {
                b'\n' => {
                    self.seen += 1;
                    if self.seen >= self.ends {
                        (self.length, self.values, self.seen) = (0, 0, 0);
                    }
                }
                b'\r' => {}
                _ => self.seen = 0,
            }
            if self.length > self.largest {
                return self.refuse(Size(self.largest as u64).to_string());
            }
            if self.values > MOST_VALUES {
                return self.refuse(format!("{MOST_VALUES} values"));
            }
        }
        Ok(())
    }

    /// A value of JSON begins behind each of these. A string ends at the latest with its line.
    fn count_value(&mut self, byte: u8) {
        self.quote = match (self.quote, byte) {
            (_, b'\n') | (Quote::Inside, b'"') => Quote::Outside,
            (Quote::Inside, b'\\') => Quote::Escaped,
            (Quote::Inside | Quote::Escaped, _) | (Quote::Outside, b'"') => Quote::Inside,
            (Quote::Outside, _) => Quote::Outside,
        };
        if self.quote == Quote::Outside && matches!(byte, b',' | b'[' | b'{') {
            self.values += 1;
        }
    }

    fn refuse(&self, bound: String) -> io::Result<()> {
        let reason = format!("it sent a message of more than {bound}");
        self.faults.say(&*reason);
        Err(io::Error::new(io::ErrorKind::InvalidData, reason))
    }
}

/// The output of a program.
pub(crate) struct Bounded<R> {
    inner: R,
    meter: Meter,
}

impl<R> Bounded<R> {
    pub(crate) fn new(inner: R, faults: Faults, largest: usize) -> Self {
        Self { inner, meter: Meter::of_lines(faults, largest) }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = read {
            return Poll::Ready(self.meter.count(&buffer.filled()[before..]));
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(meter: &mut Meter, message: &str) -> Option<String> {
        meter.count(message.as_bytes()).err().map(|error| error.to_string())
    }

    /// A message may hold as many bytes as it wants of text, and not as many values.
    #[test]
    fn many_small_values_are_too_much_and_commas_in_words_are_none() {
        let words = format!("[\"{}\"]\n", "\\\",[{".repeat(MOST_VALUES));
        let values = format!("[0{}]\n", ",0".repeat(MOST_VALUES - 1));
        let mut meter = Meter::of_lines(Faults::default(), LARGEST);

        assert_eq!(refused(&mut meter, &words), None);
        // Each message is counted by itself.
        assert_eq!(refused(&mut meter, &values), None);
        assert_eq!(refused(&mut meter, &values), None);
        let more = values.replacen('0', "0,0", 1);
        let told = "it sent a message of more than 200000 values";
        assert_eq!(refused(&mut meter, &more).as_deref(), Some(told));
    }

    /// A quote that a stream has outside its data hides nothing.
    #[test]
    fn a_quote_on_another_line_of_an_event_hides_no_values() {
        let mut meter = Meter::of_events(Faults::default());

        let event = format!(": \"\ndata: [0{}]\n\n", ",0".repeat(MOST_VALUES));

        assert!(refused(&mut meter, &event).is_some());
    }
}
