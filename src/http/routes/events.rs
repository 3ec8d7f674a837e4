//! `/api/v1/events`: what happens, as it happens.

use std::{convert::Infallible, pin::Pin, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, header},
    web::Bytes,
};
use futures_util::{Stream, stream};
use hivewright_actors::{
    ids::{TaskId, TeamName, TopicId},
    live::{
        Mark,
        event::{Data, Gap},
        ring::Told,
        watch::{Batch, Filter, Watch},
    },
};
use serde::Serialize;

use crate::{
    api::{endpoint::*, events::*, reply::*, when::Moment},
    http::kit::{call::*, error::*, limits::Running},
    logging::Secrets,
};

/// A quiet stream shows that it lives this often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// The place where a client that comes back left off.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn watch(
    Call { state, caller, query, request, .. }: Call<Empty, EventFilter>,
) -> ApiResult<HttpResponse> {
    let EventFilter { types, team, topic, task, since } = query;
    caller.team_or_all(team.as_deref())?;
    let from = left_off(&request)?.or(since);
    let filter = Filter {
        kinds: types.unwrap_or_default().0,
        team: team.map(Into::into),
        topic: topic.map(Into::into),
        task: task.map(Into::into),
    };
    let mut answer = HttpResponse::Ok();
    answer
        .insert_header((header::CONTENT_TYPE, EVENT_STREAM))
        // Whatever stands between may neither keep nor gather it.
        .insert_header((header::CACHE_CONTROL, "no-store, no-transform"))
        .insert_header(("x-accel-buffering", "no"));
    if request.method() == Method::HEAD {
        return Ok(answer.finish());
    }
    let place = state.limits.open_stream(&caller.principal.grant, state.now())?;
    let watch = state.spine.live.watch(from, filter);
    let listener = Listener {
        _place: place,
        boot: watch.boot(),
        watch,
        secrets: state.secrets.clone(),
        ended: Box::pin(caller.principal.ended()),
        sign: tokio::time::interval(SIGN_OF_LIFE),
    };
    Ok(answer.streaming(chunks(listener)))
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
        let gap = |gap: &Gap| {
            let place = Mark { boot: self.boot, seq: gap.to };
            format!("id: {place}\nevent: gap\ndata: {}\n\n", gap.data())
        };
        let mut text = batch.before.as_ref().map(gap).unwrap_or_default();
        for told in &batch.events {
            text.push_str(told.wire(|told| event(self.boot, told, &self.secrets)));
        }
        text.extend(batch.after.as_ref().map(gap));
        text
    }
}

/// An event as it stands on the wire.
#[derive(Serialize)]
struct Wire<'a> {
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    team_seq: Option<u64>,
    at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<&'a TeamName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<&'a TopicId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a TaskId>,
    #[serde(flatten)]
    data: &'a Data,
}

pub(in crate::http) fn event(boot: u64, told: &Told, secrets: &Secrets) -> String {
    let event = &told.event;
    let place = Mark { boot, seq: told.seq };
    let wire = Wire {
        seq: told.seq,
        team_seq: told.team_seq,
        at: Moment(told.at),
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
fn left_off(request: &HttpRequest) -> ApiResult<Option<Mark>> {
    let header = request.headers().get(LAST_EVENT_ID);
    match header.map(|value| value.to_str().unwrap_or_default()) {
        None | Some("") => Ok(None),
        Some(text) => text
            .parse::<Mark>()
            .map(Some)
            .map_err(|error| ApiError::invalid_field("Last-Event-ID", error.to_string())),
    }
}
