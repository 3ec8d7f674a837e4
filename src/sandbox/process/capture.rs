//! Keeping the end of a stream that may never end.

use tokio::io::{AsyncRead, AsyncReadExt};

/// The last bytes of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    pub bytes: Vec<u8>,
    /// How many bytes before it were not.
    pub dropped: u64,
}

/// Reads to the end and keeps the last `limit` bytes in `kept`, which may be read after an interruption.
pub(super) async fn capture(mut stream: impl AsyncRead + Unpin, limit: usize, kept: &mut Captured) {
    let mut chunk = vec![0; 64 * 1024];
    // A stream that fails has ended: what came before counts.
    while let Ok(length @ 1..) = stream.read(&mut chunk).await {
        kept.bytes.extend_from_slice(&chunk[..length]);
        // Cut at twice the limit, so that each byte is moved once and not with every chunk.
        if kept.bytes.len() > limit * 2 {
            kept.cut(limit);
        }
    }
    kept.cut(limit);
}

impl Captured {
    /// Lets go of so many more bytes at the front.
    pub fn drop_front(&mut self, length: usize) {
        self.cut(self.bytes.len().saturating_sub(length));
    }

    fn cut(&mut self, limit: usize) {
        let excess = self.bytes.len().saturating_sub(limit);
        self.bytes.drain(..excess);
        self.dropped += excess as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TO-63, SC-77
    #[tokio::test]
    async fn the_last_bytes_of_a_long_stream_are_kept() {
        let stream: Vec<u8> = (0..1_000_003u32).map(|n| (n % 251) as u8).collect();
        let mut kept = Captured::default();

        capture(stream.as_slice(), 1000, &mut kept).await;

        let expected = Captured { bytes: stream[stream.len() - 1000..].to_vec(), dropped: 999_003 };
        assert_eq!(kept, expected);
    }
}
