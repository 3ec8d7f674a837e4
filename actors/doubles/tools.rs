//! Tools whose names say what they do.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;

use crate::{
    task::Label,
    tool::{
        Asking, CallContext, Caller, Checked, Effect, ToolCall, ToolFault, ToolReply, ToolSpec,
        Toolset, Verdict,
    },
};

/// A run of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) rerun: bool,
}

/// `look` is pure, `save` idempotent, `pay` irreversible, `alone` exclusive; `slow…` takes a minute,
/// `deaf` does not stop when told, `bomb` panics, `mine` panics already when it is looked at; before
/// `ask-…` a person decides.
#[derive(Clone, Default)]
pub(crate) struct Tools {
    pub(crate) runs: Arc<Mutex<Vec<Run>>>,
    pub(crate) ended: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn checked(name: &str) -> Result<Checked, ToolReply> {
    let effect = match name.trim_start_matches("ask-").trim_start_matches("slow-") {
        "look" | "alone" | "deaf" | "bomb" => Effect::Pure,
        "save" => Effect::Idempotent,
        "pay" => Effect::Irreversible,
        _ => return Err(ToolReply::failed(ToolFault::NotAvailable, "no such tool")),
    };
    let allowed = Checked::allowed(effect, name == "alone", Duration::from_secs(120));
    let verdict = match name.starts_with("ask-") {
        true => Verdict::Ask(Asking {
            kind: "tool".to_owned(),
            summary: "It is about to happen.".to_owned(),
            ..Asking::default()
        }),
        false => Verdict::Allow,
    };
    Ok(Checked { verdict, ..allowed })
}

impl Toolset for Tools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::new([])
    }

    fn check(&self, call: &ToolCall, _: &Caller, _: Label) -> Result<Checked, ToolReply> {
        assert_ne!(call.name, "mine", "a check that panics");
        checked(&call.name)
    }

    fn run(&self, call: ToolCall, cx: CallContext) -> BoxFuture<'static, ToolReply> {
        self.runs.lock().unwrap().push(Run {
            id: call.id.as_str().to_owned(),
            key: cx.key,
            rerun: cx.rerun,
        });
        let ended = self.ended.clone();
        Box::pin(async move {
            let _ended = Ended(call.id.as_str().to_owned(), ended);
            assert_ne!(call.name, "bomb", "a tool that panics");
            if call.name == "deaf" {
                std::future::pending::<()>().await;
            }
            if call.name.contains("slow-") {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(60)) => {}
                    () = cx.cancel.cancelled() => {
                        return ToolReply::failed(ToolFault::Cancelled, "cancelled");
                    }
                }
            }
            ToolReply {
                content: format!("{} did", call.id),
                fault: None,
                truncated: false,
                taints: false,
            }
        })
    }
}

/// Notes that a run is over, also when it is dropped.
struct Ended(String, Arc<Mutex<Vec<String>>>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.clone());
    }
}
