//! Flags of commands: how clap reads what filters and bodies are made of.

use clap::builder::{
    BoolValueParser, PossibleValuesParser, RangedU64ValueParser, TypedValueParser,
};
use hivewright_actors::text::Words;

use super::page::{MOST_ROWS, USUAL_LIMIT};

/// Reads a word, and tells help and completion which there are.
pub fn words<T: Words>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::WORDS).try_map(|word| word.parse::<T>())
}

/// Reads a flag that takes no value: what stands for it, without and with it.
pub fn switch<T: Clone + Send + Sync + 'static>(off: T, on: T) -> impl TypedValueParser<Value = T> {
    BoolValueParser::new().map(move |is_on| if is_on { on.clone() } else { off.clone() })
}

/// Reads `name=value`, where the name begins in this way and is not empty.
pub fn pair<'t>(text: &'t str, begin: &str, expected: &str) -> Result<(&'t str, &'t str), String> {
    let pair = text.split_once('=');
    pair.filter(|(name, _)| !name.is_empty() && name.starts_with(begin))
        .ok_or_else(|| format!("expected {expected}"))
}

// A doc comment here would become that of every command that has it.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Limit {
    /// How many, 1 to 200
    #[arg(long, value_name = "NUMBER", default_value_t = USUAL_LIMIT, value_parser = number())]
    pub limit: usize,
    /// All of them, however many
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
}

fn number() -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(1..=MOST_ROWS as u64)
}

impl Default for Limit {
    fn default() -> Self {
        Self { limit: USUAL_LIMIT, all: false }
    }
}
