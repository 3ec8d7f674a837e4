//! Expressions of keyword and message triggers, on an engine that takes linear time.

use std::sync::Arc;

use hivewright_actors::scheduler::ports::{Expressions, Language, Matcher};
use regex::{Regex, RegexBuilder};

/// A compiled expression takes at most this many bytes.
const LARGEST: usize = 1 << 20;

/// See [`Expressions`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LinearExpressions;

impl Expressions for LinearExpressions {
    fn read(
        &self,
        language: Language,
        pattern: &str,
        flags: Option<&str>,
    ) -> Result<Arc<dyn Matcher>, String> {
        let regex = match (language, delimited(pattern)) {
            (Language::Keyword, None) => compile(&regex::escape(pattern), "i")?,
            (Language::Keyword, Some((body, flags))) => compile(body, flags)?,
            (Language::Message, _) => compile(pattern, flags.unwrap_or_default())?,
        };
        Ok(Arc::new(Expression(regex)))
    }
}

/// The parts of `/body/flags`.
fn delimited(pattern: &str) -> Option<(&str, &str)> {
    let (body, flags) = pattern.strip_prefix('/')?.rsplit_once('/')?;
    let is_word = flags.chars().all(|flag| flag.is_ascii_alphabetic());
    (!body.is_empty() && is_word).then_some((body, flags))
}

fn compile(body: &str, flags: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(body);
    builder.size_limit(LARGEST);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            other => {
                return Err(format!("there is no flag `{other}`; there are i, m, s and x"));
            }
        };
    }
    builder.build().map_err(|error| explain(body, &error))
}

fn explain(body: &str, error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => {
            "takes more than 1 MiB when compiled; make its repetitions smaller".to_owned()
        }
        regex::Error::Syntax(_) => syntax(body),
        _ => "is no regular expression".to_owned(),
    }
}

/// What is wrong where, in one line.
fn syntax(body: &str) -> String {
    use regex_syntax::ast::ErrorKind;
    match regex_syntax::ast::parse::Parser::new().parse(body) {
        Err(error) => {
            let place = error.span().start.offset;
            match error.kind() {
                ErrorKind::UnsupportedLookAround => format!(
                    "has look-around at byte {place}, which cannot be matched in linear time; write it without `(?=`, `(?!`, `(?<=` and `(?<!`"
                ),
                ErrorKind::UnsupportedBackreference => format!(
                    "has a back-reference at byte {place}, which cannot be matched in linear time; write it without"
                ),
                kind => format!("is no regular expression: {kind} at byte {place}"),
            }
        }
        Ok(_) => "is no regular expression: a class or flag in it is unknown".to_owned(),
    }
}

struct Expression(Regex);

impl Matcher for Expression {
    fn find(&self, text: &str) -> Option<Vec<(String, String)>> {
        let found = self.0.captures(text)?;
        let named = self
            .0
            .capture_names()
            .flatten()
            .filter_map(|name| Some((name.to_owned(), found.name(name)?.as_str().to_owned())));
        Some(named.collect())
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn keyword(pattern: &str) -> Result<Arc<dyn Matcher>, String> {
        LinearExpressions.read(Language::Keyword, pattern, None)
    }

    fn message(pattern: &str, flags: &str) -> Result<Arc<dyn Matcher>, String> {
        LinearExpressions.read(Language::Message, pattern, Some(flags))
    }

    fn refusal(read: Result<Arc<dyn Matcher>, String>) -> String {
        read.err().unwrap()
    }

    /// TR-15
    #[test]
    fn a_keyword_is_found_anywhere_and_in_any_case() {
        let plain = keyword("STRASSE 1.5 (größe)").unwrap();

        assert!(plain.find("in der Strasse 1.5 (GRÖSSE)").is_none());
        assert!(plain.find("in der Strasse 1.5 (GRÖßE) wohnt").is_some());
        assert!(plain.find("Strasse 1x5 (größe)").is_none());
    }

    /// TR-15
    #[test]
    fn slashes_make_an_expression_with_flags() {
        let expression = keyword("/^order (?<number>\\d+)$/im").unwrap();

        let found = expression.find("hello\nORDER 77\nbye").unwrap();

        assert_eq!(found, [("number".to_owned(), "77".to_owned())]);
        assert_eq!(refusal(keyword("/a/g")), "there is no flag `g`; there are i, m, s and x");
        assert!(keyword("/etc/hosts").is_err());
    }

    /// TR-18
    #[test]
    fn what_needs_more_than_linear_time_is_refused_with_the_reason() {
        let around = refusal(message("a(?=b)", ""));
        let back = refusal(message("(a)\\1", ""));
        let size = refusal(message("(?:a{1000}){1000}", ""));
        let broken = refusal(message("a(", ""));

        assert!(around.starts_with("has look-around at byte 1,"), "{around}");
        assert!(back.starts_with("has a back-reference at byte 3,"), "{back}");
        assert!(size.contains("1 MiB"), "{size}");
        assert!(broken.contains("unclosed group at byte 1"), "{broken}");
    }

    /// TR-16, TR-18: the same answer each time.
    #[test]
    fn nothing_is_remembered_between_texts() {
        let expression = message("b+", "").unwrap();

        let found = [0, 1, 2].map(|_| expression.find("abb").is_some());

        assert_eq!(found, [true; 3]);
    }
}
