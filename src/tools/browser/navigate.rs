//! `browser_navigate`, `browser_go_back`, `browser_go_forward`, `browser_close`: where the browser is.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{
    policy::{Subject, caution::Caution},
    tool::{Caller, Effect},
};
use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CLASS, GROUP, find, finish, marked, terms};
use crate::{
    browser::{
        Browsers,
        gate::{Admit, Terms},
        session::Way,
    },
    sandbox::egress::EgressError,
    settings::network::host_name,
    tools::{
        about::About,
        contract::{NoArgs, Tool, ToolContext},
        error::ToolError,
        reach::Reach,
        web::Web,
    },
};

/// A first call starts a browser, and may wait for one of another team to end.
const WITH_START: Duration = Duration::from_secs(75);

pub(super) struct Navigate {
    pub(super) browsers: Browsers,
    pub(super) web: Web,
}
pub(super) struct GoBack(pub(super) Browsers);
pub(super) struct GoForward(pub(super) Browsers);
pub(super) struct Close(pub(super) Browsers);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// `http` or `https`.
    url: String,
}

impl Tool for Navigate {
    const ABOUT: About = About::new("browser_navigate", GROUP, CLASS, Effect::Idempotent)
        .exclusive()
        .within(WITH_START, WITH_START)
        .paths(&["url"])
        .refuses_secrets();
    const DESCRIPTION: &'static str = "Opens a page in a real browser, for pages that need scripts, clicks or a login; \
        `web_fetch` is faster where text will do. Then take a snapshot.";
    type Args = Args;

    fn reaches(args: &Args) -> Vec<Reach> {
        let host = Url::parse(&args.url).ok().and_then(|url| host_name(&url));
        host.map(Reach::Host).into_iter().collect()
    }

    fn caution_if_untrusted(&self, args: &Args, caller: &Caller) -> Option<Caution> {
        self.web.contacted.caution(caller, &Url::parse(&args.url).ok()?)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let url = Url::parse(&args.url).map_err(|_| EgressError::InvalidUrl)?;
        let admit = cx.opening.clone().map(|opening| -> Admit {
            Arc::new(move |host: &str, subject: &Subject| opening.admit_led(host, subject))
        });
        let terms = Terms { admit, ..terms(cx) };
        self.browsers.check(&url, &terms).await?;
        if let Some(host) = host_name(&url) {
            self.web.contacted.note(&cx.caller, &host);
        }
        let used = tokio::select! {
            used = self.browsers.open(&cx.grant.team, terms) => used?,
            () = cx.cancel.cancelled() => return Err(ToolError::stopped("")),
        };
        let session = used.session()?;
        finish(used, cx, session.navigate(&url)).await.map(|told| marked(&told))
    }
}

impl Tool for GoBack {
    const ABOUT: About =
        About::new("browser_go_back", GROUP, CLASS, Effect::Idempotent).exclusive();
    const DESCRIPTION: &'static str = "Goes back to the page before this one.";
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, cx: &ToolContext) -> Result<String, ToolError> {
        go(&self.0, Way::Back, cx).await
    }
}

impl Tool for GoForward {
    const ABOUT: About =
        About::new("browser_go_forward", GROUP, CLASS, Effect::Idempotent).exclusive();
    const DESCRIPTION: &'static str = "Goes forward again after going back.";
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, cx: &ToolContext) -> Result<String, ToolError> {
        go(&self.0, Way::Forward, cx).await
    }
}

async fn go(browsers: &Browsers, way: Way, cx: &ToolContext) -> Result<String, ToolError> {
    let used = find(browsers, cx).await?;
    let session = used.session()?;
    finish(used, cx, session.go(way)).await.map(|told| marked(&told))
}

impl Tool for Close {
    const ABOUT: About = About::new("browser_close", GROUP, CLASS, Effect::Idempotent).exclusive();
    const DESCRIPTION: &'static str = "Closes the browser with all its pages, cookies and logins. It closes by itself \
        after five minutes without a call.";
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, cx: &ToolContext) -> Result<String, ToolError> {
        let was_open = self.0.close(&cx.grant.team).await;
        Ok(if was_open { "The browser is closed." } else { "No browser was open." }.to_owned())
    }
}
