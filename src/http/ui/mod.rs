//! The web page, held inside the binary.
//!
//! The page asks for its files under `/ui/v-<version>/`, which is another path after each change. So a
//! browser keeps them for good, and a second visit asks for the page alone.

use std::{
    io::{Read, Write},
    sync::OnceLock,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use sha2::{Digest, Sha256};

/// A file of the page, compressed by the build. What is derived from it is made when it is first asked for, and kept.
#[derive(Debug)]
pub struct Asset {
    /// Below `/ui/`.
    name: &'static str,
    packed: &'static [u8],
    source: OnceLock<Vec<u8>>,
    tag: OnceLock<String>,
}

impl Asset {
    const fn new(name: &'static str, packed: &'static [u8]) -> Self {
        Self { name, packed, source: OnceLock::new(), tag: OnceLock::new() }
    }

    /// For `Content-Type`.
    pub fn content_type(&self) -> &'static str {
        match self.name.rsplit_once('.') {
            Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            Some((_, "png")) => "image/png",
            Some((_, "webmanifest")) => "application/manifest+json",
            _ => "text/javascript; charset=utf-8",
        }
    }

    /// The file as it was written.
    fn source(&self) -> &[u8] {
        self.source.get_or_init(|| {
            let mut source = Vec::new();
            // The build packed it.
            let _ = GzDecoder::new(self.packed).read_to_end(&mut source);
            source
        })
    }

    /// The file. The page names its own files by their version.
    pub fn bytes(&self) -> &[u8] {
        static PAGE: OnceLock<Vec<u8>> = OnceLock::new();
        match self.name {
            "index.html" => PAGE.get_or_init(|| {
                let page = String::from_utf8_lossy(self.source());
                page.replace("\"/ui/", &format!("\"/ui/{}/", version())).into_bytes()
            }),
            _ => self.source(),
        }
    }

    /// Changes with the content; for `ETag`, within quotes.
    pub fn tag(&self) -> &str {
        self.tag.get_or_init(|| digits(Sha256::new_with_prefix(self.packed())))
    }

    /// The file, compressed.
    pub fn packed(&self) -> &[u8] {
        static PAGE: OnceLock<Vec<u8>> = OnceLock::new();
        match self.name {
            "index.html" => PAGE.get_or_init(|| pack(self.bytes())),
            _ => self.packed,
        }
    }
}

/// Bytes, compressed.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    // Memory takes whatever is written to it.
    written.unwrap_or_default()
}

// Every file, by the name that it has under `/ui/`: the build lists what is in this folder as `FILES`.
include!(concat!(env!("OUT_DIR"), "/ui.rs"));

/// The file at `path`: `/` is the page itself, everything else is under `/ui/`.
///
/// A page that was loaded before an update names its version. It gets nothing, since files of two versions do not fit
/// together, and takes that as the sign to load anew.
pub fn asset(path: &str) -> Option<&'static Asset> {
    let name = match path {
        "/" => "index.html",
        path => path.strip_prefix("/ui/")?,
    };
    let name = match name.split_once('/') {
        Some((first, name)) if first == version() => name,
        _ => name,
    };
    FILES.iter().find(|file| file.name == name)
}

/// What is at `path` never changes: it names this very version.
pub fn is_lasting(path: &str) -> bool {
    let rest = path.strip_prefix("/ui/");
    let rest = rest.and_then(|rest| rest.strip_prefix(version()));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// A name for all files together as they are in this binary.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let mut all = Sha256::new();
        FILES.iter().for_each(|file| all.update(file.packed));
        format!("v-{}", digits(all))
    })
}

fn digits(hash: Sha256) -> String {
    let digest = hash.finalize();
    let digits = digest.iter().take(12).map(|byte| format!("{byte:02x}"));
    digits.collect()
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
        ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
    ]
}

#[cfg(test)]
mod tests {

    use std::collections::BTreeSet;

    use super::*;

    fn text(name: &str) -> &'static str {
        std::str::from_utf8(asset(&format!("/ui/{name}")).unwrap().source()).unwrap()
    }

    /// All files but pictures.
    fn texts() -> impl Iterator<Item = &'static str> {
        FILES.iter().filter(|file| file.content_type() != "image/png").map(|file| file.name)
    }

    fn between<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
        let pieces = text.split(before).skip(1);
        pieces.filter_map(|rest| rest.split(after).next()).collect()
    }

    /// What `path`, written in the file `name`, stands for.
    fn resolved(name: &str, path: &str) -> String {
        let mut place: Vec<&str> = name.split('/').collect();
        place.pop();
        for part in path.split('/') {
            match part {
                "." => {}
                ".." => drop(place.pop()),
                part => place.push(part),
            }
        }
        place.join("/")
    }

    /// OP-64: all of it, though no visit loads all.
    #[test]
    fn the_page_is_small() {
        let compressed: usize = FILES.iter().map(|file| file.packed().len()).sum();

        assert!(compressed <= 300 * 1000, "{compressed} bytes");
    }

    #[test]
    fn a_packed_file_is_the_file() {
        for file in &FILES {
            let mut whole = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(file.packed());
            std::io::Read::read_to_end(&mut decoder, &mut whole).unwrap();

            assert!(whole == file.bytes(), "{}", file.name);
        }
    }

    /// OP-64
    #[test]
    fn every_file_the_page_asks_for_is_held_and_no_other() {
        let page = text("index.html");
        let own = |target: &str| target.strip_prefix("/ui/").map(str::to_owned);
        let mut asked: BTreeSet<String> = ["src=\"", "href=\""]
            .iter()
            .flat_map(|attribute| between(page, attribute, '"'))
            .filter_map(|target| own(target.split('#').next()?))
            .collect();
        for name in texts() {
            let source = text(name);
            for import in ["from \"", "import \"", "load(\"", "new URL(\"", "url(\""] {
                let paths = between(source, import, '"').into_iter();
                let paths = paths.filter(|path| path.starts_with('.'));
                asked.extend(paths.map(|path| resolved(name, path)));
            }
        }
        // The page of the API asks for its style.
        asked.extend(["index.html", "docs.css"].map(str::to_owned));

        let held: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();

        assert_eq!(asked, held);
    }

    /// OP-64: the addresses of the vocabularies of SVG and MathML are names, which no browser fetches.
    #[test]
    fn no_file_names_another_host() {
        for name in texts() {
            let text =
                text(name).replace("http://www.w3.org/2000/svg", "").replace("url(\"../", "");
            let text = text.replace("http://www.w3.org/1998/Math/MathML", "");
            // A link that a person follows.
            let text = text.replace("https://discord.com/developers/applications", "");
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
        for Asset { name, .. } in FILES.iter().filter(|file| file.name.ends_with(".js")) {
            for door in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!text(name).contains(door), "{door} in {name}");
            }
        }
    }

    /// OP-64
    #[test]
    fn the_policy_allows_nothing_but_the_page_itself() {
        let policy =
            security_headers().into_iter().find(|(name, _)| *name == "Content-Security-Policy");

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
        for path in
            ["/index.html", "/ui/", "/ui/../mod.rs", "/ui/mod.rs", "/ui/v-1", "/ui/v-1/app.js", ""]
        {
            assert!(asset(path).is_none(), "{path}");
        }
    }

    /// OP-64: what a browser may keep for good is what can never change.
    #[test]
    fn only_files_of_this_version_last() {
        let page = String::from_utf8(asset("/").unwrap().bytes().to_vec()).unwrap();
        let own = format!("/ui/{}/", version());

        assert!(between(&page, "\"/ui/", '"').len() > 9);
        assert_eq!(page.matches("\"/ui/").count(), page.matches(&format!("\"{own}")).count());
        assert!(is_lasting(&format!("{own}app.js")));
        assert!(asset(&format!("{own}app.js")).is_some());
        for path in ["/", "/ui/app.js", "/ui/v-1/app.js", "/ui/"] {
            assert!(!is_lasting(path), "{path}");
        }
    }

    #[test]
    fn the_tag_changes_with_the_content() {
        let tags: BTreeSet<&str> = FILES.iter().map(Asset::tag).collect();

        assert_eq!(tags.len(), FILES.len());
        assert_eq!(asset("/").unwrap().name, "index.html");
    }
}
