//! `browser_click`, `browser_type`: what is done to an element of a page.

use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CLASS, GROUP, find, finish_act};
use crate::{
    browser::Browsers,
    tools::{
        about::About,
        contract::{Tool, ToolContext},
        error::ToolError,
        reach::Reach,
    },
    vault::expand::BEGIN,
};

pub(super) struct Click(pub(super) Browsers);
pub(super) struct Type(pub(super) Browsers);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ClickArgs {
    /// Of the last snapshot, such as `e12`.
    #[serde(rename = "ref")]
    reference: String,
    /// What it is, in words, for the log.
    #[schemars(length(max = 200))]
    element: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct TypeArgs {
    /// Of the last snapshot, such as `e12`.
    #[serde(rename = "ref")]
    reference: String,
    /// Takes the place of what the field holds; of a list, the words of an option. May hold `${vault:KEY}`.
    #[schemars(length(max = 65536))]
    text: String,
    /// What it is, in words, for the log.
    #[schemars(length(max = 200))]
    element: Option<String>,
    /// Presses Enter behind it.
    #[serde(default)]
    submit: bool,
    /// With `${vault:KEY}`: the host of the page, which alone may get it.
    #[schemars(length(max = 253))]
    host: Option<String>,
}

impl Tool for Click {
    const ABOUT: About =
        About::new("browser_click", GROUP, CLASS, Effect::Irreversible).exclusive();
    const DESCRIPTION: &'static str =
        "Clicks an element of the page. A snapshot tells what there is then.";
    type Args = ClickArgs;

    async fn call(&self, args: ClickArgs, cx: &ToolContext) -> Result<String, ToolError> {
        let used = find(&self.0, cx).await?;
        let session = used.session()?;
        tracing::debug!(team = %cx.grant.team, element = args.element, "a click in a browser");
        finish_act(used, cx, session.click(&args.reference)).await
    }
}

impl Tool for Type {
    const ABOUT: About = About::new("browser_type", GROUP, CLASS, Effect::Irreversible)
        .exclusive()
        .expands(&["text"])
        .paths(&["host"])
        .refuses_secrets();
    const DESCRIPTION: &'static str = "Types into a field of the page, or chooses an option of a list. What a secret was \
        typed into is not photographed.";
    type Args = TypeArgs;

    fn accept(args: &TypeArgs) -> Result<(), String> {
        if args.text.contains(BEGIN) && args.host.is_none() {
            return Err("`host`: name the host of the page that gets the secret".to_owned());
        }
        Ok(())
    }

    fn reaches(args: &TypeArgs) -> Vec<Reach> {
        args.host.iter().map(|host| Reach::Host(host.to_ascii_lowercase())).collect()
    }

    async fn call(&self, args: TypeArgs, cx: &ToolContext) -> Result<String, ToolError> {
        let used = find(&self.0, cx).await?;
        let session = used.session()?;
        tracing::debug!(team = %cx.grant.team, element = args.element, "words typed in a browser");
        let TypeArgs { reference, text, submit, host, .. } = args;
        let host = host.map(|host| host.to_ascii_lowercase());
        let typing = session.fill(&reference, &text, host.as_deref(), submit);
        finish_act(used, cx, typing).await
    }
}
