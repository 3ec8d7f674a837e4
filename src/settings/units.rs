//! Durations and sizes as settings write them: a whole number and a unit.

use std::time::Duration;

use hivewright_actors::text::{Size, Span};

/// A number of bytes, written with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// Reads `<int><ms|s|m|h|d>`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    text.parse::<Span>().ok().map(|span| span.0)
}

/// Writes a duration in the largest unit that holds it whole.
pub(crate) fn show_duration(duration: Duration) -> String {
    Span(duration).to_string()
}

/// Reads `<int><B|KiB|MiB|GiB>`, in bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    text.parse::<Size>().ok().map(|size| size.0)
}

/// Writes a size in the largest unit that holds it whole.
pub(crate) fn show_size(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// A size for people, in the largest unit that fits.
pub(crate) fn about(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut shown = format!("{bytes} bytes");
    let mut value = bytes as f64;
    for unit in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        shown = format!("{value:.1} {unit}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OR-11
    #[test]
    fn durations_have_a_whole_number_and_a_unit() {
        let read = ["250ms", "10s", "30m", "6h", "2d", "0s"].map(duration);
        let bad = ["", "5", "s", "1.5h", "-1s", "5 m", "5M", "5w", "99999999999999999d"];

        assert_eq!(
            read,
            [250, 10_000, 1_800_000, 21_600_000, 172_800_000, 0]
                .map(|millis| Some(Duration::from_millis(millis)))
        );
        assert_eq!(bad.map(duration), [None; 9]);
    }

    /// OR-11
    #[test]
    fn sizes_have_a_whole_number_and_a_unit() {
        let read = ["7B", "2KiB", "3MiB", "1GiB"].map(size);
        let bad = ["", "1", "1KB", "1MB", "1G", "1.5GiB", "-1B", "99999999999GiB"];

        assert_eq!(read, [7, 2048, 3 << 20, 1 << 30].map(Some));
        assert_eq!(bad.map(size), [None; 8]);
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["250ms", "90s", "30m", "6h", "2d", "0ms"] {
            assert_eq!(duration(text).map(show_duration).as_deref(), Some(text));
        }
        for text in ["7B", "2KiB", "3MiB", "1GiB", "0B"] {
            assert_eq!(size(text).map(show_size).as_deref(), Some(text));
        }
    }
}
