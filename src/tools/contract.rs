//! Contract of tools: what a tool declares, and what it is given.

use std::{future::Future, ops::Deref, path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    file::FileRef,
    ids::{CallId, TeamName},
    policy::caution::Caution,
    task::Label,
    tool::{CallContext, Caller, Stow},
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{about::About, error::ToolError, grant::Grant, judge::Opening, reach::Reach};
use crate::{
    sandbox::{process::Sandbox, workspace::WorkspaceError},
    vault::escrow::{Origin, SecretValues},
};

/// No tool may take longer.
pub const LONGEST: Duration = Duration::from_secs(600);

/// Something a model can do.
///
/// A tool file states this once; the host does the rest: who may call it, whether the arguments
/// fit, time, panics, the size of the answer.
pub trait Tool: Send + Sync + 'static {
    const ABOUT: About;
    /// What it does and when to use it, for the model: at most 1,024 characters.
    const DESCRIPTION: &'static str;
    /// What the model writes. Arguments that don't keep to its bounds are refused; so are fields that it
    /// does not have. Its doc comments are what the model reads, with each request: few words, and none
    /// where the name says it.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// The description on this machine, where the machine makes a difference.
    fn description(&self, _: &Sandbox) -> String {
        Self::DESCRIPTION.to_owned()
    }

    /// Refuses arguments that fit the schema but cannot be meant, with path and reason.
    fn accept(_: &Self::Args) -> Result<(), String> {
        Ok(())
    }

    /// What it says of this call, where its arguments make a difference.
    fn of_call(_: &Self::Args) -> About {
        Self::ABOUT
    }

    /// The time that the call itself asks for.
    fn timeout(_: &Self::Args) -> Option<Duration> {
        None
    }

    /// What it reaches for, as far as the operator's rules can be about that.
    fn reaches(_: &Self::Args) -> Vec<Reach> {
        Vec::new()
    }

    /// The team that a call speaks to, where its arguments do not say which.
    fn recipient(&self, _: &Caller) -> Option<TeamName> {
        None
    }

    /// Says no to a call before anyone is asked about it. One that was let through is not asked again.
    fn objection(&self, _: &Self::Args, _: &Caller) -> Result<(), ToolError> {
        Ok(())
    }

    /// Tries what arguments alone do not show, before anyone is asked about a call; for tools that are `tried_first`.
    fn examine(
        &self,
        _: Self::Args,
        _: &Caller,
        _: &Grant,
    ) -> BoxFuture<'static, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What speaks against these arguments, so that a person decides if no rule says otherwise.
    fn caution(&self, _: &Self::Args, _: &Caller) -> Option<Caution> {
        None
    }

    /// The same for a turn that has read what strangers wrote.
    fn caution_if_untrusted(&self, _: &Self::Args, _: &Caller) -> Option<Caution> {
        None
    }

    /// Takes the values of secrets out of arguments, whether or not they fit, before anything is
    /// written down. None: there are none in them.
    fn redact(_args: &Value) -> Option<Redaction> {
        None
    }

    /// Keeps the values that were taken out of the arguments of a call that may be made.
    fn stow(&self, _: &SecretValues, _: &Origin, _: &Grant) -> Result<Stow, ToolError> {
        Err(ToolError::failed("this tool keeps no secrets"))
    }

    /// A call has its result: nothing need be kept for it any more.
    fn settled(&self, _: &Origin, _: &Grant) {}

    /// Does it. Told to stop by `cx.cancel`, it ends soon with what it has; dropped, it ends at once.
    fn call(
        &self,
        args: Self::Args,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<String, ToolError>> + Send;
}

/// Arguments that held values of secrets.
#[derive(Clone)]
pub struct Redaction {
    /// The arguments with references in their place. These are journalled, shown and run.
    pub args: Value,
    pub values: SecretValues,
}

impl Redaction {
    /// Nothing of what stood there can be used.
    pub fn of(args: Value) -> Self {
        Self { args, values: SecretValues::new() }
    }
}

/// What a tool may use. Nothing in it comes from the model.
#[derive(Clone)]
pub struct ToolContext {
    /// The call. Its token asks the tool to stop.
    pub call: CallContext,
    /// The model's name for it.
    pub id: CallId,
    /// What the calling team is given.
    pub grant: Grant,
    /// Judges what the call opens, if it opens files or goes to hosts.
    pub(super) opening: Option<Arc<Opening>>,
    pub(super) handed: Arc<Mutex<Handed>>,
}

/// What a call hands over beside its answer.
#[derive(Debug, Default)]
pub(super) struct Handed {
    /// The answer holds something that is not to be believed.
    pub(super) taints: bool,
    /// Files for the person.
    pub(super) given: Vec<FileRef>,
    /// Pictures for the model, if it sees.
    pub(super) shown: Vec<FileRef>,
}

impl Deref for ToolContext {
    type Target = CallContext;

    fn deref(&self) -> &CallContext {
        &self.call
    }
}

impl ToolContext {
    /// What the secrets of this call are kept under.
    pub fn origin(&self) -> Origin {
        origin(&self.caller, &self.id)
    }

    /// Says how far the answer may be believed. The worst that is said counts.
    pub fn believe(&self, label: Label) {
        if label == Label::Untrusted {
            self.handed.lock().taints = true;
        }
    }

    /// Whether the answer holds something that is not to be believed.
    pub(super) fn taints(&self) -> bool {
        self.handed.lock().taints
    }

    /// The same for what a stranger says, whoever wants to hear it.
    pub(super) fn untrusted(&self) -> Self {
        let call = CallContext { label: Label::Untrusted, ..self.call.clone() };
        Self { call, ..self.clone() }
    }

    /// Gives a file to the person.
    pub(super) fn give(&self, file: FileRef) {
        self.handed.lock().given.push(file);
    }

    /// Shows a picture to the model.
    pub(super) fn show(&self, picture: FileRef) {
        self.handed.lock().shown.push(picture);
    }

    /// Whether the call may use this place, which it holds open: the guard of all that it opens.
    pub(super) fn admit(&self, place: &Path) -> Result<(), WorkspaceError> {
        self.opening.as_ref().map_or(Ok(()), |opening| opening.admit(place))
    }

    /// Whether the call may go to this host, to which a redirect may have led it.
    pub(super) fn admit_host(&self, host: &str) -> Result<(), String> {
        self.opening.as_ref().map_or(Ok(()), |opening| opening.admit_host(host))
    }

    /// Runs blocking file work away from the async threads.
    pub(super) async fn blocking<T, F>(&self, work: F) -> Result<T, ToolError>
    where
        T: Send + 'static,
        F: FnOnce(&ToolContext) -> Result<T, ToolError> + Send + 'static,
    {
        let (cx, span) = (self.clone(), tracing::Span::current());
        match tokio::task::spawn_blocking(move || span.in_scope(|| work(&cx))).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Err(ToolError::failed(error.to_string())),
            },
        }
    }
}

/// What the secrets of a call are kept under until it has its result.
pub(super) fn origin(caller: &Caller, call: &CallId) -> Origin {
    Origin { team: caller.team.clone(), task: caller.task.clone(), call: call.clone() }
}

/// The arguments of a tool whose name says it all.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NoArgs {}

/// Refuses a text that says nothing.
pub(super) fn not_blank(field: &str, text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err(format!("`{field}`: is empty")) } else { Ok(()) }
}
