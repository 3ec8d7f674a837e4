//! `/api/v1/inbox`: what the operator should know, until it was read.

use actix_web::{HttpRequest, HttpResponse, Resource, web};
use hivewright_actors::{
    ids::NoticeId,
    notice::{Gathered, Notice, NoticeKind, gather},
    store::{reads, records::Writes},
};
use serde::Serialize;

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    json,
    query::Query,
    routes::{self, Methods},
};

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/inbox", Methods::new().get(list))
}

pub(super) fn all_read() -> Resource {
    routes::resource("/api/v1/inbox/read-all", Methods::new().post(read_all))
}

pub(super) fn read() -> Resource {
    routes::resource("/api/v1/inbox/{id}/read", Methods::new().post(read_one))
}

/// Equal notices of ten minutes, as answers show them.
#[derive(Serialize)]
struct Row {
    id: NoticeId,
    kind: NoticeKind,
    team: Option<String>,
    text: String,
    /// How often it was said.
    count: usize,
    /// Ids of tasks, runs, triggers and approvals that it is about.
    links: Vec<String>,
    at: Option<String>,
    last_at: Option<String>,
    read: bool,
}

impl From<Gathered> for Row {
    fn from(gathered: Gathered) -> Self {
        Self {
            id: gathered.first.id,
            kind: gathered.first.kind,
            team: gathered.first.team.map(|team| team.to_string()),
            text: gathered.first.text,
            count: gathered.ids.len(),
            links: gathered.first.refs,
            at: json::date(gathered.first.at),
            last_at: json::date(gathered.last_at),
            read: gathered.read,
        }
    }
}

/// Newest first.
async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    let query = Query::read(&request, &["unread", "kind", "limit", "offset"])?;
    let unread = match query.text("unread") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            return Err(ApiError::invalid_field(
                "unread",
                "expected `true` or `false`",
            ));
        }
    };
    let kind: Option<NoticeKind> = match query.text("kind") {
        None => None,
        Some(name) => Some(
            serde_json::from_value(name.into())
                .map_err(|_| ApiError::invalid_field("kind", "there is no such kind of notice"))?,
        ),
    };
    let page = query.page()?;
    let rows: Vec<Row> = gather(notices(&state).await?)
        .into_iter()
        .filter(|group| !(unread && group.read))
        .filter(|group| kind.is_none_or(|wanted| group.first.kind == wanted))
        .map(Row::from)
        .collect();
    Ok(json::page(&rows, page))
}

async fn read_one(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let all = notices(&state).await?;
    let mut groups = gather(all.clone()).into_iter();
    let meant = groups.find(|group| group.ids.iter().any(|known| known.as_str() == *id));
    let meant = meant.ok_or_else(|| ApiError::not_found("there is no such notice"))?;
    mark(&state, all, |notice| meant.ids.contains(&notice.id)).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn read_all(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Operate)?;
    json::no_query(&request)?;
    let all = notices(&state).await?;
    mark(&state, all, |_| true).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn notices(state: &State) -> Result<Vec<Notice>, ApiError> {
    let notices = state.spine.store.read(reads::notices).await;
    notices.map_err(ApiError::internal)
}

/// Notes that some were read.
async fn mark(
    state: &State,
    notices: Vec<Notice>,
    which: impl Fn(&Notice) -> bool,
) -> Result<(), ApiError> {
    let unread = notices
        .into_iter()
        .filter(|notice| !notice.read && which(notice));
    let writes = unread.fold(Writes::new(), |writes, notice| {
        writes.notice(&Notice {
            read: true,
            ..notice
        })
    });
    let committed = state.spine.store.commit(writes).await;
    committed.map_err(ApiError::internal)?;
    Ok(())
}
