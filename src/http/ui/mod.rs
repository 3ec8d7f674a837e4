//! The web page, held inside the binary.

use sha2::{Digest, Sha256};

/// A file of the page, as it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// For `Content-Type`.
    pub content_type: &'static str,
    /// The file.
    pub bytes: &'static [u8],
    /// For `ETag`, quotes included: changes with the content.
    pub etag: String,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Every file, by the name it has under `/ui/`.
const FILES: &[(&str, &str, &[u8])] = &[
    ("index.html", HTML, include_bytes!("index.html")),
    ("style.css", CSS, include_bytes!("style.css")),
    ("docs.css", CSS, include_bytes!("docs.css")),
    ("icon.svg", SVG, include_bytes!("icon.svg")),
    ("theme.js", SCRIPT, include_bytes!("theme.js")),
    ("app.js", SCRIPT, include_bytes!("app.js")),
    ("conversation.js", SCRIPT, include_bytes!("conversation.js")),
    ("dom.js", SCRIPT, include_bytes!("dom.js")),
    ("link.js", SCRIPT, include_bytes!("link.js")),
    ("markdown.js", SCRIPT, include_bytes!("markdown.js")),
    ("session.js", SCRIPT, include_bytes!("session.js")),
    ("topics.js", SCRIPT, include_bytes!("topics.js")),
    ("turns.js", SCRIPT, include_bytes!("turns.js")),
];

/// The file at `path`: `/` is the page itself, everything else is under `/ui/`.
pub fn asset(path: &str) -> Option<Asset> {
    let name = match path {
        "/" => "index.html",
        path => path.strip_prefix("/ui/")?,
    };
    let (_, content_type, bytes) = FILES.iter().find(|(file, _, _)| *file == name)?;
    let digest = Sha256::digest(bytes);
    let etag = digest.iter().take(12).map(|byte| format!("{byte:02x}"));
    Some(Asset {
        content_type,
        bytes,
        etag: format!("\"{}\"", etag.collect::<String>()),
    })
}

/// The headers that keep the page to itself; for every answer that carries an [`Asset`].
pub fn security_headers() -> [(&'static str, &'static str); 5] {
    [
        (
            "Content-Security-Policy",
            "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
             object-src 'none'",
        ),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        (
            "Permissions-Policy",
            "camera=(), geolocation=(), microphone=()",
        ),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    fn text(name: &str) -> &'static str {
        std::str::from_utf8(asset(&format!("/ui/{name}")).unwrap().bytes).unwrap()
    }

    fn between<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
        let pieces = text.split(before).skip(1);
        pieces.filter_map(|rest| rest.split(after).next()).collect()
    }

    /// OP-64
    #[test]
    fn the_page_is_small() {
        let compressed: usize = FILES
            .iter()
            .map(|(_, _, bytes)| zstd::bulk::compress(bytes, 3).unwrap().len())
            .sum();

        assert!(compressed <= 400 * 1024, "{compressed} bytes");
    }

    /// OP-64
    #[test]
    fn every_file_the_page_asks_for_is_held_and_no_other() {
        let page = text("index.html");
        let mut asked: BTreeSet<String> = ["src=\"", "href=\""]
            .iter()
            .flat_map(|attribute| between(page, attribute, '"'))
            .filter(|target| !target.starts_with('#'))
            .map(str::to_owned)
            .collect();
        for (name, _, _) in FILES.iter().filter(|(name, _, _)| name.ends_with(".js")) {
            let imports = between(text(name), "from \"./", '"');
            asked.extend(imports.iter().map(|file| format!("/ui/{file}")));
        }
        // The page of the API asks for its style.
        asked.extend(["/ui/index.html", "/ui/docs.css"].map(str::to_owned));

        let held: BTreeSet<String> = FILES
            .iter()
            .map(|(name, _, _)| format!("/ui/{name}"))
            .collect();

        assert_eq!(asked, held);
    }

    /// OP-64: the two addresses of the SVG vocabulary are names, which no browser fetches.
    #[test]
    fn no_file_names_another_host() {
        for (name, _, _) in FILES {
            let text = text(name).replace("http://www.w3.org/2000/svg", "");
            let hosts: Vec<&str> = ["http://", "https://", "ws://", "wss://", "url("]
                .into_iter()
                .filter(|scheme| text.contains(scheme))
                .collect();

            assert_eq!(hosts, Vec::<&str>::new(), "{name}");
        }
    }

    /// OP-64
    #[test]
    fn nothing_is_inline() {
        let page = text("index.html");

        for script in between(page, "<script", '>') {
            assert!(script.contains("src=\"/ui/"), "<script{script}>");
        }
        assert!(!page.contains("<style") && !page.contains("style=\""));
        assert_eq!(
            between(page, " on", '=')
                .iter()
                .filter(|name| name.chars().all(char::is_alphabetic))
                .count(),
            0
        );
    }

    /// OP-65
    #[test]
    fn text_never_becomes_markup() {
        for (name, _, _) in FILES.iter().filter(|(name, _, _)| name.ends_with(".js")) {
            for door in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text(name).contains(door), "{door} in {name}");
            }
        }
    }

    /// OP-64
    #[test]
    fn the_policy_allows_nothing_but_the_page_itself() {
        let policy = security_headers()
            .into_iter()
            .find(|(name, _)| *name == "Content-Security-Policy");

        assert_eq!(
            policy.map(|(_, value)| value.split("; ").collect::<Vec<_>>()),
            Some(vec![
                "default-src 'self'",
                "base-uri 'none'",
                "form-action 'self'",
                "frame-ancestors 'none'",
                "object-src 'none'",
            ]),
        );
    }

    #[test]
    fn a_path_outside_the_page_is_nothing() {
        for path in ["/index.html", "/ui/", "/ui/../mod.rs", "/ui/mod.rs", ""] {
            assert_eq!(asset(path), None, "{path}");
        }
    }

    #[test]
    fn the_tag_changes_with_the_content() {
        let tags: BTreeSet<String> = FILES
            .iter()
            .map(|(name, _, _)| asset(&format!("/ui/{name}")).unwrap().etag)
            .collect();

        assert_eq!(tags.len(), FILES.len());
        assert_eq!(asset("/"), asset("/ui/index.html"));
    }
}
