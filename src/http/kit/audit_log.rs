//! Audit log of requests that change something, or were denied: who asked for what, from where, and what
//! came of it.

use actix_web::{
    HttpMessage, HttpRequest,
    http::{Method, StatusCode},
};
use hivewright_actors::{
    audit::Audit,
    excerpt,
    ids::{NoticeId, PrincipalId},
    notice::{Notice, NoticeKind},
    store::records::Writes,
};

use super::{
    call::{operation, target},
    error::ApiResult,
    origin::is_change,
};
use crate::http::{auth::access, state::State};

/// The most characters of a name that a line holds.
const LONGEST_TARGET: usize = 256;

/// Who a request turned out to be of.
struct ActsAs(PrincipalId);

/// Says whom a request logs in.
pub(in crate::http) fn acts_as(request: &HttpRequest, who: &PrincipalId) {
    request.extensions_mut().insert(ActsAs(who.clone()));
}

/// Writes down a request that was to change something or was denied, before it is answered.
pub(in crate::http) async fn write(
    state: &State,
    request: &HttpRequest,
    who: Option<PrincipalId>,
    status: StatusCode,
) -> ApiResult<()> {
    let is_api = request.path().starts_with("/api/v1/");
    let is_read = !is_change(request.method());
    let Some(operation) = operation(request).filter(|_| is_api) else {
        return Ok(());
    };
    let needs_none = operation.recorded || operation.only_looks;
    if (is_read && !is_denied(request, status)) || (needs_none && status.is_success()) {
        return Ok(());
    }
    let logged_in = || request.extensions().get::<ActsAs>().map(|who| who.0.clone());
    let who = who.or_else(logged_in);
    let now = state.now();
    if (who.is_none() || is_read) && !state.strangers.admit(who.as_ref(), now) {
        return Ok(());
    }
    let route = request.match_pattern().unwrap_or_default();
    let values: Vec<String> =
        request.match_info().iter().map(|(_, value)| parameter(value)).collect();
    let named: String = target(request).unwrap_or_default().chars().take(LONGEST_TARGET).collect();
    let audit = Audit {
        id: format!("{:016x}", getrandom::u64()?),
        at: now,
        actor: who.unwrap_or_else(|| PrincipalId::from("nobody")),
        action: action(request.method(), &route),
        target: format!("{} {named}", values.join("/")).trim().to_owned(),
        from: origin(state, request),
        outcome: if status.is_success() { "ok".to_owned() } else { status.as_u16().to_string() },
        call: None,
    };
    state.spine.store.commit(Writes::new().put(&audit)).await?;
    Ok(())
}

/// Where a request comes from, as lines of the audit say it.
pub(in crate::http) fn origin(state: &State, request: &HttpRequest) -> String {
    let address = state.access.gate.client(request);
    address.map_or_else(|| "api".to_owned(), |address| format!("api {address}"))
}

/// A read was denied. That nobody is logged in is what a page asks first, and no denial.
fn is_denied(request: &HttpRequest, status: StatusCode) -> bool {
    let asks_who = request.path() == "/api/v1/session" && status == StatusCode::UNAUTHORIZED;
    [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status) && !asks_who
}

/// Such as `tasks.cancel`, `tokens.create` or `session.delete`.
fn action(method: &Method, route: &str) -> String {
    let words = route.strip_prefix("/api/v1/").unwrap_or(route).split('/');
    let words: Vec<&str> = words.filter(|word| !word.starts_with('{')).collect();
    let verb = match *method {
        Method::PUT => "set",
        Method::PATCH => "update",
        Method::DELETE => "delete",
        Method::GET | Method::HEAD => "read",
        _ if words == ["pause"] || words == ["resume"] => "",
        _ if words.len() == 1 && !route.ends_with('}') => "create",
        _ => "",
    };
    let words = words.into_iter().chain([verb]).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(".")
}

/// A token of ours stood in a URL, where others may have seen it: the operator should know.
pub(in crate::http) async fn exposed(state: &State, query: &str) {
    let values = query.split('&').map(|field| field.rsplit('=').next());
    let holder =
        values.flatten().find_map(|value| state.access.auth.token(&access::decoded(value)));
    let Some(holder) = holder else { return };
    let now = state.now();
    let (Ok(bits), true) = (getrandom::u64(), state.strangers.admit(None, now)) else {
        return;
    };
    let cure = if holder.is_operator() {
        "replace it with `hivewright token rotate-operator`".to_owned()
    } else {
        format!("replace it: `hivewright token revoke {}`", holder.id)
    };
    let text = format!(
        "The token `{}` was sent in a URL, where logs and histories keep it; {cure}.",
        holder.id
    );
    let id = NoticeId::from(format!("notice-{bits:016x}"));
    let notice = Notice::new(id, NoticeKind::TokenExposed, text, now);
    if let Err(error) = state.spine.store.commit(Writes::new().put(&notice)).await {
        tracing::error!(by = %holder.id, %error, "a token was sent in a URL, and the notice of it cannot be stored; replace the token");
    }
}

/// Who asked, as far as the request proves it.
pub(in crate::http) fn who(state: &State, request: &HttpRequest) -> Option<PrincipalId> {
    state.access.holder(request).map(|principal| principal.id)
}

/// A parameter of the path, as it is kept. A token was put in the wrong place.
fn parameter(value: &str) -> String {
    if access::is_token(value) { "a token".to_owned() } else { excerpt::line(value, 128) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-18
    #[test]
    fn an_act_has_a_name_that_says_what_was_done() {
        for (method, route, name) in [
            (Method::POST, "/api/v1/tokens", "tokens.create"),
            (Method::DELETE, "/api/v1/tokens/{id}", "tokens.delete"),
            (Method::POST, "/api/v1/tasks/{id}/cancel", "tasks.cancel"),
            (Method::PUT, "/api/v1/vault/{scope}/{key}", "vault.set"),
            (Method::PATCH, "/api/v1/teams/{name}", "teams.update"),
            (Method::POST, "/api/v1/session", "session.create"),
            (Method::POST, "/api/v1/pause", "pause"),
            (Method::GET, "/api/v1/tokens", "tokens.read"),
            (Method::POST, "/api/v1/approvals/{id}", "approvals"),
        ] {
            assert_eq!(action(&method, route), name, "{method} {route}");
        }
    }
}
