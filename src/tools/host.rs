//! The one path that every tool call takes: visible, well-formed, run within its limits, scrubbed, cut.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    approvals::grants,
    ids::{CallId, TeamName},
    policy::{By, Decision, Standing, Subject},
    store::records::Writes,
    task::Label,
    tool::{
        Args, Asking, CallContext, Caller, Checked, Effect, Stow, ToolCall, ToolFault, ToolReply,
        ToolSpec, Toolset, Verdict,
    },
};
use serde_json::Value;
use tokio::task::{AbortHandle, JoinError, JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use super::{
    cap,
    contract::{LONGEST, Pool, Redaction, Tool, ToolContext, ToolError, origin},
    filter::ToolFilter,
    judge::{Judgement, Opening, Sight},
    pools::Pools,
    registry,
    schema::{self, Misfit},
    secrets::{self, SecretUse},
    wire::wire_name,
};
use crate::{
    policy::Policies,
    sandbox::{process::Sandbox, workspace::Workspace},
    settings::config::LONGEST_TURN,
    system::sha256,
    taint::Taint,
    vault::{aside::Origin, expand, scrubbers::Scrubbers},
};

/// The largest arguments, in bytes of JSON.
const LARGEST_ARGUMENTS: usize = 2 << 20;
/// How long a tool that was told to stop has to hand in what it has.
const GRACE: Duration = Duration::from_secs(2);
/// How the description of a tool ends whose calls a person decides on.
const ASKS: &str = " (asks the operator)";
/// What the log shows of a call.
const LOGGED: usize = 10_240;

/// Sets of tools, by the tools' keys and what rules say of them.
type Sets = HashMap<Vec<(&'static str, Standing)>, Arc<Set>>;

/// The tools that exist, by key.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Arc<BTreeMap<&'static str, Arc<dyn Hosted>>>,
    /// Teams with the same tools share them, and what their models are told.
    sets: Arc<Mutex<Sets>>,
    pools: Pools,
}

/// A tool that was made for one team, and so has a name that no other need have.
#[derive(Clone)]
pub struct Made {
    key: String,
    tool: Arc<dyn Hosted>,
}

impl Made {
    /// A tool by its canonical key. [`Tool::NAME`] does not count.
    pub fn new<T: Tool>(key: impl Into<String>, tool: T) -> Self {
        Self { key: key.into(), tool: Arc::new(tool) }
    }
}

/// What one team is given.
#[derive(Clone)]
pub struct Grant {
    pub team: TeamName,
    /// Its folders.
    pub workspace: Arc<Workspace>,
    /// The tools it may see.
    pub allowed: ToolFilter,
    /// Where its processes run.
    pub sandbox: Arc<Sandbox>,
    /// The secrets it uses and must not see.
    pub secrets: Arc<Scrubbers>,
    /// What the operator allows, denies or wants to be asked for.
    pub rules: Policies,
    /// Which files untrusted turns wrote.
    pub taint: Taint,
}

impl Toolbox {
    /// The same with one more tool.
    pub fn with<T: Tool>(mut self, tool: T) -> Self {
        Arc::make_mut(&mut self.tools).insert(T::NAME, Arc::new(tool));
        self
    }

    /// How many calls of each team run.
    pub fn pools(&self) -> Pools {
        self.pools.clone()
    }

    /// The class of each tool, by its key.
    pub fn classes(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.tools.iter().map(|(key, tool)| (*key, tool.class()))
    }

    /// The tools of a team, bound to its folders. Later changes to the grant need another set.
    pub fn for_team(&self, grant: Grant) -> Arc<dyn Toolset> {
        Arc::new(self.assemble(grant, Vec::new()))
    }

    /// The same with tools that only this team has.
    pub fn assemble(&self, grant: Grant, made: Vec<Made>) -> TeamTools {
        let policy = grant.rules.now();
        let standing = |key: &str, tool: &dyn Hosted| {
            let (classes, effect) = ([tool.class()], tool.effect());
            let now = grant.rules.time();
            let standing = policy.standing(grant.team.as_str(), key, &classes, effect, now);
            let shown = grant.allowed.allows(key) && standing != Standing::Hidden;
            shown.then_some(standing)
        };
        let visible: Vec<_> = self
            .tools
            .iter()
            .filter_map(|(key, tool)| Some((*key, standing(key, &**tool)?, tool)))
            .collect();
        let keys = visible.iter().map(|(key, standing, _)| (*key, *standing));
        let set = self
            .sets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(keys.collect())
            .or_insert_with(|| {
                let specs = visible.iter().map(|(key, standing, tool)| {
                    (place(key, &***tool), spec(key, *standing, &***tool, &grant))
                });
                let tools = visible.iter().map(|(key, _, tool)| {
                    let made = Made { key: (*key).to_owned(), tool: Arc::clone(tool) };
                    (wire_name(key), made)
                });
                Arc::new(Set {
                    specs: in_order(specs.collect()),
                    tools: tools.collect(),
                    longer: Mutex::default(),
                })
            })
            .clone();
        let mut hidden = Vec::new();
        let made: Vec<_> = made
            .into_iter()
            .filter_map(|made| match standing(&made.key, &*made.tool) {
                Some(standing) => Some((standing, made)),
                None => {
                    hidden.push(made);
                    None
                }
            })
            .collect();
        let own = made.iter().map(|(standing, Made { key, tool })| {
            (place(key, &**tool), spec(key, *standing, &**tool, &grant))
        });
        let specs = set.specs_with(own.collect());
        let own = made.into_iter();
        let own = own.map(|(_, made)| (wire_name(&made.key), made)).collect();
        TeamTools(Arc::new(Assembled {
            set,
            own,
            hidden,
            all: Arc::clone(&self.tools),
            specs,
            grant,
            pools: self.pools.clone(),
        }))
    }
}

/// What models are told of tools that a team has for itself, and of all its tools with them.
type Longer = (Vec<ToolSpec>, Weak<[ToolSpec]>);

/// Tools that several teams have.
struct Set {
    tools: BTreeMap<String, Made>,
    specs: Arc<[ToolSpec]>,
    /// For teams that have others beside them.
    longer: Mutex<Vec<Longer>>,
}

impl Set {
    /// What the models of a team are told that has these beside them.
    fn specs_with(&self, own: Vec<(Place<'_>, ToolSpec)>) -> Arc<[ToolSpec]> {
        if own.is_empty() {
            return self.specs.clone();
        }
        let mut longer = self.longer.lock().unwrap_or_else(PoisonError::into_inner);
        longer.retain(|(_, specs)| specs.strong_count() > 0);
        let is_same = |known: &[ToolSpec]| known.iter().eq(own.iter().map(|(_, spec)| spec));
        let known = longer.iter().find(|(known, _)| is_same(known));
        if let Some(specs) = known.and_then(|(_, specs)| specs.upgrade()) {
            return specs;
        }
        let by_wire: HashMap<_, _> = self.specs.iter().map(|spec| (&*spec.name, spec)).collect();
        let shared = self.tools.iter().filter_map(|(wire, made)| {
            let spec = by_wire.get(&**wire)?;
            Some((place(&made.key, &*made.tool), (*spec).clone()))
        });
        let specs = in_order(shared.chain(own.iter().cloned()).collect());
        let own = own.into_iter().map(|(_, spec)| spec).collect();
        longer.push((own, Arc::downgrade(&specs)));
        specs
    }
}

/// What a model is told of a tool.
fn spec(key: &str, standing: Standing, tool: &dyn Hosted, grant: &Grant) -> ToolSpec {
    let mut spec = tool.spec(wire_name(key), &grant.sandbox);
    if standing == Standing::Asks {
        spec.description.push_str(ASKS);
    }
    spec
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

/// Where models are told of a tool: group by group, and by key within one.
type Place<'a> = (Option<usize>, &'a str);

fn place<'a>(key: &'a str, tool: &dyn Hosted) -> Place<'a> {
    (registry::place(tool.group()), key)
}

fn in_order(mut specs: Vec<(Place<'_>, ToolSpec)>) -> Arc<[ToolSpec]> {
    specs.sort_by_key(|(place, _)| *place);
    specs.into_iter().map(|(_, spec)| spec).collect()
}

/// A tool whose argument type is hidden.
trait Hosted: Send + Sync {
    fn spec(&self, name: String, sandbox: &Sandbox) -> ToolSpec;
    fn secrets(&self) -> SecretUse;
    fn class(&self) -> &'static str;
    fn group(&self) -> &'static str;
    fn pool(&self) -> Pool;
    fn effect(&self) -> Effect;
    fn check(&self, args: &Value) -> Result<Checked, ToolError>;
    fn objection(&self, args: &Value, caller: &Caller) -> Result<(), ToolError>;
    fn sight(&self, key: &str, args: &Value, caller: &Caller) -> Result<Sight, ToolError>;
    fn redact(&self, args: &Value) -> Option<Redaction>;
    fn stow(&self, values: &BTreeMap<String, String>, of: &Origin) -> Result<Stow, ToolError>;
    fn settled(&self, of: &Origin);
    fn call(
        self: Arc<Self>,
        args: Value,
        cx: ToolContext,
    ) -> BoxFuture<'static, Result<String, ToolError>>;
}

impl<T: Tool> Hosted for T {
    fn spec(&self, name: String, sandbox: &Sandbox) -> ToolSpec {
        let mut schema = schemars::schema_for!(T::Args);
        for key in ["$schema", "title", "description"] {
            schema.remove(key);
        }
        ToolSpec { name, description: self.description(sandbox), schema: schema.to_value() }
    }

    fn secrets(&self) -> SecretUse {
        SecretUse {
            tool: T::NAME,
            places: T::EXPANDS,
            paths: T::PATHS,
            refused: T::REFUSES_SECRETS,
        }
    }

    fn check(&self, args: &Value) -> Result<Checked, ToolError> {
        let args = parse::<T>(args)?;
        let asked = T::timeout(&args).unwrap_or(T::LIMITS.timeout);
        let limit =
            if T::WHOLE_TURN { LONGEST_TURN } else { asked.min(T::LIMITS.longest).min(LONGEST) };
        Ok(Checked::allowed(T::EFFECT, T::EXCLUSIVE, limit))
    }

    fn class(&self) -> &'static str {
        T::CLASS
    }

    fn group(&self) -> &'static str {
        T::GROUP
    }

    fn pool(&self) -> Pool {
        T::POOL
    }

    fn effect(&self) -> Effect {
        T::EFFECT
    }

    fn objection(&self, args: &Value, caller: &Caller) -> Result<(), ToolError> {
        Tool::objection(self, &parse::<T>(args)?, caller)
    }

    fn sight(&self, key: &str, args: &Value, caller: &Caller) -> Result<Sight, ToolError> {
        let args = parse::<T>(args)?;
        Ok(Sight {
            key: key.to_owned(),
            class: T::CLASS,
            effect: T::EFFECT,
            reaches: T::reaches(&args),
            caution: self.caution(&args, caller),
        })
    }

    fn redact(&self, args: &Value) -> Option<Redaction> {
        T::redact(args)
    }

    fn stow(&self, values: &BTreeMap<String, String>, of: &Origin) -> Result<Stow, ToolError> {
        Tool::stow(self, values, of)
    }

    fn settled(&self, of: &Origin) {
        Tool::settled(self, of);
    }

    fn call(
        self: Arc<Self>,
        mut args: Value,
        cx: ToolContext,
    ) -> BoxFuture<'static, Result<String, ToolError>> {
        let parsed = parse::<T>(&args);
        // They may hold values of the vault.
        expand::wipe(&mut args);
        Box::pin(async move { Tool::call(&*self, parsed?, &cx).await })
    }
}

fn parse<T: Tool>(args: &Value) -> Result<T::Args, ToolError> {
    let mut size = Counter(0);
    if serde_json::to_writer(&mut size, args).is_err() || size.0 > LARGEST_ARGUMENTS {
        return Err(ToolError::invalid("arguments are larger than 2 MiB"));
    }
    let parsed = serde_path_to_error::deserialize(args).map_err(|error| {
        let first = Misfit::of(error);
        let schema = schemars::schema_for!(T::Args).to_value();
        T::misfit(schema::misfits(&schema, args, first))
    })?;
    T::accept(&parsed).map_err(T::misfit)?;
    Ok(parsed)
}

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The tools of one team. Cheap to clone.
#[derive(Clone)]
pub struct TeamTools(Arc<Assembled>);

struct Assembled {
    set: Arc<Set>,
    /// Tools that only this team has.
    own: BTreeMap<String, Made>,
    /// Tools that only this team would have, and that it must not see.
    hidden: Vec<Made>,
    /// All tools that there are, by key.
    all: Arc<BTreeMap<&'static str, Arc<dyn Hosted>>>,
    specs: Arc<[ToolSpec]>,
    grant: Grant,
    pools: Pools,
}

impl TeamTools {
    /// What the operator's rules say to a call, for whoever wants to know before it is made.
    pub fn explain(
        &self,
        key: &str,
        args: &Value,
        subject: &Subject,
        caller: &Caller,
    ) -> Result<Judgement, ToolError> {
        let name = wire_name(key);
        let Some(made) = self.0.find(&name) else {
            let hidden = self.0.find_hidden(&name).ok_or_else(not_available)?;
            return Ok(self.0.explain_hidden(&hidden, args, subject, caller));
        };
        let sight = made.tool.sight(&made.key, args, caller)?;
        Ok(sight.judge(args, subject, &self.0.grant))
    }

    /// The same for one turn, with tools that remember what the turn did with them. They take the places of those of
    /// the same keys.
    pub fn with_own(&self, own: Vec<Made>) -> Arc<dyn Toolset> {
        let own = own.into_iter();
        Arc::new(TurnTools {
            own: own.map(|made| (wire_name(&made.key), made)).collect(),
            team: self.clone(),
        })
    }
}

struct TurnTools {
    team: TeamTools,
    own: BTreeMap<String, Made>,
}

impl Toolset for TurnTools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.team.specs()
    }

    fn clean(&self, call: &ToolCall) -> Option<Value> {
        self.team.0.clean(self.find(&call.name), call)
    }

    fn settled(&self, call: &CallId, tool: &str, caller: &Caller) {
        if let Some(made) = self.find(tool) {
            made.tool.settled(&origin(caller, call));
        }
    }

    fn check(&self, call: &ToolCall, caller: &Caller, label: Label) -> Result<Checked, ToolReply> {
        let tool = self.find(&call.name);
        self.team.0.check(tool, call, caller, label, Grants::Count)
    }

    fn recheck(
        &self,
        call: &ToolCall,
        caller: &Caller,
        label: Label,
    ) -> Result<Checked, ToolReply> {
        let tool = self.find(&call.name);
        self.team.0.check(tool, call, caller, label, Grants::Rest)
    }

    fn run(&self, call: ToolCall, cx: CallContext) -> BoxFuture<'static, ToolReply> {
        self.team.0.run(self.find(&call.name), call, cx)
    }
}

impl TurnTools {
    fn find(&self, name: &str) -> Option<&Made> {
        let found = self.team.0.find(name)?;
        Some(self.own.get(name).unwrap_or(found))
    }
}

impl Toolset for TeamTools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.0.specs)
    }

    fn clean(&self, call: &ToolCall) -> Option<Value> {
        self.0.clean(self.0.find(&call.name), call)
    }

    fn settled(&self, call: &CallId, tool: &str, caller: &Caller) {
        if let Some(made) = self.0.find(tool) {
            made.tool.settled(&origin(caller, call));
        }
    }

    fn check(&self, call: &ToolCall, caller: &Caller, label: Label) -> Result<Checked, ToolReply> {
        let tool = self.0.find(&call.name);
        self.0.check(tool, call, caller, label, Grants::Count)
    }

    fn recheck(
        &self,
        call: &ToolCall,
        caller: &Caller,
        label: Label,
    ) -> Result<Checked, ToolReply> {
        let tool = self.0.find(&call.name);
        self.0.check(tool, call, caller, label, Grants::Rest)
    }

    fn run(&self, call: ToolCall, cx: CallContext) -> BoxFuture<'static, ToolReply> {
        self.0.run(self.0.find(&call.name), call, cx)
    }
}

/// Whether a decision that was made in advance counts for a call, and is used by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grants {
    Count,
    Rest,
}

/// A tool, its arguments and what is known of the call.
type Admitted = (Arc<dyn Hosted>, Value, Checked);

impl Assembled {
    /// A tool that there is, and that the team cannot see.
    fn find_hidden(&self, name: &str) -> Option<Made> {
        let mut all = self
            .all
            .iter()
            .map(|(key, tool)| Made { key: (*key).to_owned(), tool: Arc::clone(tool) });
        let mut own = self.hidden.iter();
        let named = |made: &Made| wire_name(&made.key) == name;
        all.find(named).or_else(|| own.find(|made| named(made)).cloned())
    }

    /// The team has no such tool. If a rule hides it, that is written down.
    fn unavailable(&self, name: &str) -> ToolError {
        let rules = &self.grant.rules;
        let hidden = self.find_hidden(name);
        let hidden = hidden.filter(|made| self.grant.allowed.allows(&made.key));
        let rule = hidden.and_then(|made| {
            let (policy, team) = (rules.now(), self.grant.team.as_str());
            let rule = policy.forbidding(team, &made.key, made.tool.class(), rules.time());
            rule.map(str::to_owned)
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
        let class = made.tool.class();
        if !self.grant.allowed.allows(&made.key) {
            return Judgement {
                decision: Decision::Deny(By::ToolList),
                class,
                fitting: Vec::new(),
            };
        }
        let sight = made.tool.sight(&made.key, args, caller);
        let sight = sight.unwrap_or_else(|_| Sight {
            key: made.key.clone(),
            class,
            effect: made.tool.effect(),
            reaches: Vec::new(),
            caution: None,
        });
        sight.judge(args, subject, &self.grant)
    }

    fn find(&self, name: &str) -> Option<&Made> {
        self.own.get(name).or_else(|| self.set.tools.get(name))
    }

    /// The tool, its arguments and what is known of the call. A refusal is the call's result.
    fn admit(&self, tool: Option<&Made>, call: &ToolCall) -> Result<Admitted, ToolError> {
        let Made { tool, .. } = tool.ok_or_else(|| self.unavailable(&call.name))?;
        let args = match &call.args {
            Args::Json(args) => args.clone(),
            Args::Unreadable { reason, .. } => {
                return Err(ToolError::invalid(format!("arguments are not JSON: {reason}")));
            }
        };
        secrets::refuse(&tool.secrets(), &args, &self.grant)?;
        let checked = tool.check(&args)?;
        Ok((Arc::clone(tool), args, checked))
    }

    fn check(
        &self,
        tool: Option<&Made>,
        call: &ToolCall,
        caller: &Caller,
        label: Label,
        grants: Grants,
    ) -> Result<Checked, ToolReply> {
        let redaction = redaction(tool, call);
        // What is said of a call, in a refusal too, is said of it without its secrets.
        let clean = redaction
            .as_ref()
            .map(|redaction| ToolCall { args: Args::Json(redaction.args.clone()), ..call.clone() });
        let admitted = self.admit(tool, clean.as_ref().unwrap_or(call));
        let checked = admitted.and_then(|(hosted, args, checked)| {
            let (mut verdict, rule) = self.judge(tool, &args, caller, label)?;
            hosted.objection(&args, caller)?;
            let mut stow = None;
            if let Verdict::Ask(asking) = &mut verdict {
                asking.schema = self.form(&call.name);
                let granted = match (grants, &redaction) {
                    (Grants::Count, None) => self.granted(call, &args, caller, label, asking),
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
                stow = Some(hosted.stow(&values, &origin(caller, &call.id))?);
            }
            Ok(Checked {
                verdict,
                stow,
                lacks: secrets::lacking(&hosted.secrets(), &args, &self.grant),
                rule,
                ..checked
            })
        });
        checked.map_err(|error| reply(Err(error), &self.grant))
    }

    /// The arguments of a call without the values of secrets, if they hold any.
    fn clean(&self, tool: Option<&Made>, call: &ToolCall) -> Option<Value> {
        match (redaction(tool, call), &call.args) {
            (Some(Redaction { args, .. }), _) => {
                Some(secrets::clean(&args, &self.grant).unwrap_or(args))
            }
            (None, Args::Json(args)) => secrets::clean(args, &self.grant),
            (None, Args::Unreadable { .. }) => None,
        }
    }

    /// Stands for the form of a tool, as the model is told of it.
    fn form(&self, name: &str) -> String {
        let spec = self.specs.iter().find(|spec| spec.name == name);
        spec.map_or_else(String::new, |spec| sha256(spec.schema.to_string().as_bytes()))
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

    /// What the operator's rules say to the final arguments of a call.
    fn judge(
        &self,
        tool: Option<&Made>,
        args: &Value,
        caller: &Caller,
        label: Label,
    ) -> Result<(Verdict, Option<String>), ToolError> {
        let Made { key, tool } = tool.ok_or_else(not_available)?;
        let subject = Subject::of(&caller.cause, label);
        let sight = tool.sight(key, args, caller)?;
        sight.verdict(args, &subject, &caller.team, &self.grant)
    }

    /// The same for a call that is about to run, and what judges the places that it opens.
    fn opening(
        &self,
        tool: Option<&Made>,
        args: &Value,
        caller: &Caller,
        label: Label,
    ) -> Result<Option<Opening>, ToolError> {
        let Made { key, tool } = tool.ok_or_else(not_available)?;
        let subject = Subject::of(&caller.cause, label);
        let sight = tool.sight(key, args, caller)?;
        sight.verdict(args, &subject, &caller.team, &self.grant)?;
        Ok(Opening::of(sight, args, subject, &self.grant))
    }

    fn run(
        &self,
        tool: Option<&Made>,
        call: ToolCall,
        cx: CallContext,
    ) -> BoxFuture<'static, ToolReply> {
        // What a rule forbids since it was looked at does not run. Whoever was to be asked, was.
        let admitted = self.admit(tool, &call).and_then(|admitted| {
            let opening = self.opening(tool, &admitted.1, &cx.caller, cx.label)?;
            Ok((admitted, opening))
        });
        let (grant, pools) = (self.grant.clone(), self.pools.clone());
        Box::pin(async move {
            let started = Instant::now();
            let taints = Arc::new(AtomicBool::new(false));
            let (team, turn, tool) = (&grant.team, &cx.turn, &call.name);
            tracing::debug!(%team, %turn, %tool, call = %call.id, "tool call started");
            let result = match admitted {
                Ok(((hosted, args, checked), opening)) => {
                    let caller = &cx.caller.team.name;
                    let entered = pools.enter(caller, hosted.pool(), &cx.cancel);
                    let (slot, args) = match entered.await {
                        Ok(slot) => {
                            let uses = hosted.secrets();
                            let args = secrets::expand(&uses, args, &cx, &grant).await;
                            (Some(slot), args)
                        }
                        Err(error) => (None, Err(error)),
                    };
                    let cancel = CancellationToken::new();
                    let context = ToolContext {
                        team: grant.team.clone(),
                        caller: cx.caller.clone(),
                        label: cx.label,
                        step: cx.step,
                        key: cx.key.clone(),
                        call: call.id.clone(),
                        approved_by: cx.approved_by.clone(),
                        workspace: Arc::clone(&grant.workspace),
                        sandbox: Arc::clone(&grant.sandbox),
                        secrets: Arc::clone(&grant.secrets),
                        rerun: cx.rerun,
                        cancel: cancel.clone(),
                        taint: grant.taint.clone(),
                        opening: opening.map(Arc::new),
                        taints: taints.clone(),
                    };
                    let result = match args {
                        Ok(args) => {
                            let call = hosted.call(args, context).in_current_span();
                            let task = tokio::spawn(call);
                            Running::new(task, cancel).finish(checked.limit, &cx.cancel).await
                        }
                        Err(error) => Err(error),
                    };
                    drop(slot);
                    result
                }
                Err(error) => Err(error),
            };
            let mut reply = reply(result, &grant);
            reply.taints = taints.load(Ordering::Relaxed);
            let elapsed = started.elapsed();
            match reply.fault {
                None => tracing::debug!(%team, %turn, %tool, ?elapsed, "tool call ended"),
                Some(fault) => {
                    tracing::info!(%team, %turn, %tool, ?elapsed, fault = fault.as_str(), "tool call failed");
                }
            }
            tracing::trace!(%team, %turn, %tool, content = shortened(&reply.content), "tool result");
            reply
        })
    }
}

/// The arguments of a call without what its tool knows to be secrets.
fn redaction(tool: Option<&Made>, call: &ToolCall) -> Option<Redaction> {
    let made = tool?;
    match &call.args {
        Args::Json(args) => made.tool.redact(args),
        // Nobody knows what is in it.
        Args::Unreadable { .. } => made.tool.redact(&Value::Null),
    }
}

fn not_available() -> ToolError {
    ToolError::new(ToolFault::NotAvailable, "tool not available to this team")
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOGGED)]
}

/// Scrubs, then cuts: a secret that the cut would split must not pass in halves.
fn reply(result: Result<String, ToolError>, grant: &Grant) -> ToolReply {
    let (text, fault, rule) = match result {
        Ok(text) => (text, None, None),
        Err(error) => (error.message, Some(error.fault), error.rule),
    };
    let scrubber = grant.secrets.of(&grant.team);
    let (content, truncated) = cap::cap(scrubber.scrub(&text).into_owned());
    ToolReply { content, fault, truncated, taints: false, rule }
}

/// A tool at work on a task of its own, so that a panic ends the call and nothing else.
struct Running {
    task: JoinHandle<Result<String, ToolError>>,
    /// Stops the tool when the call is dropped: blocking work hears the token, the task is aborted.
    _stop: DropGuard,
    _abort: AbortOnDrop,
    cancel: CancellationToken,
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Running {
    fn new(task: JoinHandle<Result<String, ToolError>>, cancel: CancellationToken) -> Self {
        Self {
            _stop: cancel.clone().drop_guard(),
            _abort: AbortOnDrop(task.abort_handle()),
            task,
            cancel,
        }
    }

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
            Ok(joined) => match ended(joined) {
                Ok(text) => text,
                Err(error) => error.message,
            },
            Err(_) => String::new(),
        };
        Err(ToolError::new(fault, format!("{why}\n{so_far}").trim_end()))
    }
}

fn ended(joined: Result<Result<String, ToolError>, JoinError>) -> Result<String, ToolError> {
    joined.unwrap_or_else(|error| {
        tracing::error!(%error, "tool panicked");
        Err(ToolError::failed("the tool failed unexpectedly"))
    })
}
