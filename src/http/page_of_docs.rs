//! The description of all routes as a page for people.

use std::fmt::Write;

use serde_json::{Map, Value};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// A page that asks for nothing but the style sheet.
pub(super) fn render(document: &Value) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Hivewright API</title>\
         <link rel=\"stylesheet\" href=\"/ui/docs.css\"></head><body><main>",
    );
    let (title, version) = (text(&document["info"]["title"]), text(&document["info"]["version"]));
    put(&mut page, &format!("<h1>{title} API {version}</h1>"));
    for paragraph in document["info"]["description"].as_str().unwrap_or_default().split("\n\n") {
        put(&mut page, &format!("<p>{}</p>", prose(paragraph)));
    }
    put(&mut page, "<p><a href=\"/api/v1/openapi.json\">The same in OpenAPI 3.1</a></p>");
    let empty = Map::new();
    let paths = document["paths"].as_object().unwrap_or(&empty);
    put(&mut page, "<nav><ul>");
    for (path, item) in paths {
        for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
            let operation = &item[*method];
            let id = text(&operation["operationId"]);
            let summary = prose(operation["summary"].as_str().unwrap_or_default());
            let path = escape(path);
            let method = method.to_uppercase();
            put(
                &mut page,
                &format!("<li><a href=\"#{id}\"><code>{method} {path}</code></a> {summary}</li>"),
            );
        }
    }
    put(&mut page, "</ul></nav>");
    for (path, item) in paths {
        for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
            operation(&mut page, path, method, &item[*method]);
        }
    }
    put(&mut page, "<h2>Types</h2>");
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.unwrap_or(&empty) {
        let name = escape(name);
        put(&mut page, &format!("<section id=\"type-{name}\"><h3>{name}</h3>"));
        if let Some(about) = schema["description"].as_str() {
            put(&mut page, &format!("<p>{}</p>", prose(about)));
        }
        fields(&mut page, schema);
        put(&mut page, "</section>");
    }
    put(&mut page, "</main></body></html>");
    page
}

fn put(page: &mut String, text: &str) {
    page.push_str(text);
    page.push('\n');
}

fn operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let id = text(&operation["operationId"]);
    let summary = prose(operation["summary"].as_str().unwrap_or_default());
    let (method, path) = (method.to_uppercase(), escape(path));
    put(
        page,
        &format!("<section id=\"{id}\"><h2><code>{method} {path}</code></h2><p>{summary}</p>"),
    );
    if let Some(about) = operation["description"].as_str() {
        put(page, &format!("<p>{}</p>", prose(about)));
    }
    let needs = match (operation["x-scope"].as_str(), operation["security"].as_array()) {
        (Some(scope), _) => format!("Needs scope <code>{}</code>.", escape(scope)),
        (None, Some(schemes)) if !schemes.is_empty() => "Needs a login.".to_owned(),
        _ => "Open to all.".to_owned(),
    };
    put(page, &format!("<p>{needs}</p>"));
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters.filter(|parameters| !parameters.is_empty()) {
        put(page, "<h3>Parameters</h3><table><tbody>");
        for parameter in parameters {
            let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
            let about = prose(parameter["description"].as_str().unwrap_or_default());
            let form = form(&parameter["schema"]);
            put(
                page,
                &format!(
                    "<tr><th><code>{name}</code></th><td>{place}</td><td>{form}</td><td>{about}</td></tr>"
                ),
            );
        }
        put(page, "</tbody></table>");
    }
    let body = &operation["requestBody"]["content"]["application/json"];
    if !body.is_null() {
        put(page, &format!("<h3>Body</h3><p>{}</p>", form(&body["schema"])));
        if let Ok(example) = serde_json::to_string_pretty(&body["example"])
            && !body["example"].is_null()
        {
            put(page, &format!("<pre>{}</pre>", escape(&example)));
        }
    }
    put(page, "<h3>Answers</h3><ul>");
    let empty = Map::new();
    for (status, response) in operation["responses"].as_object().unwrap_or(&empty) {
        if response.get("$ref").is_some() {
            continue;
        }
        let content = response["content"].as_object().unwrap_or(&empty);
        let shown: Vec<String> = content.values().map(|content| form(&content["schema"])).collect();
        let status = escape(status);
        let shown = shown.join(", ");
        put(page, &format!("<li><code>{status}</code> {shown}</li>"));
    }
    put(page, "</ul></section>");
}

fn fields(page: &mut String, schema: &Value) {
    for part in schema["allOf"].as_array().into_iter().flatten() {
        match part.get("$ref") {
            Some(_) => put(page, &format!("<p>All of {}, and:</p>", form(part))),
            None => fields(page, part),
        }
    }
    let Some(properties) = schema["properties"].as_object() else {
        if schema.get("allOf").is_none() {
            put(page, &format!("<p>{}</p>", form(schema)));
        }
        return;
    };
    let required = schema["required"].as_array();
    let is_required = |name: &str| {
        let mut names = required.into_iter().flatten();
        names.any(|known| known == name)
    };
    put(page, "<table><tbody>");
    for (name, field) in properties {
        let needed = if is_required(name) { "" } else { "may be left out" };
        let about = prose(field["description"].as_str().unwrap_or_default());
        let (name, form) = (escape(name), form(field));
        put(
            page,
            &format!(
                "<tr><th><code>{name}</code></th><td>{form}</td><td>{needed}</td><td>{about}</td></tr>"
            ),
        );
    }
    put(page, "</tbody></table>");
}

/// What something looks like, in a few words.
fn form(schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let name = escape(target.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#type-{name}\">{name}</a>");
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> =
            words.iter().map(|word| format!("<code>{}</code>", text(word))).collect();
        return words.join(" ");
    }
    if let Some(word) = schema.get("const") {
        return format!("<code>{}</code>", text(word));
    }
    for (key, between) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if let Some(parts) = schema[key].as_array() {
            let parts: Vec<String> = parts.iter().map(form).collect();
            return parts.join(between);
        }
    }
    let named = match &schema["type"] {
        Value::String(name) => escape(name),
        Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    };
    let mut shown = match (&schema["items"], schema["properties"].as_object()) {
        (Value::Null, None) => named,
        (Value::Null, Some(properties)) => {
            let inner: Vec<String> = properties
                .iter()
                .map(|(name, field)| format!("<code>{}</code>: {}", escape(name), form(field)))
                .collect();
            format!("{{ {} }}", inner.join(", "))
        }
        (items, _) => format!("list of {}", form(items)),
    };
    if let (Some(low), Some(high)) = (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
        let _ = write!(shown, " {low}–{high}");
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        let _ = write!(shown, ", at most {most} characters");
    }
    shown
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => escape(text),
        other => escape(&other.to_string()),
    }
}

/// Words between backticks are code; those between double stars are strong.
fn prose(text: &str) -> String {
    let mut shown = String::new();
    for (place, part) in escape(text).split('`').enumerate() {
        match place % 2 {
            1 => {
                let _ = write!(shown, "<code>{part}</code>");
            }
            _ => {
                for (place, part) in part.split("**").enumerate() {
                    match place % 2 {
                        1 => {
                            let _ = write!(shown, "<strong>{part}</strong>");
                        }
                        _ => shown.push_str(part),
                    }
                }
            }
        }
    }
    shown
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// OP-64, OP-07
    #[test]
    fn words_of_the_document_do_not_become_markup() {
        let page = render(&json!({
            "info": {"title": "<script>", "version": "1", "description": "a `b<c` **d**"},
            "paths": {"/x": {"get": {
                "operationId": "get_x", "summary": "\"><img>", "responses": {"200": {}},
            }}},
        }));

        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(page.contains("a <code>b&lt;c</code> <strong>d</strong>"));
        assert!(page.contains("GET /x"));
    }
}
