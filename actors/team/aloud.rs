//! What a running step says, for whoever watches: merged, and ahead of the commit that follows it.

use std::time::Duration;

use actix::{AsyncContext, Context, SpawnHandle};

use super::Team;
use crate::{
    ids::{CallId, TopicId, TurnId},
    live::event::{Event, Moment, Stream},
};

/// Pieces are merged to at most one event in this time.
const MERGE: Duration = Duration::from_millis(50);

/// What has not been told yet.
#[derive(Default)]
pub(super) struct Aloud {
    text: String,
    thinking: String,
    pub(super) timer: Option<SpawnHandle>,
}

impl Team {
    pub(super) fn say_text(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        piece: &str,
        ctx: &mut Context<Self>,
    ) {
        if let Some(running) = self.lanes.running(topic, turn) {
            if !running.aloud.thinking.is_empty() {
                self.say_now(topic, turn);
            }
            self.say_soon(topic, turn, |aloud| aloud.text.push_str(piece), ctx);
        }
    }

    pub(super) fn say_thinking(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        piece: &str,
        ctx: &mut Context<Self>,
    ) {
        if let Some(running) = self.lanes.running(topic, turn) {
            if !running.aloud.text.is_empty() {
                self.say_now(topic, turn);
            }
            self.say_soon(topic, turn, |aloud| aloud.thinking.push_str(piece), ctx);
        }
    }

    fn say_soon(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        add: impl FnOnce(&mut Aloud),
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        add(&mut running.aloud);
        if running.aloud.timer.is_some() {
            return;
        }
        let (topic, turn) = (topic.clone(), turn.clone());
        let later = ctx.run_later(MERGE, move |team, _| {
            if let Some(running) = team.lanes.running(&topic, &turn) {
                running.aloud.timer = None;
            }
            team.say_now(&topic, &turn);
        });
        running.aloud.timer = Some(later);
    }

    /// Tells what was said so far. Thinking and text are never both waiting.
    pub(super) fn say_now(&mut self, topic: &Option<TopicId>, turn: &TurnId) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let thinking = std::mem::take(&mut running.aloud.thinking);
        let text = std::mem::take(&mut running.aloud.text);
        if !thinking.is_empty() {
            self.tell_live(topic, turn, Stream::Thinking { data: thinking });
        }
        if !text.is_empty() {
            self.tell_live(topic, turn, Stream::Text { data: text });
        }
    }

    /// What was said in this step is void.
    pub(super) fn unsay(&mut self, topic: &Option<TopicId>, turn: &TurnId) {
        if let Some(running) = self.lanes.running(topic, turn) {
            running.aloud.text.clear();
            running.aloud.thinking.clear();
            self.tell_live(topic, turn, Stream::Reset);
        }
    }

    pub(super) fn tool_runs(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        id: &CallId,
        tool: &str,
    ) {
        let value = Stream::ToolStart {
            id: id.clone(),
            tool_name: tool.to_owned(),
        };
        self.tell_live(topic, turn, value);
    }

    pub(super) fn tool_ended(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        id: &CallId,
        tool: &str,
        failed: bool,
    ) {
        let value = Stream::ToolEnd {
            id: id.clone(),
            tool_name: tool.to_owned(),
            is_error: failed,
        };
        self.tell_live(topic, turn, value);
    }

    fn tell_live(&mut self, topic: &Option<TopicId>, turn: &TurnId, value: Stream) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let task = &running.charge.task.id;
        let moment = Moment::Stream { value };
        let event = Event::turn(&self.name, topic.as_ref(), Some(task), turn, moment);
        self.recipe.live.publish(event);
    }
}
