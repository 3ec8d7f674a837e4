//! Uploads: a file on its way to Discord beside a message, as the form that Discord reads.

use hivewright_actors::{
    excerpt,
    file::{FileRef, harmless_name},
};
use serde_json::{Value, json};

use super::Bot;
use crate::{system::sha256, text::rough_size};

/// What a bot may upload in every server, in bytes.
const LARGEST: u64 = 10 * 1024 * 1024;
/// The longest reason that is told, in characters.
const LONGEST_REASON: usize = 200;

/// What is posted beside the words of a message.
#[derive(Clone)]
pub(super) enum Attached {
    /// A file of the conversation.
    File(FileRef),
    /// A text that would be too many messages.
    Text { name: &'static str, text: String },
}

/// A file that is read.
pub(super) struct Upload {
    name: String,
    mime: String,
    bytes: Vec<u8>,
}

/// The body of a request with a file in it.
pub(super) struct Form {
    pub(super) kind: String,
    pub(super) body: Vec<u8>,
}

impl Attached {
    /// Reads it; the error says why it cannot be posted.
    pub(super) async fn read(&self, bot: &Bot) -> Result<Upload, String> {
        let name = harmless_name(&bot.secrets.everything().scrub_known(self.name()));
        match self {
            Self::Text { text, .. } => {
                let bytes = text.clone().into_bytes();
                Ok(Upload { name, mime: "text/markdown".to_owned(), bytes })
            }
            Self::File(file) if file.size > LARGEST => {
                Err(format!("Discord takes files of up to {}", rough_size(LARGEST)))
            }
            Self::File(file) => {
                let mime = file.mime.clone();
                let bytes = bot.files.bytes(file).await.map_err(|error| {
                    tracing::warn!(file = %file.id, %error, "a file cannot be posted; the channel is told");
                    "what was in it cannot be read".to_owned()
                })?;
                Ok(Upload { name, mime, bytes })
            }
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::File(file) => &file.name,
            Self::Text { name, .. } => name,
        }
    }

    /// What is said in its place.
    pub(super) fn apology(&self, reason: &str) -> String {
        let (name, reason) = (self.name(), excerpt::line(reason, LONGEST_REASON));
        format!(
            "`{name}` cannot be posted here: {reason}. It is in the conversation on the web page."
        )
    }
}

impl Upload {
    /// The form of a message with this file.
    pub(super) fn form(self, mut message: Value) -> Form {
        let Self { name, mime, bytes } = self;
        message["attachments"] = json!([{ "id": 0, "filename": name }]);
        // Not in the file, unless the file holds its own digest twice over.
        let boundary = sha256(sha256(&bytes).as_bytes());
        let mut body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"payload_json\"\r\n\
             Content-Type: application/json\r\n\r\n{message}\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"{name}\"\r\n\
             Content-Type: {mime}\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(&bytes);
        body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        Form { kind: format!("multipart/form-data; boundary={boundary}"), body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_holds_the_message_and_the_file_as_it_is() {
        let bytes = b"a\r\n--b\0".to_vec();
        let upload = Upload { name: "a (1).bin".to_owned(), mime: "image/png".to_owned(), bytes };

        let Form { kind, body } = upload.form(json!({ "content": "" }));

        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let body = String::from_utf8(body).unwrap();
        let parts: Vec<_> = body.split(&format!("--{boundary}")).collect();
        assert_eq!((parts.len(), parts[0], parts[3]), (4, "", "--\r\n"));
        assert!(parts[1].ends_with(
            "\r\n\r\n{\"attachments\":[{\"filename\":\"a (1).bin\",\"id\":0}],\"content\":\"\"}\r\n"
        ));
        assert!(
            parts[2]
                .contains("name=\"files[0]\"; filename=\"a (1).bin\"\r\nContent-Type: image/png")
        );
        assert!(parts[2].ends_with("\r\n\r\na\r\n--b\0\r\n"));
    }
}
