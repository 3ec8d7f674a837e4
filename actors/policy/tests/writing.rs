//! Rules as people write them: what is taken, and where it ends.

use super::*;
use crate::policy::class;

fn refused(rule: Rule) -> Option<String> {
    rule.check().err().map(|invalid| invalid.field)
}

fn allow() -> Rule {
    rule("a", "tool:bash", "allow")
}

/// PL-66: bounds are inclusive, and each alone is enough to refuse.
#[test]
fn a_rule_is_taken_up_to_its_bounds() {
    let named = |id: &str| refused(Rule { id: id.to_owned(), ..allow() });
    let noted = |length| refused(Rule { note: "ä".repeat(length), ..allow() });
    let conditions = |count| refused(Rule { when: vec![glob("/a", "*"); count], ..allow() });

    assert_eq!(named(&"a".repeat(64)), None);
    assert_eq!(named(&"a".repeat(65)), Some("id".to_owned()));
    assert_eq!(named("a b"), Some("id".to_owned()));
    assert_eq!(noted(2_000), None);
    assert_eq!(noted(2_001), Some("note".to_owned()));
    assert_eq!(conditions(20), None);
    assert_eq!(conditions(21), Some("when".to_owned()));
}

/// PL-66: every JSON pointer is one, and nothing else is.
#[test]
fn a_condition_takes_every_json_pointer() {
    let pointer = |pointer: &str| refused(Rule { when: vec![glob(pointer, "*")], ..allow() });

    for good in ["", "/", "/a/0", "/a~0b", "/a~1b", "/~0~1"] {
        assert_eq!((good, pointer(good)), (good, None));
    }
    for bad in ["a", "/~", "/a~2", "/a~0~"] {
        let field = Some("when[0].pointer".to_owned());
        assert_eq!((bad, pointer(bad)), (bad, field));
    }
}

/// PL-66
#[test]
fn a_rule_is_for_those_whom_it_names_in_full() {
    for good in ["any", "role:guest", "user:ws:ann", "label:untrusted"] {
        assert_eq!(good.parse::<Who>().unwrap().to_string(), good);
    }
    for bad in ["everyone", "user::ann", "user:ws:", "user::", "label:other"] {
        assert!(bad.parse::<Who>().is_err(), "{bad}");
    }
}

/// PL-66: a command is words without quotes, and begins with a word that is known.
#[test]
fn a_rule_about_commands_names_the_command() {
    for good in ["exec:git status", "exec:git *", "exec:git"] {
        assert_eq!(refused(rule("a", good, "deny")), None, "{good}");
    }
    for bad in ["exec:*", "exec:* push", "exec:'git' push", "exec:\"git\" push"] {
        assert!(bad.parse::<Resource>().is_err(), "{bad}");
    }
}

/// TO-18: a class by its name, one of a family, or by wildcards that some class fits.
#[test]
fn a_rule_about_a_class_names_one_that_exists() {
    for good in
        ["exec", "org.spawn_team", "org.*", "trigger.?reate", "file.*", "*", "e?ec", "f*e.read"]
    {
        assert_eq!((good, class::check(good)), (good, Ok(())));
    }
    for bad in ["wrong", "org.", "trigger.", "exe", "exec.x", "wrong.*", "f?le"] {
        assert_eq!((bad, class::check(bad).is_err()), (bad, true));
    }
}

/// PL-81: each kind of approval has the name by which rows, frames and filters know it.
#[test]
fn kinds_are_named_as_they_are_stored() {
    for kind in Kind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        assert_eq!(kind.as_str().parse(), Ok(*kind));
    }
}
