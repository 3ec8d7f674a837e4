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

/// Counts the bytes of a message: up to the end of its line, or for events of a stream up to an empty line.
#[derive(Debug)]
pub(super) struct Meter {
    faults: Faults,
    /// The longest message.
    largest: usize,
    length: usize,
    /// How many line ends make the end of a message.
    ends: usize,
    /// How many there were just now.
    seen: usize,
}

impl Meter {
    pub(super) fn of_lines(faults: Faults, largest: usize) -> Self {
        Self { faults, largest, length: 0, ends: 1, seen: 0 }
    }

    pub(super) fn of_events(faults: Faults) -> Self {
        Self { faults, largest: LARGEST, length: 0, ends: 2, seen: 0 }
    }

    pub(super) fn of_body(faults: Faults) -> Self {
        Self { faults, largest: LARGEST, length: 0, ends: usize::MAX, seen: 0 }
    }

    /// An error once a message is too large.
    pub(super) fn count(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            self.length += 1;
            match byte {
                b'\n' => {
                    self.seen += 1;
                    if self.seen >= self.ends {
                        self.length = 0;
                        self.seen = 0;
                    }
                }
                b'\r' => {}
                _ => self.seen = 0,
            }
            if self.length > self.largest {
                let reason =
                    format!("it sent a message of more than {}", Size(self.largest as u64));
                self.faults.say(&*reason);
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
        Ok(())
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
