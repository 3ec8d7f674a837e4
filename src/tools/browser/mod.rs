//! The browser tools: pages of the web as a person meets them, through the egress guard.

use std::sync::Arc;

use hivewright_actors::{policy::Subject, task::Label, tool::ToolFault};

use super::{answer, contract::ToolContext, error::ToolError, made::tools, web::Web};
use crate::{
    browser::{BrowserError, Browsers, InUse, gate::Terms},
    files::FileStore,
};

mod act;
mod look;
mod navigate;

use act::{Click, Type};
use look::{Screenshot, Snapshot};
use navigate::{Close, GoBack, GoForward, Navigate};

const GROUP: &str = "@browser";
const CLASS: &str = "browser";

tools! {
    pub fn made(browsers: &Browsers, web: &Web, files: &FileStore) {
        Click(browsers.clone()),
        Close(browsers.clone()),
        GoBack(browsers.clone()),
        GoForward(browsers.clone()),
        Navigate { browsers: browsers.clone(), web: web.clone() },
        Screenshot(browsers.clone(), files.clone()),
        Snapshot(browsers.clone()),
        Type(browsers.clone()),
    }
}

/// What a call may reach. Rules about hosts hold as for the call that opened the page, and for whoever calls now.
fn terms(cx: &ToolContext) -> Terms {
    Terms {
        team: cx.grant.team.clone(),
        subject: Subject::of(&cx.caller.cause, cx.label),
        egress: Arc::new(cx.grant.file.egress.clone()),
        admit: None,
        scrubber: cx.grant.secrets.of(&cx.grant.team),
    }
}

/// The browser of the calling team, if it has one.
async fn find(browsers: &Browsers, cx: &ToolContext) -> Result<InUse, ToolError> {
    Ok(browsers.find(&cx.grant.team, terms(cx)).await?)
}

/// Does something with a browser, unless the call is stopped. What is said from here on may be the words of a stranger.
async fn finish<T>(
    used: InUse,
    cx: &ToolContext,
    work: impl Future<Output = Result<T, BrowserError>> + Send,
) -> Result<T, ToolError> {
    cx.believe(Label::Untrusted);
    let done = tokio::select! {
        done = work => done,
        () = cx.cancel.cancelled() => {
            if let Ok(session) = used.session() {
                session.stop();
            }
            return Err(ToolError::stopped(""));
        }
    };
    used.done();
    done.map_err(Into::into)
}

/// The same for something whose half may have been done when the browser ends.
async fn finish_act(
    used: InUse,
    cx: &ToolContext,
    work: impl Future<Output = Result<String, BrowserError>> + Send,
) -> Result<String, ToolError> {
    let work = async {
        match work.await {
            Err(error @ (BrowserError::Ended | BrowserError::Disk(_))) => Ok(Err(error)),
            done => done.map(Ok),
        }
    };
    match finish(used, cx, work).await? {
        Ok(told) => Ok(marked(&told)),
        Err(error) => Err(ToolError::new(ToolFault::UnknownOutcome, error.to_string())),
    }
}

fn marked(told: &str) -> String {
    answer::from_outside("a page of the web", told)
}

impl From<BrowserError> for ToolError {
    fn from(error: BrowserError) -> Self {
        let fault = match error {
            BrowserError::Sandbox(error) => return error.into(),
            BrowserError::Blocked(error) => return error.into(),
            BrowserError::Busy(_) => ToolFault::Busy,
            BrowserError::NoPage | BrowserError::Closed | BrowserError::Unfit(_) => {
                ToolFault::Conflict
            }
            BrowserError::Stale(_) => ToolFault::NotFound,
            BrowserError::HoldsSecret => ToolFault::SecretNotAllowed,
            _ => ToolFault::ToolFailed,
        };
        Self::new(fault, error.to_string())
    }
}
