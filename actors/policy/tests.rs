//! What rules and classes decide.

use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    By, Decision, Request, Role, Subject, Visibility,
    caution::{Caution, Kind, Risk},
    decision::Policy,
    resource::{Mode, Resource, Touch},
    rule::{Condition, Effect, Invalid, Rule, Who},
};
use crate::{clock::Timestamp, tool, wildcard::fits};

mod matching;
mod writing;

const NOW: Timestamp = Timestamp(1_000);

fn rule(id: &str, resource: &str, effect: &str) -> Rule {
    Rule::new(id, resource.parse().unwrap(), effect.parse().unwrap()).check().unwrap()
}

fn glob(pointer: &str, glob: &str) -> Condition {
    Condition { pointer: pointer.to_owned(), equals: None, glob: Some(glob.to_owned()) }
}

fn equals(pointer: &str, equals: Value) -> Condition {
    Condition { pointer: pointer.to_owned(), equals: Some(equals), glob: None }
}

fn person() -> Subject {
    Subject { role: Role::User, user: Some("ws:ann".to_owned()), untrusted: false }
}

fn request<'a>(tool: &'a str, class: &'a str, args: &'a Value, who: &'a Subject) -> Request<'a> {
    Request {
        team: "main",
        tool,
        class,
        effect: tool::Effect::Irreversible,
        args,
        touches: &[],
        uses_secret: false,
        subject: who,
        caution: None,
        now: NOW,
    }
}

fn decide(rules: Vec<Rule>, request: &Request<'_>) -> Decision {
    Policy::new(rules).decide(request)
}

fn by(id: &str) -> By {
    By::Rule(id.to_owned())
}

/// PL-67, TO-28
#[test]
fn deny_wins_over_approval_and_approval_over_allow() {
    let (args, who) = (json!({}), person());
    let call = request("bash", "exec", &args, &who);
    let allow = rule("a", "tool:bash", "allow");
    let ask = rule("b", "class:exec", "require_approval");
    let deny = rule("c", "tool:*", "deny");

    let all = decide(vec![allow.clone(), ask.clone(), deny], &call);
    let two = decide(vec![allow.clone(), ask], &call);
    let one = decide(vec![allow], &call);

    assert_eq!(all, Decision::Deny(by("c")));
    assert!(matches!(two, Decision::Ask(found, _) if found == by("b")));
    assert_eq!(one, Decision::Allow(by("a")));
}

/// PL-67: an allow list is a list.
#[test]
fn what_is_not_on_a_list_of_the_allowed_is_denied() {
    let who = person();
    let when = vec![glob("/command", "git status*")];
    let rules = vec![Rule { when, ..rule("a", "tool:bash", "allow") }];
    let (good, bad) = (json!({"command": "git status -s"}), json!({"command": "rm x"}));

    let on_it = decide(rules.clone(), &request("bash", "exec", &good, &who));
    let beside = decide(rules.clone(), &request("bash", "exec", &bad, &who));
    let elsewhere = decide(rules, &request("read", "file.read", &bad, &who));

    assert_eq!(on_it, Decision::Allow(by("a")));
    assert_eq!(beside, Decision::Deny(By::NoMatchingRule));
    assert_eq!(elsewhere, Decision::Allow(By::Default));
}

/// PL-66, PL-67
#[test]
fn a_list_of_hosts_is_a_list_for_every_tool_that_reaches_one() {
    let (args, who) = (json!({}), person());
    let host = |name: &str| Touch::Host(name.to_owned());
    let reach = |touches: &[Touch]| {
        let rules = vec![rule("a", "host:*.example.com", "allow")];
        let call = Request { touches, ..request("web_fetch", "net.read", &args, &who) };
        decide(rules, &call)
    };

    assert_eq!(reach(&[host("a.example.com")]), Decision::Allow(by("a")));
    assert_eq!(reach(&[host("evil.com")]), Decision::Deny(By::NoMatchingRule));
    assert_eq!(
        reach(&[host("a.example.com"), host("evil.com")]),
        Decision::Deny(By::NoMatchingRule)
    );
}

/// PL-66
#[test]
fn a_folder_can_be_closed_for_writing_alone() {
    let (args, who) = (json!({}), person());
    let rules = vec![Rule { mode: Some(Mode::Write), ..rule("a", "file:docs", "deny") }];
    let touch = |mode| {
        let touches = [Touch::File {
            path: "/w/docs/x".to_owned(),
            inside: Some("docs/x".to_owned()),
            mode,
            deep: false,
        }];
        let call = Request { touches: &touches, ..request("some", "file.read", &args, &who) };
        decide(rules.clone(), &call)
    };

    assert_eq!(touch(Mode::Write), Decision::Deny(by("a")));
    assert_eq!(touch(Mode::Read), Decision::Allow(By::Default));
}

/// PL-66, PL-68
#[test]
fn a_rule_can_be_for_some_people_only() {
    let args = json!({});
    let for_whom = |principal: &str, who: &Subject| {
        let principal = principal.parse().unwrap();
        let rule = Rule { principal, ..rule("a", "tool:bash", "deny") };
        let call = request("bash", "exec", &args, who);
        decide(vec![rule], &call) == Decision::Deny(by("a"))
    };
    let ann = person();
    let misled = Subject { untrusted: true, ..person() };

    let hit = ["any", "role:user", "user:ws:ann"].map(|who| for_whom(who, &ann));
    let missed = ["role:operator", "user:ws:bob", "label:untrusted"].map(|who| for_whom(who, &ann));

    assert_eq!((hit, missed), ([true; 3], [false; 3]));
    assert!(for_whom("label:untrusted", &misled));
}

/// PL-66
#[test]
fn a_rule_that_ran_out_is_not_there() {
    let (args, who) = (json!({}), person());
    let call = request("bash", "exec", &args, &who);
    let until = |end| {
        let rule = Rule { expires_at: Some(end), ..rule("a", "tool:bash", "deny") };
        decide(vec![rule], &call)
    };

    assert_eq!(until(Timestamp(1_001)), Decision::Deny(by("a")));
    assert_eq!(until(NOW), Decision::Allow(By::Default));
}

/// PL-69, PL-70, TO-18 to TO-27, SC-39, SC-42, SC-43
#[test]
fn without_rules_the_class_decides() {
    let args = json!({});
    let trusted = person();
    let untrusted = Subject { untrusted: true, ..person() };
    let asks = |class: &str, effect, who: &Subject| {
        let call = Request { effect, ..request("some", class, &args, who) };
        match decide(Vec::new(), &call) {
            Decision::Allow(By::Default) => None,
            Decision::Ask(By::Default, caution) => Some((caution.kind, caution.risk)),
            other => panic!("{other:?}"),
        }
    };
    use Kind::{Config, SelfChange, Shutdown, Spawn, Tool};
    use Risk::{High, Normal};
    use tool::Effect::{Idempotent, Irreversible, Pure};
    type Found = Option<(Kind, Risk)>;
    let table: [(&str, tool::Effect, Found, Found); 19] = [
        ("file.read", Pure, None, None),
        ("file.write", Idempotent, None, None),
        ("exec", Irreversible, None, None),
        ("net.read", Pure, None, None),
        ("net.write", Irreversible, None, Some((Tool, Normal))),
        ("browser", Irreversible, None, None),
        ("memory", Idempotent, None, None),
        ("vault", Idempotent, None, None),
        ("plugin", Idempotent, None, None),
        ("plugin", Irreversible, None, Some((Tool, Normal))),
        ("mcp", Irreversible, None, Some((Tool, Normal))),
        ("trust", Pure, None, None),
        ("trust", Idempotent, Some((Tool, Normal)), Some((SelfChange, Normal))),
        ("trigger.create_trigger", Idempotent, None, Some((SelfChange, Normal))),
        ("trigger.list_triggers", Pure, None, None),
        ("org.spawn_team", Idempotent, None, Some((Spawn, High))),
        ("org.shutdown_team", Idempotent, Some((Shutdown, Normal)), Some((Shutdown, High))),
        ("org.update_team", Idempotent, None, Some((Config, High))),
        ("org.list_teams", Pure, None, None),
    ];

    for (class, effect, when_trusted, when_untrusted) in table {
        let found = (asks(class, effect, &trusted), asks(class, effect, &untrusted));
        assert_eq!((class, effect, found), (class, effect, (when_trusted, when_untrusted)));
    }
}

/// MV-15, SC-42: what a person relied on does not vanish from prompts at a stranger's word.
#[test]
fn an_untrusted_turn_asks_before_it_deletes_what_is_remembered() {
    let args = json!({"key": "identity"});
    let untrusted = Subject { untrusted: true, ..person() };
    let asks = |tool: &str, who: &Subject| {
        let call = request(tool, "memory", &args, who);
        matches!(decide(Vec::new(), &call), Decision::Ask(..))
    };

    assert!(asks("memory_delete", &untrusted));
    assert!(!asks("memory_delete", &person()));
    assert!(!asks("memory_save", &untrusted));
}

/// SC-42: also files that tell the team what it is.
#[test]
fn an_untrusted_turn_asks_before_it_changes_what_the_team_is() {
    let args = json!({});
    let untrusted = Subject { untrusted: true, ..person() };
    let writes = |inside: &str| {
        let touches = [Touch::File {
            path: format!("/w/{inside}"),
            inside: Some(inside.to_owned()),
            mode: Mode::Write,
            deep: false,
        }];
        let call =
            Request { touches: &touches, ..request("write", "file.write", &args, &untrusted) };
        matches!(decide(Vec::new(), &call), Decision::Ask(..))
    };

    let asked = ["team-rules/a.md", "org-rules/a.md", "skills/x/SKILL.md", "subagents/a.md"];

    assert_eq!(asked.map(writes), [true; 4]);
    assert!(!writes("notes/skills/a.md"));
}

/// OR-62: what the tool itself has against the arguments counts when no rule says otherwise.
#[test]
fn a_caution_of_the_tool_asks_unless_a_rule_allows() {
    let (args, who) = (json!({}), person());
    let caution = Caution::new(Kind::Spawn, Risk::Normal, "tools beyond the list");
    let call = Request {
        caution: Some(caution.clone()),
        ..request("spawn_team", "org.spawn_team", &args, &who)
    };

    let asked = decide(Vec::new(), &call);
    let allowed = decide(vec![rule("a", "tool:spawn_team", "allow")], &call);

    assert_eq!(asked, Decision::Ask(By::Default, caution));
    assert_eq!(allowed, Decision::Allow(by("a")));
}

/// PL-71
#[test]
fn a_tool_that_no_call_could_use_is_hidden() {
    let visibility = |rules: Vec<Rule>| {
        Policy::new(rules).visibility("main", "bash", &["exec"], tool::Effect::Irreversible, NOW)
    };
    let only_some = Rule { principal: Who::Role(Role::Guest), ..rule("a", "tool:bash", "deny") };

    assert_eq!(visibility(vec![rule("a", "tool:ba*", "deny")]), Visibility::Hidden);
    assert_eq!(visibility(vec![rule("a", "class:exec", "deny")]), Visibility::Hidden);
    assert_eq!(visibility(vec![rule("a", "class:exec", "require_approval")]), Visibility::Asks);
    assert_eq!(visibility(vec![only_some]), Visibility::Open);
    assert_eq!(visibility(Vec::new()), Visibility::Open);
}

/// PL-71: a tool with several classes is hidden only if all are closed.
#[test]
fn a_tool_is_shown_while_one_of_its_classes_is_open() {
    let visibility = |rules: Vec<Rule>| {
        let classes = ["net.read", "net.write"];
        Policy::new(rules).visibility(
            "main",
            "web_fetch",
            &classes,
            tool::Effect::Irreversible,
            NOW,
        )
    };
    let (reads, writes) =
        (rule("a", "class:net.read", "deny"), rule("b", "class:net.write", "deny"));

    assert_eq!(visibility(vec![writes.clone()]), Visibility::Open);
    assert_eq!(visibility(vec![reads, writes]), Visibility::Hidden);
}

/// PL-69, PL-71
#[test]
fn a_tool_that_asks_by_default_says_so_until_a_rule_allows_it() {
    let visibility = |rules: Vec<Rule>| {
        let class = ["org.shutdown_team"];
        Policy::new(rules).visibility(
            "main",
            "shutdown_team",
            &class,
            tool::Effect::Idempotent,
            NOW,
        )
    };

    assert_eq!(visibility(Vec::new()), Visibility::Asks);
    assert_eq!(visibility(vec![rule("a", "tool:shutdown_team", "allow")]), Visibility::Open);
}

/// PL-66: nonsense is refused when it is written, with its place.
#[test]
fn a_rule_that_makes_no_sense_is_refused_by_field() {
    let with = |change: &dyn Fn(&mut Rule)| {
        let mut rule = rule("a", "tool:bash", "allow");
        change(&mut rule);
        rule
    };
    let neither = Condition { pointer: "/a".to_owned(), ..Condition::default() };
    let both = Condition { equals: Some(json!(1)), ..glob("/a", "*") };
    let table = [
        (with(&|rule| rule.id.clear()), "id"),
        (with(&|rule| rule.team = "No Team".to_owned()), "team"),
        (with(&|rule| rule.mode = Some(Mode::Read)), "mode"),
        (with(&|rule| rule.quorum = Some(2)), "quorum"),
        (with(&|rule| rule.when = vec![glob("command", "*")]), "when[0].pointer"),
        (with(&|rule| rule.when = vec![glob("/a~2", "*")]), "when[0].pointer"),
        (with(&|rule| rule.when = vec![neither.clone()]), "when[0]"),
        (with(&|rule| rule.when = vec![both.clone()]), "when[0]"),
    ];

    for (rule, field) in table {
        let found = rule.check().map_err(|Invalid { field, .. }| field);
        assert_eq!(found.map(|rule| rule.id), Err(field.to_owned()));
    }
    for resource in ["bash", "class:wrong"] {
        assert!(resource.parse::<Resource>().is_err(), "{resource}");
    }
    for principal in ["role:king", "user:ann"] {
        assert!(principal.parse::<Who>().is_err(), "{principal}");
    }
    assert!("perhaps".parse::<Effect>().is_err());
    assert!("low".parse::<Risk>().is_err());
}

#[test]
fn a_rule_survives_being_stored() {
    let rule = Rule {
        note: "why".to_owned(),
        expires_at: Some(NOW),
        team: "web-*".to_owned(),
        mode: Some(Mode::Read),
        principal: Who::User("ws:ann".to_owned()),
        when: vec![equals("/n", json!({"a": [1]}))],
        risk: Risk::High,
        ..rule("a", "file:docs", "require_approval")
    };

    let stored = serde_json::to_value(&rule).unwrap();

    let expected = json!({
        "id": "a", "note": "why", "expires_at": 1_000, "team": "web-*", "resource": "file:docs",
        "mode": "r", "principal": "user:ws:ann", "when": [{"pointer": "/n", "equals": {"a": [1]}}],
        "effect": "require_approval", "risk": "high",
    });
    assert_eq!(stored, expected);
    assert_eq!(serde_json::from_value::<Rule>(stored).unwrap(), rule);
}

/// What is usual is not stored, but for the team, the person and the mode.
#[test]
fn a_plain_rule_is_stored_as_it_always_was() {
    let plain = rule("a", "file:docs", "deny");

    let stored = json!({
        "id": "a", "team": "*", "resource": "file:docs", "mode": "rw", "principal": "any",
        "effect": "deny",
    });
    assert_eq!(serde_json::to_value(&plain).unwrap(), stored);
    assert_eq!(serde_json::from_value::<Rule>(stored).unwrap(), plain);
}

/// The rules once more, as the specification tells them, without a thought for speed.
fn reference(
    rules: &[Rule],
    team: &str,
    tool: &str,
    class: &str,
    n: i64,
    who: &Subject,
) -> &'static str {
    let about = |rule: &Rule| match rule.resource.to_string().split_once(':').unwrap() {
        ("tool", pattern) => fits(pattern, tool),
        (_, wanted) => wanted == class,
    };
    let concerns = |rule: &&Rule| {
        let alive = rule.expires_at.is_none_or(|end| end > NOW);
        alive && fits(&rule.team, team) && about(rule)
    };
    let meets = |rule: &&Rule| {
        let principal = match rule.principal.to_string().as_str() {
            "any" => true,
            "label:untrusted" => who.untrusted,
            role => role.strip_prefix("role:").unwrap() == who.role.as_str(),
        };
        let true_of = |condition: &Condition| condition.equals == Some(json!(n));
        principal && rule.when.iter().all(true_of)
    };
    let matching: Vec<_> = rules.iter().filter(concerns).filter(meets).collect();
    for (effect, answer) in
        [(Effect::Deny, "deny"), (Effect::RequireApproval, "ask"), (Effect::Allow, "allow")]
    {
        if matching.iter().any(|rule| rule.effect == effect) {
            return answer;
        }
    }
    if rules.iter().filter(concerns).any(|rule| rule.effect == Effect::Allow) {
        return "deny";
    }
    match (class, who.untrusted) {
        ("net.write", true) => "ask",
        _ => "allow",
    }
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let resources = ["tool:bash", "tool:web_*", "tool:*", "class:exec", "class:net.write"];
    let condition = (0..3i64).prop_map(|n| equals("/n", json!(n)));
    (
        select(resources.to_vec()),
        select(vec!["allow", "deny", "require_approval"]),
        select(vec!["main", "web-*", "*"]),
        select(vec!["any", "role:user", "role:system", "label:untrusted"]),
        select(vec![None, Some(Timestamp(500)), Some(Timestamp(5_000))]),
        proptest::collection::vec(condition, 0..2),
    )
        .prop_map(|(resource, effect, team, principal, expires_at, when)| Rule {
            team: team.to_owned(),
            principal: principal.parse().unwrap(),
            expires_at,
            when,
            ..rule("r", resource, effect)
        })
}

proptest! {
    /// PL-67
    #[test]
    fn any_rules_decide_as_the_reference_says(
        rules in proptest::collection::vec(any_rule(), 0..6),
        team in select(vec!["main", "web-shop", "other"]),
        (tool, class) in select(vec![("bash", "exec"), ("web_fetch", "net.write"), ("read", "file.read")]),
        n in 0..3i64,
        role in select(vec![Role::User, Role::System]),
        untrusted in any::<bool>(),
    ) {
        let who = Subject { role, user: None, untrusted };
        let args = json!({"n": n});
        let call = Request { team, ..request(tool, class, &args, &who) };
        let expected = reference(&rules, team, tool, class, n, &who);

        let policy = Policy::new(rules);
        let found = match policy.decide(&call) {
            Decision::Allow(_) => "allow",
            Decision::Deny(_) => "deny",
            Decision::Ask(..) => "ask",
        };

        prop_assert_eq!(found, expected);
        // What is hidden could not have been called.
        let visibility = policy.visibility(team, tool, &[class], tool::Effect::Irreversible, NOW);
        prop_assert!(visibility != Visibility::Hidden || found == "deny");
        prop_assert!(visibility != Visibility::Asks || found != "allow");
    }

    /// PL-66: a rule is either refused or means the same after it was stored.
    #[test]
    fn no_text_breaks_a_rule(resource in ".{0,40}", effect in ".{0,12}", pointer in ".{0,12}") {
        let written = json!({
            "id": "a", "resource": resource, "effect": effect,
            "when": [{"pointer": pointer, "equals": 1}],
        });
        if let Ok(rule) = serde_json::from_value::<Rule>(written)
            && let Ok(rule) = rule.check()
        {
            let stored = serde_json::to_value(&rule).unwrap();
            let read: Rule = serde_json::from_value(stored).unwrap();
            prop_assert_eq!(read.check(), Ok(rule));
        }
    }

    #[test]
    fn no_command_breaks_the_reading_of_it(text in ".{0,60}") {
        if let Some(words) = super::command::words(&text) {
            prop_assert!(!words.is_empty());
            prop_assert!(!text.contains(['|', ';', '&', '>', '<', '$', '`', '\n']) || text.contains(['\'', '"']));
        }
    }
}

#[test]
fn effects_have_the_names_that_rules_are_written_with() {
    let names: Vec<_> = Effect::ALL.iter().map(|effect| json!(effect)).collect();

    assert_eq!(names, ["allow", "deny", "require_approval"]);
}
