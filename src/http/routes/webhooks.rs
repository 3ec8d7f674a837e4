//! `/hooks/<team>/<name>`: where other programs start work. Calls prove by their signature where they
//! come from; no login is asked for.

use std::{borrow::Cow, time::Duration};

use actix_web::{
    Either, HttpRequest,
    http::{StatusCode, header},
};
use hivewright_actors::{
    clock::Timestamp,
    ids::TeamName,
    scheduler::{
        Refusal,
        ports::Language,
        requests::Call,
        run::Decision,
        trigger::webhook::{Condition, SecretRef, Webhook},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    api::{
        endpoint::{Empty, Endpoint, Method::Post, Needs},
        reply::Bare,
    },
    http::kit::{
        call::{self, Anyone},
        error::{ApiError, ApiResult},
        json,
        reply::BareAccepted,
        webhook_proof::{Proof, Signer, check_length, text},
    },
    json_limits,
    triggers::admin::{Hook, Parts},
};

/// A body that does not arrive in this time is given up.
pub(super) const SLOWEST_BODY: Duration = Duration::from_secs(10);
/// An actor that does not answer in this time is in trouble.
const SCHEDULER_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) const CALL_HOOK: Endpoint<HookReply, HookPath> = Endpoint::new(
    Post,
    "/hooks/{team}/{name}",
    Needs::Nothing,
    "Starts the work of a webhook.",
)
.description(
    "Callers prove by a signature where they come from, as the webhook's `scheme` says; the body \
             is of one of its content types.",
)
.refuses(&[401, 408, 411, 413, 415, 503])
.raw();

pub(super) type HookReply = Either<BareAccepted<Started>, Bare<Ignored>>;

#[derive(Deserialize)]
pub(super) struct HookPath {
    team: TeamName,
    name: String,
}

/// Work that a call started.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HookStarted")]
pub(super) struct Started {
    run_id: String,
    task_id: Option<String>,
}

/// A call that started nothing.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "HookIgnored")]
pub(super) struct Ignored {
    /// It does not concern the trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<bool>,
    /// It came before.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
}

pub(super) async fn receive(
    call::Call { state, path, payload, request, .. }: call::Call<HookPath, Empty, Empty, Anyone>,
) -> ApiResult<HookReply> {
    let triggers = state.triggers.parts();
    let found = triggers.hook(&path.team, path.name).await;
    let found = found.map_err(|error| ApiError::internal(error.message))?;
    // Whether it is unknown or off is nobody's business.
    let unknown = || ApiError::not_found("there is no such webhook");
    let hook = found.ok_or_else(unknown)?;
    let now = triggers.now();
    state.callers.admit(hook.id.as_str(), hook.webhook.rate.0, now)?;
    if state.service.is_draining() {
        return Err(ApiError::draining());
    }
    let proof = Proof::read(&request, &hook.webhook.scheme)?;
    let content_type = content_type(&request, &hook.webhook)?;
    proof.check_time(hook.webhook.tolerance.0, now)?;
    let most = usize::try_from(hook.webhook.max_body.0).unwrap_or(usize::MAX);
    check_length(&request, most)?;
    let payload = payload.ok_or_else(|| ApiError::internal("no body"))?;
    let body = json::bytes(payload, most, SLOWEST_BODY).await?;
    proof.check(&signer(triggers, &hook, now), &body)?;
    if state.spine.store.room().is_full() {
        return Err(ApiError::disk_full());
    }
    let filtered = filter(triggers, &hook.webhook, &content_type, &body)?;
    let call = Call {
        trigger: hook.id.clone(),
        key: proof.key(),
        headers: passed(&request, &hook.webhook),
        payload: String::from_utf8_lossy(&body).into_owned(),
        filtered,
    };
    let answer = match triggers.scheduler.send(call).timeout(SCHEDULER_TIMEOUT).await? {
        Ok(answer) => answer,
        Err(Refusal::QueueFull(reason)) => return Err(ApiError::rate_limited(reason)),
        Err(Refusal::DiskFull) => return Err(ApiError::disk_full()),
        Err(Refusal::NotFound) => return Err(unknown()),
        Err(_) => return Err(ApiError::draining()),
    };
    let run = answer.run;
    if let Some(first) = answer.first {
        return Ok(Either::Right(Bare(Ignored {
            duplicate: Some(true),
            run_id: Some(first.run.to_string()),
            ..Ignored::default()
        })));
    }
    let ignored = Ignored { ignored: Some(true), ..Ignored::default() };
    Ok(match run.decision {
        Decision::Enqueued | Decision::Replaced => Either::Left(BareAccepted(Started {
            run_id: run.id.to_string(),
            task_id: run.task_id.map(|task| task.to_string()),
        })),
        Decision::RateLimited => {
            return Err(ApiError::rate_limited("the team gets too many tasks from triggers"));
        }
        Decision::NotActive => return Err(unknown()),
        // Whoever sent it sends it again.
        Decision::TeamPaused => {
            return Err(ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "team_paused",
                "the team rests; send it again later",
            )
            .with(header::RETRY_AFTER, "60"));
        }
        Decision::Filtered => Either::Right(Bare(ignored)),
        decision => Either::Right(Bare(Ignored {
            run_id: Some(run.id.to_string()),
            decision: Some(decision.as_str()),
            ..ignored
        })),
    })
}

/// Who may have signed a call of a webhook.
fn signer<'a>(triggers: &'a Parts, hook: &'a Hook, now: Timestamp) -> Signer<'a> {
    let webhook = &hook.webhook;
    let former = webhook
        .secret_previous
        .as_ref()
        .filter(|_| webhook.previous_until.is_some_and(|until| now < until));
    let keys = [Some(&webhook.secret), former].into_iter().flatten().map(SecretRef::key);
    Signer {
        secrets: &*triggers.secrets,
        team: &hook.team,
        keys: keys.collect(),
        scheme: &webhook.scheme,
    }
}

fn content_type(request: &HttpRequest, webhook: &Webhook) -> ApiResult<String> {
    let named = text(request, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let kind = named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if webhook.content_types.contains(&kind) {
        return Ok(kind);
    }
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let reason = format!("this webhook takes `{}`", webhook.content_types.join("`, `"));
    Err(ApiError::new(status, "unsupported_media_type", reason))
}

/// Why a body does not concern the trigger.
fn filter(
    triggers: &Parts,
    webhook: &Webhook,
    content_type: &str,
    body: &[u8],
) -> ApiResult<Option<String>> {
    if content_type != "application/json" {
        let reason = "the body is no JSON, which the filter needs";
        return Ok((!webhook.filter.is_empty()).then(|| reason.to_owned()));
    }
    json_limits::check(body).map_err(|error| ApiError::invalid(format!("the body: {error}")))?;
    let unreadable = |_| ApiError::invalid("the body is not valid JSON");
    let document: Value = serde_json::from_slice(body).map_err(unreadable)?;
    let fails = webhook.filter.iter().find(|condition| !holds(triggers, condition, &document));
    Ok(fails.map(|condition| format!("the filter on `{}` does not hold", condition.pointer)))
}

fn holds(triggers: &Parts, condition: &Condition, document: &Value) -> bool {
    let Some(found) = document.pointer(&condition.pointer) else {
        return false;
    };
    let matches = |pattern: &String| {
        let text = match found {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            other => Cow::Owned(other.to_string()),
        };
        let read = triggers.expressions.read(Language::Message, pattern, None);
        read.is_ok_and(|matcher| matcher.find(&text).is_some())
    };
    condition.equals.as_ref().is_none_or(|value| found == value)
        && condition.matches.as_ref().is_none_or(matches)
}

/// The header fields that the team is shown.
fn passed(request: &HttpRequest, webhook: &Webhook) -> Vec<(String, String)> {
    let named = |name: &String| Some((name.to_ascii_lowercase(), text(request, name)?.to_owned()));
    webhook.pass_headers.iter().filter_map(named).collect()
}
