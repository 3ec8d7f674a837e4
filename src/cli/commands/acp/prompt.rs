//! Prompts: what an editor sends, as the words of a message.

use agent_client_protocol_schema::{ContentBlock, EmbeddedResourceResource, Error};
use serde_json::json;

/// The words of a prompt: text, links, and files that are a part of it.
pub(super) fn words(blocks: Vec<ContentBlock>) -> Result<String, Error> {
    let only_text =
        || Error::invalid_params().data(json!("a team is told text, links and text files"));
    let mut words = String::new();
    for block in blocks {
        match block {
            ContentBlock::Text(text) => words.push_str(&text.text),
            ContentBlock::ResourceLink(link) => {
                words.push_str(&format!("[{}]({})", link.name, link.uri));
            }
            ContentBlock::Resource(resource) => {
                let EmbeddedResourceResource::TextResourceContents(file) = resource.resource else {
                    return Err(only_text());
                };
                words.push_str(&format!("\n\n{}:\n```\n{}\n```\n", file.uri, file.text));
            }
            _ => return Err(only_text()),
        }
    }
    if words.trim().is_empty() {
        return Err(Error::invalid_params().data(json!("there is nothing to say")));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(blocks: Value) -> Result<String, Error> {
        words(serde_json::from_value(blocks).unwrap())
    }

    #[test]
    fn a_prompt_is_text_with_links_and_files() {
        let file = json!({"uri": "file:///a.rs", "text": "fn a() {}"});

        let words = read(json!([
            {"type": "text", "text": "Explain "},
            {"type": "resource_link", "name": "b.rs", "uri": "file:///b.rs"},
            {"type": "resource", "resource": file},
        ]));

        let expected = "Explain [b.rs](file:///b.rs)\n\nfile:///a.rs:\n```\nfn a() {}\n```\n";
        assert_eq!(words, Ok(expected.to_owned()));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let image = json!([{"type": "image", "data": "", "mimeType": "image/png"}]);
        let blob = json!([{"type": "resource", "resource": {"uri": "a", "blob": ""}}]);
        let nothing = json!([{"type": "text", "text": " "}]);

        for prompt in [image, blob, nothing, json!([])] {
            assert!(read(prompt.clone()).is_err(), "{prompt}");
        }
    }
}
