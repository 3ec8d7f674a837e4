//! The panic hook: what a part of the program died of stands in the log, free of secrets like any line.

use std::{
    backtrace::Backtrace,
    panic::{self, PanicHookInfo},
    thread,
};

/// From now on panics are log lines, and nothing else is written about them.
///
/// A line has the fields of the span it happens in: team and task, if it was a call of a turn.
pub(super) fn log() {
    panic::set_hook(Box::new(|info| {
        let current = thread::current();
        tracing::error!(
            thread = current.name().unwrap_or("unnamed"),
            place = info.location().map(tracing::field::display),
            backtrace = %Backtrace::force_capture(),
            "panic: {}",
            said(info),
        );
    }));
}

fn said<'a>(info: &'a PanicHookInfo<'_>) -> &'a str {
    info.payload_as_str().unwrap_or("no reason")
}

#[cfg(test)]
mod tests {

    use std::process::Command;

    use serde_json::Value;

    use crate::logging::{self, Secrets};

    /// Set for the process that panics.
    const DIES: &str = "HIVEWRIGHT_TEST_PANICS";
    const SECRET: &str = "sk-open-sesame-0123456789";

    /// OR-96, MV-50: the hook is one for the process, so it is tried in one of its own.
    #[test]
    fn a_panic_is_one_scrubbed_line_of_the_log() {
        if std::env::var_os(DIES).is_some() {
            return die();
        }
        let program = std::env::current_exe().unwrap();
        let output = Command::new(program)
            .args(["logging::panics::tests::a_panic_is_one_scrubbed_line_of_the_log"])
            .args(["--exact", "--nocapture"])
            .env(DIES, "1")
            .output()
            .unwrap();

        let text = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("raw: {text}")))
            .collect();
        let [line] = lines.as_slice() else {
            panic!("{text}");
        };
        assert_eq!(line["level"], "ERROR", "{line}");
        let message = line["message"].as_str().unwrap();
        assert!(message.starts_with("panic: cannot use"), "{line}");
        assert!(!text.contains(SECRET), "{text}");
        assert_eq!(line["thread"], "worker", "{line}");
        assert_eq!(line["span"]["team"], "scouts", "{line}");
        assert_eq!(line["span"]["task"], "task-1", "{line}");
        let place = line["place"].as_str().unwrap();
        assert!(place.contains("panics.rs:"), "{line}");
        let backtrace = line["backtrace"].as_str().unwrap();
        assert!(backtrace.contains("panics::tests::die"), "{line}");
    }

    fn die() {
        let secrets = Secrets::default();
        secrets.learn([SECRET.to_owned()]);
        logging::start("info", secrets);
        let worker = std::thread::Builder::new().name("worker".to_owned());
        let died = worker.spawn(|| {
            tracing::error_span!("turn", team = "scouts", task = "task-1")
                .in_scope(|| panic!("cannot use {SECRET}"))
        });
        let _died = died.unwrap().join();
    }
}
