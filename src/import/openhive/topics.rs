//! Threads of conversation, and what was said in them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use hivewright_actors::clock::Timestamp;

use super::{
    moment::moment,
    names,
    rows::{InteractionRow, TopicRow},
    settings::bare_channel,
};

/// What was said stays this long, here as there.
pub(super) const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A topic is over so long after it became idle.
const DONE_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Between the two, so that an imported topic stays idle for a day at least.
const MARGIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A topic to be made, under its own id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) id: String,
    pub(super) channel: String,
    pub(super) name: String,
    pub(super) created_at: Timestamp,
    pub(super) last_activity: Timestamp,
    pub(super) closed: bool,
    pub(super) changes: Vec<String>,
}

/// Converts topics. One that was active or idle is idle now, whenever it was last used.
pub(super) fn convert(
    rows: &[TopicRow],
    idle_after: Duration,
    now: Timestamp,
) -> Vec<(String, Result<Thread, String>)> {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    rows.iter()
        .map(|row| {
            let channel = bare_channel(&row.channel).to_owned();
            let taken = names.entry(channel.clone()).or_default();
            let thread = convert_one(row, channel, taken, idle_after, now);
            if let Ok(thread) = &thread {
                taken.insert(thread.name.clone());
            }
            (row.id.clone(), thread)
        })
        .collect()
}

fn convert_one(
    row: &TopicRow,
    channel: String,
    taken: &BTreeSet<String>,
    idle_after: Duration,
    now: Timestamp,
) -> Result<Thread, String> {
    let mut changes = Vec::new();
    let closed = match row.state.as_str() {
        "active" => {
            changes.push("it was active, and is idle".into());
            false
        }
        "idle" => false,
        "done" => true,
        other => return Err(format!("its state `{other}` is not known")),
    };
    let name = names::unique(&row.name, " ", taken);
    if name != row.name {
        changes.push(format!("it is called `{name}`"));
    }
    if row.description.as_deref().is_some_and(|text| !text.is_empty()) {
        changes.push("its description is dropped".into());
    }
    let said = moment(&row.last_activity).unwrap_or(now);
    let last_activity = if closed {
        said
    } else {
        said.max(now - (idle_after + DONE_AFTER).saturating_sub(MARGIN)).min(now - idle_after)
    };
    Ok(Thread {
        id: row.id.clone(),
        channel,
        name,
        created_at: moment(&row.created_at).unwrap_or(said).min(last_activity),
        last_activity,
        closed,
        changes,
    })
}

/// Something said, to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Saying {
    /// Its number in the source.
    pub(super) number: i64,
    pub(super) channel: String,
    pub(super) topic: Option<String>,
    pub(super) speaker: Speaker,
    pub(super) text: String,
    pub(super) length: u64,
    pub(super) at: Timestamp,
}

/// Who said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    Person(String),
    /// By its name in the source.
    Team(String),
}

/// Something said, or why it is not kept.
pub(super) fn saying(row: &InteractionRow, now: Timestamp) -> Result<Saying, &'static str> {
    let Some(at) = moment(&row.created_at) else {
        return Err("nobody knows when it was said");
    };
    if now.since(at) > KEPT {
        return Err("older than a day, as long as such rows are kept");
    }
    if row.decision.as_deref() == Some("denied") {
        return Err("it was not let in; the audit has it");
    }
    let Some(text) = row.snippet.clone().filter(|text| !text.is_empty()) else {
        return Err("its text was not kept");
    };
    Ok(Saying {
        number: row.id,
        channel: bare_channel(&row.channel).to_owned(),
        topic: row.topic.clone().filter(|id| !id.is_empty()),
        speaker: match row.direction.as_str() {
            "inbound" => Speaker::Person(row.user.clone().unwrap_or_else(|| "unknown".into())),
            _ => Speaker::Team(row.team.clone().unwrap_or_else(|| "main".into())),
        },
        length: row.length.and_then(|length| length.try_into().ok()).unwrap_or(text.len() as u64),
        text,
        at,
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    const IDLE: Duration = Duration::from_secs(1800);

    fn now() -> Timestamp {
        moment("2026-06-01T12:00:00Z").unwrap()
    }

    fn row(state: &str, last: &str) -> TopicRow {
        TopicRow {
            id: format!("t-{state}"),
            channel: "discord:7".into(),
            name: "Billing".into(),
            description: None,
            state: state.into(),
            created_at: "2026-01-01T00:00:00Z".into(),
            last_activity: last.into(),
        }
    }

    /// OR-29
    #[test]
    fn an_active_topic_is_idle_and_a_closed_one_stays_closed() {
        let rows = [
            row("active", "2026-06-01T11:59:00Z"),
            row("idle", "2025-01-01T00:00:00Z"),
            row("done", "2025-01-01T00:00:00Z"),
        ];

        let found: Vec<_> =
            convert(&rows, IDLE, now()).into_iter().map(|(_, thread)| thread.unwrap()).collect();

        assert_eq!(now().since(found[0].last_activity), IDLE);
        let quiet = now().since(found[1].last_activity);
        assert!(quiet > IDLE && quiet < IDLE + DONE_AFTER, "{quiet:?}");
        assert!(found[2].closed && !found[0].closed);
        let names: Vec<_> = found.iter().map(|thread| thread.name.as_str()).collect();
        assert_eq!(names, ["Billing", "Billing 2", "Billing 3"]);
        assert!(found.iter().all(|thread| thread.channel == "7"));
    }

    /// CH-150
    #[test]
    fn what_was_said_yesterday_is_not_kept() {
        let row = InteractionRow {
            id: 4,
            direction: "inbound".into(),
            channel_type: "ws".into(),
            channel: "ws:1".into(),
            user: Some("ws-client".into()),
            team: None,
            snippet: Some("hello".into()),
            length: Some(5),
            topic: None,
            decision: None,
            created_at: "2026-06-01T11:00:00Z".into(),
        };
        let old = InteractionRow { created_at: "2026-05-30T11:00:00Z".into(), ..row.clone() };
        let denied = InteractionRow { decision: Some("denied".into()), ..row.clone() };

        let kept = saying(&row, now()).unwrap();
        assert_eq!(kept.speaker, Speaker::Person("ws-client".into()));
        assert!(saying(&old, now()).unwrap_err().contains("older"));
        assert!(saying(&denied, now()).unwrap_err().contains("audit"));
    }
}
