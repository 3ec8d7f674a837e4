//! `list_completed_tasks`: what was done lately, and what one of it came to in full.

use std::time::Duration;

use hivewright_actors::{
    clock::millis,
    excerpt::{self, Part},
    ids::{TaskId, TeamName},
    inbox,
    task::{
        Audience, Kind, Label, Source, Task,
        cause::Cause,
        outcome::Outcome,
        records::{self as tasks, EndedTask},
    },
    tool::{Caller, Effect},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    api::when::{When, date},
    teams::service::{Parts, TeamService},
    tools::{
        about::About,
        answer,
        compact_schema::unsaid,
        contract::{Tool, ToolContext},
        error::ToolError,
    },
};

/// How far back, unless the call says otherwise.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many, unless the call says otherwise.
const SOME: usize = 50;
/// So much of a result is shown, in characters.
const SNIPPET: usize = 200;
/// So much of one text is read at once, in characters.
const PIECE: usize = 10_000;

pub(super) struct ListCompletedTasks(pub(super) TeamService);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    team: Option<String>,
    /// RFC 3339, or how long ago, such as `2d`. Left out: 7d.
    since: Option<When>,
    #[schemars(range(min = 1, max = 200))]
    limit: Option<usize>,
    /// `task-…` or `m-…`.
    id: Option<String>,
    #[serde(default)]
    #[schemars(transform = unsaid)]
    part: Part,
    /// The first character to read; 10,000 at once.
    #[serde(default)]
    offset: usize,
}

fn row(task: &Task, outcome: &Outcome) -> Value {
    let said = match (&outcome.message, outcome.text.is_empty()) {
        (Some(message), true) => message,
        _ => &outcome.text,
    };
    let took = outcome.finished_at.since(task.created_at);
    json!({
        "id": task.id,
        "team": task.lane.team,
        "type": task.kind.as_str(),
        "state": outcome.ending.as_str(),
        "duration_ms": millis(took),
        "result_snippet": excerpt::line(said, SNIPPET),
        "finished_at": date(outcome.finished_at),
    })
}

/// What a turn is shown of others' work: nothing that another person caused. Work that nobody is behind looks
/// after everyone's, and is shown to everyone; but what a message started belongs where that was said.
fn is_shown(task: &Task, behind: &Cause, reader: &Audience) -> bool {
    let same_person = task.caused_by().identity() == behind.identity() && *behind != Cause::System;
    same_person || task.audience().includes(reader) || reader.is_everyone()
}

/// Whether a turn may read the texts of a task.
///
/// What people say to the main team is read in the conversation that it is part of, and work that came
/// of it on behalf of the same person; what nobody in particular is behind, by all of the team.
fn may_read(caller: &Caller, task: &Task) -> bool {
    let channel = |source: &Option<Source>| source.as_ref().map(|source| source.channel.clone());
    if task.kind == Kind::Chat {
        return task.lane == caller.lane && channel(&task.source) == channel(&caller.source);
    }
    is_shown(task, &caller.cause, &caller.audience())
}

/// A part of a text, with the way to the next.
fn piece(id: &str, text: &str, offset: usize) -> Value {
    let total = text.chars().count();
    let start = text.char_indices().nth(offset).map_or(text.len(), |(at, _)| at);
    let (shown, missing) = excerpt::split(&text[start..], PIECE);
    let mut fields = json!({ "id": id, "text": shown, "offset": offset, "characters": total });
    if missing > 0 {
        fields["next_offset"] = json!(total - missing);
    }
    fields
}

impl ListCompletedTasks {
    async fn read(
        &self,
        parts: &Parts,
        args: &Args,
        id: &str,
        cx: &ToolContext,
    ) -> Result<String, ToolError> {
        let caller = &cx.caller;
        let unknown =
            || answer::refuse("not_found", format!("`id`: there is no text `{id}` for you"));
        let (key, lane, generation) = (id.to_owned(), caller.lane.clone(), caller.team.generation);
        let found = parts.store.read(move |storage| {
            let task = tasks::find(storage, &TaskId::from(key.as_str()))?;
            Ok((task, inbox::partly_shown(storage, &lane, generation, &key)?))
        });
        let (text, label): (String, Label) = match found.await? {
            (Some(task), _) => {
                let tree = parts.tree();
                let team = tree.as_self_or_above(&caller.team.name, &task.lane.team);
                let below = team.is_ok_and(|team| team.key() == task.team());
                let asked = task.reply_to.as_ref() == Some(&caller.lane)
                    && task.asker == caller.team.generation;
                if !(below || asked) || !may_read(caller, &task) {
                    return Err(unknown());
                }
                let text = match (args.part, task.outcome) {
                    (Part::Body, _) => task.body,
                    (Part::Result, Some(outcome)) => outcome.text,
                    (Part::Result, None) => {
                        let message = format!("`id`: task `{id}` has not ended yet");
                        return Err(answer::refuse("not_ended", message));
                    }
                };
                (text, task.label)
            }
            (None, Some(event)) if event.is_for(&caller.lane, &caller.audience()) => {
                (event.text, event.label)
            }
            (None, _) => return Err(unknown()),
        };
        // What a turn said holds what it had read.
        cx.believe(label);
        Ok(answer::ok(piece(id, &text, args.offset)))
    }
}

impl Tool for ListCompletedTasks {
    const ABOUT: About =
        About::new(excerpt::READER, "@org", "org.list_completed_tasks", Effect::Pure);
    const DESCRIPTION: &'static str = "Lists ended tasks of your team or one below, newest first. \
        With `id`, reads one text that was shown to you cut.";
    type Args = Args;

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let parts = self.0.parts();
        if let Some(id) = &args.id {
            return self.read(parts, &args, id, cx).await;
        }
        let tree = parts.tree();
        let caller = &cx.caller.team.name;
        let name = args.team.map_or_else(|| caller.clone(), TeamName::from);
        let team = tree.as_self_or_above(caller, &name)?.key();
        let now = parts.clock.now();
        let since = args.since.map_or(now - WEEK, |since| since.from(now));
        let limit = args.limit.unwrap_or(SOME);
        let (behind, reader) = (cx.caller.cause.clone(), cx.caller.audience());
        let tasks = parts.store.read(move |storage| {
            // What people said is theirs.
            let of = |ended: &EndedTask| ended.team == team.name && !ended.is_chat;
            let wanted = |task: &Task| {
                task.generation == team.generation && is_shown(task, &behind, &reader)
            };
            tasks::ended(storage, since, limit, of, wanted)
        });
        let tasks = tasks.await?;
        // What a turn said holds what it had read.
        tasks.iter().for_each(|task| cx.believe(task.label));
        let rows: Vec<Value> =
            tasks.iter().filter_map(|task| Some(row(task, task.outcome.as_ref()?))).collect();
        Ok(answer::ok(json!({ "tasks": rows })))
    }
}
