//! JavaScript engine with limits: memory, stack, time and CPU time, and no way out but its port.
//!
//! An engine lives on one thread. Code in it runs until it ends or its watch interrupts it; then the engine is given up.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Url;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Exception, Function, Module, Object, Promise,
    Runtime, TypedArray, WriteOptions, module::Declared, promise::PromiseState,
};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What code finds beside the language.
const GLOBALS: &str = include_str!("globals.js");
/// What calls inside each other may take. The thread of an engine has more: unoptimised builds need it.
const STACK: usize = 1 << 20;
/// The stack of a thread with an engine.
pub(super) const THREAD_STACK: usize = 8 << 20;
/// An engine waits for ever for what comes to it; this is how long that is.
pub(super) const EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What an engine may use.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// In bytes.
    pub(super) memory: usize,
    pub(super) cpu: Duration,
    pub(super) deadline: Instant,
    /// Set once nobody wants it any more.
    pub(super) stop: Arc<AtomicBool>,
}

/// What code in an engine can reach.
pub(super) trait Port {
    fn log(&self, level: &str, text: &str);
    /// Passes a request on. The answer comes to the engine's inbox under the same number.
    fn ask(&self, id: u32, method: &str, params: &str) -> Result<(), String>;
    /// A function of a tool has ended: with its result, or with a [`Fault`].
    fn end(&self, _fine: bool, _text: String) {}
    /// A message for the parent, as JSON.
    fn send(&self, _message: &str) {}
}

/// The answer to a request of the code.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) id: u32,
    pub(super) result: Result<Value, String>,
}

/// Why code was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Its time was over.
    Time,
    /// It used too much CPU time.
    Cpu,
    /// It waits for something that will never come.
    Idle,
}

/// What went wrong in code, with the place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The code did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
}

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    fn stopped(stop: Stop) -> Self {
        let message = match stop {
            Stop::Time => "its time was over",
            Stop::Cpu => "it used too much CPU time",
            Stop::Idle => "its promise never settles: nothing is left that it could be waiting for",
        };
        Self { stop: Some(stop), ..Self::new(message) }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => {
                write!(f, "line {line}, column {column}: {}", self.message)
            }
            (Some(line), None) => write!(f, "line {line}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

/// Interrupts code that runs for too long.
#[derive(Debug)]
pub(super) struct Watch {
    deadline: Cell<Instant>,
    stop: Arc<AtomicBool>,
    cpu: Cell<Duration>,
    began: Cell<Duration>,
    fired: Cell<Option<Stop>>,
}

impl Watch {
    fn new(limits: &Limits) -> Self {
        Self {
            deadline: Cell::new(limits.deadline),
            stop: Arc::clone(&limits.stop),
            cpu: Cell::new(limits.cpu),
            began: Cell::new(cpu_time()),
            fired: Cell::new(None),
        }
    }

    /// Whether code must stop now.
    fn look(&self) -> bool {
        if self.fired.get().is_none() {
            if Instant::now() >= self.deadline.get() || self.stop.load(Ordering::Relaxed) {
                self.fired.set(Some(Stop::Time));
            } else if cpu_time().saturating_sub(self.began.get()) >= self.cpu.get() {
                self.fired.set(Some(Stop::Cpu));
            }
        }
        self.fired.get().is_some()
    }

    pub(super) fn fired(&self) -> Option<Stop> {
        self.fired.get()
    }

    /// Lets other code run on after one was stopped.
    pub(super) fn forgive(&self) {
        self.fired.set(None);
    }

    /// From now on code may take so long.
    pub(super) fn begin(&self, cpu: Duration, deadline: Instant) {
        self.set_deadline(deadline);
        self.began.set(cpu_time());
        self.cpu.set(cpu);
    }

    pub(super) fn set_deadline(&self, deadline: Instant) {
        self.deadline.set(deadline);
    }
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// An engine that is ready for code.
pub(super) struct Engine<'js> {
    pub(super) ctx: Ctx<'js>,
    /// The functions behind the globals.
    pub(super) native: Object<'js>,
    /// What the host calls.
    pub(super) bridge: Object<'js>,
    pub(super) watch: Rc<Watch>,
}

/// What an engine does with what comes to its inbox.
pub(super) type Take<'a, 'js, M> = dyn Fn(&Engine<'js>, M) -> Result<(), Fault> + 'a;

/// Makes an engine, and lends it. It ends with the function.
pub(super) fn with_engine<R>(
    limits: &Limits,
    port: &Rc<impl Port + 'static>,
    run: impl for<'js> FnOnce(&Engine<'js>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let failed = |error: rquickjs::Error| Fault::new(format!("no engine: {error}"));
    let runtime = Runtime::new().map_err(failed)?;
    runtime.set_memory_limit(limits.memory);
    runtime.set_max_stack_size(STACK);
    let watch = Rc::new(Watch::new(limits));
    let looking = Rc::clone(&watch);
    runtime.set_interrupt_handler(Some(Box::new(move || looking.look())));
    let context = Context::full(&runtime).map_err(failed)?;
    context.with(|ctx| {
        // It may be stopped before it has begun.
        let unready = |reason: String| match watch.fired() {
            Some(stop) => Fault::stopped(stop),
            None => Fault::new(format!("no engine: {reason}")),
        };
        let native = native(&ctx, port).map_err(|error| unready(error.to_string()))?;
        let setup = globals(&ctx).map_err(|error| unready(error.to_string()))?;
        let bridge = setup.call((native.clone(),)).catch(&ctx);
        let bridge = bridge.map_err(|error| unready(error.to_string()))?;
        run(&Engine { ctx, native, bridge, watch })
    })
}

/// The function that makes the globals. It is compiled once in a process, which takes three times as long as all else that a
/// call needs of an engine.
#[expect(unsafe_code, reason = "bytecode is trusted, and this is what the same engine wrote")]
fn globals<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Function<'js>> {
    static COMPILED: OnceLock<Vec<u8>> = OnceLock::new();
    let compiled = match COMPILED.get() {
        Some(compiled) => compiled,
        None => {
            let module = Module::declare(ctx.clone(), "hive:globals", GLOBALS)?;
            let compiled = module.write(WriteOptions::default())?;
            COMPILED.get_or_init(|| compiled)
        }
    };
    // SAFETY: the bytes were written by `Module::write` of this very process, and nobody can change them.
    let module = unsafe { Module::load(ctx.clone(), compiled)? };
    module.eval()?.0.get("default")
}

/// The functions behind the globals.
fn native<'js>(ctx: &Ctx<'js>, port: &Rc<impl Port + 'static>) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let began = Instant::now();
    let set = |name: &str, function: rquickjs::Result<Function<'js>>| native.set(name, function?);
    set("now", Function::new(ctx.clone(), move || began.elapsed().as_secs_f64() * 1e3))?;
    let logged = Rc::clone(port);
    set(
        "log",
        Function::new(ctx.clone(), move |level: String, text: String| logged.log(&level, &text)),
    )?;
    let asked = Rc::clone(port);
    let ask = move |ctx: Ctx<'js>, id: u32, method: String, params: String| {
        asked.ask(id, &method, &params).map_err(|why| Exception::throw_type(&ctx, &why))
    };
    set("ask", Function::new(ctx.clone(), ask))?;
    let ended = Rc::clone(port);
    set("end", Function::new(ctx.clone(), move |fine: bool, text: String| ended.end(fine, text)))?;
    let sent = Rc::clone(port);
    set("send", Function::new(ctx.clone(), move |message: String| sent.send(&message)))?;
    // Copied into memory that counts as the engine's.
    let encode = |ctx: Ctx<'js>, text: String| TypedArray::<u8>::new_copy(ctx, text);
    set("encode", Function::new(ctx.clone(), encode))?;
    let decode =
        |ctx: Ctx<'js>, binary: String, fatal: bool| match String::from_utf8(to_bytes(&binary)) {
            Ok(text) => Ok(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned)),
            Err(_) if fatal => Err(Exception::throw_type(&ctx, "the bytes are not utf-8")),
            Err(error) => Ok(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        };
    set("decode", Function::new(ctx.clone(), decode))?;
    let to_base64 = |ctx: Ctx<'js>, binary: String| {
        if binary.chars().any(|letter| u32::from(letter) > 0xff) {
            return Err(Exception::throw_range(
                &ctx,
                "a character is no byte; encode the text first",
            ));
        }
        Ok(STANDARD.encode(to_bytes(&binary)))
    };
    set("toBase64", Function::new(ctx.clone(), to_base64))?;
    let from_base64 = |ctx: Ctx<'js>, text: String| {
        let mut text: String =
            text.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
        while !text.len().is_multiple_of(4) {
            text.push('=');
        }
        let bytes = STANDARD
            .decode(text)
            .map_err(|_| Exception::throw_range(&ctx, "this is not base64"))?;
        rquickjs::Result::Ok(bytes.into_iter().map(char::from).collect::<String>())
    };
    set("fromBase64", Function::new(ctx.clone(), from_base64))?;
    set("readUrl", Function::new(ctx.clone(), |url: String, base: String| read_url(&url, &base)))?;
    let change = |href: String, part: String, value: String| change_url(&href, &part, &value);
    set("changeUrl", Function::new(ctx.clone(), change))?;
    let read_query = |query: String| {
        let pairs: Vec<_> =
            query_url(&query).query_pairs().map(|(name, value)| json!([name, value])).collect();
        Value::from(pairs).to_string()
    };
    set("readQuery", Function::new(ctx.clone(), read_query))?;
    let write_query = |pairs: String| {
        let pairs: Vec<(String, String)> = serde_json::from_str(&pairs).unwrap_or_default();
        let mut url = query_url("");
        url.query_pairs_mut().extend_pairs(pairs);
        url.query().unwrap_or_default().to_owned()
    };
    set("writeQuery", Function::new(ctx.clone(), write_query))?;
    Ok(native)
}

/// The bytes that a text stands for, one for each character.
fn to_bytes(binary: &str) -> Vec<u8> {
    binary.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')).collect()
}

/// An address with this query.
fn query_url(query: &str) -> Url {
    #[expect(clippy::unwrap_used, reason = "a constant")]
    let mut url = Url::parse("http://host/").unwrap();
    url.set_query(Some(query));
    url
}

/// The parts of an address as JSON; nothing if it is none.
fn read_url(url: &str, base: &str) -> String {
    let read = if base.is_empty() {
        Url::parse(url)
    } else {
        Url::parse(base).and_then(|base| base.join(url))
    };
    read.map(|url| parts(&url)).unwrap_or_default()
}

fn parts(url: &Url) -> String {
    let port = url.port().map(|port| port.to_string()).unwrap_or_default();
    let hostname = url.host_str().unwrap_or_default();
    let host = if port.is_empty() { hostname.to_owned() } else { format!("{hostname}:{port}") };
    let marked = |mark: char, part: Option<&str>| match part {
        Some(part) if !part.is_empty() => format!("{mark}{part}"),
        _ => String::new(),
    };
    json!({
        "href": url.as_str(),
        "origin": url.origin().ascii_serialization(),
        "protocol": format!("{}:", url.scheme()),
        "username": url.username(),
        "password": url.password().unwrap_or_default(),
        "host": host,
        "hostname": hostname,
        "port": port,
        "pathname": url.path(),
        "search": marked('?', url.query()),
        "hash": marked('#', url.fragment()),
    })
    .to_string()
}

/// The parts of an address of which one is changed; nothing if it cannot be so.
fn change_url(href: &str, part: &str, value: &str) -> String {
    let Ok(mut url) = Url::parse(href) else { return String::new() };
    let some = (!value.is_empty()).then_some(value);
    let unmarked = |mark: char| some.map(|value| value.strip_prefix(mark).unwrap_or(value));
    let done = match part {
        "href" => Url::parse(value).map(|changed| url = changed).is_ok(),
        "protocol" => url.set_scheme(value.trim_end_matches(':')).is_ok(),
        "username" => url.set_username(value).is_ok(),
        "password" => url.set_password(some).is_ok(),
        "hostname" => url.set_host(some).is_ok(),
        "host" => match value.rsplit_once(':') {
            Some((host, port)) if port.parse::<u16>().is_ok() => {
                url.set_host(Some(host)).is_ok() && url.set_port(port.parse().ok()).is_ok()
            }
            _ => url.set_host(some).is_ok(),
        },
        "port" => match value.parse() {
            Ok(port) => url.set_port(Some(port)).is_ok(),
            Err(_) => value.is_empty() && url.set_port(None).is_ok(),
        },
        "pathname" => {
            url.set_path(value);
            true
        }
        "search" => {
            url.set_query(unmarked('?'));
            true
        }
        "hash" => {
            url.set_fragment(unmarked('#'));
            true
        }
        _ => false,
    };
    if done { parts(&url) } else { String::new() }
}

impl<'js> Engine<'js> {
    /// What an error of the engine was about. The watch knows best why code was stopped.
    pub(super) fn fault(&self, error: rquickjs::Error) -> Fault {
        let caught = CaughtError::from_error(&self.ctx, error);
        if let Some(stop) = self.watch.fired() {
            return Fault::stopped(stop);
        }
        let value = match caught {
            CaughtError::Exception(exception) => exception.into_object().into_value(),
            CaughtError::Value(value) => value,
            CaughtError::Error(error) => return Fault::new(error.to_string()),
        };
        let told = self.bridge.get("told").and_then(|told: Function<'js>| told.call((value,)));
        let told = told.ok().and_then(|told: String| serde_json::from_str(&told).ok());
        told.unwrap_or_else(|| Fault::new("it failed, and what it threw cannot be told"))
    }

    /// Compiles code without running it.
    pub(super) fn compile(&self, name: &str, source: &str) -> Result<Module<'js, Declared>, Fault> {
        Module::declare(self.ctx.clone(), name, source).map_err(|error| self.fault(error))
    }

    /// Runs a module up to the end of its own code.
    pub(super) fn load<M>(
        &self,
        module: Module<'js, Declared>,
        inbox: &Receiver<M>,
        take: &Take<'_, 'js, M>,
    ) -> Result<Object<'js>, Fault> {
        let (module, loaded) = module.eval().map_err(|error| self.fault(error))?;
        self.until(inbox, take, || loaded.state() != PromiseState::Pending)?;
        self.settled(&loaded)?;
        module.namespace().map_err(|error| self.fault(error))
    }

    fn settled(&self, promise: &Promise<'js>) -> Result<(), Fault> {
        match promise.result::<rquickjs::Value<'js>>() {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(self.fault(error)),
            None => Err(Fault::stopped(Stop::Idle)),
        }
    }

    /// Calls a function of the bridge.
    pub(super) fn bridge<A, R>(&self, name: &str, args: A) -> Result<R, Fault>
    where
        A: rquickjs::function::IntoArgs<'js>,
        R: rquickjs::FromJs<'js>,
    {
        let function = self.bridge.get(name);
        let called = function.and_then(|function: Function<'js>| function.call(args));
        called.map_err(|error| self.fault(error))
    }

    /// Runs all that is ready.
    pub(super) fn settle(&self) -> Result<(), Fault> {
        while self.watch.fired().is_none() && self.ctx.execute_pending_job() {}
        match self.watch.fired() {
            Some(stop) => Err(Fault::stopped(stop)),
            None => Ok(()),
        }
    }

    /// Passes an answer on to the code that asked.
    pub(super) fn answer(&self, Answer { id, result }: Answer) -> Result<(), Fault> {
        let (fine, value) = match result {
            Ok(value) => (true, value),
            Err(why) => (false, Value::from(why)),
        };
        self.bridge("answer", (id, fine, value.to_string()))
    }

    /// Runs the timers that are due. Says how long it is until the next.
    pub(super) fn tick(&self) -> Result<Option<Duration>, Fault> {
        let next: f64 = self.bridge("tick", ())?;
        Ok((next >= 0.0).then(|| Duration::from_secs_f64(next.min(1e9) / 1e3)))
    }

    pub(super) fn is_idle(&self) -> Result<bool, Fault> {
        self.bridge("isIdle", ())
    }

    /// Runs until this is so.
    pub(super) fn until<M>(
        &self,
        inbox: &Receiver<M>,
        take: &Take<'_, 'js, M>,
        done: impl Fn() -> bool,
    ) -> Result<(), Fault> {
        loop {
            self.settle()?;
            if done() {
                return Ok(());
            }
            let next = self.tick()?;
            if next == Some(Duration::ZERO) {
                continue;
            }
            if self.is_idle()? {
                return Err(Fault::stopped(Stop::Idle));
            }
            let left = self.watch.deadline.get().saturating_duration_since(Instant::now());
            match inbox.recv_timeout(next.map_or(left, |next| next.min(left))) {
                Ok(mail) => take(self, mail)?,
                Err(RecvTimeoutError::Timeout) => {
                    if self.watch.look() {
                        return Err(Fault::stopped(Stop::Time));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Fault::new("the host is ending"));
                }
            }
        }
    }
}
