//! The `config` of a form, type by type.

use std::time::Duration;

use hivewright_actors::scheduler::{
    config::{
        Condition, Config, Encoding, Listen, Schedule, Scheme, Signed, Span, Test, Webhook, When,
        Window,
    },
    trigger::Problem,
};
use serde_json::{Map, Value};

use super::{Writer, fields::Fields};
use crate::vault::entry::is_key;

/// A former secret of a webhook is good for this long.
const ROTATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads a config of a type. `old` is what the trigger has now.
pub(super) fn read(
    kind: &str,
    map: &Map<String, Value>,
    writer: &Writer<'_>,
    old: Option<&Config>,
) -> Result<Config, Problem> {
    match kind {
        "schedule" => schedule(map, writer, old).map(Config::Schedule),
        "keyword" => listen(map, false).map(Config::Keyword),
        "message" => listen(map, true).map(Config::Message),
        "window" => window(map).map(Config::Window),
        _ => webhook(map, writer, old).map(Config::Webhook),
    }
}

fn fields<'a>(map: &'a Map<String, Value>, known: &[&str]) -> Result<Fields<'a>, Problem> {
    Fields::new(map, "config", known)
}

fn zone(fields: &Fields<'_>) -> Result<Option<String>, Problem> {
    Ok(fields.text("timezone")?.map(str::to_owned))
}

fn schedule(
    map: &Map<String, Value>,
    writer: &Writer<'_>,
    old: Option<&Config>,
) -> Result<Schedule, Problem> {
    let fields = fields(map, &["at", "cron", "every", "timezone"])?;
    let timezone = zone(&fields)?;
    let when = match (fields.text("cron")?, fields.text("at")?, fields.duration("every")?) {
        (Some(pattern), None, None) => When::Cron(pattern.to_owned()),
        (None, Some(text), None) => at(&fields, text, timezone.as_deref(), writer, old)?,
        (None, None, Some(step)) => When::Every(step),
        _ => {
            let reason = "needs exactly one of `cron`, `at` and `every`";
            return Err(Problem::new("config", reason));
        }
    };
    Ok(Schedule { when, timezone })
}

fn at(
    fields: &Fields<'_>,
    text: &str,
    timezone: Option<&str>,
    writer: &Writer<'_>,
    old: Option<&Config>,
) -> Result<When, Problem> {
    // What is not changed keeps its meaning, also if the zone of the settings has changed since.
    if let Some(Config::Schedule(Schedule {
        when: known @ When::At { text: same, .. },
        timezone: zone,
    })) = old
        && same == text
        && zone.as_deref() == timezone
    {
        return Ok(known.clone());
    }
    let zone = timezone.unwrap_or(&writer.zone);
    writer.calendar.check_zone(zone).map_err(|reason| fields.problem("timezone", reason))?;
    let at = writer.calendar.moment(text, zone).map_err(|reason| fields.problem("at", reason))?;
    Ok(When::At { text: text.to_owned(), at })
}

fn listen(map: &Map<String, Value>, has_flags: bool) -> Result<Listen, Problem> {
    let known = ["channel", "channels", "pattern", "sender", "flags"];
    let fields = fields(map, if has_flags { &known } else { &known[..4] })?;
    let mut channels = fields.texts("channels")?.unwrap_or_default();
    channels.extend(fields.text("channel")?.map(str::to_owned));
    let senders = match fields.get("sender") {
        Some(Value::String(one)) => vec![one.clone()],
        _ => fields.texts("sender")?.unwrap_or_default(),
    };
    Ok(Listen {
        pattern: fields.needed("pattern")?.to_owned(),
        flags: fields.text("flags")?.map(str::to_owned),
        channels: channels.into_iter().map(Into::into).collect(),
        senders,
    })
}

fn window(map: &Map<String, Value>) -> Result<Window, Problem> {
    let known = [
        "backoff",
        "close",
        "duration",
        "max_ticks_per_window",
        "max_tokens_per_window",
        "max_usd_per_window",
        "open",
        "stop_on",
        "tick_interval",
        "timezone",
        "watch",
    ];
    let fields = fields(map, &known)?;
    let span = match (
        fields.text("watch")?,
        fields.text("open")?,
        fields.text("close")?,
        fields.duration("duration")?,
    ) {
        (Some(watch), None, None, None) => Span::Watch(watch.to_owned()),
        (None, Some(open), Some(close), None) => {
            Span::Between { open: open.to_owned(), close: close.to_owned() }
        }
        (None, Some(open), None, Some(duration)) => {
            Span::Lasting { open: open.to_owned(), duration }
        }
        _ => {
            let reason = "needs `watch`, or `open` with either `close` or `duration`";
            return Err(Problem::new("config", reason));
        }
    };
    let stop_on = fields.choice("stop_on", &[("first_hit", true)])?;
    Ok(Window {
        span,
        timezone: zone(&fields)?,
        tick_interval: fields.duration("tick_interval")?.unwrap_or(Duration::from_secs(30)),
        max_ticks: fields.small("max_ticks_per_window")?.unwrap_or(1_000),
        max_tokens: fields.number("max_tokens_per_window")?,
        max_usd: fields.amount("max_usd_per_window")?,
        stop_on_first_hit: stop_on.unwrap_or(false),
        backoff: fields.flag("backoff")?.unwrap_or(false),
    })
}

fn webhook(
    map: &Map<String, Value>,
    writer: &Writer<'_>,
    old: Option<&Config>,
) -> Result<Webhook, Problem> {
    let known = [
        "content_types",
        "filter",
        "max_body",
        "pass_headers",
        "rate",
        "scheme",
        "secret",
        "secret_previous",
        "tolerance",
    ];
    let fields = fields(map, &known)?;
    let secret_previous = secret(&fields, "secret_previous")?;
    let previous_until = match (old, &secret_previous) {
        (_, None) => None,
        (Some(Config::Webhook(old)), new) if old.secret_previous == *new => old.previous_until,
        _ => Some(writer.now + ROTATION),
    };
    let content_types = fields.texts("content_types")?.unwrap_or_else(|| {
        ["application/json", "application/x-www-form-urlencoded", "text/plain"]
            .map(str::to_owned)
            .to_vec()
    });
    Ok(Webhook {
        scheme: scheme(&fields)?,
        secret: secret(&fields, "secret")?.ok_or_else(|| {
            fields
                .problem("secret", "is missing: name a secret of the team's vault as ${vault:KEY}")
        })?,
        secret_previous,
        previous_until,
        tolerance: fields.duration("tolerance")?.unwrap_or(Duration::from_secs(5 * 60)),
        max_body: fields.size("max_body")?.unwrap_or(1 << 20),
        content_types: content_types.into_iter().map(|name| name.to_ascii_lowercase()).collect(),
        filter: filter(&fields)?,
        pass_headers: fields.texts("pass_headers")?.unwrap_or_default(),
        rate: rate(&fields)?,
    })
}

/// A reference to the vault. Literal text would be a secret in the wrong place, so it is not repeated.
fn secret(fields: &Fields<'_>, name: &str) -> Result<Option<String>, Problem> {
    let Some(text) = fields.text(name)? else {
        return Ok(None);
    };
    let key = text
        .strip_prefix("${vault:")
        .and_then(|rest| rest.strip_suffix('}'))
        .filter(|key| is_key(key));
    key.map(|key| Some(key.to_owned())).ok_or_else(|| {
        let reason = "expected a reference to the team's vault such as ${vault:WEBHOOK_KEY}, not the secret itself";
        fields.problem(name, reason)
    })
}

fn rate(fields: &Fields<'_>) -> Result<u32, Problem> {
    let Some(value) = fields.get("rate") else {
        return Ok(60);
    };
    let number = match value {
        Value::String(text) => text.strip_suffix("/min").and_then(|text| text.parse().ok()),
        value => value.as_u64().and_then(|number| u32::try_from(number).ok()),
    };
    number.ok_or_else(|| fields.problem("rate", "expected calls per minute such as 60/min"))
}

fn scheme(fields: &Fields<'_>) -> Result<Scheme, Problem> {
    let words = [("standard", Scheme::Standard), ("github", Scheme::Github)];
    let map = match fields.get("scheme") {
        None => return Ok(Scheme::Standard),
        Some(Value::Object(map)) => map,
        Some(Value::String(text)) => {
            let found = words.into_iter().find(|(word, _)| word == text);
            return found.map(|(_, scheme)| scheme).ok_or_else(|| {
                let reason = "expected `standard`, `github`, or an object with `header`";
                fields.problem("scheme", reason)
            });
        }
        Some(_) => return Err(fields.problem("scheme", "expected a word or an object")),
    };
    let known = ["encoding", "header", "prefix", "signed", "timestamp_header"];
    let own = Fields::new(map, "config.scheme", &known)?;
    let encoding = own
        .choice("encoding", &[("hex", Encoding::Hex), ("base64", Encoding::Base64)])?
        .ok_or_else(|| own.problem("encoding", "is missing: `hex` or `base64`"))?;
    let signed =
        own.choice("signed", &[("body", Signed::Body), ("timestamp.body", Signed::TimestampBody)])?;
    let timestamp_header = own.text("timestamp_header")?.map(str::to_owned);
    let signed = signed.unwrap_or(Signed::Body);
    if signed == Signed::TimestampBody && timestamp_header.is_none() {
        return Err(own.problem("timestamp_header", "is missing: `signed` covers the time"));
    }
    Ok(Scheme::Custom {
        header: own.needed("header")?.to_owned(),
        prefix: own.text("prefix")?.map(str::to_owned),
        encoding,
        timestamp_header,
        signed,
    })
}

fn filter(fields: &Fields<'_>) -> Result<Vec<Condition>, Problem> {
    let Some(value) = fields.get("filter") else {
        return Ok(Vec::new());
    };
    let Some(list) = value.as_array() else {
        return Err(fields.problem("filter", "expected a list"));
    };
    let read = |(place, item): (usize, &Value)| {
        let path = format!("config.filter[{place}]");
        let Some(map) = item.as_object() else {
            return Err(Problem::new(path, "expected an object"));
        };
        let own = Fields::new(map, &path, &["equals", "matches", "pointer"])?;
        let pointer = own.needed("pointer")?.to_owned();
        let test = match (map.get("equals"), own.text("matches")?) {
            (Some(value), None) => Test::Equals(value.clone()),
            (None, Some(pattern)) => Test::Matches(pattern.to_owned()),
            _ => {
                let reason = "needs either `equals` or `matches`";
                return Err(Problem::new(path, reason));
            }
        };
        Ok(Condition { pointer, test })
    };
    list.iter().enumerate().map(read).collect()
}
