//! The operator's rules over the tools of a team.

use actix::{Arbiter, AsyncContext, Context};
use hivewright_actors::{
    approvals::grants::{Covers, Grant},
    doubles::disk::MemoryStorage,
    ids::Ids,
    policy::{
        Subject,
        resource::Mode,
        rule::{Rule, Who},
    },
    storage::Storage,
    store::{Store, StoreParts, records::Writes},
    task::cause::Cause,
    tool::{Asking, Verdict},
};

use super::*;
use crate::{
    policy::Policies,
    settings::{live::Live, tests::place},
    system::Randomness,
    tools::{
        judge::{Opening, Sight},
        reach::Reach,
    },
};

fn rule(effect: &str, resource: &str) -> Rule {
    let id = format!("{effect}-{}", resource.replace([':', '*', ' '], "-"));
    Rule::new(&id, resource.parse().unwrap(), effect.parse().unwrap()).check().unwrap()
}

fn bench(rules: &[Rule]) -> Bench {
    Bench::with_rules(Policies::fixed(rules.to_vec()))
}

fn names(bench: &Bench) -> Vec<String> {
    bench.tools.specs().iter().map(|spec| spec.name.clone()).collect()
}

fn asking(bench: &Bench, call: &ToolCall, label: Label) -> Option<Asking> {
    match bench.tools.check(call, &caller(), label).unwrap().verdict {
        Verdict::Allow => None,
        Verdict::Ask(asking) => Some(asking),
    }
}

fn write(path: &str) -> ToolCall {
    call("write", json!({"file_path": path, "content": "x"}))
}

fn bash(command: &str) -> ToolCall {
    call("bash", json!({"command": command}))
}

/// PL-71, TO-28
#[tokio::test]
async fn a_denied_tool_is_neither_shown_nor_callable() {
    let bench = bench(&[rule("deny", "class:file.write")]);

    let ran = bench.call("write", json!({"file_path": "a", "content": "x"})).await;

    assert_eq!(names(&bench), ["bash", "glob", "grep", "read"]);
    assert_eq!(ran.fault, Some(ToolFault::NotAvailable));
    assert!(!bench.path("a").exists());
}

/// PL-71
#[test]
fn a_tool_that_asks_says_so_in_its_description() {
    let bench = bench(&[rule("require_approval", "tool:bash")]);

    let specs = bench.tools.specs();
    let asks = |name: &str| {
        let spec = specs.iter().find(|spec| spec.name == name).unwrap();
        spec.description.ends_with("(asks the operator)")
    };

    assert!(asks("bash"));
    assert!(!asks("read"));
}

/// TO-10: visible by policy → schema → policy on the final arguments.
#[test]
fn a_call_that_fits_no_schema_is_refused_before_anyone_is_asked() {
    let bench = bench(&[rule("require_approval", "tool:bash")]);

    let refused = bench.look(&call("bash", json!({"cmd": "ls"}))).unwrap_err();

    assert_eq!(refused.fault, Some(ToolFault::InvalidArguments));
}

/// PL-66, PL-67
#[test]
fn a_rule_about_arguments_asks_for_those_alone() {
    let bench = bench(&[rule("require_approval", "exec:git push")]);

    let pushed = asking(&bench, &bash("git push origin main"), Label::Trusted).unwrap();

    assert_eq!(pushed.kind, "tool");
    assert_eq!(pushed.rule, "require_approval-exec-git-push");
    assert!(!pushed.high_risk);
    assert_eq!(
        pushed.cwd,
        Some(bench.path("").display().to_string().trim_end_matches('/').to_owned())
    );
    assert_eq!(asking(&bench, &bash("git status"), Label::Trusted), None);
    assert!(asking(&bench, &bash("cd x && git status"), Label::Trusted).is_some(), "hidden");
}

/// PL-67: deny is a refusal, and what is refused does not run.
#[tokio::test]
async fn a_denied_call_is_refused_with_the_rule_that_denies_it() {
    let closed = Rule { mode: Some(Mode::Write), ..rule("deny", "file:docs") };
    let bench = bench(&[closed]);
    std::fs::create_dir(bench.path("docs")).unwrap();

    let refused = bench.look(&write("docs/a")).unwrap_err();
    let ran = bench.call("write", json!({"file_path": "./docs/../docs/a", "content": "x"})).await;
    let beside = bench.call("write", json!({"file_path": "a", "content": "x"})).await;

    assert_eq!(refused.fault, Some(ToolFault::Denied));
    assert!(refused.content.contains("`deny-file-docs`"), "{}", refused.content);
    assert_eq!(ran.fault, Some(ToolFault::Denied));
    assert!(!bench.path("docs/a").exists());
    assert_eq!(beside.fault, None);
}

/// PL-67, TO-124: whoever agrees to a call of a team's own tool agrees to the hosts that it was taken with, and to no host
/// that another rule asks about.
#[test]
fn a_call_that_was_agreed_to_goes_to_all_hosts_of_its_tool() {
    let admitted = |effect: &str, resource: &str| {
        let dir = tempfile::tempdir().unwrap();
        let rules = Policies::fixed(vec![rule(effect, resource)]);
        let grant = Bench::grant(&dir, &["*"], Vault::absent(), rules, Team::new("team"));
        let reaches = ["one.org", "two.org", "wild.org"].map(|host| Reach::Host(host.to_owned()));
        let about = About::new("plugin", "@plugins", "plugin", Effect::Irreversible);
        let sight = Sight::new("team.ask", about, reaches.to_vec());
        let subject = Subject::of(&Cause::System, Label::Trusted);
        let opening = Opening::of(sight, &json!({}), subject, &grant).unwrap();
        ["one.org", "two.org", "a.wild.org"].map(|host| opening.admit_declared(host).is_ok())
    };

    assert_eq!(admitted("require_approval", "tool:team.ask"), [true, true, true]);
    assert_eq!(admitted("require_approval", "host:two.org"), [true, true, true]);
    assert_eq!(admitted("require_approval", "host:*.wild.org"), [true, true, false]);
    assert_eq!(admitted("deny", "host:two.org"), [true, false, true]);
}

/// A link is no way around a rule.
#[test]
fn a_rule_about_a_folder_holds_on_every_way_there() {
    let bench = bench(&[rule("deny", "file:private")]);
    std::fs::create_dir(bench.path("private")).unwrap();
    std::os::unix::fs::symlink("private", bench.path("open")).unwrap();
    let read = call("read", json!({"file_path": "open/a"}));
    let search = call("grep", json!({"pattern": "x", "path": "."}));
    let other = call("grep", json!({"pattern": "x", "path": "docs"}));

    let fault = |call: &ToolCall| bench.look(call).err().and_then(|reply| reply.fault);

    assert_eq!(fault(&read), Some(ToolFault::Denied));
    assert_eq!(fault(&search), Some(ToolFault::Denied));
    assert_eq!(fault(&other), None);
}

/// PL-67: an allow list is a list.
#[test]
fn what_is_not_on_a_list_is_denied() {
    let bench = bench(&[rule("allow", "exec:git *")]);

    let listed = asking(&bench, &bash("git log"), Label::Trusted);
    let refused = bench.look(&bash("rm x")).unwrap_err();

    assert_eq!(listed, None);
    assert_eq!(refused.fault, Some(ToolFault::Denied));
    assert!(refused.content.contains("not on the list"), "{}", refused.content);
}

/// SC-42
#[test]
fn an_untrusted_turn_asks_before_it_changes_what_the_team_is() {
    let bench = bench(&[]);
    std::fs::create_dir(bench.path("team-rules")).unwrap();

    let asked = asking(&bench, &write("team-rules/new.md"), Label::Untrusted).unwrap();

    assert_eq!(asked.kind, "self_change");
    assert_eq!(asking(&bench, &write("team-rules/new.md"), Label::Trusted), None);
    assert_eq!(asking(&bench, &write("notes.md"), Label::Untrusted), None);
}

/// PL-68: the rule looks at who is behind the stored task.
#[test]
fn a_rule_for_some_people_looks_at_whoever_caused_the_task() {
    let guests =
        Rule { principal: Who::User("discord:42".to_owned()), ..rule("deny", "tool:bash") };
    let bench = bench(&[guests]);
    let by = |channel_type: &str, id: &str| {
        let caller = Caller { cause: Cause::sender(channel_type, id), ..caller() };
        bench.tools.check(&bash("ls"), &caller, Label::Trusted).is_ok()
    };

    assert_eq!((by("discord", "42"), by("discord", "43"), by("ws", "42")), (false, true, true));
    assert!(names(&bench).contains(&"bash".to_owned()), "others may use it");
}

/// PL-73: what a rule forbids after a call was looked at does not run any more.
#[tokio::test]
async fn a_rule_that_came_meanwhile_stops_a_call_that_was_let_through() {
    let rules = Policies::default();
    let bench = Bench::with_rules(rules.clone());
    let before = bench.look(&write("a")).is_ok();

    rules.fix(vec![rule("deny", "tool:write")]);
    let ran = bench.call("write", json!({"file_path": "a", "content": "x"})).await;

    assert!(before);
    assert_eq!(ran.fault, Some(ToolFault::Denied));
    assert!(!bench.path("a").exists());
}

/// TO-18 to TO-27: a tool without a class would pass by every rule about classes.
#[actix::test]
async fn every_tool_has_a_class_that_rules_know() {
    let (approvals, router) = (Context::new().address(), Context::new().address());
    let toolbox = crate::tools::all()
        .with(crate::tools::ask_operator::made(&approvals))
        .with(crate::tools::triggers::made(&super::triggers::admin()))
        .with(crate::tools::trust::made(&router))
        .with(crate::tools::vault::made())
        .with(crate::tools::web::made(&crate::tools::web::Web::default()));

    are_known(&toolbox);
    for About { name, class, other_class, .. } in REGISTRY.abouts() {
        for class in [*class].into_iter().chain(*other_class) {
            assert_eq!((name, hivewright_actors::policy::class::check(class)), (name, Ok(())));
        }
    }
}

/// The registry has these tools.
pub(crate) fn are_known(toolbox: &Toolbox) {
    for About { name, keys, group, .. } in toolbox.abouts() {
        assert!(REGISTRY.members(group).any(|known| known == keys), "{name}");
    }
}

/// SE-51: a key in two lists would be two tools in settings, and one for models.
#[test]
fn the_registry_lists_each_tool_once() {
    let mut keys: Vec<_> = REGISTRY.keys().collect();
    keys.sort_unstable();

    let twice: Vec<_> = keys.windows(2).filter(|pair| pair[0] == pair[1]).collect();

    assert_eq!(twice, [] as [&[&str]; 0]);
}

/// PL-83: a granted call runs without asking, once its use is durable; the next one asks again, and
/// whatever is forbidden stays so.
#[actix::test]
async fn a_grant_takes_the_place_of_a_decision() {
    let asks = [rule("require_approval", "tool:write")];
    let asked = asking(&bench(&asks), &write("a"), Label::Trusted).unwrap();
    let grant = Grant {
        id: "grant-1".to_owned(),
        covers: Covers {
            team: caller().team,
            tool: "write".to_owned(),
            schema: asked.schema.clone(),
            arguments: json!({"file_path": "a", "content": "x"}),
            cwd: asked.cwd,
            secrets: asked.secrets,
            untrusted: false,
        },
        approval: "apr-1".into(),
        granted_by: "ann".to_owned(),
        created_at: Timestamp(0),
        expires_at: None,
        uses: Some(1),
    };
    let storage = Arc::new(MemoryStorage::default());
    let writes = Writes::new().put(&grant);
    storage.commit(&writes.batch().unwrap()).unwrap();
    let store = Store::start(&Arbiter::current(), StoreParts::of(storage.clone()));
    let place = place();
    let book = |effect: &str| {
        let live = Live::new(place.home.clone(), place.environment.clone());
        let ids = Ids::new(Arc::new(Randomness));
        let book = Policies::open(Some(live), &*storage, store.clone(), ids).unwrap();
        let rules = [rule("require_approval", "tool:write"), rule(effect, "tool:write")];
        book.fix(rules.into());
        Bench::with_rules(book)
    };
    let bench = book("require_approval");
    let named = |id: &str, path: &str| ToolCall { id: id.into(), ..write(path) };
    let checked = |call: ToolCall, label| bench.tools.check(&call, &caller(), label).unwrap();

    // Somebody has decided on that one: it asks no grant.
    let decided = bench.tools.recheck(&named("c0", "a"), &caller(), Label::Trusted).unwrap();
    let other = checked(named("c1", "b"), Label::Trusted);
    let tainted = checked(named("c2", "a"), Label::Untrusted);
    let granted = checked(named("c3", "a"), Label::Trusted);
    let again = checked(named("c3", "a"), Label::Trusted);
    let next = checked(named("c4", "a"), Label::Trusted);
    let denied = book("deny").tools.check(&named("c5", "a"), &caller(), Label::Trusted);

    assert!(!asked.schema.is_empty());
    for held in [decided, other, tainted, next] {
        assert!(matches!(held.verdict, Verdict::Ask(_)) && held.stow.is_none());
    }
    for free in [granted, again] {
        assert_eq!(free.verdict, Verdict::Allow);
        let kept = free.stow.unwrap().keep().await.unwrap();
        storage.commit(&kept.writes.batch().unwrap()).unwrap();
    }
    assert!(denied.is_err());
    // After a restart the use still counts.
    let later = book("require_approval");
    assert!(asking(&later, &named("c6", "a"), Label::Trusted).is_some());
    assert!(asking(&later, &named("c3", "a"), Label::Trusted).is_none());
}
