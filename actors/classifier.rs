//! Port: a model's opinion on which topic a message belongs to, asked only when words don't tell.

use futures_util::future::BoxFuture;

/// Answers one short question.
pub trait Classifier: Send + Sync + 'static {
    /// The model's answer; nothing if it could not be had in time.
    fn ask(&self, question: String) -> BoxFuture<'static, Option<String>>;
}
