//! Text commands: read by code, never by a model.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{
    Router,
    conversation::Destination,
    decision_commands::{self, DecisionCommand, GONE},
    main_lane,
    managing::{ChangeTopic, TopicPatch},
};
use crate::{
    frame::TopicState,
    ids::{ChannelId, TeamName},
    queue::{Cancel, Cancelled},
    router::records::Undecided,
    store::records::Writes,
    task::{Kind, Lane, TopicRef},
    text::Words as _,
    thinking::Thinking,
};

/// A command: a message that begins with a slash and a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Topics,
    /// Of a topic by id or name; without one, of that of the message, or else the one used last.
    Close(Option<String>),
    Stop(Option<String>),
    Compact(Option<String>),
    Rename(String),
    /// Puts one before the others, or no longer.
    Pin(Option<String>),
    Reopen(String),
    /// The next message opens a topic.
    New,
    /// Without the words that it is about.
    Steer,
    /// How much the model thinks: shown, or changed to what the word means.
    Think(Option<String>),
    /// A word that is none.
    Unknown(String),
    /// About what waits for a person.
    Decision(DecisionCommand),
}

impl Command {
    fn is_about_topics(&self) -> bool {
        match self {
            Self::Topics
            | Self::Close(_)
            | Self::Stop(_)
            | Self::Compact(_)
            | Self::Rename(_)
            | Self::Pin(_)
            | Self::Reopen(_)
            | Self::New
            | Self::Think(_) => true,
            Self::Help | Self::Steer | Self::Unknown(_) | Self::Decision(_) => false,
        }
    }
}

/// Reads a message as a command.
pub(super) fn parse(content: &str) -> Option<Command> {
    let (word, rest) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
    let rest = rest.trim();
    if let Some(decision) = decision_commands::parse(&word.to_ascii_lowercase(), rest) {
        return Some(Command::Decision(decision));
    }
    let topic = (!rest.is_empty()).then(|| rest.to_owned());
    match (word.to_ascii_lowercase().as_str(), &topic) {
        ("/help", _) => Some(Command::Help),
        ("/topics", _) => Some(Command::Topics),
        ("/close", _) => Some(Command::Close(topic)),
        ("/compact", _) => Some(Command::Compact(topic)),
        // With words it begins a topic with them, and is no command, except where there are no topics.
        ("/new" | "/reset", _) => Some(Command::New),
        ("/pin", _) => Some(Command::Pin(topic)),
        ("/reopen", _) => Some(Command::Reopen(rest.to_owned())),
        ("/steer", None) => Some(Command::Steer),
        ("/rename", _) => Some(Command::Rename(rest.to_owned())),
        ("/stop" | "/abort", _) => Some(Command::Stop(topic)),
        ("/think" | "/t", _) => Some(Command::Think(topic)),
        _ if is_command(word) => Some(Command::Unknown(word.to_owned())),
        _ => None,
    }
}

/// A slash and a word: a path has more slashes.
fn is_command(word: &str) -> bool {
    let name = word.strip_prefix('/').unwrap_or_default();
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(of_name)
}

/// The words that a new topic is to begin with, whatever they are about.
pub(super) fn begins_anew(content: &str) -> Option<&str> {
    let (word, words) = content.split_once(char::is_whitespace)?;
    let words = words.trim();
    let is_new = ["/new", "/reset"].contains(&word.to_ascii_lowercase().as_str());
    (is_new && !words.is_empty()).then_some(words)
}

/// The words that are for the turn that runs.
pub(super) fn steers(content: &str) -> Option<&str> {
    let (word, words) = content.split_once(char::is_whitespace)?;
    let words = words.trim();
    (word.eq_ignore_ascii_case("/steer") && !words.is_empty()).then_some(words)
}

const NO_TOPICS: &str = "There are no open topics.";
/// The commands, each with what may follow it, and what it does.
pub const COMMANDS: [(&str, &str); 15] = [
    ("/new [message]", "begins a new topic with a message; without one, with the next."),
    ("/topics", "lists the topics of this channel."),
    ("/rename <name>", "gives the topic another name."),
    ("/pin [topic]", "puts a topic before the others; once more, back among them."),
    ("/close [topic]", "archives a topic and ends what runs in it."),
    ("/reopen <topic>", "opens an archived topic again."),
    ("/steer <message>", "adds a message to the running turn, where others wait for the next one."),
    ("/stop [topic]", "stops the running turn of a topic."),
    ("/think [level]", "says how much the model thinks in a topic; without a level, shows it."),
    ("/compact [topic]", "summarises what was said in a topic, after its running turn."),
    ("/approvals", "lists what waits for a decision or an answer."),
    ("/approve <id>", "lets a call run, once."),
    ("/deny <id> <why>", "keeps a call from running; the team reads why."),
    ("/answer <id> <text>", "answers a question."),
    ("/help", "lists the commands."),
];

fn help() -> String {
    let lines: Vec<String> = COMMANDS.iter().map(|(form, does)| format!("{form} {does}")).collect();
    format!(
        "Commands:\n{}\nA topic is named by its id or its name; without one, the topic of the message is meant, or else the one used last.",
        lines.join("\n")
    )
}

/// What a command answers and changes. `Err` answers and changes nothing.
type Obeyed = Result<(String, Writes), String>;

impl Router {
    pub(super) fn obey(&mut self, command: Command, message: Undecided, ctx: &mut Context<Self>) {
        let channel = &message.channel;
        if let Some(team) = message.team.clone()
            && command.is_about_topics()
        {
            return self.obey_in_team(&command, team, message, ctx);
        }
        let obeyed = match command {
            Command::Decision(decision) => return self.decide_by(decision, message, ctx),
            Command::Compact(topic) => return self.compact_topic(topic, message, ctx),
            Command::Stop(topic) => return self.stop_topic(topic, message, ctx),
            Command::Help => Err(help()),
            Command::New => self.expect_new_topic(&message),
            Command::Steer => Err("Say what the turn is to know: `/steer <message>`.".to_owned()),
            Command::Rename(name) => self.rename_topic(&message, &name),
            Command::Pin(topic) => self.pin_topic(&message, topic.as_deref()),
            Command::Reopen(topic) => self.reopen_topic(channel, &topic),
            Command::Think(level) => self.think(&message, level.as_deref()),
            Command::Unknown(word) => Err(format!(
                "There is no command `{word}`, so nobody was told. To say it to the team, begin with another word.\n\n{}",
                help()
            )),
            Command::Topics => Err(self.describe_topics(channel)),
            Command::Close(topic) => self.close_topic(&message, topic.as_deref()),
        };
        let (answer, writes) = obeyed.unwrap_or_else(|answer| (answer, Writes::new()));
        self.respond(&message, answer, writes, ctx);
    }

    /// A command about topics to a team that has none: only the turn of its one lane can be stopped, if it is the person's.
    fn obey_in_team(
        &mut self,
        command: &Command,
        team: TeamName,
        message: Undecided,
        ctx: &mut Context<Self>,
    ) {
        if matches!(command, Command::Stop(None)) {
            let (lane, behind) = (Lane { team, topic: None }, message.cause.clone());
            let cancel = Cancel { lane, queued: false, channel: None, behind };
            return self.stop(cancel, message, ctx);
        }
        let answer = format!(
            "Team `{team}` has no topics: only the main team has. Of the commands about topics, only `/stop` works here."
        );
        self.respond(&message, answer, Writes::new(), ctx);
    }

    /// The next message of a channel opens a topic, also after a restart. What is said in another topic than this was
    /// said in belongs there.
    fn expect_new_topic(&mut self, message: &Undecided) -> Obeyed {
        let channel = &message.channel;
        let conversation = self.conversations.get_mut(channel).ok_or_else(String::new)?;
        conversation.row.begins_anew = true;
        conversation.row.begins_anew_in = message.topic.clone();
        let answer = "Your next message begins a new topic.".to_owned();
        Ok((answer, Writes::new().put_at(channel, &conversation.row)))
    }

    /// Gives the topic of a message another name, or the one used last.
    fn rename_topic(&mut self, message: &Undecided, name: &str) -> Obeyed {
        if name.is_empty() {
            return Err("Say the name: `/rename <name>`.".to_owned());
        }
        let topic = self.find_topic(&message.channel, message.topic.as_deref())?.id;
        let change = TopicPatch { name: Some(name.to_owned()), ..TopicPatch::default() };
        match self.change_topic(&ChangeTopic { channel: message.channel.clone(), topic, change }) {
            Ok((topic, writes)) => {
                Ok((format!("The topic is called \"{}\" now.", topic.name), writes))
            }
            Err(error) => Err(format!("The topic keeps its name: {error}.")),
        }
    }

    /// Pins a topic, or lets it go if it is pinned.
    fn pin_topic(&mut self, message: &Undecided, wanted: Option<&str>) -> Obeyed {
        let channel = &message.channel;
        let topic = self.find_topic(channel, wanted.or(message.topic.as_deref()))?;
        let conversation = self.conversations.get_mut(channel).ok_or(NO_TOPICS)?;
        let topic = conversation.topics.get_mut(&topic.id).ok_or(NO_TOPICS)?;
        if topic.closed {
            return Err(format!("\"{}\" is archived; open it with `/reopen` first.", topic.name));
        }
        topic.pinned = !topic.pinned;
        let word = if topic.pinned { "pinned" } else { "no longer pinned" };
        let writes = Writes::new().put_at(&topic.key(channel), topic);
        Ok((format!("\"{}\" is {word}.", topic.name), writes))
    }

    fn reopen_topic(&mut self, channel: &ChannelId, wanted: &str) -> Obeyed {
        if wanted.is_empty() {
            return Err("Say which: `/reopen <topic>`.".to_owned());
        }
        let TopicRef { id, name } = self.find_topic(channel, Some(wanted))?;
        let change = TopicPatch { closed: Some(false), ..TopicPatch::default() };
        let change = ChangeTopic { channel: channel.clone(), topic: id, change };
        match self.change_topic(&change) {
            Ok((_, writes)) => Ok((format!("\"{name}\" is open."), writes)),
            Err(error) => Err(format!("\"{name}\" stays archived: {error}.")),
        }
    }

    /// Has the model think more or less in the topic of a message, or the one used last.
    fn think(&mut self, message: &Undecided, level: Option<&str>) -> Obeyed {
        let topic = self.find_topic(&message.channel, message.topic.as_deref())?;
        let conversation = self.conversations.get_mut(&message.channel).ok_or(NO_TOPICS)?;
        let TopicRef { id, name } = topic;
        let Some(level) = level else {
            let present = conversation.topics.get(id.as_str()).and_then(|topic| topic.thinking);
            return Err(match present {
                Some(level) => format!("The level of thinking in \"{name}\" is {level}."),
                None => {
                    format!("In \"{name}\" the model thinks as much as its team's settings say.")
                }
            });
        };
        let Some(level) = Thinking::meant_by(level) else {
            let levels = Thinking::WORDS.join(", ");
            return Err(format!("There is no such level of thinking. The levels are: {levels}."));
        };
        let topic = conversation.topics.get_mut(&id).ok_or(NO_TOPICS)?;
        topic.thinking = Some(level);
        let writes = Writes::new().put_at(&topic.key(&message.channel), topic);
        Ok((format!("The level of thinking in \"{name}\" is {level} now."), writes))
    }

    fn describe_topics(&self, channel: &ChannelId) -> String {
        let Some(conversation) = self.conversations.get(channel) else { return String::new() };
        let rows = conversation.topic_rows(self.to.clock.now(), self.settings.topics.idle_after);
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
        if lines.is_empty() { NO_TOPICS.to_owned() } else { lines.join("\n") }
    }

    /// A topic by id or name, or the one used last.
    pub(super) fn find_topic(
        &self,
        channel: &ChannelId,
        wanted: Option<&str>,
    ) -> Result<TopicRef, String> {
        let (now, idle_after) = (self.to.clock.now(), self.settings.topics.idle_after);
        let conversation = self.conversations.get(channel);
        let topics = conversation.map(|found| found.topics.newest_first()).unwrap_or_default();
        let found = topics.into_iter().find(|topic| match wanted {
            Some(wanted) => topic.id.as_str() == wanted || topic.name.eq_ignore_ascii_case(wanted),
            None => topic.state(now, false, idle_after) != TopicState::Done,
        });
        let found = found.map(|topic| TopicRef { id: topic.id.clone(), name: topic.name.clone() });
        found.ok_or_else(|| match wanted {
            Some(wanted) => {
                format!("There is no topic \"{wanted}\".\n{}", self.describe_topics(channel))
            }
            None => NO_TOPICS.to_owned(),
        })
    }

    fn close_topic(&mut self, message: &Undecided, wanted: Option<&str>) -> Obeyed {
        let channel = &message.channel;
        let id = self.find_topic(channel, wanted.or(message.topic.as_deref()))?.id;
        self.to.queue.do_send(Cancel::all_in(main_lane(id.clone())));
        let conversation = self.conversations.get_mut(channel);
        let closed = conversation.and_then(|conversation| conversation.topics.close(&id));
        let topic = closed.ok_or(NO_TOPICS)?;
        let writes = Writes::new().put_at(&topic.key(channel), topic);
        Ok((format!("Archived \"{}\".", topic.name), writes))
    }

    /// Has a topic summarised: work like any other, so that it comes after the running turn.
    fn compact_topic(
        &mut self,
        wanted: Option<String>,
        message: Undecided,
        ctx: &mut Context<Self>,
    ) {
        let wanted = wanted.or_else(|| message.topic.clone());
        match self.find_topic(&message.channel, wanted.as_deref()) {
            Ok(topic) => {
                let to = Destination::Topic(topic);
                self.enqueue(message, to, Kind::Compact, Writes::new());
            }
            Err(answer) => self.respond(&message, answer, Writes::new(), ctx),
        }
    }

    fn stop_topic(&mut self, wanted: Option<String>, message: Undecided, ctx: &mut Context<Self>) {
        let wanted = wanted.or_else(|| message.topic.clone());
        let lane = match self.find_topic(&message.channel, wanted.as_deref()) {
            Ok(topic) => main_lane(topic.id),
            Err(answer) => return self.respond(&message, answer, Writes::new(), ctx),
        };
        self.stop(Cancel { lane, queued: false, channel: None, behind: None }, message, ctx);
    }

    /// Stops a turn, and says what the queue did.
    fn stop(&mut self, cancel: Cancel, message: Undecided, ctx: &mut Context<Self>) {
        let cancelled = self.to.queue.send(cancel);
        ctx.spawn(cancelled.into_actor(self).map(move |cancelled, router, ctx| {
            let answer = cancelled.map_or_else(|_| GONE.to_owned(), told_of_stop);
            router.respond(&message, answer, Writes::new(), ctx);
        }));
    }
}

fn told_of_stop(Cancelled { stopped, waiting }: Cancelled) -> String {
    let stopped = if stopped { "Stopped." } else { "Nothing is running." };
    match waiting {
        0 => stopped.to_owned(),
        1 => format!("{stopped} 1 message waits."),
        _ => format!("{stopped} {waiting} messages wait."),
    }
}
