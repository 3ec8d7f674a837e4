//! `/api/v1/search`: what was said, done and answered, by its words.

use std::{ops::Range, time::Duration};

use hivewright_actors::{
    clock::Timestamp,
    search::{Excerpt, Hit, Place, Query, Search},
};
use serde_json::{Value, json};

use crate::{
    api::{endpoint::*, reply::*, search::*, when::*},
    http::kit::{call::*, error::*, query::Page},
    logging::Secrets,
};

/// What was written before a search is waited for so long, until it can be found.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) async fn find(
    Call { state, caller, query, page, .. }: Call<Empty, SearchFilter>,
) -> ApiResult<Matches<SearchHit>> {
    let SearchFilter { words, team, period: Period { since, until } } = query;
    let query = Query::parse(&words)
        .ok_or_else(|| ApiError::invalid_field("q", "expected a word with letters or digits"))?;
    let now = state.now();
    let search = Search {
        query,
        teams: caller.teams(team),
        since: since.map(|since| since.from(now)),
        until: until.map(|until| until.from(now)),
        order: page.order(),
        after: place(&page),
        skip: page.offset,
        most: page.limit,
        counted: MOST_COUNTED + 1,
    };
    let store = &state.spine.store;
    let archived = tokio::time::timeout(ARCHIVE_TIMEOUT, store.archived()).await;
    let found = store.search(search).await?;
    let rows = Rows {
        data: found.hits.into_iter().map(|hit| shown(hit, &state.secrets)).collect(),
        total: found.total,
        next_cursor: found.next.map(|next| page.cursor(json!([next.at.0, next.id]))),
    };
    Ok(Matches { rows, is_complete: matches!(archived, Ok(Ok(()))) })
}

/// The last row of the page before.
fn place(page: &Page) -> Option<Place> {
    let after = page.after.as_ref()?;
    let at = after.get(0).and_then(Value::as_u64)?;
    Some(Place { at: Timestamp(at), id: after.get(1).and_then(Value::as_i64)? })
}

fn shown(hit: Hit, secrets: &Secrets) -> SearchHit {
    let Hit { key: _, team, at, task, session, part, seq, excerpt } = hit;
    let Excerpt { text, marks } = excerpt;
    let scrubbed = secrets.scrub_known(&text);
    // Behind what was taken out, nothing is where it was.
    let marks = if scrubbed == text { marks } else { Vec::new() };
    let count = |bytes: usize| text[..bytes].chars().count();
    let mark =
        |Range { start, end }: Range<usize>| SearchMark { start: count(start), end: count(end) };
    SearchHit {
        part,
        team,
        at: date(at),
        task_id: task,
        session_id: session,
        seq,
        marks: marks.into_iter().map(mark).collect(),
        excerpt: scrubbed,
    }
}
