//! `register_plugin_tool`, `deprecate_plugin_tool`, `remove_plugin_tool`: how a team looks after the tools that it wrote.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    excerpt,
    ids::TeamName,
    policy::caution::{Caution, Kind, Risk},
    text::quoted,
    tool::{Caller, Effect},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Declared, PluginTool, PluginTools, ToolStateError, run,
    verify::{self, Candidate, Refusal},
};
use crate::{
    plugins::written::{Check, Status, Verification},
    scrub::Scrubber,
    settings::{egress::Egress, network::HostPattern},
    system::sha256,
    tools::{
        about::About,
        answer,
        contract::{Tool, ToolContext, not_blank},
        error::ToolError,
        grant::Grant,
        made::tools,
        propose_change::difference,
    },
    vault::expand::BEGIN,
};

/// Loading, a sample that takes all its time, and what is written.
const LONGEST: Duration = Duration::from_secs(90);

tools! {
    /// For a team that may reach these hosts.
    pub fn made(tools: &PluginTools, egress: &Egress) {
        Deprecate(tools.clone()),
        Register { tools: tools.clone(), egress: egress.clone() },
        Remove(tools.clone()),
    }
}

#[derive(Clone)]
struct Register {
    tools: PluginTools,
    egress: Egress,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Registration {
    /// Lower-case letters, digits and `_`.
    tool_name: String,
    /// One JavaScript module, at most 64 KiB, without imports. It exports `description`, `inputSchema` (JSON Schema of an
    /// object) and `execute(input)`, and may export `effect` ("pure", "idempotent" or "irreversible"), `hosts` (an array of
    /// texts: where it may `fetch` from) and `timeoutMs`.
    source_code: String,
    /// Replaces a tool of that name.
    #[serde(default)]
    update: bool,
    /// `execute` is tried with it, without network.
    sample_input: Option<Value>,
}

impl Registration {
    fn candidate<'a>(&'a self, scrubber: &'a Scrubber) -> Candidate<'a> {
        Candidate { name: &self.tool_name, source: &self.source_code, scrubber }
    }
}

/// Whom a change is written down to.
fn by(cx: &ToolContext) -> String {
    format!("team {}, task {}", cx.caller.team.name, cx.caller.task)
}

fn changed(team: &TeamName, row: &PluginTool) -> String {
    answer::ok(json!({ "tool": run::key(team, &row.tool), "status": row.status }))
}

impl Register {
    /// The same source is in use already: an earlier try of the call came to its end.
    fn is_done(&self, args: &Registration, known: Option<&PluginTool>) -> bool {
        known.is_some_and(|row| {
            row.status == Status::Active && row.sha256 == sha256(args.source_code.as_bytes())
        })
    }

    /// Its name can be given.
    fn check_place(
        &self,
        args: &Registration,
        team: &TeamName,
        known: Option<&PluginTool>,
    ) -> Result<(), Refusal> {
        verify::check_name(&args.tool_name)?;
        if known.is_some_and(|row| row.status != Status::Removed && !args.update) {
            let message = format!("`{}` exists; pass `update: true`", args.tool_name);
            return Err(Refusal { check: "exists", message });
        }
        let room = self.tools.has_room(team, &args.tool_name);
        room.map_err(|error| Refusal { check: "room", message: error.to_string() })
    }

    /// The hosts that a team may not reach by itself.
    fn beyond<'a>(&self, hosts: &'a [String]) -> Vec<&'a str> {
        let allowed = &self.egress.allowed_domains;
        let is_within = |host: &str| {
            allowed.is_empty() || allowed.iter().any(|pattern: &HostPattern| pattern.covers(host))
        };
        hosts.iter().map(String::as_str).filter(|host| !is_within(host)).collect()
    }

    /// All checks, in the host of the team.
    async fn verify(
        &self,
        args: &Registration,
        team: &TeamName,
        scrubber: &Scrubber,
        cancel: &CancellationToken,
    ) -> Result<(Declared, Verification), ToolError> {
        let candidate = args.candidate(scrubber);
        let (hosts, sample) = (self.tools.hosts(), args.sample_input.as_ref());
        let mut verification = Verification::default();
        match candidate.verify(team, hosts, sample, cancel, &mut verification).await {
            Ok(declared) => Ok((declared, verification)),
            Err(refusal) => Err(self.refuse(args, refusal, verification)),
        }
    }

    fn refuse(&self, args: &Registration, refusal: Refusal, mut done: Verification) -> ToolError {
        let Refusal { check, message } = refusal;
        done.checks.push(Check { check: check.to_owned(), ok: false, message: message.clone() });
        let code = match check {
            "exists" | "room" => "conflict",
            _ => "verification_failed",
        };
        let tool = &args.tool_name;
        let fields = json!({ "tool": tool, "verification": verify::shown(&done) });
        answer::refuse_with(code, message, fields)
    }
}

impl Tool for Register {
    const ABOUT: About =
        About::new("register_plugin_tool", "@plugins", "plugin.register", Effect::Idempotent)
            .structural()
            .within(LONGEST, LONGEST)
            .tried_first()
            .refuses_secrets();
    const DESCRIPTION: &'static str = "Makes a tool of your team from JavaScript that you wrote. It is checked, then runs alone, without files and \
        with `fetch` to its `hosts`. A skill that lists it under `## Required Tools` has it, as `<team>__<tool>`. Secrets \
        only as `${vault:KEY}` in headers or body of a `fetch`.";
    type Args = Registration;

    /// What can be seen at once is refused before anybody is asked.
    fn objection(&self, args: &Registration, caller: &Caller) -> Result<(), ToolError> {
        let known = self.tools.find(&caller.team.name, &args.tool_name);
        if self.is_done(args, known.as_deref()) {
            return Ok(());
        }
        let scrubber = Scrubber::with(Vec::new());
        let looked = self
            .check_place(args, &caller.team.name, known.as_deref())
            .and_then(|()| args.candidate(&scrubber).look());
        looked.map(drop).map_err(|refusal| self.refuse(args, refusal, Verification::default()))
    }

    /// Nobody is shown code that does not load.
    fn examine(
        &self,
        args: Registration,
        caller: &Caller,
        grant: &Grant,
    ) -> BoxFuture<'static, Result<(), ToolError>> {
        let (this, team) = (self.clone(), caller.team.name.clone());
        let objection = self.objection(&args, caller);
        let is_done = self.is_done(&args, self.tools.find(&team, &args.tool_name).as_deref());
        let scrubber = grant.secrets.of(&team);
        Box::pin(async move {
            objection?;
            if is_done {
                return Ok(());
            }
            this.verify(&args, &team, &scrubber, &CancellationToken::new()).await.map(drop)
        })
    }

    fn caution(&self, args: &Registration, caller: &Caller) -> Option<Caution> {
        let team = &caller.team.name;
        let known = self.tools.find(team, &args.tool_name);
        if self.is_done(args, known.as_deref()) {
            return None;
        }
        let scrubber = Scrubber::with(Vec::new());
        // One that cannot be taken is refused anyway.
        let hosts = args.candidate(&scrubber).look().ok()?;
        let (beyond, secrets) = (self.beyond(&hosts), keys_in_source(&args.source_code));
        if beyond.is_empty() && secrets.is_empty() {
            return None;
        }
        let key = run::key(team, &args.tool_name);
        let mut why = format!("team {team} puts its own tool {key} into use");
        if !hosts.is_empty() {
            let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
            why.push_str(&format!(", which may send to {}", quoted(&hosts)));
        }
        if !secrets.is_empty() {
            let secrets: Vec<_> = secrets.iter().map(String::as_str).collect();
            why.push_str(&format!(", with the secrets {}", quoted(&secrets)));
        }
        let before = known.and_then(|row| self.tools.source_now(team, &row));
        let path = super::files::path(&args.tool_name);
        let shown = difference(&path, before.as_deref().unwrap_or_default(), &args.source_code);
        Some(Caution::new(Kind::Plugin, Risk::Normal, format!("{why}:\n{shown}")))
    }

    async fn call(&self, args: Registration, cx: &ToolContext) -> Result<String, ToolError> {
        let team = &cx.caller.team;
        let known = self.tools.find(&team.name, &args.tool_name);
        let key = run::key(&team.name, &args.tool_name);
        let told = |row: &PluginTool| {
            let verification = row.verification.clone().unwrap_or_default();
            let note =
                "a skill that names it under `## Required Tools` has it from its next load on";
            answer::ok(json!({
                "tool": key,
                "version": row.version,
                "verification": verify::shown(&verification),
                "note": note,
            }))
        };
        if let Some(row) = known.as_deref().filter(|row| self.is_done(&args, Some(row))) {
            return Ok(told(row));
        }
        self.check_place(&args, &team.name, known.as_deref())
            .map_err(|refusal| self.refuse(&args, refusal, Verification::default()))?;
        let scrubber = cx.grant.secrets.of(&team.name);
        let (declared, verification) =
            self.verify(&args, &team.name, &scrubber, &cx.cancel).await?;
        let by = by(cx);
        let (name, source) = (&args.tool_name, &args.source_code);
        let row = self.tools.adopt(team, name, source, declared, verification, &by).await?;
        Ok(told(&row))
    }
}

/// The keys of the vault that a source refers to. One that is written in pieces counts for nothing: it is not expanded
/// unless its entry names the host.
fn keys_in_source(source: &str) -> Vec<String> {
    let references = source.split(BEGIN).skip(1);
    let keys = references.map(|rest| rest.split(['}', '\n']).next().unwrap_or_default());
    keys.map(|key| excerpt::line(key, 128)).collect::<BTreeSet<_>>().into_iter().collect()
}

struct Deprecate(PluginTools);

#[derive(Debug, Deserialize, JsonSchema)]
struct Deprecation {
    tool_name: String,
    #[schemars(length(max = 1_000))]
    reason: String,
}

impl Tool for Deprecate {
    const ABOUT: About =
        About::new("deprecate_plugin_tool", "@plugins", "plugin.register", Effect::Idempotent)
            .structural()
            .refuses_secrets();
    const DESCRIPTION: &'static str =
        "Takes a tool that your team wrote out of use. Its source stays until it is removed.";
    type Args = Deprecation;

    fn accept(args: &Deprecation) -> Result<(), String> {
        not_blank("reason", &args.reason)
    }

    async fn call(&self, args: Deprecation, cx: &ToolContext) -> Result<String, ToolError> {
        let team = &cx.caller.team.name;
        let row = self.0.deprecate(team, &args.tool_name, args.reason.trim(), &by(cx)).await?;
        Ok(changed(team, &row))
    }
}

struct Remove(PluginTools);

#[derive(Debug, Deserialize, JsonSchema)]
struct Removal {
    tool_name: String,
}

impl Tool for Remove {
    const ABOUT: About =
        About::new("remove_plugin_tool", "@plugins", "plugin.register", Effect::Idempotent)
            .structural();
    const DESCRIPTION: &'static str =
        "Removes a tool that your team wrote, with its source. It must be deprecated first.";
    type Args = Removal;

    async fn call(&self, args: Removal, cx: &ToolContext) -> Result<String, ToolError> {
        let team = &cx.caller.team.name;
        let row = self.0.remove(team, &args.tool_name, &by(cx)).await?;
        Ok(changed(team, &row))
    }
}

impl From<ToolStateError> for ToolError {
    fn from(error: ToolStateError) -> Self {
        let code = match &error {
            ToolStateError::Unknown(_) => "not_found",
            ToolStateError::Conflict { .. } | ToolStateError::TooMany => "conflict",
            ToolStateError::Files(_) | ToolStateError::Store(_) => "tool_failed",
        };
        answer::refuse(code, error.to_string())
    }
}
