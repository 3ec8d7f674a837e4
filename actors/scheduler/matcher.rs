//! Port: the expressions of keyword and message triggers.

use std::sync::Arc;

/// What an expression is for, which decides how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A text that is looked for without regard to case, or `/body/flags`.
    Keyword,
    /// A regular expression, with flags beside it.
    Message,
}

/// Reads expressions. They take time in proportion to the text, whatever they say.
pub trait Expressions: Send + Sync + 'static {
    /// Reads one. The error says what is wrong, for the person who wrote it.
    fn read(
        &self,
        language: Language,
        pattern: &str,
        flags: Option<&str>,
    ) -> Result<Arc<dyn Matcher>, String>;
}

/// An expression that has been read. It remembers nothing from one text to the next.
pub trait Matcher: Send + Sync {
    /// What a text holds under the names in the expression; none if it does not fit.
    fn find(&self, text: &str) -> Option<Vec<(String, String)>>;
}
