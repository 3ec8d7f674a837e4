//! Port: the tools of a turn.
#![warn(missing_docs)]

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Timestamp,
    file::FileRef,
    ids::{CallId, TaskId, TeamKey, TurnId},
    store::records::{Alongside, Writes, digest},
    task::{Audience, Cycle, Firing, Kind, Label, Lane, Lineage, Source, Task, cause::Cause},
    words,
};

pub mod records;
pub mod specs;

use specs::ToolSpecs;

/// The tool by which the turn of a trigger says how its run went. Its last call counts.
pub const REPORT_RUN: &str = "report_run";

/// The longest id of a call, in bytes.
const LONGEST_ID: usize = 128;

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's name for this call, unique in its turn.
    pub id: CallId,
    /// The tool, as the model wrote it.
    pub name: String,
    /// Its arguments.
    pub args: Args,
}

impl ToolCall {
    /// Gives a call with a long id a shorter one that is made of it: keys of the store have a bound, and hold ids of
    /// calls, which whoever speaks for the model has chosen.
    pub fn bound_id(&mut self) {
        let id = self.id.as_str();
        if id.len() > LONGEST_ID {
            let beginning = &id[..id.floor_char_boundary(LONGEST_ID / 2)];
            self.id = format!("{beginning}_{:016x}", digest(id)).into();
        }
    }
}

/// Arguments as the model wrote them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Args {
    /// Text that is not JSON, with what is wrong where.
    Unreadable {
        /// The text.
        unreadable: String,
        /// The reason, with its position.
        reason: String,
    },
    /// JSON, not yet checked against the tool's schema.
    Json(Value),
}

impl Args {
    /// Arguments as the journal holds them.
    pub fn stored(value: Value) -> Self {
        let text = |field: &str| value.get(field)?.as_str().map(str::to_owned);
        match (text("unreadable"), text("reason")) {
            (Some(unreadable), Some(reason)) => Self::Unreadable { unreadable, reason },
            _ => Self::Json(value),
        }
    }

    /// Shows each text in them.
    pub fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        fn each(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
            match value {
                Value::String(text) => visit(text),
                Value::Array(items) => items.iter_mut().for_each(|item| each(item, visit)),
                Value::Object(fields) => fields.values_mut().for_each(|field| each(field, visit)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        match self {
            Self::Unreadable { unreadable, .. } => visit(unreadable),
            Self::Json(value) => each(value, visit),
        }
    }
}

/// The text that the model wrote, or the same JSON.
impl fmt::Display for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { unreadable, .. } => f.write_str(unreadable),
            Self::Json(value) => write!(f, "{value}"),
        }
    }
}

/// What running a tool again would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: it only looks.
    Pure,
    /// The same as running it once, given the same key.
    Idempotent,
    /// Harm.
    Irreversible,
}

/// What the operator's rules say to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are as many as calls in a step, for as long as they are looked at"
)]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person decides.
    Ask(Asking),
}

/// Why a person decides on a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// What is decided on: `tool`, `spawn`, `shutdown`, `trigger` …
    pub kind: String,
    /// What would happen, in one sentence.
    pub summary: String,
    /// The rule that asks.
    pub rule: String,
    /// The person who caused the task may not decide it.
    pub high_risk: bool,
    /// The arguments as a person may see them, if that is not as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Value>,
    /// What would change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Where it would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The secrets it would use, with their versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, u64>,
    /// Stands for the form of the tool. Without one no grant is good for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schema: String,
}

/// What is known of a call before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Whether it may run.
    pub verdict: Verdict,
    /// What must be kept before anything is said of the call.
    pub stow: Option<Stow>,
    /// What running it again would do.
    pub effect: Effect,
    /// It must not run beside another call of the same step.
    pub exclusive: bool,
    /// The longest it may take.
    pub limit: Duration,
    /// What it needs and cannot have now, for a person: it waits until that is put right.
    pub lacks: Option<String>,
    /// The rule that lets it run, or asks; none if no rule says anything.
    pub rule: Option<String>,
}

impl Checked {
    /// A call that may run as it is.
    pub fn allowed(effect: Effect, exclusive: bool, limit: Duration) -> Self {
        Self {
            verdict: Verdict::Allow,
            stow: None,
            effect,
            exclusive,
            limit,
            lacks: None,
            rule: None,
        }
    }
}

/// What must be kept before a call runs: secrets that were taken out of it, or that it was granted.
#[derive(Clone)]
pub struct Stow(Arc<dyn Fn() -> BoxFuture<'static, Result<Alongside, String>> + Send + Sync>);

impl Stow {
    /// What keeps them. An error is in words, without a secret.
    pub fn new(
        keep: impl Fn() -> BoxFuture<'static, Result<Alongside, String>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(keep))
    }

    /// No secrets, but what must be durable before the call runs.
    pub fn of(writes: Writes) -> Self {
        Self::new(move || {
            let alongside =
                Alongside { writes: writes.clone(), then: Box::pin(std::future::ready(())) };
            Box::pin(std::future::ready(Ok(alongside)))
        })
    }

    /// What is to be committed for that.
    pub fn keep(&self) -> BoxFuture<'static, Result<Alongside, String>> {
        (self.0)()
    }
}

impl PartialEq for Stow {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Stow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stow")
    }
}

words! {
    /// Why a call failed, for the model and for code.
    pub enum ToolFault {
        /// The arguments don't fit the schema.
        InvalidArguments = "invalid_arguments",
        /// There is no such tool for this team.
        NotAvailable = "not_available",
        /// It took too long.
        Timeout = "timeout",
        /// The turn was stopped.
        Cancelled = "cancelled",
        /// What was named is not there.
        NotFound = "not_found",
        /// The state of things does not allow it.
        Conflict = "conflict",
        /// The path leads out of the team's folders.
        OutsideWorkspace = "outside_workspace",
        /// The path is not the team's to write.
        Governance = "governance",
        /// The machine cannot confine the tool.
        SandboxUnavailable = "sandbox_unavailable",
        /// A rule of the operator forbids it.
        Denied = "denied",
        /// A person decided against it.
        ApprovalDenied = "approval_denied",
        /// Nobody decided in time.
        ApprovalExpired = "approval_expired",
        /// Too much is under way.
        Busy = "busy",
        /// Too many in too short a time.
        RateLimited = "rate_limited",
        /// It holds the value of a secret, or may not use one.
        SecretNotAllowed = "secret_not_allowed",
        /// The address may not be reached.
        BlockedAddress = "blocked_address",
        /// The tool says no, with a code of its own in its answer.
        Refused = "refused",
        /// The tool itself failed.
        ToolFailed = "tool_failed",
        /// The process stopped during the call.
        UnknownOutcome = "unknown_outcome",
    }
}

impl ToolFault {
    /// Somebody, or a rule, decided against the call: nothing went wrong with it.
    pub fn is_denial(self) -> bool {
        matches!(self, Self::Denied | Self::ApprovalDenied | Self::ApprovalExpired)
    }
}

/// What a tool answers, ready for the model: scrubbed and cut to size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    /// The text.
    pub content: String,
    /// Why it failed, if it did.
    pub fault: Option<ToolFault>,
    /// The text was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// It holds something from outside: the turn that read it is not to be believed any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taints: bool,
    /// The operator's rule that forbids the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What it gives to the person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    /// What models that see are shown beside the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<FileRef>,
}

impl ToolReply {
    /// A failure in words.
    pub fn failed(fault: ToolFault, message: impl Into<String>) -> Self {
        Self { content: message.into(), fault: Some(fault), ..Self::default() }
    }
}

/// On whose behalf a turn works. Nothing in it comes from the model; it stays as it is for the turn.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The calling team.
    pub team: TeamKey,
    /// The task that the turn works on.
    pub task: TaskId,
    /// Where the turn runs.
    pub lane: Lane,
    /// What kind of work it is.
    pub kind: Kind,
    /// Who of the team does it, if not the team itself.
    pub subagent: Option<String>,
    /// The team looks back at its work.
    pub cycle: Option<Cycle>,
    /// Where the work comes from.
    pub source: Option<Source>,
    /// The lineage of a task that this turn makes.
    pub lineage: Lineage,
    /// Who is behind it.
    pub cause: Cause,
    /// The firing of a trigger that it serves.
    pub firing: Option<Firing>,
    /// When it must be done.
    pub deadline_at: Timestamp,
}

impl Caller {
    /// On whose behalf a turn on a task works.
    pub fn of(task: &Task) -> Self {
        Self {
            team: task.team(),
            task: task.id.clone(),
            lane: task.lane.clone(),
            kind: task.kind,
            subagent: task.options.subagent.clone(),
            cycle: task.options.cycle,
            source: task.source.as_ref().map(Source::of_what_follows),
            lineage: task.lineage_below(),
            cause: task.caused_by(),
            firing: task.firing.clone(),
            deadline_at: task.deadline_at,
        }
    }

    /// Who may be shown what the turn does.
    pub fn audience(&self) -> Audience {
        Audience::new(self.cause.clone(), self.source.as_ref())
    }
}

/// One call of a turn, for a tool.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// Who calls.
    pub caller: Arc<Caller>,
    /// How far what the turn has read may be believed.
    pub label: Label,
    /// The calling turn.
    pub turn: TurnId,
    /// The step it belongs to.
    pub step: u32,
    /// The same for every try of this call.
    pub key: String,
    /// An earlier try may have taken effect.
    pub rerun: bool,
    /// The versions of the secrets that a person let it use; it runs with no others.
    pub approved: Option<BTreeMap<String, u64>>,
    /// Who let it run; none if nobody was asked.
    pub approved_by: Option<String>,
    /// Whoever let it run meant all calls like it.
    pub approved_always: bool,
    /// Asks the tool to stop. Children it started end within two seconds of it.
    pub cancel: CancellationToken,
}

/// The step whose calls plugins look at.
#[derive(Clone, Debug)]
pub struct BeforeCalls {
    /// Who calls.
    pub caller: Arc<Caller>,
    /// How far what the turn has read may be believed.
    pub label: Label,
    /// The calling turn.
    pub turn: TurnId,
}

/// Which way words go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a person.
    Inbound,
    /// To a person.
    Outbound,
}

/// What plugins say to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Interception {
    /// It goes on as it is.
    Pass,
    /// It goes on with these arguments.
    Rewrite(Value),
    /// It ends with this.
    Refuse(ToolReply),
}

/// The tools of one turn: filtered for the team, bound to its folders, fixed when the turn starts.
pub trait Toolset: Send + Sync + 'static {
    /// What the model is told, in a fixed order.
    fn specs(&self) -> Arc<ToolSpecs>;

    /// The arguments of a call without the values of secrets, if they hold any. Once it was looked
    /// at, these take the place of its own: they are journalled, shown and run.
    fn clean(&self, _: &ToolCall) -> Option<Value> {
        None
    }

    /// A call has its result, which is durable: nothing need be kept for it any more.
    fn settled(&self, _call: &CallId, _tool: &str, _caller: &Caller) {}

    /// Lets plugins look at the calls of a step, before anything else does; none if no plugin wants to. What is said of
    /// each call is in the order of the calls.
    fn before(
        &self,
        _: &[ToolCall],
        _: &BeforeCalls,
    ) -> Option<BoxFuture<'static, Vec<Interception>>> {
        None
    }

    /// Lets plugins reword what a person said, or what is about to be said to one; none if no plugin wants to.
    fn reword(&self, _: Direction, _: String, _: &Caller) -> Option<BoxFuture<'static, String>> {
        None
    }

    /// Whether plugins reword what is said to people: then nothing of it is shown before they have.
    fn rewords_answers(&self) -> bool {
        false
    }

    /// Looks at a call without running it. A refusal is the call's result.
    fn check(&self, call: &ToolCall, caller: &Caller, label: Label) -> Result<Checked, ToolReply>;

    /// Looks again at a call that a person has decided on. What was decided on in advance is not used
    /// up by it.
    fn recheck(&self, call: &ToolCall, caller: &Caller, label: Label)
    -> Result<Checked, ToolReply>;

    /// Runs a call that passed [`Toolset::check`].
    ///
    /// Dropping the future is the hard stop: a tool that holds a child process kills it on drop.
    fn run(&self, call: ToolCall, cx: CallContext) -> BoxFuture<'static, ToolReply>;
}
