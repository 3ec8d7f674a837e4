//! Calls of plain tools in the host: each has an engine and a thread of its own.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    child::Output,
    engine::{Answer, Engine, Fault, Limits, Port, THREAD_STACK, with_engine},
    wire::{CallLimits, FromHost, Outcome, ToHost},
};

/// What the code of a call is called in messages.
const FILE: &str = "tool.js";
/// What is kept of the console of a call, in bytes.
const MOST_CONSOLE: usize = 16 << 10;
/// The largest result, in bytes. The model reads far less.
const LARGEST_RESULT: usize = 4 << 20;

/// What the code of one call can reach.
struct CallPort {
    id: u64,
    output: Output,
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
        self.output.say(&FromHost::Ask { id: self.id, ask, method: method.to_owned(), params });
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

/// A call that runs.
struct Call {
    inbox: Sender<Answer>,
    stop: Arc<AtomicBool>,
}

/// The calls that run, by number.
type Running = Arc<Mutex<HashMap<u64, Call>>>;

/// Serves calls until the service says no more.
pub(super) fn serve(
    memory: usize,
    lines: impl Iterator<Item = io::Result<String>>,
    output: &Output,
) {
    let running = Running::default();
    for line in lines {
        let Ok(line) = line else { return };
        let (id, source, input, limits) = match serde_json::from_str(&line) {
            Ok(ToHost::Inspect { id, source, limits }) => (id, source, None, limits),
            Ok(ToHost::Run { id, source, input, limits }) => (id, source, Some(input), limits),
            Ok(ToHost::Answer { id, ask, result }) => {
                // A call that has ended waits for no answer.
                if let Some(call) = lock(&running).get(&id) {
                    let _ = call.inbox.send(Answer { id: ask, result });
                }
                continue;
            }
            Ok(ToHost::Stop { id }) => {
                // One that waits hears that its inbox is gone, one that computes is interrupted.
                if let Some(call) = lock(&running).remove(&id) {
                    call.stop.store(true, Ordering::Relaxed);
                }
                continue;
            }
            // Only the service writes here: with one that speaks otherwise nothing can be done.
            Err(_) => return,
        };
        let (sender, inbox) = channel();
        let stop = Arc::<AtomicBool>::default();
        lock(&running).insert(id, Call { inbox: sender, stop: Arc::clone(&stop) });
        let (calls, told) = (Arc::clone(&running), output.clone());
        let thread = std::thread::Builder::new().stack_size(THREAD_STACK).spawn(move || {
            let limits = within(memory, &limits, stop);
            let done = call(id, &source, input, limits, &inbox, &told);
            lock(&calls).remove(&id);
            told.say(&done);
        });
        if thread.is_err() {
            lock(&running).remove(&id);
            let outcome = Outcome::Failed(Fault::new("the host has no room for another call"));
            output.say(&FromHost::Done { id, outcome, console: String::new() });
        }
    }
}

fn lock(running: &Running) -> std::sync::MutexGuard<'_, HashMap<u64, Call>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The limits of a call that begins now.
fn within(memory: usize, limits: &CallLimits, stop: Arc<AtomicBool>) -> (Limits, u32) {
    let limit = Limits {
        memory,
        cpu: Duration::from_millis(limits.cpu_ms),
        deadline: Instant::now() + Duration::from_millis(limits.time_ms),
        stop,
    };
    (limit, limits.fetches)
}

/// One call from beginning to end: of the function, or without input a look at what the module offers.
fn call(
    id: u64,
    source: &str,
    input: Option<Value>,
    (limits, fetches): (Limits, u32),
    inbox: &Receiver<Answer>,
    output: &Output,
) -> FromHost {
    let port = Rc::new(CallPort {
        id,
        output: output.clone(),
        fetches: Cell::new(fetches),
        console: RefCell::default(),
        ended: RefCell::default(),
    });
    let done =
        with_engine(&limits, &port, |engine| Ok(perform(engine, source, input, inbox, &port)));
    let outcome = done.unwrap_or_else(Outcome::Failed);
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
