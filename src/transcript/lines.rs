//! Lines: the form in which a transcript leaves and comes back, one JSON object each.

use hivewright_actors::{
    clock::Timestamp,
    history::{Fact, HistoryEvent},
    ids::{CallId, TaskId, TurnId},
    task::{
        Label,
        outcome::{Code, Ending},
        records::LaneKey,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::merge::Merge;
use crate::api::transcript::{Answers, Block, Message, Meta, Role};

/// The key of the line that stands behind each turn.
const TURN: &str = "turn";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Line {
    History(MessageLine),
    Meta(FactLine),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageLine {
    /// The team.
    pub agent_id: String,
    pub session_id: String,
    /// In milliseconds since 1970.
    pub timestamp: u64,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    pub content: Vec<Block>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Something about the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactLine {
    pub agent_id: String,
    pub session_id: String,
    pub timestamp: u64,
    pub key: String,
    pub value: Value,
}

/// The end of a turn: all lines since the one before it are of this turn, or of one that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnLine {
    pub id: TurnId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The tasks of messages that joined it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<TaskId>,
    /// None if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    pub outcome: Ending,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl FactLine {
    /// The end of a turn, if that is what it says.
    pub fn turn(&self) -> Option<TurnLine> {
        (self.key == TURN).then(|| TurnLine::deserialize(&self.value).ok()).flatten()
    }
}

/// The name of a session's file.
pub fn file_name(lane: &LaneKey) -> String {
    format!("{}-{}.jsonl", lane.lane.team, lane.session_id().replace([':', '~'], "-"))
}

/// The lines of a session, written as its events come.
#[derive(Debug)]
pub struct Writer {
    team: String,
    session: String,
    merge: Merge,
    text: String,
}

impl Writer {
    /// Begins where a turn has ended, or at the beginning: from there on the lines are the same.
    pub fn new(lane: &LaneKey) -> Self {
        Self {
            team: lane.lane.team.to_string(),
            session: lane.session_id(),
            merge: Merge::default(),
            text: String::new(),
        }
    }

    pub fn push(&mut self, event: HistoryEvent) {
        let HistoryEvent { turn, timestamp, fact, .. } = &event;
        let end = match fact {
            Fact::TurnEnd { outcome, code, message, .. } => Some(TurnLine {
                id: turn.clone(),
                task: self.merge.task_of(turn).cloned(),
                joined: self.merge.joined(turn),
                label: self.merge.label_of(turn),
                outcome: *outcome,
                code: *code,
                message: message.clone(),
            }),
            _ => None,
        };
        let timestamp = timestamp.0;
        self.merge.push(event);
        let messages = self.merge.take();
        self.tell(messages);
        if let Some(end) = end {
            let line = Line::Meta(FactLine {
                agent_id: self.team.clone(),
                session_id: self.session.clone(),
                timestamp,
                key: TURN.to_owned(),
                value: serde_json::to_value(end).unwrap_or_default(),
            });
            self.write(&line);
        }
    }

    /// The lines since they were last taken, each with its end. Of a turn that goes on, those that nothing is added to.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// The last lines, also those of a turn that goes on.
    pub fn finish(mut self) -> String {
        let messages = std::mem::take(&mut self.merge).finish();
        self.tell(messages);
        self.text
    }

    fn tell(&mut self, messages: Vec<Message>) {
        for Message { timestamp, role, content, meta, answers, .. } in messages {
            let (tool_call_id, tool_name, is_error) = match answers {
                Some(Answers { tool_call_id, tool_name, is_error, .. }) => {
                    (Some(tool_call_id), Some(tool_name), Some(is_error))
                }
                None => (None, None, None),
            };
            self.write(&Line::History(MessageLine {
                agent_id: self.team.clone(),
                session_id: self.session.clone(),
                timestamp,
                role,
                tool_call_id,
                tool_name,
                content,
                is_error,
                meta,
            }));
        }
    }

    fn write(&mut self, line: &Line) {
        match serde_json::to_string(line) {
            Ok(line) => {
                self.text.push_str(&line);
                self.text.push('\n');
            }
            Err(error) => {
                tracing::error!(session = self.session, %error, "a line of a transcript is left out");
            }
        }
    }
}

/// Something that a line tells.
pub(super) enum Item {
    Message(MessageLine),
    Turn(Timestamp, TurnLine),
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{
        clock::Timestamp,
        history::{Meta as Remark, Origin},
        task::Lane,
        tool::{Effect, ToolFault},
        usage::Usage,
    };
    use serde_json::json;

    use super::*;

    fn lane(team: &str, topic: Option<&str>, generation: u32) -> LaneKey {
        LaneKey::new(&Lane { team: team.into(), topic: topic.map(Into::into) }, generation)
    }

    /// EN-48, EN-49
    #[test]
    fn lines_have_the_canonical_form() {
        let start: Fact = serde_json::from_value(json!({
            "type": "turn_start", "task_ids": ["task-1"], "team": "ops", "topic": null, "source_channel": null,
            "attempt": 1, "redelivered": false, "sdk": "native", "provider": "anthropic", "model": "m",
            "prompt_hash": "", "toolset_hash": "",
        }))
        .unwrap();
        let facts = [
            start,
            Fact::User {
                text: "read\nit".to_owned(),
                from: "ann".to_owned(),
                origin: Origin::Person,
                label: Label::Trusted,
                task_id: "task-1".into(),
                files: Vec::new(),
            },
            Fact::AssistantThinking { text: "hm".to_owned(), step: 1, block: None },
            Fact::ToolCall {
                id: "call_1".into(),
                name: "read".to_owned(),
                args: json!({"file_path": "a.md"}),
                step: 1,
                effect: Effect::Pure,
                idempotency_key: "k".to_owned(),
            },
            Fact::Meta(Remark::Usage {
                step: 1,
                profile: "p".to_owned(),
                model: "m".to_owned(),
                usage: Usage { input: 123, output: 45, ..Usage::default() },
                stop_reason: "toolUse".to_owned(),
            }),
            Fact::ToolResult {
                id: "call_1".into(),
                name: "read".to_owned(),
                content: "gone".to_owned(),
                fault: Some(ToolFault::UnknownOutcome),
                duration_ms: 1,
                truncated: false,
                taints: false,
                rule: None,
                approved: false,
                files: Vec::new(),
                pictures: Vec::new(),
            },
            Fact::TurnEnd {
                outcome: Ending::Failed,
                code: Some(Code::StepLimit),
                message: Some("too many steps".to_owned()),
                text: String::new(),
                steps: 1,
                usage: Usage::default(),
                duration_ms: 5,
            },
        ];
        let mut lines = Writer::new(&lane("ops", None, 1));

        for (seq, fact) in (1..).zip(facts) {
            let (turn, timestamp) = ("turn-1".into(), Timestamp(seq));
            lines.push(HistoryEvent { seq, turn, timestamp, fact, redacted: false });
        }

        assert_eq!(
            lines.finish(),
            "{\"type\":\"history\",\"agentId\":\"ops\",\"sessionId\":\"ops:main\",\"timestamp\":2,\"role\":\"user\",\
             \"content\":[{\"type\":\"text\",\"text\":\"read\\nit\"}]}\n\
             {\"type\":\"history\",\"agentId\":\"ops\",\"sessionId\":\"ops:main\",\"timestamp\":3,\"role\":\"assistant\",\
             \"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},\
             {\"type\":\"toolCall\",\"id\":\"call_1\",\"name\":\"read\",\"arguments\":{\"file_path\":\"a.md\"}}],\
             \"meta\":{\"provider\":\"anthropic\",\"model\":\"m\",\"usage\":{\"input\":123,\"output\":45,\"cacheRead\":0,\
             \"cacheWrite\":0,\"totalTokens\":168},\"stopReason\":\"toolUse\"}}\n\
             {\"type\":\"history\",\"agentId\":\"ops\",\"sessionId\":\"ops:main\",\"timestamp\":6,\"role\":\"toolResult\",\
             \"toolCallId\":\"call_1\",\"toolName\":\"read\",\"content\":[{\"type\":\"text\",\"text\":\"gone\"}],\
             \"isError\":true}\n\
             {\"type\":\"meta\",\"agentId\":\"ops\",\"sessionId\":\"ops:main\",\"timestamp\":7,\"key\":\"turn\",\
             \"value\":{\"code\":\"step_limit\",\"id\":\"turn-1\",\"label\":\"trusted\",\"message\":\"too many steps\",\"outcome\":\"failed\",\
             \"task\":\"task-1\"}}\n"
        );
    }

    /// EN-48
    #[test]
    fn each_session_has_a_file_of_its_own() {
        let names = [
            lane("main", Some("t-0123456789abcdef"), 1),
            lane("ops", None, 1),
            lane("ops", None, 2),
            lane("ops-2", None, 1),
        ]
        .map(|lane| file_name(&lane));

        assert_eq!(
            names,
            [
                "main-main-t-0123456789abcdef.jsonl",
                "ops-ops-main.jsonl",
                "ops-ops-2-main.jsonl",
                "ops-2-ops-2-main.jsonl",
            ]
        );
    }
}
