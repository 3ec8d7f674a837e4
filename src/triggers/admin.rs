//! Trigger administration: how teams and operators manage triggers. What it lets through, the scheduler decides.

use std::{sync::Arc, time::Duration};

use actix::{Addr, dev::ToEnvelope};
use hivewright_actors::{
    blocking,
    channel::records::ChannelRow,
    clock::{Clock, Timestamp},
    excerpt,
    ids::{MAIN, TeamKey, TeamName, TriggerId},
    org::{
        record::{Capability, TeamRecord, TeamState},
        view::OrgView,
    },
    scheduler::{
        Refusal, Scheduler,
        index::Board,
        manage::{Change, Create, Manage},
        ports::{Calendar, Expressions},
        records,
        run::Run,
        trigger::{
            Trigger, Which,
            config::Config,
            definition::Definition,
            validation::{Problem, Problems},
            webhook::{SecretRef, Webhook},
        },
        views::{Get, List, Listed},
    },
    store::{StoreHandle, reads::get},
    task::Source,
    tool::Caller,
};
use serde_json::{Map, Value, json};

use super::{form::Writer, preconditions::unknown_subagent};
use crate::{timezone::LocalTime, vault::reading::SecretSource};

/// An actor that does not answer in this time is in trouble.
const ASK_TIMEOUT: Duration = Duration::from_secs(20);
/// A shorter secret of a webhook can be guessed.
const SHORTEST_SECRET: usize = 24;

/// The subagents of a team, by name. May block.
pub type Subagents = Arc<dyn Fn(&TeamName) -> Vec<String> + Send + Sync>;

/// What managing triggers takes.
#[derive(Clone)]
pub struct Parts {
    pub scheduler: Addr<Scheduler>,
    pub store: StoreHandle,
    pub view: OrgView,
    pub clock: Arc<dyn Clock>,
    pub calendar: Arc<dyn Calendar>,
    pub expressions: Arc<dyn Expressions>,
    /// The zone of the settings.
    pub zone: LocalTime,
    /// Triggers to look at without waiting.
    pub board: Board,
    pub subagents: Subagents,
    pub secrets: Arc<dyn SecretSource>,
}

/// Where triggers are managed. Cheap to clone.
#[derive(Clone)]
pub struct TriggerAdmin(Arc<Parts>);

/// Who manages triggers.
#[derive(Clone, Copy)]
pub enum Author<'a> {
    /// A team, by its turn.
    Team(&'a Caller),
    /// An operator, by name.
    Operator(&'a str),
}

impl Author<'_> {
    fn name(&self) -> String {
        match self {
            Self::Team(caller) => caller.team.name.to_string(),
            Self::Operator(name) => format!("operator:{name}"),
        }
    }

    fn source(&self) -> Option<&Source> {
        match self {
            Self::Team(caller) => caller.source.as_ref(),
            Self::Operator(_) => None,
        }
    }

    fn is_operator(&self) -> bool {
        matches!(self, Self::Operator(_))
    }
}

/// A webhook that is on.
pub struct Hook {
    pub id: TriggerId,
    pub team: TeamKey,
    pub webhook: Webhook,
}

/// Why a trigger is not made, changed or removed.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerError {
    pub code: &'static str,
    /// Where, if it is about a field.
    pub field: Option<String>,
    pub message: String,
    /// More, by code.
    pub details: Option<Value>,
}

impl TriggerError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, field: None, message: message.into(), details: None }
    }
}

/// The first problem is the one to blame; the others are told with it.
impl From<Problems> for TriggerError {
    fn from(problems: Problems) -> Self {
        let field = problems.0.first().map(|first| first.field.clone());
        let field = field.filter(|field| !field.is_empty());
        Self { field, ..Self::new("invalid_input", problems.to_string()) }
    }
}

impl From<Problem> for TriggerError {
    fn from(problem: Problem) -> Self {
        Problems::from(problem).into()
    }
}

impl From<Refusal> for TriggerError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(problems) => problems.into(),
            refusal => Self::new(refusal.code(), refusal.to_string()),
        }
    }
}

impl TriggerAdmin {
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    pub fn parts(&self) -> &Parts {
        &self.0
    }
}

impl Parts {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Who fills in a form.
    pub fn writer<'a>(&'a self, author: &'a Author<'_>) -> Writer<'a> {
        self.writer_from(author.source(), author.is_operator())
    }

    fn writer_from<'a>(&'a self, source: Option<&'a Source>, is_operator: bool) -> Writer<'a> {
        let calendar = &*self.calendar;
        Writer { calendar, zone: self.zone.name(), now: self.now(), source, is_operator }
    }

    /// Under which the triggers of a team are kept, if the author may manage them.
    pub fn team(&self, author: &Author<'_>, name: &str) -> Result<TeamKey, TriggerError> {
        let tree = self.view.now();
        let unknown =
            || TriggerError::new("not_found", format!("`team`: there is no team `{name}`"));
        let team = tree.get(name).ok_or_else(unknown)?;
        if team.state == TeamState::Draining {
            let message = format!("team `{name}` is being shut down");
            return Err(TriggerError::new("team_draining", message));
        }
        let Author::Team(caller) = author else { return Ok(team.key()) };
        let own = caller.team == team.key();
        let is_parent = team.parent.as_ref() == Some(&caller.team.name);
        let may_own = name == MAIN || team.capabilities.contains(&Capability::Triggers);
        if is_parent || own && may_own {
            Ok(team.key())
        } else {
            Err(TriggerError::new(
                "not_authorized",
                format!(
                    "the triggers of team `{name}` are managed by its direct parent{}",
                    if own {
                        "; ask it, or let an operator give this team the capability `triggers`"
                    } else {
                        ""
                    }
                ),
            ))
        }
    }

    /// The same for looking: a team may always see its own.
    pub fn team_to_see(&self, author: &Author<'_>, name: &str) -> Result<TeamKey, TriggerError> {
        match author {
            Author::Team(caller) if caller.team.name.as_str() == name => Ok(caller.team.clone()),
            _ => self.team(author, name),
        }
    }

    /// Makes a trigger. A call that is made again after it took effect gives what it gave.
    pub async fn create(
        &self,
        author: &Author<'_>,
        team: TeamKey,
        form: &Map<String, Value>,
        enable: bool,
        rerun: bool,
    ) -> Result<Trigger, TriggerError> {
        let definition = self.writer(author).definition(form)?;
        self.check(&team, &definition, enable).await?;
        self.check_channel(author, &definition).await?;
        let which = Which::Named { team: team.clone(), name: definition.name.clone() };
        if rerun
            && let Some(made) = self.find(which).await?
            && made.trigger.definition == definition
            && made.trigger.created_by == author.name()
        {
            return Ok(made.trigger);
        }
        self.ask(Create { team, definition, enable, by: author.name() }).await
    }

    /// Changes a trigger: the fields of the form take the place of its own.
    pub async fn update(
        &self,
        author: &Author<'_>,
        which: Which,
        form: Map<String, Value>,
    ) -> Result<Trigger, TriggerError> {
        let present = self.known(which.clone()).await?.trigger;
        let definition = self.writer(author).changed(&present, &form)?;
        self.check(&present.team, &definition, present.is_active()).await?;
        // One that went away since is no reason to refuse another change.
        if definition.notify_channel != present.definition.notify_channel {
            self.check_channel(author, &definition).await?;
        }
        // Worked out again where nothing can come between.
        let (parts, source) = (self.clone(), author.source().cloned());
        let is_operator = author.is_operator();
        let change = Change::Define(Box::new(move |trigger: &Trigger| {
            parts.writer_from(source.as_ref(), is_operator).changed(trigger, &form)
        }));
        self.ask(Manage { which, change }).await
    }

    /// Lets a trigger fire from now on.
    pub async fn enable(&self, which: Which) -> Result<Trigger, TriggerError> {
        let present = self.known(which.clone()).await?.trigger;
        self.check(&present.team, &present.definition, true).await?;
        self.ask(Manage { which, change: Change::Enable }).await
    }

    /// The triggers of a team, or all.
    pub async fn list(&self, team: Option<TeamKey>) -> Result<Vec<Listed>, TriggerError> {
        self.scheduler.send(List { team }).timeout(ASK_TIMEOUT).await.map_err(|_| stopping())
    }

    pub async fn find(&self, which: Which) -> Result<Option<Listed>, TriggerError> {
        self.scheduler.send(Get { which }).timeout(ASK_TIMEOUT).await.map_err(|_| stopping())
    }

    /// A trigger that has to be there.
    pub async fn known(&self, which: Which) -> Result<Listed, TriggerError> {
        let named = match &which {
            Which::Named { team, name } => format!("team `{}` has no trigger `{name}`", team.name),
            Which::Id(_) => Refusal::NotFound.to_string(),
        };
        self.find(which).await?.ok_or_else(|| TriggerError::new("not_found", named))
    }

    /// The webhook of this name that is on, of a team that is there.
    pub async fn hook(&self, team: &TeamName, name: String) -> Result<Option<Hook>, TriggerError> {
        let tree = self.view.now();
        let team = tree.get(team.as_str()).filter(|team| team.state != TeamState::Draining);
        let Some(team) = team.map(TeamRecord::key) else { return Ok(None) };
        let found = self.find(Which::Named { team, name }).await?;
        Ok(found.filter(|found| found.trigger.is_active()).and_then(|found| {
            let Trigger { id, team, definition, .. } = found.trigger;
            match definition.config {
                Config::Webhook(webhook) => Some(Hook { id, team, webhook }),
                _ => None,
            }
        }))
    }

    /// Runs of a trigger, newest first.
    pub async fn runs(
        &self,
        team: TeamKey,
        trigger: TriggerId,
        before: Option<Timestamp>,
        most: usize,
    ) -> Result<Vec<Run>, TriggerError> {
        let read =
            self.store.read(move |storage| records::runs(storage, &team, &trigger, before, most));
        read.await.map_err(|error| TriggerError::new("internal", error.to_string()))
    }

    /// What only files and the vault can tell.
    async fn check(
        &self,
        team: &TeamKey,
        definition: &Definition,
        enable: bool,
    ) -> Result<(), TriggerError> {
        if let Some(subagent) = &definition.subagent {
            let (subagents, of) = (self.subagents.clone(), team.name.clone());
            let known = blocking::run(move || subagents(&of)).await;
            let known = known.unwrap_or_default();
            if let Some(problem) = unknown_subagent(&team.name, subagent, &known) {
                return Err(TriggerError {
                    code: "unknown_subagent",
                    details: Some(json!({ "known": known })),
                    ..problem.into()
                });
            }
        }
        let Config::Webhook(webhook) = &definition.config else { return Ok(()) };
        let secrets = &self.secrets;
        for (field, key) in [
            ("config.secret", Some(&webhook.secret)),
            ("config.secret_previous", webhook.secret_previous.as_ref()),
        ] {
            let Some(key) = key.map(SecretRef::key) else { continue };
            let reason = match secrets.secret(team, key) {
                None => format!(
                    "the vault of team `{0}` has no secret `{key}`; `hivewright vault set {key} --team {0}` sets it",
                    team.name
                ),
                Some(value) if value.len() < SHORTEST_SECRET => {
                    format!("the secret `{key}` has less than {SHORTEST_SECRET} bytes")
                }
                Some(_) => continue,
            };
            return Err(Problem::new(field, reason).into());
        }
        // The secret of the webhook itself is one already, so this holds for every webhook.
        if enable && !definition.allow_untrusted && secrets.has_secrets(team) {
            let message = format!(
                "what a webhook brings is not to be trusted, and team `{}` has secrets: an operator must set `allow_untrusted` before it can be enabled",
                team.name
            );
            return Err(TriggerError::new("not_approved", message));
        }
        Ok(())
    }

    /// What is told where nobody can be is lost. Where the author's own turn comes from, somebody is.
    async fn check_channel(
        &self,
        author: &Author<'_>,
        definition: &Definition,
    ) -> Result<(), TriggerError> {
        let Some(channel) = definition.notify_channel.clone() else { return Ok(()) };
        if author.source().is_some_and(|source| source.channel == channel) {
            return Ok(());
        }
        let id = channel.clone();
        let known = self.store.read(move |storage| get::<ChannelRow>(storage, &id));
        match known.await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                let reason = format!(
                    "there is no channel `{}`; one is there once something was said in it",
                    excerpt::line(channel.as_str(), 128)
                );
                Err(Problem::new("notify_channel", reason).into())
            }
            Err(error) => Err(TriggerError::new("internal", error.to_string())),
        }
    }

    /// Asks the scheduler, which decides.
    pub async fn ask<M, T>(&self, message: M) -> Result<T, TriggerError>
    where
        M: actix::Message<Result = Result<T, Refusal>> + Send + 'static,
        T: Send + 'static,
        Scheduler: actix::Handler<M>,
        <Scheduler as actix::Actor>::Context: ToEnvelope<Scheduler, M>,
    {
        Ok(self.scheduler.send(message).timeout(ASK_TIMEOUT).await.map_err(|_| stopping())??)
    }
}

fn stopping() -> TriggerError {
    Refusal::Stopping.into()
}
