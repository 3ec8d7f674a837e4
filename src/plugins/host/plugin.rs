//! The code of an installed plugin in its host: one engine that lives across calls, and a new one when it was stopped.
//!
//! Code that is interrupted or has no memory left may have broken off anywhere. What waits in its engine ends there; what
//! nobody has looked at yet, and what comes later, finds a new one.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rquickjs::{Ctx, Exception, Function, Module, Object, TypedArray, module::Declared};
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::{
    engine::{Answer, EVER, Engine, Fault, Limits, Port, THREAD_STACK, with_engine},
    wire::{Output, PluginOpening},
};
use crate::system::hex;

const PROTOCOL: &str = include_str!("plugin.js");
/// The module that plugins import, and its source.
const MODULE: (&str, &str) = ("hive:host", include_str!("hive_host.js"));
/// Requests of a plugin that may be open at once.
const MOST_ASKED: usize = 100;
/// Log lines of a plugin in one second.
const MOST_LINES: u32 = 50;
/// The code of an error that says that a call was stopped.
const STOPPED: i32 = -32001;

/// Serves a plugin until the service says no more.
pub(super) fn serve(
    opening: PluginOpening,
    lines: impl Iterator<Item = io::Result<String>>,
    output: &Output,
) {
    let host = Arc::new(Host { opening, output: output.clone(), engines: Mutex::default() });
    for line in lines {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let mut engines = host.engines.lock();
        if message["method"].is_string() {
            host.deliver(&mut engines, message, false);
        } else if let Some((generation, answer)) = answer(&message)
            && let Some(engine) = engines.all.get(&generation)
        {
            // An answer goes to the engine that asked.
            let _ = engine.inbox.send(Mail::Answer(answer));
        }
    }
    // They end when nobody can write to them.
    host.engines.lock().all.clear();
}

/// A plugin and its engines.
struct Host {
    opening: PluginOpening,
    output: Output,
    engines: Mutex<Engines>,
}

/// One takes what comes; those before it finish what waits in them.
#[derive(Default)]
struct Engines {
    all: HashMap<u32, Handle>,
    current: u32,
    /// What told the plugin its settings.
    started: Option<Value>,
}

impl Host {
    /// Passes a message on to the engine that takes what comes.
    fn deliver(self: &Arc<Self>, engines: &mut Engines, message: Value, is_handed_on: bool) {
        engines.all.retain(|_, engine| !engine.thread.is_finished());
        let current = engines.all.get(&engines.current);
        if current.is_none_or(|engine| engine.spent.load(Ordering::Relaxed)) {
            engines.current += 1;
            let engine = match Handle::start(self, engines.current) {
                Ok(engine) => engine,
                Err(error) => {
                    let why = format!("no thread for the plugin: {error}");
                    return refuse(&self.output, &message["id"], &why);
                }
            };
            if let Some(told) = &engines.started {
                // Its settings, for an engine that takes the place of another: nobody waits for an answer.
                let message =
                    json!({ "jsonrpc": "2.0", "method": told["method"], "params": told["params"] });
                let _ = engine.inbox.send(Mail::Message { message, is_handed_on: true });
            }
            engines.all.insert(engines.current, engine);
        }
        if message["method"] == "plugin/start" {
            engines.started = Some(message.clone());
        }
        let Some(engine) = engines.all.get(&engines.current) else { return };
        let mail = Mail::Message { message, is_handed_on };
        if let Err(SendError(Mail::Message { message, .. })) = engine.inbox.send(mail) {
            engine.spent.store(true, Ordering::Relaxed);
            refuse(&self.output, &message["id"], "the plugin's code has ended");
        }
    }

    /// An engine has ended. What it did not look at goes to the next, once: one that cannot even begin is not tried for
    /// ever.
    fn ended(self: &Arc<Self>, generation: u32, mail: &Receiver<Mail>, fault: Option<&Fault>) {
        let mut engines = self.engines.lock();
        engines.all.remove(&generation);
        while let Ok(mail) = mail.try_recv() {
            let Mail::Message { message, is_handed_on } = mail else { continue };
            match fault {
                None if !is_handed_on => self.deliver(&mut engines, message, true),
                None => refuse(&self.output, &message["id"], "the plugin's code was stopped"),
                Some(fault) => refuse(&self.output, &message["id"], &fault.to_string()),
            }
        }
    }
}

/// The engine that asked, and what it is answered.
fn answer(message: &Value) -> Option<(u32, Answer)> {
    let (generation, id) = message["id"].as_str()?.split_once('.')?;
    let result = match &message["error"] {
        Value::Null => Ok(message["result"].clone()),
        error => Err(error["message"].as_str().unwrap_or("refused").to_owned()),
    };
    Some((generation.parse().ok()?, Answer { id: id.parse().ok()?, result }))
}

fn refuse(output: &Output, id: &Value, message: &str) {
    if !id.is_null() {
        let error = json!({ "code": STOPPED, "message": message });
        output.say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }
}

enum Mail {
    Message {
        message: Value,
        /// Another engine had it, and did not look at it.
        is_handed_on: bool,
    },
    Answer(Answer),
}

/// An engine on its thread.
struct Handle {
    inbox: Sender<Mail>,
    spent: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Handle {
    fn start(host: &Arc<Host>, generation: u32) -> io::Result<Self> {
        let (inbox, mail) = channel();
        let spent = Arc::new(AtomicBool::new(false));
        let (host, is_spent) = (Arc::clone(host), Arc::clone(&spent));
        let thread = std::thread::Builder::new().stack_size(THREAD_STACK).spawn(move || {
            let port = Rc::new(PluginPort {
                generation,
                output: host.output.clone(),
                spent: Arc::clone(&is_spent),
                waiting: RefCell::default(),
                open: Cell::new(0),
                logged: Cell::new((Instant::now(), 0)),
            });
            let fault = live(&host.opening, &mail, &port).err();
            if let Some(fault) = &fault {
                // The next message finds another engine, which may do better.
                is_spent.store(true, Ordering::Relaxed);
                port.log("error", &format!("{}: {fault}", host.opening.entry));
                port.expire(true, &fault.to_string());
            }
            host.ended(generation, &mail, fault.as_ref());
        })?;
        Ok(Self { inbox, spent, thread })
    }
}

/// What the code of a plugin can reach.
struct PluginPort {
    generation: u32,
    output: Output,
    spent: Arc<AtomicBool>,
    /// Requests that are not answered, by number, with their deadlines.
    waiting: RefCell<HashMap<String, (Value, Instant)>>,
    /// Requests of its own that are not answered.
    open: Cell<usize>,
    logged: Cell<(Instant, u32)>,
}

impl Port for PluginPort {
    fn log(&self, level: &str, text: &str) {
        let (since, count) = self.logged.get();
        if since.elapsed() >= Duration::from_secs(1) {
            self.logged.set((Instant::now(), 1));
        } else if count >= MOST_LINES {
            return;
        } else {
            self.logged.set((since, count + 1));
        }
        let params = json!({ "level": level, "data": text });
        let message =
            json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params });
        self.output.say(&message);
    }

    fn ask(&self, id: u32, method: &str, params: &str) -> Result<(), String> {
        if self.open.get() >= MOST_ASKED {
            return Err(format!("{MOST_ASKED} requests are open already; wait for some"));
        }
        let params: Value = serde_json::from_str(params).map_err(|error| error.to_string())?;
        self.open.set(self.open.get() + 1);
        let id = format!("{}.{id}", self.generation);
        self.output.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        Ok(())
    }

    fn send(&self, message: &str) {
        let Ok(message) = serde_json::from_str::<Value>(message) else { return };
        // A request that was given up has its answer already.
        if message.get("method").is_none()
            && self.waiting.borrow_mut().remove(&message["id"].to_string()).is_none()
        {
            return;
        }
        let (error, result) = (&message["error"], &message["result"]);
        let words = match result["isError"].as_bool() {
            Some(true) => result["content"][0]["text"].as_str(),
            _ => error["message"].as_str(),
        };
        if words.is_some_and(|words| words.contains("out of memory")) {
            self.spent.store(true, Ordering::Relaxed);
        }
        self.output.say(&message);
    }
}

impl PluginPort {
    /// Answers what waits longer than it may, or all of it.
    fn expire(&self, all: bool, why: &str) {
        let now = Instant::now();
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|_, (id, deadline)| {
            let is_over = all || *deadline <= now;
            if is_over {
                refuse(&self.output, id, why);
            }
            !is_over
        });
    }

    /// A message came: if somebody waits for its answer, they do so until then.
    fn expect(&self, message: &Value, deadline: Instant) {
        if let Some(id) = message.get("id") {
            self.waiting.borrow_mut().insert(id.to_string(), (id.clone(), deadline));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.waiting.borrow().values().map(|(_, deadline)| *deadline).min()
    }
}

/// The life of an engine.
fn live(
    opening: &PluginOpening,
    mail: &Receiver<Mail>,
    port: &Rc<PluginPort>,
) -> Result<(), Fault> {
    let usual = Duration::from_millis(opening.call_timeout_ms);
    let limits = Limits {
        memory: opening.memory,
        cpu: Duration::MAX,
        deadline: Instant::now() + usual,
        stop: Arc::default(),
    };
    with_engine(&limits, port, |engine| {
        let protocol = load(engine, opening, mail, port)?;
        let take: Function<'_> = protocol.get("take").map_err(|error| engine.fault(error))?;
        loop {
            engine.watch.set_deadline(port.next().unwrap_or_else(|| Instant::now() + usual));
            let stopped = engine.settle().and_then(|()| engine.tick());
            let next = match stopped {
                Ok(next) => next,
                Err(fault) => {
                    port.spent.store(true, Ordering::Relaxed);
                    port.expire(false, &fault.message);
                    engine.watch.forgive();
                    Some(Duration::ZERO)
                }
            };
            port.expire(false, "its time was over");
            if port.spent.load(Ordering::Relaxed) && port.next().is_none() {
                return Ok(());
            }
            if next == Some(Duration::ZERO) {
                continue;
            }
            let left = port.next().map_or(EVER, |at| at.saturating_duration_since(Instant::now()));
            match mail.recv_timeout(next.map_or(left, |next| next.min(left))) {
                Ok(Mail::Answer(answer)) => {
                    port.open.set(port.open.get().saturating_sub(1));
                    engine.watch.set_deadline(Instant::now() + usual);
                    engine.answer(answer)?;
                }
                Ok(Mail::Message { message, .. }) => {
                    let limit = deadline(&message["params"]).unwrap_or(usual);
                    port.expect(&message, Instant::now() + limit);
                    engine
                        .watch
                        .set_deadline(port.next().unwrap_or_else(|| Instant::now() + limit));
                    let taken = take.call::<_, ()>((message.to_string(),));
                    // What stopped it is seen in the next round.
                    if let Err(error) = taken
                        && engine.watch.fired().is_none()
                    {
                        return Err(engine.fault(error));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    })
}

/// The time that a request says it has.
fn deadline(params: &Value) -> Option<Duration> {
    let of_call = params["_meta"]["deadline_ms"].as_u64();
    of_call.or(params["deadline_ms"].as_u64()).map(Duration::from_millis)
}

/// Makes the modules known and runs the first of them.
fn load<'js>(
    engine: &Engine<'js>,
    opening: &PluginOpening,
    mail: &Receiver<Mail>,
    port: &Rc<PluginPort>,
) -> Result<Object<'js>, Fault> {
    let failed = |error: rquickjs::Error| engine.fault(error);
    let about = Object::new(engine.ctx.clone()).map_err(failed)?;
    about.set("key", opening.key.as_str()).map_err(failed)?;
    about.set("version", opening.version.as_str()).map_err(failed)?;
    let native = native(&engine.ctx, &engine.native).map_err(failed)?;
    let setup: Function<'js> = engine.ctx.eval(PROTOCOL).map_err(failed)?;
    let protocol: Object<'js> =
        setup.call((native, engine.bridge.clone(), about)).map_err(failed)?;
    let host: Object<'js> = protocol.get("host").map_err(failed)?;
    let module = engine.compile(MODULE.0, MODULE.1)?;
    module.meta().and_then(|meta| meta.set("host", host)).map_err(failed)?;
    let entry = compile(engine, opening)?;
    let usual = Duration::from_millis(opening.call_timeout_ms);
    let early = RefCell::new(Vec::new());
    let take = |engine: &Engine<'js>, mail: Mail| match mail {
        Mail::Answer(answer) => {
            port.open.set(port.open.get().saturating_sub(1));
            engine.answer(answer)
        }
        Mail::Message { message, .. } => {
            // It is answered also if the code never gets to it.
            port.expect(&message, Instant::now() + usual);
            early.borrow_mut().push(message);
            Ok(())
        }
    };
    engine.load(entry, mail, &take)?;
    let take: Function<'js> = protocol.get("take").map_err(failed)?;
    for message in early.take() {
        port.expect(&message, Instant::now() + usual);
        take.call::<_, ()>((message.to_string(),)).map_err(failed)?;
    }
    Ok(protocol)
}

/// Makes the modules of a plugin known, each after those that it imports. Two that import each other are refused.
fn compile<'js>(
    engine: &Engine<'js>,
    opening: &PluginOpening,
) -> Result<Module<'js, Declared>, Fault> {
    let mut entry = None;
    let mut waiting: Vec<(&String, &String)> = opening.sources.iter().collect();
    while !waiting.is_empty() {
        let (before, mut faults) = (waiting.len(), Vec::new());
        waiting.retain(|(path, source)| match engine.compile(path, source) {
            Ok(module) => {
                if **path == opening.entry {
                    entry = Some(module);
                }
                false
            }
            Err(fault) => {
                faults.push(Fault { message: format!("{path}: {}", fault.message), ..fault });
                true
            }
        });
        if waiting.len() == before {
            // One that is wrong itself tells more than one that imports it.
            let is_wrong = |fault: &Fault| !fault.message.contains("could not load module");
            let first = faults.iter().position(is_wrong).unwrap_or(0);
            return Err(faults.swap_remove(first));
        }
    }
    entry.ok_or_else(|| Fault::new("the plugin has no such module"))
}

/// What plugins have beside what all code has.
fn native<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> rquickjs::Result<Object<'js>> {
    let digest = |ctx: Ctx<'js>, algorithm: String, binary: String| {
        let bytes: Vec<u8> =
            binary.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(0)).collect();
        let digest = match algorithm.to_ascii_lowercase().replace('-', "").as_str() {
            "sha256" => Sha256::digest(&bytes).to_vec(),
            "sha384" => Sha384::digest(&bytes).to_vec(),
            "sha512" => Sha512::digest(&bytes).to_vec(),
            _ => {
                let message =
                    format!("unknown digest `{algorithm}`; there are sha-256, sha-384 and sha-512");
                return Err(Exception::throw_type(&ctx, &message));
            }
        };
        TypedArray::<u8>::new_copy(ctx, digest)
    };
    native.set("digest", Function::new(ctx.clone(), digest)?)?;
    let uuid = |ctx: Ctx<'js>| {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|_| Exception::throw_internal(&ctx, "no random numbers"))?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = hex(&bytes);
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        rquickjs::Result::Ok(parts.join("-"))
    };
    native.set("uuid", Function::new(ctx.clone(), uuid)?)?;
    Ok(native.clone())
}

#[cfg(test)]
mod tests;
