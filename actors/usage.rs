//! Usage: what model calls cost, in tokens and money.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens and money of one model call, or the sum over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "TokenUsage")]
pub struct Usage {
    /// Tokens read by the model, cached ones not counted.
    pub input: u64,
    /// Tokens written by the model.
    pub output: u64,
    /// Tokens read from the provider's prompt cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Tokens written to the provider's prompt cache.
    #[serde(default)]
    pub cache_write: u64,
    /// The price in USD; unknown if the profile has no prices.
    pub cost_usd: Option<f64>,
    /// The provider told no figures: these are counted from the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// All tokens, read and written.
    pub fn tokens(&self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_write
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let empty = *self == Self::default();
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(ours), Some(theirs)) => Some(ours + theirs),
            (None, theirs) if empty => theirs,
            _ => None,
        };
        self.estimated |= other.estimated;
    }
}
