//! An agent at work on a turn: its process, what it says, and what it has called.

use std::{collections::HashSet, time::Duration};

use futures_util::FutureExt;
use hivewright_actors::{
    engine::{Block, EngineEvent, EngineFailure, Message, Paid, StepReply, StepRequest},
    ids::CallId,
    task::outcome::Code,
};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{
        TcpListener,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    GRACE,
    bridge::{Bridge, BridgeCall},
    lines::{Line, Lines},
    message::{MessageSoFar, OpenCall},
    notes::Notes,
    program::{Act, Dialogue},
    wake,
};
use crate::{
    engines::{
        pictures::Picture,
        relay::Told,
        scrubbed_sink::{ScrubbedSink, clean_blocks},
    },
    files::FileStore,
    sandbox::process::agent::{Agent, Life},
    scrub::Scrubber,
    text::rough_size,
};

/// What an agent may hold on the disk, in bytes: its home and its temporary files.
const DISK: u64 = 1 << 30;
/// An agent that does not read what it is told has failed.
const WRITTEN: Duration = Duration::from_secs(10);

/// A step that ended: what the model wrote, not yet paid for.
pub(super) struct Stepped {
    blocks: Vec<Block>,
    stop_reason: String,
}

impl Stepped {
    pub(super) fn paid(self, Paid { profile, model, usage }: Paid) -> StepReply {
        let Self { blocks, stop_reason } = self;
        StepReply { blocks, usage, stop_reason, truncated: false, profile, model }
    }
}

/// Why a step did not end.
pub(super) enum Stopped {
    /// The answer of the model broke, or the process ended. Another one may do better.
    Broke(EngineFailure),
    Failed(EngineFailure),
}

impl From<EngineFailure> for Stopped {
    fn from(failure: EngineFailure) -> Self {
        Self::Failed(failure)
    }
}

/// What a model that sees is shown.
#[derive(Default)]
pub(super) struct Sight {
    /// Where pictures of results are; none if the model sees none.
    pub(super) files: Option<FileStore>,
    /// What people attached.
    pub(super) attached: Vec<Picture>,
}

/// An agent at work. Dropping it kills the process.
pub(super) struct Running {
    lines: Lines<BufReader<OwnedReadHalf>>,
    /// None when it was closed.
    input: Option<OwnedWriteHalf>,
    /// What is to be written there.
    unwritten: Vec<String>,
    /// What is to be written there, and when.
    later: Vec<(Instant, String)>,
    closes: bool,
    dialogue: Box<dyn Dialogue>,
    is_ready: bool,
    /// What it is told as soon as it listens.
    untold: Vec<String>,
    /// What it is shown with the first of that.
    pictures: Vec<Picture>,
    calls: mpsc::UnboundedReceiver<BridgeCall>,
    message: MessageSoFar,
    /// Calls that the turn runs, or has run and the agent has not made yet.
    open: Vec<OpenCall>,
    /// It is over with what it was told.
    done: Option<Result<(), EngineFailure>>,
    /// How many messages of the turn it knows.
    seen: usize,
    /// What is heard of its model calls.
    model_calls: mpsc::UnboundedReceiver<Told>,
    /// What the model API has against its last request.
    rejected: Option<EngineFailure>,
    notes: Notes,
    /// Those that it writes to its error output.
    remarks: mpsc::UnboundedReceiver<String>,
    life: Life,
    /// It holds too much on the disk.
    pub(super) is_full: CancellationToken,
    /// The relay, the bridge and whoever reads its error output.
    serving: JoinSet<()>,
    /// Ends the relay.
    ends: DropGuard,
}

impl Running {
    pub(super) fn new<F: Future<Output = ()> + Send + 'static>(
        agent: Agent,
        dialogue: Box<dyn Dialogue>,
        request: &StepRequest,
        token: &str,
        Sight { files, attached }: Sight,
        model_calls: mpsc::UnboundedReceiver<Told>,
        relay: impl FnOnce(TcpListener, CancellationToken) -> F,
    ) -> Self {
        let Agent { streams, errors, relay: listener, bridge, life } = agent;
        let (output, input) = streams.into_split();
        let (sent, calls) = mpsc::unbounded_channel();
        let (notes, (noted, remarks)) = (Notes::default(), mpsc::unbounded_channel());
        let ends = CancellationToken::new();
        let mut serving = JoinSet::new();
        serving.spawn(relay(listener, ends.clone()));
        let tools = request.tools.clone();
        serving.spawn(Bridge { token: token.into(), tools, calls: sent, files }.serve(bridge));
        serving.spawn(notes.clone().follow(errors, noted));
        let (is_full, growth) = (CancellationToken::new(), life.holds_more_than(DISK));
        let full = is_full.clone();
        serving.spawn(growth.map(move |()| full.cancel()));
        let earlier = request.earlier.iter().map(|part| &**part);
        let mut running = Self {
            lines: Lines::new(BufReader::new(output)),
            input: Some(input),
            unwritten: Vec::new(),
            later: Vec::new(),
            closes: false,
            dialogue,
            is_ready: false,
            untold: vec![wake::prompt(request.task.as_ref(), earlier, &request.messages)],
            pictures: attached,
            calls,
            message: MessageSoFar::default(),
            open: Vec::new(),
            done: None,
            seen: request.messages.len(),
            model_calls,
            rejected: None,
            notes,
            remarks,
            life,
            is_full,
            serving,
            ends: ends.drop_guard(),
        };
        let opening = running.dialogue.open();
        running.take(opening, &mut |_| {});
        running
    }

    /// It can go on with a turn whose messages so far are these.
    pub(super) fn knows(&self, request: &StepRequest) -> bool {
        let new = request.messages.get(self.seen..).unwrap_or_default();
        let has_results = new.iter().any(|message| matches!(message, Message::ToolResults(_)));
        let has_words = new.iter().any(|message| matches!(message, Message::Joined(_)));
        let waits = self.open.iter().any(|open| open.answer.is_some());
        let takes_words = self.input.is_some() && self.dialogue.takes_more();
        (!waits || has_results) && (takes_words || !has_words)
    }

    /// Takes what happened in the turn since its last step: results of calls, and words that were added.
    pub(super) fn go_on(&mut self, request: &StepRequest) {
        let new = request.messages.get(self.seen..).unwrap_or_default();
        for message in new {
            match message {
                // The task and its files are what it was told first.
                Message::User(_) | Message::Assistant(_) | Message::Files(_) => {}
                Message::ToolResults(results) => {
                    for result in results {
                        if let Some(open) = self.open.iter_mut().find(|open| open.id == result.id) {
                            open.result = Some(result.clone());
                        }
                    }
                }
                Message::Joined(words) => {
                    self.done = None;
                    self.untold.push(wake::addition(words));
                }
            }
        }
        self.open.retain_mut(|open| !open.settle());
        self.seen = request.messages.len();
        let mut nobody = |_| {};
        self.tell(&mut nobody);
    }

    /// Works until the model has called something, or has come to an end.
    pub(super) async fn step(
        &mut self,
        sink: &mut ScrubbedSink,
        request: &StepRequest,
    ) -> Result<Stepped, Stopped> {
        let stepped = self.work(sink, request).await;
        while let Ok(remark) = self.remarks.try_recv() {
            sink.say(EngineEvent::Note(remark));
        }
        if let Some(rest) = self.notes.rest() {
            sink.say(EngineEvent::Note(rest));
        }
        stepped
    }

    async fn work(
        &mut self,
        sink: &mut ScrubbedSink,
        request: &StepRequest,
    ) -> Result<Stepped, Stopped> {
        loop {
            self.write().await?;
            // What came together is one step, also if it is over by then.
            let due = self.message.due();
            if due.is_some_and(|due| due <= Instant::now()) {
                return Ok(self.called(request, &sink.scrubber));
            }
            if due.is_none()
                && let Some(done) = self.done.take()
            {
                done.map_err(|failure| self.rejected.take().unwrap_or(failure))?;
                let MessageSoFar { blocks, stop_reason, .. } = std::mem::take(&mut self.message);
                let stop_reason = stop_reason.unwrap_or_else(|| "end_turn".to_owned());
                return Ok(Stepped { blocks: clean_blocks(blocks, &sink.scrubber), stop_reason });
            }
            let next = due.into_iter().chain(self.later.iter().map(|(at, _)| *at)).min();
            let pause = tokio::time::sleep_until(next.unwrap_or_else(Instant::now));
            tokio::select! {
                biased;
                () = self.is_full.cancelled() => return Err(too_large().into()),
                // Before the agent says that it failed, in words of its own.
                Some(told) = self.model_calls.recv() => self.heed(told, sink)?,
                line = self.lines.next() => match line {
                    Ok(Some(line)) => self.hear(line, sink),
                    Ok(None) => return Err(self.broke_off(None, sink).await),
                    Err(error) => return Err(self.broke_off(Some(error), sink).await),
                },
                Some(call) = self.calls.recv() => self.make(call),
                Some(remark) = self.remarks.recv() => sink.say(EngineEvent::Note(remark)),
                () = pause, if next.is_some() => {}
            }
        }
    }

    /// Takes what became of a request to the model.
    fn heed(&mut self, told: Told, sink: &mut ScrubbedSink) -> Result<(), Stopped> {
        match told {
            Told::InLine => sink.say(EngineEvent::InLine),
            Told::Retry(why) => sink.say(EngineEvent::Retry(why)),
            Told::Fallback(why) => sink.say(EngineEvent::Fallback(why)),
            Told::Answered => self.rejected = None,
            Told::Rejected(failure) => self.rejected = Some(failure),
            Told::Failed(failure) => return Err(Stopped::Failed(failure)),
            Told::Broke(failure) => return Err(Stopped::Broke(failure)),
        }
        Ok(())
    }

    /// The agent makes a call: one that was run already, or a new one.
    fn make(&mut self, call: BridgeCall) {
        // Not all agents call it the same here and there.
        let awaited = |is: &dyn Fn(&OpenCall) -> bool| {
            self.open.iter().position(|open| open.answer.is_none() && is(open))
        };
        let place = awaited(&|open| call.has(&open.told));
        match place.or_else(|| awaited(&|open| open.name == call.name)) {
            Some(place) => {
                self.open[place].answer = Some(call.answer);
                self.open.retain_mut(|open| !open.settle());
            }
            None => self.message.call(call),
        }
    }

    /// The step that ends with calls: the turn runs them.
    fn called(&mut self, request: &StepRequest, scrubber: &Scrubber) -> Stepped {
        let used = request.messages.iter().flat_map(Message::calls).map(|call| call.id.clone());
        let mut used: HashSet<CallId> = used.collect();
        let mut blocks = std::mem::take(&mut self.message.blocks);
        self.message.begun = 0;
        for (mut call, answer) in self.message.take_calls() {
            let told = call.id.clone();
            // As the turn will know it.
            call.bound_id();
            if told.as_str().is_empty() || !used.insert(call.id.clone()) {
                call.id = format!("call_{}_{}", request.step, used.len()).into();
                used.insert(call.id.clone());
            }
            let (id, name) = (call.id.clone(), call.name.clone());
            self.open.push(OpenCall { id, told, name, answer, result: None });
            blocks.push(Block::Call(call));
        }
        let stop_reason = self.message.stop_reason.clone();
        let stop_reason = stop_reason.unwrap_or_else(|| "tool_use".to_owned());
        Stepped { blocks: clean_blocks(blocks, scrubber), stop_reason }
    }

    fn hear(&mut self, line: Line, sink: &mut ScrubbedSink) {
        match line {
            Line::Json(line) => {
                let acts = self.dialogue.hear(line);
                self.take(acts, &mut |event| sink.say(event));
            }
            other => {
                if let Some(note) = self.notes.take_line(&other) {
                    sink.say(EngineEvent::Note(note));
                }
            }
        }
    }

    fn take(&mut self, acts: Vec<Act>, say: &mut dyn FnMut(EngineEvent)) {
        for act in acts {
            match act {
                Act::Write(line) => self.unwritten.push(line),
                Act::WriteLater(pause, line) => self.later.push((Instant::now() + pause, line)),
                Act::CloseInput => self.closes = true,
                Act::Ready => {
                    self.is_ready = true;
                    self.tell(say);
                }
                Act::Text(piece) => {
                    self.begin_message();
                    say(EngineEvent::Text(piece));
                }
                Act::Thinking(piece) => {
                    self.begin_message();
                    say(EngineEvent::Thinking(piece));
                }
                Act::Block(block) => {
                    self.begin_message();
                    match block {
                        Block::Call(call) => self.message.announce(call),
                        block => {
                            if matches!(block, Block::Text { .. }) {
                                say(EngineEvent::TextEnd);
                            }
                            self.message.blocks.push(block);
                        }
                    }
                }
                Act::MessageEnd(stop_reason) => {
                    self.message.has_ended = true;
                    self.message.is_over = true;
                    self.message.stop_reason = stop_reason;
                }
                Act::Note(note) => {
                    self.notes.take(&note).map(EngineEvent::Note).into_iter().for_each(&mut *say);
                }
                Act::Retry(note) => {
                    self.notes.take_try(&note).into_iter().for_each(&mut *say);
                }
                Act::Reset => {
                    self.message.blocks.truncate(self.message.begun);
                    say(EngineEvent::Reset);
                }
                Act::Done(done) => self.done = Some(done),
            }
        }
    }

    /// A new message of the model begins, if the last one has ended.
    fn begin_message(&mut self) {
        if std::mem::take(&mut self.message.is_over) {
            self.message.has_ended = false;
            self.message.stop_reason = None;
            self.message.announced.clear();
            self.message.untold.clear();
            // What it has not called by now it will not call any more.
            self.open.retain(|open| open.result.is_none());
            self.message.begun = self.message.blocks.len();
        }
    }

    fn tell(&mut self, say: &mut dyn FnMut(EngineEvent)) {
        if self.is_ready {
            for text in std::mem::take(&mut self.untold) {
                let pictures = std::mem::take(&mut self.pictures);
                let acts = self.dialogue.show(&text, &pictures);
                self.take(acts, say);
            }
        }
    }

    async fn write(&mut self) -> Result<(), EngineFailure> {
        let now = Instant::now();
        let is_due = |(at, _): &mut (Instant, String)| *at <= now;
        self.unwritten.extend(self.later.extract_if(.., is_due).map(|(_, line)| line));
        let lines = std::mem::take(&mut self.unwritten);
        if let (Some(input), false) = (&mut self.input, lines.is_empty()) {
            let text: String = lines.into_iter().map(|line| line + "\n").collect();
            match tokio::time::timeout(WRITTEN, input.write_all(text.as_bytes())).await {
                // One that is gone is noticed by the end of its output.
                Ok(_) => {}
                Err(_) => {
                    return Err(EngineFailure::new(
                        Code::Crash,
                        "the agent does not read its input",
                    ));
                }
            }
        }
        if self.closes {
            self.input = None;
        }
        Ok(())
    }

    /// Its output has ended before it was done.
    async fn broke_off(
        &mut self,
        error: Option<std::io::Error>,
        sink: &mut ScrubbedSink,
    ) -> Stopped {
        if let Some(rejected) = self.rejected.take() {
            return Stopped::Failed(rejected);
        }
        let mut failure = self.dialogue.ended();
        let reason = tokio::time::timeout(GRACE, self.life.ended()).await.unwrap_or_default();
        // All of its error output: the last line may be why.
        let hear_out = async {
            while let Some(remark) = self.remarks.recv().await {
                sink.say(EngineEvent::Note(remark));
            }
        };
        let _ = tokio::time::timeout(GRACE, hear_out).await;
        // It ended before it had read all that it was told: that is no reason.
        let error = error.filter(|error| error.kind() != std::io::ErrorKind::ConnectionReset);
        let error = error.map(|error| error.to_string());
        for detail in [error, reason, self.notes.last()].into_iter().flatten() {
            // The last note may be what it failed with.
            if !failure.message.contains(&detail) {
                failure.message = format!("{}: {detail}", failure.message);
            }
        }
        Stopped::Broke(failure)
    }

    /// Ends it with all it started. Its token counts no more from now on: it asks no model and calls no tool while it
    /// ends.
    pub(super) async fn end(self) {
        let Self { life, input, serving, ends, .. } = self;
        drop((input, ends, serving));
        life.end(GRACE).await;
    }
}

fn too_large() -> EngineFailure {
    let message =
        format!("the agent was ended: it held more than {} on the disk", rough_size(DISK));
    EngineFailure::new(Code::Crash, message)
}
