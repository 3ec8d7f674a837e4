//! `/api/v1/audit`: who did what to the service.

use hivewright_actors::{
    audit::{Audit, lines::lines, query::AuditQuery},
    clock::Timestamp,
    store::reads::{get_readable, parse},
};

use crate::{
    api::{audit::*, endpoint::*, reply::*, when::Period},
    http::kit::{call::*, error::*, listing},
};

fn wanted(filter: AuditFilter, now: Timestamp) -> AuditQuery {
    // Taken apart, so that a new field which nothing compares is an error.
    let AuditFilter { actor, action, team, tool, decision, period, words } = filter;
    let Period { since, until } = period;
    AuditQuery {
        actor,
        action,
        team,
        tool,
        decision: decision.map(|decision| decision.as_str()),
        since: since.map(|since| since.from(now)).unwrap_or_default(),
        until: until.map(|until| until.from(now)),
        words: words.map(|words| words.to_lowercase()),
    }
}

pub(super) async fn list(
    Call { state, caller, query: filter, page, .. }: Call<Empty, AuditFilter>,
) -> ApiResult<Rows<AuditRow>> {
    caller.all_teams()?;
    let wanted = wanted(filter, state.now());
    let rows = state.read(move |storage| {
        let part = lines(storage, &wanted, &listing::window(&page))?;
        listing::part(part, &page, |key| match parse::<Audit>(key) {
            Some(key) => Ok(get_readable::<Audit>(storage, &key)?.map(AuditRow::from)),
            None => Ok(None),
        })
    });
    rows.await
}
