//! Which calls a rule fits, and what it says of a tool before any call.

use super::*;
use crate::task::{Label, cause::Cause};

fn file(inside: &str, mode: Mode) -> Touch {
    Touch::File { path: format!("/w/{inside}"), inside: Some(inside.to_owned()), mode, deep: false }
}

/// PL-66: numbers are the same by what they mean; lists and objects by all that is in them.
#[test]
fn a_condition_compares_values() {
    let who = person();
    let fits = |wanted: &Value, found: &Value| {
        let when = vec![equals("/n", wanted.clone())];
        let rule = Rule { when, ..rule("a", "tool:bash", "deny") };
        let args = json!({"n": found});
        decide(vec![rule], &request("bash", "exec", &args, &who)) == Decision::Deny(by("a"))
    };

    let same = [
        (json!(1), json!(1)),
        (json!(1), json!(1.0)),
        (json!(1.0), json!(1)),
        (json!([1, 2]), json!([1.0, 2])),
        (json!({"a": 1, "b": "x"}), json!({"b": "x", "a": 1.0})),
        (json!("x"), json!("x")),
        (json!(null), json!(null)),
    ];
    let other = [
        (json!(1), json!(2)),
        (json!(1.0), json!(2)),
        (json!(1), json!(1.5)),
        // Beyond 2^53 a float cannot tell them apart.
        (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)),
        (json!([1, 2]), json!([1])),
        (json!([1]), json!([1, 2])),
        (json!([1, 2]), json!([1, 3])),
        (json!({"a": 1}), json!({"a": 1, "b": 2})),
        (json!({"a": 1, "b": 2}), json!({"a": 1})),
        (json!({"a": 1}), json!({"b": 1})),
        (json!({"a": 1}), json!({"a": 2})),
        (json!("1"), json!(1)),
    ];
    for (wanted, found) in same {
        assert!(fits(&wanted, &found), "{wanted} is {found}");
    }
    for (wanted, found) in other {
        assert!(!fits(&wanted, &found), "{wanted} is not {found}");
    }
}

/// PL-66: wildcards read plain values as they are written, and no lists.
#[test]
fn a_wildcard_reads_plain_values() {
    let who = person();
    let fits = |pattern: &str, found: Value| {
        let rule = Rule { when: vec![glob("/n", pattern)], ..rule("a", "tool:bash", "deny") };
        let args = json!({"n": found});
        decide(vec![rule], &request("bash", "exec", &args, &who)) == Decision::Deny(by("a"))
    };

    assert!(fits("4*", json!(42)));
    assert!(fits("tr?e", json!(true)));
    assert!(!fits("*", json!([1])));
    assert!(!fits("*", json!(null)));
}

/// PL-66
#[test]
fn a_rule_about_hosts_fits_by_name_by_domain_or_all() {
    let (args, who) = (json!({}), person());
    let denied = |resource: &str, host: &str| {
        let touches = [Touch::Host(host.to_owned())];
        let call = Request { touches: &touches, ..request("web_fetch", "net.read", &args, &who) };
        decide(vec![rule("a", resource, "deny")], &call) == Decision::Deny(by("a"))
    };

    assert!(denied("host:example.com", "example.com"));
    assert!(!denied("host:example.com", "a.example.com"));
    assert!(denied("host:*", "example.com"));
    assert!(denied("host:*.example.com", "a.example.com"));
    assert!(!denied("host:*.example.com", "badexample.com"));
}

/// PL-67: a list of folders is no list of hosts, and one for reading none for writing.
#[test]
fn a_list_is_about_things_of_its_kind() {
    let (args, who) = (json!({}), person());
    let decided = |mode: &str, touch: Touch| {
        let mode = Some(mode.parse().unwrap());
        let list = Rule { mode, ..rule("a", "file:docs", "allow") };
        let touches = [touch];
        let call = Request { touches: &touches, ..request("some", "file.read", &args, &who) };
        decide(vec![list], &call)
    };

    let host = Touch::Host("example.com".to_owned());
    assert_eq!(decided("r", file("docs/a", Mode::Read)), Decision::Allow(by("a")));
    assert_eq!(decided("r", file("b", Mode::Read)), Decision::Deny(By::NoMatchingRule));
    assert_eq!(decided("r", file("b", Mode::Write)), Decision::Allow(By::Default));
    assert_eq!(decided("rw", host), Decision::Allow(By::Default));
}

/// PL-67: of several rules that ask, the one with the most risk is named; among equals the first.
#[test]
fn the_riskiest_rule_is_the_one_that_asks() {
    let (args, who) = (json!({}), person());
    let call = request("bash", "exec", &args, &who);
    let high = Rule { risk: Risk::High, ..rule("high", "tool:bash", "require_approval") };
    let normal = |id: &str| rule(id, "tool:bash", "require_approval");
    let asked = |rules: Vec<Rule>| match decide(rules, &call) {
        Decision::Ask(By::Rule(id), caution) => (id, caution.risk),
        other => panic!("{other:?}"),
    };

    assert_eq!(asked(vec![high.clone(), normal("b")]), ("high".to_owned(), Risk::High));
    assert_eq!(asked(vec![normal("b"), high]), ("high".to_owned(), Risk::High));
    assert_eq!(asked(vec![normal("b"), normal("c")]), ("b".to_owned(), Risk::Normal));
}

/// OP-115: whoever asks why is shown the rules that fit, and the one that forbids a tool altogether.
#[test]
fn a_decision_can_be_explained() {
    let (args, who) = (json!({}), person());
    let ann = Who::User("ws:ann".to_owned());
    let for_one = Rule { principal: ann, ..rule("for-one", "tool:bash", "deny") };
    let elsewhere = Rule { team: "ops".to_owned(), ..rule("elsewhere", "tool:bash", "deny") };
    let policy = Policy::new(vec![
        rule("allows", "tool:bash", "allow"),
        for_one,
        elsewhere,
        rule("other-tool", "tool:read", "deny"),
        rule("all", "class:exec", "deny"),
    ]);

    let fitting = policy.fitting(&request("bash", "exec", &args, &who));
    let fitting: Vec<_> = fitting.iter().map(|rule| rule.id.as_str()).collect();

    assert_eq!(fitting, ["allows", "for-one", "all"]);
    assert_eq!(policy.forbidding("main", "bash", "exec", NOW), Some("all"));
    assert_eq!(policy.forbidding("main", "write", "file.write", NOW), None);
    let without = Policy::new(policy.rules()[..4].to_vec());
    assert_eq!(without.forbidding("main", "bash", "exec", NOW), None);
    assert_eq!(without.forbidding("ops", "bash", "exec", NOW), Some("elsewhere"));
}

/// PL-66: who waits for the end of a rule waits for the next one that has not come.
#[test]
fn the_next_end_of_a_rule_is_in_the_future() {
    let until = |id: &str, end: Option<u64>| Rule {
        expires_at: end.map(Timestamp),
        ..rule(id, "tool:bash", "deny")
    };
    let policy = Policy::new(vec![
        until("a", Some(NOW.0)),
        until("b", Some(NOW.0 + 20)),
        until("c", Some(NOW.0 + 10)),
        until("d", None),
    ]);

    assert_eq!(policy.next_expiry(NOW), Some(Timestamp(NOW.0 + 10)));
    assert_eq!(policy.next_expiry(Timestamp(NOW.0 + 20)), None);
}

/// TO-55
#[test]
fn places_of_files_matter_when_a_rule_is_about_files() {
    assert!(Policy::new(vec![rule("a", "file:docs", "deny")]).is_about_files());
    assert!(!Policy::new(vec![rule("a", "tool:bash", "deny")]).is_about_files());
}

/// PL-70, SC-43: a secret for a command of a turn that has read a stranger's words.
#[test]
fn an_untrusted_turn_asks_before_a_command_is_given_a_secret() {
    let args = json!({});
    let asks = |uses_secret, untrusted| {
        let who = Subject { untrusted, ..person() };
        let call = Request { uses_secret, ..request("bash", "exec", &args, &who) };
        matches!(decide(Vec::new(), &call), Decision::Ask(By::Default, _))
    };

    assert!(asks(true, true));
    assert!(!asks(false, true));
    assert!(!asks(true, false));
}

/// TO-18 to TO-27: what a team asks for by its own tools is always asked for; a test of a trigger never.
#[test]
fn requests_ask_and_tests_of_triggers_do_not() {
    let args = json!({});
    let asks = |class: &str, untrusted| {
        let who = Subject { untrusted, ..person() };
        match decide(Vec::new(), &request("some", class, &args, &who)) {
            Decision::Ask(By::Default, caution) => Some(caution.kind),
            _ => None,
        }
    };

    assert_eq!(asks("org.propose_change", false), Some(Kind::SelfChange));
    assert_eq!(asks("trigger.test_trigger", true), None);
    assert_eq!(asks("trigger.update_trigger", true), Some(Kind::SelfChange));
}

/// SC-20: the label of a turn is what its rules see.
#[test]
fn a_subject_is_untrusted_with_its_turn() {
    let of = |label| Subject::of(&Cause::System, label);

    assert!(of(Label::Untrusted).untrusted);
    assert!(!of(Label::Trusted).untrusted);
    assert_eq!(of(Label::Trusted).role, Role::System);
}
