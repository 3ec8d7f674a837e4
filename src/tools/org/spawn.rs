//! `spawn_team`: a new team below the caller.

use std::time::Duration;

use hivewright_actors::{
    clock::Timestamp,
    ids::{MAIN, TaskId, TeamName},
    org::{self, folders::FolderPlan, names, record::TeamRecord},
    policy::caution::{Caution, Kind as CautionKind, Risk},
    store::records::Writes,
    task::{Kind, Priority},
    tool::{Caller, Effect, Stow, records::Answer},
};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    credentials::redact,
    outgoing_task::{by, giver, outgoing_task},
};
use crate::{
    api::teams::NewTeam,
    settings::config::Config,
    teams::{
        creation::{BOOTSTRAP, WishError},
        credentials::{MOST, reference},
        service::{Parts, TeamService},
    },
    tools::{
        about::About,
        answer,
        contract::{Redaction, Tool, ToolContext},
        error::ToolError,
        filter::ToolFilter,
        grant::Grant,
        registry::Registry,
    },
    vault::{
        entry::is_key,
        escrow::{Origin, SecretValues},
    },
};

pub(super) struct SpawnTeam {
    pub(super) team_service: TeamService,
    /// The tools that the groups of its patterns are made of.
    pub(super) registry: Registry,
}

/// A team that is wanted. Who is above it is not the model's to say.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = for_models)]
pub(super) struct Args {
    #[serde(flatten)]
    team: NewTeam,
    /// Secrets by key, for its vault: put them nowhere else.
    #[serde(default)]
    credentials: SecretValues,
}

fn for_models(schema: &mut Schema) {
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    fields.remove("parent");
    if let Some(budgets) = fields.get_mut("budgets").and_then(Value::as_object_mut) {
        // A cap that is misspelt would be none.
        budgets.insert("additionalProperties".to_owned(), false.into());
        let caps = budgets.get_mut("properties").and_then(Value::as_object_mut);
        caps.into_iter().flat_map(Map::values_mut).for_each(without_words);
        budgets.remove("description");
    }
    for field in ["provider_profile", "sdk"] {
        fields.get_mut(field).into_iter().for_each(without_words);
    }
}

/// The name of a field says enough to a model; people are told more of it.
fn without_words(field: &mut Value) {
    if let Some(keywords) = field.as_object_mut() {
        keywords.remove("description");
    }
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

/// Why a team cannot be made as it is wanted, for a model.
fn unwanted(error: WishError) -> ToolError {
    match error {
        WishError::Field { field, reason } => {
            answer::refuse("invalid_input", format!("`{field}`: {reason}"))
        }
        WishError::Settings(found) => {
            ToolError::failed(format!("the settings cannot be used: {found}"))
        }
        WishError::Refused(error) => error.into(),
    }
}

/// The patterns that reach beyond what may be given without asking.
fn beyond<'a>(patterns: &'a [String], grantable: &[String], registry: Registry) -> Vec<&'a str> {
    let Ok(ceiling) = ToolFilter::parse(grantable, registry) else {
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
        let name = names::check_name(&args.team.name)?;
        // Only for where the first work goes: the record is the organisation's to make.
        let to_be = TeamRecord { name: name.clone(), ..TeamRecord::main(Timestamp::default()) };
        let mut bootstrap = outgoing_task(parts, cx, &to_be, Kind::Bootstrap, BOOTSTRAP.to_owned());
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
            name: args.team.name.clone(),
            parent: cx.caller.team.name.clone(),
            by: by(cx),
            scope: args.team.scope_accepts.clone(),
            limits: config.limits.tree(),
            plan: FolderPlan {
                config: args.team.file(&name, &config.defaults),
                context: args.team.init_context.clone(),
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
    const ABOUT: About = About::new("spawn_team", "@org", "org.spawn_team", Effect::Idempotent)
        .structural()
        .within(Duration::from_secs(60), Duration::from_secs(60));
    const DESCRIPTION: &'static str = "Makes a team below you, with folder, tools and vault of its \
        own; it sets itself up, then give it work. Unusual tools need the operator's consent.";
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        if args.team.scope_accepts.is_empty() {
            return Err("`scope_accepts`: name at least one keyword".to_owned());
        }
        if args.credentials.len() > MOST {
            return Err(format!("`credentials`: at most {MOST} are allowed"));
        }
        args.team.check_fields().map_err(|error| match error {
            WishError::Field { field, reason } => format!("`{field}`: {reason}"),
            other => other.to_string(),
        })
    }

    /// The main team gives what may be given; all else is for a person to decide, who sees the file.
    fn caution(&self, args: &Args, caller: &Caller) -> Option<Caution> {
        let ask = |why: String| Some(Caution::new(CautionKind::Spawn, Risk::Normal, why));
        let parts = self.team_service.parts();
        let held = parts.live.held().map(|held| held.config);
        let Some(config) = held.or_else(|| parts.live.config_now().ok()) else {
            return ask("the settings that say which tools may be given cannot be read".to_owned());
        };
        let (name, usual) = (TeamName::from(&*args.team.name), &config.defaults);
        let file = args.team.file(&name, usual);
        if caller.team.name.as_str() != MAIN {
            return ask(format!("team {} makes a team of its own:\n{file}", caller.team.name));
        }
        let tools = args.team.allowed_tools.as_ref().unwrap_or(&usual.allowed_tools);
        let more = beyond(tools, &usual.grantable_tools, self.registry);
        if more.is_empty() {
            return None;
        }
        ask(format!("{} is beyond `defaults.grantable_tools`:\n{file}", more.join(", ")))
    }

    fn redact(args: &Value) -> Option<Redaction> {
        redact(args)
    }

    fn stow(&self, values: &SecretValues, of: &Origin, _: &Grant) -> Result<Stow, ToolError> {
        let vault = &self.team_service.parts().credentials;
        // With its name, as long as that is one: it may be a value in the wrong place.
        for (key, value) in values.iter().filter(|(key, _)| is_key(key)) {
            let one = [(key.clone(), value.clone())].into();
            if let Err(error) = vault.check(&one) {
                let message = format!("`credentials.{key}`: {error}");
                return Err(answer::refuse(error.code(), message));
            }
        }
        Ok(vault.escrow(of, values)?)
    }

    fn settled(&self, of: &Origin, _: &Grant) {
        self.team_service.parts().credentials.release(of);
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.team_service.parts();
        if let Some(spawned) = parts.earlier::<Spawned>(cx, "").await? {
            return Ok(spawned.answer());
        }
        let config = args.team.check(&parts.live, &parts.plugins).await.map_err(unwanted)?;
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
    use crate::tools::REGISTRY;

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
            assert_eq!(beyond(&patterns, &grantable, REGISTRY), expected, "{patterns:?}");
        }
    }
}
