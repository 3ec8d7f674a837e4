//! API documentation: the description of all routes as a page for people.

use std::fmt::Write;

use serde_json::Value;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Adds a line to a page.
macro_rules! put {
    ($page:expr, $($text:tt)+) => {
        {
            let _ = writeln!($page, $($text)+);
        }
    };
}

/// A page that asks for nothing but the style sheet.
pub(in crate::http) fn render(document: &Value) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Hivewright API</title>\
         <link rel=\"stylesheet\" href=\"/ui/docs.css\"></head><body><main>",
    );
    let info = &document["info"];
    put!(page, "<h1>{} API {}</h1>", text(&info["title"]), text(&info["version"]));
    for paragraph in info["description"].as_str().unwrap_or_default().split("\n\n") {
        put!(page, "<p>{}</p>", prose(paragraph));
    }
    put!(page, "<p><a href=\"/api/v1/openapi.json\">The same in OpenAPI 3.1</a></p>");
    let paths = members(&document["paths"]);
    let operations: Vec<_> = paths
        .flat_map(|(path, item)| METHODS.iter().map(move |method| (path, *method, &item[*method])))
        .filter(|(_, _, operation)| !operation.is_null())
        .collect();
    put!(page, "<nav><ul>");
    for (path, method, operation) in &operations {
        let (id, summary) = (text(&operation["operationId"]), words(&operation["summary"]));
        let (method, path) = (method.to_uppercase(), escape(path));
        put!(page, "<li><a href=\"#{id}\"><code>{method} {path}</code></a> {summary}</li>");
    }
    put!(page, "</ul></nav>");
    for (path, method, described) in operations {
        operation(&mut page, path, method, described);
    }
    put!(page, "<h2>Types</h2>");
    for (name, schema) in members(&document["components"]["schemas"]) {
        let name = escape(name);
        put!(page, "<section id=\"type-{name}\"><h3>{name}</h3>");
        if schema["description"].is_string() {
            put!(page, "<p>{}</p>", words(&schema["description"]));
        }
        fields(&mut page, schema);
        put!(page, "</section>");
    }
    put!(page, "</main></body></html>");
    page
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let (id, summary) = (text(&operation["operationId"]), words(&operation["summary"]));
    let (method, path) = (method.to_uppercase(), escape(path));
    put!(page, "<section id=\"{id}\"><h2><code>{method} {path}</code></h2><p>{summary}</p>");
    if operation["description"].is_string() {
        put!(page, "<p>{}</p>", words(&operation["description"]));
    }
    let needs = match (operation["x-scope"].as_str(), operation["security"].as_array()) {
        (Some(scope), _) => format!("Needs scope <code>{}</code>.", escape(scope)),
        (None, Some(schemes)) if !schemes.is_empty() => "Needs a login.".to_owned(),
        _ => "Open to all.".to_owned(),
    };
    put!(page, "<p>{needs}</p>");
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters.filter(|parameters| !parameters.is_empty()) {
        put!(page, "<h3>Parameters</h3><table><tbody>");
        for parameter in parameters {
            let place = text(&parameter["in"]);
            row(page, &text(&parameter["name"]), [&place, &form(&parameter["schema"])], parameter);
        }
        put!(page, "</tbody></table>");
    }
    let body = &operation["requestBody"]["content"]["application/json"];
    if !body.is_null() {
        put!(page, "<h3>Body</h3><p>{}</p>", form(&body["schema"]));
        if !body["example"].is_null() {
            put!(page, "<pre>{}</pre>", escape(&format!("{:#}", body["example"])));
        }
    }
    put!(page, "<h3>Answers</h3><ul>");
    for (status, response) in members(&operation["responses"]) {
        if response.get("$ref").is_none() {
            let content =
                members(&response["content"]).map(|(_, content)| form(&content["schema"]));
            let shown = content.collect::<Vec<_>>().join(", ");
            put!(page, "<li><code>{}</code> {shown}</li>", escape(status));
        }
    }
    put!(page, "</ul></section>");
}

/// A row of a table: a name, two cells, and what the thing is for.
fn row(page: &mut String, name: &str, [first, second]: [&str; 2], thing: &Value) {
    let about = words(&thing["description"]);
    put!(
        page,
        "<tr><th><code>{name}</code></th><td>{first}</td><td>{second}</td><td>{about}</td></tr>"
    );
}

fn fields(page: &mut String, schema: &Value) {
    for part in schema["allOf"].as_array().into_iter().flatten() {
        match part.get("$ref") {
            Some(_) => put!(page, "<p>All of {}, and:</p>", form(part)),
            None => fields(page, part),
        }
    }
    let Some(properties) = schema["properties"].as_object() else {
        if schema.get("allOf").is_none() {
            put!(page, "<p>{}</p>", form(schema));
        }
        return;
    };
    put!(page, "<table><tbody>");
    for (name, field) in properties {
        let mut required = schema["required"].as_array().into_iter().flatten();
        let needed = if required.any(|known| known == name) { "" } else { "may be left out" };
        row(page, &escape(name), [&form(field), needed], field);
    }
    put!(page, "</tbody></table>");
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
        shown += &format!(" {low}–{high}");
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        shown += &format!(", at most {most} characters");
    }
    shown
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => escape(text),
        other => escape(&other.to_string()),
    }
}

/// The prose of a description.
fn words(value: &Value) -> String {
    prose(value.as_str().unwrap_or_default())
}

/// Words between backticks are code; those between double stars are strong.
fn prose(text: &str) -> String {
    let strong =
        |part: &str| marked(part, "**", |part| format!("<strong>{part}</strong>"), str::to_owned);
    marked(&escape(text), "`", |part| format!("<code>{part}</code>"), strong)
}

/// A text whose parts between marks are shown in one way, and the others in another.
fn marked(
    text: &str,
    mark: &str,
    inside: impl Fn(&str) -> String,
    outside: impl Fn(&str) -> String,
) -> String {
    let parts = text.split(mark).enumerate();
    parts.map(|(place, part)| if place % 2 == 1 { inside(part) } else { outside(part) }).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
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
