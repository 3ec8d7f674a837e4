//! Text commands: read by code, never by a model.

use actix::Context;

use super::{
    Router, main_lane,
    verdicts::{self, Verdict},
};
use crate::{
    event::TopicState,
    ids::{ChannelId, TopicId},
    queue::Cancel,
    store::records::{Undecided, Writes},
    task::{Kind, TopicRef},
};

/// A command. Other words behind a slash are ordinary messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Topics,
    /// Of a topic by id or name; without one, of the one used last.
    Close(Option<String>),
    Stop(Option<String>),
    Compact(Option<String>),
    /// Without the words that it should begin with.
    New,
    /// About what waits for a person.
    Verdict(Verdict),
}

/// Reads a message as a command.
pub(super) fn parse(content: &str) -> Option<Command> {
    let (word, rest) = content
        .split_once(char::is_whitespace)
        .unwrap_or((content, ""));
    let rest = rest.trim();
    if let Some(verdict) = verdicts::parse(&word.to_ascii_lowercase(), rest) {
        return Some(Command::Verdict(verdict));
    }
    let topic = (!rest.is_empty()).then(|| rest.to_owned());
    match (word.to_ascii_lowercase().as_str(), &topic) {
        ("/help", None) => Some(Command::Help),
        ("/topics", None) => Some(Command::Topics),
        ("/close", _) => Some(Command::Close(topic)),
        ("/compact", _) => Some(Command::Compact(topic)),
        ("/new" | "/reset", None) => Some(Command::New),
        ("/stop" | "/abort", _) => Some(Command::Stop(topic)),
        _ => None,
    }
}

/// The words that a new topic is to begin with, whatever they are about.
pub(super) fn begins_anew(content: &str) -> Option<&str> {
    let (word, words) = content.split_once(char::is_whitespace)?;
    let words = words.trim();
    let is_new = ["/new", "/reset"].contains(&word.to_ascii_lowercase().as_str());
    (is_new && !words.is_empty()).then_some(words)
}

const HELP: &str = "Commands:\n\
    /new <message> begins a new topic with a message.\n\
    /topics lists the topics of this channel.\n\
    /close [topic] ends a topic and what runs in it.\n\
    /stop [topic] stops the running turn of a topic.\n\
    /compact [topic] summarises what was said in a topic, after its running turn.\n\
    A topic is named by its id or its name; without one, the topic used last is meant.\n\
    /approvals lists what waits for a decision or an answer.\n\
    /approve <id> lets a call run, once.\n\
    /deny <id> <why> keeps a call from running; the team reads why.\n\
    /answer <id> <text> answers a question.";

impl Router {
    pub(super) fn obey(&mut self, command: Command, message: Undecided, ctx: &mut Context<Self>) {
        let channel = message.channel.clone();
        let (answer, writes) = match command {
            Command::Verdict(verdict) => return self.judge_by(verdict, message, ctx),
            Command::Compact(topic) => return self.compact_topic(topic, message, ctx),
            Command::Help => (HELP.to_owned(), Writes::new()),
            Command::New => {
                let how =
                    "Say what it is about: `/new <message>` begins a new topic with that message.";
                (how.to_owned(), Writes::new())
            }
            Command::Topics => (self.describe_topics(&channel), Writes::new()),
            Command::Close(topic) => self.close_topic(&channel, topic.as_deref()),
            Command::Stop(topic) => (self.stop_topic(&channel, topic.as_deref()), Writes::new()),
        };
        self.respond(&message, answer, writes, ctx);
    }

    fn describe_topics(&self, channel: &ChannelId) -> String {
        let Some(conversation) = self.conversations.get(channel) else {
            return String::new();
        };
        let now = self.to.clock.now();
        let rows = conversation
            .topics
            .rows(now, self.settings.topics.idle_after, |topic| {
                let work = conversation.work.get(topic).copied().unwrap_or_default();
                (work.queued, work.running > 0)
            });
        let lines: Vec<String> = rows
            .iter()
            .filter(|row| row.state != TopicState::Done)
            .map(|row| {
                let state = match (row.running, row.state) {
                    (true, _) => "running",
                    (false, TopicState::Active) => "active",
                    (false, _) => "idle",
                };
                format!("{} ({}): {state}, {} waiting", row.name, row.id, row.queued)
            })
            .collect();
        if lines.is_empty() {
            return "There are no open topics.".to_owned();
        }
        lines.join("\n")
    }

    /// A topic by id or name, or the one used last.
    fn find_topic(&self, channel: &ChannelId, wanted: Option<&str>) -> Result<TopicId, String> {
        let conversation = self.conversations.get(channel);
        let rows = conversation
            .map(|conversation| {
                let idle_after = self.settings.topics.idle_after;
                conversation
                    .topics
                    .rows(self.to.clock.now(), idle_after, |_| (0, false))
            })
            .unwrap_or_default();
        let found = match wanted {
            Some(wanted) => rows
                .iter()
                .find(|row| row.id.as_str() == wanted || row.name.eq_ignore_ascii_case(wanted)),
            None => rows.iter().find(|row| row.state != TopicState::Done),
        };
        match (found, wanted) {
            (Some(row), _) => Ok(row.id.clone()),
            (None, Some(wanted)) => Err(format!(
                "There is no topic \"{wanted}\".\n{}",
                self.describe_topics(channel)
            )),
            (None, None) => Err("There are no open topics.".to_owned()),
        }
    }

    fn close_topic(&mut self, channel: &ChannelId, wanted: Option<&str>) -> (String, Writes) {
        let id = match self.find_topic(channel, wanted) {
            Ok(id) => id,
            Err(answer) => return (answer, Writes::new()),
        };
        self.to.queue.do_send(Cancel {
            lane: main_lane(id.clone()),
            queued: true,
            channel: None,
        });
        let closed = self
            .conversations
            .get_mut(channel)
            .and_then(|conversation| conversation.topics.close(&id));
        match closed {
            Some(topic) => (
                format!("Closed \"{}\".", topic.name),
                Writes::new().topic(channel, topic),
            ),
            None => ("There are no open topics.".to_owned(), Writes::new()),
        }
    }

    /// Has a topic summarised: work like any other, so that it comes after the running turn.
    fn compact_topic(
        &mut self,
        wanted: Option<String>,
        message: Undecided,
        ctx: &mut Context<Self>,
    ) {
        let channel = message.channel.clone();
        let wanted = wanted.or_else(|| message.topic.clone());
        let topic = self.find_topic(&channel, wanted.as_deref());
        let conversation = self.conversations.get(&channel);
        let known = topic.and_then(|id| {
            let topic = conversation.and_then(|found| found.topics.get(id.as_str()));
            topic
                .map(|topic| TopicRef {
                    id,
                    name: topic.name.clone(),
                })
                .ok_or_else(|| "There are no open topics.".to_owned())
        });
        match known {
            Ok(topic) => self.enqueue(&channel, message, topic, Kind::Compact, Writes::new()),
            Err(answer) => self.respond(&message, answer, Writes::new(), ctx),
        }
    }

    fn stop_topic(&self, channel: &ChannelId, wanted: Option<&str>) -> String {
        let id = match self.find_topic(channel, wanted) {
            Ok(id) => id,
            Err(answer) => return answer,
        };
        let running = self
            .conversations
            .get(channel)
            .is_some_and(|conversation| conversation.has_open_work(&id));
        if !running {
            return "Nothing is running.".to_owned();
        }
        self.to.queue.do_send(Cancel {
            lane: main_lane(id),
            queued: false,
            channel: None,
        });
        "Stopped.".to_owned()
    }
}
