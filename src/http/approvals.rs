//! `/api/v1/approvals`: calls that wait for a person, and what became of them.

use std::time::Duration;

use actix_web::{HttpRequest, http::StatusCode};
use hivewright_actors::{
    approvals::{
        Decide, EndOverdue,
        grants::{Covers, MOST_USES, NotGrantable},
        record::{Approval, Decider, Resolution, Status, Word},
        records,
        refusal::NotDecided,
    },
    clock::{Timestamp, millis},
    ids::ApprovalId,
    store::reads::get,
};

use super::{
    State, access,
    auth::principal::Principal,
    batch,
    call::Call,
    caller::Caller,
    error::ApiError,
    json,
    listing::Gathering,
    routes::{Resource, on},
};
use crate::api::{
    approvals::{
        ApprovalDecision, ApprovalDecisions, ApprovalFilter, ApprovalRow, DECIDE, DECIDE_SEVERAL,
        DecidedItem, DecidedItems, LIST_APPROVALS, SHOW_APPROVAL, Vote,
    },
    endpoint::{ById, Empty},
    grants::GrantCovers,
    reply::{Data, Rows},
    scope::Scope,
};

/// An actor that does not answer in this time is in trouble.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn resources() -> Vec<Resource> {
    vec![
        on(&LIST_APPROVALS, list),
        on(&DECIDE_SEVERAL, decide_several),
        on(&SHOW_APPROVAL, show).on(&DECIDE, decide),
    ]
}

pub(super) fn row(approval: Approval, now: Timestamp) -> ApprovalRow {
    let pending = approval.is_pending(now);
    let grantable = Covers::of(&approval).ok().filter(|_| pending);
    let votes = approval.votes.into_iter().map(|vote| Vote {
        by: vote.by,
        choice: vote.choice,
        at: json::date(vote.at),
    });
    let votes = votes.collect();
    ApprovalRow {
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
        grant: grantable.map(GrantCovers::from),
    }
}

/// Oldest first: what has waited longest is decided first.
async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, ApprovalFilter>,
) -> Result<Rows<ApprovalRow>, ApiError> {
    let ApprovalFilter { status, team, kind } = query;
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
        Some(Status::Pending) => records::each_waiting::<Approval>,
        _ => records::each::<Approval>,
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
            let found = get::<Approval>(storage, &ApprovalId::from(id))?;
            Ok(found.map(|found| row(found, now)))
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

async fn show(Call { state, caller, path, .. }: Call<ById>) -> Result<Data<ApprovalRow>, ApiError> {
    let found = find(&state, &caller, &path.id).await?;
    Ok(Data(row(found, state.access.auth.now())))
}

/// An approval by one of its names, of a team that the caller reaches.
async fn find(state: &State, caller: &Caller, id: &str) -> Result<Approval, ApiError> {
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
    Call { state, caller, path, body, request, .. }: Call<ById, Empty, ApprovalDecision>,
) -> Result<Data<ApprovalRow>, ApiError> {
    let decided = say(&state, &caller, via(&caller.principal, &request), path.id, body);
    decided.await.map(Data)
}

async fn decide_several(
    Call { state, caller, body, request, .. }: Call<Empty, Empty, ApprovalDecisions>,
) -> Result<Data<DecidedItems>, ApiError> {
    let via = via(&caller.principal, &request);
    let mut items = Vec::with_capacity(body.items.len());
    for item in body.items {
        let decided = say(&state, &caller, via, item.id.clone(), item.decision).await;
        let (status, approval, error) = batch::told(decided);
        items.push(DecidedItem { id: item.id, status, approval, error });
    }
    Ok(Data(DecidedItems { items }))
}

/// Decides on one approval, by one of its names.
async fn say(
    state: &State,
    caller: &Caller,
    via: &'static str,
    which: String,
    verdict: ApprovalDecision,
) -> Result<ApprovalRow, ApiError> {
    if caller.principal.teams().is_some() {
        find(state, caller, &which).await?;
    }
    let resolution = verdict.uses.map_or(Resolution::Once, From::from);
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
        Ok(approval) => Ok(row(approval, state.access.auth.now())),
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
