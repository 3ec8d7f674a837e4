//! Content of an answer: whether it is text, and in which letters.

use encoding_rs::{Encoding, UTF_8};

/// So far into a page its own word for its letters is looked for, in bytes.
const PROLOGUE: usize = 1_024;

/// What an answer holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Html(String),
    Text(String),
    Binary,
}

impl Content {
    /// What the bytes are, by what the server says of them and by themselves.
    pub(super) fn of(content_type: Option<&str>, bytes: &[u8]) -> Self {
        let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
        let media = content_type.split(';').next().unwrap_or_default().trim();
        let is_html = matches!(media, "text/html" | "application/xhtml+xml");
        let encoding = parameter(&content_type, "charset")
            .or_else(|| Encoding::for_bom(bytes).map(|(encoding, _)| encoding))
            .or_else(|| is_html.then(|| declared(bytes)).flatten());
        let is_known = is_text(media);
        // Without a word of the server, text is what reads as UTF-8; with one, it still has no zeros.
        if !is_known && (!media.is_empty() || !reads_as_utf8(bytes)) {
            return Self::Binary;
        }
        if bytes.contains(&0) && encoding.is_none_or(|encoding| encoding.is_ascii_compatible()) {
            return Self::Binary;
        }
        let (text, ..) = encoding.unwrap_or(UTF_8).decode(bytes);
        if is_html { Self::Html(text.into_owned()) } else { Self::Text(text.into_owned()) }
    }
}

/// The last letter may have been cut.
fn reads_as_utf8(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
}

fn is_text(media: &str) -> bool {
    let subtype = media.split_once('/').map(|(_, subtype)| subtype).unwrap_or_default();
    let known = [
        "json",
        "xml",
        "javascript",
        "ecmascript",
        "x-javascript",
        "yaml",
        "x-yaml",
        "toml",
        "graphql",
        "sql",
        "x-sh",
        "x-www-form-urlencoded",
        "x-ndjson",
        "jsonlines",
        "manifest",
        "csv",
    ];
    media.starts_with("text/")
        || (media.starts_with("application/") && known.contains(&subtype))
        || ["+json", "+xml", "+yaml", "+text"].iter().any(|end| subtype.ends_with(end))
}

/// The letters that a parameter such as `charset=utf-8` names.
fn parameter(text: &str, name: &str) -> Option<&'static Encoding> {
    let (_, rest) = text.split_once(name)?;
    let value = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = value.find(['"', '\'', ';', ' ', '>', '/']).unwrap_or(value.len());
    Encoding::for_label(&value.as_bytes()[..end])
}

/// The letters that a page says it is written in.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let prologue = &bytes[..bytes.len().min(PROLOGUE)];
    let prologue = String::from_utf8_lossy(prologue).to_ascii_lowercase();
    let metas = prologue.split("<meta").skip(1);
    let found = metas.filter_map(|rest| parameter(rest.split('>').next()?, "charset")).next()?;
    // A page in which this could be read is in none of those.
    Some(if found.is_ascii_compatible() { found } else { UTF_8 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Content {
        Content::Text(text.to_owned())
    }

    /// TO-77
    #[test]
    fn text_is_read_in_the_letters_it_is_written_in() {
        let table: [(Option<&str>, &[u8], Content); 9] = [
            (Some("text/plain; charset=ISO-8859-1"), b"caf\xe9", text("café")),
            (Some("text/plain; charset=\"Shift_JIS\""), b"\x93\xfa\x96{", text("日本")),
            (Some("text/plain"), "é".as_bytes(), text("é")),
            (Some("application/problem+json"), b"{}", text("{}")),
            (Some("text/plain; charset=utf-16le"), b"h\0i\0", text("hi")),
            (None, "é".as_bytes(), text("é")),
            (None, b"cut \xc3", text("cut \u{fffd}")),
            (
                Some("text/html"),
                b"<meta charset=windows-1251>\xcf",
                Content::Html("<meta charset=windows-1251>П".to_owned()),
            ),
            (
                Some("text/html"),
                b"<meta http-equiv=content-type content='text/html; charset=latin1'>\xe9",
                Content::Html(
                    "<meta http-equiv=content-type content='text/html; charset=latin1'>é"
                        .to_owned(),
                ),
            ),
        ];

        for (content_type, bytes, expected) in table {
            assert_eq!(Content::of(content_type, bytes), expected, "{content_type:?}");
        }
    }

    /// TO-77
    #[test]
    fn what_is_no_text_is_binary_whatever_it_is_called() {
        let table: [(Option<&str>, &[u8]); 5] = [
            (Some("image/png"), b"abc"),
            (Some("application/octet-stream"), b"abc"),
            (Some("text/plain"), b"a\0b"),
            (None, b"\xff\xd8"),
            (None, b"a\0"),
        ];

        for (content_type, bytes) in table {
            assert_eq!(Content::of(content_type, bytes), Content::Binary, "{content_type:?}");
        }
    }
}
