//! Port: short answers of a model about conversations, beside the work of teams.

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
    /// The model's answer; nothing if it could not be had in time.
    fn ask(&self, purpose: Purpose, question: String) -> BoxFuture<'static, Option<String>>;
}
