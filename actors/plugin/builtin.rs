//! Builtin plugin: compiled into the program, a task of it instead of a child process.
//!
//! It speaks the messages of all plugins, by their names on the wire, and lives, fails and is replaced as they do.
#![warn(missing_docs)]

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

/// Makes what one child of a builtin is. Nothing is shared with another one.
pub type MakeBuiltin = fn() -> Arc<dyn Builtin>;

/// A plugin that is compiled in.
pub trait Builtin: Send + Sync + 'static {
    /// Answers a request, or takes a notification, whose answer is dropped. `initialize` and `ping` are answered for it. An
    /// error is the plugin's word to whoever asked; a panic ends the child, with all that it was about to answer.
    fn take(
        self: Arc<Self>,
        method: String,
        params: Value,
        host: Arc<dyn BuiltinHost>,
    ) -> BoxFuture<'static, Result<Value, String>>;
}

/// What a builtin may ask of the service.
pub trait BuiltinHost: Send + Sync + 'static {
    /// Asks for something, such as `state/get`. What is refused is an error with the reason.
    fn ask(&self, method: &str, params: Value) -> BoxFuture<'static, Result<Value, String>>;

    /// Tells something, such as `plugin/state`.
    fn tell(&self, method: &str, params: Value);
}
