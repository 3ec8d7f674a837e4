//! `/api/v1/audit`: who did what to the service.

use hivewright_actors::{
    audit::{Audit, lines::lines, query::AuditQuery},
    clock::Timestamp,
    store::reads::get_readable,
};

use crate::{
    api::{audit::*, endpoint::*, reply::*, when::Period},
    http::kit::{
        call::*,
        error::*,
        listing::{Gathering, Place},
    },
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
        let mut gathering = Gathering::new(&page);
        let place = |place: &Place| Some((Timestamp(place.value.as_u64()?), place.id.clone()));
        let part = lines(storage, &wanted, &gathering.window(place))?;
        gathering.see_part(part, |(at, id)| (at.0.into(), id));
        gathering.rows_at(&page, |at, id| {
            Ok(get_readable::<Audit>(storage, &(at, id.to_owned()))?.map(AuditRow::from))
        })
    });
    rows.await
}
