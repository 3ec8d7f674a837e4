//! Listeners: what happens in the service, told to plugins of the team that it concerns. Nothing waits for them.

use std::collections::{BTreeMap, HashSet};

use hivewright_actors::{
    clock::{Clock, Timestamp},
    hook::HookEvent,
    ids::{MAIN, TeamName},
    live::{
        Publisher,
        event::{Data, Event, Kind, Moment},
        watch::Filter,
    },
    org::{record::TeamState, view::OrgView},
    router::topics::Topic,
    scheduler::run::Decision,
    storage::{Storage, StorageError},
    store::{StoreHandle, reads::Range},
};
use serde_json::{Value, json};

use super::instance::Instances;
use crate::system::WallClock;

/// What is listened to.
const KINDS: [Kind; 6] = [
    Kind::Turn,
    Kind::TeamChanged,
    Kind::TopicChanged,
    Kind::TriggerRun,
    Kind::MemoryChanged,
    Kind::PluginChanged,
];
/// So many conversations are remembered to be open.
const MOST_OPEN: usize = 10_000;

/// What was told before, so that a change is told once.
#[derive(Default)]
struct Known {
    open: HashSet<String>,
    teams: BTreeMap<TeamName, bool>,
}

impl Known {
    /// The hook event that an event is, with the team it concerns.
    fn told(&mut self, event: &Event) -> Option<(TeamName, HookEvent)> {
        let team = event.team.clone().unwrap_or_else(|| TeamName::from(MAIN));
        let hook = match &event.data {
            Data::Turn(turn) => match &turn.moment {
                Moment::TurnStart { .. } => HookEvent::TurnStart,
                Moment::TurnEnd { .. } => HookEvent::TurnEnd,
                _ => return None,
            },
            Data::Json(data) => self.changed(event.kind, &team, data)?,
            _ => return None,
        };
        Some((team, hook))
    }

    fn changed(&mut self, kind: Kind, team: &TeamName, data: &Value) -> Option<HookEvent> {
        match kind {
            Kind::TopicChanged => {
                let id = data["id"].as_str()?;
                if data["state"] == "done" {
                    self.open.remove(id);
                    return Some(HookEvent::SessionClosed);
                }
                // It may have been closed before.
                if data["state"] == "deleted" {
                    return self.open.remove(id).then_some(HookEvent::SessionClosed);
                }
                if self.open.len() >= MOST_OPEN {
                    self.open.clear();
                }
                self.open.insert(id.to_owned()).then_some(HookEvent::SessionOpened)
            }
            Kind::TeamChanged => {
                let active = data["state"] == "active";
                let before = self.teams.insert(team.clone(), active);
                match (before, active) {
                    (Some(true), true) | (None | Some(false), false) => None,
                    (_, true) => Some(HookEvent::TeamStarted),
                    (_, false) => Some(HookEvent::TeamStopped),
                }
            }
            Kind::TriggerRun => {
                let decision = data["decision"].as_str()?.parse::<Decision>().ok()?;
                let fired = decision.made_a_task() && data["outcome"].is_null();
                fired.then_some(HookEvent::ScheduleFired)
            }
            Kind::MemoryChanged => Some(HookEvent::MemorySaved),
            Kind::PluginChanged => {
                let failed = ["failed", "backoff"].contains(&data["status"].as_str()?);
                (failed || data["reports_error"] == true).then_some(HookEvent::PluginError)
            }
            _ => None,
        }
    }
}

/// What plugins are told of an event.
fn payload(event: &Event, team: &TeamName) -> Value {
    let data = match &event.data {
        Data::Turn(turn) => match &turn.moment {
            Moment::TurnStart {
                session_id, sdk, provider, model, attempt, redelivered, ..
            } => {
                json!({
                    "session": session_id, "turn": turn.turn, "sdk": sdk, "provider": provider,
                    "model": model, "attempt": attempt, "redelivered": redelivered,
                })
            }
            Moment::TurnEnd { ok, outcome, code, usage, duration_ms, steps, .. } => json!({
                "turn": turn.turn, "ok": ok, "outcome": outcome, "code": code,
                "usage": usage, "duration_ms": duration_ms, "steps": steps,
            }),
            _ => Value::Null,
        },
        Data::Json(data) => picked(event.kind, data),
        _ => Value::Null,
    };
    let mut payload = json!({"team": team, "topic": event.topic, "task": event.task});
    if let (Value::Object(payload), Value::Object(data)) = (&mut payload, data) {
        payload.extend(data);
    }
    payload
}

/// Ids and states, and no words of people or models.
fn picked(kind: Kind, data: &Value) -> Value {
    let fields: &[&str] = match kind {
        Kind::TopicChanged => &["id", "channel_id", "state"],
        Kind::TeamChanged => &["name", "generation", "state"],
        Kind::TriggerRun => &["id", "trigger_id", "decision"],
        Kind::MemoryChanged => &["id", "key", "type", "action"],
        Kind::PluginChanged => &["plugin", "status"],
        _ => &[],
    };
    fields.iter().map(|field| ((*field).to_owned(), data[*field].clone())).collect()
}

/// Conversations that were open before a moment. Blocks.
fn open_before(storage: &dyn Storage, moment: Timestamp) -> Result<HashSet<String>, StorageError> {
    let mut open = HashSet::new();
    Range::<Topic>::all().for_each(storage, &mut |topic| {
        if !topic.closed && topic.created_at < moment && open.len() < MOST_OPEN {
            open.insert(topic.id.to_string());
        }
    })?;
    Ok(open)
}

/// Tells plugins what happens from now on, until the service ends. What was so before is no news.
pub fn listen(
    live: &Publisher,
    instances: Instances,
    view: &OrgView,
    store: StoreHandle,
) -> impl Future<Output = ()> + use<> {
    let mut watch = live.watch(None, Filter { kinds: KINDS.to_vec(), ..Filter::default() });
    let is_active = |state| state == TeamState::Active;
    let teams = view.now().iter().map(|team| (team.name.clone(), is_active(team.state))).collect();
    let began = WallClock.now();
    async move {
        let open = store.read(move |storage| open_before(storage, began)).await;
        let open = open.unwrap_or_else(|error| {
            tracing::warn!(%error, "which conversations are open is not known: plugins hear of them as new");
            HashSet::new()
        });
        let mut known = Known { open, teams };
        while let Some(batch) = watch.next().await {
            for told in batch.events {
                if let Some((team, hook)) = known.told(&told.event) {
                    instances.tell(&team, hook, || payload(&told.event, &team));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{doubles::disk::MemoryStorage, store::records::Writes};

    use super::*;

    /// PL-37
    #[test]
    fn a_change_is_told_once_and_without_words() {
        let mut known = Known::default();
        let mut told = |kind, data: Value| {
            let event = Event::new(kind, data).of_team(&"ops".into());
            let (team, hook) = known.told(&event)?;
            Some((team.to_string(), hook, payload(&event, &team)))
        };
        let team = |state: &str| json!({"name": "ops", "state": state});

        assert_eq!(told(Kind::TeamChanged, team("initializing")), None);
        let started = told(Kind::TeamChanged, team("active")).unwrap();
        assert_eq!((started.0.as_str(), started.1), ("ops", HookEvent::TeamStarted));
        assert_eq!(told(Kind::TeamChanged, team("active")), None);
        assert_eq!(told(Kind::TeamChanged, team("paused")).unwrap().1, HookEvent::TeamStopped);
        let topic = |state: &str| json!({"id": "t-1", "name": "words of a person", "state": state});
        let opened = told(Kind::TopicChanged, topic("active")).unwrap();
        assert_eq!(opened.1, HookEvent::SessionOpened);
        assert!(!opened.2.to_string().contains("words"));
        assert_eq!(told(Kind::TopicChanged, topic("active")), None);
        assert_eq!(told(Kind::TopicChanged, topic("done")).unwrap().1, HookEvent::SessionClosed);
        assert_eq!(told(Kind::TopicChanged, topic("deleted")), None);
        told(Kind::TopicChanged, topic("active")).unwrap();
        let deleted = told(Kind::TopicChanged, topic("deleted")).unwrap();
        assert_eq!((deleted.1, &deleted.2["state"]), (HookEvent::SessionClosed, &json!("deleted")));
        assert_eq!(told(Kind::TopicChanged, topic("deleted")), None);
        let plugin =
            |reports: bool| json!({"plugin": "p", "status": "running", "reports_error": reports});
        assert_eq!(told(Kind::PluginChanged, plugin(false)), None);
        let (_, failed, payload) = told(Kind::PluginChanged, plugin(true)).unwrap();
        assert_eq!((failed, &payload["plugin"]), (HookEvent::PluginError, &json!("p")));
        let run = |decision: Decision, outcome: Value| json!({"id": "run-1", "trigger_id": "trg-1", "decision": decision, "outcome": outcome});
        let fired = told(Kind::TriggerRun, run(Decision::Enqueued, Value::Null)).unwrap();
        assert_eq!((fired.1, &fired.2["trigger_id"]), (HookEvent::ScheduleFired, &json!("trg-1")));
        assert_eq!(told(Kind::TriggerRun, run(Decision::Enqueued, json!("ok"))), None);
        assert_eq!(told(Kind::TriggerRun, run(Decision::Cooldown, Value::Null)), None);
    }

    /// PL-37: what was so before the service was started is no news.
    #[test]
    fn a_restart_is_no_change() {
        let storage = MemoryStorage::default();
        let (ago, now) = (Timestamp(1_000), Timestamp(2_000));
        let topic =
            |id: &str, at, closed| Topic { closed, ..Topic::new(id.into(), id.to_owned(), at) };
        for topic in
            [topic("open", ago, false), topic("closed", ago, true), topic("new", now, false)]
        {
            let key = ("web:1".into(), topic.id.clone());
            let writes = Writes::new().put_at(&key, &topic);
            storage.commit(&writes.batch().unwrap()).unwrap();
        }
        let teams = [("ops", true), ("crew", false)];
        let mut known = Known {
            open: open_before(&storage, now).unwrap(),
            teams: teams.map(|(team, active)| (team.into(), active)).into(),
        };
        let mut told = |kind, team: &str, id: &str| {
            let event =
                Event::new(kind, json!({"id": id, "state": "active"})).of_team(&team.into());
            known.told(&event).map(|(_, event)| event)
        };

        let teams = ["ops", "crew"].map(|team| told(Kind::TeamChanged, team, ""));
        let topics = ["open", "closed", "new"].map(|id| told(Kind::TopicChanged, "ops", id));

        assert_eq!(teams, [None, Some(HookEvent::TeamStarted)]);
        let opened = Some(HookEvent::SessionOpened);
        assert_eq!(topics, [None, opened, opened]);
    }
}
