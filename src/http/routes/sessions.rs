//! `/api/v1/sessions`: what was said and done, as transcripts.

use std::ops::ControlFlow;

use actix_web::{HttpResponse, http::header, web::Bytes};
use futures_util::{Stream, stream};
use hivewright_actors::{
    clock::Timestamp,
    ids::{TeamKey, TopicId},
    journal::{
        query::{SessionQuery, SessionWindow},
        records::Began,
        sessions::{self, Session},
    },
    live::turns::{ActiveTurn, TurnPlace},
    queue::submit::Overlap,
    storage::{Order, StorageError},
    store::{StoreHandle, records::Writes},
    task::{Kind, Lane, Task, cause::Cause, records::LaneKey},
    team::BeganAnew,
};

use super::{tasks::giving, teams::known_team};
use crate::{
    api::{endpoint::*, reply::*, sessions::*},
    http::{
        kit::{
            call::*,
            error::*,
            listing::{Gathering, Place},
            revocation::until_ended,
        },
        state::State,
    },
    logging::Secrets,
    transcript::{lines, page},
};

/// An export reads this many events at a time.
const PIECE: usize = 200;

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, SessionFilter>,
) -> ApiResult<Rows<SessionRow>> {
    // Taken apart, so that a new field which nothing compares is an error.
    let SessionFilter { team, topic, since } = query;
    let wanted = SessionQuery {
        teams: caller.teams(team),
        topic: topic.map(TopicId::from),
        since: since.map(|since| since.from(state.now())).unwrap_or_default(),
        ..SessionQuery::default()
    };
    let rows = state.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        let place = |place: &Place| Some((Timestamp(place.value.as_u64()?), place.id.clone()));
        let part = sessions::listed(storage, &wanted, &gathering.window(place))?;
        gathering.see_part(part, |(at, id)| (at.0.into(), id));
        gathering.rows(&page, |id| {
            let Some((lane, generation)) = Lane::of_session(id) else {
                return Ok(None);
            };
            let session = sessions::session(storage, &LaneKey::new(&lane, generation))?;
            Ok(session.map(SessionRow::from))
        })
    });
    rows.await
}

fn lane_of(id: &str) -> ApiResult<(Lane, u32)> {
    Lane::of_session(id).ok_or_else(|| missing(id))
}

fn missing(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no session `{id}`"))
}

/// The session of a team that the caller reaches.
fn reached(caller: &Caller, id: &str) -> ApiResult<(Lane, u32)> {
    let (lane, generation) = lane_of(id)?;
    if caller.reaches(lane.team.as_str()) { Ok((lane, generation)) } else { Err(missing(id)) }
}

async fn stored(state: &State, lane: &Lane, generation: u32) -> ApiResult<Session> {
    let id = lane.session_id(generation);
    let running = state.spine.live.turn_in(&id);
    let of = LaneKey::new(lane, generation);
    let found = state.read(move |storage| sessions::session(storage, &of)).await?;
    let begun = running.map(|running| begun(lane.clone(), generation, &running));
    found.or(begun).ok_or_else(|| missing(&id))
}

/// A session whose first turn has only begun.
fn begun(lane: Lane, generation: u32, running: &TurnPlace) -> Session {
    let at = running.started_at;
    Session { lane, generation, created_at: at, updated_at: at, events: 0 }
}

pub(super) async fn show(
    Call { state, caller, path, query, .. }: Call<ById, HistoryFilter>,
) -> ApiResult<Bare<Transcript>> {
    let (lane, generation) = reached(&caller, &path.id)?;
    part(&state, lane, generation, query).await
}

/// The session of a team by its id or key; without either, the one that was used last.
pub(super) async fn show_of_team(
    Call { state, caller, path: ByName { name }, query, .. }: Call<ByName, TeamHistoryFilter>,
) -> ApiResult<Bare<Transcript>> {
    let team = known_team(&state, &caller, &name)?;
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

fn of_key(team: &TeamKey, key: &str) -> ApiResult<(Lane, u32)> {
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
async fn newest_of(state: &State, team: &TeamKey) -> ApiResult<(Lane, u32)> {
    let wanted = SessionQuery {
        teams: Some(vec![team.name.clone()]),
        generation: Some(team.generation),
        ..SessionQuery::default()
    };
    let window = SessionWindow { order: Order::Falling, after: None, skip: 0, most: 1, counted: 0 };
    let listed = state.read(move |storage| sessions::listed(storage, &wanted, &window)).await?;
    let stored = listed.places.into_iter().next();
    // A turn that has only begun uses its session, too.
    let since = stored.as_ref().map(|(used_at, _)| *used_at);
    let running = state.spine.live.running().1.into_iter();
    let is_newer = |turn: &ActiveTurn| turn.team == team.name && Some(turn.started_at) > since;
    let newest = running.filter(is_newer).max_by_key(|turn| turn.started_at);
    let begun = newest.and_then(|turn| Lane::of_session(&turn.session_id));
    let begun = begun.filter(|(_, generation)| *generation == team.generation);
    let stored = || Lane::of_session(&stored?.1);
    begun.or_else(stored).map_or_else(|| of_key(team, "main"), Ok)
}

async fn part(
    state: &State,
    lane: Lane,
    generation: u32,
    wanted: HistoryFilter,
) -> ApiResult<Bare<Transcript>> {
    let id = lane.session_id(generation);
    let running = state.spine.live.turn_in(&id);
    let read = state.read(move |storage| {
        let of = LaneKey::new(&lane, generation);
        let page = page::read(storage, &of, &wanted, running.as_ref())?;
        let begun = running.map(|running| begun(lane, generation, &running));
        Ok((sessions::session(storage, &of)?.or(begun), page))
    });
    let (session, page) = read.await?;
    Ok(Bare(Transcript {
        session: session.ok_or_else(|| missing(&id))?.into(),
        data: page.messages,
        next_after: page.next_after,
        prev_before: page.prev_before,
    }))
}

/// An export under way.
struct Export {
    store: StoreHandle,
    secrets: Secrets,
    lane: LaneKey,
    /// All up to this event has been read.
    seen: u64,
    lines: Option<lines::Writer>,
}

pub(super) async fn hand_out(
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> ApiResult<HttpResponse> {
    let (lane, generation) = reached(&caller, &id)?;
    stored(&state, &lane, generation).await?;
    let lane = LaneKey::new(&lane, generation);
    let file = lines::file_name(&lane);
    let export = Export {
        store: state.spine.store.clone(),
        secrets: state.secrets.clone(),
        lines: Some(lines::Writer::new(&lane)),
        lane,
        seen: 0,
    };
    let answer = HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, LINES))
        .insert_header((header::CONTENT_DISPOSITION, format!("attachment; filename=\"{file}\"")))
        .streaming(until_ended(&caller.principal, chunks(export)));
    Ok(answer)
}

pub(super) async fn begin_anew(
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> ApiResult<Data<SessionRow>> {
    let (lane, generation) = reached(&caller, &id)?;
    let session = stored(&state, &lane, generation).await?;
    let (_, running) = state.spine.live.running();
    if running.iter().any(|turn| turn.session_id == id) {
        let way_out = "a turn runs in this session; cancel its task, or wait for its end";
        return Err(ApiError::conflict(way_out));
    }
    let at = state.org().clock.now();
    let began = Writes::new().put_at(&lane.session_id(generation), &Began(at));
    state.spine.store.commit(began).await?;
    // One that starts from now on reads it.
    let team = state.spine.directory.get(&lane.team).map(|team| team.clone());
    if let Some(team) = team {
        team.do_send(BeganAnew { topic: lane.topic, at });
    }
    Ok(Data(session.into()))
}

pub(super) async fn compact(
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> ApiResult<Accepted<CompactionTask>> {
    let (lane, generation) = reached(&caller, &id)?;
    stored(&state, &lane, generation).await?;
    let org = state.org();
    let team = org.view.now().key(lane.team.as_str());
    if team.is_none_or(|team| team.generation != generation) {
        return Err(ApiError::conflict("the team of this session is gone"));
    }
    let task_id = org.ids.task();
    let by = caller.principal.id.to_string();
    let task = Task {
        generation,
        kind: Kind::Compact,
        cause: Some(Cause::Operator { name: by.clone() }),
        ..Task::new(task_id.clone(), lane, "/compact".to_owned(), by, org.clock.now())
    };
    giving::submit(&state, task, Overlap::Allow).await?;
    Ok(Accepted(CompactionTask { task_id, session_id: id }))
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
            let mut lines = self.lines.take()?;
            let (lane, seen) = (self.lane.clone(), self.seen);
            let read = self.store.read(move |storage| {
                let (mut count, mut last) = (0, seen);
                let (range, order) = ((seen, u64::MAX), Order::Rising);
                sessions::journal(storage, &lane, range, order, &mut |piece| {
                    count += piece.len();
                    for event in piece {
                        last = event.seq;
                        lines.push(event);
                    }
                    let is_full = count >= PIECE;
                    if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                Ok((lines, last, count < PIECE))
            });
            let (mut lines, last, is_end) = match read.await {
                Ok(read) => read,
                Err(error) => return Some(Err(error)),
            };
            self.seen = last;
            let text = if is_end {
                lines.finish()
            } else {
                let text = lines.take();
                self.lines = Some(lines);
                text
            };
            if !text.is_empty() {
                return Some(Ok(self.secrets.scrub_known(&text)));
            }
        }
    }
}
