//! Framing: the bytes of a client, up to the first frame that breaks the rules.
//!
//! The WebSocket layer above buffers a frame of whatever size it declares before it looks at the
//! size, and reports a broken header again and again without moving on. So headers are read here
//! first, and what may not be never gets there.

use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use actix_web::{
    error::PayloadError,
    web::{Buf, BufMut, Bytes, BytesMut},
};
use futures_util::Stream;

/// The largest frame, also of joined fragments.
pub(super) const LARGEST_FRAME: usize = 1024 * 1024;

/// What a frame did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// It is larger than a frame may be, or says that it will be.
    TooBig,
    /// It is not a frame of a client.
    Protocol(&'static str),
}

/// Why the bytes ended, once they have.
pub(super) type Verdict = Rc<Cell<Option<Violation>>>;

/// Passes whole frames on, and ends at the first that breaks the rules.
pub(super) struct Framed<S> {
    source: S,
    verdict: Verdict,
    /// The header of the next frame, as far as it has come.
    header: BytesMut,
    /// What is still to come of the present frame.
    remaining: usize,
    over: bool,
}

impl<S> Framed<S> {
    pub(super) fn new(source: S, verdict: Verdict) -> Self {
        Self { source, verdict, header: BytesMut::new(), remaining: 0, over: false }
    }

    /// What of these bytes may go on.
    fn pass(&mut self, mut bytes: Bytes) -> Bytes {
        let mut passed = BytesMut::with_capacity(bytes.len());
        while !bytes.is_empty() {
            if self.remaining > 0 {
                let part = bytes.split_to(self.remaining.min(bytes.len()));
                self.remaining -= part.len();
                passed.extend_from_slice(&part);
                continue;
            }
            self.header.put_u8(bytes.get_u8());
            match read(&self.header) {
                Ok(None) => {}
                Ok(Some(size)) => {
                    passed.extend_from_slice(&self.header);
                    self.header.clear();
                    self.remaining = size;
                }
                Err(violation) => {
                    self.verdict.set(Some(violation));
                    self.over = true;
                    break;
                }
            }
        }
        passed.freeze()
    }
}

impl<S> Stream for Framed<S>
where
    S: Stream<Item = Result<Bytes, PayloadError>> + Unpin,
{
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.over {
            match Pin::new(&mut self.source).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(bytes))) => {
                    let passed = self.pass(bytes);
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(passed)));
                    }
                }
                // A connection that broke is over like one that was closed.
                Poll::Ready(Some(Err(_)) | None) => self.over = true,
            }
        }
        Poll::Ready(None)
    }
}

/// The size of the frame behind a header; none as long as the header is not complete.
fn read(header: &[u8]) -> Result<Option<usize>, Violation> {
    let &[first, second, ref more @ ..] = header else {
        return Ok(None);
    };
    if first & 0b0111_0000 != 0 {
        return Err(Violation::Protocol("reserved bits"));
    }
    let opcode = first & 0x0f;
    if !matches!(opcode, 0x0..=0x2 | 0x8..=0xa) {
        return Err(Violation::Protocol("reserved opcode"));
    }
    if second & 0x80 == 0 {
        return Err(Violation::Protocol("unmasked frame"));
    }
    let (size, mask) = match (second & 0x7f, more) {
        (126, [a, b, mask @ ..]) => (u64::from(u16::from_be_bytes([*a, *b])), mask),
        (127, [a, b, c, d, e, f, g, h, mask @ ..]) => {
            let size = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            (size, mask)
        }
        (126 | 127, _) => return Ok(None),
        (size, mask) => (u64::from(size), mask),
    };
    let is_control = opcode >= 0x8;
    if is_control && (first & 0x80 == 0 || size > 125) {
        return Err(Violation::Protocol("control frame in parts or too long"));
    }
    match usize::try_from(size) {
        Ok(size) if size <= LARGEST_FRAME => Ok((mask.len() == 4).then_some(size)),
        _ => Err(Violation::TooBig),
    }
}

#[cfg(test)]
mod tests {

    use futures_util::{StreamExt, stream};

    use super::*;

    /// What gets through, in chunks of this size, and what was wrong with the rest.
    async fn through(bytes: &[u8], chunk: usize) -> (Vec<u8>, Option<Violation>) {
        let verdict = Verdict::default();
        let chunks = bytes.chunks(chunk).map(Bytes::copy_from_slice).map(Ok);
        let chunks = stream::iter(chunks.collect::<Vec<_>>());
        let framed = Framed::new(chunks, verdict.clone());
        let passed: Vec<Bytes> = framed.map(Result::unwrap).collect().await;
        (passed.concat(), verdict.get())
    }

    fn frame(first: u8, size: &[u8], payload: usize) -> Vec<u8> {
        let mut frame = [&[first], size, &[1, 2, 3, 4]].concat();
        frame.extend(vec![b'x'; payload]);
        frame
    }

    #[actix_web::test]
    async fn frames_within_the_rules_pass_unchanged_however_they_are_cut() {
        let bytes = [
            frame(0x81, &[0x80], 0),
            frame(0x01, &[0x85], 5),
            frame(0x80, &[0xfe, 0x01, 0x00], 256),
            frame(0x89, &[0x80 | 125], 125),
            frame(0x82, &[0xff, 0, 0, 0, 0, 0, 0x10, 0, 0], LARGEST_FRAME),
        ]
        .concat();

        for chunk in [1, 3, 7, 4096, bytes.len()] {
            assert!(through(&bytes, chunk).await == (bytes.clone(), None), "{chunk}");
        }
    }

    /// CH-37, CH-66
    #[actix_web::test]
    async fn the_first_frame_that_breaks_the_rules_ends_it() {
        let good = frame(0x81, &[0x82], 2);
        let control = Violation::Protocol("control frame in parts or too long");
        let cases = [
            (vec![0x81, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 1], Violation::TooBig),
            (vec![0x81, 0xff, 255, 255, 255, 255, 255, 255, 255, 255], Violation::TooBig),
            (vec![0x81, 0x02], Violation::Protocol("unmasked frame")),
            (vec![0xc1, 0x82], Violation::Protocol("reserved bits")),
            (vec![0x83, 0x82], Violation::Protocol("reserved opcode")),
            (vec![0x8b, 0x82], Violation::Protocol("reserved opcode")),
            (vec![0x09, 0x82], control),
            (vec![0x89, 0xfe, 0, 126], control),
        ];
        for (header, violation) in cases {
            let bytes = [&good[..], &header, b"what follows"].concat();
            for chunk in [1, bytes.len()] {
                let expected = (good.clone(), Some(violation));
                assert_eq!(through(&bytes, chunk).await, expected, "{header:?}");
            }
        }
    }
}
