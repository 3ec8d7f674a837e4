//! `/hooks/channels/<team>/<plugin>`: where the network of a plugin's channel calls. A call is checked here, and answered by
//! the plugin.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hivewright_actors::{
    clock::millis,
    scheduler::trigger::webhook::{KnownScheme, Scheme},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::webhooks::SLOWEST_BODY;
use crate::{
    api::{
        endpoint::{Empty, Endpoint, Method::Post, Needs},
        reply::Content,
    },
    http::kit::{
        call::{Anyone, Call},
        error::{ApiError, ApiResult},
        json,
        webhook_proof::{Proof, Signer, check_length},
    },
    plugins::instance::{
        channel::webhook::{ANSWERED_WITHIN, CallError},
        wire,
    },
};

/// Calls in a minute of a webhook whose callers are checked here, and of one that checks them itself.
const MOST_CALLS: u32 = 600;
const MOST_UNVERIFIED: u32 = 60;
/// The longest answer of a plugin, in bytes.
const LONGEST_ANSWER: usize = 64 << 10;
/// What no plugin is shown: credentials, and what is between us and who stands before us.
const HIDDEN: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "connection", "host", "x-api-key"];

pub(super) const CALL_CHANNEL: Endpoint<Content, ChannelPath> = Endpoint::new(
    Post,
    "/hooks/channels/{team}/{key}",
    Needs::Nothing,
    "Hands a call of a chat network to the plugin that carries its channel.",
)
.description(
    "Callers prove by a signature where they come from, as the plugin's manifest says. The answer is the plugin's.",
)
.refuses(&[401, 408, 411, 413, 502, 503])
.raw();

#[derive(Deserialize)]
pub(super) struct ChannelPath {
    team: String,
    key: String,
}

pub(super) async fn receive(
    Call { state, path, payload, request, .. }: Call<ChannelPath, Empty, Empty, Anyone>,
) -> ApiResult<HttpResponse> {
    // Whether it is unknown or off is nobody's business.
    let unknown = || ApiError::not_found("there is no such webhook");
    let team = state.service.team(&path.team).ok_or_else(unknown)?;
    let plugin = state.plugins.find(&team.name, &path.key).filter(|plugin| plugin.team == team);
    let plugin = plugin.ok_or_else(unknown)?;
    let door = plugin.door().ok_or_else(unknown)?;
    let triggers = state.triggers.parts();
    let now = triggers.now();
    let most = if door.signed.is_some() { MOST_CALLS } else { MOST_UNVERIFIED };
    state.callers.admit(&format!("{team}/{}", plugin.key), most, now)?;
    if state.service.is_draining() {
        return Err(ApiError::draining());
    }
    let proof = match &door.signed {
        Some((scheme, _)) => Some(Proof::read(&request, scheme)?),
        None => None,
    };
    if let Some(proof) = &proof {
        proof.check_time(door.webhook.tolerance.0, now)?;
    }
    let longest = usize::try_from(door.webhook.max_body.0).unwrap_or(usize::MAX);
    check_length(&request, longest)?;
    let payload = payload.ok_or_else(|| ApiError::internal("no body"))?;
    let body = json::bytes(payload, longest, SLOWEST_BODY).await?;
    let mut claim = None;
    if let (Some(proof), Some((scheme, key))) = (&proof, &door.signed) {
        let signer = Signer { secrets: &*triggers.secrets, team: &team, keys: vec![key], scheme };
        proof.check(&signer, &body)?;
        let key = proof.key();
        let claimed = plugin.claim(&key).ok_or_else(|| {
            let message = "the same call is being answered; try again later";
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "call_in_progress", message)
                .with(header::RETRY_AFTER, "5")
        })?;
        if plugin.knows_call(&key).await.map_err(ApiError::internal)? {
            return Ok(HttpResponse::Ok().json(json!({"duplicate": true})));
        }
        claim = Some(claimed);
    }
    if state.spine.store.room().is_full() {
        return Err(ApiError::disk_full());
    }
    let call = wire::Webhook {
        request_id: format!("call-{:016x}", state.org().ids.bits()),
        method: "POST",
        query: request.query_string().to_owned(),
        headers: headers(&request, door.signed.as_ref().map(|(scheme, _)| scheme)),
        body_base64: BASE64_STANDARD.encode(&body),
        deadline_ms: millis(ANSWERED_WITHIN),
    };
    let answer = plugin.call(&call, claim.as_ref()).await.map_err(|error| match error {
        CallError::Unavailable => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "plugin_unavailable", error.to_string())
                .with(header::RETRY_AFTER, "5")
        }
        CallError::Unanswered => {
            ApiError::new(StatusCode::BAD_GATEWAY, "plugin_failed", error.to_string())
        }
    })?;
    respond(answer)
}

/// The header fields that the plugin is shown.
fn headers(request: &HttpRequest, scheme: Option<&Scheme>) -> Map<String, Value> {
    let signature = match scheme {
        Some(Scheme::Known(KnownScheme::Standard)) => "webhook-signature",
        Some(Scheme::Known(KnownScheme::Github)) => "x-hub-signature-256",
        Some(Scheme::Custom(custom)) => &custom.header,
        None => "",
    };
    let is_shown = |name: &str| {
        !HIDDEN.contains(&name)
            && !name.starts_with("x-forwarded-")
            && !name.eq_ignore_ascii_case(signature)
    };
    let all = request.headers().iter().filter(|(name, _)| is_shown(name.as_str()));
    let readable =
        all.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.into())));
    readable.collect()
}

/// The answer of a plugin, as a network may have it: plain data, since the address is that of the operator's page.
fn respond(answer: wire::WebhookAnswer) -> ApiResult<HttpResponse> {
    let senseless = || {
        let message = "the plugin answered what cannot be passed on";
        ApiError::new(StatusCode::BAD_GATEWAY, "plugin_failed", message)
    };
    let status = StatusCode::from_u16(answer.status).map_err(|_| senseless())?;
    let is_end = status.is_success() || status.is_client_error() || status.is_server_error();
    if !is_end || answer.body.len() > LONGEST_ANSWER {
        return Err(senseless());
    }
    let named = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let is_json = named
        .and_then(|(_, kind)| kind.as_str())
        .is_some_and(|kind| kind.starts_with("application/json"));
    let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
    Ok(HttpResponse::build(status).content_type(kind).body(answer.body))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PL-53: a plugin's answer runs nothing in the operator's browser, and sets nothing there.
    #[test]
    fn an_answer_is_plain_data() {
        let answer = |status: u16, headers: Value| {
            let headers = headers.as_object().cloned().unwrap_or_default();
            respond(wire::WebhookAnswer { status, headers, body: "<b>".to_owned() })
        };

        let page = answer(200, json!({"Content-Type": "text/html", "Set-Cookie": "a=b"})).unwrap();
        let data = answer(202, json!({"content-type": "application/json"})).unwrap();

        let kind = |response: &HttpResponse| {
            response.headers().get(header::CONTENT_TYPE).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(kind(&page), "text/plain; charset=utf-8");
        assert!(!page.headers().contains_key(header::SET_COOKIE));
        assert_eq!(
            (data.status(), kind(&data)),
            (StatusCode::ACCEPTED, "application/json".to_owned())
        );
        for status in [99, 101, 302, 1000] {
            assert!(answer(status, json!({})).is_err(), "{status}");
        }
    }
}
