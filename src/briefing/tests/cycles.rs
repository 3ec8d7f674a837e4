//! Runs in which a team looks back at itself: what they may do, and how they change a rule.

use hivewright_actors::{
    approvals::requests::{CallRequest, RequestBuilder},
    store::records::Writes,
    task::Cycle,
    tool::{Asking, Checked, Verdict},
};

use super::*;
use crate::{system::sha256, teams::self_changes::ChangeError};

const RULE: &str = "team-rules/work.md";

fn looking_back(cycle: Cycle) -> Options {
    Options { cycle: Some(cycle), ..Options::default() }
}

fn caller_of(task: &str) -> Caller {
    let lane = Lane { team: "scouts".into(), topic: None };
    let (body, from) = (String::new(), "trigger reflection-cycle".to_owned());
    Caller::of(&Task {
        options: looking_back(Cycle::Reflection),
        ..Task::new(task.into(), lane, body, from, Timestamp(0))
    })
}

fn proposal(file: &str) -> ToolCall {
    let args = json!({
        "file_path": file,
        "reason": "work was not checked in task-1 and task-2",
        "old_string": "Work fast.",
        "new_string": "Work fast.\nCheck what you did.",
    });
    ToolCall { id: "c1".into(), name: "propose_change".to_owned(), args: Args::Json(args) }
}

fn context(caller: Caller) -> CallContext {
    CallContext {
        caller: Arc::new(caller),
        label: Label::Trusted,
        turn: "turn-1".into(),
        step: 1,
        key: "turn-1:1:0".to_owned(),
        rerun: false,
        approved: None,
        approved_by: None,
        approved_always: false,
        cancel: CancellationToken::new(),
    }
}

impl Place {
    async fn reflecting(&self) -> Brief {
        let options = looking_back(Cycle::Reflection);
        self.brief_as(options, false).await.unwrap()
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.home.team("scouts").join(file)).unwrap()
    }

    /// A person was asked about this before.
    async fn asked_before(&self, call: &ToolCall, task: &str, at: u64) {
        let ids = Ids::new(Arc::new(Randomness));
        let requests = RequestBuilder::new(ids, sha256, Duration::from_secs(3_600));
        let Args::Json(arguments) = &call.args else {
            return;
        };
        let request = CallRequest {
            caller: &caller_of(task),
            turn: &"turn-0".into(),
            label: Label::Trusted,
            call: "turn-0:1:0",
            tool: "propose_change",
            arguments,
            asking: &Asking::default(),
        };
        let writes = Writes::new().put(&requests.request(request, Timestamp(at)));
        self.store.commit(writes).await.unwrap();
    }
}

fn asking(checked: Result<Checked, ToolReply>) -> Asking {
    match checked.map(|checked| checked.verdict) {
        Ok(Verdict::Ask(asking)) => asking,
        other => panic!("expected a question, got {other:?}"),
    }
}

fn refusal(checked: Result<Checked, ToolReply>) -> Value {
    let reply = checked.expect_err("it was let through");
    serde_json::from_str(&reply.content).unwrap()
}

/// TR-66, TR-67: whoever looks back changes nothing and talks to nobody, whatever the team may do.
#[actix::test]
async fn a_run_that_looks_back_reads_and_remembers() {
    let place = place();
    let names = |brief: &Brief| -> Vec<String> {
        let specs = brief.tools.specs();
        specs.iter().map(|spec| spec.name.clone()).collect()
    };

    let ordinary = names(&place.brief().await);
    let learning = place.brief_as(looking_back(Cycle::Learning), false).await;
    let learning = names(&learning.unwrap());
    let reflecting = names(&place.reflecting().await);
    let called = place.brief_as(looking_back(Cycle::Reflection), true).await;

    let expected = ["bash", "edit", "glob", "grep", "read", "write", "use_skill"];
    let own_tools = ["deprecate_plugin_tool", "register_plugin_tool", "remove_plugin_tool"];
    assert_eq!(ordinary, [expected.as_slice(), own_tools.as_slice()].concat());
    assert_eq!(learning, ["glob", "grep", "read", "use_skill"]);
    assert_eq!(reflecting, ["glob", "grep", "read", "propose_change", "use_skill"]);
    assert_eq!(names(&called.unwrap()), learning);
    let filter = super::super::part::looking_back().unwrap();
    for kept in ["list_completed_tasks", "memory_save", "web_fetch", "vault_get"] {
        assert!(filter.allows(kept), "{kept}");
    }
    for gone in ["delegate_task", "send_message", "create_trigger", "vault_set"] {
        assert!(!filter.allows(gone), "{gone}");
    }
}

/// TR-67: with a diff, applied only after approval, the old text kept, and one act takes it back.
#[actix::test]
async fn a_change_of_a_rule_is_asked_for_made_and_taken_back() {
    let place = place();
    place.write(RULE, "# Work\n\nWork fast.\nBe kind.\n");
    let brief = place.reflecting().await;
    let (call, caller) = (proposal(RULE), caller_of("task-9"));

    let asking = asking(brief.tools.check(&call, &caller, Label::Trusted));
    assert_eq!(place.text(RULE), "# Work\n\nWork fast.\nBe kind.\n");
    let reply = brief.tools.run(call.clone(), context(caller.clone())).await;
    let again = CallContext { rerun: true, ..context(caller) };
    let rerun = brief.tools.run(call, again).await;

    assert_eq!(asking.kind, "self_change");
    assert_eq!(
        asking.summary,
        "Team scouts proposes to change team-rules/work.md, since work was not checked in task-1 and task-2."
    );
    assert_eq!(
        asking.diff.as_deref(),
        Some(
            "--- team-rules/work.md\n+++ team-rules/work.md\n@@ -1,4 +1,5 @@\n # Work\n \n Work fast.\n+Check what you did.\n Be kind.\n"
        )
    );
    assert_eq!(reply.fault, None, "{}", reply.content);
    assert_eq!(rerun, reply);
    assert_eq!(place.text(RULE), "# Work\n\nWork fast.\nCheck what you did.\nBe kind.\n");
    let [change] = &place.changes.list().await.unwrap()[..] else {
        panic!("one change");
    };
    let back = place.changes.roll_back(&change.id, &"ann".into(), "api").await;
    assert_eq!(back.unwrap().rolled_back.unwrap().0, "ann");
    assert_eq!(place.text(RULE), "# Work\n\nWork fast.\nBe kind.\n");
    let twice = place.changes.roll_back(&change.id, &"ann".into(), "api").await;
    assert!(matches!(twice, Err(ChangeError::Again)), "{twice:?}");
}

/// TR-67: what somebody went on from is not taken back over their head.
#[actix::test]
async fn a_file_that_was_changed_since_is_not_rolled_back() {
    let place = place();
    place.write(RULE, "Work fast.\n");
    let brief = place.reflecting().await;
    let caller = caller_of("task-9");
    brief.tools.run(proposal(RULE), context(caller)).await;
    place.write(RULE, "Work as you like.\n");

    let changes = place.changes.list().await.unwrap();
    let back = place.changes.roll_back(&changes[0].id, &"ann".into(), "api").await;

    assert!(matches!(back, Err(ChangeError::MovedOn(_))), "{back:?}");
    assert_eq!(place.text(RULE), "Work as you like.\n");
}

/// TR-67: the same file is not proposed twice in a row, whatever became of the first time; and a run
/// proposes one change.
#[actix::test]
async fn nobody_is_asked_about_the_same_file_twice_in_a_row() {
    let place = place();
    for file in [RULE, "skills/look.md", "skills/tell.md"] {
        place.write(file, "Work fast.\n");
    }
    place.asked_before(&proposal(RULE), "task-8", 1).await;

    let brief = place.reflecting().await;
    let caller = caller_of("task-9");
    let check = |file: &str| brief.tools.check(&proposal(file), &caller, Label::Trusted);
    let same = refusal(check(&format!("./{RULE}")));
    let other = check("skills/look.md");
    let looked_at_again = check("skills/look.md");
    let second = refusal(check("skills/tell.md"));

    assert_eq!(same["error"], "same_file");
    assert_eq!(asking(other).kind, "self_change");
    assert_eq!(asking(looked_at_again).kind, "self_change");
    assert_eq!(second["error"], "limit_proposals");

    // The same after a restart in between.
    place.asked_before(&proposal("skills/look.md"), "task-9", 2).await;
    let brief = place.reflecting().await;
    let third = refusal(brief.tools.check(&proposal(RULE), &caller, Label::Trusted));
    assert_eq!(third["error"], "limit_proposals");
    let next = caller_of("task-10");
    let fourth = brief.tools.check(&proposal(RULE), &next, Label::Trusted);
    assert_eq!(asking(fourth).kind, "self_change");
}

/// TR-67, SC-42: a rule of the operator that asks shows the difference as well, and a turn that read
/// what a stranger wrote asks no less.
#[actix::test]
async fn whoever_asks_the_person_sees_the_difference() {
    let place = place();
    place.write(RULE, "Work fast.\n");
    let brief = place.reflecting().await;

    let checked = brief.tools.check(&proposal(RULE), &caller_of("task-9"), Label::Untrusted);

    let asking = asking(checked);
    assert_eq!(asking.kind, "self_change");
    assert!(asking.summary.contains("untrusted"), "{}", asking.summary);
    assert!(asking.diff.unwrap().contains("+Check what you did."));
}
