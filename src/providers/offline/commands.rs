//! Messages that the demo understands as a whole: each is a tool call, and its result in a sentence.

use hivewright_actors::{engine::ToolOutput, excerpt};
use serde_json::{Value, json};

use crate::system::sha256;

/// What can be typed, for `help`.
pub(super) const HELP: &str = "\
teams: list the teams\n\
status: what they are doing\n\
create team NAME: PURPOSE\n\
delegate TEAM: TASK\n\
ask TEAM: QUESTION\n\
remember KEY: TEXT\n\
recall QUERY\n\
schedule TEAM \"CRON\": TASK";

/// The most words that a new team's scope is made of.
const SCOPE: usize = 5;
/// A sentence shows this much of a text, in characters.
const SHOWN: usize = 500;

/// A message that stands for a tool call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    Teams,
    Status,
    Create { team: String, purpose: String },
    Delegate { team: String, task: String },
    Ask { team: String, question: String },
    Remember { key: String, text: String },
    Recall { query: String },
    Schedule { team: String, cron: String, task: String },
}

impl Command {
    /// The command that a message is, if it is one.
    pub(super) fn parse(message: &str) -> Option<Self> {
        let message = message.trim();
        let (verb, rest) = message.split_once(char::is_whitespace).unwrap_or((message, ""));
        let rest = rest.trim();
        match (verb.to_lowercase().as_str(), rest) {
            ("teams", "") => Some(Self::Teams),
            ("status", "") => Some(Self::Status),
            ("create", rest) => {
                let (word, rest) = rest.split_once(char::is_whitespace)?;
                let (team, purpose) = named(rest)?;
                word.eq_ignore_ascii_case("team").then_some(Self::Create { team, purpose })
            }
            ("delegate", rest) => named(rest).map(|(team, task)| Self::Delegate { team, task }),
            ("ask", rest) => named(rest).map(|(team, question)| Self::Ask { team, question }),
            ("remember", rest) => named(rest).map(|(key, text)| Self::Remember { key, text }),
            ("recall", query) if !query.is_empty() => {
                Some(Self::Recall { query: query.to_owned() })
            }
            ("schedule", rest) => {
                let (team, rest) = rest.split_once('"')?;
                let (cron, task) = rest.split_once('"')?;
                let task = task.trim_start().strip_prefix(':')?.trim();
                let team = one_word(team)?;
                (!task.is_empty()).then(|| Self::Schedule {
                    team,
                    cron: cron.trim().to_owned(),
                    task: task.to_owned(),
                })
            }
            _ => None,
        }
    }

    /// The tool, and what it is called with.
    pub(super) fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Teams => ("list_teams", json!({ "recursive": true })),
            Self::Status => ("get_status", json!({})),
            Self::Create { team, purpose } => (
                "spawn_team",
                json!({
                    "name": team,
                    "description": shortened(purpose),
                    "scope_accepts": scope(team, purpose),
                    "init_context": purpose,
                }),
            ),
            Self::Delegate { team, task } => {
                ("delegate_task", json!({ "team": team, "task": task, "overlap_policy": "allow" }))
            }
            Self::Ask { team, question } => {
                ("query_team", json!({ "team": team, "query": question }))
            }
            Self::Remember { key, text } => (
                "memory_save",
                json!({ "key": key, "content": text, "supersede_reason": "told again" }),
            ),
            Self::Recall { query } => ("memory_search", json!({ "query": query })),
            Self::Schedule { team, cron, task } => (
                "create_trigger",
                json!({
                    "team": team,
                    "name": trigger_name(cron, task),
                    "type": "schedule",
                    "config": { "cron": cron },
                    "task": task,
                    "notify_channel": "source",
                    "enable": true,
                }),
            ),
        }
    }

    pub(super) fn report(&self, result: &ToolOutput) -> String {
        let answer: Value = serde_json::from_str(&result.content).unwrap_or_default();
        if result.fault.is_some() || answer["success"] == false {
            let reason = answer["message"].as_str().unwrap_or(&result.content);
            return format!("That did not work: {}", shortened(reason));
        }
        let field = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        match self {
            Self::Teams => match list(&answer["teams"], team_line).as_str() {
                "" => "There is no team yet; `create team NAME: PURPOSE` makes one.".to_owned(),
                teams => format!("The teams are: {teams}."),
            },
            Self::Status => {
                let teams = match &answer["teams"] {
                    Value::Null => list(&json!([answer]), status_line),
                    teams => list(teams, status_line),
                };
                format!("At work: {teams}.")
            }
            Self::Create { team, .. } => match field("message_for_user").as_str() {
                "" => format!("Team `{team}` is being set up."),
                message => message.to_owned(),
            },
            Self::Delegate { team, .. } if answer["enqueued"] == false => {
                format!("Team `{team}` has other work, so the task was not given to it.")
            }
            Self::Delegate { team, .. } => {
                let id = field("task_id");
                format!("Team `{team}` has the task ({id}); its result will come here.")
            }
            Self::Ask { team, .. } => format!("{team} says: {}", shortened(&field("response"))),
            Self::Remember { key, .. } => format!("I will remember `{key}`."),
            Self::Recall { query } => {
                let found = match &answer {
                    Value::Array(_) => &answer,
                    _ => &answer["results"],
                };
                match list(found, memory_line).as_str() {
                    "" => format!("I remember nothing about \"{query}\"."),
                    found => format!("I remember {found}."),
                }
            }
            Self::Schedule { team, .. } => {
                let next = match field("next_due_at").as_str() {
                    "" => String::new(),
                    next => format!(", next at {next}"),
                };
                format!("Team `{team}` will do that on schedule{next}.")
            }
        }
    }
}

/// `name: text`, neither of them empty.
fn named(text: &str) -> Option<(String, String)> {
    let (name, text) = text.split_once(':')?;
    let text = text.trim();
    (!text.is_empty()).then_some((one_word(name)?, text.to_owned()))
}

fn one_word(text: &str) -> Option<String> {
    let text = text.trim();
    let is_word = !text.is_empty() && !text.contains(char::is_whitespace);
    is_word.then(|| text.to_owned())
}

/// Words that tell what a team is for.
fn scope(team: &str, purpose: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in purpose.split(|c: char| !c.is_alphanumeric()) {
        let word = word.to_lowercase();
        if (4..=64).contains(&word.chars().count()) && !words.contains(&word) {
            words.push(word);
        }
    }
    words.truncate(SCOPE);
    if words.is_empty() {
        words.push(team.to_lowercase());
    }
    words
}

/// A name for a trigger: the first words of its task, and what tells it from others.
fn trigger_name(cron: &str, task: &str) -> String {
    let words: Vec<String> = task
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(4)
        .map(|word| word.chars().take(12).collect::<String>().to_lowercase())
        .collect();
    let name = if words.is_empty() { "task".to_owned() } else { words.join("-") };
    format!("{name}-{}", &sha256(format!("{cron}\n{task}").as_bytes())[..4])
}

fn list(items: &Value, line: impl Fn(&Value) -> String) -> String {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn team_line(team: &Value) -> String {
    let word = |name: &str| team[name].as_str().unwrap_or_default();
    let mut line = format!("{} ({})", word("name"), word("phase"));
    if !word("description").is_empty() {
        line = format!("{line}: {}", shortened(word("description")));
    }
    let below = list(&team["children"], team_line);
    match below.as_str() {
        "" => line,
        below => format!("{line} [{below}]"),
    }
}

fn status_line(team: &Value) -> String {
    let running = team["running"].as_array().map_or(0, Vec::len);
    let queued = team["queued"].as_u64().unwrap_or_default();
    let name = team["name"].as_str().unwrap_or_default();
    format!("{name}: {running} running, {queued} waiting")
}

fn memory_line(entry: &Value) -> String {
    let word = |name: &str| entry[name].as_str().unwrap_or_default();
    format!("`{}`: {}", word("key"), shortened(word("snippet")))
}

fn shortened(text: &str) -> String {
    excerpt::line(text.trim(), SHOWN)
}

#[cfg(test)]
mod tests {

    use hivewright_actors::tool::ToolFault;

    use super::*;

    fn call(message: &str) -> Option<(&'static str, Value)> {
        Command::parse(message).map(|command| command.call())
    }

    /// SE-121
    #[test]
    fn each_command_is_a_tool_call() {
        let table = [
            ("teams", "list_teams", json!({ "recursive": true })),
            (" Status\n", "get_status", json!({})),
            (
                "create team scouts: They look around and look far.",
                "spawn_team",
                json!({
                    "name": "scouts",
                    "description": "They look around and look far.",
                    "scope_accepts": ["they", "look", "around"],
                    "init_context": "They look around and look far.",
                }),
            ),
            (
                "delegate scouts: look\n#reply done",
                "delegate_task",
                json!({ "team": "scouts", "task": "look\n#reply done", "overlap_policy": "allow" }),
            ),
            (
                "ASK scouts: where: there?",
                "query_team",
                json!({ "team": "scouts", "query": "where: there?" }),
            ),
            (
                "remember home: the blue house",
                "memory_save",
                json!({ "key": "home", "content": "the blue house", "supersede_reason": "told again" }),
            ),
            ("recall the house", "memory_search", json!({ "query": "the house" })),
            (
                "schedule scouts \"0 9 * * *\": look around: twice",
                "create_trigger",
                json!({
                    "team": "scouts",
                    "name": "look-around-twice-0b70",
                    "type": "schedule",
                    "config": { "cron": "0 9 * * *" },
                    "task": "look around: twice",
                    "notify_channel": "source",
                    "enable": true,
                }),
            ),
        ];

        for (message, tool, args) in table {
            assert_eq!(call(message), Some((tool, args)), "{message}");
        }
    }

    #[test]
    fn other_messages_are_no_commands() {
        for message in [
            "teams are nice",
            "status?",
            "create team scouts",
            "create a team: x",
            "delegate scouts:",
            "delegate to the scouts: x",
            "ask me anything",
            "remember: x",
            "recall",
            "fetch https://example.org",
            "schedule scouts 0 9 * * *: x",
            "schedule scouts \"0 9 * * *\" x",
            "hello",
            "",
        ] {
            assert_eq!(call(message), None, "{message}");
        }
    }

    /// SE-121
    #[test]
    fn each_result_is_told_in_a_sentence() {
        let table = [
            (
                "teams",
                json!({"success": true, "teams": []}),
                "There is no team yet; `create team NAME: PURPOSE` makes one.",
            ),
            (
                "teams",
                json!({"success": true, "teams": [{"name": "a", "phase": "ready", "description": "Looks.", "children": [
                    {"name": "b", "phase": "failed"}
                ]}, {"name": "c", "phase": "initializing"}]}),
                "The teams are: a (ready): Looks. [b (failed)]; c (initializing).",
            ),
            (
                "status",
                json!({"success": true, "teams": [{"name": "main", "running": [{}], "queued": 2}]}),
                "At work: main: 1 running, 2 waiting.",
            ),
            (
                "create team a: b",
                json!({"success": true, "message_for_user": "On its way."}),
                "On its way.",
            ),
            ("create team a: b", json!({"success": true}), "Team `a` is being set up."),
            (
                "delegate a: b",
                json!({"success": true, "enqueued": true, "task_id": "task-1"}),
                "Team `a` has the task (task-1); its result will come here.",
            ),
            (
                "delegate a: b",
                json!({"success": true, "enqueued": false}),
                "Team `a` has other work, so the task was not given to it.",
            ),
            ("ask a: b", json!({"success": true, "response": "Yes."}), "a says: Yes."),
            ("remember a: b", json!({"success": true}), "I will remember `a`."),
            ("recall a", json!([]), "I remember nothing about \"a\"."),
            (
                "recall a",
                json!([{"key": "k", "snippet": "s"}, {"key": "l", "snippet": "t"}]),
                "I remember `k`: s; `l`: t.",
            ),
            (
                "recall a",
                json!({"success": true, "results": [{"key": "k", "snippet": "s"}]}),
                "I remember `k`: s.",
            ),
            (
                "schedule a \"0 9 * * *\": b",
                json!({"success": true, "next_due_at": "2026-01-01T09:00:00Z"}),
                "Team `a` will do that on schedule, next at 2026-01-01T09:00:00Z.",
            ),
            (
                "ask a: b",
                json!({"success": false, "error": "not_found", "message": "there is no team `a`"}),
                "That did not work: there is no team `a`",
            ),
        ];

        for (message, answer, sentence) in table {
            let output = output(&answer.to_string(), None);
            let command = Command::parse(message).unwrap();
            assert_eq!(command.report(&output), sentence);
        }
        let missing = output("tool not available to this team", Some(ToolFault::NotAvailable));
        assert_eq!(
            Command::Teams.report(&missing),
            "That did not work: tool not available to this team"
        );
    }

    fn output(content: &str, fault: Option<ToolFault>) -> ToolOutput {
        let (id, name, content) = ("x".into(), "t".into(), content.to_owned());
        ToolOutput { id, name, content, fault, pictures: Vec::new() }
    }
}
