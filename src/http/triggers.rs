//! `/api/v1/triggers`: what starts work without a person typing.

use std::{borrow::Cow, collections::BTreeMap};

use actix_web::{HttpRequest, http::StatusCode, web};
use hivewright_actors::{
    ids::{TeamKey, TriggerId},
    org::record::TeamRecord,
    scheduler::{
        hand::{ByHand, Fire, Overlap},
        manage::{Disable, Listed, SetCursors, Which},
        records,
        run::Cause,
        trigger::Trigger,
    },
    store::reads::{Range, get},
    task,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    State,
    arguments::{Caller, Json, Operate},
    error::ApiError,
    listing::{self, Gathering},
    operation::{Field, Operation},
    reply::{Accepted, Created, Data, Done, Rows},
    routes::{Resource, at},
};
use crate::api::endpoint::Empty;
use crate::triggers::{
    desk::{Author, DeskError, Parts},
    preview::{self, Preview},
    show::{self, Shown, ShownRun},
};

/// A key that callers may give so that the same request makes no second task.
const KEY: &str = "idempotency-key";

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/triggers")
            .get(
                Operation::new("Lists triggers: what starts work without a person typing.")
                    .query(
                        const {
                            &[
                                Field::text("team", "Only of this team."),
                                Field::text("state", "Only in this state."),
                                Field::text("type", "Only of this type."),
                                Field::text("subagent", "Only those for this subagent."),
                                Field::text("q", "Only with this in name or task."),
                            ]
                        },
                    )
                    .pages(&["name", "team", "next_due_at", "last_fired_at", "created_at"])
                    .refuses(&[503]),
                list,
            )
            .post(
                Operation::new("Makes a trigger.").refuses(&[404, 409, 503]).example(
                    r#"{"team": "main", "name": "morning", "type": "schedule", "config": {"cron": "0 8 * * *"}, "task": "Sum up the night.", "enable": true}"#,
                ),
                create,
            ),
        at("/api/v1/triggers/preview").post(
            Operation::new("Says what a trigger would do: its next times, or whether a sample fits.")
                .refuses(&[503])
                .example(r#"{"type": "schedule", "config": {"cron": "0 8 * * *"}}"#),
            look,
        ),
        at("/api/v1/triggers/{id}/enable").post(
            Operation::new("Lets a trigger fire.").refuses(&[409, 503]),
            enable,
        ),
        at("/api/v1/triggers/{id}/disable").post(
            Operation::new("Lets a trigger fire no more.")
                .refuses(&[409, 503])
                .example(r#"{"reason": "holidays"}"#),
            disable,
        ),
        at("/api/v1/triggers/{id}/run").post(
            Operation::new("Fires a trigger now, whatever its state.")
                .refuses(&[409, 503])
                .example(r#"{"overlap_policy": "skip"}"#),
            run,
        ),
        at("/api/v1/triggers/{id}/runs").get(
            Operation::new("Lists what became of the times at which a trigger fired.")
                .query(const { &[Field::moment("before", "Only those fired before.")] })
                .pages(&["-fired_at"])
                .refuses(&[503]),
            history,
        ),
        at("/api/v1/triggers/{id}/cursors").put(
            Operation::new("Sets what the next run goes on from.")
                .refuses(&[409, 503])
                .example(r#"{"cursors": {"last_id": "42"}}"#),
            set_cursors,
        ),
        at("/api/v1/triggers/{id}")
            .get(Operation::new("Shows a trigger.").refuses(&[503]), show_one)
            .patch(
                Operation::new("Changes a trigger.")
                    .description(
                        "`config` is merged field by field, and null clears. `team` and `enable` \
                         cannot be changed here.",
                    )
                    .refuses(&[409, 503])
                    .example(r#"{"config": {"cron": "0 9 * * *"}}"#),
                change,
            )
            .delete(Operation::new("Deletes a trigger.").refuses(&[409, 503]), remove),
    ]
}

/// A trigger as an operator writes it. Read field by field where it is used, so that null and absent
/// stay apart.
#[derive(Deserialize)]
#[serde(transparent)]
struct Form(Map<String, Value>);

/// What a trigger may be written with.
#[derive(JsonSchema)]
#[schemars(rename = "TriggerForm")]
#[allow(dead_code, reason = "says what the fields of a form are")]
struct Shape {
    /// Whose it is. Needed for a new one.
    team: Option<String>,
    /// Needed for a new one.
    name: Option<String>,
    /// `schedule`, `keyword`, `message`, `window` or `webhook`. Needed for a new one.
    r#type: Option<String>,
    /// What makes it fire. Needed for a new one.
    #[schemars(with = "Option<Map<String, Value>>")]
    config: Option<Value>,
    /// What is to be done. Needed for a new one.
    task: Option<String>,
    /// It fires from the start.
    enable: Option<bool>,
    subagent: Option<String>,
    max_steps: Option<u32>,
    /// `high`, `normal` or `low`.
    priority: Option<String>,
    /// A duration such as `1h`.
    deadline: Option<String>,
    overlap_policy: Option<String>,
    missed: Option<String>,
    failure_threshold: Option<u32>,
    /// A duration such as `10m`.
    cooldown: Option<String>,
    notify: Option<String>,
    notify_channel: Option<String>,
    notify_topic: Option<String>,
    #[schemars(with = "Option<Map<String, Value>>")]
    quiet: Option<Value>,
    allow_untrusted: Option<bool>,
}

impl JsonSchema for Form {
    fn schema_name() -> Cow<'static, str> {
        Shape::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Shape::json_schema(generator)
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TriggerOff")]
struct Off {
    reason: Option<String>,
    /// Work that it started is cancelled.
    #[serde(default)]
    cancel_running: bool,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TriggerStart")]
struct Start {
    #[schemars(range(min = 1, max = 500))]
    max_steps: Option<u32>,
    /// `allow`, which is usual, `confirm`, `skip` or `replace`.
    overlap_policy: Option<String>,
    /// A message that it is to be fired with.
    sample: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TriggerSketch")]
struct Sketch {
    r#type: String,
    #[schemars(with = "Map<String, Value>")]
    config: Map<String, Value>,
    /// A message that might fire it.
    sample: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TriggerCursors")]
struct Cursors {
    cursors: BTreeMap<String, String>,
}

impl From<DeskError> for ApiError {
    fn from(error: DeskError) -> Self {
        let DeskError { code, field, message, .. } = error;
        let status = match code {
            "not_found" => StatusCode::NOT_FOUND,
            "name_taken" | "name_reserved" | "limit_triggers" | "not_approved" => {
                StatusCode::CONFLICT
            }
            "queue_full" => return Self::rate_limited(message),
            "disk_full" => return Self::disk_full(),
            "busy" => return Self::draining(),
            // It may have begun before.
            "draining" => return Self::draining().unsure(),
            "internal" => return Self::internal(message),
            _ => StatusCode::BAD_REQUEST,
        };
        let refusal = Self::new(status, code, message);
        match field {
            Some(field) => refusal.about(field),
            None => refusal,
        }
    }
}

fn id(path: &web::Path<String>) -> Which {
    Which::Id(TriggerId::from(path.as_str()))
}

/// The desk, if the trigger is of a team that the caller reaches.
async fn stand<'a>(
    state: &'a State,
    caller: &Caller<Operate>,
    path: &web::Path<String>,
) -> Result<(&'a Parts, Trigger), ApiError> {
    let desk = state.desk.parts();
    let trigger = desk.known(id(path)).await?.trigger;
    if caller.reaches(trigger.team.name.as_str()) {
        Ok((desk, trigger))
    } else {
        Err(ApiError::not_found("there is no such trigger"))
    }
}

async fn list(state: web::Data<State>, caller: Caller<Operate>) -> Result<Rows<Shown>, ApiError> {
    state.desk.parts();
    let query = &caller.query;
    let page = query.page()?;
    let word = query.text("q").map(str::to_lowercase);
    let wanted =
        ["team", "state", "type", "subagent"].map(|field| query.text(field).map(str::to_owned));
    let teams = caller.principal.teams().map(<[String]>::to_vec);
    let fits = move |trigger: &Trigger, shown: &Shown| {
        let definition = &trigger.definition;
        let team = trigger.team.name.as_str();
        let holds = |word: &String| {
            definition.name.contains(word.as_str()) || definition.task.to_lowercase().contains(word)
        };
        let found = [
            Some(team),
            shown.state.as_str(),
            Some(definition.config.type_name()),
            definition.subagent.as_deref(),
        ];
        let is = |(wanted, found): (&Option<String>, Option<&str>)| {
            wanted.is_none() || wanted.as_deref() == found
        };
        teams.as_ref().is_none_or(|teams| teams.iter().any(|name| name == team))
            && wanted.iter().zip(found).all(is)
            && word.as_ref().is_none_or(holds)
    };
    let rows = state.spine.store.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        Range::<Trigger>::all().for_each(storage, &mut |trigger| {
            let shown = show::trigger(&trigger);
            if fits(&trigger, &shown) {
                let place = serde_json::to_value(shown).unwrap_or_default();
                let place = place.get(page.sort.field).cloned().unwrap_or_default();
                gathering.see_by(place, &records::name(&trigger));
            }
        })?;
        gathering.rows(&page, |name| {
            let Some(trigger) = get::<Trigger>(storage, name)? else {
                return Ok(None);
            };
            let last_run = records::runs(storage, &trigger.team, &trigger.id, None, 1)?.pop();
            Ok(Some(show::listed(&Listed { trigger, last_run })))
        })
    });
    rows.await.map_err(ApiError::internal)
}

async fn create(
    state: web::Data<State>,
    caller: Caller<Operate>,
    Json(Form(mut form)): Json<Form>,
) -> Result<Created<Shown>, ApiError> {
    let desk = state.desk.parts();
    let team = match form.remove("team") {
        Some(Value::String(team)) => team,
        Some(_) => return Err(ApiError::invalid_field("team", "expected text")),
        None => return Err(ApiError::invalid_field("team", "is missing")),
    };
    caller.team(&team)?;
    let enable = match form.remove("enable") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(enable)) => enable,
        Some(_) => return Err(ApiError::invalid_field("enable", "expected true or false")),
    };
    let author = Author::Operator(caller.principal.id().as_str());
    let team = desk.team(&author, &team)?;
    let made = desk.create(&author, team, &form, enable, false).await?;
    caller.names(made.id.as_str());
    Ok(Created(with_times(desk, &made, show::trigger(&made))))
}

/// A trigger with its next times in its own zone.
fn with_times(desk: &Parts, trigger: &Trigger, mut shown: Shown) -> Shown {
    shown.next_due = Some(desk.next_times(trigger, 3));
    shown
}

async fn show_one(
    state: web::Data<State>,
    caller: Caller<Operate>,
    path: web::Path<String>,
) -> Result<Data<Shown>, ApiError> {
    let (desk, _) = stand(&state, &caller, &path).await?;
    let listed = desk.known(id(&path)).await?;
    let shown = show::listed(&listed);
    Ok(Data(with_times(desk, &listed.trigger, shown)))
}

async fn change(
    state: web::Data<State>,
    caller: Caller<Operate>,
    path: web::Path<String>,
    Json(Form(form)): Json<Form>,
) -> Result<Data<Shown>, ApiError> {
    let (desk, _) = stand(&state, &caller, &path).await?;
    if let Some(fixed) = ["team", "enable"].into_iter().find(|name| form.contains_key(*name)) {
        let reason = match fixed {
            "team" => "cannot change; create another trigger",
            _ => "use `/enable` and `/disable`",
        };
        return Err(ApiError::invalid_field(fixed, reason));
    }
    let author = Author::Operator(caller.principal.id().as_str());
    let changed = desk.update(&author, id(&path), form).await?;
    Ok(Data(with_times(desk, &changed, show::trigger(&changed))))
}

async fn remove(
    state: web::Data<State>,
    caller: Caller<Operate>,
    path: web::Path<String>,
) -> Result<Done, ApiError> {
    let (desk, _) = stand(&state, &caller, &path).await?;
    desk.delete(id(&path)).await?;
    Ok(Done)
}

async fn enable(
    state: web::Data<State>,
    caller: Caller<Operate>,
    path: web::Path<String>,
    Json(Empty {}): Json<Empty>,
) -> Result<Data<Shown>, ApiError> {
    let (desk, _) = stand(&state, &caller, &path).await?;
    let enabled = desk.enable(id(&path)).await?;
    Ok(Data(with_times(desk, &enabled, show::trigger(&enabled))))
}

async fn disable(
    state: web::Data<State>,
    caller: Caller<Operate>,
    path: web::Path<String>,
    Json(off): Json<Off>,
) -> Result<Data<Shown>, ApiError> {
    let (desk, _) = stand(&state, &caller, &path).await?;
    let by = format!("disabled by operator {}", caller.principal.id());
    let disabled = desk.disable(Disable {
        which: id(&path),
        reason: off.reason.unwrap_or(by),
        cancel_running: off.cancel_running,
    });
    Ok(Data(show::trigger(&disabled.await?)))
}

async fn run(
    state: web::Data<State>,
    caller: Caller<Operate>,
    request: HttpRequest,
    path: web::Path<String>,
    Json(start): Json<Start>,
) -> Result<Accepted<ShownRun>, ApiError> {
    let (desk, _) = stand(&state, &caller, &path).await?;
    let key = match request.headers().get(KEY).map(|value| value.to_str()) {
        Some(Ok(key)) => key.to_owned(),
        _ => format!("{:016x}", getrandom::u64().map_err(ApiError::internal)?),
    };
    if start.max_steps.is_some_and(|steps| !(1..=500).contains(&steps)) {
        return Err(ApiError::invalid_field("max_steps", "is not 1-500"));
    }
    let overlap = match start.overlap_policy.as_deref() {
        None | Some("allow") => Overlap::Allow,
        Some("confirm") => Overlap::Confirm,
        Some("skip") => Overlap::Skip,
        Some("replace") => Overlap::Replace,
        Some(_) => {
            let reason = "expected one of `allow`, `confirm`, `skip`, `replace`";
            return Err(ApiError::invalid_field("overlap_policy", reason));
        }
    };
    let fired = desk.fire(Fire {
        which: id(&path),
        cause: Cause::Manual,
        key,
        max_steps: start.max_steps,
        overlap,
        sample: start.sample,
        principal: task::Cause::Operator { name: caller.principal.id().to_string() },
        source: None,
        turn: None,
    });
    match fired.await? {
        ByHand::Fired(answer) => {
            let mut shown = show::run(&answer.run);
            shown.duplicate_of = answer.first.map(|first| first.to_string());
            Ok(Accepted(shown))
        }
        ByHand::NeedsConfirmation(task) => {
            Err(ApiError::conflict(format!("its task {task} is unfinished; give `overlap_policy`")))
        }
    }
}

async fn history(
    state: web::Data<State>,
    caller: Caller<Operate>,
    path: web::Path<String>,
) -> Result<Rows<ShownRun>, ApiError> {
    let page = caller.query.page()?;
    let before = caller.query.moment("before", state.access.auth.now());
    let trigger = TriggerId::from(path.as_str());
    let team = match stand(&state, &caller, &path).await {
        Ok((_, trigger)) => trigger.team,
        // One that was deleted leaves its runs.
        Err(missing) => match left_by(&state, &caller, &trigger).await? {
            Some(team) => team,
            None => return Err(missing),
        },
    };
    let range = records::runs_of(&team, &trigger, before);
    let rows = state
        .spine
        .store
        .read(move |storage| listing::scan(storage, range, &page, |_, run| Some(show::run(&run))));
    rows.await.map_err(ApiError::internal)
}

/// The team whose trigger left runs, if the caller reaches it.
async fn left_by(
    state: &State,
    caller: &Caller<Operate>,
    trigger: &TriggerId,
) -> Result<Option<TeamKey>, ApiError> {
    let tree = state.desk.parts().view.now();
    let teams: Vec<TeamKey> = tree
        .iter()
        .filter(|team| caller.reaches(team.name.as_str()))
        .map(TeamRecord::key)
        .collect();
    let id = trigger.clone();
    let found = state.spine.store.read(move |storage| {
        for team in teams {
            if !records::runs(storage, &team, &id, None, 1)?.is_empty() {
                return Ok(Some(team));
            }
        }
        Ok(None)
    });
    found.await.map_err(ApiError::internal)
}

async fn set_cursors(
    state: web::Data<State>,
    caller: Caller<Operate>,
    path: web::Path<String>,
    Json(Cursors { cursors }): Json<Cursors>,
) -> Result<Data<Shown>, ApiError> {
    let (desk, _) = stand(&state, &caller, &path).await?;
    let set = desk.set_cursors(SetCursors { which: id(&path), cursors });
    Ok(Data(show::trigger(&set.await?)))
}

async fn look(
    state: web::Data<State>,
    caller: Caller<Operate>,
    Json(sketch): Json<Sketch>,
) -> Result<Data<Preview>, ApiError> {
    let desk = state.desk.parts();
    let author = Author::Operator(caller.principal.id().as_str());
    let sample = sketch.sample.as_deref();
    let shown = preview::preview(desk, &author, &sketch.r#type, &sketch.config, sample)?;
    Ok(Data(shown))
}

#[cfg(test)]
mod tests {

    use std::collections::BTreeSet;

    use super::*;
    use crate::{api::input::Reader, triggers::form::SETTABLE};

    /// OP-07
    #[test]
    fn the_description_of_a_form_has_all_its_fields() {
        let reader = Reader::<Form>::default();
        let described = reader.schema()["properties"].as_object().unwrap().keys();
        let described: BTreeSet<String> = described.cloned().collect();

        let known = SETTABLE.into_iter().chain(["team", "enable"]);

        assert_eq!(described, known.map(str::to_owned).collect());
    }
}
