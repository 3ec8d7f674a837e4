//! Calls of plain tools in the host: each has an engine and a thread of its own, which are there before it comes.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    engine::{Answer, EVER, Engine, Fault, Limits, Port, THREAD_STACK, with_engine},
    wire::{CallLimits, FromHost, Outcome, Output, ToHost},
};

/// What the code of a call is called in messages.
const FILE: &str = "tool.js";
/// What is kept of the console of a call, in bytes.
const MOST_CONSOLE: usize = 16 << 10;
/// The largest result, in bytes. The model reads far less.
const LARGEST_RESULT: usize = 4 << 20;

/// What the code of one call can reach.
#[derive(Default)]
struct CallPort {
    /// Where requests of a call go, with its number, once there is one.
    call: RefCell<Option<(u64, Output)>>,
    fetches: Cell<u32>,
    console: RefCell<String>,
    ended: RefCell<Option<Result<String, Fault>>>,
}

impl Port for CallPort {
    fn log(&self, level: &str, text: &str) {
        const CUT: &str = "… (the console is cut here)\n";
        let mut console = self.console.borrow_mut();
        if console.ends_with(CUT) {
            return;
        }
        let line = format!("{level}: {text}\n");
        let room = MOST_CONSOLE.saturating_sub(console.len());
        if line.len() <= room {
            console.push_str(&line);
        } else {
            console.push_str(&line[..line.floor_char_boundary(room)]);
            console.push_str(CUT);
        }
    }

    fn ask(&self, ask: u32, method: &str, params: &str) -> Result<(), String> {
        let Some(left) = self.fetches.get().checked_sub(1) else {
            return Err("no more requests: a call has a limited number of them".to_owned());
        };
        self.fetches.set(left);
        let params: Value = serde_json::from_str(params).map_err(|error| error.to_string())?;
        if let Some((id, output)) = &*self.call.borrow() {
            output.say(&FromHost::Ask { id: *id, ask, method: method.to_owned(), params });
        }
        Ok(())
    }

    fn end(&self, fine: bool, text: String) {
        let result = if !fine {
            Err(serde_json::from_str(&text).unwrap_or_else(|_| Fault::new(text)))
        } else if text.len() > LARGEST_RESULT {
            Err(Fault::new("its result is larger than 4 MiB"))
        } else {
            Ok(text)
        };
        *self.ended.borrow_mut() = Some(result);
    }
}

struct Call {
    inbox: Sender<Answer>,
    stop: Arc<AtomicBool>,
}

/// A call that is to be made.
struct Job {
    id: u64,
    source: String,
    /// What the function is called with; without it the module is only looked at.
    input: Option<Value>,
    limits: CallLimits,
    inbox: Receiver<Answer>,
}

/// A thread with an engine that nothing has run in yet, for one call.
struct Place {
    jobs: Sender<Job>,
    stop: Arc<AtomicBool>,
}

/// All calls of a host.
struct Calls {
    /// Of one engine, in bytes.
    memory: usize,
    output: Output,
    /// Those that run, by number.
    running: Mutex<HashMap<u64, Call>>,
    /// For the next call: making an engine takes longer than most calls.
    spare: Mutex<Option<Place>>,
}

/// Serves calls until the service says no more.
pub(super) fn serve(
    memory: usize,
    lines: impl Iterator<Item = io::Result<String>>,
    output: &Output,
) {
    let (running, spare) = (Mutex::default(), Mutex::default());
    let calls = Arc::new(Calls { memory, output: output.clone(), running, spare });
    for line in lines {
        let Ok(line) = line else { return };
        let (id, source, input, limits) = match serde_json::from_str(&line) {
            Ok(ToHost::Inspect { id, source, limits }) => (id, source, None, limits),
            Ok(ToHost::Run { id, source, input, limits }) => (id, source, Some(input), limits),
            Ok(ToHost::Answer { id, ask, result }) => {
                // A call that has ended waits for no answer.
                if let Some(call) = calls.running.lock().get(&id) {
                    let _ = call.inbox.send(Answer { id: ask, result });
                }
                continue;
            }
            Ok(ToHost::Stop { id }) => {
                // One that waits hears that its inbox is gone, one that computes is interrupted.
                if let Some(call) = calls.running.lock().remove(&id) {
                    call.stop.store(true, Ordering::Relaxed);
                }
                continue;
            }
            // Only the service writes here: with one that speaks otherwise nothing can be done.
            Err(_) => return,
        };
        let (sender, inbox) = channel();
        let spare = calls.spare.lock().take();
        let begun = spare.map_or_else(|| calls.make_place(), Ok).and_then(|place| {
            calls.running.lock().insert(id, Call { inbox: sender, stop: place.stop });
            let job = Job { id, source, input, limits, inbox };
            place.jobs.send(job).map_err(|_| io::Error::other("its thread has ended"))
        });
        if begun.is_err() {
            calls.fail(id, Fault::new("the host has no room for another call"));
        }
    }
}

impl Calls {
    fn make_place(self: &Arc<Self>) -> io::Result<Place> {
        let (jobs, given) = channel();
        let stop = Arc::<AtomicBool>::default();
        let (calls, watched) = (Arc::clone(self), Arc::clone(&stop));
        let thread = std::thread::Builder::new().stack_size(THREAD_STACK);
        thread.spawn(move || calls.make_one(&given, watched))?;
        Ok(Place { jobs, stop })
    }

    /// Makes a place for the next call, if there is none.
    fn prepare(self: &Arc<Self>) {
        let mut spare = self.spare.lock();
        if spare.is_none() {
            *spare = self.make_place().ok();
        }
    }

    /// Makes an engine, and the call that comes to it.
    fn make_one(self: &Arc<Self>, jobs: &Receiver<Job>, stop: Arc<AtomicBool>) {
        let port = Rc::<CallPort>::default();
        let made = with_engine(&waiting(self.memory, stop), &port, |engine| {
            if let Ok(job) = jobs.recv() {
                self.prepare();
                // It is told before the engine is taken down, which takes a while.
                self.end(call(engine, job, &port, &self.output));
            }
            Ok(())
        });
        if let Err(fault) = made
            && let Ok(Job { id, .. }) = jobs.recv()
        {
            self.fail(id, fault);
        }
    }

    fn fail(&self, id: u64, fault: Fault) {
        let (outcome, console) = (Outcome::Failed(fault), String::new());
        self.end(FromHost::Done { id, outcome, console });
    }

    fn end(&self, done: FromHost) {
        if let FromHost::Done { id, .. } = &done {
            self.running.lock().remove(id);
        }
        self.output.say(&done);
    }
}

/// The limits of an engine that waits for its call.
fn waiting(memory: usize, stop: Arc<AtomicBool>) -> Limits {
    Limits { memory, cpu: Duration::MAX, deadline: Instant::now() + EVER, stop }
}

/// One call from beginning to end: of the function, or without input a look at what the module offers.
fn call(engine: &Engine<'_>, job: Job, port: &CallPort, output: &Output) -> FromHost {
    let Job { id, source, input, limits, inbox } = job;
    *port.call.borrow_mut() = Some((id, output.clone()));
    port.fetches.set(limits.fetches);
    let time = Duration::from_millis(limits.time_ms);
    engine.watch.begin(Duration::from_millis(limits.cpu_ms), Instant::now() + time);
    let outcome = perform(engine, &source, input, &inbox, port);
    FromHost::Done { id, outcome, console: port.console.take() }
}

fn perform(
    engine: &Engine<'_>,
    source: &str,
    input: Option<Value>,
    inbox: &Receiver<Answer>,
    port: &CallPort,
) -> Outcome {
    let module = match engine.compile(FILE, source) {
        Ok(module) => module,
        Err(fault) => return Outcome::Unreadable(fault),
    };
    let run = || {
        let module = engine.load(module, inbox, &Engine::answer)?;
        let Some(input) = input else {
            let offer: String = engine.bridge("offer", (module,))?;
            let offer =
                serde_json::from_str(&offer).map_err(|error| Fault::new(error.to_string()))?;
            return Ok(Outcome::Offers(offer));
        };
        engine.bridge::<_, ()>("run", (module, input.to_string()))?;
        engine.until(inbox, &Engine::answer, || port.ended.borrow().is_some())?;
        match port.ended.take() {
            Some(ended) => ended.map(Outcome::Returned),
            None => Err(Fault::new("it ended without a result")),
        }
    };
    run().unwrap_or_else(Outcome::Failed)
}

#[cfg(test)]
mod tests;
