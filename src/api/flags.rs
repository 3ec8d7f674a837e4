//! Flags of commands: how clap reads what filters and bodies are made of.

use std::{fmt, str::FromStr};

use clap::builder::{BoolValueParser, PossibleValuesParser, TypedValueParser};
use hivewright_actors::text::{Expected, Words};

use super::page::{MOST_ROWS, USUAL_LIMIT};

/// Reads a word, and tells help and completion which there are.
pub fn words<T: Words>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::WORDS).try_map(|word| word.parse::<T>())
}

/// Reads a flag that takes no value: what stands for it, without and with it.
pub fn switch<T: Clone + Send + Sync + 'static>(off: T, on: T) -> impl TypedValueParser<Value = T> {
    BoolValueParser::new().map(move |is_on| if is_on { on.clone() } else { off.clone() })
}

/// How many rows are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLimit {
    First(usize),
    All,
}

impl FromStr for RowLimit {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let first = text.parse().ok().filter(|number| (1..=MOST_ROWS).contains(number));
        match (text, first) {
            ("all", _) => Ok(Self::All),
            (_, Some(number)) => Ok(Self::First(number)),
            _ => Err(Expected("a number from 1 to 200, or `all`")),
        }
    }
}

impl fmt::Display for RowLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First(number) => write!(f, "{number}"),
            Self::All => f.write_str("all"),
        }
    }
}

// A doc comment here would become that of every command that has it.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Limit {
    /// How many, 1 to 200, or `all`
    #[arg(long, default_value_t = RowLimit::First(USUAL_LIMIT))]
    pub limit: RowLimit,
}

impl Default for Limit {
    fn default() -> Self {
        Self { limit: RowLimit::First(USUAL_LIMIT) }
    }
}
