//! `dates`: calculation with dates and time zones, which models get wrong.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hivewright_actors::plugin::builtin::{Builtin, BuiltinHost};
use jiff::{
    Error, Span, Timestamp, Unit, Zoned,
    civil::{Date, DateTime},
    fmt::friendly::{Designator, Spacing, SpanPrinter},
    tz::TimeZone,
};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::settings::zone::Zone;

/// How spans are told, such as `1 year 2 months`.
const SPANS: SpanPrinter =
    SpanPrinter::new().designator(Designator::Verbose).spacing(Spacing::BetweenUnitsAndDesignators);

pub(super) struct Dates;

impl Dates {
    pub(super) fn make() -> Arc<dyn Builtin> {
        Arc::new(Self)
    }
}

impl Builtin for Dates {
    fn take(
        self: Arc<Self>,
        method: String,
        params: Value,
        _: Arc<dyn BuiltinHost>,
    ) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(std::future::ready(match method.as_str() {
            "tools/list" => Ok(json!({"tools": TOOLS.each_ref().map(Tool::listed)})),
            "tools/call" => call(params),
            _ => Ok(json!({})),
        }))
    }
}

fn call(mut params: Value) -> Result<Value, String> {
    let tool = TOOLS.iter().find(|tool| params["name"] == tool.name).ok_or("no such tool")?;
    let text = (tool.run)(params["arguments"].take())?;
    Ok(json!({"content": [{"type": "text", "text": text}]}))
}

/// Arguments of a tool, with what they lead to. Their doc comments are what a model reads.
trait Question: DeserializeOwned + JsonSchema {
    fn answer(self) -> Result<String, String>;
}

struct Tool {
    name: &'static str,
    schema: fn() -> Value,
    run: fn(Value) -> Result<String, String>,
}

const TOOLS: [Tool; 4] = [
    Tool::new::<Add>("add"),
    Tool::new::<Between>("between"),
    Tool::new::<Convert>("convert"),
    Tool::new::<Weekday>("weekday"),
];

impl Tool {
    const fn new<T: Question>(name: &'static str) -> Self {
        let run = |args| {
            let question: T = serde_json::from_value(args).map_err(|error| error.to_string())?;
            question.answer()
        };
        Self { name, schema: || schemars::schema_for!(T).to_value(), run }
    }

    fn listed(&self) -> Value {
        let mut schema = (self.schema)();
        let description = schema["description"].take();
        if let Some(schema) = schema.as_object_mut() {
            schema.retain(|keyword, _| !matches!(keyword.as_str(), "description" | "title"));
        }
        json!({"name": self.name, "description": description, "inputSchema": schema})
    }
}

/// Adds a span to a date or time, or takes one away. Months of different lengths, leap years and changes of the clock count.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    /// Such as `2026-01-31`, `2026-01-31T09:30` or `2026-01-31T09:30Z`.
    date: String,
    /// Such as `1 month 3 days`, `-2 weeks` or `90 minutes`.
    span: String,
    /// The time zone, such as `Europe/Berlin`. Without it no change of the clock counts.
    zone: Option<String>,
}

impl Question for Add {
    fn answer(self) -> Result<String, String> {
        let span: Span = self.span.parse().map_err(|error| wrong("span", error))?;
        let added = match moment("date", &self.date, zone("zone", self.zone.as_deref())?)? {
            Moment::Local { at, is_date } => {
                let at = at.checked_add(span).map_err(|error| wrong("span", error))?;
                Moment::Local { at, is_date: is_date && at == at.date().into() }
            }
            Moment::Zoned(at) => {
                Moment::Zoned(at.checked_add(span).map_err(|error| wrong("span", error))?)
            }
        };
        Ok(added.told())
    }
}

/// Tells how much lies between two dates or times.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Between {
    /// Such as `2026-01-31`, `2026-01-31T09:30` or `2026-01-31T09:30Z`.
    from: String,
    /// The same.
    to: String,
    /// The time zone of both, such as `Europe/Berlin`.
    zone: Option<String>,
}

impl Question for Between {
    fn answer(self) -> Result<String, String> {
        let zone = zone("zone", self.zone.as_deref())?;
        let (from, to) = (moment("from", &self.from, zone.clone())?, moment("to", &self.to, zone)?);
        let (calendar, days) = match (from, to) {
            (Moment::Local { at: from, .. }, Moment::Local { at: to, .. }) => {
                (from.until((Unit::Year, to)), from.until((Unit::Day, to)))
            }
            (Moment::Zoned(from), Moment::Zoned(to)) => {
                let to = to.with_time_zone(from.time_zone().clone());
                (from.until((Unit::Year, &to)), from.until((Unit::Day, &to)))
            }
            _ => return Err("only one of the two is of a time zone; give `zone`".to_owned()),
        };
        let told = |span: Result<Span, Error>| {
            let span = span.map_err(|error| wrong("to", error))?;
            Ok::<_, String>((SPANS.span_to_string(&span.abs()), span.is_negative()))
        };
        let ((calendar, is_before), (days, _)) = (told(calendar)?, told(days)?);
        let same = if days == calendar { String::new() } else { format!(", which is {days}") };
        let order = if is_before { "; `to` is the earlier one" } else { "" };
        Ok(format!("{calendar}{same}{order}"))
    }
}

/// Tells what a time in one time zone is in another.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Convert {
    /// Such as `2026-01-31T09:30`, or `2026-01-31T09:30Z`.
    time: String,
    /// The time zone that `time` is of, such as `Europe/Berlin`, unless it says so itself.
    from: Option<String>,
    /// The other time zone, such as `Asia/Tokyo`.
    to: String,
}

impl Question for Convert {
    fn answer(self) -> Result<String, String> {
        let from = zone("from", self.from.as_deref())?;
        let to = zone("to", Some(&self.to))?.unwrap_or(TimeZone::UTC);
        match moment("time", &self.time, from)? {
            Moment::Zoned(at) => Ok(Moment::Zoned(at.with_time_zone(to)).told()),
            Moment::Local { .. } => Err("`from`: which time zone is `time` of?".to_owned()),
        }
    }
}

/// Tells the day of the week of a date, the day of the year, and the week by ISO 8601.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Weekday {
    /// Such as `2026-01-31`.
    date: String,
}

impl Question for Weekday {
    fn answer(self) -> Result<String, String> {
        let date: Date = self.date.parse().map_err(|error| wrong("date", error))?;
        let (week, weekday) = (date.iso_week_date(), date.strftime("%A"));
        let (day, year) = (date.day_of_year(), date.year());
        Ok(format!("{weekday}, day {day} of {year}, week {} of {}", week.week(), week.year()))
    }
}

/// A date or a time.
enum Moment {
    Local {
        at: DateTime,
        /// Nothing was said of the time of day.
        is_date: bool,
    },
    Zoned(Zoned),
}

impl Moment {
    fn told(&self) -> String {
        match self {
            Self::Local { at, is_date: true } => {
                format!("{}, a {}", at.date(), at.strftime("%A"))
            }
            Self::Local { at, .. } => format!("{at}, a {}", at.strftime("%A")),
            Self::Zoned(at) => format!("{at}, a {}", at.strftime("%A")),
        }
    }
}

/// What a text says, in a zone if there is one.
fn moment(field: &str, text: &str, zone: Option<TimeZone>) -> Result<Moment, String> {
    let text = text.trim();
    let said = text.parse::<Zoned>().ok();
    let said = said.or_else(|| {
        Some(text.parse::<Timestamp>().ok()?.to_zoned(zone.clone().unwrap_or(TimeZone::UTC)))
    });
    if let Some(at) = said {
        return Ok(Moment::Zoned(match zone {
            Some(zone) => at.with_time_zone(zone),
            None => at,
        }));
    }
    let at: DateTime = text.parse().map_err(|error| wrong(field, error))?;
    match zone {
        Some(zone) => Ok(Moment::Zoned(at.to_zoned(zone).map_err(|error| wrong(field, error))?)),
        None => Ok(Moment::Local { at, is_date: !text.contains(['T', 't', ' ']) }),
    }
}

fn zone(field: &str, name: Option<&str>) -> Result<Option<TimeZone>, String> {
    let parsed = name.map(|name| Zone::parse(name).map(|zone| zone.time_zone().clone()));
    parsed.transpose().map_err(|reason| format!("`{field}`: {reason}"))
}

fn wrong(field: &str, error: Error) -> String {
    format!("`{field}`: {error}")
}
