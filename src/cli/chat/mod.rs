//! `hivewright chat`: a conversation at a terminal, or line by line from a script.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, IsTerminal},
    thread,
};

use clap::Args;
use hivewright_actors::{
    approvals::question::AnswerKind,
    excerpt,
    frame::{Body, Notification, NotificationKind},
    ids::{MAIN, TaskId},
    task::Ending,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};
use zeroize::Zeroizing;

use super::{
    Context,
    delegated::found,
    earlier::{self, Earlier, Which},
    editor::{
        Editor, Input,
        known::{OWN, Reply, Waiting},
    },
    errand,
    exchange::Heard,
    failure::{Exit, Failure},
    line::{Incoming, Words},
    link::{Event, Link},
    paper::Paper,
    screen::Screen,
    send::{forgotten, message_id},
    service::{MOST_ROWS, Service},
    transcript::{Print, Sent, complaint},
};
use crate::api::{
    endpoint::{ById, ByName, Empty},
    messages::MessageReply,
    questions::{ANSWER_QUESTION, QuestionAnswer, SHOW_QUESTION},
    tasks::{CANCEL_TASK, TaskCancel},
    teams::{LIST_TEAMS, SHOW_TEAM, TeamFilter},
};
use errands::Errands;

mod errands;

/// So many characters tell what something is about that waits.
const ABOUT: usize = 60;
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
    let hears =
        |kind| signal(kind).map_err(|error| Failure::system("signals cannot be heard", error));
    let (interrupts, ends) = (hears(SignalKind::interrupt())?, hears(SignalKind::terminate())?);
    let team = arguments.team.filter(|team| team != MAIN);
    if let Some(team) = &team {
        refuse_unknown(team, context).await?;
    }
    let earlier = if arguments.resume {
        Some(choose(context).await?)
    } else {
        arguments.which.find(context).await?
    };
    let link = Link::open(context, earlier.as_ref()).await?;
    let typed = io::stdin().is_terminal();
    let screen = context.screen;
    let editor = if typed && screen.live && !screen.json {
        Editor::open(context.home.run().join(HISTORY), screen.colour)?
    } else {
        None
    };
    let mut chat = Chat {
        link,
        context,
        paper: Paper::new(screen, editor.as_ref().map(Editor::printer)),
        source: editor.map_or_else(|| Source::Lines(read_lines()), Source::Editor),
        interrupts,
        ends,
        screen,
        typed,
        topic: earlier.as_ref().map(|earlier| earlier.topic.to_string()),
        topic_shown: None,
        team,
        open: Vec::new(),
        told: None,
        errands: Errands::default(),
        held: None,
        ended: false,
        waiting: BTreeSet::new(),
        asked: None,
        presses: 0,
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
        return Err(Failure::not_found("there is no conversation to go on with"));
    }
    context.screen.write(&earlier::numbered(&those));
    let line = super::prompt::line_of("Go on with which number? ")?;
    let line = line.trim();
    let number = line.parse::<usize>().ok().filter(|number| *number > 0);
    let chosen = number.and_then(|number| those.into_iter().nth(number - 1));
    chosen.ok_or_else(|| match line {
        "" => Failure::new(Exit::Interrupted, "none was chosen"),
        line => Failure::usage(format!("`{line}` is none of the numbers")),
    })
}

/// A team that there is not is told at once. Who may not look hears of it with the first message.
async fn refuse_unknown(team: &str, context: &Context) -> Result<(), Failure> {
    let path = ByName { name: team.to_owned() };
    match Service::find(context)?.at(&SHOW_TEAM, &path).await {
        Err(failure) if failure.exit == Exit::NotFound => Err(failure),
        _ => Ok(()),
    }
}

/// The lines of standard input. Reading blocks, so it has a thread of its own, which ends with the
/// process.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Where lines come from.
enum Source {
    Editor(Editor),
    Lines(mpsc::Receiver<String>),
}

impl Source {
    /// What comes next. Cancel-safe.
    async fn next(&mut self) -> Input {
        match self {
            Self::Editor(editor) => editor.next().await,
            Self::Lines(lines) => match lines.recv().await {
                Some(text) => Input::Line { text, aim: None },
                None => Input::End,
            },
        }
    }
}

struct Chat<'a> {
    context: &'a Context,
    link: Link,
    source: Source,
    paper: Paper,
    interrupts: Signal,
    ends: Signal,
    screen: Screen,
    /// A person types the lines.
    typed: bool,
    /// Where the next message is said. At a terminal a conversation stays in its topic.
    topic: Option<String>,
    /// The name of the topic that was last shown.
    topic_shown: Option<String>,
    /// To whom messages go, if not to the main team.
    team: Option<String>,
    /// Messages that have not ended, in the order in which they were sent.
    open: Vec<Sent>,
    /// The task whose answer was printed last.
    told: Option<TaskId>,
    /// The same to other teams.
    errands: Errands,
    /// A line that waits until they have.
    held: Option<String>,
    /// All lines were read.
    ended: bool,
    /// Approvals and questions that wait for a person.
    waiting: BTreeSet<String>,
    /// The question whose secret the person types.
    asked: Option<String>,
    /// How often Ctrl-C was pressed, with nothing else in between.
    presses: usize,
    failed: bool,
}

impl Chat<'_> {
    async fn greet(&mut self, earlier: Option<&Earlier>) {
        if !self.typed {
            return;
        }
        self.remark("Ctrl-C stops a turn, Ctrl-D leaves; /help lists commands");
        if let Some(earlier) = earlier {
            self.topic_shown = Some(earlier.name.clone());
            self.remark(&format!("· topic: {}", earlier.name));
            match earlier::last_words(earlier, LAST, self.context).await {
                Ok(said) => {
                    for (words, answer) in said {
                        self.remark(&format!("> {words}"));
                        self.print(Print::Text(answer));
                        self.print(Print::EndLine);
                    }
                }
                Err(failure) => {
                    self.remark(&format!("· what was said before cannot be shown: {failure}"))
                }
            }
        }
        if let Source::Editor(editor) = &self.source
            && let Ok(service) = Service::find(self.context)
            && let Ok(teams) = service.rows(&LIST_TEAMS, &TeamFilter::default(), MOST_ROWS).await
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
                event = self.link.next() => self.happened(event?).await?,
                Some((team, answer)) = self.errands.next() => {
                    if let Some(answer) = answer {
                        self.answered(&team, answer);
                    }
                    self.go_on()?;
                }
                _ = self.interrupts.recv() => self.interrupted().await?,
                _ = self.ends.recv() => return Err(left()),
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.errands.is_empty()
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

    async fn take(&mut self, input: Input) -> Result<(), Failure> {
        match input {
            Input::Line { text, aim } => {
                self.presses = 0;
                self.paper.entered();
                self.enter(text, aim.as_deref()).await?;
            }
            Input::Interrupt { cleared: true } => self.presses = 0,
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
            if let Source::Lines(_) = self.source {
                self.ask();
            }
            return Ok(());
        }
        if self.typed && (self.obeys(&line).await || self.decides(&line, aim)?) {
            return Ok(());
        }
        let decides = !self.waiting.is_empty() && line.starts_with('/');
        if self.typed || self.is_idle() || decides {
            return self.say(line);
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
                for (form, what) in OWN {
                    self.remark(&format!("{form} {what}"));
                }
                // The service lists the others.
                return false;
            }
            (Some("/team"), team) => {
                let team = team.filter(|team| *team != MAIN);
                if let Some(team) = team
                    && let Err(failure) = refuse_unknown(team, self.context).await
                {
                    self.print(Print::Error(failure.to_string()));
                    return true;
                }
                self.team = team.map(str::to_owned);
                let team = self.team.as_deref().unwrap_or(MAIN);
                self.remark(&format!("· you talk to `{team}` now"));
            }
            _ => return false,
        }
        true
    }

    /// A word that decides what waits. It decides what its hint said, and nothing that came since.
    fn decides(&mut self, line: &str, aim: Option<&str>) -> Result<bool, Failure> {
        let Source::Editor(editor) = &mut self.source else { return Ok(false) };
        if editor.known().tells_secret(line) {
            self.remark(
                "· nothing was answered: /answer alone asks for a secret, and shows nothing of it",
            );
            return Ok(true);
        }
        let found = editor.known().reply(line).map(|(waiting, reply)| (waiting.clone(), reply));
        let (waiting, reply) = match (found, aim) {
            (Some((waiting, reply)), Some(aim)) if waiting.id == aim => (waiting, reply),
            (None, None) => return Ok(false),
            _ => {
                self.remark(
                    "· something else waits by now, so nothing was decided: /approvals lists it",
                );
                return Ok(true);
            }
        };
        let id = &waiting.id;
        let command = match reply {
            Reply::Approve => format!("/approve {id}"),
            Reply::Deny(why) => format!("/deny {id} {why}"),
            Reply::Answer(_) if waiting.is_secret => {
                editor.ask_secret(format!("{}: ", waiting.about));
                self.asked = Some(waiting.id);
                return Ok(true);
            }
            Reply::Answer(words) => {
                let place = words.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                let option = place.and_then(|place| waiting.options.get(place));
                format!("/answer {id} {}", option.unwrap_or(&words))
            }
        };
        self.say(command)?;
        Ok(true)
    }

    async fn answer_secret(&mut self, secret: Option<Zeroizing<String>>) {
        let Some(id) = self.asked.take() else { return };
        let Some(secret) = secret else { return self.remark("· nothing was answered") };
        let answer = QuestionAnswer { selected: Vec::new(), text: secret.to_string() };
        let told = async {
            let service = Service::find(self.context)?;
            service.call(&ANSWER_QUESTION, &ById { id }, &Empty {}, &answer).await
        };
        match told.await {
            Ok(_) => self.remark("· it is in the vault"),
            Err(failure) => self.print(Print::Error(failure.to_string())),
        }
    }

    fn say(&mut self, content: String) -> Result<(), Failure> {
        let word = content.split_whitespace().next().unwrap_or_default();
        let is_command = word.starts_with('/') && word != "/steer";
        if let (Some(team), false) = (self.team.clone(), is_command) {
            self.errands.give(team, content, self.context);
            return Ok(());
        }
        let begins_anew = ["/new", "/reset"].contains(&word);
        let topic = self.topic.clone().filter(|_| !begins_anew);
        if self.typed && (begins_anew || word == "/close") {
            self.topic = None;
        }
        let words = Words { id: message_id()?, content, topic, files: Vec::new() };
        self.open.push(Sent::new(&words, self.screen));
        self.link.say(words);
        Ok(())
    }

    fn answered(&mut self, team: &str, answer: Result<MessageReply, Failure>) {
        match answer {
            Ok(MessageReply { text, status: Ending::Done, .. }) => {
                self.remark(&format!("· {team}:"));
                self.print(Print::Text(text));
                self.print(Print::EndLine);
            }
            Ok(MessageReply { status: Ending::Cancelled, .. }) => self.remark("· stopped"),
            Ok(MessageReply { text, status, code }) => {
                self.print(Print::Error(errand::unanswered(&text, status, code).to_string()));
            }
            Err(failure) => self.print(Print::Error(failure.to_string())),
        }
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
            }
            Event::Lost => self.remark("· connection lost; trying again"),
            Event::Back => self.remark("· connected again"),
        }
        self.go_on()
    }

    /// What is held is said once nothing else runs.
    fn go_on(&mut self) -> Result<(), Failure> {
        if !self.is_idle() {
            return Ok(());
        }
        self.paper.end_line();
        match self.held.take() {
            Some(line) => self.say(line),
            None => {
                if let Source::Lines(_) = self.source {
                    self.ask();
                }
                Ok(())
            }
        }
    }

    /// The first Ctrl-C stops what runs, the second leaves.
    async fn interrupted(&mut self) -> Result<(), Failure> {
        self.paper.end_line();
        self.presses += 1;
        if self.presses > 1 || (self.is_idle() && !self.typed) {
            return Err(if self.is_idle() { Failure::new(Exit::Interrupted, "") } else { left() });
        }
        if self.is_idle() {
            self.remark("Ctrl-C again leaves");
            if let Source::Lines(_) = self.source {
                self.ask();
            }
            return Ok(());
        }
        self.remark("· stopping; Ctrl-C again leaves, and what was accepted goes on");
        let topics = self.open.iter().flat_map(|open| open.exchange.open_topics());
        for topic in topics.cloned().collect::<BTreeSet<_>>() {
            self.link.cancel(topic);
        }
        for id in self.errands.tasks() {
            let cancel = TaskCancel { reason: None, cascade: false };
            let service = Service::find(self.context)?;
            service.call(&CANCEL_TASK, &ById { id }, &Empty {}, &cancel).await?;
        }
        Ok(())
    }

    /// Shows what a frame says, to the message that it is about.
    async fn show(&mut self, frame: &Incoming) {
        let is_told = self.is_told(&frame.body);
        let mut prints = Vec::new();
        let mut about = None;
        for (place, open) in self.open.iter_mut().enumerate() {
            if let Some((heard, printed)) = open.hear(frame) {
                if let (Heard::Accepted(_), Some(name)) = (&heard, frame.topic_name.as_deref())
                    && self.topic_shown.as_deref() != Some(name)
                {
                    prints.push(Print::Remark(format!("· topic: {name}")));
                    self.topic_shown = Some(name.to_owned());
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
            if self.presses > 0 {
                // Only now it is known what there is to stop.
                self.link.cancel(topic.clone());
            }
        }
        if self.open[place].exchange.is_over() {
            self.open.remove(place);
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

    /// Shows what is about no open message.
    async fn beside(&mut self, frame: &Incoming) {
        match &frame.body {
            Body::Notification(notification) => match &notification.ref_id {
                Some(id) if matches!(notification.status.as_str(), "pending" | "open") => {
                    self.waiting.insert(id.clone());
                    self.paper.urge(&notification.content);
                    self.offer(id, notification).await;
                }
                id => {
                    if let Some(id) = id {
                        self.waiting.remove(id);
                        if let Source::Editor(editor) = &self.source {
                            editor.known().waiting.retain(|waiting| waiting.id != *id);
                        }
                    }
                    self.tell(notification);
                }
            },
            // What is wrong with messages of other connections is told there.
            Body::Error(error) if error.message_id.is_none() => self.remark(&complaint(error)),
            _ => {}
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

    /// Says how something that waits is decided here.
    async fn offer(&mut self, id: &str, notification: &Notification) {
        let Source::Editor(editor) = &self.source else { return };
        let is_question = notification.kind == NotificationKind::Question;
        let row = if is_question {
            found(self.context, &SHOW_QUESTION, &ById { id: id.to_owned() }).await
        } else {
            None
        };
        let words = row.as_ref().map_or(notification.content.as_str(), |row| &row.question);
        let about = excerpt::line(words.lines().next().unwrap_or_default(), ABOUT);
        let is_secret = row.as_ref().is_some_and(|row| row.kind == AnswerKind::Secret);
        let options = row.map(|row| row.options).unwrap_or_default();
        let numbers =
            options.iter().enumerate().map(|(place, option)| format!("{} {option}", place + 1));
        let numbers = numbers.collect::<Vec<_>>().join(", ");
        let how = match (is_question, is_secret) {
            (false, _) => "· y approves it once, n or n <why> denies it".to_owned(),
            (true, true) => "· /answer asks for it, and shows nothing of it".to_owned(),
            (true, false) if numbers.is_empty() => "· /answer <words> answers it".to_owned(),
            (true, false) => format!("· /answer <words or number> answers it: {numbers}"),
        };
        let waiting = Waiting { id: id.to_owned(), about, is_question, options, is_secret };
        editor.known().waiting.push(waiting);
        self.paper.urge(&how);
    }

    fn remark(&mut self, line: &str) {
        self.print(Print::Remark(line.to_owned()));
    }

    fn print(&mut self, print: Print) {
        self.failed |= matches!(print, Print::Error(_));
        self.paper.print(print);
    }
}

fn left() -> Failure {
    Failure::new(Exit::Interrupted, "left; what was accepted goes on")
}
