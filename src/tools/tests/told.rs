//! What models are told of the shipped tools, and that nothing else follows from it.

use std::marker::PhantomData;

use actix::{AsyncContext, Context};
use hivewright_actors::{
    policy::rule::Rule,
    tool::{Verdict, specs::ToolSpec},
};
use serde::de::DeserializeOwned;

use super::*;
use crate::{
    api::input::Reader,
    memory::doubles,
    tools::{
        agent, ask_operator, compact_schema, memory, propose_change, triggers::report::with_report,
        use_skill,
    },
};

/// What no schema has that a model is told: SE-46.
const NEEDLESS: [&str; 10] = [
    "\"null\"",
    "\"default\":",
    "\"format\":",
    "\"title\":",
    "\"anyOf\":",
    "\"oneOf\":",
    "\"$ref\":",
    "\"additionalProperties\":false",
    "\"x-",
    "\\n",
];

/// The tools that need nothing but actors, and those of memory.
fn shipped() -> Bench {
    let (approvals, router) = (Context::new().address(), Context::new().address());
    let toolbox = crate::tools::all()
        .with(ask_operator::made(&approvals))
        .with(memory::made(&doubles::Bench::new().memory))
        .with(crate::tools::triggers::made(&super::triggers::admin()))
        .with(crate::tools::trust::made(&router))
        .with(crate::tools::vault::made());
    Bench::with(toolbox, &["*"])
}

fn spec<T: DeserializeOwned + JsonSchema>(name: &str) -> ToolSpec {
    let schema = compact_schema::schema(Reader::<T>::default().schema());
    ToolSpec { name: name.to_owned(), description: "Made of several.".to_owned(), schema }
}

pub(crate) fn are_lean(specs: &[ToolSpec]) {
    for ToolSpec { name, description, schema } in specs {
        let text = schema.to_string();
        let found: Vec<_> = NEEDLESS.into_iter().filter(|word| text.contains(word)).collect();
        assert!(found.is_empty(), "{name}: {found:?} in {text}");
        assert_eq!(schema["type"], "object", "{name}");
        assert!((1..=1024).contains(&description.chars().count()), "{name}");
    }
}

/// SE-46; the tools of the organisation are looked at where they are tested.
#[actix::test]
async fn every_shipped_tool_is_told_without_null_format_or_reference() {
    let bench = shipped();

    let specs = with_report(bench.tools.clone()).specs();

    assert_eq!(specs.len(), 25);
    are_lean(&specs);
    are_lean(&[
        spec::<agent::Args>("agent"),
        spec::<use_skill::Args>("use_skill"),
        spec::<propose_change::Args>("propose_change"),
    ]);
}

/// TO-03, TO-12
#[actix::test]
async fn what_is_refused_does_not_depend_on_what_is_told() {
    let bench = shipped();
    let look = |name: &str, args: Value| bench.look(&call(name, args));
    let named = |field: &str, value: Value| {
        let mut args = json!({ "team": "news", "trigger_name": "morning" });
        args[field] = value;
        args
    };
    let table = [
        ("memory_search", json!({"query": ""}), "expected 1 to 1000 characters"),
        ("memory_list", json!({"limit": 0}), "expected a whole number from 1 to 200"),
        ("memory_list", json!({"nme": "a"}), "unknown field"),
        ("ask_operator", json!({"question": "q", "ttl": "31d"}), "a duration from 1m to 30d"),
        ("test_trigger", named("max_steps", json!(501)), "expected a whole number from 1 to 500"),
        ("test_trigger", named("overlap_policy", json!("often")), "expected one of `allow`"),
    ];

    for (name, args, reason) in table {
        let refusal = look(name, args).unwrap_err().content;
        assert!(refusal.contains(reason), "{name}: {refusal}");
    }
    assert!(look("memory_list", json!({"key": null, "type": null, "limit": null})).is_ok());
    assert!(look("test_trigger", named("max_steps", json!(5))).is_ok());
}

/// A tool whose arguments are of some type.
struct Mail<A>(PhantomData<fn() -> A>);

impl<A: DeserializeOwned + JsonSchema + Send + 'static> Tool for Mail<A> {
    const ABOUT: About = About::new("write", "@files", "file.write", Effect::Idempotent);
    const DESCRIPTION: &'static str = "Sends a mail.";
    type Args = A;

    async fn call(&self, _: A, _: &ToolContext) -> Result<String, ToolError> {
        Ok(String::new())
    }
}

#[derive(Deserialize, JsonSchema)]
struct First {
    /// Whom to write to.
    #[serde(rename = "to")]
    _to: String,
}

#[derive(Deserialize, JsonSchema)]
struct Reworded {
    /// The receiver, such as `ann`.
    #[serde(rename = "to")]
    _to: String,
}

#[derive(Deserialize, JsonSchema)]
struct Wider {
    /// Whom to write to.
    #[serde(rename = "to")]
    _to: String,
    #[serde(rename = "copy")]
    _copy: Option<String>,
}

/// What stands for the form of a tool where a person decides on a call.
fn form<A: DeserializeOwned + JsonSchema + Send + 'static>() -> String {
    let rule = Rule::new("ask", "tool:write".parse().unwrap(), "require_approval".parse().unwrap());
    let rules = Policies::fixed(vec![rule.check().unwrap()]);
    let toolbox = Toolbox::default().with([Made::of(Mail::<A>(PhantomData))]);
    let bench = Bench::with_all(toolbox, &["*"], Vault::absent(), rules);
    match bench.look(&call("write", json!({"to": "ann"}))).unwrap().verdict {
        Verdict::Ask(asking) => asking.schema,
        Verdict::Allow => panic!("nobody is asked"),
    }
}

/// PL-83: a grant is void when its tool changes, and not when the tool is described in other words.
#[test]
fn a_reworded_description_leaves_grants_as_they_are() {
    assert_eq!(form::<First>(), form::<Reworded>());
    assert_ne!(form::<First>(), form::<Wider>());
}
