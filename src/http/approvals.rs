//! `/api/v1/approvals`: calls that wait for a person, and what became of them.

use std::time::Duration;

use actix_web::{HttpRequest, http::StatusCode, web};
use hivewright_actors::{
    approvals::{
        Decide, EndOverdue,
        grants::{Covers, MOST_USES, NotGrantable},
        record::{Approval, Choice, Decider, Execution, Resolution, Status, Word},
        records,
        refusal::NotDecided,
    },
    clock::{Timestamp, millis},
    ids::ApprovalId,
    policy::class::{Kind, Risk},
    store::reads::get,
    task::{Cause, Label, Lineage},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    State, access,
    arguments::{Approve, Caller, Json, Read},
    auth::{principal::Principal, scope::Scope},
    batch,
    error::ApiError,
    grants, json,
    listing::Gathering,
    operation::{Field, Operation},
    reply::{Data, Rows},
    routes::{Resource, at},
};
use crate::vocabulary;

/// An actor that does not answer in this time is in trouble.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/approvals").get(
            Operation::new("Lists calls that wait for a person, and what became of them.")
                .query(
                    const {
                        &[
                            Field::word("status", || words(&Status::ALL), "Only with this status."),
                            Field::text("team", "Only of this team."),
                            Field::word("kind", || words(&Kind::ALL), "Only of this kind."),
                        ]
                    },
                )
                .pages(&["created_at", "expires_at"]),
            list,
        ),
        at("/api/v1/approvals/batch").post(
            Operation::new("Decides on several calls, each by itself.")
                .description("Each item succeeds or fails alone, and has its own answer.")
                .example(
                    r#"{"items": [{"id": "bcdfgh", "decision": "deny", "digest": "…"}]}"#,
                ),
            decide_several,
        ),
        at("/api/v1/approvals/{id}")
            .get(
                Operation::new("Shows an approval, named by its id or its short id."),
                show,
            )
            .post(
                Operation::new("Approves a call, or denies it.")
                    .description(
                        "`digest` repeats what was shown: if the call has changed since, nothing is \
                         decided. A note reaches the team. With `uses` the approval is good for more \
                         calls than this one: those that equal the row's `grant` in everything. \
                         `always` needs the scope `admin` too. At high risk whoever caused the call does not \
                         decide, unless nobody else could: then `confirm` repeats its short id.",
                    )
                    .refuses(&[409, 422])
                    .recorded()
                    .example(r#"{"decision": "deny", "digest": "…", "note": "not on a Friday"}"#),
                decide,
            ),
    ]
}

/// The words of a list by name.
pub(super) fn words<T, const N: usize>(all: &'static [(&'static str, T); N]) -> Vec<&'static str> {
    all.iter().map(|(name, _)| *name).collect()
}

/// An approval as answers show it.
#[derive(Serialize, ToSchema)]
#[schema(as = Approval)]
pub(super) struct Row {
    id: String,
    /// Six letters for people.
    short_id: String,
    #[schema(schema_with = vocabulary::of::<Kind>)]
    kind: Kind,
    team: String,
    generation: u32,
    session: Option<String>,
    turn: Option<String>,
    task_id: Option<String>,
    /// Who is behind it.
    #[schema(schema_with = vocabulary::of::<Cause>)]
    requester: Cause,
    tool: Option<String>,
    /// The final arguments, without secrets.
    arguments: Value,
    cwd: Option<String>,
    /// Names of the secrets that it would use.
    secrets: Vec<String>,
    /// What would happen, in one sentence.
    summary: String,
    diff: Option<String>,
    /// The rule that asks.
    rule: Option<String>,
    #[schema(schema_with = vocabulary::of::<Risk>)]
    risk: Risk,
    #[schema(schema_with = vocabulary::of::<Label>)]
    label: Label,
    #[schema(schema_with = vocabulary::maybe::<Lineage>)]
    lineage: Option<Lineage>,
    /// Stands for everything that is decided on.
    digest: String,
    #[schema(schema_with = vocabulary::of::<Status>)]
    status: Status,
    #[schema(schema_with = vocabulary::maybe::<Resolution>)]
    resolution: Option<Resolution>,
    votes: Vec<Vote>,
    resolved_by: Option<String>,
    resolved_via: Option<String>,
    /// Whoever caused it decided, since nobody else could.
    alone: bool,
    note: Option<String>,
    created_at: Option<String>,
    expires_at: Option<String>,
    /// Milliseconds until nobody can decide any more.
    time_left_ms: Option<u64>,
    resolved_at: Option<String>,
    /// What became of the call.
    #[schema(schema_with = vocabulary::of::<Execution>)]
    execution: Execution,
    /// What would be granted beyond this one call by `uses` or `always`; null if nothing can be.
    grant: Option<grants::Shown>,
}

/// One person's word.
#[derive(Serialize, ToSchema)]
struct Vote {
    by: String,
    #[schema(schema_with = vocabulary::of::<Choice>)]
    choice: Choice,
    at: Option<String>,
}

impl Row {
    pub(super) fn new(approval: Approval, now: Timestamp) -> Self {
        let pending = approval.is_pending(now);
        let grantable = Covers::of(&approval).ok().filter(|_| pending);
        let votes = approval.votes.into_iter().map(|vote| Vote {
            by: vote.by,
            choice: vote.choice,
            at: json::date(vote.at),
        });
        let votes = votes.collect();
        Self {
            id: approval.id.to_string(),
            short_id: approval.short_id,
            kind: approval.kind,
            generation: approval.team.generation,
            team: approval.team.name.to_string(),
            session: approval.lane.map(|lane| match lane.topic {
                Some(topic) => format!("{}/{topic}", lane.team),
                None => lane.team.to_string(),
            }),
            turn: approval.turn.map(|turn| turn.to_string()),
            task_id: approval.task.map(|task| task.to_string()),
            requester: approval.requester,
            tool: approval.tool,
            arguments: approval.arguments,
            cwd: approval.cwd,
            secrets: approval.secrets.into_keys().collect(),
            summary: approval.summary,
            diff: approval.diff,
            rule: approval.rule,
            risk: approval.risk,
            label: approval.label,
            lineage: approval.lineage,
            digest: approval.digest,
            status: approval.status,
            resolution: approval.resolution,
            votes,
            resolved_by: approval.resolved_by,
            resolved_via: approval.resolved_via,
            alone: approval.alone,
            note: approval.note,
            created_at: json::date(approval.created_at),
            expires_at: json::date(approval.expires_at),
            time_left_ms: pending.then(|| millis(approval.expires_at.since(now))),
            resolved_at: approval.resolved_at.and_then(json::date),
            execution: approval.execution,
            grant: grantable.map(grants::Shown::from),
        }
    }
}

/// For how many calls an approval is good.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ApprovalUses)]
enum Uses {
    /// So many, within 24 hours.
    Number(u32),
    /// `always`.
    Word(Always),
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Always {
    Always,
}

impl From<&Uses> for Resolution {
    fn from(uses: &Uses) -> Self {
        match uses {
            Uses::Number(1) => Self::Once,
            Uses::Number(number) => Self::Uses(*number),
            Uses::Word(Always::Always) => Self::Always,
        }
    }
}

#[derive(Deserialize, ToSchema)]
#[schema(as = ApprovalDecision)]
struct Verdict {
    #[schema(schema_with = vocabulary::of::<Choice>)]
    decision: Choice,
    /// As it was shown.
    digest: String,
    /// For how many calls like this: one, if it is not given.
    #[serde(default)]
    uses: Option<Uses>,
    /// For the team.
    #[serde(default)]
    #[schema(max_length = 2000)]
    note: Option<String>,
    /// The short id, typed by whoever caused the call and decides since nobody else could.
    #[serde(default)]
    confirm: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[schema(as = ApprovalDecisions)]
struct Verdicts {
    /// One to a hundred decisions.
    #[schema(min_items = 1, max_items = 100)]
    items: Vec<Item>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ApprovalDecisionItem)]
struct Item {
    /// The approval, by its id or its short id.
    id: String,
    #[schema(schema_with = vocabulary::of::<Choice>)]
    decision: Choice,
    /// As it was shown.
    digest: String,
    /// For how many calls like this: one, if it is not given.
    #[serde(default)]
    uses: Option<Uses>,
    /// For the team.
    #[serde(default)]
    #[schema(max_length = 2000)]
    note: Option<String>,
    /// The short id, typed by whoever caused the call and decides since nobody else could.
    #[serde(default)]
    confirm: Option<String>,
}

/// What came of several decisions.
#[derive(Serialize, ToSchema)]
#[schema(as = DecidedItems)]
struct AllDecided {
    /// In the order in which they were sent.
    items: Vec<Decided>,
}

/// What came of one of several decisions.
#[derive(Serialize, ToSchema)]
#[schema(as = DecidedItem)]
struct Decided {
    id: String,
    /// What a request for this alone would have been answered with.
    status: u16,
    approval: Option<Row>,
    error: Option<batch::Fault>,
}

/// The longest note, in characters.
const LONGEST_NOTE: usize = 2_000;

/// Oldest first: what has waited longest is decided first.
async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Row>, ApiError> {
    let query = &caller.query;
    let status = query.word("status", &Status::ALL);
    let kind = query.word("kind", &Kind::ALL);
    let team = query.text("team").map(str::to_owned);
    let page = query.page()?;
    let now = state.access.auth.now();
    let teams = caller.principal.teams().map(<[String]>::to_vec);
    let wanted = move |row: &Approval| {
        let name = row.team.name.as_str();
        let reached = |teams: &Vec<String>| teams.iter().any(|team| team == name);
        teams.as_ref().is_none_or(reached)
            && status.is_none_or(|wanted| row.status == wanted)
            && kind.is_none_or(|wanted| row.kind == wanted)
            && team.as_ref().is_none_or(|wanted| name == wanted)
    };
    settled(&state).await?;
    // What waits is found without looking at the rest.
    let each = match status {
        Some(Status::Pending) => records::each_pending,
        _ => records::each_approval,
    };
    let rows = state.spine.store.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        each(storage, &mut |row: Approval| {
            if wanted(&row) {
                let at = match page.sort.field {
                    "expires_at" => row.expires_at,
                    _ => row.created_at,
                };
                gathering.see(at, row.id.as_str());
            }
        })?;
        gathering.rows(&page, |id| {
            let row = get::<Approval>(storage, &ApprovalId::from(id))?;
            Ok(row.map(|row| Row::new(row, now)))
        })
    });
    rows.await.map_err(ApiError::internal)
}

/// Ends what has run out, and waits until that is stored.
pub(super) async fn settled(state: &State) -> Result<(), ApiError> {
    let approvals = &state.spine.approvals;
    ask(approvals.send(EndOverdue).timeout(PATIENCE).await)?;
    let stored = state.spine.store.commit(Default::default()).await;
    stored.map(drop).map_err(ApiError::internal)
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Data<Row>, ApiError> {
    let found = find(&state, &caller, &id).await?;
    Ok(Data(Row::new(found, state.access.auth.now())))
}

/// An approval by one of its names, of a team that the caller reaches.
async fn find<R>(state: &State, caller: &Caller<R>, id: &str) -> Result<Approval, ApiError> {
    settled(state).await?;
    let which = id.to_owned();
    let store = &state.spine.store;
    let found = store.read(move |storage| records::called(storage, &which));
    found
        .await
        .map_err(ApiError::internal)?
        .filter(|row| caller.reaches(row.team.name.as_str()))
        .ok_or_else(|| ApiError::not_found("there is no such approval"))
}

async fn decide(
    state: web::Data<State>,
    caller: Caller<Approve>,
    request: HttpRequest,
    id: web::Path<String>,
    Json(verdict): Json<Verdict>,
) -> Result<Data<Row>, ApiError> {
    let decided = say(&state, &caller, via(&caller.principal, &request), id.into_inner(), verdict);
    decided.await.map(Data)
}

async fn decide_several(
    state: web::Data<State>,
    caller: Caller<Approve>,
    request: HttpRequest,
    Json(Verdicts { items }): Json<Verdicts>,
) -> Result<Data<AllDecided>, ApiError> {
    batch::check(&items)?;
    let via = via(&caller.principal, &request);
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        let verdict = Verdict {
            decision: item.decision,
            digest: item.digest,
            uses: item.uses,
            note: item.note,
            confirm: item.confirm,
        };
        let decided = say(&state, &caller, via, item.id.clone(), verdict).await;
        let (status, approval, error) = batch::told(decided);
        answers.push(Decided { id: item.id, status, approval, error });
    }
    Ok(Data(AllDecided { items: answers }))
}

/// Decides on one approval, by one of its names.
async fn say(
    state: &State,
    caller: &Caller<Approve>,
    via: &'static str,
    which: String,
    verdict: Verdict,
) -> Result<Row, ApiError> {
    if caller.principal.teams().is_some() {
        find(state, caller, &which).await?;
    }
    let resolution = verdict.uses.as_ref().map_or(Resolution::Once, From::from);
    match resolution {
        Resolution::Uses(uses) if !(1..=MOST_USES).contains(&uses) => {
            let reason = format!("expected a whole number from 1 to {MOST_USES}, or `always`");
            return Err(ApiError::invalid_field("uses", reason));
        }
        Resolution::Always if !caller.principal.may(Scope::Admin) => {
            return Err(ApiError::forbidden(Scope::Admin).about("uses"));
        }
        _ => {}
    }
    let long = |note: &String| note.chars().count() > LONGEST_NOTE;
    if verdict.note.as_ref().is_some_and(long) {
        let reason = format!("a note has at most {LONGEST_NOTE} characters");
        return Err(ApiError::invalid_field("note", reason));
    }
    let word = Word {
        which,
        choice: verdict.decision,
        resolution,
        digest: Some(verdict.digest),
        note: verdict.note,
        confirm: verdict.confirm,
        by: Decider::new(caller.principal.id().clone()),
        via: via.to_owned(),
    };
    let decide = Decide { word, channel: None };
    let decided = state.spine.approvals.send(decide).timeout(PATIENCE).await;
    match ask(decided)? {
        Ok(approval) => Ok(Row::new(approval, state.access.auth.now())),
        Err(refusal) => Err(refused(refusal)),
    }
}

fn refused(refusal: NotDecided) -> ApiError {
    let message = refusal.to_string();
    let conflict = |code, message| ApiError::new(StatusCode::CONFLICT, code, message);
    match refusal {
        NotDecided::NotFound => ApiError::not_found(message),
        NotDecided::AlreadyResolved(approval) => conflict("already_resolved", told(&approval)),
        NotDecided::Expired(_) => conflict("expired", message),
        NotDecided::DigestMismatch => conflict("digest_mismatch", message),
        NotDecided::NotGrantable(NotGrantable::TooMany) => conflict("conflict", message),
        NotDecided::NotGrantable(_) => ApiError::unfit("uses", message),
        NotDecided::NotAllowed => ApiError::new(StatusCode::FORBIDDEN, "forbidden", message),
        NotDecided::Unconfirmed(_) => conflict("unconfirmed", message).about("confirm"),
        other => ApiError::internal(other),
    }
}

/// On which way somebody decides.
fn via(principal: &Principal, request: &HttpRequest) -> &'static str {
    if access::is_command_line(principal, request.headers()) { "cli" } else { "api" }
}

/// Who was first, and when.
fn told(approval: &Approval) -> String {
    let who = approval.resolved_by.as_deref().unwrap_or("nobody");
    let when = approval.resolved_at.and_then(json::date).unwrap_or_default();
    format!("it was {} by {who} at {when}", approval.status.as_str())
}

/// What an actor answered.
pub(super) fn ask<T>(answer: Result<T, actix::MailboxError>) -> Result<T, ApiError> {
    answer.map_err(ApiError::internal)
}
