//! `/api/v1/triggers`: what starts work without a person typing.

use actix_web::http::StatusCode;
use hivewright_actors::{
    ids::{TeamKey, TriggerId},
    org::record::TeamRecord,
    queue::submit::Overlap,
    scheduler::{
        manage::{Change, Manage},
        records,
        requests::{ByHand, Fire},
        run::Cause,
        trigger::{self, Trigger, Which},
        views::Listed,
    },
    store::reads::{Range, get},
    task,
};

use super::teams;
use crate::{
    api::{endpoint::*, reply::*, triggers::*},
    http::{
        kit::{
            call::*,
            error::*,
            idempotency,
            listing::{self, Gathering},
        },
        state::State,
    },
    triggers::{
        admin::{Author, Parts, TriggerError},
        agenda, preview,
    },
};

/// How many of the next times are shown with a trigger.
const NEXT_SHOWN: usize = 3;

impl From<TriggerError> for ApiError {
    fn from(error: TriggerError) -> Self {
        let TriggerError { code, field, message, .. } = error;
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

fn author(caller: &Caller) -> Author<'_> {
    Author::Operator(caller.principal.id.as_str())
}

/// The trigger that a path names, if it is of a team that the caller reaches.
async fn named(state: &State, caller: &Caller, path: &ById) -> ApiResult<(Which, Listed)> {
    let which = Which::Id(TriggerId::from(path.id.as_str()));
    let listed = state.triggers.parts().known(which.clone()).await?;
    if caller.reaches(listed.trigger.team.name.as_str()) {
        Ok((which, listed))
    } else {
        Err(ApiError::not_found("there is no such trigger"))
    }
}

/// A trigger with its next times in its own zone.
fn with_times(triggers: &Parts, trigger: &Trigger) -> TriggerRow {
    let next_due = Some(triggers.next_times(trigger, NEXT_SHOWN));
    TriggerRow { next_due, ..TriggerRow::from(trigger) }
}

fn fits(filter: &TriggerFilter, trigger: &Trigger) -> bool {
    let definition = &trigger.definition;
    let holds = |words: &String| {
        let words = words.to_lowercase();
        definition.name.contains(&words) || definition.task.to_lowercase().contains(&words)
    };
    filter.team.as_deref().is_none_or(|team| team == trigger.team.name.as_str())
        && filter.state.is_none_or(|state| state == trigger.state)
        && filter.kind.is_none_or(|kind| kind == definition.kind())
        && (filter.subagent.is_none() || filter.subagent == definition.subagent)
        && filter.words.as_ref().is_none_or(holds)
}

pub(super) async fn list(
    Call { state, caller, query: filter, page, .. }: Call<Empty, TriggerFilter>,
) -> ApiResult<Rows<TriggerRow>> {
    let reaches = caller.reach();
    let rows = state.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        Range::<Trigger>::all().for_each(storage, &mut |trigger| {
            if reaches(trigger.team.name.as_str()) && fits(&filter, &trigger) {
                let row = serde_json::to_value(TriggerRow::from(&trigger)).unwrap_or_default();
                let place = row.get(page.sort.field).cloned().unwrap_or_default();
                gathering.see_by(place, &records::name(&trigger));
            }
        })?;
        gathering.rows(&page, |name| {
            let Some(trigger) = get::<Trigger>(storage, name)? else {
                return Ok(None);
            };
            let last_run = records::runs(storage, &trigger.team, &trigger.id, None, 1)?.pop();
            Ok(Some(TriggerRow::from(&Listed { trigger, last_run })))
        })
    });
    rows.await
}

pub(super) async fn list_due(
    Call { state, caller, query: filter, page, .. }: Call<Empty, TriggerFilter>,
) -> ApiResult<Rows<DueRow>> {
    let (reaches, triggers) = (caller.reach(), state.triggers.clone());
    let rows = state.read(move |storage| {
        let mut rows = Vec::new();
        Range::<Trigger>::all().for_each(storage, &mut |trigger| {
            let is_over = trigger.state == trigger::State::Finished;
            if !is_over && reaches(trigger.team.name.as_str()) && fits(&filter, &trigger) {
                rows.extend(agenda::agenda(triggers.parts(), &trigger));
            }
        })?;
        Ok(rows)
    });
    listing::page(rows.await?, &page, |row| row.trigger_id.to_string())
}

pub(super) async fn create(
    Call { state, caller, body: new, .. }: Call<Empty, Empty, NewTrigger>,
) -> ApiResult<Created<TriggerRow>> {
    teams::known_team(&state, &caller, &new.team)?;
    let (triggers, author) = (state.triggers.parts(), author(&caller));
    let team = triggers.team(&author, &new.team)?;
    let enable = new.enable.unwrap_or_default();
    let made = triggers.create(&author, team, &new.fields, enable, false).await?;
    caller.names(made.id.as_str());
    Ok(Created(with_times(triggers, &made)))
}

pub(super) async fn show(
    Call { state, caller, path, .. }: Call<ById>,
) -> ApiResult<Data<TriggerRow>> {
    let (_, listed) = named(&state, &caller, &path).await?;
    let next_due = state.triggers.parts().next_times(&listed.trigger, NEXT_SHOWN);
    Ok(Data(TriggerRow { next_due: Some(next_due), ..TriggerRow::from(&listed) }))
}

pub(super) async fn change(
    Call { state, caller, path, body, .. }: Call<ById, Empty, TriggerChange>,
) -> ApiResult<Data<TriggerRow>> {
    let (which, _) = named(&state, &caller, &path).await?;
    let triggers = state.triggers.parts();
    let changed = triggers.update(&author(&caller), which, body.fields).await?;
    Ok(Data(with_times(triggers, &changed)))
}

pub(super) async fn remove(Call { state, caller, path, .. }: Call<ById>) -> ApiResult<Done> {
    let (which, _) = named(&state, &caller, &path).await?;
    state.triggers.parts().ask(Manage { which, change: Change::Delete }).await?;
    Ok(Done)
}

pub(super) async fn enable(
    Call { state, caller, path, .. }: Call<ById>,
) -> ApiResult<Data<TriggerRow>> {
    let (which, _) = named(&state, &caller, &path).await?;
    let triggers = state.triggers.parts();
    let enabled = triggers.enable(which).await?;
    Ok(Data(with_times(triggers, &enabled)))
}

pub(super) async fn disable(
    Call { state, caller, path, body: off, .. }: Call<ById, Empty, TriggerOff>,
) -> ApiResult<Data<TriggerRow>> {
    let (which, _) = named(&state, &caller, &path).await?;
    let by = || format!("disabled by operator {}", caller.principal.id);
    let reason = off.reason.unwrap_or_else(by);
    let change = Change::Disable { reason, cancel_running: off.cancel_running };
    let disabled = state.triggers.parts().ask(Manage { which, change }).await?;
    Ok(Data(TriggerRow::from(&disabled)))
}

pub(super) async fn run(
    Call { state, caller, path, body: start, request, .. }: Call<ById, Empty, TriggerStart>,
) -> ApiResult<Accepted<RunRow>> {
    let (which, _) = named(&state, &caller, &path).await?;
    let key = match request.headers().get(idempotency::KEY).map(|value| value.to_str()) {
        Some(Ok(key)) => key.to_owned(),
        _ => format!("{:016x}", getrandom::u64()?),
    };
    let fired = state.triggers.parts().ask(Fire {
        which,
        cause: Cause::Manual,
        key,
        max_steps: start.max_steps,
        overlap: start.overlap_policy.unwrap_or(Overlap::Allow),
        sample: start.sample,
        principal: task::cause::Cause::Operator { name: caller.principal.id.to_string() },
        source: None,
        turn: None,
    });
    match fired.await? {
        ByHand::Fired(answer) => Ok(Accepted(RunRow {
            duplicate_of: answer.first.map(|first| first.run),
            ..RunRow::from(&answer.run)
        })),
        ByHand::NeedsConfirmation(task) => Err(ApiError::conflict(format!(
            "its last run, task {task}, is unfinished; say with `overlap_policy` what to do then"
        ))),
    }
}

pub(super) async fn history(
    Call { state, caller, path, query, page, .. }: Call<ById, RunFilter>,
) -> ApiResult<Rows<RunRow>> {
    let before = query.before.map(|before| before.from(state.now()));
    let trigger = TriggerId::from(path.id.as_str());
    let team = match named(&state, &caller, &path).await {
        Ok((_, listed)) => listed.trigger.team,
        // One that was deleted leaves its runs.
        Err(missing) => match left_by(&state, &caller, &trigger).await? {
            Some(team) => team,
            None => return Err(missing),
        },
    };
    let range = records::runs_of(&team, &trigger, before);
    let rows = state.read(move |storage| {
        listing::scan(storage, range, &page, |_, run| Some(RunRow::from(&run)))
    });
    rows.await
}

/// The team whose trigger left runs, if the caller reaches it.
async fn left_by(
    state: &State,
    caller: &Caller,
    trigger: &TriggerId,
) -> ApiResult<Option<TeamKey>> {
    let tree = state.triggers.parts().view.now();
    let reached = tree.iter().filter(|team| caller.reaches(team.name.as_str()));
    let teams: Vec<TeamKey> = reached.map(TeamRecord::key).collect();
    let id = trigger.clone();
    let found = state.read(move |storage| {
        for team in teams {
            if !records::runs(storage, &team, &id, None, 1)?.is_empty() {
                return Ok(Some(team));
            }
        }
        Ok(None)
    });
    found.await
}

pub(super) async fn set_cursors(
    Call { state, caller, path, body, .. }: Call<ById, Empty, TriggerCursors>,
) -> ApiResult<Data<TriggerRow>> {
    let (which, _) = named(&state, &caller, &path).await?;
    let set = Manage { which, change: Change::SetCursors(body.cursors) };
    Ok(Data(TriggerRow::from(&state.triggers.parts().ask(set).await?)))
}

pub(super) async fn look(
    Call { state, caller, body: sketch, .. }: Call<Empty, Empty, TriggerSketch>,
) -> ApiResult<Data<TriggerPreview>> {
    let TriggerSketch { kind, config, sample } = sketch;
    let (triggers, author) = (state.triggers.parts(), author(&caller));
    Ok(Data(preview::preview(triggers, &author, kind, config, sample.as_deref())?))
}
