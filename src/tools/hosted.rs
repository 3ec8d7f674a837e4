//! Hosted tools: what the host knows of every tool, whatever the type of its arguments.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hivewright_actors::tool::{Caller, Checked, Stow, specs::ToolSpec};
use serde_json::Value;

use super::{
    about::About,
    answer, compact_schema,
    contract::{LONGEST, Redaction, Tool, ToolContext},
    error::ToolError,
    grant::Grant,
    judge::Sight,
};
use crate::{
    api::{
        check::{Problem, Problems},
        input::Reader,
    },
    sandbox::process::Sandbox,
    settings::{config::LONGEST_TURN, tool_groups::ToolGroup},
    vault::{
        escrow::{Origin, SecretValues},
        expand,
    },
};

/// A tool whose argument type is hidden.
pub(super) trait Hosted: Send + Sync {
    fn about(&self) -> About;
    fn spec(&self, name: String, sandbox: &Sandbox) -> ToolSpec;
    /// Stands for the form of its arguments: a grant is good for calls of the same form.
    fn form(&self) -> String;
    /// Reads the arguments of a call: how it runs, and what rules are to look at.
    fn look(&self, key: &str, args: &Value, caller: &Caller)
    -> Result<(Checked, Sight), ToolError>;
    /// What it says against a call before anybody is asked, by default nothing.
    fn objection(&self, _: &Value, _: &Caller) -> Result<(), ToolError> {
        Ok(())
    }
    /// Tries a call before anybody is asked about it.
    fn examine(
        &self,
        _: &Value,
        _: &Caller,
        _: &Grant,
    ) -> BoxFuture<'static, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Its arguments without secrets, by default as they are.
    fn redact(&self, _: &Value) -> Option<Redaction> {
        None
    }
    /// Keeps secrets for a call, by default none.
    fn stow(&self, _: &SecretValues, _: &Origin, _: &Grant) -> Result<Stow, ToolError> {
        Err(ToolError::failed("this tool keeps no secrets"))
    }
    fn settled(&self, _: &Origin, _: &Grant) {}
    fn call(
        self: Arc<Self>,
        args: Value,
        cx: ToolContext,
    ) -> BoxFuture<'static, Result<String, ToolError>>;
}

/// A tool with what reads its arguments.
pub(super) struct Host<T: Tool> {
    tool: T,
    arguments: Reader<T::Args>,
}

impl<T: Tool> Host<T> {
    pub(super) fn new(tool: T) -> Self {
        Self { tool, arguments: Reader::shared() }
    }
}

impl<T: Tool> Hosted for Host<T> {
    fn about(&self) -> About {
        T::ABOUT
    }

    fn spec(&self, name: String, sandbox: &Sandbox) -> ToolSpec {
        let description = self.tool.description(sandbox);
        ToolSpec { name, description, schema: compact_schema::schema(self.arguments.schema()) }
    }

    fn form(&self) -> String {
        compact_schema::form(self.arguments.schema())
    }

    fn look(
        &self,
        key: &str,
        args: &Value,
        caller: &Caller,
    ) -> Result<(Checked, Sight), ToolError> {
        let args = read::<T>(&self.arguments, args)?;
        let about = T::of_call(&args);
        let asked = T::timeout(&args).unwrap_or(about.timeout);
        let limit =
            if about.whole_turn { LONGEST_TURN } else { asked.min(about.longest).min(LONGEST) };
        let sight = Sight {
            recipient: self.tool.recipient(caller),
            caution: self.tool.caution(&args, caller),
            caution_if_untrusted: self.tool.caution_if_untrusted(&args, caller),
            ..Sight::new(key, about, T::reaches(&args))
        };
        Ok((Checked::allowed(about.effect, about.exclusive, limit), sight))
    }

    fn objection(&self, args: &Value, caller: &Caller) -> Result<(), ToolError> {
        self.tool.objection(&read::<T>(&self.arguments, args)?, caller)
    }

    fn examine(
        &self,
        args: &Value,
        caller: &Caller,
        grant: &Grant,
    ) -> BoxFuture<'static, Result<(), ToolError>> {
        match read::<T>(&self.arguments, args) {
            Ok(args) => self.tool.examine(args, caller, grant),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn redact(&self, args: &Value) -> Option<Redaction> {
        T::redact(args)
    }

    fn stow(&self, values: &SecretValues, of: &Origin, grant: &Grant) -> Result<Stow, ToolError> {
        self.tool.stow(values, of, grant)
    }

    fn settled(&self, of: &Origin, grant: &Grant) {
        self.tool.settled(of, grant);
    }

    fn call(
        self: Arc<Self>,
        mut args: Value,
        cx: ToolContext,
    ) -> BoxFuture<'static, Result<String, ToolError>> {
        let parsed = read::<T>(&self.arguments, &args);
        // They may hold values of the vault.
        expand::wipe(&mut args);
        Box::pin(async move { self.tool.call(parsed?, &cx).await })
    }
}

/// The arguments of a call, or all that is wrong with them.
pub(super) fn read<T: Tool>(
    arguments: &Reader<T::Args>,
    args: &Value,
) -> Result<T::Args, ToolError> {
    let parsed = arguments.json(args.clone()).map_err(|problems| reasons(&problems));
    let accepted = parsed.and_then(|args| T::accept(&args).map(|()| args));
    accepted.map_err(|reason| match T::ABOUT.group {
        ToolGroup::Org | ToolGroup::Triggers => answer::refuse("invalid_input", reason),
        ToolGroup::Memory => answer::invalid(reason),
        _ => ToolError::invalid(format!("invalid arguments: {reason}")),
    })
}

/// What is wrong with arguments, for a model.
pub(super) fn reasons(problems: &Problems) -> String {
    let line = |Problem { path, reason, .. }: &Problem| {
        if path.0.is_empty() { reason.clone() } else { format!("`{path}`: {reason}") }
    };
    problems.0.iter().map(line).collect::<Vec<_>>().join("; ")
}
