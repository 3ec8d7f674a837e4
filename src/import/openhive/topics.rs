//! Topics: threads of conversation.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use hivewright_actors::{
    channel::records::ChannelRow,
    clock::Timestamp,
    history::HistoryEvent,
    ids::{ChannelId, MAIN},
    retention,
    router::topics::Topic,
    store::records::Writes,
    task::{Lane, TopicRef},
};

use super::{
    installation::Installation,
    moment::moment,
    names,
    plan::{Artifact, Planner, Refusal},
    report::Kind,
    schema::row,
    settings::bare_channel,
    target::Target,
};
use crate::http::auth::registry::OPERATOR;

pub(super) const KIND: Kind = Kind::listed("topic");

row! {
    /// A thread of conversation.
    TopicRow in "topics" by "created_at, id" known by id {
        id: String,
        channel: String as "channel_id",
        name: String,
        description: Option<String>,
        state: String,
        created_at: String,
        last_activity: String,
    }
}

/// A topic is over so long after it became idle.
const DONE_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Between the two, so that an imported topic stays idle for a day at least.
const MARGIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A topic under its own id and its channel, with what was changed.
type Converted = Result<(ChannelId, Topic, Vec<String>), String>;

pub(super) fn plan(planner: &mut Planner<'_>) {
    let (rows, target) = (planner.found.tables.of::<TopicRow>(), planner.target);
    for (row, converted) in rows.iter().zip(convert(rows, target.idle_after, target.now)) {
        let conversion = converted
            .map(|(channel, topic, changes)| (Artifact::Topic(channel, topic, Vec::new()), changes))
            .map_err(Refusal::from);
        let name = format!("{} ({})", row.name, row.id);
        planner.take(KIND, None, name, row.mark(), conversion);
    }
}

/// The rows of a topic, with what was said in it.
pub(super) fn rows(
    channel: &ChannelId,
    topic: &Topic,
    events: &[HistoryEvent],
    now: Timestamp,
) -> Writes {
    // The operator may resume channels of WebSockets.
    let row = ChannelRow {
        principal: OPERATOR.into(),
        grant: Some(OPERATOR.into()),
        last_seen: now,
        channel_type: channel.channel_type().parse().unwrap_or_default(),
        begins_anew: false,
        begins_anew_in: None,
    };
    let lane = Lane { team: MAIN.into(), topic: Some(topic.id.clone()) };
    let turns = events.chunk_by(|one, next| one.turn == next.turn);
    let writes = turns.fold(Writes::new(), |writes, turn| writes.events(&lane, 1, turn));
    let writes = writes.and(retention::look_at_all());
    writes.put_at(channel, &row).put_at(&topic.key(channel), topic)
}

/// What topics are called here, by their ids.
pub(super) fn references(found: &Installation, target: &Target) -> BTreeMap<String, TopicRef> {
    convert(found.tables.of::<TopicRow>(), target.idle_after, target.now)
        .into_iter()
        .flatten()
        .map(|(_, Topic { id, name, .. }, _)| (id.to_string(), TopicRef { id, name }))
        .collect()
}

/// Converts topics. One that was active or idle is idle now, whenever it was last used.
fn convert(rows: &[TopicRow], idle_after: Duration, now: Timestamp) -> Vec<Converted> {
    let mut names: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    rows.iter()
        .map(|row| {
            let taken = names.entry(bare_channel(&row.channel)).or_default();
            let converted = convert_one(row, taken, idle_after, now);
            if let Ok((_, topic, _)) = &converted {
                taken.insert(topic.name.clone());
            }
            converted
        })
        .collect()
}

fn convert_one(
    row: &TopicRow,
    taken: &BTreeSet<String>,
    idle_after: Duration,
    now: Timestamp,
) -> Converted {
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
    let created_at = moment(&row.created_at).unwrap_or(said).min(last_activity);
    let topic = Topic::new(row.id.as_str().into(), name, created_at);
    let topic = Topic { last_activity, closed, ..topic };
    Ok((bare_channel(&row.channel).into(), topic, changes))
}

#[cfg(test)]
mod tests {

    use super::*;

    const IDLE: Duration = Duration::from_secs(1800);

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
        let now = moment("2026-06-01T12:00:00Z").unwrap();
        let rows = [
            row("active", "2026-06-01T11:59:00Z"),
            row("idle", "2025-01-01T00:00:00Z"),
            row("done", "2025-01-01T00:00:00Z"),
        ];

        let found: Vec<_> = convert(&rows, IDLE, now).into_iter().map(Result::unwrap).collect();

        assert!(found.iter().all(|(channel, ..)| channel.as_str() == "7"));
        let found: Vec<Topic> = found.into_iter().map(|(_, topic, _)| topic).collect();
        assert_eq!(now.since(found[0].last_activity), IDLE);
        let quiet = now.since(found[1].last_activity);
        assert!(quiet > IDLE && quiet < IDLE + DONE_AFTER, "{quiet:?}");
        assert!(found[2].closed && !found[0].closed);
        let names: Vec<_> = found.iter().map(|topic| topic.name.as_str()).collect();
        assert_eq!(names, ["Billing", "Billing 2", "Billing 3"]);
    }
}
