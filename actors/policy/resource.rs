//! What a rule is about: a tool, a class, files, commands, hosts or an MCP server.

use std::{fmt, str::FromStr};

use super::{class, command};
use crate::{
    text::Text,
    wildcard::{fits, fits_host},
    words,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Tools by key, with wildcards.
    Tool(String),
    /// Tools of a class, with wildcards.
    Class(String),
    /// Files below a folder: relative to the workspace, or absolute.
    File(String),
    /// Shell commands: `*` stands for one word.
    Exec(Vec<String>),
    /// A host, or with `*.` all hosts below a domain.
    Host(String),
    /// All tools of an MCP server.
    Mcp(String),
}

words! {
    /// What is done with a file.
    #[derive(Default)]
    #[schemars(rename = "RuleMode")]
    pub enum Mode {
        /// Looked at.
        Read = "r",
        /// Changed.
        Write = "w",
        /// Either.
        #[default]
        Both = "rw",
    }
}

impl Mode {
    fn includes(self, other: Self) -> bool {
        self == Self::Both || other == Self::Both || self == other
    }
}

/// Something that a call reaches for, beyond the tool itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A file or folder.
    File {
        /// Its absolute path, without `.` and `..`.
        path: String,
        /// The same from the workspace, if it lies in there.
        inside: Option<String>,
        mode: Mode,
        /// With all that is below it.
        deep: bool,
    },
    /// A shell command.
    Command(String),
    /// A host on the network, in lower case.
    Host(String),
}

crate::text!(Resource);

impl Text for Resource {
    const FORMAT: &'static str = "resource";
    const PATTERN: &'static str = "^(tool|class|file|exec|host|mcp):";
    const EXAMPLES: &'static [&'static str] = &["tool:bash", "exec:git push", "file:docs"];
}

impl FromStr for Resource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once(':').ok_or_else(|| {
            "expected `tool:`, `class:`, `file:`, `exec:`, `host:` or `mcp:` and a name".to_owned()
        })?;
        let name = name.trim();
        if name.is_empty() && kind != "file" {
            return Err(format!("`{kind}:` needs a name behind it"));
        }
        match kind {
            "tool" => wild(name, "_.-").map(|()| Self::Tool(name.to_owned())),
            "class" => class::check(name).map(|()| Self::Class(name.to_owned())),
            "file" => folder(name).map(Self::File),
            "exec" => pattern(name).map(Self::Exec),
            "host" => host(name).map(Self::Host),
            "mcp" => wild(name, "_-").map(|()| Self::Mcp(name.to_owned())),
            other => Err(format!(
                "unknown kind `{other}:`; there are `tool:`, `class:`, `file:`, `exec:`, `host:`, `mcp:`"
            )),
        }
    }
}

impl Resource {
    /// The rule concerns a tool with these classes, whatever it is called with.
    pub fn names_tool(&self, tool: &str, classes: &[&str]) -> bool {
        match self {
            Self::Tool(pattern) => fits(pattern, tool),
            Self::Class(pattern) => classes.iter().any(|class| fits(pattern, class)),
            Self::Mcp(server) => tool
                .strip_prefix("mcp.")
                .and_then(|rest| rest.split_once('.'))
                .is_some_and(|(name, _)| fits(server, name)),
            Self::File(_) | Self::Exec(_) | Self::Host(_) => false,
        }
    }

    /// The rule is about things of the kind that is touched.
    pub fn is_about(&self, touch: &Touch, rule: Mode) -> bool {
        match (self, touch) {
            (Self::File(_), Touch::File { mode, .. }) => rule.includes(*mode),
            (Self::Exec(_), Touch::Command(_)) | (Self::Host(_), Touch::Host(_)) => true,
            _ => false,
        }
    }

    /// The rule fits what is touched. One that permits must fit all of a command; others also fit its
    /// beginning, and every command that cannot be seen through.
    pub fn fits(&self, touch: &Touch, rule: Mode, permits: bool) -> bool {
        match (self, touch) {
            (Self::File(folder), Touch::File { path, inside, mode, deep }) => {
                let place = if folder.starts_with('/') { Some(path) } else { inside.as_ref() };
                // Who looks through a folder looks into those below it.
                let through = *deep && !permits;
                rule.includes(*mode)
                    && place.is_some_and(|place| {
                        is_below(folder, place) || through && is_below(place, folder)
                    })
            }
            (Self::Exec(pattern), Touch::Command(text)) => match command::words(text) {
                Some(words) => is_command(pattern, &words, permits),
                None => !permits,
            },
            (Self::Host(pattern), Touch::Host(host)) => pattern == "*" || fits_host(pattern, host),
            _ => false,
        }
    }
}

/// A command has the words of the pattern; a `*` at the end stands for all that follow.
fn is_command(pattern: &[String], words: &[String], whole: bool) -> bool {
    let open = pattern.last().is_some_and(|last| last == "*");
    let length =
        if whole && !open { words.len() == pattern.len() } else { words.len() >= pattern.len() };
    let mut pairs = pattern.iter().zip(words);
    length && pairs.all(|(pattern, word)| fits(pattern, word))
}

/// The words of a command, wildcards among them.
fn pattern(text: &str) -> Result<Vec<String>, String> {
    let quoted = text.contains(['\'', '"']);
    match command::words(&text.replace('*', "x")) {
        Some(words) if !quoted && !text.starts_with('*') => {
            debug_assert_eq!(words.len(), text.split_whitespace().count());
            Ok(text.split_whitespace().map(str::to_owned).collect())
        }
        _ => Err(
            "expected the words of one simple command, without quotes; `*` stands for any one word, at the end for all that follow"
                .to_owned(),
        ),
    }
}

fn is_below(folder: &str, path: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    match path.strip_prefix(folder) {
        Some(rest) => folder.is_empty() || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

fn wild(name: &str, others: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "*?".contains(c) || others.contains(c);
    match name.chars().find(|c| !good(*c)) {
        Some(bad) => Err(format!("`{bad}` cannot stand in a name; `*` and `?` are the wildcards")),
        None => Ok(()),
    }
}

/// A folder without wildcards and steps upwards.
fn folder(name: &str) -> Result<String, String> {
    if name.contains(['*', '?', '\0']) {
        return Err("`file:` takes the beginning of a path, without wildcards".to_owned());
    }
    if name.split('/').any(|part| part == "..") {
        return Err("`..` cannot stand in a path here".to_owned());
    }
    let absolute = if name.starts_with('/') { "/" } else { "" };
    let parts: Vec<_> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    Ok(format!("{absolute}{}", parts.join("/")))
}

fn host(name: &str) -> Result<String, String> {
    let name = name.to_ascii_lowercase();
    let bare = name.strip_prefix("*.").unwrap_or(&name);
    let good = |c: char| c.is_ascii_alphanumeric() || "-.:[]_".contains(c);
    if name == "*"
        || (!bare.is_empty()
            && bare.chars().all(good)
            && !bare.starts_with('.')
            && !bare.ends_with('.'))
    {
        Ok(name)
    } else {
        Err("expected a host, or `*.` and a domain, without a dot at the end".to_owned())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(name) => write!(f, "tool:{name}"),
            Self::Class(name) => write!(f, "class:{name}"),
            Self::File(name) => write!(f, "file:{name}"),
            Self::Exec(words) => write!(f, "exec:{}", words.join(" ")),
            Self::Host(name) => write!(f, "host:{name}"),
            Self::Mcp(name) => write!(f, "mcp:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn file(path: &str, inside: Option<&str>) -> Touch {
        Touch::File {
            path: path.to_owned(),
            inside: inside.map(str::to_owned),
            mode: Mode::Write,
            deep: false,
        }
    }

    /// PL-66
    #[test]
    fn what_makes_no_sense_is_refused() {
        let wrong = [
            "bash",
            "tool:",
            "tool:a b",
            "class:nonsense",
            "file:../x",
            "file:*.md",
            "exec:a | b",
            "host:a/b",
            "host:*.",
            "mcp:",
            "user:x",
        ];

        let taken: Vec<_> =
            wrong.into_iter().filter(|text| text.parse::<Resource>().is_ok()).collect();

        assert_eq!(taken, Vec::<&str>::new());
    }

    #[test]
    fn a_resource_is_shown_as_it_was_written() {
        for text in [
            "tool:mcp.git.*",
            "class:org.*",
            "file:docs",
            "file:/srv/data",
            "exec:git push *",
            "host:*.example.com",
            "mcp:git",
        ] {
            assert_eq!(text.parse::<Resource>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_folder_holds_what_is_below_it_and_nothing_beside_it() {
        let fits = |rule: &str, touch: &Touch| {
            rule.parse::<Resource>().unwrap().fits(touch, Mode::Both, true)
        };
        let inside = file("/w/docs/a", Some("docs/a"));

        assert!(fits("file:docs/", &inside));
        assert!(fits("file:", &inside));
        assert!(fits("file:/w", &inside));
        assert!(!fits("file:doc", &inside));
        assert!(!fits("file:docs", &file("/etc/docs/a", None)));
        assert!(fits("file:/etc", &file("/etc/docs/a", None)));
    }

    /// Who looks through a folder looks into those below it, and is not let in for that.
    #[test]
    fn a_search_reaches_what_is_below() {
        let through = Touch::File {
            path: "/w".to_owned(),
            inside: Some(String::new()),
            mode: Mode::Read,
            deep: true,
        };
        let rule = "file:private".parse::<Resource>().unwrap();

        assert!(rule.fits(&through, Mode::Both, false));
        assert!(!rule.fits(&through, Mode::Both, true));
        assert!(!rule.fits(&file("/w", Some("")), Mode::Both, false));
    }

    #[test]
    fn a_suffix_is_a_whole_domain() {
        let rule = "host:*.Example.com".parse::<Resource>().unwrap();
        let fits = |host: &str| rule.fits(&Touch::Host(host.to_owned()), Mode::Both, false);

        assert!(fits("a.example.com") && fits("a.b.example.com"));
        assert!(!fits("example.com") && !fits("badexample.com"));
    }

    /// PL-73: who permits must see all of it; who forbids fears what it does not see.
    #[test]
    fn a_hidden_command_is_never_permitted_and_always_forbidden() {
        let rule = "exec:git push".parse::<Resource>().unwrap();
        let open = "exec:git push *".parse::<Resource>().unwrap();
        let fits = |rule: &Resource, text: &str, permits| {
            rule.fits(&Touch::Command(text.to_owned()), Mode::Both, permits)
        };

        assert!(fits(&rule, "git push", true) && fits(&rule, "git push", false));
        assert!(!fits(&rule, "git push --force", true) && fits(&rule, "git push --force", false));
        assert!(fits(&open, "git push a b", true) && !fits(&open, "git push", true));
        assert!(!fits(&rule, "git pull", true) && !fits(&rule, "git pull", false));
        assert!(!fits(&rule, "cd x && git push", true) && fits(&rule, "cd x && ls", false));
    }
}
