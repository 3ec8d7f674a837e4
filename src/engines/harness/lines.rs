//! Lines of a process: JSON, one object each, of a bounded length.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// A longer line is passed over.
pub const LONGEST: usize = 8 << 20;

/// What a process printed.
#[derive(Debug, PartialEq)]
pub enum Line {
    Json(Value),
    /// Something else, shortened.
    Other(String),
    TooLong,
}

/// Reads lines. Nothing that was read is lost when a read is given up.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    begun: Vec<u8>,
    is_too_long: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, begun: Vec::new(), is_too_long: false }
    }

    /// The next line that is not empty; none at the end.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let found = self.reader.fill_buf().await?;
            if found.is_empty() {
                return Ok(self.take());
            }
            let end = found.iter().position(|byte| *byte == b'\n');
            let piece = &found[..end.unwrap_or(found.len())];
            if self.begun.len() + piece.len() > LONGEST {
                self.is_too_long = true;
                self.begun.clear();
            } else if !self.is_too_long {
                self.begun.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some()
                && let Some(line) = self.take()
            {
                return Ok(Some(line));
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        if std::mem::take(&mut self.is_too_long) {
            return Some(Line::TooLong);
        }
        let bytes = std::mem::take(&mut self.begun);
        if bytes.trim_ascii().is_empty() {
            return None;
        }
        Some(serde_json::from_slice(&bytes).map_or_else(
            |_| Line::Other(String::from_utf8_lossy(&bytes).chars().take(200).collect()),
            Line::Json,
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::BufReader;

    use super::*;

    async fn all(text: &[u8], buffer: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, text));
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        found
    }

    /// EN-62: lines end at LF alone, whatever the pieces they come in; what is no JSON is told of.
    #[actix::test]
    async fn lines_are_split_at_line_feeds_alone() {
        let text = "{\"a\":\"x\u{2028}y\"}\n\nwarning: \u{2029}\r\n{\"b\":1}";
        for buffer in [1, 3, 1 << 16] {
            let found = all(text.as_bytes(), buffer).await;

            let other = Line::Other("warning: \u{2029}\r".to_owned());
            let expected =
                [Line::Json(json!({"a": "x\u{2028}y"})), other, Line::Json(json!({"b": 1}))];
            assert_eq!(found, expected);
        }
    }

    /// EN-62
    #[actix::test]
    async fn a_line_that_is_too_long_is_passed_over() {
        let text = [vec![b'x'; LONGEST + 1], b"\n{\"b\":1}\n".to_vec()].concat();

        let found = all(&text, 1 << 16).await;

        assert_eq!(found, [Line::TooLong, Line::Json(json!({"b": 1}))]);
    }
}
