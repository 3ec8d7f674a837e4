//! Tools whose names say what they do.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;

use crate::{
    task::Label,
    tool::{
        CallContext, Caller, Checked, Effect, ToolCall, ToolFault, ToolReply, ToolSpec, Toolset,
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
/// `deaf` does not stop when told, `bomb` panics, `mine` panics already when it is looked at.
#[derive(Clone, Default)]
pub(crate) struct Tools {
    pub(crate) runs: Arc<Mutex<Vec<Run>>>,
    pub(crate) ended: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn checked(name: &str) -> Result<Checked, ToolReply> {
    let effect = match name.trim_start_matches("slow-") {
        "look" | "alone" | "deaf" | "bomb" => Effect::Pure,
        "save" | "report_run" => Effect::Idempotent,
        "pay" => Effect::Irreversible,
        _ => return Err(ToolReply::failed(ToolFault::NotAvailable, "no such tool")),
    };
    Ok(Checked::allowed(
        effect,
        name == "alone",
        Duration::from_secs(120),
    ))
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
            if call.name.starts_with("slow-") {
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
