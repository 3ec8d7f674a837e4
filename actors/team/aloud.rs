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
    manner: Manner,
    words: String,
    pub(super) timer: Option<SpawnHandle>,
}

/// In which way something is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Manner {
    /// To the person.
    #[default]
    Text,
    /// To itself.
    Thinking,
}

impl Team {
    /// Says a piece, now or together with those that come soon.
    pub(super) fn say(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        manner: Manner,
        piece: &str,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        if running.aloud.manner != manner {
            self.say_now(topic, turn);
        }
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.aloud.manner = manner;
        running.aloud.words.push_str(piece);
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

    /// Tells what was said so far.
    pub(super) fn say_now(&mut self, topic: &Option<TopicId>, turn: &TurnId) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let data = std::mem::take(&mut running.aloud.words);
        if data.is_empty() {
            return;
        }
        let said = match running.aloud.manner {
            Manner::Text => Stream::Text { data },
            Manner::Thinking => Stream::Thinking { data },
        };
        self.tell_live(topic, turn, said);
    }

    /// What was said in this step is void.
    pub(super) fn unsay(&mut self, topic: &Option<TopicId>, turn: &TurnId) {
        if let Some(running) = self.lanes.running(topic, turn) {
            running.aloud.words.clear();
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
        let value = Stream::ToolStart { id: id.clone(), tool_name: tool.to_owned() };
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
        let value =
            Stream::ToolEnd { id: id.clone(), tool_name: tool.to_owned(), is_error: failed };
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
