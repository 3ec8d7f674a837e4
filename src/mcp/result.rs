//! Results of calls: what a model can read of them, and their images, with word of what it cannot.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use super::definition::shown;

const UNKNOWN: &str = "[content of a kind that is not known: not shown]";

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    /// As the server sent them, whatever they are.
    pub images: Vec<Vec<u8>>,
    /// The server says that the call failed.
    pub failed: bool,
}

pub(crate) fn answer(result: CallToolResult) -> Answer {
    let mut images = Vec::new();
    let mut parts: Vec<String> =
        result.content.iter().map(|block| part(block, &mut images)).collect();
    if let Some(value) = &result.structured_content {
        // Many servers say the same as text, for those that read nothing else.
        let says_it =
            |text: &String| serde_json::from_str(text).is_ok_and(|said: Value| said == *value);
        if !parts.iter().any(says_it) {
            parts.push(value.to_string());
        }
    }
    if parts.is_empty() {
        parts.push("(no output)".to_owned());
    }
    Answer { text: parts.join("\n"), images, failed: result.is_error == Some(true) }
}

/// A part as text. An image is put aside for those who see.
fn part(block: &ContentBlock, images: &mut Vec<Vec<u8>>) -> String {
    let left_out = |kind: &str, mime: &str, base64: &str| {
        let bytes = base64.len() / 4 * 3;
        format!("[{kind}, {}, about {bytes} bytes: not shown]", word(mime))
    };
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => match STANDARD.decode(&image.data) {
            Ok(bytes) => {
                let told = format!("[image, {}, {} bytes]", word(&image.mime_type), bytes.len());
                images.push(bytes);
                told
            }
            Err(_) => left_out("image", &image.mime_type, &image.data),
        },
        ContentBlock::Audio(audio) => left_out("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[{}]\n{text}", word(uri))
            }
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                left_out("resource", mime_type.as_deref().unwrap_or("unknown type"), blob)
            }
            _ => UNKNOWN.to_owned(),
        },
        ContentBlock::ResourceLink(link) => {
            format!("[resource {}: {}]", word(&link.name), word(&link.uri))
        }
        _ => UNKNOWN.to_owned(),
    }
}

/// A name in one line. It stays whole: a cut before secrets are taken out would leave half of one.
fn word(text: &str) -> String {
    shown(text).replace('\n', " ")
}
