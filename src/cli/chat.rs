//! `hivewright chat`: a conversation, line by line.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, IsTerminal},
    thread,
};

use clap::Args;
use hivewright_actors::frame::Body;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use super::{
    Context,
    exchange::{Exchange, Heard},
    failure::{Exit, Failure},
    line::{Incoming, Words},
    link::{Event, Link},
    screen::{Screen, Tone, complain},
    send::{forgotten, message_id},
    transcript::{Print, Transcript, complaint, plain},
};

/// Talk with the main team, line by line
///
/// Each line is a message. Lines that begin with `/` are commands of the service; `/help` lists
/// them, also while a turn waits for a decision. Ctrl-C says what it would do, stops the turn that runs
/// if pressed twice, and leaves if pressed three times; Ctrl-D leaves.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright chat\n  \
    printf 'first\\nsecond\\n' | hivewright chat --quiet")]
pub(super) struct Arguments {
    /// The topic to talk in, by its id; otherwise the service finds one for each message
    #[arg(long, value_name = "ID")]
    pub(super) topic: Option<String>,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let interrupts = signal(SignalKind::interrupt())
        .map_err(|error| Failure::system("Ctrl-C cannot be heard", error))?;
    let mut chat = Chat {
        link: Link::open(context).await?,
        lines: read_lines(),
        interrupts,
        screen: context.screen,
        typed: io::stdin().is_terminal(),
        topic: arguments.topic,
        topic_shown: None,
        open: Vec::new(),
        held: None,
        ended: false,
        waiting: BTreeSet::new(),
        presses: 0,
        at_line_start: true,
        failed: false,
    };
    if chat.typed {
        chat.screen.remark("Ctrl-C twice stops a turn, Ctrl-D leaves; /help lists commands");
    }
    chat.talk().await?;
    // Who types has seen the errors; a script wants to know of them.
    if chat.failed && !chat.typed {
        Err(Failure::failed("at least one message was not answered"))
    } else {
        Ok(())
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

/// A message that was sent, and what was printed of its answer.
struct Open {
    exchange: Exchange,
    transcript: Transcript,
}

struct Chat {
    link: Link,
    lines: mpsc::Receiver<String>,
    interrupts: Signal,
    screen: Screen,
    /// A person types the lines.
    typed: bool,
    topic: Option<String>,
    /// The name of the topic that was last shown.
    topic_shown: Option<String>,
    /// Messages that have not ended, in the order in which they were sent.
    open: Vec<Open>,
    /// A line that waits until they have.
    held: Option<String>,
    /// All lines were read.
    ended: bool,
    /// Approvals and questions that wait for a person.
    waiting: BTreeSet<String>,
    /// How often Ctrl-C was pressed, with nothing else in between.
    presses: usize,
    at_line_start: bool,
    failed: bool,
}

impl Chat {
    async fn talk(&mut self) -> Result<(), Failure> {
        self.prompt();
        loop {
            if self.ended && (self.open.is_empty() || self.typed) {
                self.end_line();
                if !self.open.is_empty() {
                    self.screen.remark("left; what was accepted goes on");
                }
                return Ok(());
            }
            let reads = !self.ended && self.held.is_none();
            tokio::select! {
                line = self.lines.recv(), if reads => match line {
                    Some(line) => self.take(line)?,
                    None => self.ended = true,
                },
                event = self.link.next() => self.happened(event?)?,
                _ = self.interrupts.recv() => self.interrupted()?,
            }
        }
    }

    /// A line was read. Lines of a script wait for the answer to the one before, unless that waits
    /// for what they decide.
    fn take(&mut self, line: String) -> Result<(), Failure> {
        self.presses = 0;
        self.at_line_start = true;
        if line.trim().is_empty() {
            self.prompt();
            return Ok(());
        }
        let decides = !self.waiting.is_empty() && line.starts_with('/');
        if self.typed || self.open.is_empty() || decides {
            return self.say(line);
        }
        self.held = Some(line);
        Ok(())
    }

    fn say(&mut self, content: String) -> Result<(), Failure> {
        let (topic, files) = (self.topic.clone(), Vec::new());
        let words = Words { id: message_id()?, content, topic, files };
        self.open.push(Open { exchange: Exchange::new(&words), transcript: Transcript::default() });
        self.link.say(words);
        Ok(())
    }

    fn happened(&mut self, event: Event) -> Result<(), Failure> {
        let was_busy = !self.open.is_empty();
        match event {
            Event::Frame(frame, raw) => {
                if self.screen.json {
                    self.screen.say(&raw);
                }
                self.show(&frame);
            }
            Event::Renewed => {
                let (lost, kept) = std::mem::take(&mut self.open)
                    .into_iter()
                    .partition::<Vec<_>, _>(|open| open.exchange.is_accepted());
                self.open = kept;
                for _ in lost {
                    self.print(Print::Error(forgotten().message));
                }
                self.print(Print::Remark("· connected again, in a new conversation".into()));
            }
            Event::Lost => self.print(Print::Remark("· connection lost; trying again".into())),
            Event::Back => self.print(Print::Remark("· connected again".into())),
        }
        if !self.open.is_empty() {
            return Ok(());
        }
        if was_busy {
            self.presses = 0;
            self.waiting.clear();
            self.end_line();
        }
        match self.held.take() {
            Some(line) => self.say(line),
            None => {
                self.prompt();
                Ok(())
            }
        }
    }

    /// The first Ctrl-C explains itself, the second stops what runs, the third leaves.
    fn interrupted(&mut self) -> Result<(), Failure> {
        self.end_line();
        self.presses += 1;
        if self.open.is_empty() {
            if self.presses > 1 || !self.typed {
                return Err(Failure::new(Exit::Interrupted, ""));
            }
            self.screen.remark("Ctrl-C again leaves");
            self.prompt();
            return Ok(());
        }
        match self.presses {
            1 => {
                let decision = if self.waiting.is_empty() {
                    ""
                } else {
                    "; it waits for a decision, which /approvals lists"
                };
                self.screen.remark(&format!(
                    "· Ctrl-C again stops the turn, Ctrl-D leaves and lets it go on{decision}"
                ));
            }
            2 => {
                self.screen.remark("· stopping; Ctrl-C again leaves");
                let topics = self.open.iter().flat_map(|open| open.exchange.open_topics());
                for topic in topics.cloned().collect::<BTreeSet<_>>() {
                    self.link.cancel(topic);
                }
            }
            _ => {
                return Err(Failure::new(Exit::Interrupted, "left; what was accepted goes on"));
            }
        }
        Ok(())
    }

    /// Shows what a frame says, to the message that it is about.
    fn show(&mut self, frame: &Incoming) {
        let live = self.screen.live && !self.screen.json;
        let mut prints = Vec::new();
        let mut about = None;
        for (place, open) in self.open.iter_mut().enumerate() {
            if let Some(heard) = open.exchange.take(frame) {
                if let (Heard::Accepted(_), Some(name)) = (&heard, frame.topic_name.as_deref())
                    && self.topic_shown.as_deref() != Some(name)
                {
                    prints.push(Print::Remark(format!("· topic: {name}")));
                    self.topic_shown = Some(name.to_owned());
                }
                prints.extend(if live { open.transcript.live(&heard) } else { plain(&heard) });
                about = Some(place);
                break;
            }
        }
        for print in prints {
            self.print(print);
        }
        let Some(place) = about else {
            return self.beside(frame);
        };
        if self.open[place].exchange.is_over() {
            self.open.remove(place);
        } else if self.presses > 1
            && matches!(&frame.body, Body::Ack(_))
            && let Some(topic) = &frame.topic_id
        {
            // Only now it is known what there is to stop.
            self.link.cancel(topic.clone());
        }
    }

    /// Shows what is about no open message.
    fn beside(&mut self, frame: &Incoming) {
        match &frame.body {
            Body::Notification(notification) => {
                let is_open = matches!(notification.status.as_str(), "pending" | "open");
                match &notification.ref_id {
                    Some(id) if is_open => {
                        self.waiting.insert(id.clone());
                        // Wanted or not: without a decision nothing goes on.
                        self.end_line();
                        return complain(&notification.content);
                    }
                    Some(id) => self.waiting.remove(id),
                    None => false,
                };
                self.print(Print::Remark(notification.content.clone()));
            }
            Body::Error(error) => self.print(Print::Remark(complaint(error))),
            _ => {}
        }
    }

    fn print(&mut self, print: Print) {
        match print {
            // The frame itself was printed.
            Print::Text(_) if self.screen.json => {}
            Print::Text(text) => {
                self.at_line_start = text.ends_with('\n');
                self.screen.write(&self.screen.harmless(&text));
            }
            Print::EndLine => self.end_line(),
            Print::Remark(line) => {
                self.end_line();
                self.screen.remark(&line);
            }
            Print::Error(line) => {
                self.end_line();
                self.failed = true;
                complain(&line);
            }
        }
    }

    fn prompt(&mut self) {
        if self.typed && self.screen.live && !self.screen.json {
            self.end_line();
            self.screen.write(&self.screen.paint(Tone::Faint, "> "));
            self.at_line_start = false;
        }
    }

    fn end_line(&mut self) {
        if !self.at_line_start {
            self.screen.write("\n");
            self.at_line_start = true;
        }
    }
}
