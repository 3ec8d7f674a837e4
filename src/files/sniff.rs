//! Types of files, by their first bytes: what a sender says about a file is not asked.

/// So many first bytes tell what a file is.
pub const HEAD: usize = 4096;

/// What is not known better.
pub const BINARY: &str = "application/octet-stream";
const TEXT: &str = "text/plain";

/// What a file is that begins so. Markup that a browser could run is plain text.
pub fn mime(head: &[u8]) -> &'static str {
    const KINDS: &[(&[u8], &str)] = &[
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b", "application/gzip"),
    ];
    let known = KINDS.iter().find(|(magic, _)| head.starts_with(magic));
    match known {
        Some((_, kind)) => kind,
        None if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") => "image/webp",
        None if is_text(head) => TEXT,
        None => BINARY,
    }
}

/// The type that a browser is told: pixels and plain words, and nothing else by its name.
pub fn served(mime: &str) -> &str {
    match mime {
        TEXT => "text/plain; charset=utf-8",
        mime if hivewright_actors::file::is_picture(mime) => mime,
        _ => BINARY,
    }
}

fn is_text(head: &[u8]) -> bool {
    let whole = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A letter may be cut in two.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !whole.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SC-66: whatever it is called, a file is what its bytes say.
    #[test]
    fn only_pictures_of_pixels_are_shown_as_what_they_are() {
        let cases: &[(&[u8], &str, &str)] = &[
            (b"\x89PNG\r\n\x1a\n....", "image/png", "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg", "image/jpeg"),
            (b"GIF89a", "image/gif", "image/gif"),
            (b"RIFF\x01\0\0\0WEBPVP8 ", "image/webp", "image/webp"),
            (b"<svg onload=alert(1)>", "text/plain", "text/plain; charset=utf-8"),
            (b"<html><script>", "text/plain", "text/plain; charset=utf-8"),
            (b"%PDF-1.7", "application/pdf", BINARY),
            (b"\x7fELF\x02", BINARY, BINARY),
            ("é".as_bytes(), "text/plain", "text/plain; charset=utf-8"),
            (&"é".as_bytes()[..1], "text/plain", "text/plain; charset=utf-8"),
            (b"a\0b", BINARY, BINARY),
            (b"", "text/plain", "text/plain; charset=utf-8"),
        ];

        for (head, is, shown) in cases {
            assert_eq!((mime(head), served(mime(head))), (*is, *shown), "{head:?}");
        }
    }
}
