//! `/api/v1/approvals` and `/api/v1/grants`: calls that wait for a person, what became of them, and calls
//! that somebody has decided on in advance.

use actix_web::HttpRequest;
use hivewright_actors::{
    approvals::{
        Decide, EndOverdue, Revoke,
        grants::{Covers, MOST_USES, NotGrantable},
        lists,
        query::{WaitQuery, WaitRank},
        record::{Approval, Decider, Resolution, Status, Word},
        records::{self, Waits},
        refusal::NotDecided,
    },
    clock::{Timestamp, millis},
    policy::caution::Kind,
    store::{reads::get_readable, records::Writes},
};

use crate::{
    api::{approvals::*, endpoint::*, grants::*, reply::*, scope::Scope},
    http::{
        auth::access,
        kit::{
            ask::ask,
            audit_log,
            call::*,
            error::*,
            listing::{self, Gathering, Place},
            query::Page,
        },
        state::State,
    },
};

pub(super) fn row(approval: Approval, now: Timestamp) -> ApprovalRow {
    let is_pending = approval.is_pending(now);
    let covers = Covers::of(&approval).ok().filter(|_| is_pending);
    ApprovalRow {
        time_left_ms: is_pending.then(|| millis(approval.expires_at.since(now))),
        grant: covers.map(GrantCovers::from),
        ..ApprovalRow::from(approval)
    }
}

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, ApprovalFilter>,
) -> ApiResult<Rows<ApprovalRow>> {
    let ApprovalFilter { status, team, kind } = query;
    let (now, teams) = (state.now(), caller.teams(team));
    let (status, kind) = (status.map(Status::as_str), kind.map(Kind::as_str));
    let wanted = WaitQuery { teams, status, kind, rank: rank(&page) };
    list_waits(&state, page, wanted, move |found| row(found, now)).await
}

/// What such a list is sorted by.
pub(super) fn rank(page: &Page) -> WaitRank {
    if page.sort.field == "expires_at" { WaitRank::Expires } else { WaitRank::Created }
}

/// A part of what waits for a person, or did.
pub(super) async fn list_waits<R, T>(
    state: &State,
    page: Page,
    wanted: WaitQuery,
    shown: impl Fn(R) -> T + Send + 'static,
) -> ApiResult<Rows<T>>
where
    R: Waits<Key: for<'a> From<&'a str> + ToString> + 'static,
    T: Send + 'static,
{
    settle(state).await?;
    let rows = state.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        let place = |place: &Place| Some((Timestamp(place.value.as_u64()?), place.id.clone()));
        let part = lists::list::<R>(storage, &wanted, &gathering.window(place))?;
        gathering.see_part(part, |(at, id)| (at.0.into(), id));
        gathering.rows(&page, |id| Ok(get_readable::<R>(storage, &R::Key::from(id))?.map(&shown)))
    });
    rows.await
}

/// Ends what has run out, and waits until that is stored.
pub(super) async fn settle(state: &State) -> ApiResult<()> {
    ask(&state.spine.approvals, EndOverdue).await?;
    state.spine.store.commit(Writes::new()).await?;
    Ok(())
}

pub(super) async fn show(
    Call { state, caller, path, .. }: Call<ById>,
) -> ApiResult<Data<ApprovalRow>> {
    let found = find(&state, &caller, &path.id).await?;
    Ok(Data(row(found, state.now())))
}

/// An approval by one of its names, of a team that the caller reaches.
async fn find(state: &State, caller: &Caller, id: &str) -> ApiResult<Approval> {
    settle(state).await?;
    let which = id.to_owned();
    let found = state.read(move |storage| records::called(storage, &which)).await?;
    found
        .filter(|row| caller.reaches(row.team.name.as_str()))
        .ok_or_else(|| ApiError::not_found("there is no such approval"))
}

pub(super) async fn decide(
    Call { state, caller, path, body, request, .. }: Call<ById, Empty, ApprovalDecision>,
) -> ApiResult<Data<ApprovalRow>> {
    say(&state, &caller, &request, path.id, body).await.map(Data)
}

pub(super) async fn decide_several(
    Call { state, caller, body, request, .. }: Call<Empty, Empty, ApprovalDecisions>,
) -> ApiResult<Data<DecidedItems>> {
    let mut items = Vec::with_capacity(body.items.len());
    for ApprovalDecisionItem { id, decision } in body.items {
        let decided = say(&state, &caller, &request, id.clone(), decision).await;
        let (status, approval, error) = told(decided);
        items.push(DecidedItem { id, status, approval, error });
    }
    Ok(Data(DecidedItems { items }))
}

/// Whoever asks, as somebody who decides.
pub(super) fn decider(state: &State, caller: &Caller, request: &HttpRequest) -> Decider {
    Decider {
        credential: Some(caller.principal.credential.to_string()),
        from: Some(audit_log::origin(state, request)),
        ..Decider::new(caller.principal.id.clone())
    }
}

/// Decides on one approval, by one of its names.
async fn say(
    state: &State,
    caller: &Caller,
    request: &HttpRequest,
    which: String,
    verdict: ApprovalDecision,
) -> ApiResult<ApprovalRow> {
    if caller.principal.teams.is_some() {
        let found = find(state, caller, &which).await?;
        // Another version of a plugin is put in place for all teams.
        if found.kind == Kind::Plugin && found.tool.is_none() {
            caller.all_teams()?;
        }
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
    let is_command_line = access::is_command_line(&caller.principal, request.headers());
    let word = Word {
        which,
        choice: verdict.decision,
        resolution,
        digest: Some(verdict.digest),
        note: verdict.note,
        confirm: verdict.confirm,
        by: decider(state, caller, request),
        via: if is_command_line { "cli" } else { "api" }.to_owned(),
    };
    let decided = ask(&state.spine.approvals, Decide { word, channel: None }).await??;
    Ok(row(decided, state.now()))
}

impl From<NotDecided> for ApiError {
    fn from(refusal: NotDecided) -> Self {
        let message = refusal.to_string();
        match refusal {
            NotDecided::NotFound => Self::not_found(message),
            NotDecided::AlreadyResolved(approval) => {
                Self::conflict_as("already_resolved", first(&approval))
            }
            NotDecided::Expired(_) => Self::conflict_as("expired", message),
            NotDecided::DigestMismatch => Self::conflict_as("digest_mismatch", message),
            NotDecided::NotGrantable(NotGrantable::TooMany) => Self::conflict(message),
            NotDecided::NotGrantable(_) => Self::unfit("uses", message),
            NotDecided::NotAllowed => Self::denied(message),
            NotDecided::Unconfirmed(_) => {
                Self::conflict_as("unconfirmed", message).about("confirm")
            }
            other => Self::internal(other),
        }
    }
}

/// Who was first, and when.
fn first(approval: &Approval) -> String {
    let who = approval.resolved_by.as_deref().unwrap_or("nobody");
    let when = approval.resolved_at.map(Timestamp::date).unwrap_or_default();
    format!("it was {} by {who} at {when}", approval.status)
}

/// Those of the teams that a caller reaches.
fn standing(state: &State, caller: &Caller) -> impl Iterator<Item = GrantRow> {
    let rows = state.rules.grants().list(state.now()).into_iter().map(GrantRow::from);
    rows.filter(|row| caller.reaches(&row.covers.team))
}

pub(super) async fn list_grants(
    Call { state, caller, query: OfTeam { team }, page, .. }: Call<Empty, OfTeam>,
) -> ApiResult<Rows<GrantRow>> {
    let (rows, lists) = (standing(&state, &caller), caller.lists(team));
    let rows = rows.filter(|row| lists(&row.covers.team));
    listing::page(rows, &page, |row| row.id.clone())
}

pub(super) async fn revoke_grant(
    Call { state, caller, path, request, .. }: Call<ById>,
) -> ApiResult<Done> {
    let unknown = || ApiError::not_found("there is no such grant");
    let known = standing(&state, &caller).find(|row| row.id == path.id).ok_or_else(unknown)?;
    let revoke = Revoke { grant: known.id, by: decider(&state, &caller, &request) };
    if ask(&state.spine.approvals, revoke).await?? { Ok(Done) } else { Err(unknown()) }
}
