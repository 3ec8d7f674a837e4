//! `/hooks/<team>/<name>`: where other programs start work. Calls prove by their signature where they
//! come from; no login is asked for.

use std::{borrow::Cow, time::Duration};

use actix_web::{
    Either, HttpRequest,
    http::{StatusCode, header},
};
use dashmap::DashMap;
use hivewright_actors::{
    clock::Timestamp,
    ids::{TeamName, TriggerId},
    router::rate::{Bucket, Rate},
    scheduler::{
        Refusal,
        ports::Language,
        requests::Call,
        run::Decision,
        trigger::webhook::{Condition, Encoding, KnownScheme, Scheme, SecretRef, Signed, Webhook},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    call::{self, Anyone},
    error::{ApiError, ApiResult},
    json,
    reply::BareAccepted,
};
use crate::{
    api::{
        endpoint::{Empty, Endpoint, Method::Post, Needs},
        reply::Bare,
    },
    json_limits,
    triggers::{
        desk::{Hook, Parts},
        signature,
    },
};

/// A body that does not arrive in this time is given up.
const SLOWEST_BODY: Duration = Duration::from_secs(10);
/// An actor that does not answer in this time is in trouble.
const SCHEDULER_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest name of a delivery.
const LONGEST_ID: usize = 256;

/// How often each webhook was called lately.
#[derive(Default)]
pub struct Callers(DashMap<TriggerId, (u32, Bucket)>);

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
    let desk = state.desk.parts();
    let found = desk.hook(&path.team, path.name).await;
    let found = found.map_err(|error| ApiError::internal(error.message))?;
    // Whether it is unknown or off is nobody's business.
    let unknown = || ApiError::not_found("there is no such webhook");
    let hook = found.ok_or_else(unknown)?;
    let now = desk.now();
    state.callers.admit(&hook, now)?;
    if state.service.is_draining() {
        return Err(ApiError::draining());
    }
    let proof = Proof::read(&request, &hook.webhook)?;
    let content_type = content_type(&request, &hook.webhook)?;
    proof.check_time(&hook.webhook, now)?;
    let most = usize::try_from(hook.webhook.max_body.0).unwrap_or(usize::MAX);
    check_length(&request, most)?;
    let payload = payload.ok_or_else(|| ApiError::internal("no body"))?;
    let body = json::bytes(payload, most, SLOWEST_BODY).await?;
    proof.check(desk, &hook, &body, now)?;
    if state.spine.store.room().is_full() {
        return Err(ApiError::disk_full());
    }
    let filtered = filter(desk, &hook.webhook, &content_type, &body)?;
    let call = Call {
        trigger: hook.id.clone(),
        key: proof.key(),
        headers: passed(&request, &hook.webhook),
        payload: String::from_utf8_lossy(&body).into_owned(),
        filtered,
    };
    let answer = match desk.scheduler.send(call).timeout(SCHEDULER_TIMEOUT).await? {
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
            run_id: Some(first.to_string()),
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
        Decision::Filtered => Either::Right(Bare(ignored)),
        decision => Either::Right(Bare(Ignored {
            run_id: Some(run.id.to_string()),
            decision: Some(decision.as_str()),
            ..ignored
        })),
    })
}

impl Callers {
    fn admit(&self, hook: &Hook, now: Timestamp) -> ApiResult<()> {
        let most = hook.webhook.rate.0;
        let rate = Rate { per_minute: most, burst: most };
        let fresh = || (most, Bucket::new(rate, now));
        let mut caller = self.0.entry(hook.id.clone()).or_insert_with(fresh);
        if caller.0 != most {
            *caller = fresh();
        }
        caller.1.take(now).map_err(|_| ApiError::rate_limited("too many calls; slow down"))
    }
}

/// What a call brings to prove where it comes from.
#[derive(Debug)]
struct Proof {
    /// The name of the delivery, where the signature covers it.
    id: Option<String>,
    /// The time, as it was written.
    timestamp: Option<String>,
    /// Signatures, of which one has to be right.
    signatures: Vec<Vec<u8>>,
}

fn text<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok().map(str::trim)
}

fn malformed(header: &str) -> ApiError {
    ApiError::invalid(format!("the header `{header}` is missing or malformed"))
}

fn unproved() -> ApiError {
    let message = "the signature or its time is not right";
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
}

impl Proof {
    fn read(request: &HttpRequest, webhook: &Webhook) -> ApiResult<Self> {
        let needed = |name: &str| text(request, name).ok_or_else(|| malformed(name));
        match &webhook.scheme {
            Scheme::Known(KnownScheme::Standard) => {
                let id = needed("webhook-id")?;
                let is_name = |byte: u8| byte.is_ascii_graphic();
                if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(is_name) {
                    return Err(malformed("webhook-id"));
                }
                let signatures: Vec<Vec<u8>> = needed("webhook-signature")?
                    .split_ascii_whitespace()
                    .filter_map(|one| one.strip_prefix("v1,"))
                    .filter_map(|one| signature::decode(one, Encoding::Base64))
                    .collect();
                if signatures.is_empty() {
                    return Err(malformed("webhook-signature"));
                }
                Ok(Self {
                    id: Some(id.to_owned()),
                    timestamp: Some(needed("webhook-timestamp")?.to_owned()),
                    signatures,
                })
            }
            Scheme::Known(KnownScheme::Github) => {
                let name = "x-hub-signature-256";
                let signature = needed(name)?
                    .strip_prefix("sha256=")
                    .and_then(|digits| signature::decode(digits, Encoding::Hex))
                    .ok_or_else(|| malformed(name))?;
                Ok(Self { id: None, timestamp: None, signatures: vec![signature] })
            }
            Scheme::Custom(custom) => {
                let coded = needed(&custom.header)?;
                let coded = match &custom.prefix {
                    Some(prefix) => coded.strip_prefix(prefix.as_str()),
                    None => Some(coded),
                };
                let signature = coded
                    .and_then(|coded| signature::decode(coded, custom.encoding))
                    .ok_or_else(|| malformed(&custom.header))?;
                let timestamp = custom.timestamp_header.as_deref().map(needed).transpose()?;
                Ok(Self {
                    id: None,
                    timestamp: timestamp.map(str::to_owned),
                    signatures: vec![signature],
                })
            }
        }
    }

    fn check_time(&self, webhook: &Webhook, now: Timestamp) -> ApiResult<()> {
        let Some(text) = &self.timestamp else {
            return Ok(());
        };
        let unreadable = |_| ApiError::invalid("the timestamp is no number of seconds since 1970");
        let seconds: u64 = text.parse().map_err(unreadable)?;
        let sent = Timestamp(seconds.saturating_mul(1_000));
        let off = now.since(sent).max(sent.since(now));
        if off <= webhook.tolerance.0 { Ok(()) } else { Err(unproved()) }
    }

    /// One of the secrets that are good now made one of the signatures.
    fn check(&self, desk: &Parts, hook: &Hook, body: &[u8], now: Timestamp) -> ApiResult<()> {
        let webhook = &hook.webhook;
        let [id, timestamp] =
            [&self.id, &self.timestamp].map(|text| text.as_deref().unwrap_or_default().as_bytes());
        let signed: Vec<&[u8]> = match &webhook.scheme {
            Scheme::Known(KnownScheme::Standard) => vec![id, b".", timestamp, b".", body],
            Scheme::Custom(custom) if custom.signed == Signed::TimestampBody => {
                vec![timestamp, b".", body]
            }
            Scheme::Known(KnownScheme::Github) | Scheme::Custom(_) => vec![body],
        };
        let former = webhook
            .secret_previous
            .as_ref()
            .filter(|_| webhook.previous_until.is_some_and(|until| now < until));
        for name in [Some(&webhook.secret), former].into_iter().flatten().map(SecretRef::key) {
            let Some(secret) = desk.secrets.secret(&hook.team, name) else {
                tracing::error!(trigger = %hook.id, team = %hook.team, secret = %name, "a webhook was called, and its secret is not in the vault");
                continue;
            };
            let key = match webhook.scheme {
                Scheme::Known(KnownScheme::Standard) => signature::standard_key(&secret),
                _ => secret,
            };
            // All are tried, so that the time it takes tells nothing.
            let right = self
                .signatures
                .iter()
                .map(|one| signature::is_signed(&key, &signed, one))
                .fold(false, |any, right| any | right);
            if right {
                desk.secrets.used(&hook.team, name);
                return Ok(());
            }
        }
        Err(unproved())
    }

    /// What tells this delivery from others: its name where that is signed, else the signature itself,
    /// by its bytes and not by how they were written.
    fn key(&self) -> String {
        match (&self.id, self.signatures.first()) {
            (Some(id), _) => format!("id:{id}"),
            (None, Some(signature)) => format!("sig:{}", signature::hex(signature)),
            (None, None) => String::new(),
        }
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

fn check_length(request: &HttpRequest, most: usize) -> ApiResult<()> {
    match text(request, header::CONTENT_LENGTH.as_str()).map(str::parse::<usize>) {
        Some(Ok(length)) if length > most => Err(ApiError::too_large(most)),
        Some(Ok(_)) => Ok(()),
        _ => {
            let (code, message) = ("length_required", "a call needs `Content-Length`");
            Err(ApiError::new(StatusCode::LENGTH_REQUIRED, code, message))
        }
    }
}

/// Why a body does not concern the trigger.
fn filter(
    desk: &Parts,
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
    let fails = webhook.filter.iter().find(|condition| !holds(desk, condition, &document));
    Ok(fails.map(|condition| format!("the filter on `{}` does not hold", condition.pointer)))
}

fn holds(desk: &Parts, condition: &Condition, document: &Value) -> bool {
    let Some(found) = document.pointer(&condition.pointer) else {
        return false;
    };
    let matches = |pattern: &String| {
        let text = match found {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            other => Cow::Owned(other.to_string()),
        };
        let read = desk.expressions.read(Language::Message, pattern, None);
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
