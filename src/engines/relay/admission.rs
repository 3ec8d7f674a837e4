//! Admission: what a request may ask of a provider. Nothing but the tools of the turn acts, and nothing is fetched or
//! read that is not in the request itself.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The types of tools that are run by whoever asks. Those of Anthropic need not say.
const OURS: [&str; 2] = ["function", "custom"];

/// A value in which no field is there twice, so that we and the provider read the same.
#[derive(Debug)]
pub(super) struct Once(pub(super) Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_string<E>(self, value: String) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
                let mut list = Vec::new();
                while let Some(Once(item)) = items.next_element()? {
                    list.push(item);
                }
                Ok(list.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
                let mut fields = Map::new();
                while let Some((name, Once(value))) = entries.next_entry::<String, Once>()? {
                    if fields.contains_key(&name) {
                        return Err(A::Error::custom(format!("duplicate field `{name}`")));
                    }
                    fields.insert(name, value);
                }
                Ok(fields.into())
            }
        }
        deserializer.deserialize_any(Reads).map(Self)
    }
}

/// Refuses a request that wants more of a provider than an answer, in words that name what.
pub(super) fn check(body: &Value) -> Result<(), String> {
    for tool in items(&body["tools"]) {
        check_tool(tool)?;
    }
    // Servers and machines of the provider; what it kept of other requests, which may be those of another team; work
    // that goes on when nobody waits for it.
    for field in [
        "mcp_servers",
        "container",
        "web_search_options",
        "previous_response_id",
        "conversation",
        "prompt",
        "background",
        "store",
    ] {
        if is_set(&body[field]) {
            return Err(format!("`{field}` is not for agents: leave it out"));
        }
    }
    ["system", "messages", "input"].into_iter().try_for_each(|part| check_content(&body[part]))
}

fn check_tool(tool: &Value) -> Result<(), String> {
    match &tool["type"] {
        Value::Null => Ok(()),
        Value::String(kind) if OURS.contains(&kind.as_str()) => Ok(()),
        // A group of them.
        Value::String(kind) if kind == "namespace" => {
            items(&tool["tools"]).try_for_each(check_tool)
        }
        kind => {
            let kind = kind.as_str().unwrap_or("?");
            Err(format!(
                "tools of the type `{kind}` run at the provider: only those of the turn may be used"
            ))
        }
    }
}

/// Refuses what a provider would fetch, or would read from what it keeps.
fn check_content(content: &Value) -> Result<(), String> {
    match content {
        Value::Array(parts) => parts.iter().try_for_each(check_content),
        Value::Object(fields) => {
            let kind = content["type"].as_str().unwrap_or_default();
            for (name, value) in fields {
                let is_elsewhere = match name.as_str() {
                    "file_id" | "file_url" => is_set(value),
                    "image_url" => {
                        let address = value.get("url").unwrap_or(value);
                        address.as_str().is_some_and(|address| !address.starts_with("data:"))
                    }
                    "source" => matches!(value["type"].as_str(), Some("url" | "file")),
                    "type" => kind == "item_reference",
                    _ => false,
                };
                if is_elsewhere {
                    return Err(format!(
                        "`{name}` names something that is not in the request: send it along"
                    ));
                }
                // The arguments of a call are the model's own words.
                if !(name == "input" && kind.ends_with("tool_use")) {
                    check_content(value)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Whether a field says something else than that it is not used.
fn is_set(field: &Value) -> bool {
    match field {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_is_there_twice_is_refused_however_deep() {
        let good = r#"{"a": [1, -2, 0.5, "x", null, true, {"b": {}}]}"#;
        let twice = r#"{"a": [{"type": "text", "type": "image"}]}"#;

        let Once(read) = serde_json::from_str(good).unwrap();
        let error = serde_json::from_str::<Once>(twice).unwrap_err().to_string();

        assert_eq!(read, json!({"a": [1, -2, 0.5, "x", null, true, {"b": {}}]}));
        assert!(error.starts_with("duplicate field `type`"), "{error}");
    }

    /// EN-100: what the real programs send of tools and words passes.
    #[test]
    fn tools_of_the_turn_and_what_is_in_the_request_pass() {
        let picture = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
        let call = json!({"type": "tool_use", "id": "1", "name": "read", "input": {
            "file_id": "a", "source": {"type": "url"}, "image_url": "http://example.com"}});
        for body in [
            json!({"tools": [{"name": "a"}, {"type": "custom", "name": "b"}, {"type": "function"},
                {"type": "namespace", "tools": [{"type": "function"}]}]}),
            json!({"messages": [{"role": "user", "content": [{"type": "image", "source": picture}, call]}]}),
            json!({"input": [{"role": "user", "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]}),
            json!({"messages": [{"content": [{"image_url": {"url": "data:image/png;base64,AAAA"}}]}]}),
            json!({"store": false, "previous_response_id": null, "mcp_servers": [], "background": false}),
        ] {
            assert_eq!(check(&body), Ok(()), "{body}");
        }
    }

    /// EN-100: nothing but our tools acts, and nothing is fetched for an agent.
    #[test]
    fn what_a_provider_would_do_besides_answering_is_refused_by_name() {
        let url = json!({"type": "url", "url": "https://example.com/?q=secret"});
        for (body, named) in [
            (json!({"tools": [{"type": "web_search_20250305"}]}), "web_search_20250305"),
            (json!({"tools": [{"type": "code_execution_20250825"}]}), "code_execution_20250825"),
            (json!({"tools": [{"type": "mcp", "server_url": "https://example.com"}]}), "mcp"),
            (json!({"tools": [{"type": "file_search"}]}), "file_search"),
            (json!({"tools": [{"type": 1}]}), "?"),
            (
                json!({"tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]}),
                "web_search",
            ),
            (json!({"mcp_servers": [{"url": "https://example.com"}]}), "mcp_servers"),
            (json!({"container": {"skills": []}}), "container"),
            (json!({"web_search_options": {}}), "web_search_options"),
            (json!({"previous_response_id": "resp_1"}), "previous_response_id"),
            (json!({"conversation": "conv_1"}), "conversation"),
            (json!({"prompt": {"id": "pmpt_1"}}), "prompt"),
            (json!({"background": true}), "background"),
            (json!({"store": true}), "store"),
            (json!({"messages": [{"content": [{"type": "image", "source": url}]}]}), "source"),
            (
                json!({"messages": [{"content": [{"type": "tool_result", "content": [
                {"type": "document", "source": {"type": "file", "file_id": "f"}}]}]}]}),
                "source",
            ),
            (
                json!({"messages": [{"content": [{"image_url": {"url": "https://example.com"}}]}]}),
                "image_url",
            ),
            (
                json!({"input": [{"content": [{"type": "input_file", "file_url": "https://example.com"}]}]}),
                "file_url",
            ),
            (
                json!({"input": [{"type": "function_call_output", "output": [{"file_id": "f"}]}]}),
                "file_id",
            ),
            (json!({"input": [{"type": "item_reference", "id": "i"}]}), "type"),
        ] {
            let words = check(&body).unwrap_err();
            assert!(words.contains(&format!("`{named}`")), "{words}");
        }
    }
}
