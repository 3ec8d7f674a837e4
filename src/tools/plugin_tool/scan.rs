//! Source scan: words of JavaScript that are no text, no comment and no pattern, with their places.
//!
//! It sees what a reader sees. What gets past it by spelling itself otherwise finds nothing to call in the host.

/// A word or sign of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    /// As it is written; of a text what stands between its quotes.
    pub(super) text: &'a str,
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Text,
    Number,
    Pattern,
    Sign,
}

/// Words behind which a slash begins a pattern.
const BEFORE_PATTERN: [&str; 13] = [
    "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do",
    "await", "yield",
];
/// What no tool needs and none gets.
const FORBIDDEN: [(&str, &str); 5] = [
    ("import", "modules cannot be imported; write what you need into the tool"),
    ("require", "modules cannot be required; write what you need into the tool"),
    ("eval", "code cannot be made from text"),
    ("Function", "code cannot be made from text"),
    ("process", "there is no process and no environment here"),
];

struct Scanner<'a> {
    source: &'a str,
    at: usize,
    /// For each template that is open: how many braces are open in its expression.
    templates: Vec<usize>,
    tokens: Vec<Token<'a>>,
    line: usize,
    line_start: usize,
}

/// The words of a source that parses. Of another one whatever can be seen.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut scanner = Scanner {
        source,
        at: 0,
        templates: Vec::new(),
        tokens: Vec::new(),
        line: 1,
        line_start: 0,
    };
    while scanner.step() {}
    scanner.tokens
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Goes on by so many bytes, and counts the lines.
    fn advance(&mut self, bytes: usize) {
        let end = (self.at + bytes).min(self.source.len());
        for (offset, _) in self.source[self.at..end].match_indices('\n') {
            self.line += 1;
            self.line_start = self.at + offset + 1;
        }
        self.at = end;
    }

    fn push(&mut self, kind: Kind, length: usize, text: &'a str) {
        let column = self.source[self.line_start..self.at].chars().count() + 1;
        self.tokens.push(Token { kind, text, line: self.line, column });
        self.advance(length);
    }

    fn step(&mut self) -> bool {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return false };
        let until = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
        if first.is_whitespace() {
            self.advance(first.len_utf8());
        } else if rest.starts_with("//") || rest.starts_with("#!") && self.at == 0 {
            self.advance(until("\n"));
        } else if let Some(comment) = rest.strip_prefix("/*") {
            self.advance(comment.find("*/").map_or(rest.len(), |at| at + 4));
        } else if is_word_start(first) {
            let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            self.push(Kind::Word, length, &rest[..length]);
        } else if first.is_ascii_digit() {
            let length = rest.find(|c: char| !is_word(c) && c != '.').unwrap_or(rest.len());
            self.push(Kind::Number, length, &rest[..length]);
        } else if first == '"' || first == '\'' {
            let length = quoted(rest, first);
            self.push(Kind::Text, length, rest[1..length].trim_end_matches(first));
        } else if first == '`' {
            self.template(1);
        } else if first == '/' && self.begins_pattern() {
            let length = pattern(rest);
            self.push(Kind::Pattern, length, &rest[..length]);
        } else {
            self.sign(first);
        }
        true
    }

    fn sign(&mut self, sign: char) {
        match (sign, self.templates.last_mut()) {
            ('{', Some(open)) => *open += 1,
            ('}', Some(0)) => {
                // The expression in a template ends, and its text goes on.
                self.templates.pop();
                return self.template(1);
            }
            ('}', Some(open)) => *open -= 1,
            _ => {}
        }
        let rest = self.rest();
        self.push(Kind::Sign, sign.len_utf8(), &rest[..sign.len_utf8()]);
    }

    /// The text of a template, up to its end or to an expression in it.
    fn template(&mut self, skip: usize) {
        let rest = self.rest();
        let mut letters = rest.char_indices().skip(skip).peekable();
        let mut end = rest.len();
        let mut opens = false;
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => drop(letters.next()),
                '`' => {
                    end = at + 1;
                    break;
                }
                '$' if letters.peek().is_some_and(|(_, next)| *next == '{') => {
                    (end, opens) = (at + 2, true);
                    break;
                }
                _ => {}
            }
        }
        self.push(Kind::Text, end, &rest[skip.min(end)..end]);
        if opens {
            self.templates.push(0);
        }
    }

    fn begins_pattern(&self) -> bool {
        match self.tokens.last() {
            None => true,
            Some(Token { kind: Kind::Word, text, .. }) => BEFORE_PATTERN.contains(text),
            Some(Token { kind: Kind::Sign, text, .. }) => ![")", "]", "}"].contains(text),
            Some(_) => false,
        }
    }
}

fn is_word_start(letter: char) -> bool {
    letter.is_alphabetic() || matches!(letter, '_' | '$' | '#')
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '$')
}

/// How long a text in quotes is.
fn quoted(rest: &str, quote: char) -> usize {
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '\n' => return at,
            letter if letter == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// How long a pattern is, without its flags.
fn pattern(rest: &str) -> usize {
    let (mut letters, mut in_class) = (rest.char_indices().skip(1), false);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return at + 1,
            '\n' => return at,
            _ => {}
        }
    }
    rest.len()
}

/// The first thing that no tool may name: where it stands, and what to do instead.
pub(super) fn forbidden(tokens: &[Token<'_>]) -> Option<String> {
    let (token, why) = tokens.iter().enumerate().find_map(|(index, token)| {
        let (_, why) =
            FORBIDDEN.iter().find(|(word, _)| token.kind == Kind::Word && token.text == *word)?;
        let sign = |at: Option<usize>| {
            let token = tokens.get(at?)?;
            (token.kind == Kind::Sign).then_some(token.text)
        };
        let (before, behind) = (sign(index.checked_sub(1)), sign(Some(index + 1)));
        let is_field =
            before == Some(".") || matches!(before, Some("{" | ",")) && behind == Some(":");
        (!is_field).then_some((token, why))
    })?;
    let line = tokens.iter().filter(|other| other.line == token.line);
    let shown = line.map(|other| other.text).take(8).collect::<Vec<_>>().join(" ");
    Some(format!("line {}, column {}: `{}` ({shown}): {why}", token.line, token.column, token.text))
}

/// The hosts that a source names in `export const hosts = ["…"]`; none if it names none there. They are read without
/// running it, so they stand there as they are.
pub(super) fn hosts<'a>(tokens: &[Token<'a>]) -> Result<Vec<&'a str>, String> {
    let is = |at: usize, text: &str| {
        tokens.get(at).is_some_and(|token| token.text == text && token.kind != Kind::Text)
    };
    let exported = (0..tokens.len()).filter(|at| is(*at, "export"));
    let mut declared = exported.filter(|at| {
        ["const", "let", "var"].iter().any(|word| is(at + 1, word)) && is(at + 2, "hosts")
    });
    let Some(start) = declared.next() else { return Ok(Vec::new()) };
    let wrong = || {
        let line = tokens.get(start).map_or(0, |token| token.line);
        format!(
            "line {line}: `hosts` is written as `export const hosts = [\"api.example.org\"]`, with texts alone"
        )
    };
    if !is(start + 3, "=") || !is(start + 4, "[") {
        return Err(wrong());
    }
    let mut hosts = Vec::new();
    let mut at = start + 5;
    loop {
        match tokens.get(at) {
            Some(Token { kind: Kind::Text, text, .. }) if !text.contains('\\') => hosts.push(*text),
            Some(token) if token.kind == Kind::Sign && token.text == "]" => break,
            _ => return Err(wrong()),
        }
        at += 1;
        match tokens.get(at) {
            Some(token) if token.kind == Kind::Sign && token.text == "," => at += 1,
            Some(token) if token.kind == Kind::Sign && token.text == "]" => break,
            _ => return Err(wrong()),
        }
    }
    if is(at + 1, ";") || tokens.get(at + 1).is_none_or(|next| next.line > tokens[at].line) {
        return Ok(hosts);
    }
    Err(wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(source: &str) -> Option<String> {
        forbidden(&tokens(source))
    }

    /// TO-114
    #[test]
    fn what_no_tool_may_name_is_found_where_it_stands() {
        let table = [
            ("import fs from 'fs';", "line 1, column 1: `import`"),
            ("\n  await import('fs')", "line 2, column 9: `import`"),
            ("const a = `${require('a')}`", "`require`"),
            ("a = 1 / 2; eval('x') / 3", "`eval`"),
            ("new Function('a')", "`Function`"),
            ("const { env } = process", "`process`"),
            ("const a = /[/]'/; process.exit()", "`process`"),
            ("const a = `x${ { b: `${1}` } }`; process", "`process`"),
        ];
        for (source, expected) in table {
            let found = refused(source).unwrap_or_default();
            assert!(found.contains(expected), "{source}: {found}");
        }
    }

    /// TO-114
    #[test]
    fn texts_comments_patterns_and_fields_are_left_alone() {
        for source in [
            "// import it\nconst a = 1",
            "/* eval\n process */ const a = 'require(1)'",
            "const a = \"it's \\\" eval(\"",
            "const a = `eval ${b} import`",
            "const a = /eval\\/process/.test(b)",
            "const a = { process: 1 }; a.process.eval",
            "const importer = 1, processed = 2, $eval = 3",
        ] {
            assert_eq!(refused(source), None, "{source}");
        }
    }

    /// TO-24, TO-116
    #[test]
    fn hosts_are_read_as_they_are_written() {
        let read = |source: &str| hosts(&tokens(source)).map(|hosts| hosts.join(" "));

        assert_eq!(
            read("export const hosts = ['a.org', \"*.b.org\",];"),
            Ok("a.org *.b.org".to_owned())
        );
        assert_eq!(read("export let hosts = []\nexport const a = 1"), Ok(String::new()));
        assert_eq!(read("const hosts = ['a.org']"), Ok(String::new()));
        for source in [
            "export const hosts = make()",
            "export const hosts = ['a.org', name]",
            "export const hosts = ['a.org'].concat(other)",
            "export const hosts = ['a\\u002eorg']",
            "export const hosts = [...all]",
        ] {
            assert!(read(source).is_err(), "{source}");
        }
    }
}
