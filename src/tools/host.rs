//! The one path that every tool call takes: visible, well-formed, run within its limits, scrubbed, cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use hivewright_actors::{
    approvals::grants,
    excerpt,
    hook::HookEvent,
    ids::{CallId, TeamName},
    policy::{By, Decision, Subject},
    store::records::Writes,
    task::Label,
    tool::{
        Args, Asking, BeforeCalls, CallContext, Caller, Checked, Direction, Interception, Stow,
        ToolCall, ToolFault, ToolReply, Toolset, Verdict, specs::ToolSpecs,
    },
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};
use tracing::Instrument;

use super::{
    cap,
    concurrency::ConcurrencyLimits,
    contract::{Handed, Redaction, ToolContext, origin},
    error::ToolError,
    grant::Grant,
    hosted::Hosted,
    judge::{Case, Judgement, Opening, Sight},
    made::{Made, Set, by_wire_name},
    secrets::{self, Destination},
    wire::wire_name,
};
use crate::{json_limits, plugins::hooks::Hooks};

/// How long a tool that was told to stop has to hand in what it has.
const GRACE: Duration = Duration::from_secs(2);
/// The largest arguments, in bytes of JSON.
const LARGEST_ARGUMENTS: usize = 2 << 20;
/// What the log shows of a call, in characters.
const LOGGED: usize = 10_240;

/// The tools of one team, or of one of its turns. Cheap to clone.
#[derive(Clone)]
pub struct TeamTools {
    pub(super) team: Arc<Assembled>,
    /// Tools that remember what one turn did with them, by wire name. They take the places of those of
    /// the same keys.
    of_turn: Arc<BTreeMap<String, Made>>,
    /// The plugins that look at its calls.
    pub(super) hooks: Hooks,
    asleep: Asleep,
}

/// Tools of a turn, by wire name, that it does not have until a skill is loaded that needs them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Asleep(Arc<Mutex<BTreeSet<String>>>);

impl Asleep {
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(Arc::new(Mutex::new(names.into_iter().collect())))
    }

    /// From the next step on the turn has these.
    pub fn wake(&self, names: &[String]) {
        let mut asleep = self.0.lock();
        asleep.retain(|name| !names.contains(name));
    }
}

pub(super) struct Assembled {
    pub(super) set: Arc<Set>,
    /// Tools that only this team has.
    pub(super) own: BTreeMap<String, Made>,
    /// Tools that only this team would have, and that it must not see.
    pub(super) hidden: Vec<Made>,
    /// All tools that there are, by key.
    pub(super) all: Arc<BTreeMap<&'static str, Made>>,
    pub(super) specs: Arc<ToolSpecs>,
    /// The last of them that went without those that sleep: they are written into requests as they were made.
    pub(super) awake: Mutex<Option<(BTreeSet<String>, Arc<ToolSpecs>)>>,
    pub(super) grant: Grant,
    pub(super) limits: ConcurrencyLimits,
}

/// Whether a decision that was made in advance counts for a call, and is used by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grants {
    Count,
    Rest,
}

/// A call that fits its tool.
pub(super) struct Admitted<'a> {
    pub(super) made: &'a Made,
    pub(super) args: Value,
    checked: Checked,
    sight: Sight,
}

impl TeamTools {
    pub(super) fn new(team: Assembled) -> Self {
        Self {
            team: Arc::new(team),
            of_turn: Arc::default(),
            hooks: Hooks::default(),
            asleep: Asleep::default(),
        }
    }

    /// The same with plugins that look at its calls.
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self { hooks, ..self }
    }

    pub fn team(&self) -> &TeamName {
        &self.team.grant.team
    }

    /// What the operator's rules say to a call, for whoever wants to know before it is made.
    pub fn explain(
        &self,
        key: &str,
        args: &Value,
        subject: &Subject,
        caller: &Caller,
    ) -> Result<Judgement, ToolError> {
        let name = wire_name(key);
        let Some(made) = self.find(&name) else {
            let hidden = self.team.find_hidden(&name).ok_or_else(not_available)?;
            return Ok(self.team.explain_hidden(hidden, args, subject, caller));
        };
        let (_, sight) = made.tool.look(&made.key, args, caller)?;
        Ok(Case { sight: &sight, args, subject, grant: &self.team.grant }.judge())
    }

    /// The same for one turn, with tools that remember what the turn did with them, and without those that are
    /// asleep.
    pub fn with_own(&self, own: Vec<Made>, asleep: Asleep) -> Arc<dyn Toolset> {
        Arc::new(Self { of_turn: Arc::new(by_wire_name(own)), asleep, ..self.clone() })
    }

    pub(super) fn find(&self, name: &str) -> Option<&Made> {
        if self.asleep.0.lock().contains(name) {
            return None;
        }
        let found = self.team.own.get(name).or_else(|| self.team.set.tools.get(name))?;
        Some(self.of_turn.get(name).unwrap_or(found))
    }

    /// The arguments of a call without what its tool knows to be secrets.
    pub(super) fn redaction(&self, call: &ToolCall) -> Option<Redaction> {
        let tool = &self.find(&call.name)?.tool;
        match &call.args {
            Args::Json(args) => tool.redact(args),
            // Nobody knows what is in it.
            Args::Unreadable { .. } => tool.redact(&Value::Null),
        }
    }

    /// The call, if it fits its tool. A refusal is its result.
    pub(super) fn admit(
        &self,
        call: &ToolCall,
        caller: &Caller,
    ) -> Result<Admitted<'_>, ToolError> {
        let made = self.find(&call.name).ok_or_else(|| self.team.unavailable(&call.name))?;
        let args = match &call.args {
            Args::Json(args) => args.clone(),
            Args::Unreadable { reason, .. } => {
                return Err(ToolError::invalid(format!("arguments are not JSON: {reason}")));
            }
        };
        let text = args.to_string();
        if text.len() > LARGEST_ARGUMENTS {
            return Err(ToolError::invalid("arguments are larger than 2 MiB"));
        }
        json_limits::check(text.as_bytes())
            .map_err(|error| ToolError::invalid(format!("arguments: {error}")))?;
        secrets::refuse(&made.tool.about(), &args, &self.team.grant)?;
        let (checked, sight) = made.tool.look(&made.key, &args, caller)?;
        Ok(Admitted { made, args, checked, sight })
    }

    fn look(
        &self,
        call: &ToolCall,
        caller: &Caller,
        label: Label,
        grants: Grants,
    ) -> Result<Checked, ToolError> {
        let grant = &self.team.grant;
        let redaction = self.redaction(call);
        // What is said of a call, in a refusal too, is said of it without its secrets.
        let clean = redaction
            .as_ref()
            .map(|redaction| ToolCall { args: Args::Json(redaction.args.clone()), ..call.clone() });
        let Admitted { made, args, checked, sight } =
            self.admit(clean.as_ref().unwrap_or(call), caller)?;
        let subject = &Subject::of(&caller.cause, label);
        let case = Case { sight: &sight, args: &args, subject, grant };
        let (mut verdict, rule) = case.verdict(&caller.team)?;
        made.tool.objection(&args, caller)?;
        let mut stow = None;
        if let Verdict::Ask(asking) = &mut verdict {
            asking.schema = made.tool.form();
            let granted = match (grants, &redaction) {
                (Grants::Count, None) => self.team.granted(call, &args, caller, label, asking),
                _ => None,
            };
            if let Some(used) = granted {
                verdict = Verdict::Allow;
                stow = (!used.is_empty()).then(|| Stow::of(used));
            }
        }
        // Last of all: they are kept for a call that may be made.
        if let Some(Redaction { values, .. }) = redaction
            && !values.is_empty()
        {
            stow = Some(made.tool.stow(&values, &origin(caller, &call.id), grant)?);
        }
        let lacks = secrets::lacking(&made.tool.about(), &args, grant);
        Ok(Checked { verdict, stow, lacks, rule, ..checked })
    }

    /// A call that is about to run. What a rule forbids since it was looked at does not; whoever was to
    /// be asked, was.
    fn ready(&self, call: &ToolCall, cx: &CallContext) -> Result<Ready, ToolError> {
        let grant = &self.team.grant;
        let Admitted { made, args, checked, sight } = self.admit(call, &cx.caller)?;
        let subject = Subject::of(&cx.caller.cause, cx.label);
        let case = Case { sight: &sight, args: &args, subject: &subject, grant };
        let (verdict, _) = case.verdict(&cx.caller.team)?;
        let leaves = sight.host().is_some();
        let permitted = self.was_permitted(call, &args, cx, made, verdict, leaves)?;
        let destination = sight.host().map(|host| Destination {
            host: host.to_owned(),
            permitted: permitted && cx.label.is_trusted(),
        });
        let opening = Opening::of(sight, &args, subject, grant);
        let (key, tool, limit) = (made.key.clone(), Arc::clone(&made.tool), checked.limit);
        Ok(Ready { key, tool, args, limit, opening, destination })
    }

    /// Whether a person let exactly this call run, now or in advance. `leaves`: what it is given goes to a host.
    fn was_permitted(
        &self,
        call: &ToolCall,
        args: &Value,
        cx: &CallContext,
        made: &Made,
        verdict: Verdict,
        leaves: bool,
    ) -> Result<bool, ToolError> {
        let Verdict::Ask(mut asking) = verdict else { return Ok(false) };
        asking.schema = made.tool.form();
        // The same call uses a grant once.
        let permitted = cx.approved.is_some()
            || self.team.granted(call, args, &cx.caller, cx.label, &asking).is_some();
        // Nobody was asked about a secret for a host that its entry did not name then.
        if leaves && !permitted && !cx.label.is_trusted() && !asking.secrets.is_empty() {
            let message = "where its secrets may be sent changed meanwhile; call it again";
            return Err(ToolError::new(ToolFault::Conflict, message));
        }
        Ok(permitted)
    }
}

impl Toolset for TeamTools {
    fn specs(&self) -> Arc<ToolSpecs> {
        let (asleep, all) = (self.asleep.0.lock(), &self.team.specs);
        if asleep.is_empty() {
            return Arc::clone(all);
        }
        let mut awake = self.team.awake.lock();
        match &*awake {
            Some((without, specs)) if *without == *asleep => Arc::clone(specs),
            _ => {
                let specs = all.iter().filter(|spec| !asleep.contains(&spec.name)).cloned();
                let specs = Arc::new(specs.collect());
                *awake = Some((asleep.clone(), Arc::clone(&specs)));
                specs
            }
        }
    }

    fn clean(&self, call: &ToolCall) -> Option<Value> {
        let grant = &self.team.grant;
        match (self.redaction(call), &call.args) {
            (Some(Redaction { args, .. }), _) => Some(secrets::clean(&args, grant).unwrap_or(args)),
            (None, Args::Json(args)) => secrets::clean(args, grant),
            (None, Args::Unreadable { .. }) => None,
        }
    }

    fn before(
        &self,
        calls: &[ToolCall],
        step: &BeforeCalls,
    ) -> Option<BoxFuture<'static, Vec<Interception>>> {
        let is_looked_at = |call: &ToolCall| {
            let made = self.find(&call.name);
            made.is_some_and(|made| self.hooks.guard(&made.key) || made.tool.about().tried_first)
        };
        calls.iter().any(is_looked_at).then(|| {
            let (tools, calls, step) = (self.clone(), calls.to_vec(), step.clone());
            async move { join_all(calls.iter().map(|call| tools.intercept(call, &step))).await }
                .boxed()
        })
    }

    fn reword(
        &self,
        direction: Direction,
        text: String,
        caller: &Caller,
    ) -> Option<BoxFuture<'static, String>> {
        self.reworded(direction, text, caller)
    }

    fn rewords_answers(&self) -> bool {
        self.hooks.reword(HookEvent::MessageOutbound)
    }

    fn settled(&self, call: &CallId, tool: &str, caller: &Caller) {
        if let Some(made) = self.find(tool) {
            made.tool.settled(&origin(caller, call), &self.team.grant);
        }
    }

    fn check(&self, call: &ToolCall, caller: &Caller, label: Label) -> Result<Checked, ToolReply> {
        let looked = self.look(call, caller, label, Grants::Count);
        looked.map_err(|error| reply(Err(error), &self.team.grant))
    }

    fn recheck(
        &self,
        call: &ToolCall,
        caller: &Caller,
        label: Label,
    ) -> Result<Checked, ToolReply> {
        let looked = self.look(call, caller, label, Grants::Rest);
        looked.map_err(|error| reply(Err(error), &self.team.grant))
    }

    fn run(&self, call: ToolCall, cx: CallContext) -> BoxFuture<'static, ToolReply> {
        let ready = self.ready(&call, &cx);
        let (grant, limits) = (self.team.grant.clone(), self.team.limits.clone());
        let told = self.to_tell(&call, &cx);
        Box::pin(async move {
            let started = Instant::now();
            let handed = Arc::<Mutex<Handed>>::default();
            let (team, turn, tool) = (&grant.team, &cx.turn, &call.name);
            tracing::debug!(%team, %turn, %tool, call = %call.id, "tool call started");
            let result = match ready {
                Ok(ready) => ready.run(call.id, &cx, &grant, &limits, &handed).await,
                Err(error) => Err(error),
            };
            let mut reply = reply(result, &grant);
            let Handed { taints, given, shown } = std::mem::take(&mut *handed.lock());
            (reply.taints, reply.files, reply.pictures) = (taints, given, shown);
            let elapsed = started.elapsed();
            if let Some(told) = told {
                told.tell(&reply, elapsed);
            }
            match reply.fault {
                None => tracing::debug!(%team, %turn, %tool, took = ?elapsed, "tool call ended"),
                Some(fault) => {
                    tracing::debug!(%team, %turn, %tool, took = ?elapsed, fault = fault.as_str(), "tool call failed");
                }
            }
            tracing::trace!(%team, %turn, %tool, content = excerpt::excerpt(&reply.content, LOGGED, "the journal of the turn has it"), "tool result");
            reply
        })
    }
}

impl Assembled {
    /// A tool that there is, and that the team cannot see.
    fn find_hidden(&self, name: &str) -> Option<&Made> {
        self.all.values().chain(&self.hidden).find(|made| wire_name(&made.key) == name)
    }

    /// The team has no such tool. If a rule hides it, that is written down.
    fn unavailable(&self, name: &str) -> ToolError {
        let rules = &self.grant.rules;
        let hidden = self.find_hidden(name);
        let hidden = hidden.filter(|made| self.grant.allowed.allows(&made.key));
        let rule = hidden.and_then(|made| {
            let (policy, team) = (rules.now(), self.grant.team.as_str());
            let class = made.tool.about().class;
            policy.forbidding(team, &made.key, class, rules.time()).map(str::to_owned)
        });
        ToolError { rule, ..not_available() }
    }

    /// Why the team cannot see a tool: that holds whatever it is called with.
    fn explain_hidden(
        &self,
        made: &Made,
        args: &Value,
        subject: &Subject,
        caller: &Caller,
    ) -> Judgement {
        let about = made.tool.about();
        if !self.grant.allowed.allows(&made.key) {
            let decision = Decision::Deny(By::ToolList);
            return Judgement { decision, class: about.class, fitting: Vec::new() };
        }
        let sight = match made.tool.look(&made.key, args, caller) {
            Ok((_, sight)) => sight,
            Err(_) => Sight::new(&made.key, about, Vec::new()),
        };
        Case { sight: &sight, args, subject, grant: &self.grant }.judge()
    }

    /// Whether somebody has decided on such a call in advance, and what must be durable before it
    /// runs by that.
    fn granted(
        &self,
        call: &ToolCall,
        args: &Value,
        caller: &Caller,
        label: Label,
        asking: &Asking,
    ) -> Option<Writes> {
        let rules = &self.grant.rules;
        let wanted = grants::Call {
            team: &caller.team,
            tool: &call.name,
            arguments: args,
            asking,
            label,
            name: &format!("{}/{}", caller.task, call.id),
        };
        rules.grants().permit(&wanted, rules.time())
    }
}

fn not_available() -> ToolError {
    ToolError::new(ToolFault::NotAvailable, "tool not available to this team")
}

/// Scrubs, then cuts: a secret that the cut would split must not pass in halves.
pub(super) fn reply(result: Result<String, ToolError>, grant: &Grant) -> ToolReply {
    let (text, fault, rule) = match result {
        Ok(text) => (text, None, None),
        Err(error) => (error.message, Some(error.fault), error.rule),
    };
    let (content, truncated) = cap::cap(grant.scrub(&text).into_owned());
    ToolReply { content, fault, truncated, rule, ..ToolReply::default() }
}

/// A call that only waits for its place.
struct Ready {
    key: String,
    tool: Arc<dyn Hosted>,
    args: Value,
    limit: Duration,
    opening: Option<Opening>,
    destination: Option<Destination>,
}

impl Ready {
    async fn run(
        self,
        id: CallId,
        cx: &CallContext,
        grant: &Grant,
        limits: &ConcurrencyLimits,
        handed: &Arc<Mutex<Handed>>,
    ) -> Result<String, ToolError> {
        let about = self.tool.about();
        let _slot = limits.enter(&cx.caller.team.name, about.pool, &cx.cancel).await?;
        let to = self.destination.as_ref();
        let args = secrets::expand(&about, &self.key, self.args, to, cx, grant).await?;
        let cancel = CancellationToken::new();
        let context = ToolContext {
            call: CallContext { cancel: cancel.clone(), ..cx.clone() },
            id,
            grant: grant.clone(),
            opening: self.opening.map(Arc::new),
            handed: Arc::clone(handed),
        };
        let task = tokio::spawn(self.tool.call(args, context).in_current_span());
        let running = Running {
            task: AbortOnDropHandle::new(task),
            _stop: cancel.clone().drop_guard(),
            cancel,
        };
        running.finish(self.limit, &cx.cancel).await
    }
}

/// A tool at work on a task of its own, so that a panic ends the call and nothing else.
///
/// Dropped, it stops: blocking work hears the token, the task is aborted.
struct Running {
    task: AbortOnDropHandle<Result<String, ToolError>>,
    _stop: DropGuard,
    cancel: CancellationToken,
}

impl Running {
    async fn finish(
        mut self,
        limit: Duration,
        stop: &CancellationToken,
    ) -> Result<String, ToolError> {
        let (fault, why) = tokio::select! {
            joined = &mut self.task => return ended(joined),
            () = tokio::time::sleep(limit) => {
                let limit = limit.as_millis();
                (ToolFault::Timeout, format!("Timed out after {limit} ms and was stopped."))
            }
            () = stop.cancelled() => (ToolFault::Cancelled, "Cancelled.".to_owned()),
        };
        self.cancel.cancel();
        let so_far = match tokio::time::timeout(GRACE, &mut self.task).await {
            Ok(joined) => ended(joined).unwrap_or_else(|error| error.message),
            Err(_) => String::new(),
        };
        Err(ToolError::new(fault, format!("{why}\n{so_far}").trim_end()))
    }
}

fn ended(
    joined: Result<Result<String, ToolError>, tokio::task::JoinError>,
) -> Result<String, ToolError> {
    joined.unwrap_or_else(|error| {
        tracing::error!(%error, "tool panicked");
        Err(ToolError::failed("the tool failed unexpectedly"))
    })
}
