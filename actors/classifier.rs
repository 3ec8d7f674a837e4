//! Port: short answers of a model about conversations, beside the work of teams.
#![warn(missing_docs)]

use futures_util::future::BoxFuture;

use crate::words;

words! {
    /// What a model is asked for.
    pub enum Purpose {
        /// Which topic a message belongs to, where words don't tell.
        Topics = "topics",
        /// What a topic is called.
        Titles = "titles",
    }
}

/// Answers one short question.
pub trait Classifier: Send + Sync + 'static {
    /// Whether there may be an answer: what nobody knows is not asked after every message. Looks at nothing.
    fn may_know(&self, _purpose: Purpose) -> bool {
        true
    }

    /// The model's answer; nothing if it could not be had in time.
    fn ask(&self, purpose: Purpose, question: String) -> BoxFuture<'static, Option<String>>;
}
