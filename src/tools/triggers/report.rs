//! `report_run`: how a run of a trigger says how it went. Turns of triggers have it beside their team's
//! tools, whatever the team is allowed; no other turn does.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    ids::CallId,
    scheduler::{run::Report, trigger::validation::check_cursors},
    task::Label,
    tool::{
        Args, CallContext, Caller, Checked, Effect, REPORT_RUN, ToolCall, ToolReply, Toolset,
        specs::{ToolSpec, ToolSpecs},
    },
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    api::input::Reader,
    tools::{answer, compact_schema, hosted},
};

const LIMIT: Duration = Duration::from_secs(5);

const DESCRIPTION: &str = "Says how this run of the trigger went. Call it once, when you are done; the last call counts. \
    `notify` decides whether a person hears of the run: prefer false when nothing needs their attention.";

static REPORTS: LazyLock<Reader<Report>> = LazyLock::new(Reader::default);

/// The tools of a turn with this one.
pub fn with_report(tools: Arc<dyn Toolset>) -> Arc<dyn Toolset> {
    let spec = ToolSpec {
        name: REPORT_RUN.to_owned(),
        description: DESCRIPTION.to_owned(),
        schema: compact_schema::schema(REPORTS.schema()),
    };
    let specs = Mutex::new(longer(tools.specs(), &spec));
    Arc::new(Reporting { tools, spec, specs })
}

/// What a turn has, and the same with one more.
type Longer = (Arc<ToolSpecs>, Arc<ToolSpecs>);

fn longer(specs: Arc<ToolSpecs>, spec: &ToolSpec) -> Longer {
    let with = specs.iter().cloned().chain([spec.clone()]).collect();
    (specs, Arc::new(with))
}

struct Reporting {
    tools: Arc<dyn Toolset>,
    spec: ToolSpec,
    specs: Mutex<Longer>,
}

fn check(call: &ToolCall) -> Result<Checked, ToolReply> {
    let refuse = |reason: String| {
        let refusal = answer::invalid(reason);
        ToolReply::failed(refusal.fault, refusal.message)
    };
    let args = match &call.args {
        Args::Json(args) => args,
        Args::Unreadable { reason, .. } => {
            return Err(refuse(format!("arguments are not JSON: {reason}")));
        }
    };
    let report =
        REPORTS.json(args.clone()).map_err(|problems| refuse(hosted::reasons(&problems)))?;
    if let Some(cursors) = &report.cursors {
        check_cursors(cursors).map_err(|problem| refuse(problem.to_string()))?;
    }
    Ok(Checked::allowed(Effect::Idempotent, false, LIMIT))
}

impl Toolset for Reporting {
    fn specs(&self) -> Arc<ToolSpecs> {
        let (now, mut known) = (self.tools.specs(), self.specs.lock());
        if !Arc::ptr_eq(&known.0, &now) {
            *known = longer(now, &self.spec);
        }
        Arc::clone(&known.1)
    }

    fn clean(&self, call: &ToolCall) -> Option<Value> {
        self.tools.clean(call)
    }

    fn settled(&self, call: &CallId, tool: &str, caller: &Caller) {
        self.tools.settled(call, tool, caller);
    }

    fn check(&self, call: &ToolCall, caller: &Caller, label: Label) -> Result<Checked, ToolReply> {
        if call.name == REPORT_RUN { check(call) } else { self.tools.check(call, caller, label) }
    }

    fn recheck(
        &self,
        call: &ToolCall,
        caller: &Caller,
        label: Label,
    ) -> Result<Checked, ToolReply> {
        if call.name == REPORT_RUN { check(call) } else { self.tools.recheck(call, caller, label) }
    }

    fn run(&self, call: ToolCall, cx: CallContext) -> BoxFuture<'static, ToolReply> {
        if call.name != REPORT_RUN {
            return self.tools.run(call, cx);
        }
        // The turn keeps what was said, and it becomes durable with the turn's outcome.
        let content = answer::ok(serde_json::json!({}));
        Box::pin(std::future::ready(ToolReply { content, ..ToolReply::default() }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(args: Value) -> Result<Checked, ToolReply> {
        check(&ToolCall { id: "c1".into(), name: REPORT_RUN.to_owned(), args: Args::Json(args) })
    }

    /// TR-45
    #[test]
    fn a_report_has_its_bounds() {
        let good = json!({
            "notify": false, "outcome": "noop", "reason": "nothing new", "cursors": {"last_scan": "7"},
        });
        assert!(checked(good).is_ok());
        for (bad, part) in [
            (json!({"notify": "no", "outcome": "ok"}), "notify"),
            (json!({"notify": true, "outcome": "fine"}), "outcome"),
            (json!({"notify": true}), "outcome"),
            (json!({"notify": true, "outcome": "ok", "reason": "x".repeat(501)}), "reason"),
            (json!({"notify": true, "outcome": "ok", "cursors": {"a b": ""}}), "cursors"),
            (json!({"notify": true, "outcome": "ok", "noise": 1}), "noise"),
        ] {
            let reply = checked(bad).err().map(|reply| reply.content);
            assert!(reply.is_some_and(|text| text.contains(part)), "{part}");
        }
    }
}
