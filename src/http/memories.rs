//! `/api/v1/memories`: what teams remember, for operators.

use std::collections::HashMap;

use actix_web::{Either, web};
use hivewright_actors::{
    clock::Timestamp,
    excerpt,
    ids::{MemoryId, TeamKey},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::{
    State,
    arguments::{Caller, Json, Operate, Read},
    auth::principal::Principal,
    batch,
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Created, Data, Done, Rows},
    routes::{Resource, at},
};
use crate::{
    api::{batch::ItemError, endpoint::Empty},
    memory::{
        chain::{Draft, Edit, Verdict},
        entry::{Actor, Entry, Key, Remark, Review},
        inject::Injection,
        kind::Kind,
        provenance::Provenance,
        reading::{Browse, Found, Sort},
    },
    time,
};

/// How much of a content a list shows, in characters.
const SHOWN: usize = 200;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/memories")
            .get(
                Operation::new("Lists or searches what teams remember.")
                    .description("With `q` the best match is first.")
                    .query(
                        const {
                            &[
                                Field::text("team", "Only of this team."),
                                Field::text("key", "Only under this key."),
                                Field::text("type", "Only of this type, such as `lesson`."),
                                Field::word("review", reviews, "Only those in this review."),
                                Field::flag("active", "Only versions that count, or others."),
                                Field::text("q", "Words to search for."),
                            ]
                        },
                    )
                    .pages(&["-updated_at", "score"]),
                list,
            )
            .post(
                Operation::new("Saves a memory for a team.")
                    .refuses(&[409])
                    .example(
                        r#"{"team": "main", "key": "office", "content": "We are in Berlin.", "type": "context"}"#,
                    ),
                create,
            ),
        at("/api/v1/memories/review").post(
            Operation::new("Approves or rejects several memories, each by itself.")
                .example(r#"{"items": [{"id": "mem-1", "decision": "reject", "note": "hearsay"}]}"#),
            decide_several,
        ),
        at("/api/v1/memories/{id}/chain").get(
            Operation::new("Lists all versions of a memory.").pages(&["-version"]),
            versions,
        ),
        at("/api/v1/memories/{id}/rollback").post(
            Operation::new("Brings an earlier version back, as a new one.").refuses(&[409]),
            bring_back,
        ),
        at("/api/v1/memories/{id}/review").post(
            Operation::new("Approves a memory that waits for a person, in other words if need be, or rejects it.")
                .refuses(&[409])
                .example(r#"{"decision": "approve", "content": "We are in Hamburg."}"#),
            decide,
        ),
        at("/api/v1/memories/{id}/pin").post(
            Operation::new("Puts a memory before others of its type in prompts, or no longer.")
                .refuses(&[409])
                .example(r#"{"pinned": true}"#),
            set_pin,
        ),
        at("/api/v1/memories/{id}")
            .get(Operation::new("Shows a version of a memory, whole."), show)
            .patch(
                Operation::new("Corrects a memory, as a new version.")
                    .refuses(&[409])
                    .example(r#"{"content": "We are in Hamburg.", "supersede_reason": "moved"}"#),
                edit,
            )
            .delete(
                Operation::new("Ends a memory: it is kept, and no longer counts.")
                    .query(const { &[Field::text("note", "Why.")] })
                    .refuses(&[409]),
                deactivate,
            ),
    ]
}

fn reviews() -> Vec<&'static str> {
    Review::ALL.map(Review::as_str).to_vec()
}

/// A version as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Memory")]
struct Row {
    id: MemoryId,
    team: String,
    generation: u32,
    #[schemars(with = "String")]
    key: Key,
    version: u32,
    #[serde(rename = "type")]
    kind: Kind,
    /// Whole where one version is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The beginning, or the part that was found, in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    snippet: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    active: bool,
    /// It waits to take the place of the active version.
    proposal: bool,
    review: Review,
    reviewed: Option<Remarked>,
    pinned: bool,
    expires_at: Option<String>,
    ended: Option<Remarked>,
    supersedes_id: Option<MemoryId>,
    supersede_reason: Option<String>,
    provenance: Provenance,
    sources: Vec<String>,
    #[schemars(with = "String")]
    updated_by: Actor,
    created_at: Option<String>,
    updated_at: Option<String>,
    /// Whether the next prompt holds it, and if not, why.
    #[serde(skip_serializing_if = "Option::is_none")]
    injection: Option<Injection>,
    /// The version that a proposal would replace.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Current>,
    /// It was so already.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchanged: Option<bool>,
}

/// Who did something, when and why.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryRemark")]
struct Remarked {
    at: Option<String>,
    #[schemars(with = "String")]
    by: Actor,
    note: Option<String>,
}

/// The version that counts.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryCurrent")]
struct Current {
    id: MemoryId,
    content: String,
}

impl Remarked {
    fn of(remark: &Remark) -> Self {
        Self { at: json::date(remark.at), by: remark.by.clone(), note: remark.note.clone() }
    }
}

impl Row {
    fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id.clone(),
            team: entry.team.name.to_string(),
            generation: entry.team.generation,
            key: entry.key.clone(),
            version: entry.version,
            kind: entry.kind,
            content: None,
            snippet: None,
            score: None,
            active: entry.active,
            proposal: entry.is_proposal(),
            review: entry.review,
            reviewed: entry.reviewed.as_ref().map(Remarked::of),
            pinned: entry.pinned,
            expires_at: entry.expires_at.and_then(json::date),
            ended: entry.ended.as_ref().map(Remarked::of),
            supersedes_id: entry.supersedes_id.clone(),
            supersede_reason: entry.supersede_reason.clone(),
            provenance: entry.provenance.clone(),
            sources: entry.sources.clone(),
            updated_by: entry.updated_by.clone(),
            created_at: json::date(entry.created_at),
            updated_at: json::date(entry.updated_at),
            injection: None,
            current: None,
            unchanged: None,
        }
    }

    fn whole(entry: &Entry) -> Self {
        Self { content: Some(entry.content.clone()), ..Self::of(entry) }
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewMemory")]
struct Wish {
    team: String,
    key: String,
    content: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    supersede_reason: Option<String>,
    expires_at: Option<String>,
    #[serde(default)]
    sources: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "MemoryCorrection")]
struct Correction {
    content: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    supersede_reason: Option<String>,
    /// Null takes the end away.
    #[serde(default, deserialize_with = "given")]
    expires_at: Option<Option<String>>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[schemars(rename = "MemoryVerdict")]
#[serde(rename_all = "snake_case")]
enum Decision {
    Approve,
    Reject,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "MemoryReview")]
struct Decided {
    decision: Decision,
    /// Approves it in these words instead of its own.
    content: Option<String>,
    note: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "MemoryReviews")]
struct Decisions {
    /// One to a hundred decisions.
    #[schemars(length(min = 1, max = 100))]
    items: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MemoryReviewItem")]
struct Item {
    id: String,
    decision: Decision,
    /// Approves it in these words instead of its own.
    content: Option<String>,
    note: Option<String>,
}

/// What came of several decisions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReviewedItems")]
struct AllReviewed {
    /// In the order in which they were sent.
    items: Vec<Reviewed>,
}

/// What came of one of several decisions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReviewedItem")]
struct Reviewed {
    id: String,
    /// What a request for this alone would have been answered with.
    status: u16,
    memory: Option<Row>,
    error: Option<ItemError>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "MemoryPin")]
struct Pin {
    pinned: bool,
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Row>, ApiError> {
    let query = &caller.query;
    let searched = query.text("q").is_some();
    let page = if searched { query.page_by("-score")? } else { query.page()? };
    let by_score = page.sort.field == "score";
    // What fits words has no place of its own: a list of it goes on by how many were seen.
    let place = page.after.as_ref();
    let seen = place.filter(|_| by_score).and_then(Value::as_u64);
    let seen = seen.and_then(|seen| usize::try_from(seen).ok());
    let after = place.filter(|_| !by_score).and_then(changed);
    let offset = seen.unwrap_or(page.offset);
    let browse = Browse {
        team: query.text("team").map(Into::into),
        teams: caller.principal.teams().map(<[String]>::to_vec),
        key: query.text("key").map(Key::parse).transpose()?,
        kind: query.text("type").map(Kind::named).transpose()?,
        review: query.text("review").and_then(state_of_review),
        active: query.flag("active"),
        words: query.text("q").map(ToOwned::to_owned),
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
        if by_score {
            json!(offset.saturating_add(page.limit))
        } else {
            json!([last.entry.updated_at.0, last.entry.id])
        }
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
        Row {
            snippet: Some(snippet.to_owned()),
            score: searched.then_some(found.score),
            injection: (injections.get(&found.entry.team)).map(|all| all.of(&found.entry)),
            ..Row::of(&found.entry)
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
async fn chain_of<R>(
    state: &State,
    caller: &Caller<R>,
    id: &MemoryId,
) -> Result<Vec<Entry>, ApiError> {
    let chain = state.memory.chain(id).await?;
    let foreign = |entry: &Entry| !caller.reaches(entry.team.name.as_str());
    if chain.iter().any(foreign) {
        Err(ApiError::not_found("there is no such memory"))
    } else {
        Ok(chain)
    }
}

async fn create(
    state: web::Data<State>,
    caller: Caller<Operate>,
    Json(wish): Json<Wish>,
) -> Result<Either<Created<Row>, Data<Row>>, ApiError> {
    caller.team(&wish.team)?;
    let by = operator(&caller.principal);
    let draft = Draft {
        team: team(&state, &wish.team)?,
        key: Key::parse(&wish.key)?,
        content: wish.content,
        kind: wish.kind.as_deref().map(Kind::named).transpose()?,
        reason: wish.supersede_reason,
        sources: wish.sources,
        provenance: Provenance::by(&by),
        by,
        call: None,
        expires_at: wish.expires_at.as_deref().map(moment).transpose()?,
        looks_back: false,
    };
    let saved = state.memory.save(draft).await?;
    let row = Row::whole(&saved.entry);
    caller.names(format!("{} {}", row.id, wish.team));
    Ok(if !saved.unchanged {
        Either::Left(Created(row))
    } else {
        Either::Right(Data(Row { unchanged: Some(true), ..row }))
    })
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Data<Row>, ApiError> {
    let id = MemoryId::from(id.into_inner());
    let chain = chain_of(&state, &caller, &id).await?;
    let entry = chain.iter().find(|entry| entry.id == id);
    let entry = entry.ok_or_else(|| ApiError::not_found("there is no such memory"))?;
    let active = chain.iter().find(|entry| entry.active);
    let current = active
        .filter(|_| entry.is_proposal())
        .map(|active| Current { id: active.id.clone(), content: active.content.clone() });
    let injections = state.memory.injections(&entry.team).await?;
    Ok(Data(Row { current, injection: Some(injections.of(entry)), ..Row::whole(entry) }))
}

async fn edit(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(wish): Json<Correction>,
) -> Result<Data<Row>, ApiError> {
    let id = reached(&state, &caller, id).await?;
    let expires_at = match wish.expires_at {
        Some(text) => Some(text.as_deref().map(moment).transpose()?),
        None => None,
    };
    let edit = Edit {
        content: wish.content,
        kind: wish.kind.as_deref().map(Kind::named).transpose()?,
        reason: wish.supersede_reason,
        expires_at,
    };
    let by = operator(&caller.principal);
    let edited = state.memory.edit(&id, edit, by).await?;
    Ok(Data(Row::whole(&edited)))
}

/// The id of a memory of a team that the caller reaches.
async fn reached<R>(
    state: &State,
    caller: &Caller<R>,
    id: web::Path<String>,
) -> Result<MemoryId, ApiError> {
    let id = MemoryId::from(id.into_inner());
    if caller.principal.teams().is_some() {
        chain_of(state, caller, &id).await?;
    }
    Ok(id)
}

async fn deactivate(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
) -> Result<Done, ApiError> {
    let id = reached(&state, &caller, id).await?;
    let note = caller.query.text("note").map(ToOwned::to_owned);
    let by = operator(&caller.principal);
    state.memory.deactivate(&id, note, by).await?;
    Ok(Done)
}

async fn versions(
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Rows<Row>, ApiError> {
    let chain = chain_of(&state, &caller, &id.into_inner().into()).await?;
    let page = caller.query.page()?;
    listing::page(chain.iter().map(Row::whole), &page, |row| row.id.to_string())
}

async fn bring_back(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(Empty {}): Json<Empty>,
) -> Result<Created<Row>, ApiError> {
    let id = reached(&state, &caller, id).await?;
    let by = operator(&caller.principal);
    let restored = state.memory.rollback(&id, by).await?;
    Ok(Created(Row::whole(&restored)))
}

async fn decide(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(decided): Json<Decided>,
) -> Result<Data<Row>, ApiError> {
    review(&state, &caller, id, decided).await.map(Data)
}

async fn decide_several(
    state: web::Data<State>,
    caller: Caller<Operate>,
    Json(Decisions { items }): Json<Decisions>,
) -> Result<Data<AllReviewed>, ApiError> {
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        let Item { id, decision, content, note } = item;
        let decided = Decided { decision, content, note };
        let reviewed = review(&state, &caller, web::Path::from(id.clone()), decided).await;
        let (status, memory, error) = batch::told(reviewed);
        answers.push(Reviewed { id, status, memory, error });
    }
    Ok(Data(AllReviewed { items: answers }))
}

async fn review(
    state: &web::Data<State>,
    caller: &Caller<Operate>,
    id: web::Path<String>,
    decided: Decided,
) -> Result<Row, ApiError> {
    let Decided { decision, content, note } = decided;
    let id = reached(state, caller, id).await?;
    let by = operator(&caller.principal);
    let memory = &state.memory;
    let reviewed = match (decision, content) {
        (Decision::Approve, Some(content)) => memory.correct(&id, content, note, by).await?,
        (Decision::Approve, None) => memory.review(&id, Verdict::Approve, note, by).await?,
        (Decision::Reject, None) => memory.review(&id, Verdict::Reject, note, by).await?,
        (Decision::Reject, Some(_)) => {
            let reason = "what is rejected is not put into other words";
            return Err(ApiError::invalid_field("content", reason));
        }
    };
    Ok(Row::whole(&reviewed))
}

async fn set_pin(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(Pin { pinned }): Json<Pin>,
) -> Result<Data<Row>, ApiError> {
    let id = reached(&state, &caller, id).await?;
    let by = operator(&caller.principal);
    let entry = state.memory.pin(&id, pinned, by).await?;
    Ok(Data(Row::whole(&entry)))
}

fn operator(principal: &Principal) -> Actor {
    Actor::Operator(principal.id().to_string())
}

fn team(state: &State, name: &str) -> Result<TeamKey, ApiError> {
    let found = state.service.team(name);
    found.ok_or_else(|| ApiError::invalid_field("team", "there is no such team"))
}

fn state_of_review(word: &str) -> Option<Review> {
    let mut all = Review::ALL.into_iter();
    all.find(|review| review.as_str() == word)
}

fn moment(text: &str) -> Result<hivewright_actors::clock::Timestamp, ApiError> {
    time::parse(text).ok_or_else(|| {
        ApiError::invalid_field("expires_at", "expected a date such as 2026-01-31T12:00:00Z")
    })
}
