//! `/api/v1/sessions`: what was said and done, as transcripts.

use std::ops::ControlFlow;

use actix_web::{
    HttpResponse,
    http::header,
    web::{self, Bytes},
};
use futures_util::{Stream, stream};
use hivewright_actors::{
    ids::{CallId, TaskId, TeamKey, TeamName, TopicId, TurnId},
    journal::{records::Began, sessions},
    queue::submit::Submit,
    storage::{Order, StorageError},
    store::{StoreHandle, records::Writes},
    task::{Cause, Kind, Lane, Task},
    team::BeganAnew,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    State,
    arguments::{Caller, Json, Operate, Read},
    error::ApiError,
    listing::Gathering,
    operation::{Field, Operation, words},
    query::Query,
    reply::{Accepted, Bare, Clean, Data, LINES, Lines, Rows},
    routes::{Resource, at},
    teams::{acting::refused, parts},
};
use crate::{
    api::endpoint::Empty,
    logging::Secrets,
    transcript::{
        Block, Message, Meta, Role, lines,
        merge::Merge,
        page::{self, Layout, View, Wish},
    },
};

/// An export reads this many events at a time.
const PIECE: usize = 200;
/// So many messages are shown unless told otherwise.
const USUAL: usize = 50;
/// The last event that can be named: beyond it, numbers in JSON are not exact.
const LAST: u64 = (1 << 53) - 1;

const VIEWS: [(&str, View); 2] = [("simple", View::Simple), ("full", View::Full)];
const LAYOUTS: [(&str, Layout); 2] = [("ordered", Layout::Ordered), ("grouped", Layout::Grouped)];

const VIEW: Field = Field::word(
    "view",
    || words(&VIEWS),
    "Only what was said, or all; `simple` if it is not given.",
);
const LAYOUT: Field = Field::word(
    "layout",
    || words(&LAYOUTS),
    "As it happened, or one message of the model for each turn; `ordered` if it is not given.",
);
const AFTER: Field = Field::number("after", 0, LAST, "Only what comes after this event.");
const BEFORE: Field = Field::number("before", 0, LAST, "Only what comes before this event.");
const LIMIT: Field = Field::number("limit", 1, 200, "The most messages; 50 if it is not given.");

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/sessions").get(
            Operation::new("Lists journals, the one used last first.")
                .query(
                    const {
                        &[
                            Field::text("team", "Only of this team."),
                            Field::text("topic", "Only of this topic."),
                            Field::moment("since", "Not used since before."),
                        ]
                    },
                )
                .pages(&["-updated_at"]),
            list,
        ),
        at("/api/v1/sessions/{id}/history").get(
            Operation::new("Shows a part of what was said and done, oldest first.")
                .description(
                    "Without a place these are the newest messages. `next_after` goes on with what \
                     comes then, `prev_before` with what came before; that is null at the beginning.",
                )
                .query(const { &[VIEW, LAYOUT, AFTER, BEFORE, LIMIT] }),
            show,
        ),
        at("/api/v1/sessions/{id}/export").get(
            Operation::new("Sends a whole transcript, one JSON object a line."),
            hand_out,
        ),
        at("/api/v1/sessions/{id}/reset").post(
            Operation::new("Begins a conversation anew: the model is not shown what was said before.")
                .description("The journal keeps everything. Not while a turn runs in the session.")
                .refuses(&[409]),
            begin_anew,
        ),
        at("/api/v1/sessions/{id}/compact").post(
            Operation::new("Has a conversation summarised, for the model to be shown less of it.")
                .description(
                    "It is work of the team, after the turn that runs: the outcome of the task says how \
                     many tokens there were and are. The last 16 messages stay as they are, and the \
                     journal keeps everything.",
                )
                .refuses(&[409, 503]),
            compact,
        ),
        at("/api/v1/teams/{name}/history").get(
            Operation::new("Shows a part of what a team said and did, oldest first.")
                .description("Without a session it is the one that was used last.")
                .query(
                    const {
                        &[
                            VIEW,
                            LAYOUT,
                            AFTER,
                            BEFORE,
                            LIMIT,
                            Field::text("session_id", "In this session."),
                            Field::text("session_key", "In the session `main` or `topic:<id>`."),
                        ]
                    },
                ),
            show_of_team,
        ),
    ]
}

/// A session as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Journal")]
struct Row {
    id: String,
    team: TeamName,
    /// How often the name of the team was given.
    generation: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<TopicId>,
    created_at: String,
    updated_at: String,
    events: u64,
}

/// A part of a transcript.
#[derive(Serialize, JsonSchema)]
struct Transcript {
    /// Oldest first.
    data: Vec<Said>,
    session: Row,
    /// What comes next comes after this event.
    next_after: u64,
    /// What came before is before this event; null at the beginning.
    prev_before: Option<u64>,
}

/// A message of a transcript as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TranscriptMessage")]
#[serde(rename_all = "camelCase")]
struct Said {
    /// The number of its last event.
    seq: u64,
    turn: TurnId,
    #[serde(rename = "task_id", skip_serializing_if = "Option::is_none")]
    task_id: Option<TaskId>,
    role: Role,
    /// When, in milliseconds since 1970.
    timestamp: u64,
    content: Vec<Block>,
    /// Whose words they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// What made it, and what that cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
    /// The call that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    /// The call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    /// There was more.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

impl From<Message> for Said {
    fn from(message: Message) -> Self {
        let said = Self {
            seq: message.seq,
            turn: message.turn,
            task_id: message.task_id,
            role: message.role,
            timestamp: message.timestamp,
            content: message.content,
            from: message.from,
            meta: message.meta,
            tool_call_id: None,
            tool_name: None,
            is_error: None,
            duration_ms: None,
            truncated: None,
        };
        let Some(answers) = message.answers else {
            return said;
        };
        Self {
            tool_call_id: Some(answers.tool_call_id),
            tool_name: Some(answers.tool_name),
            is_error: Some(answers.is_error),
            duration_ms: Some(answers.duration_ms),
            truncated: answers.truncated.then_some(true),
            ..said
        }
    }
}

impl From<sessions::Session> for Row {
    fn from(session: sessions::Session) -> Self {
        Self {
            id: session.lane.session_id(session.generation),
            team: session.lane.team,
            generation: session.generation,
            topic_id: session.lane.topic,
            created_at: session.created_at.date(),
            updated_at: session.updated_at.date(),
            events: session.events,
        }
    }
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Row>, ApiError> {
    let query = &caller.query;
    let team = query.text("team").map(str::to_owned);
    let topic: Option<TopicId> = query.text("topic").map(Into::into);
    let since = query.moment("since", state.access.auth.now());
    let page = query.page()?;
    let teams = caller.principal.teams().map(<[String]>::to_vec);
    let found = state.spine.store.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        sessions::sessions(storage, team.as_deref(), &mut |session| {
            let is = |name: &String| session.lane.team.as_str() == name;
            let is_reached = teams.as_ref().is_none_or(|teams| teams.iter().any(is));
            let is_late = since.is_none_or(|since| session.updated_at >= since);
            if is_reached && is_late && (topic.is_none() || session.lane.topic == topic) {
                let id = session.lane.session_id(session.generation);
                gathering.see(session.updated_at, &id);
            }
            ControlFlow::Continue(())
        })?;
        gathering.rows(&page, |id| {
            let Some((lane, generation)) = Lane::of_session(id) else {
                return Ok(None);
            };
            let session = sessions::session(storage, &lane, generation)?;
            Ok(session.map(Row::from))
        })
    });
    found.await.map_err(ApiError::internal)
}

fn wish(query: &Query) -> Wish {
    let limit = query.number("limit");
    Wish {
        view: query.word("view", &VIEWS).unwrap_or(View::Simple),
        layout: query.word("layout", &LAYOUTS).unwrap_or(Layout::Ordered),
        after: query.number("after"),
        before: query.number("before"),
        limit: limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(USUAL),
    }
}

fn lane_of(id: &str) -> Result<(Lane, u32), ApiError> {
    Lane::of_session(id).ok_or_else(|| missing(id))
}

fn missing(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no session `{id}`"))
}

/// The session of a team that the caller reaches.
fn reached<R>(caller: &Caller<R>, id: &str) -> Result<(Lane, u32), ApiError> {
    let (lane, generation) = lane_of(id)?;
    if caller.reaches(lane.team.as_str()) { Ok((lane, generation)) } else { Err(missing(id)) }
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Clean<Bare<Transcript>>, ApiError> {
    let (lane, generation) = reached(&caller, &id)?;
    part(&state, lane, generation, wish(&caller.query)).await
}

/// The session of a team by its id or key; without either, the one that every team has.
async fn show_of_team(
    state: web::Data<State>,
    caller: Caller<Read>,
    name: web::Path<String>,
) -> Result<Clean<Bare<Transcript>>, ApiError> {
    caller.team(&name)?;
    let query = &caller.query;
    let unknown = || ApiError::not_found(format!("there is no team `{name}`"));
    let team = state.service.team(&name).ok_or_else(unknown)?;
    let (lane, generation) = match (query.text("session_id"), query.text("session_key")) {
        (Some(id), _) => lane_of(id)?,
        (None, Some(key)) => of_key(&team, key)?,
        (None, None) => newest_of(&state, &team).await?,
    };
    if lane.team != team.name {
        return Err(missing(&lane.session_id(generation)));
    }
    part(&state, lane, generation, wish(query)).await
}

fn of_key(team: &TeamKey, key: &str) -> Result<(Lane, u32), ApiError> {
    let topic = match key.strip_prefix("topic:") {
        Some(topic) => Some(topic.into()),
        None if key == "main" => None,
        None => {
            let reason = "expected `main` or `topic:<id>`";
            return Err(ApiError::invalid_field("session_key", reason));
        }
    };
    let lane = Lane { team: team.name.clone(), topic };
    Ok((lane, team.generation))
}

/// The session of a team that was used last.
async fn newest_of(state: &State, team: &TeamKey) -> Result<(Lane, u32), ApiError> {
    let key = team.clone();
    let newest = state.spine.store.read(move |storage| {
        let mut newest: Option<sessions::Session> = None;
        sessions::sessions(storage, Some(key.name.as_str()), &mut |session| {
            let is_newer = |known: &sessions::Session| session.updated_at > known.updated_at;
            if session.generation == key.generation && newest.as_ref().is_none_or(is_newer) {
                newest = Some(session);
            }
            ControlFlow::Continue(())
        })?;
        Ok(newest)
    });
    let newest = newest.await.map_err(ApiError::internal)?;
    match newest {
        Some(session) => Ok((session.lane, session.generation)),
        None => of_key(team, "main"),
    }
}

async fn part(
    state: &State,
    lane: Lane,
    generation: u32,
    wish: Wish,
) -> Result<Clean<Bare<Transcript>>, ApiError> {
    let id = lane.session_id(generation);
    let read = state.spine.store.read(move |storage| {
        let session = sessions::session(storage, &lane, generation)?;
        Ok((session, page::read(storage, &lane, generation, &wish)?))
    });
    let (session, page) = read.await.map_err(ApiError::internal)?;
    let session = session.ok_or_else(|| missing(&id))?;
    let transcript = Transcript {
        data: page.messages.into_iter().map(Said::from).collect(),
        session: Row::from(session),
        next_after: page.next_after,
        prev_before: page.prev_before,
    };
    Ok(Clean::new(&state.secrets, Bare(transcript)))
}

/// An export under way.
struct Export {
    store: StoreHandle,
    secrets: Secrets,
    lane: Lane,
    generation: u32,
    id: String,
    /// All up to this event has been read.
    seen: u64,
    merge: Option<Merge>,
}

async fn hand_out(
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Lines, ApiError> {
    let (lane, generation) = reached(&caller, &id)?;
    let of = lane.clone();
    let session =
        state.spine.store.read(move |storage| sessions::session(storage, &of, generation));
    let session = session.await.map_err(ApiError::internal)?;
    session.ok_or_else(|| missing(&id))?;
    let file: String = format!("{}-{}.jsonl", lane.team, id.replace([':', '~'], "-"));
    let export = Export {
        store: state.spine.store.clone(),
        secrets: state.secrets.clone(),
        lane,
        generation,
        id: id.into_inner(),
        seen: 0,
        merge: Some(Merge::default()),
    };
    let answer = HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, LINES))
        .insert_header((header::CONTENT_DISPOSITION, format!("attachment; filename=\"{file}\"")))
        .streaming(chunks(export));
    Ok(Lines(answer))
}

async fn begin_anew(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(Empty {}): Json<Empty>,
) -> Result<Data<Row>, ApiError> {
    let (lane, generation) = reached(&caller, &id)?;
    let parts = parts(&state);
    let of = lane.clone();
    let store = &state.spine.store;
    let session = store.read(move |storage| sessions::session(storage, &of, generation));
    let session = session.await.map_err(ApiError::internal)?;
    let session = session.ok_or_else(|| missing(&id))?;
    let (_, running) = state.spine.live.running();
    if running.iter().any(|turn| turn.session_id == *id) {
        let way_out = "a turn runs in this session; cancel its task, or wait for its end";
        return Err(ApiError::conflict(way_out));
    }
    let at = parts.clock.now();
    let stored = store.commit(Writes::new().put_at(&lane.session_id(generation), &Began(at)));
    stored.await.map_err(ApiError::internal)?;
    // One that starts from now on reads it.
    let team = state.spine.directory.get(&lane.team);
    if let Some(team) = team.map(|team| team.clone()) {
        let topic = lane.topic.clone();
        team.do_send(BeganAnew { topic, at });
    }
    Ok(Data(Row::from(session)))
}

/// Work that was made of a wish.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CompactionTask")]
struct Work {
    task_id: TaskId,
    session_id: String,
}

async fn compact(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(Empty {}): Json<Empty>,
) -> Result<Accepted<Work>, ApiError> {
    let (lane, generation) = reached(&caller, &id)?;
    let parts = parts(&state);
    let of = lane.clone();
    let store = &state.spine.store;
    let session = store.read(move |storage| sessions::session(storage, &of, generation));
    session.await.map_err(ApiError::internal)?.ok_or_else(|| missing(&id))?;
    let team = parts.view.now().key(lane.team.as_str());
    if team.is_none_or(|team| team.generation != generation) {
        return Err(ApiError::conflict("the team of this session is gone"));
    }
    let task_id = parts.ids.task();
    let by = caller.principal.id().to_string();
    let task = Task {
        generation,
        kind: Kind::Compact,
        cause: Some(Cause::Operator { name: by.clone() }),
        ..Task::new(task_id.clone(), lane, "/compact".to_owned(), by, parts.clock.now())
    };
    let submitted =
        parts.work.submit(Submit { task, writes: Writes::new(), overlap: None, giver: None });
    match submitted.await {
        Ok(_) => Ok(Accepted(Work { task_id, session_id: id.into_inner() })),
        Err(refusal) => Err(refused(&refusal.into())),
    }
}

fn chunks(export: Export) -> impl Stream<Item = Result<Bytes, StorageError>> {
    stream::unfold(export, |mut export| async move {
        let chunk = export.next().await?;
        Some((chunk.map(Bytes::from), export))
    })
}

impl Export {
    /// The next lines; nothing at the end.
    async fn next(&mut self) -> Option<Result<String, StorageError>> {
        loop {
            let mut merge = self.merge.take()?;
            let (lane, generation, seen) = (self.lane.clone(), self.generation, self.seen);
            let read = self.store.read(move |storage| {
                let (mut count, mut last) = (0, seen);
                let range = (seen, u64::MAX);
                sessions::journal(
                    storage,
                    &lane,
                    generation,
                    range,
                    Order::Rising,
                    &mut |piece| {
                        count += piece.len();
                        for event in piece {
                            last = event.seq;
                            merge.push(event);
                        }
                        if count < PIECE {
                            ControlFlow::Continue(())
                        } else {
                            ControlFlow::Break(())
                        }
                    },
                )?;
                Ok((merge, last, count < PIECE))
            });
            let (mut merge, last, is_end) = match read.await {
                Ok(read) => read,
                Err(error) => return Some(Err(error)),
            };
            self.seen = last;
            let messages = if is_end {
                merge.finish()
            } else {
                let messages = merge.take();
                self.merge = Some(merge);
                messages
            };
            if messages.is_empty() {
                continue;
            }
            let mut text = String::new();
            for message in &messages {
                text.push_str(&lines::line(self.lane.team.as_str(), &self.id, message));
                text.push('\n');
            }
            return Some(Ok(self.secrets.scrub_known(&text)));
        }
    }
}
