//! Tools from outside: of MCP servers, of plugins, or written by a team. Each came with the JSON Schema of its arguments.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hivewright_actors::{
    excerpt,
    task::Label,
    tool::{Caller, Checked, specs::ToolSpec},
};
use serde_json::Value;

use super::{
    about::About, answer, compact_schema, contract::ToolContext, error::ToolError, hosted::Hosted,
    judge::Sight, pictures, reach::Reach,
};
use crate::{
    files::FileStore,
    mcp::{arguments, result::Answer},
    sandbox::process::Sandbox,
};

/// What is told of a tool, in characters.
const LONGEST_DESCRIPTION: usize = 1_024;

/// A tool whose arguments are checked by a schema that came with it.
pub(super) trait OutsideTool: Send + Sync + 'static {
    fn about(&self) -> About;
    fn description(&self) -> String;
    fn schema(&self) -> &Value;

    /// A grant is good for calls of the same form.
    fn form(&self) -> String {
        compact_schema::form(self.schema())
    }

    /// What a call reaches for, as far as the operator's rules can be about that.
    fn reaches(&self, _: &Value) -> Vec<Reach> {
        Vec::new()
    }

    fn run(
        &self,
        args: Value,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<String, ToolError>> + Send;
}

impl<T: OutsideTool> Hosted for T {
    fn about(&self) -> About {
        OutsideTool::about(self)
    }

    fn spec(&self, name: String, _: &Sandbox) -> ToolSpec {
        let description = excerpt::line(&self.description(), LONGEST_DESCRIPTION);
        ToolSpec { name, description, schema: compact_schema::schema(self.schema()) }
    }

    fn form(&self) -> String {
        OutsideTool::form(self)
    }

    fn look(&self, key: &str, args: &Value, _: &Caller) -> Result<(Checked, Sight), ToolError> {
        if let Some(problem) = arguments::problem(self.schema(), args) {
            return Err(ToolError::invalid(format!("invalid arguments: {problem}")));
        }
        let about = OutsideTool::about(self);
        let sight = Sight::new(key, about, self.reaches(args));
        Ok((Checked::allowed(about.effect, about.exclusive, about.timeout), sight))
    }

    fn call(
        self: Arc<Self>,
        args: Value,
        cx: ToolContext,
    ) -> BoxFuture<'static, Result<String, ToolError>> {
        Box::pin(async move { self.run(args, &cx).await })
    }
}

/// Whose words an answer is. Those of one that is not trusted are marked, and the turn that reads them is not believed.
pub(super) struct Speaker<'a> {
    pub(super) name: String,
    pub(super) is_trusted: bool,
    pub(super) cx: &'a ToolContext,
}

impl Speaker<'_> {
    fn marked(&self, text: &str) -> String {
        if self.is_trusted {
            return text.to_owned();
        }
        self.cx.believe(Label::Untrusted);
        answer::from_outside(&self.name, text)
    }

    /// The call failed, in these words.
    pub(super) fn failed(&self, text: &str) -> ToolError {
        ToolError::failed(self.marked(text))
    }

    /// The call has this answer, whose pictures are shown.
    pub(super) async fn answered(&self, answer: Answer, files: &FileStore) -> String {
        let cx = if self.is_trusted { self.cx.clone() } else { self.cx.untrusted() };
        self.marked(&pictures::told(files, &cx, answer).await)
    }
}
