//! `spawn_team`: a new team below the caller.

use std::{collections::BTreeMap, time::Duration};

use hivewright_actors::{
    budget::Caps,
    clock::Timestamp,
    ids::{MAIN, TaskId, TeamName},
    org::{self, folders::FolderPlan, names, record::TeamRecord, tree::By},
    policy::caution::{Caution, Kind as CautionKind, Risk},
    store::records::Writes,
    task::{Kind, Priority},
    tool::{Caller, Effect, Stow, records::Answer},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    credentials::{MOST, redact, reference},
    errand::{errand, giver},
    office::{Office, Parts, no},
};
use crate::{
    api::teams::NewTeam,
    settings::config::Config,
    teams::creation::{BOOTSTRAP, WishError},
    tools::{
        answer,
        contract::{Limits, Pool, Redaction, Tool, ToolContext, ToolError},
        filter::ToolFilter,
    },
    vault::{aside::Origin, entry::is_key},
};

pub(super) struct SpawnTeam(pub(super) Office);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Its name: lower-case words with `-` between them, 2 to 48 characters.
    name: String,
    /// What it is for, in a sentence or two, for people and other teams. At most 500 characters.
    #[serde(default)]
    description: String,
    /// Words for what it takes on, at least one.
    scope_accepts: Vec<String>,
    /// What it should know from the start: purpose, ways of working, where things are. At most
    /// 20,000 characters.
    #[serde(default)]
    init_context: Option<String>,
    /// Secrets of the new team by key. They go into its vault; nobody sees them again.
    #[serde(default)]
    credentials: BTreeMap<String, String>,
    /// Tools by name, pattern or group; left out, it gets the usual ones. More than those needs an
    /// operator's consent.
    #[serde(default)]
    allowed_tools: Option<Vec<String>>,
    /// What answers for it.
    #[serde(default, rename = "sdk")]
    _sdk: Option<SdkName>,
    /// The profile of its model; left out, the default one.
    #[serde(default)]
    provider_profile: Option<String>,
    /// What it and all teams below it may spend.
    #[serde(default)]
    budgets: Option<Budgets>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SdkName {
    /// The configured models, with the tools of Hivewright.
    Native,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Budgets {
    /// US dollars a day.
    #[serde(default)]
    usd_per_day: Option<f64>,
    /// Tokens a day.
    #[serde(default)]
    tokens_per_day: Option<u64>,
    /// US dollars for one task with all it leads to.
    #[serde(default)]
    usd_per_task: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Spawned {
    team: TeamName,
    bootstrap_task_id: TaskId,
    with_credentials: bool,
}

impl Spawned {
    fn answer(&self) -> String {
        let team = &self.team;
        let mut fields = json!({
            "status": "queued",
            "team": team,
            "bootstrap_task_id": self.bootstrap_task_id,
            "message_for_user": format!("Team {team} is being set up. You will hear when it is ready."),
        });
        if self.with_credentials {
            fields["note"] = json!(
                "The credentials are in the team's vault now. Do not repeat them, here or anywhere else; \
                 name them by their keys."
            );
        }
        answer::ok(fields)
    }
}

impl Args {
    /// What is wanted, without secrets.
    fn wish(&self) -> NewTeam {
        let budgets = self.budgets.map(|budgets| Caps {
            usd_per_day: budgets.usd_per_day,
            tokens_per_day: budgets.tokens_per_day,
            usd_per_task: budgets.usd_per_task,
        });
        NewTeam {
            name: self.name.clone(),
            parent: None,
            description: self.description.clone(),
            scope_accepts: self.scope_accepts.clone(),
            init_context: self.init_context.clone(),
            allowed_tools: self.allowed_tools.clone(),
            provider_profile: self.provider_profile.clone(),
            budgets,
        }
    }
}

/// Why a team cannot be made as it is wanted, for a model.
fn unwanted(error: WishError) -> ToolError {
    match error {
        WishError::Field { field, reason } => {
            answer::refuse("invalid_input", format!("`{field}`: {reason}"))
        }
        WishError::Settings(found) => {
            ToolError::failed(format!("the settings cannot be used: {found}"))
        }
        WishError::Refused(error) => no(error),
    }
}

/// The patterns that reach beyond what may be given without asking.
fn beyond<'a>(patterns: &'a [String], grantable: &[String]) -> Vec<&'a str> {
    let Ok(ceiling) = ToolFilter::parse(grantable) else {
        return patterns.iter().map(String::as_str).collect();
    };
    patterns
        .iter()
        .map(String::as_str)
        .filter(|pattern| !pattern.starts_with('!') && !ceiling.covers(pattern))
        .collect()
}

impl SpawnTeam {
    /// The order that makes the team, and the answer to whoever asked for it.
    fn spawn(
        parts: &Parts,
        args: &Args,
        config: &Config,
        cx: &ToolContext,
    ) -> Result<(org::Spawn, Spawned), ToolError> {
        let name = names::check_name(&args.name).map_err(no)?;
        // Only for where the first work goes: the record is the organisation's to make.
        let to_be = TeamRecord { name: name.clone(), ..TeamRecord::main(Timestamp::default()) };
        let mut bootstrap = errand(parts, cx, &to_be, Kind::Bootstrap, BOOTSTRAP.to_owned());
        bootstrap.lane.topic = None;
        bootstrap.priority = Priority::Critical;
        let spawned = Spawned {
            team: name.clone(),
            bootstrap_task_id: bootstrap.id.clone(),
            with_credentials: !args.credentials.is_empty(),
        };
        let keys: Vec<String> = args.credentials.keys().cloned().collect();
        let beside: Option<org::Beside> = (!keys.is_empty()).then(|| {
            let (vault, of) = (parts.credentials.clone(), cx.origin());
            let hand_over: org::Beside = Box::new(move |team| vault.hand_over(&of, keys, team));
            hand_over
        });
        let spawn = org::Spawn {
            name: args.name.clone(),
            parent: cx.caller.team.name.clone(),
            by: By::Team(cx.caller.team.name.clone()),
            scope: args.scope_accepts.clone(),
            limits: config.limits.tree(),
            plan: FolderPlan {
                config: args.wish().file(&name, &config.defaults.allowed_tools),
                context: args.init_context.clone(),
            },
            bootstrap,
            giver: Some(giver(cx, BOOTSTRAP)),
            writes: Writes::new().put_at(&cx.key, &Answer(&spawned)),
            beside,
        };
        Ok((spawn, spawned))
    }
}

impl Tool for SpawnTeam {
    const NAME: &'static str = "spawn_team";
    const GROUP: &'static str = "@org";
    const POOL: Pool = Pool::Structural;
    const DESCRIPTION: &'static str = "Makes a new team below you, with a folder, tools and a vault of its own. It sets itself \
        up first; give it work with `delegate_task`. Put secrets into `credentials`, nowhere else.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = true;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(60));
    const CLASS: &'static str = "org.spawn_team";
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn accept(args: &Args) -> Result<(), String> {
        if args.scope_accepts.is_empty() {
            return Err("`scope_accepts`: name at least one keyword".to_owned());
        }
        if args.credentials.len() > MOST {
            return Err(format!("`credentials`: at most {MOST} are allowed"));
        }
        args.wish().check_fields().map_err(|error| match error {
            WishError::Field { field, reason } => format!("`{field}`: {reason}"),
            other => other.to_string(),
        })
    }

    /// The main team gives what may be given; all else is for a person to decide, who sees the file.
    fn caution(&self, args: &Args, caller: &Caller) -> Option<Caution> {
        let ask = |why: String| Some(Caution::new(CautionKind::Spawn, Risk::Normal, why));
        let parts = self.0.parts();
        let held = parts.live.held().map(|held| held.config);
        let Some(config) = held.or_else(|| parts.live.config_now().ok()) else {
            return ask("the settings that say which tools may be given cannot be read".to_owned());
        };
        let (name, usual) = (TeamName::from(args.name.as_str()), &config.defaults.allowed_tools);
        let file = args.wish().file(&name, usual);
        if caller.team.name.as_str() != MAIN {
            return ask(format!("team {} makes a team of its own:\n{file}", caller.team.name));
        }
        let tools = args.allowed_tools.as_ref().unwrap_or(usual);
        let more = beyond(tools, &config.defaults.grantable_tools);
        if more.is_empty() {
            return None;
        }
        ask(format!("{} is beyond `defaults.grantable_tools`:\n{file}", more.join(", ")))
    }

    fn redact(args: &Value) -> Option<Redaction> {
        redact(args)
    }

    fn stow(&self, values: &BTreeMap<String, String>, of: &Origin) -> Result<Stow, ToolError> {
        let vault = &self.0.parts().credentials;
        // With its name, as long as that is one: it may be a value in the wrong place.
        for (key, value) in values.iter().filter(|(key, _)| is_key(key)) {
            let one = [(key.clone(), value.clone())].into();
            if let Err(error) = vault.check(&one) {
                let message = format!("`credentials.{key}`: {error}");
                return Err(answer::refuse(error.code(), message));
            }
        }
        Ok(vault.put_aside(of, values)?)
    }

    fn settled(&self, of: &Origin) {
        self.0.parts().credentials.release(of);
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if let Some(spawned) = parts.earlier::<Spawned>(cx, "").await? {
            return Ok(spawned.answer());
        }
        let config = args.wish().check(&parts.live).await.map_err(unwanted)?;
        // The values were taken out before the call was written down.
        if let Some((key, _)) =
            args.credentials.iter().find(|(key, value)| **value != reference(key))
        {
            return Err(answer::refuse(
                "invalid_input",
                format!("`credentials.{key}`: the value could not be kept; try again"),
            ));
        }
        let (spawn, spawned) = Self::spawn(parts, &args, &config, cx)?;
        parts.ask(spawn).await?;
        Ok(spawned.answer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OR-62, TO-46
    #[test]
    fn tools_beyond_the_ceiling_are_found() {
        let grantable = ["@files", "@org", "web_*", "!write"].map(ToOwned::to_owned);
        let table: [(&[&str], &[&str]); 8] = [
            (&["@files"], &["@files"]),
            (&["read", "edit"], &[]),
            (&["write"], &["write"]),
            (&["@org", "web_fetch", "!bash"], &[]),
            (&["web_*"], &[]),
            (&["@shell"], &["@shell"]),
            (&["*"], &["*"]),
            (&["we*"], &["we*"]),
        ];

        for (patterns, expected) in table {
            let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
            assert_eq!(beyond(&patterns, &grantable), expected, "{patterns:?}");
        }
    }
}
