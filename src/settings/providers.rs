//! Provider profiles: which model API answers, and under which limits.

use std::time::Duration;

use crate::settings::secret::Secret;

/// A model API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Anthropic's Messages API.
    #[default]
    Anthropic,
    /// OpenAI's Chat Completions API, or a proxy that speaks it.
    OpenAi,
    /// The built-in demo without a network.
    Offline,
}

/// Prices in USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pricing {
    /// Of tokens read by the model.
    pub input: f64,
    /// Of tokens written by the model.
    pub output: f64,
    /// Of tokens read from the prompt cache.
    pub cache_read: f64,
    /// Of tokens written to the prompt cache.
    pub cache_write: f64,
}

/// A named way to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name in the settings.
    pub name: String,
    /// The API it speaks.
    pub provider: Provider,
    /// Where the API is, if not at the provider's own address.
    pub api_url: Option<String>,
    /// The credential.
    pub api_key: Option<Secret>,
    /// The model it asks for.
    pub model: String,
    /// How many tokens the model can hold.
    pub context_window: u32,
    /// How many tokens an answer may have.
    pub max_output_tokens: u32,
    /// The longest wait for the first byte and between two pieces of a stream.
    pub response_timeout: Duration,
    /// Profiles that take over, in order.
    pub fallbacks: Vec<String>,
    /// How many requests run at once.
    pub max_concurrency: usize,
    /// How many requests start within a minute.
    pub requests_per_minute: Option<u32>,
    /// What tokens cost.
    pub pricing: Option<Pricing>,
}

impl Profile {
    /// A profile with nothing but defaults.
    pub fn new(name: &str, provider: Provider) -> Self {
        Self {
            name: name.to_owned(),
            provider,
            api_url: None,
            api_key: None,
            model: "demo".to_owned(),
            context_window: 200_000,
            max_output_tokens: 8_192,
            response_timeout: Duration::from_secs(60),
            fallbacks: Vec::new(),
            max_concurrency: 128,
            requests_per_minute: None,
            pricing: None,
        }
    }
}
