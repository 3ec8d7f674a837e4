//! `hivewright chat`: a conversation at a terminal, or line by line from a script.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal},
};

use clap::Args;
use hivewright_actors::{
    frame::{Body, Notification, NotificationKind},
    ids::{MAIN, TaskId, TopicId},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use super::send::forgotten;
use crate::{
    api::{
        endpoint::ById,
        messages::MessageRow,
        tasks::{CANCEL_TASK, TaskCancel},
        teams::{LIST_TEAMS, TeamFilter},
    },
    cli::{
        channel_state::{Incoming, Words, message_id},
        chat_output::ChatOutput,
        client::Service,
        connection::{Connection, Event},
        context::Context,
        earlier::{self, Earlier, Which},
        editor::{Editor, Input, known::OWN},
        failure::{Exit, Failure},
        message_tracker::Heard,
        prompt::{line_of, stdin_lines},
        screen::{Screen, complain},
        team_message::TeamMessage,
        transcript::{Print, Sent},
    },
};

mod deciding;

/// So many of the last messages are shown of a conversation that goes on.
const LAST: usize = 2;
/// So many conversations are offered to go on with.
const OFFERED: usize = 20;
/// The lines that were entered, in the run dir.
const HISTORY: &str = "chat-history";

/// Talk with a team
///
/// Enter sends, also while a turn runs: the message waits for its own, and `/steer` adds it to this one. A line
/// that ends with `\` goes on with the next one, and what is pasted stays together. Lines that begin with `/`
/// are commands: `/help` lists them, Tab completes them. What waits for you is decided with `y` or `n`. Ctrl-C
/// stops the turn that runs, and leaves if pressed again; Ctrl-D leaves, and what was accepted goes on. What
/// you enter is kept in `chat-history` of the run dir, unless it begins with a space.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright chat\n  \
    hivewright chat --continue\n  \
    hivewright chat --team research\n  \
    printf 'first\\nsecond\\n' | hivewright chat --quiet")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) which: Which,
    /// Choose a conversation to go on with
    #[arg(long, conflicts_with_all = ["newest", "topic"])]
    pub(super) resume: bool,
    /// The team to talk to [default: main]
    #[arg(long, conflicts_with_all = ["newest", "topic", "resume"])]
    pub(super) team: Option<String>,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let team = arguments.team.filter(|team| team != MAIN);
    if let Some(team) = &team {
        Service::find(context)?.refuse_unknown(team).await?;
    }
    let earlier = if arguments.resume {
        Some(choose(context).await?)
    } else {
        arguments.which.find(context).await?
    };
    // Not before somebody has chosen: who is asked for a number leaves with Ctrl-C as from any question.
    let hears =
        |kind| signal(kind).map_err(|error| Failure::system("signals cannot be heard", error));
    let (interrupts, ends) = (hears(SignalKind::interrupt())?, hears(SignalKind::terminate())?);
    let connection = Connection::open(context, earlier.as_ref()).await?;
    let typed = io::stdin().is_terminal();
    let screen = context.screen;
    let editor = if typed && screen.live && !screen.json {
        Editor::open(context.home.run().join(HISTORY), screen.colour)?
    } else {
        None
    };
    let mut chat = Chat {
        connection,
        context,
        paper: ChatOutput::new(screen, editor.as_ref().map(Editor::printer)),
        source: editor.map_or_else(|| Source::Lines(stdin_lines()), Source::Editor),
        interrupts,
        ends,
        screen,
        typed,
        topic: earlier.as_ref().map(|earlier| earlier.topic.to_string()),
        place_shown: None,
        team,
        open: Vec::new(),
        is_away: false,
        unsaid: Vec::new(),
        told: None,
        held: None,
        ended: false,
        waiting: BTreeSet::new(),
        asked: None,
        stopped: None,
        failed: false,
    };
    chat.greet(earlier.as_ref()).await;
    chat.talk().await?;
    // Who types has seen the errors; a script wants to know of them.
    if chat.failed && !chat.typed {
        Err(Failure::failed("at least one message was not answered"))
    } else {
        Ok(())
    }
}

/// Has the person choose a conversation.
async fn choose(context: &Context) -> Result<Earlier, Failure> {
    if !io::stdin().is_terminal() {
        let message = "nobody is there to choose; name the conversation with `--topic`, or take the newest with `--continue`";
        return Err(Failure::usage(message));
    }
    let mut those = earlier::newest(context).await?;
    those.truncate(OFFERED);
    if those.is_empty() {
        return Err(Failure::not_found(
            "there is no conversation to go on with; leave `--resume` out to begin one",
        ));
    }
    context.screen.write(&earlier::numbered(&those, context).await?);
    let line = line_of("Go on with which number? ")?;
    let line = line.trim();
    let number = line.parse::<usize>().ok().filter(|number| *number > 0);
    let chosen = number.and_then(|number| those.into_iter().nth(number - 1));
    chosen.ok_or_else(|| match line {
        "" => Failure::new(Exit::Interrupted, "none was chosen"),
        line => Failure::usage(format!("`{line}` is none of the numbers")),
    })
}

/// Where lines come from.
enum Source {
    Editor(Editor),
    Lines(mpsc::Receiver<io::Result<Vec<u8>>>),
}

impl Source {
    /// What comes next. Cancel-safe.
    async fn next(&mut self) -> Input {
        match self {
            Self::Editor(editor) => editor.next().await,
            Self::Lines(lines) => match lines.recv().await {
                Some(Ok(line)) => {
                    // What is no text stays recognisable, and keeps nothing behind it from being said.
                    let text = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
                    Input::Line { text, aim: None }
                }
                Some(Err(error)) => {
                    complain(&format!("standard input cannot be read: {error}"));
                    Input::End
                }
                None => Input::End,
            },
        }
    }
}

struct Chat<'a> {
    context: &'a Context,
    connection: Connection,
    source: Source,
    paper: ChatOutput,
    interrupts: Signal,
    ends: Signal,
    screen: Screen,
    /// A person types the lines.
    typed: bool,
    /// Where the next message is said. At a terminal a conversation stays in its topic.
    topic: Option<String>,
    /// The topic or team of the last answer, as it was shown.
    place_shown: Option<String>,
    /// To whom messages go, if not to the main team.
    team: Option<String>,
    /// Messages that have not ended, in the order in which they were sent.
    open: Vec<Sent>,
    /// The service does not answer.
    is_away: bool,
    /// Words for other teams that are said once it is back.
    unsaid: Vec<TeamMessage>,
    /// The task whose answer was printed last.
    told: Option<TaskId>,
    /// A line that waits until they have.
    held: Option<String>,
    /// All lines were read.
    ended: bool,
    /// Approvals and questions that wait for a person.
    waiting: BTreeSet<String>,
    /// The question whose secret the person types.
    asked: Option<String>,
    /// The topics in which Ctrl-C stopped what ran, if it was pressed and nothing else since.
    stopped: Option<BTreeSet<TopicId>>,
    failed: bool,
}

impl Chat<'_> {
    async fn greet(&mut self, earlier: Option<&Earlier>) {
        if !self.typed {
            return;
        }
        self.remark("Ctrl-C stops a turn, Ctrl-D leaves; /help lists commands");
        if let Some(earlier) = earlier {
            let place = in_topic(&earlier.name);
            self.remark(&place);
            self.place_shown = Some(place);
            match earlier::last_messages(earlier, LAST, self.context).await {
                Ok(said) => {
                    for message in said {
                        self.remark(&format!("> {}", message.text));
                        self.print(Print::Text(earlier::answer(&message)));
                        self.print(Print::EndLine);
                        if message.state.is_open() {
                            self.open.push(Sent::earlier(message, &earlier.topic, self.screen));
                        }
                    }
                }
                Err(failure) => {
                    self.remark(&format!("· what was said before cannot be shown: {failure}"))
                }
            }
        }
        self.catch_up().await;
        if let Source::Editor(editor) = &self.source
            && let Ok(service) = Service::find(self.context)
            && let Ok(teams) = service.rows(&LIST_TEAMS, &TeamFilter::default()).await
            && let Ok(rows) = teams.data()
        {
            editor.known().teams = rows.into_iter().map(|row| row.name.to_string()).collect();
        }
    }

    async fn talk(&mut self) -> Result<(), Failure> {
        self.ask();
        loop {
            if self.ended && (self.is_idle() || self.typed) {
                self.paper.end_line();
                if !self.is_idle() {
                    self.remark("left; what was accepted goes on");
                }
                return Ok(());
            }
            let reads = !self.ended && self.held.is_none();
            tokio::select! {
                input = self.source.next(), if reads => self.take(input).await?,
                event = self.connection.next() => self.happened(event?).await?,
                _ = self.interrupts.recv() => self.interrupted().await?,
                _ = self.ends.recv() => return Err(left()),
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.unsaid.is_empty()
    }

    /// Shows the prompt.
    fn ask(&mut self) {
        let prompt = format!("{}> ", self.team.as_deref().unwrap_or_default());
        match &mut self.source {
            Source::Editor(editor) => editor.ask(prompt),
            Source::Lines(_) if self.typed && self.screen.live && !self.screen.json => {
                self.paper.prompt();
            }
            Source::Lines(_) => {}
        }
    }

    /// Shows the prompt where no editor does, since nothing runs.
    fn ask_plainly(&mut self) {
        if let Source::Lines(_) = self.source {
            self.ask();
        }
    }

    async fn take(&mut self, input: Input) -> Result<(), Failure> {
        match input {
            Input::Line { text, aim } => {
                self.stopped = None;
                self.paper.entered();
                self.enter(text, aim.as_deref()).await?;
            }
            Input::Interrupt { cleared: true } => self.stopped = None,
            Input::Interrupt { cleared: false } => self.interrupted().await?,
            Input::Secret(secret) => self.answer_secret(secret).await,
            Input::End => self.ended = true,
            Input::Broken(why) => return Err(Failure::system("the terminal cannot be read", why)),
        }
        // A script is not asked, and at a plain terminal the prompt comes when all was answered.
        if !self.ended
            && self.asked.is_none()
            && let Source::Editor(_) = self.source
        {
            self.ask();
        }
        Ok(())
    }

    /// A line was entered. Lines of a script wait for the answer to the one before, unless that waits
    /// for what they decide.
    async fn enter(&mut self, line: String, aim: Option<&str>) -> Result<(), Failure> {
        if line.trim().is_empty() {
            self.ask_plainly();
            return Ok(());
        }
        if self.typed && (self.obeys(&line).await || self.decides(&line, aim).await?) {
            return Ok(());
        }
        let decides = !self.waiting.is_empty() && line.starts_with('/');
        if self.typed || self.is_idle() || decides {
            return self.say(line).await;
        }
        self.held = Some(line);
        Ok(())
    }

    /// Commands of the chat itself.
    async fn obeys(&mut self, line: &str) -> bool {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("/exit" | "/quit"), None) => self.ended = true,
            (Some("/help"), None) => {
                self.remark("Of this chat:");
                for (form, what) in OWN {
                    self.remark(&format!("{form} {what}"));
                }
                self.remark("y, n and n <why> decide on the call that waits.");
                // The service lists the others.
                return false;
            }
            (Some("/team"), team) => {
                let team = team.filter(|team| *team != MAIN);
                if let Some(team) = team {
                    let known =
                        async { Service::find(self.context)?.refuse_unknown(team).await }.await;
                    if let Err(failure) = known {
                        self.print(Print::Error(failure.to_string()));
                        return true;
                    }
                }
                self.team = team.map(str::to_owned);
                let team = self.team.as_deref().unwrap_or(MAIN);
                self.remark(&format!("· you talk to `{team}` now"));
            }
            _ => return false,
        }
        true
    }

    async fn say(&mut self, content: String) -> Result<(), Failure> {
        let word = content.split_whitespace().next().unwrap_or_default();
        let is_command = word.starts_with('/') && word != "/steer";
        if let (Some(team), false) = (self.team.clone(), is_command) {
            self.say_to(TeamMessage::new(&team, content, Vec::new())?).await;
            return Ok(());
        }
        let begins_anew = ["/new", "/reset"].contains(&word);
        let topic = self.topic.clone();
        if self.typed && (begins_anew || word == "/close") {
            self.topic = None;
        }
        let words = Words { id: message_id()?, content, topic, files: Vec::new() };
        self.open.push(Sent::new(&words, self.screen));
        self.connection.say(words);
        Ok(())
    }

    /// Says something to another team than the main one. What comes of it is heard on the connection. While the service is
    /// away it is kept, as are words for the main team.
    async fn say_to(&mut self, message: TeamMessage) {
        let channel = self.connection.channel.clone();
        let said = async {
            let service = Service::find(self.context)?;
            message.say(channel.as_ref(), &service).await
        };
        match said.await {
            Err(_) if self.is_away => return self.unsaid.push(message),
            Ok(MessageRow { reply: Some(reply), .. }) => {
                self.print(Print::Text(reply.text));
                self.print(Print::EndLine);
            }
            Ok(row) => return self.open.push(Sent::to_team(&message.team, row, self.screen)),
            Err(failure) => self.print(Print::Error(failure.to_string())),
        }
        self.ask_plainly();
    }

    async fn happened(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Frame(frame, raw) => {
                if self.screen.json {
                    self.screen.say(&raw);
                }
                self.show(&frame).await;
            }
            Event::Renewed => {
                let (lost, kept) = std::mem::take(&mut self.open)
                    .into_iter()
                    .partition::<Vec<_>, _>(|open| open.exchange.is_accepted());
                self.open = kept;
                for _ in lost {
                    self.print(Print::Error(forgotten().message));
                }
                self.topic = None;
                self.remark("· connected again, in a new conversation");
                self.is_back().await;
            }
            Event::Lost => {
                self.is_away = true;
                self.remark("· connection lost; trying again");
            }
            Event::Back => {
                self.remark("· connected again");
                self.is_back().await;
            }
        }
        self.go_on().await
    }

    /// Says what was kept while the service was away.
    async fn is_back(&mut self) {
        self.is_away = false;
        for message in std::mem::take(&mut self.unsaid) {
            self.say_to(message).await;
        }
    }

    /// What is held is said once nothing else runs.
    async fn go_on(&mut self) -> Result<(), Failure> {
        if !self.is_idle() {
            return Ok(());
        }
        self.paper.end_line();
        match self.held.take() {
            Some(line) => self.say(line).await,
            None => {
                self.ask_plainly();
                Ok(())
            }
        }
    }

    /// The first Ctrl-C stops what runs, the second leaves.
    async fn interrupted(&mut self) -> Result<(), Failure> {
        self.paper.end_line();
        if self.stopped.is_some() || (self.is_idle() && !self.typed) {
            return Err(if self.is_idle() { Failure::new(Exit::Interrupted, "") } else { left() });
        }
        let topics = self.open.iter().flat_map(|open| open.exchange.open_topics());
        let topics: BTreeSet<TopicId> = topics.cloned().collect();
        self.stopped = Some(topics.clone());
        if self.is_idle() {
            self.remark("Ctrl-C again leaves");
            self.ask_plainly();
            return Ok(());
        }
        self.remark("· stopping; Ctrl-C again leaves, and what was accepted goes on");
        for topic in topics {
            self.connection.cancel(topic);
        }
        let of_teams = self.open.iter().filter(|open| open.team.is_some());
        let tasks = of_teams.filter_map(|open| open.exchange.task());
        let tasks: Vec<String> = tasks.map(ToString::to_string).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        let (service, screen) = (Service::find(self.context)?, self.context.screen);
        // Elsewhere: it takes until their turns have ended, and the next Ctrl-C is heard meanwhile.
        hivewright_actors::spawn::anywhere(async move {
            for id in tasks {
                let cancel = TaskCancel { reason: None, cascade: false };
                let stopped = service.send(&CANCEL_TASK, &ById { id }, &cancel).await;
                // It may have ended by now, which is no reason to leave.
                if let Err(failure) = stopped {
                    screen.remark(&format!("· not stopped: {}", failure.message));
                }
            }
        });
        Ok(())
    }

    /// Shows what a frame says, to the message that it is about.
    async fn show(&mut self, frame: &Incoming) {
        let is_told = self.is_told(&frame.body);
        let mut prints = Vec::new();
        let mut about = None;
        for (place, open) in self.open.iter_mut().enumerate() {
            if let Some((heard, printed)) = open.hear(frame) {
                let team = open.team.as_ref().map(|team| format!("· team: {team}"));
                let whose = team.or(frame.topic_name.as_deref().map(in_topic));
                if let (Heard::Accepted(_), Some(whose)) = (&heard, whose)
                    && self.place_shown.as_ref() != Some(&whose)
                {
                    prints.push(Print::Remark(whose.clone()));
                    self.place_shown = Some(whose);
                }
                if !is_told {
                    prints.extend(printed);
                }
                about = Some(place);
                break;
            }
        }
        for print in prints {
            self.print(print);
        }
        let Some(place) = about else {
            return self.beside(frame).await;
        };
        if let (Body::Ack(_), Some(topic)) = (&frame.body, &frame.topic_id) {
            if self.typed {
                self.topic = Some(topic.to_string());
            }
            if let Some(stopped) = &mut self.stopped
                && stopped.insert(topic.clone())
            {
                // Only now it is known where there is something to stop.
                self.connection.cancel(topic.clone());
            }
        }
        if self.open[place].exchange.is_over() {
            self.open.remove(place);
            self.forget_decided().await;
        }
    }

    /// Whether a frame is the answer that a message got by joining the turn of another, which is printed for that one.
    fn is_told(&mut self, body: &Body) -> bool {
        let Body::Response(response) = body else { return false };
        let mut open = self.open.iter();
        match &response.joined_task_id {
            Some(turn) if self.told.as_ref() == Some(turn) => true,
            Some(turn) if open.any(|open| open.exchange.task() == Some(turn)) => true,
            joined => {
                self.told = joined.clone().or(response.task_id.clone());
                false
            }
        }
    }

    /// Shows what a team has to say: at a terminal as it shows answers, to a script beside them.
    fn tell(&mut self, notification: &Notification) {
        let is_decision =
            matches!(notification.kind, NotificationKind::Approval | NotificationKind::Question);
        match &self.source {
            Source::Editor(_) if !is_decision => {
                self.print(Print::EndLine);
                self.print(Print::Text(notification.content.clone()));
                self.print(Print::EndLine);
            }
            _ => self.remark(&notification.content),
        }
    }

    fn remark(&mut self, line: &str) {
        self.print(Print::Remark(line.to_owned()));
    }

    fn print(&mut self, print: Print) {
        self.failed |= matches!(print, Print::Error(_));
        self.paper.print(print);
    }
}

fn in_topic(name: &str) -> String {
    format!("· topic: {name}")
}

fn left() -> Failure {
    Failure::new(Exit::Interrupted, "left; what was accepted goes on")
}
