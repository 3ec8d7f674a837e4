//! Thinking levels: how much a model thinks before it answers.

use crate::words;

words! {
    /// A level of thinking.
    pub enum Thinking {
        /// Not at all.
        Off = "off",
        /// As little as the model can.
        Minimal = "minimal",
        /// A little.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
        /// As much as the model can.
        Xhigh = "xhigh",
    }
}

impl Thinking {
    /// The level that a person means, by its name or another usual word for it.
    pub fn meant_by(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "none" => Some(Self::Off),
            "min" => Some(Self::Minimal),
            "mid" | "med" => Some(Self::Medium),
            "max" | "ultra" => Some(Self::Xhigh),
            name => name.parse().ok(),
        }
    }
}
