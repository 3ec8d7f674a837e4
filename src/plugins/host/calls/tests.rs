use std::sync::mpsc::channel;

use serde_json::json;

use super::*;
use crate::plugins::host::engine::Stop;

/// Where an engine of a test writes what it would say to the service.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl io::Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn limits(time: Duration) -> CallLimits {
    let time_ms = u64::try_from(time.as_millis()).unwrap();
    CallLimits { time_ms, cpu_ms: 10_000, fetches: 2 }
}

/// Runs on a thread like those of the host.
fn within_thread<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(THREAD_STACK);
        thread.spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

/// Runs a call in an engine that waited for it.
fn made(source: &str, input: Option<Value>, time: Duration, stop: Arc<AtomicBool>) -> FromHost {
    within_thread(|| {
        let (sender, inbox) = channel();
        for ask in 1..=2 {
            let answer =
                json!({ "status": 200, "headers": { "A": "b" }, "body_base64": "eyJhIjoxfQ==" });
            sender.send(Answer { id: ask, result: Ok(answer) }).unwrap();
        }
        let job = Job { id: 1, source: source.to_owned(), input, limits: limits(time), inbox };
        let (port, output) = (Rc::<CallPort>::default(), Output::new(Said::default()));
        let made = with_engine(&waiting(32 << 20, stop), &port, |engine| {
            Ok(call(engine, job, &port, &output))
        });
        made.unwrap_or_else(|fault| FromHost::Done {
            id: 1,
            outcome: Outcome::Failed(fault),
            console: String::new(),
        })
    })
}

/// A call, and what it wrote to its console. Requests are answered with their addresses.
fn run_for(source: &str, input: Option<Value>, time: Duration) -> (Outcome, String) {
    match made(source, input, time, Arc::default()) {
        FromHost::Done { outcome, console, .. } => (outcome, console),
        other => panic!("{other:?}"),
    }
}

fn run(body: &str) -> Outcome {
    let source = format!("export async function execute(input) {{ {body} }}");
    run_for(&source, Some(json!({ "n": 3 })), Duration::from_secs(20)).0
}

fn returned(text: &str) -> Outcome {
    Outcome::Returned(text.to_owned())
}

fn fault(outcome: Outcome) -> Fault {
    match outcome {
        Outcome::Failed(fault) | Outcome::Unreadable(fault) => fault,
        other => panic!("{other:?}"),
    }
}

/// TO-126
#[test]
fn what_a_function_returns_is_text_or_json() {
    assert_eq!(run("return 'plain'"), returned("plain"));
    assert_eq!(run("return { twice: input.n * 2 }"), returned(r#"{"twice":6}"#));
    assert_eq!(run("return undefined"), returned(""));
    assert_eq!(run("return '\\ud800'"), returned("\u{fffd}"));
    let cycle = fault(run("const a = {}; a.a = a; return a"));
    assert!(cycle.message.starts_with("TypeError: circular"), "{cycle}");
}

/// TO-124, PL-45
#[test]
fn the_globals_are_there_and_no_others() {
    let answers = [
        ("return new URL('../b?x=1#h', 'https://a.org/c/d').href", "https://a.org/b?x=1#h"),
        ("const u = new URL('https://a.org'); u.searchParams.set('q', 'a b'); u.port = '8080'; return u.href", "https://a.org:8080/?q=a+b"),
        ("return new URLSearchParams({ a: '1', b: 'ä' }).toString()", "a=1&b=%C3%A4"),
        ("return [...new URLSearchParams('?a=1&a=2').getAll('a')].join()", "1,2"),
        ("return new TextDecoder().decode(new TextEncoder().encode('häß 🐝'))", "häß 🐝"),
        ("return btoa('abc') + atob('YWJj')", "YWJjabc"),
        ("return await new Promise((done) => setTimeout(done, 5, 'later'))", "later"),
        ("const r = await fetch('https://a.org'); return `${r.ok} ${r.headers.get('a')} ${(await r.json()).a}`", "true b 1"),
        (
            "return ['eval', 'require', 'process', 'std', 'os', 'Deno', 'XMLHttpRequest', 'WebAssembly', 'Worker', 'import']
                .filter((name) => name in globalThis).join()",
            "",
        ),
    ];
    for (body, expected) in answers {
        assert_eq!(run(body), returned(expected), "{body}");
    }
}

/// PL-45: code is what was checked, and nothing that it makes of text.
#[test]
fn no_code_is_made_from_text() {
    let attempts = [
        "Function('return 1')()",
        "new Function('return 1')",
        "(() => {}).constructor('return 1')()",
        "(async () => {}).constructor('return 1')()",
        "(function* () {}).constructor('yield 1')()",
        "(async function* () {}).constructor('yield 1')()",
        "Reflect.construct(Object.getPrototypeOf(class {}).constructor, ['return 1'])",
        "globalThis.eval('1')",
        "eval('1')",
        "setTimeout('1')",
        "await import('std')",
        "await import('./other.js')",
    ];
    for attempt in attempts {
        let fault = fault(run(&format!("return {attempt}")));
        assert_eq!(fault.stop, None, "{attempt}: {fault}");
    }
}

/// PL-46, TO-123: each of these ends its own call, with the reason.
#[test]
fn limits_hold() {
    let soon = Duration::from_millis(300);
    let stopped = |body: &str| {
        let source = format!("export async function execute() {{ {body} }}");
        fault(run_for(&source, Some(json!({})), soon).0)
    };

    assert_eq!(stopped("for (;;) {}").stop, Some(Stop::Time));
    assert_eq!(
        stopped("try { for (;;) {} } catch { for (;;) {} } finally { for (;;) {} }").stop,
        Some(Stop::Time)
    );
    // Each promise is forgotten before the next, so that time is the only limit it meets.
    let without_end =
        "const on = () => { Promise.resolve().then(on) }; on(); await new Promise(() => {})";
    assert_eq!(stopped(without_end).stop, Some(Stop::Time));
    assert_eq!(stopped("return /(a+)+$/.test('a'.repeat(64) + 'b')").stop, Some(Stop::Time));
    assert_eq!(
        stopped("await new Promise((done) => setTimeout(done, 60000))").stop,
        Some(Stop::Time)
    );
    // Known at once, however much time is left.
    assert_eq!(fault(run("await new Promise(() => {})")).stop, Some(Stop::Idle));
    for greedy in [
        "const all = []; for (;;) all.push(new Array(1000).fill(1))",
        "const all = []; for (;;) all.push(new TextEncoder().encode('x'.repeat(1e5)))",
        "return new Uint8Array(10 * 2 ** 30).length",
        "let text = 'x'; for (;;) text += text + 'y'",
    ] {
        let fault = fault(run(greedy));
        assert_eq!(fault.stop, None, "{greedy}: {fault}");
        assert!(
            ["memory", "length", "long"].iter().any(|word| fault.message.contains(word)),
            "{greedy}: {fault}"
        );
    }
    let deep = fault(run("const deeper = () => 1 + deeper(); return deeper()"));
    assert!(deep.message.contains("stack"), "{deep}");
    assert_eq!(run("return 1"), returned("1"));
}

/// TO-124
#[test]
fn a_console_is_cut_and_requests_are_counted() {
    let flood = "export const execute = () => { for (let i = 0; i < 1e5; i++) console.log('line', { i }); return 'done' }";
    let (outcome, console) = run_for(flood, Some(json!({})), Duration::from_secs(20));
    assert_eq!(outcome, returned("done"));
    assert!(
        console.starts_with("info: line {\"i\":0}\ninfo: line {\"i\":1}\n"),
        "{}",
        &console[..80]
    );
    assert!(console.ends_with("… (the console is cut here)\n") && console.len() < 17 << 10);

    let third = fault(run("await fetch('a:b'); await fetch('a:b'); await fetch('a:b')"));
    assert!(third.message.contains("no more requests"), "{third}");
}

/// TO-113, TO-116
#[test]
fn a_look_tells_what_a_module_offers_or_where_it_is_wrong() {
    let look = |source: &str| run_for(source, None, Duration::from_secs(20)).0;
    let source = "export const description = 'A';\nexport const inputSchema = { type: 'object' };\n\
        export const hosts = ['a.org'];\nexport function execute() {}\nexport default 1;";

    let Outcome::Offers(offer) = look(source) else { panic!() };
    assert_eq!(offer.description, "A");
    assert_eq!(offer.input_schema, json!({ "type": "object" }));
    assert_eq!(offer.hosts, json!(["a.org"]));
    assert_eq!(offer.types["execute"], "function");
    assert_eq!(offer.types["default"], "number");
    let Outcome::Unreadable(fault) = look("export const a = 1;\nexport let b: string = '';") else {
        panic!()
    };
    assert_eq!(fault.line, Some(2), "{fault}");
    let Outcome::Failed(fault) = look("const a = 1;\n\nthrow new Error('no');") else { panic!() };
    assert_eq!((fault.line, fault.message.as_str()), (Some(3), "Error: no"));
    let Outcome::Unreadable(fault) = look("import fs from 'fs';") else { panic!() };
    assert!(fault.message.contains("fs"), "{fault}");
}

/// What makes the globals makes them once, whoever asks.
#[test]
fn globals_are_made_by_nobody_else() {
    let source =
        "import make from 'hive:globals';\nexport const execute = () => make({ log() {} });";
    let outcome = run_for(source, Some(json!({})), Duration::from_secs(20)).0;
    assert!(fault(outcome).message.contains("there are globals already"));
}

/// A call that nobody waits for any more ends.
#[test]
fn a_call_can_be_stopped() {
    let stop = Arc::new(AtomicBool::new(true));
    let source = "export const execute = () => { for (;;) {} }";
    let outcome = made(source, Some(json!({})), Duration::from_secs(60), stop);

    let FromHost::Done { outcome, .. } = outcome else { panic!() };
    assert_eq!(fault(outcome).stop, Some(Stop::Time));
}

/// Passes lines on to the test.
struct Told(Sender<FromHost>);

impl io::Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.send(serde_json::from_slice(bytes).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// TO-123: no call finds what one before it left, and one that is stopped harms none that comes later.
#[test]
fn each_call_has_an_engine_that_nobody_used() {
    let (lines, given) = channel::<String>();
    let (told, heard) = channel();
    let serving = std::thread::spawn(move || {
        serve(32 << 20, given.into_iter().map(Ok), &Output::new(Told(told)));
    });
    let run = |id: u64, body: &str| {
        let source = format!("export const execute = () => {{ {body} }}");
        let limits = limits(Duration::from_secs(60));
        let run = ToHost::Run { id, source, input: json!({}), limits };
        lines.send(serde_json::to_string(&run).unwrap()).unwrap();
    };
    let done = || match heard.recv_timeout(Duration::from_secs(60)).unwrap() {
        FromHost::Done { id, outcome, .. } => (id, outcome),
        other => panic!("{other:?}"),
    };
    let count = "globalThis.count = (globalThis.count ?? 0) + 1; return globalThis.count;";

    let mut counted = Vec::new();
    for id in 1..=3 {
        run(id, count);
        counted.push(done());
    }
    run(4, "for (;;) {}");
    lines.send(serde_json::to_string(&ToHost::Stop { id: 4 }).unwrap()).unwrap();
    let (_, stopped) = done();
    run(5, count);
    counted.push(done());
    drop(lines);
    serving.join().unwrap();

    assert_eq!(counted, [1, 2, 3, 5].map(|id| (id, returned("1"))));
    assert_eq!(fault(stopped).stop, Some(Stop::Time));
}
