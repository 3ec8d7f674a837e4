//! The body of an answer: unpacked as it comes, and no more of it than is wanted.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use reqwest::header::CONTENT_ENCODING;

use super::{EgressError, request::cause};

/// What came of a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Body {
    pub bytes: Vec<u8>,
    /// There is more than was wanted.
    pub truncated: bool,
    /// It is packed in a way that nobody asked for.
    pub packed: bool,
}

/// Takes no more than it has room for.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
    full: bool,
}

impl Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = self.most - self.bytes.len();
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            self.full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How the pieces are unpacked.
enum Unpacking {
    Plain(Bounded),
    Gzip(Box<MultiGzDecoder<Bounded>>),
}

impl Unpacking {
    fn sink(&self) -> &Bounded {
        match self {
            Self::Plain(sink) => sink,
            Self::Gzip(decoder) => decoder.get_ref(),
        }
    }

    fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(sink) => sink.write_all(piece),
            Self::Gzip(decoder) => decoder.write_all(piece),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(sink) => Ok(sink.bytes),
            Self::Gzip(mut decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(&mut decoder.get_mut().bytes))
            }
        }
    }
}

/// Reads a body until there is more than `most` bytes of it, unpacked. What is behind is not waited for.
pub async fn read(response: &mut reqwest::Response, most: usize) -> Result<Body, EgressError> {
    let sink = Bounded { bytes: Vec::new(), most, full: false };
    let encoding = response.headers().get(CONTENT_ENCODING);
    let encoding = encoding.map(|encoding| encoding.as_bytes().to_ascii_lowercase());
    let (mut unpacking, packed) = match encoding.as_deref() {
        None | Some(b"" | b"identity") => (Unpacking::Plain(sink), false),
        Some(b"gzip" | b"x-gzip") => (Unpacking::Gzip(Box::new(MultiGzDecoder::new(sink))), false),
        Some(_) => (Unpacking::Plain(sink), true),
    };
    let mut received = 0;
    let broken = |received, why: String| EgressError::BrokenOff(received, why);
    loop {
        let piece = response.chunk().await;
        let piece = piece.map_err(|error| broken(received, cause(&error)))?;
        let Some(piece) = piece else { break };
        received += piece.len() as u64;
        if let Err(error) = unpacking.push(&piece) {
            if unpacking.sink().full {
                let bytes = unpacking.sink().bytes.clone();
                return Ok(Body { bytes, truncated: true, packed });
            }
            return Err(broken(received, error.to_string()));
        }
    }
    // Headers also describe a body that does not come, such as that of `HEAD`.
    if received == 0 {
        return Ok(Body { packed, ..Body::default() });
    }
    match unpacking.finish() {
        Ok(bytes) => Ok(Body { bytes, truncated: false, packed }),
        Err(error) => Err(broken(received, error.to_string())),
    }
}
