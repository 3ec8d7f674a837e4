//! `/api/v1/memories`: what teams remember, for operators.

use std::collections::HashMap;

use hivewright_actors::{clock::Timestamp, excerpt, ids::MemoryId};
use serde_json::{Value, json};

use super::teams::existing;
use crate::{
    api::{endpoint::*, memories::*, reply::*, when::Moment},
    http::{
        kit::{call::*, error::*, listing},
        state::State,
    },
    memory::{
        chain::{Draft, Edit, Verdict},
        entry::{Actor, Entry, Key},
        reading::{Browse, Found, Sort},
    },
};

/// How much of a content a list shows, in characters.
const SHOWN: usize = 200;

fn whole(entry: &Entry) -> MemoryRow {
    MemoryRow { content: Some(entry.content.clone()), ..MemoryRow::from(entry) }
}

pub(super) async fn list(
    Call { state, caller, query: filter, page, .. }: Call<Empty, MemoryFilter>,
) -> ApiResult<Rows<MemoryRow>> {
    let searched = filter.words.is_some();
    let by_score = page.sort.field == "score";
    // What fits words has no place of its own: a list of it goes on by how many were seen.
    let place = page.after.as_ref();
    let seen = place.filter(|_| by_score).and_then(Value::as_u64);
    let seen = seen.and_then(|seen| usize::try_from(seen).ok());
    let after = place.filter(|_| !by_score).and_then(changed);
    let offset = seen.unwrap_or(page.offset);
    let browse = Browse {
        team: filter.team.map(Into::into),
        teams: caller.principal.teams.as_deref().map(<[String]>::to_vec),
        key: filter.key.as_deref().map(Key::parse).transpose()?,
        kind: filter.kind,
        review: filter.review,
        active: filter.active,
        words: filter.words,
        sort: match (by_score, page.sort.falling) {
            (true, true) => Sort::Best,
            (true, false) => Sort::Worst,
            (false, true) => Sort::Newest,
            (false, false) => Sort::Oldest,
        },
        after,
        // One more says whether there are more.
        limit: page.limit + 1,
        offset,
    };
    let mut found = state.memory.browse(browse).await?;
    let goes_on = found.rows.len() > page.limit;
    found.rows.truncate(page.limit);
    let last = found.rows.last().filter(|_| goes_on);
    let last = last.map(|last| {
        let (at, id) = (last.entry.updated_at.0, &last.entry.id);
        if by_score { json!(offset.saturating_add(page.limit)) } else { json!([at, id]) }
    });
    let mut injections = HashMap::new();
    for team in found.rows.iter().map(|found| &found.entry.team) {
        if !injections.contains_key(team) {
            injections.insert(team.clone(), state.memory.injections(team).await?);
        }
    }
    let shown = |found: Found| {
        let snippet =
            if searched { found.snippet.as_str() } else { &excerpt::line(&found.snippet, SHOWN) };
        MemoryRow {
            snippet: Some(snippet.to_owned()),
            score: searched.then_some(found.score),
            injection: (injections.get(&found.entry.team)).map(|all| all.of(&found.entry)),
            ..MemoryRow::from(&found.entry)
        }
    };
    Ok(Rows {
        data: found.rows.into_iter().map(shown).collect(),
        total: found.total,
        next_cursor: last.map(|place| page.cursor(place)),
    })
}

/// When the version was changed after which a list goes on, and its id.
fn changed(place: &Value) -> Option<(Timestamp, MemoryId)> {
    let (at, id) = (place[0].as_u64()?, place[1].as_str()?);
    Some((Timestamp(at), id.into()))
}

/// Its versions, if the caller reaches the team.
async fn chain_of(state: &State, caller: &Caller, id: &MemoryId) -> ApiResult<Vec<Entry>> {
    let chain = state.memory.chain(id).await?;
    if chain.iter().all(|entry| caller.reaches(entry.team.name.as_str())) {
        Ok(chain)
    } else {
        Err(unknown())
    }
}

/// The id of a memory of a team that the caller reaches.
async fn reached(state: &State, caller: &Caller, id: &str) -> ApiResult<MemoryId> {
    let id = MemoryId::from(id);
    if caller.principal.teams.is_some() {
        chain_of(state, caller, &id).await?;
    }
    Ok(id)
}

fn unknown() -> ApiError {
    ApiError::not_found("there is no such memory")
}

pub(super) async fn save(
    Call { state, caller, body: new, .. }: Call<Empty, Empty, NewMemory>,
) -> ApiResult<Saved<MemoryRow>> {
    caller.team(&new.team)?;
    let by = operator(&caller);
    let draft = Draft {
        team: existing(&state, &caller, "team", &new.team)?,
        key: Key::parse(&new.key)?,
        content: new.content,
        kind: new.kind,
        reason: new.supersede_reason,
        sources: new.sources,
        provenance: by.provenance(),
        by,
        call: None,
        expires_at: new.expires_at.map(|Moment(at)| at),
        looks_back: false,
    };
    let saved = state.memory.save(draft).await?;
    caller.names(format!("{} {}", saved.entry.id, new.team));
    let data = MemoryRow { unchanged: saved.unchanged, ..whole(&saved.entry) };
    Ok(Saved { data, is_new: !saved.unchanged })
}

pub(super) async fn show(
    Call { state, caller, path, .. }: Call<ById>,
) -> ApiResult<Data<MemoryRow>> {
    let id = MemoryId::from(path.id);
    let chain = chain_of(&state, &caller, &id).await?;
    let entry = chain.iter().find(|entry| entry.id == id).ok_or_else(unknown)?;
    let active = chain.iter().find(|entry| entry.active);
    let current = active.filter(|_| entry.is_proposal());
    let current =
        current.map(|now| MemoryCurrent { id: now.id.clone(), content: now.content.clone() });
    let injections = state.memory.injections(&entry.team).await?;
    Ok(Data(MemoryRow { current, injection: Some(injections.of(entry)), ..whole(entry) }))
}

pub(super) async fn correct(
    Call { state, caller, path, body, .. }: Call<ById, Empty, MemoryCorrection>,
) -> ApiResult<Data<MemoryRow>> {
    let id = reached(&state, &caller, &path.id).await?;
    let edit = Edit {
        content: body.content,
        kind: body.kind,
        reason: body.supersede_reason,
        expires_at: body.expires_at.map(|end| end.map(|Moment(at)| at)),
    };
    let edited = state.memory.edit(&id, edit, operator(&caller)).await?;
    Ok(Data(whole(&edited)))
}

pub(super) async fn end(
    Call { state, caller, path, query: MemoryEnd { note }, .. }: Call<ById, MemoryEnd>,
) -> ApiResult<Done> {
    let id = reached(&state, &caller, &path.id).await?;
    state.memory.deactivate(&id, note, operator(&caller)).await?;
    Ok(Done)
}

pub(super) async fn list_versions(
    Call { state, caller, path, page, .. }: Call<ById>,
) -> ApiResult<Rows<MemoryRow>> {
    let chain = chain_of(&state, &caller, &path.id.into()).await?;
    listing::page(chain.iter().map(whole), &page, |row| row.id.to_string())
}

pub(super) async fn roll_back(
    Call { state, caller, path, .. }: Call<ById>,
) -> ApiResult<Created<MemoryRow>> {
    let id = reached(&state, &caller, &path.id).await?;
    let restored = state.memory.rollback(&id, operator(&caller)).await?;
    Ok(Created(whole(&restored)))
}

pub(super) async fn review_one(
    Call { state, caller, path, body, .. }: Call<ById, Empty, MemoryReview>,
) -> ApiResult<Data<MemoryRow>> {
    review(&state, &caller, &path.id, body).await.map(Data)
}

pub(super) async fn review_several(
    Call { state, caller, body, .. }: Call<Empty, Empty, MemoryReviews>,
) -> ApiResult<Data<ReviewedItems>> {
    let mut items = Vec::with_capacity(body.items.len());
    for MemoryReviewItem { id, review: decided } in body.items {
        let reviewed = review(&state, &caller, &id, decided).await;
        let (status, memory, error) = told(reviewed);
        items.push(ReviewedItem { id, status, memory, error });
    }
    Ok(Data(ReviewedItems { items }))
}

async fn review(
    state: &State,
    caller: &Caller,
    id: &str,
    MemoryReview { decision, content, note }: MemoryReview,
) -> ApiResult<MemoryRow> {
    let id = reached(state, caller, id).await?;
    let by = operator(caller);
    let reviewed = match (decision, content) {
        (Verdict::Approve, Some(content)) => state.memory.correct(&id, content, note, by).await?,
        (decision, None) => state.memory.review(&id, decision, note, by).await?,
        (Verdict::Reject, Some(_)) => {
            let reason = "what is rejected is not put into other words";
            return Err(ApiError::invalid_field("content", reason));
        }
    };
    Ok(whole(&reviewed))
}

pub(super) async fn pin(
    Call { state, caller, path, body: MemoryPin { pinned }, .. }: Call<ById, Empty, MemoryPin>,
) -> ApiResult<Data<MemoryRow>> {
    let id = reached(&state, &caller, &path.id).await?;
    let entry = state.memory.pin(&id, pinned, operator(&caller)).await?;
    Ok(Data(whole(&entry)))
}

fn operator(caller: &Caller) -> Actor {
    Actor::Operator(caller.principal.id.to_string())
}
