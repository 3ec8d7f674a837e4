//! Where an entry comes from, by what code knows.

use hivewright_actors::{
    ids::TaskId,
    journal::Trail,
    task::{Kind, Label, cause::Cause},
    tool::Caller,
    words,
};
use serde::{Deserialize, Serialize};

/// So many tools and addresses are named.
const MOST_READ: usize = 50;
/// Longer addresses are left out, in bytes.
const LONGEST_URL: usize = 2_000;

words! {
    /// What kind of source an entry comes from.
    pub enum Origin {
        /// An operator.
        Operator = "operator",
        /// A person in a channel.
        User = "user",
        /// Another team.
        Team = "team",
        /// The result of a tool.
        Tool = "tool",
        /// A page.
        Web = "web",
        /// A request from outside.
        Webhook = "webhook",
        /// Hivewright: a trigger, a setting.
        System = "system",
        /// Another installation.
        Import = "import",
    }
}

/// Where an entry comes from. Code fills it; nothing in it is what a model said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Provenance {
    /// The kind of source.
    pub origin: Origin,
    /// The exact source: a sender, a team, a token, a tool, an address, the run of a trigger.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The task that saved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The session whose journal tells of it, such as `ops~2:main`. Entries of earlier versions have another form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The event of that journal which holds the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_seq: Option<u64>,
    /// The call in that journal, by its idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Who spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Who of the team saved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    /// The tools whose results had been read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The pages that had been read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// How far what had been read may be believed.
    pub label: Label,
}

impl Provenance {
    /// What a turn saves, by a call under this key, after reading what has this label.
    pub fn in_turn(caller: &Caller, call: &str, label: Label) -> Self {
        let (origin, source) = source(caller);
        let sender = match &caller.cause {
            Cause::Sender { id, .. } => Some(id.clone()),
            Cause::Operator { name } => Some(name.clone()),
            Cause::System => None,
        };
        Self {
            task_id: Some(caller.task.clone()),
            session_id: Some(caller.lane.session_id(caller.team.generation)),
            call: Some(call.to_owned()),
            sender,
            subagent: caller.subagent.clone(),
            label,
            ..Self::of(origin, source)
        }
    }

    /// The same with where the call stands in the journal, and what its turn had read before it.
    pub fn after(self, trail: Trail) -> Self {
        let mut urls = trail.urls;
        urls.retain(|url| url.len() <= LONGEST_URL);
        urls.truncate(MOST_READ);
        let mut tools = trail.tools;
        tools.truncate(MOST_READ);
        let (origin, source) = match trail.tainted_by {
            Some((_, Some(url))) if url.len() <= LONGEST_URL => (Origin::Web, Some(url)),
            Some((tool, _)) => (Origin::Tool, Some(tool)),
            None => (self.origin, self.source),
        };
        Self { origin, source, event_seq: Some(trail.seq), tools, urls, ..self }
    }

    pub(super) fn of(origin: Origin, source: Option<String>) -> Self {
        Self {
            origin,
            source,
            task_id: None,
            session_id: None,
            event_seq: None,
            call: None,
            sender: None,
            subagent: None,
            tools: Vec::new(),
            urls: Vec::new(),
            label: Label::Trusted,
        }
    }
}

/// Who gave the team the work, which is where its words come from.
fn source(caller: &Caller) -> (Origin, Option<String>) {
    match caller.kind {
        Kind::Chat => match &caller.cause {
            Cause::Sender { channel_type, id, .. } => {
                (Origin::User, Some(format!("{channel_type}:{id}")))
            }
            Cause::Operator { name } => (Origin::Operator, Some(name.clone())),
            Cause::System => (Origin::System, None),
        },
        Kind::Trigger | Kind::Bootstrap => match &caller.firing {
            Some(firing) if firing.webhook => (Origin::Webhook, Some(firing.run.to_string())),
            Some(firing) => (Origin::System, Some(firing.run.to_string())),
            None => (Origin::System, Some(caller.task.to_string())),
        },
        _ => {
            // The last of the path is the turn's own task.
            let path = &caller.lineage.path;
            let giver = path.iter().rev().nth(1);
            (Origin::Team, Some(giver.map_or(&caller.team.name, |giver| &giver.team).to_string()))
        }
    }
}

#[cfg(test)]
mod tests {

    use hivewright_actors::{
        clock::Timestamp,
        task::{Firing, Lane, Task},
    };

    use super::*;

    fn task(team: &str, topic: Option<&str>) -> Task {
        let lane = Lane { team: team.into(), topic: topic.map(Into::into) };
        let (words, from) = ("remember".to_owned(), "anna".to_owned());
        Task::new("task-1".into(), lane, words, from, Timestamp(0))
    }

    /// MV-12, MV-14, MV-76
    #[test]
    fn what_a_person_caused_names_the_person_and_the_call() {
        let mut task = task("main", Some("t-1"));
        task.options.subagent = Some("scout".to_owned());
        task.cause = Some(Cause::sender("discord", "42"));

        let found = Provenance::in_turn(&Caller::of(&task), "turn-1:2:0", Label::Untrusted);

        let expected = Provenance {
            origin: Origin::User,
            source: Some("discord:42".to_owned()),
            task_id: Some("task-1".into()),
            session_id: Some("main:t-1".to_owned()),
            event_seq: None,
            call: Some("turn-1:2:0".to_owned()),
            sender: Some("42".to_owned()),
            subagent: Some("scout".to_owned()),
            tools: Vec::new(),
            urls: Vec::new(),
            label: Label::Untrusted,
        };
        assert_eq!(found, expected);
    }

    /// MV-12
    #[test]
    fn delegated_work_comes_from_the_team_that_gave_it() {
        let above = task("main", None);
        let mut below = task("ops", None);
        below.generation = 2;
        below.id = "task-2".into();
        below.kind = Kind::Delegate;
        below.lineage = Some(above.lineage_below());

        let found = Provenance::in_turn(&Caller::of(&below), "k", Label::Trusted);

        assert_eq!((found.origin, found.source.as_deref()), (Origin::Team, Some("main")));
        assert_eq!(found.session_id.as_deref(), Some("ops~2:main"));
    }

    /// MV-12: work that a request from outside started names its run, and a schedule is none of that.
    #[test]
    fn the_work_of_a_trigger_names_its_run() {
        for (webhook, origin) in [(true, Origin::Webhook), (false, Origin::System)] {
            let mut task = task("ops", None);
            task.kind = Kind::Trigger;
            task.firing = Some(Firing { run: "run-1".into(), webhook });

            let found = Provenance::in_turn(&Caller::of(&task), "k", Label::Untrusted);

            assert_eq!((found.origin, found.source.as_deref()), (origin, Some("run-1")));
        }
    }

    /// MV-12: what was read first of what nobody vouches for is where the words come from.
    #[test]
    fn what_made_a_turn_doubtful_is_its_source() {
        let url = "https://example.org/a".to_owned();
        for (read, expected) in [
            (None, (Origin::User, "ws:ann")),
            (Some(("web_fetch", Some(&url))), (Origin::Web, url.as_str())),
            (Some(("mcp.git.log", None)), (Origin::Tool, "mcp.git.log")),
        ] {
            let mut task = task("main", None);
            task.cause = Some(Cause::sender("ws", "ann"));
            let trail = Trail {
                tainted_by: read.map(|(tool, url)| (tool.to_owned(), url.cloned())),
                ..Trail::default()
            };

            let found = Provenance::in_turn(&Caller::of(&task), "k", Label::Untrusted);
            let found = found.after(trail);

            assert_eq!((found.origin, found.source.as_deref()), (expected.0, Some(expected.1)));
        }
    }

    /// MV-12: entries of earlier versions are still read.
    #[test]
    fn an_entry_with_an_older_session_is_read() {
        let text = r#"{"origin":"user","session_id":"main/t-1","label":"trusted"}"#;

        let found: Provenance = serde_json::from_str(text).unwrap();

        assert_eq!(found.session_id.as_deref(), Some("main/t-1"));
    }
}
