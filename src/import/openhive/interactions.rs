//! Interactions: what was said in channels, as far as such rows are kept.

use std::{collections::BTreeMap, time::Duration};

use hivewright_actors::{
    briefing::{Line, Speaker},
    channel_type::ChannelType,
    clock::Timestamp,
    excerpt,
    history::{Fact, HistoryEvent, Origin},
    ids::{ChannelId, MAIN, TopicId},
    interactions::{Interaction, SNIPPET, Said},
    store::records::Writes,
    task::{Label, Lane, cause::Cause, outcome::Ending},
    usage::Usage,
};

use super::{
    moment::moment,
    plan::{Artifact, Planner, Refusal},
    report::Kind,
    schema::row,
    settings::bare_channel,
};

/// What was said in a channel.
pub(super) const KIND: Kind = Kind::counted("interactions");

row! {
    /// Something said in a channel.
    InteractionRow in "channel_interactions" by "id" known by id {
        id: i64,
        direction: String,
        channel: String as "channel_id",
        user: Option<String> as "user_id",
        team: Option<String> as "team_id",
        snippet: Option<String> as "content_snippet",
        length: Option<i64> as "content_length",
        topic: Option<String> as "topic_id" = "NULL",
        decision: Option<String> as "trust_decision" = "NULL",
        created_at: String,
    } unread ["channel_type", "duration_ms"]
}

/// What was said stays this long, here as there.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn plan(planner: &mut Planner<'_>) {
    let target = planner.target;
    let mut said: BTreeMap<(ChannelId, TopicId), Vec<Line>> = BTreeMap::new();
    for row in planner.found.tables.of::<InteractionRow>() {
        let mut changes = Vec::new();
        let interaction = convert(row, target.now, |team| planner.called(team));
        let conversion = interaction.map_err(Refusal::intended).map(|mut interaction| {
            // A topic in which something was just said would be active.
            interaction.at = interaction.at.min(target.now - target.idle_after);
            for Said { line, .. } in &mut interaction.said {
                line.at = interaction.at;
                planner.redactor.clean(&mut line.text, &mut changes);
                line.text = excerpt::split(&line.text, SNIPPET).0.to_owned();
            }
            if let Some(topic) = &interaction.topic {
                let place = (interaction.channel.clone(), topic.clone());
                let lines = interaction.said.iter().map(|said| said.line.clone());
                said.entry(place).or_default().extend(lines);
            }
            let name = format!("import-{:020}", row.id);
            let writes = Writes::new().put_at(&interaction.key_named(&name), &interaction);
            (Artifact::row(name, writes), changes)
        });
        planner.take(KIND, None, &row.channel, row.mark(), conversion);
    }
    for planned in &mut planner.plan.planned {
        if let Artifact::Topic(channel, topic, events) = &mut planned.artifact
            && let Some(lines) = said.get(&(channel.clone(), topic.id.clone()))
        {
            let lane = Lane { team: MAIN.into(), topic: Some(topic.id.clone()) };
            *events = journal(&lane, channel, lines);
        }
    }
}

/// A conversation as turns, so that it goes on: words of a person, and what was said to them.
fn journal(lane: &Lane, channel: &ChannelId, lines: &[Line]) -> Vec<HistoryEvent> {
    let mut events: Vec<HistoryEvent> = Vec::new();
    let mut turns = lines.chunk_by(|_, next| matches!(next.speaker, Speaker::Team(_)));
    for (number, turn) in (1..).zip(&mut turns) {
        let [Line { speaker: Speaker::Person(person), at, text, .. }, answers @ ..] = turn else {
            continue;
        };
        let mut facts = vec![
            start(lane, channel, person),
            Fact::User {
                text: text.clone(),
                from: person.clone(),
                origin: Origin::Person,
                label: Label::Trusted,
                task_id: "import".into(),
                files: Vec::new(),
            },
        ];
        let says = |line: &Line| Fact::AssistantText { text: line.text.clone(), step: 1 };
        facts.extend(answers.iter().map(says));
        facts.push(Fact::TurnEnd {
            outcome: Ending::Done,
            code: None,
            message: None,
            text: answers.last().map(|line| line.text.clone()).unwrap_or_default(),
            steps: 1,
            usage: Usage::default(),
            duration_ms: 0,
        });
        let next = events.len() as u64 + 1;
        events.extend((next..).zip(facts).map(|(seq, fact)| HistoryEvent {
            seq,
            turn: format!("import-{number}").into(),
            timestamp: *at,
            fact,
            redacted: false,
        }));
    }
    events
}

/// A channel of a WebSocket is one person's, who had no name there.
fn start(lane: &Lane, channel: &ChannelId, person: &str) -> Fact {
    let channel_type = channel.channel_type();
    let is_named = channel_type != ChannelType::Ws.to_string();
    Fact::TurnStart {
        task_ids: Vec::new(),
        team: lane.team.clone(),
        topic: lane.topic.clone(),
        source_channel: Some(channel.clone()),
        attempt: 1,
        redelivered: false,
        sdk: "import".to_owned(),
        provider: String::new(),
        model: String::new(),
        prompt_hash: String::new(),
        toolset_hash: String::new(),
        cause: is_named.then(|| Cause::sender(channel_type, person)),
        root: None,
        idle: None,
    }
}

/// Something said, or why it is not kept.
fn convert(
    row: &InteractionRow,
    now: Timestamp,
    called: impl Fn(&str) -> String,
) -> Result<Interaction, &'static str> {
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
    let speaker = match row.direction.as_str() {
        "inbound" => Speaker::Person(row.user.clone().unwrap_or_else(|| "unknown".into())),
        _ => Speaker::Team(called(row.team.as_deref().unwrap_or(MAIN))),
    };
    let length = row.length.and_then(|length| length.try_into().ok()).unwrap_or(text.len() as u64);
    // The operator brings it over, like the memory.
    let line = Line { at, speaker, text, label: Label::Trusted };
    Ok(Interaction {
        channel: bare_channel(&row.channel).into(),
        channel_type: None,
        topic: row.topic.as_deref().filter(|id| !id.is_empty()).map(Into::into),
        task: None,
        at,
        duration_ms: None,
        said: vec![Said { line, length }],
        trust_decision: None,
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    /// CH-150
    #[test]
    fn what_was_said_yesterday_is_not_kept() {
        let now = moment("2026-06-01T12:00:00Z").unwrap();
        let row = InteractionRow {
            id: 4,
            direction: "inbound".into(),
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
        let convert = |row: &InteractionRow| convert(row, now, str::to_owned);

        let kept = convert(&row).unwrap();
        assert_eq!(kept.said[0].line.speaker, Speaker::Person("ws-client".into()));
        assert!(convert(&old).unwrap_err().contains("older"));
        assert!(convert(&denied).unwrap_err().contains("audit"));
    }
}
