//! `/api/v1/audit`: who did what to the service.

use hivewright_actors::{
    audit::{Audit, CallAudit},
    clock::Timestamp,
    store::reads::Range,
};

use crate::{
    api::{audit::*, endpoint::*, reply::*},
    http::kit::{call::*, error::*, listing},
};

/// Whether a line is wanted, of those since the moment where the list begins.
fn is_wanted(filter: &AuditFilter, audit: &Audit, now: Timestamp) -> bool {
    let AuditFilter { actor, action, team, tool, decision, period, words } = filter;
    // `approval` means all that is done with approvals.
    let of_kind = |wanted: &String| {
        let rest = audit.action.strip_prefix(wanted.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let holds = |words: &String| {
        let Audit { action, target, from, outcome, actor, .. } = audit;
        let mut parts = [actor.as_str(), action, target, from, outcome].into_iter();
        let words = words.to_lowercase();
        parts.any(|part| part.to_lowercase().contains(&words))
    };
    let of_call = |is: &dyn Fn(&CallAudit) -> bool| audit.call.as_deref().is_some_and(is);
    period.until.is_none_or(|until| audit.at <= until.from(now))
        && team.as_ref().is_none_or(|name| of_call(&|call| call.team.as_str() == name))
        && tool.as_ref().is_none_or(|name| of_call(&|call| call.tool == *name))
        && decision.is_none_or(|wanted| of_call(&|call| call.decision == wanted))
        && actor.as_ref().is_none_or(|name| audit.actor.as_str() == name)
        && action.as_ref().is_none_or(of_kind)
        && words.as_ref().is_none_or(holds)
}

pub(super) async fn list(
    Call { state, caller, query: filter, page, .. }: Call<Empty, AuditFilter>,
) -> ApiResult<Rows<AuditRow>> {
    caller.all_teams()?;
    let now = state.now();
    let since = filter.period.since.map(|since| since.from(now)).unwrap_or_default();
    let rows = state.read(move |storage| {
        listing::scan(storage, Range::all().since(&since), &page, |_, audit: Audit| {
            is_wanted(&filter, &audit, now).then(|| AuditRow::from(audit))
        })
    });
    rows.await
}
