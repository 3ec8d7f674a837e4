//! `hivewright chat`: a conversation, line by line.

use std::{
    io::{self, BufRead, IsTerminal},
    thread,
};

use clap::Args;
use hivewright_actors::event::Body;
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
/// them. Ctrl-C stops the turn that runs, and leaves if pressed twice; Ctrl-D leaves.
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
        at_line_start: true,
        failed: false,
    };
    if chat.typed {
        chat.screen
            .remark("Ctrl-C stops a turn, twice leaves; /help lists commands");
    }
    chat.talk().await?;
    // Who types has seen the errors; a script wants to know of them.
    match chat.failed && !chat.typed {
        true => Err(Failure::failed("at least one message was not answered")),
        false => Ok(()),
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
    at_line_start: bool,
    failed: bool,
}

impl Chat {
    async fn talk(&mut self) -> Result<(), Failure> {
        let mut leaving = false;
        self.prompt();
        loop {
            tokio::select! {
                line = self.lines.recv() => {
                    let Some(line) = line else {
                        self.end_line();
                        return Ok(());
                    };
                    leaving = false;
                    self.at_line_start = true;
                    if !line.trim().is_empty() {
                        self.exchange(line).await?;
                    }
                    self.prompt();
                }
                event = self.link.next() => {
                    self.beside(event?);
                    self.prompt();
                }
                _ = self.interrupts.recv() => {
                    self.end_line();
                    if leaving || !self.typed {
                        return Err(Failure::new(Exit::Interrupted, ""));
                    }
                    leaving = true;
                    self.screen.remark("Ctrl-C again leaves");
                    self.prompt();
                }
            }
        }
    }

    /// Says one line and shows what comes of it.
    async fn exchange(&mut self, content: String) -> Result<(), Failure> {
        let words = Words {
            id: message_id()?,
            content,
            topic: self.topic.clone(),
        };
        let mut exchange = Exchange::new(&words);
        let mut transcript = Transcript::default();
        let mut stopping = false;
        self.link.say(words);
        while !exchange.is_over() {
            tokio::select! {
                event = self.link.next() => match event? {
                    Event::Frame(frame, raw) => {
                        self.show(&frame, &raw, &mut exchange, &mut transcript);
                        // Only now it may be known what there is to stop.
                        if stopping {
                            self.stop(&exchange, &frame);
                        }
                    }
                    Event::Renewed if exchange.is_accepted() => {
                        self.print(Print::Error(forgotten().message));
                        return Ok(());
                    }
                    event => self.beside(event),
                },
                _ = self.interrupts.recv() => {
                    self.end_line();
                    if stopping {
                        return Err(Failure::new(
                            Exit::Interrupted,
                            "left; what was accepted goes on",
                        ));
                    }
                    stopping = true;
                    self.screen.remark("· stopping; Ctrl-C again leaves");
                    for topic in exchange.open_topics() {
                        self.link.cancel(topic.clone());
                    }
                }
            }
        }
        self.end_line();
        Ok(())
    }

    /// Stops a turn whose topic became known by its ack.
    fn stop(&self, exchange: &Exchange, frame: &Incoming) {
        let just_placed = matches!(&frame.body, Body::Ack(_));
        if let (true, false, Some(topic)) = (just_placed, exchange.is_over(), &frame.topic_id) {
            self.link.cancel(topic.clone());
        }
    }

    fn show(
        &mut self,
        frame: &Incoming,
        raw: &str,
        exchange: &mut Exchange,
        transcript: &mut Transcript,
    ) {
        if self.screen.json {
            self.screen.say(raw);
        }
        let Some(heard) = exchange.take(frame) else {
            return self.beside_frame(frame);
        };
        if let (Heard::Accepted(_), Some(name)) = (&heard, frame.topic_name.as_deref())
            && self.topic_shown.as_deref() != Some(name)
        {
            self.print(Print::Remark(format!("· topic: {name}")));
            self.topic_shown = Some(name.to_owned());
        }
        let prints = match self.screen.live && !self.screen.json {
            true => transcript.live(&heard),
            false => plain(&heard),
        };
        for print in prints {
            self.print(print);
        }
    }

    /// Shows what happens while nothing is being answered, or to something else.
    fn beside(&mut self, event: Event) {
        match event {
            Event::Frame(frame, raw) => {
                if self.screen.json {
                    self.screen.say(&raw);
                }
                self.beside_frame(&frame);
            }
            Event::Lost => self.print(Print::Remark("· connection lost; trying again".into())),
            Event::Back => self.print(Print::Remark("· connected again".into())),
            Event::Renewed => self.print(Print::Remark(
                "· connected again, in a new conversation".into(),
            )),
        }
    }

    fn beside_frame(&mut self, frame: &Incoming) {
        match &frame.body {
            Body::Notification(notification) => {
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
