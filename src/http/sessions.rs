//! `/api/v1/sessions`: what was said and done, as transcripts.

use std::{cmp::Reverse, ops::ControlFlow};

use actix_web::{
    HttpRequest, HttpResponse, Resource,
    http::header,
    web::{self, Bytes},
};
use futures_util::{Stream, stream};
use hivewright_actors::{
    ids::{TeamKey, TeamName, TopicId},
    storage::{Order, StorageError},
    store::{StoreHandle, sessions},
    task::Lane,
};
use serde::Serialize;
use serde_json::json;

use super::{
    State,
    approvals::choice,
    auth::scope::Scope,
    error::ApiError,
    json,
    query::Query,
    routes::{self, Methods},
};
use crate::{
    logging::Secrets,
    transcript::{
        lines,
        merge::Merge,
        page::{self, Layout, View, Wish},
    },
};

/// A list looks at this many sessions.
const MOST: usize = 10_000;
/// An export reads this many events at a time.
const PIECE: usize = 200;

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/sessions", Methods::new().get(list))
}

pub(super) fn history() -> Resource {
    routes::resource("/api/v1/sessions/{id}/history", Methods::new().get(show))
}

pub(super) fn export() -> Resource {
    routes::resource("/api/v1/sessions/{id}/export", Methods::new().get(hand_out))
}

pub(super) fn of_team() -> Resource {
    routes::resource(
        "/api/v1/teams/{name}/history",
        Methods::new().get(show_of_team),
    )
}

/// A session as answers show it.
#[derive(Serialize)]
struct Row {
    id: String,
    team: TeamName,
    generation: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<TopicId>,
    created_at: String,
    updated_at: String,
    events: u64,
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

/// The one used last first.
async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let query = Query::read(&request, &["team", "topic", "since", "limit", "offset"])?;
    let team = query.text("team").map(str::to_owned);
    let topic: Option<TopicId> = query.text("topic").map(Into::into);
    let since = query.moment("since", state.access.auth.now())?;
    let page = query.page()?;
    let found = state.spine.store.read(move |storage| {
        let mut found = Vec::new();
        let mut looked = 0;
        sessions::sessions(storage, team.as_deref(), &mut |session| {
            looked += 1;
            let is_late = since.is_none_or(|since| session.updated_at >= since);
            if is_late && (topic.is_none() || session.lane.topic == topic) {
                found.push(session);
            }
            match looked < MOST {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(found)
    });
    let mut found = found.await.map_err(ApiError::internal)?;
    found.sort_by_key(|session| Reverse((session.updated_at, session.events)));
    let rows: Vec<Row> = found.into_iter().map(Row::from).collect();
    Ok(json::page(&rows, page))
}

const PART: [&str; 5] = ["view", "layout", "after", "before", "limit"];

fn wish(query: &Query) -> Result<Wish, ApiError> {
    let views = [("simple", View::Simple), ("full", View::Full)];
    let layouts = [("ordered", Layout::Ordered), ("grouped", Layout::Grouped)];
    Ok(Wish {
        view: choice(query, "view", &views)?.unwrap_or(View::Simple),
        layout: choice(query, "layout", &layouts)?.unwrap_or(Layout::Ordered),
        after: query.place("after")?,
        before: query.place("before")?,
        limit: query.page()?.limit,
    })
}

fn lane_of(id: &str) -> Result<(Lane, u32), ApiError> {
    Lane::of_session(id).ok_or_else(|| missing(id))
}

fn missing(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no session `{id}`"))
}

async fn show(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let query = Query::read(&request, &PART)?;
    let wish = wish(&query)?;
    let (lane, generation) = lane_of(&id)?;
    part(&state, lane, generation, wish).await
}

/// The session of a team by its id or key; without either, the one that every team has.
async fn show_of_team(
    state: web::Data<State>,
    request: HttpRequest,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let known = [&PART[..], &["session_id", "session_key"]].concat();
    let query = Query::read(&request, &known)?;
    let wish = wish(&query)?;
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
    part(&state, lane, generation, wish).await
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
    let lane = Lane {
        team: team.name.clone(),
        topic,
    };
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
) -> Result<HttpResponse, ApiError> {
    let id = lane.session_id(generation);
    let read = state.spine.store.read(move |storage| {
        let session = sessions::session(storage, &lane, generation)?;
        Ok((session, page::read(storage, &lane, generation, &wish)?))
    });
    let (session, page) = read.await.map_err(ApiError::internal)?;
    let session = session.ok_or_else(|| missing(&id))?;
    let answer = json!({
        "data": page.messages,
        "session": Row::from(session),
        "next_after": page.next_after,
        "prev_before": page.prev_before,
    });
    Ok(json::clean(&state.secrets, &answer))
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
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let (lane, generation) = lane_of(&id)?;
    let of = lane.clone();
    let session = state
        .spine
        .store
        .read(move |storage| sessions::session(storage, &of, generation));
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
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/x-ndjson"))
        .insert_header((
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{file}\""),
        ))
        .streaming(chunks(export)))
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
                        match count < PIECE {
                            true => ControlFlow::Continue(()),
                            false => ControlFlow::Break(()),
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
            let messages = match is_end {
                true => merge.finish(),
                false => {
                    let messages = merge.take();
                    self.merge = Some(merge);
                    messages
                }
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
