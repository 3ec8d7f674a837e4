//! `/api/v1/events`: what happens, as it happens.

use std::{convert::Infallible, pin::Pin, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, header},
    web::{self, Bytes},
};
use futures_util::{Stream, stream};
use hivewright_actors::{
    clock::Timestamp,
    ids::{TaskId, TeamName, TopicId},
    live::{
        Mark,
        event::{Data, Gap, Kind},
        ring::Told,
        watch::{Batch, Filter, Watch},
    },
};
use serde::Serialize;

use super::{
    State,
    arguments::{Caller, Read},
    error::ApiError,
    limits::Running,
    operation::{Field, Operation},
    query::Query,
    reply::{EVENT_STREAM, EventStream},
    routes::{Resource, at},
};
use crate::logging::Secrets;

/// A quiet stream shows that it lives this often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// The place where a client that comes back left off.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/events").get(
            Operation::new("Sends what happens, as it happens.")
                .description(
                    "A stream of server-sent events that does not end by itself. `id` says where it is; \
                     `Last-Event-ID`, which goes before `since`, is where a client left off. What cannot \
                     be had any more is told by an event `gap`: then, and to begin with, \
                     `/api/v1/snapshot` shows all there is.",
                )
                .refuses(&[429])
                .query(
                    const {
                        &[
                            Field::text("types", "Only of these types, with commas between them."),
                            Field::text("team", "Only of this team."),
                            Field::text("topic", "Only of this topic."),
                            Field::text("task", "Only of this task."),
                            Field::text("since", "Only after the event with this id."),
                        ]
                    },
                ),
            watch,
        ),
    ]
}

async fn watch(
    state: web::Data<State>,
    caller: Caller<Read>,
    request: HttpRequest,
) -> Result<EventStream, ApiError> {
    let query = &caller.query;
    match query.text("team") {
        Some(team) => caller.team(team)?,
        None => caller.all_teams()?,
    }
    let from = left_off(&request, query)?;
    let filter = Filter {
        kinds: kinds(query)?,
        team: query.text("team").map(Into::into),
        topic: query.text("topic").map(Into::into),
        task: query.text("task").map(Into::into),
    };
    let mut answer = HttpResponse::Ok();
    answer
        .insert_header((header::CONTENT_TYPE, EVENT_STREAM))
        // Whatever stands between may neither keep nor gather it.
        .insert_header((header::CACHE_CONTROL, "no-store, no-transform"))
        .insert_header(("x-accel-buffering", "no"));
    if request.method() == Method::HEAD {
        return Ok(EventStream(answer.finish()));
    }
    let grant = caller.principal.grant();
    let place = state.limits.open_stream(grant, state.access.auth.now())?;
    let watch = state.spine.live.watch(from, filter);
    let listener = Listener {
        _place: place,
        boot: watch.boot(),
        watch,
        secrets: state.secrets.clone(),
        ended: Box::pin(caller.principal.ended()),
        sign: tokio::time::interval(SIGN_OF_LIFE),
    };
    Ok(EventStream(answer.streaming(chunks(listener))))
}

/// One open stream.
struct Listener {
    /// Among the open streams of its token.
    _place: Running,
    boot: u64,
    watch: Watch,
    secrets: Secrets,
    ended: Pin<Box<dyn Future<Output = ()>>>,
    sign: tokio::time::Interval,
}

fn chunks(listener: Listener) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(listener, |mut listener| async move {
        let text = listener.next().await?;
        Some((Ok(Bytes::from(text)), listener))
    })
}

impl Listener {
    /// What is to be sent next; nothing when the credential or the service has ended.
    async fn next(&mut self) -> Option<String> {
        tokio::select! {
            biased;
            () = &mut self.ended => None,
            // The first of these comes at once, so that a client sees the stream open.
            _ = self.sign.tick() => Some(": \n\n".to_owned()),
            batch = self.watch.next() => Some(self.words(&batch?)),
        }
    }

    fn words(&self, batch: &Batch) -> String {
        let mut text = String::new();
        if let Some(gap) = &batch.before {
            text.push_str(&self.gap(gap));
        }
        for told in &batch.events {
            text.push_str(told.wire(|told| event(self.boot, told, &self.secrets)));
        }
        if let Some(gap) = &batch.after {
            text.push_str(&self.gap(gap));
        }
        text
    }

    fn gap(&self, gap: &Gap) -> String {
        let place = Mark { boot: self.boot, seq: gap.to };
        format!("id: {place}\nevent: gap\ndata: {}\n\n", gap.data())
    }
}

/// An event as it stands on the wire.
#[derive(Serialize)]
struct Wire<'a> {
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    team_seq: Option<u64>,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<&'a TeamName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<&'a TopicId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a TaskId>,
    #[serde(flatten)]
    data: &'a Data,
}

pub(super) fn event(boot: u64, told: &Told, secrets: &Secrets) -> String {
    let event = &told.event;
    let place = Mark { boot, seq: told.seq };
    let wire = Wire {
        seq: told.seq,
        team_seq: told.team_seq,
        at: Timestamp::date(told.at),
        team: event.team.as_ref(),
        topic_id: event.topic.as_ref(),
        task_id: event.task.as_ref(),
        data: &event.data,
    };
    // JSON has no line breaks of its own.
    let data = serde_json::to_string(&wire).unwrap_or_default();
    let data = secrets.scrub_known(&data);
    format!("id: {place}\nevent: {}\ndata: {data}\n\n", event.kind.as_str())
}

/// Where a client that comes back left off.
fn left_off(request: &HttpRequest, query: &Query) -> Result<Option<Mark>, ApiError> {
    let header = request.headers().get(LAST_EVENT_ID);
    let (field, text) = match header.map(|value| value.to_str().unwrap_or_default()) {
        Some(text) if !text.is_empty() => ("Last-Event-ID", text),
        _ => match query.text("since") {
            Some(text) => ("since", text),
            None => return Ok(None),
        },
    };
    text.parse().map(Some).map_err(|()| {
        let reason = "expected the id of an event, such as 3-1042";
        ApiError::invalid_field(field, reason)
    })
}

fn kinds(query: &Query) -> Result<Vec<Kind>, ApiError> {
    let Some(text) = query.text("types") else {
        return Ok(Vec::new());
    };
    let kind = |name: &str| {
        let found = Kind::ALL.into_iter().find(|kind| kind.as_str() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Kind::ALL.into_iter().map(Kind::as_str).collect();
            let reason = format!("there is no type `{name}`; there are {}", names.join(", "));
            ApiError::invalid_field("types", reason)
        })
    };
    text.split(',').map(str::trim).map(kind).collect()
}
