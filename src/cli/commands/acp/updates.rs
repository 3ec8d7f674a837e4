//! Updates: what is heard of a message, as an editor shows it.

use agent_client_protocol_schema::{
    ContentChunk, SessionUpdate, ToolCall, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    ToolKind,
};
use hivewright_actors::{
    file::lines,
    frame::{Progress, ProgressKind},
};
use serde_json::{Value, json};

use crate::{
    api::me::{ConversationBlock, ConversationItem, ConversationMessage},
    cli::{
        message_tracker::Heard,
        transcript::{Print, Transcript},
    },
};

/// What the next thing that was heard changes in the editor. `transcript` is what it shows so far.
pub(super) fn updates(heard: &Heard<'_>, transcript: &mut Transcript) -> Vec<SessionUpdate> {
    let prints = transcript.live(heard);
    if let Heard::Progress(progress) = heard {
        match progress.kind {
            ProgressKind::ToolCall => return vec![SessionUpdate::ToolCall(call(progress))],
            ProgressKind::ToolResult => {
                return vec![SessionUpdate::ToolCallUpdate(result(progress))];
            }
            ProgressKind::Note => return vec![remark(&progress.content)],
            ProgressKind::TextDelta | ProgressKind::UserMessage => {}
        }
    }
    let texts = prints.into_iter().filter_map(|print| match print {
        Print::Text(text) if !text.is_empty() => Some(words(&text)),
        _ => None,
    });
    texts.collect()
}

/// Words of the team.
pub(super) fn words(text: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()))
}

/// A line beside the answer.
pub(super) fn remark(text: &str) -> SessionUpdate {
    thought(&format!("{text}\n"))
}

/// A piece of reasoning.
pub(super) fn thought(text: &str) -> SessionUpdate {
    SessionUpdate::AgentThoughtChunk(ContentChunk::new(text.into()))
}

/// What was said earlier, with what came of it.
pub(super) fn replay(item: ConversationItem) -> Vec<SessionUpdate> {
    let ConversationMessage { text, files, thinking, blocks, end, .. } = match item {
        ConversationItem::Message(message) => message,
        ConversationItem::Notification(told) => return vec![words(&format!("{}\n", told.content))],
    };
    let said = if files.is_empty() { text } else { format!("{text}\n\n{}", lines(&files)) };
    let mut updates = vec![SessionUpdate::UserMessageChunk(ContentChunk::new(said.into()))];
    updates.extend(thinking.as_deref().map(remark));
    updates.extend(blocks.into_iter().map(|block| match block {
        ConversationBlock::Text { text } => words(&text),
        ConversationBlock::Note { text, .. } => remark(&text),
        ConversationBlock::ToolCall { call_id, tool, arguments, ok, result, .. } => {
            let status = match ok {
                None => ToolCallStatus::InProgress,
                Some(ok) => status(ok),
            };
            let result = result.filter(|result| !result.is_empty());
            let call = ToolCall::new(call_id.to_string(), &*tool)
                .kind(kind(&tool))
                .status(status)
                .raw_input(Some(shown(&arguments)))
                .content(result.into_iter().map(Into::into).collect());
            SessionUpdate::ToolCall(call)
        }
    }));
    let error = end.and_then(|end| end.error);
    updates.extend(error.map(|error| words(&format!("{error}\n"))));
    updates
}

fn call(progress: &Progress) -> ToolCall {
    let tool = progress.tool.as_deref().unwrap_or_default();
    let title = if tool.is_empty() { &progress.content } else { tool };
    ToolCall::new(id(progress), title)
        .kind(kind(tool))
        .status(ToolCallStatus::InProgress)
        .raw_input(progress.preview.as_deref().map(shown))
}

fn result(progress: &Progress) -> ToolCallUpdate {
    let mut fields = ToolCallUpdateFields::new().status(status(progress.ok != Some(false)));
    if let Some(preview) = progress.preview.clone().filter(|preview| !preview.is_empty()) {
        fields = fields.content(vec![preview.into()]);
    }
    ToolCallUpdate::new(id(progress), fields)
}

fn status(ok: bool) -> ToolCallStatus {
    if ok { ToolCallStatus::Completed } else { ToolCallStatus::Failed }
}

fn id(progress: &Progress) -> String {
    progress.call_id.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// The beginning of something, which may be all of it.
fn shown(preview: &str) -> Value {
    serde_json::from_str(preview).unwrap_or_else(|_| json!(preview))
}

/// The symbol that an editor puts before a tool.
fn kind(tool: &str) -> ToolKind {
    match tool {
        "read" | "list" => ToolKind::Read,
        "write" | "edit" => ToolKind::Edit,
        "bash" => ToolKind::Execute,
        "glob" | "grep" | "web_search" => ToolKind::Search,
        "web_fetch" => ToolKind::Fetch,
        _ => ToolKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::message_tracker::MessageTracker;

    /// What an editor is told of frames about one message.
    fn told(frames: &[Value]) -> Vec<Value> {
        let (mut exchange, mut transcript) =
            (MessageTracker::new("m".into()), Transcript::default());
        let mut told = Vec::new();
        for fields in frames {
            let mut frame = json!({"topic_id": "t", "topic_name": "t", "channel_id": "ws:1", "seq": 1, "ts": 0});
            let all = frame.as_object_mut().unwrap();
            all.extend(fields.as_object().unwrap().clone());
            let frame = serde_json::from_value(frame).unwrap();
            let heard = exchange.take(&frame).unwrap();
            told.extend(updates(&heard, &mut transcript).iter().map(|update| json!(update)));
        }
        told
    }

    fn progress(kind: &str, content: &str, mut fields: Value) -> Value {
        fields["type"] = "progress".into();
        fields["message_id"] = "m".into();
        fields["kind"] = kind.into();
        fields["content"] = content.into();
        fields
    }

    #[test]
    fn an_editor_shows_words_tools_and_notes_once() {
        let answer = json!({"type": "response", "content": "It says 4711", "message_id": "m", "status": "done"});

        let told = told(&[
            progress("text_delta", "I look.", json!({})),
            progress(
                "tool_call",
                "reading",
                json!({
                "tool": "read", "call_id": "c", "preview": "{\"file_path\":\"a\"}"}),
            ),
            progress(
                "tool_result",
                "read",
                json!({
                "tool": "read", "call_id": "c", "ok": false, "preview": "no file"}),
            ),
            progress("note", "tried again", json!({})),
            progress("text_delta", "It says", json!({})),
            answer,
        ]);

        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(
            told,
            [
                json!({"sessionUpdate": "agent_message_chunk", "content": text("I look.")}),
                json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "read",
                    "kind": "read", "status": "in_progress", "rawInput": {"file_path": "a"}}),
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed",
                    "content": [{"type": "content", "content": text("no file")}]}),
                json!({"sessionUpdate": "agent_thought_chunk", "content": text("tried again\n")}),
                json!({"sessionUpdate": "agent_message_chunk", "content": text("It says")}),
                json!({"sessionUpdate": "agent_message_chunk", "content": text(" 4711")}),
            ]
        );
    }
}
