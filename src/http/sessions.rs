//! `/api/v1/sessions`: what was said and done, as transcripts.

use std::ops::ControlFlow;

use actix_web::{HttpResponse, http::header, web::Bytes};
use futures_util::{Stream, stream};
use hivewright_actors::{
    ids::{TeamKey, TopicId},
    journal::{
        records::Began,
        sessions::{self, Session},
    },
    queue::submit::Submit,
    storage::{Order, StorageError},
    store::{StoreHandle, records::Writes},
    task::{Cause, Kind, Lane, Task, records::LaneKey},
    team::BeganAnew,
};

use super::{
    State,
    call::Call,
    caller::Caller,
    error::ApiError,
    listing::Gathering,
    reply::Clean,
    routes::{Resource, on},
    teams::{acting::refused, parts},
};
use crate::{
    api::{
        endpoint::{ById, ByName, Empty},
        reply::{Accepted, Bare, Data, LINES, Rows},
        sessions::{
            COMPACT_SESSION, CompactionTask, EXPORT_SESSION, HistoryFilter, LIST_SESSIONS,
            RESET_SESSION, SHOW_HISTORY, SHOW_TEAM_HISTORY, SessionFilter, SessionRow,
            TeamHistoryFilter, Transcript,
        },
    },
    logging::Secrets,
    transcript::{lines, merge::Merge, page},
};

/// An export reads this many events at a time.
const PIECE: usize = 200;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        on(&LIST_SESSIONS, list),
        on(&SHOW_HISTORY, show),
        on(&EXPORT_SESSION, hand_out),
        on(&RESET_SESSION, begin_anew),
        on(&COMPACT_SESSION, compact),
        on(&SHOW_TEAM_HISTORY, show_of_team),
    ]
}

impl From<Session> for SessionRow {
    fn from(session: Session) -> Self {
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

async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, SessionFilter>,
) -> Result<Rows<SessionRow>, ApiError> {
    let SessionFilter { team, topic, since } = query;
    let topic = topic.map(TopicId::from);
    let since = since.map(|since| since.from(state.access.auth.now()));
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
            let session = sessions::session(storage, &LaneKey::new(&lane, generation))?;
            Ok(session.map(SessionRow::from))
        })
    });
    found.await.map_err(ApiError::internal)
}

fn lane_of(id: &str) -> Result<(Lane, u32), ApiError> {
    Lane::of_session(id).ok_or_else(|| missing(id))
}

fn missing(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no session `{id}`"))
}

/// The session of a team that the caller reaches.
fn reached(caller: &Caller, id: &str) -> Result<(Lane, u32), ApiError> {
    let (lane, generation) = lane_of(id)?;
    if caller.reaches(lane.team.as_str()) { Ok((lane, generation)) } else { Err(missing(id)) }
}

async fn stored(state: &State, lane: &Lane, generation: u32) -> Result<Session, ApiError> {
    let of = LaneKey::new(lane, generation);
    let found = state.spine.store.read(move |storage| sessions::session(storage, &of));
    let found = found.await.map_err(ApiError::internal)?;
    found.ok_or_else(|| missing(&lane.session_id(generation)))
}

async fn show(
    Call { state, caller, path, query, .. }: Call<ById, HistoryFilter>,
) -> Result<Clean<Bare<Transcript>>, ApiError> {
    let (lane, generation) = reached(&caller, &path.id)?;
    part(&state, lane, generation, query).await
}

/// The session of a team by its id or key; without either, the one that was used last.
async fn show_of_team(
    Call { state, caller, path: ByName { name }, query, .. }: Call<ByName, TeamHistoryFilter>,
) -> Result<Clean<Bare<Transcript>>, ApiError> {
    caller.team(&name)?;
    let unknown = || ApiError::not_found(format!("there is no team `{name}`"));
    let team = state.service.team(&name).ok_or_else(unknown)?;
    let (lane, generation) = match (&query.session_id, &query.session_key) {
        (Some(id), _) => lane_of(id)?,
        (None, Some(key)) => of_key(&team, key)?,
        (None, None) => newest_of(&state, &team).await?,
    };
    if lane.team != team.name {
        return Err(missing(&lane.session_id(generation)));
    }
    part(&state, lane, generation, query.part).await
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
        let mut newest: Option<Session> = None;
        sessions::sessions(storage, Some(key.name.as_str()), &mut |session| {
            let is_newer = |known: &Session| session.updated_at > known.updated_at;
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
    wanted: HistoryFilter,
) -> Result<Clean<Bare<Transcript>>, ApiError> {
    let id = lane.session_id(generation);
    let read = state.spine.store.read(move |storage| {
        let lane = LaneKey::new(&lane, generation);
        Ok((sessions::session(storage, &lane)?, page::read(storage, &lane, &wanted)?))
    });
    let (session, page) = read.await.map_err(ApiError::internal)?;
    let transcript = Transcript {
        session: session.ok_or_else(|| missing(&id))?.into(),
        data: page.messages,
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
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> Result<HttpResponse, ApiError> {
    let (lane, generation) = reached(&caller, &id)?;
    stored(&state, &lane, generation).await?;
    let file = format!("{}-{}.jsonl", lane.team, id.replace([':', '~'], "-"));
    let export = Export {
        store: state.spine.store.clone(),
        secrets: state.secrets.clone(),
        lane,
        generation,
        id,
        seen: 0,
        merge: Some(Merge::default()),
    };
    let answer = HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, LINES))
        .insert_header((header::CONTENT_DISPOSITION, format!("attachment; filename=\"{file}\"")))
        .streaming(chunks(export));
    Ok(answer)
}

async fn begin_anew(
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> Result<Data<SessionRow>, ApiError> {
    let (lane, generation) = reached(&caller, &id)?;
    let session = stored(&state, &lane, generation).await?;
    let (_, running) = state.spine.live.running();
    if running.iter().any(|turn| turn.session_id == id) {
        let way_out = "a turn runs in this session; cancel its task, or wait for its end";
        return Err(ApiError::conflict(way_out));
    }
    let at = parts(&state).clock.now();
    let began = Writes::new().put_at(&lane.session_id(generation), &Began(at));
    state.spine.store.commit(began).await.map_err(ApiError::internal)?;
    // One that starts from now on reads it.
    let team = state.spine.directory.get(&lane.team);
    if let Some(team) = team.map(|team| team.clone()) {
        let topic = lane.topic.clone();
        team.do_send(BeganAnew { topic, at });
    }
    Ok(Data(session.into()))
}

async fn compact(
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> Result<Accepted<CompactionTask>, ApiError> {
    let (lane, generation) = reached(&caller, &id)?;
    stored(&state, &lane, generation).await?;
    let parts = parts(&state);
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
        Ok(_) => Ok(Accepted(CompactionTask { task_id, session_id: id })),
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
                    &LaneKey::new(&lane, generation),
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
