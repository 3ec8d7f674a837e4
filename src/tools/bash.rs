//! `bash`: a shell command in the sandbox.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use hivewright_actors::{
    task::Label,
    tool::{Effect, ToolFault},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    about::About,
    contract::{LONGEST, Tool, ToolContext},
    error::ToolError,
    reach::Reach,
};
use crate::{
    sandbox::process::{
        Finished, Job, Sandbox,
        capture::Captured,
        plan::{Ended, Program},
    },
    vault::expand::BEGIN,
};

/// The kernel takes no longer single argument.
const LONGEST_COMMAND: usize = 131_071;
/// The same for a variable: its name and its value, besides what stands between and behind them.
const LONGEST_VARIABLE: usize = 131_070;

pub(super) struct Bash;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The command, for `/bin/bash -c`. Starts in the workspace.
    command: String,
    /// Milliseconds until it is stopped: 120000 if not given, at most 600000.
    #[schemars(range(min = 1, max = LONGEST.as_millis() as u64))]
    timeout: Option<u64>,
    /// Environment variables for it. A value may hold `${vault:KEY}`, if the operator allowed that secret for `bash`.
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl Tool for Bash {
    const ABOUT: About = About::new("bash", "@shell", "exec", Effect::Irreversible)
        .unbounded()
        .exclusive()
        .within(Duration::from_secs(120), LONGEST)
        .expands(&["env"])
        .refuses_secrets();
    const DESCRIPTION: &'static str = "Runs a shell command for local work: builds, tests, scripts, files. It sees the \
        workspace and system programs, and has no network. `HOME` and `TMPDIR` are empty and last for one call; \
        so do processes: whatever still runs at the end of the call is killed. `config.yaml` and `plugins/` are \
        read-only. Answers with exit code, output and messages.";
    type Args = Args;

    fn reaches(args: &Args) -> Vec<Reach> {
        vec![Reach::Command(args.command.clone())]
    }

    fn description(&self, sandbox: &Sandbox) -> String {
        let mut description = Self::DESCRIPTION.to_owned();
        if !sandbox.layers().namespaces {
            description.push_str(
                " On this machine the top level of the workspace is read-only too, so write in its \
                 folders, and modes of files cannot be changed.",
            );
        }
        description
    }

    fn accept(args: &Args) -> Result<(), String> {
        let Args { command, env, .. } = args;
        if command.len() > LONGEST_COMMAND {
            return Err(format!("`command`: at most {LONGEST_COMMAND} bytes are allowed"));
        }
        if command.contains('\0') {
            return Err("`command`: holds a NUL byte".to_owned());
        }
        if command.contains(BEGIN) {
            return Err("`command`: references to the vault are not expanded here; put `${vault:KEY}` into `env` and use the variable".to_owned());
        }
        env.iter().try_for_each(|(name, value)| variable(name, value))
    }

    fn timeout(args: &Args) -> Option<Duration> {
        args.timeout.map(Duration::from_millis)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let job = Job {
            workspace: Arc::clone(&cx.grant.workspace),
            program: Program::Bash(args.command),
            env: args.env,
            keeps_self: cx.label == Label::Untrusted,
        };
        let supervision = cx.before_command(Self::ABOUT.name).await?;
        let finished = cx.grant.sandbox.run(job, cx.cancel.clone()).await;
        cx.after_command(supervision).await?;
        let mut finished = finished?;
        // What was cut off at the front may have been the beginning of a secret.
        let longest = cx.grant.secrets.of(&cx.grant.team).longest();
        for stream in [&mut finished.stdout, &mut finished.stderr] {
            if stream.dropped > 0 {
                stream.drop_front(longest);
            }
        }
        told(&finished)
    }
}

/// Variables that decide what runs, or where it talks to, are not the model's to set.
fn variable(name: &str, value: &str) -> Result<(), String> {
    let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty();
    if !valid {
        return Err(format!("`env`: `{name}` is not a name of a variable"));
    }
    if value.contains('\0') {
        return Err(format!("`env.{name}`: holds a NUL byte"));
    }
    if name.len() + value.len() > LONGEST_VARIABLE {
        return Err(format!(
            "`env.{name}`: name and value have at most {LONGEST_VARIABLE} bytes; write it to a file"
        ));
    }
    let upper = name.to_ascii_uppercase();
    let refused = upper.starts_with("LD_")
        || upper.ends_with("_PROXY")
        || ["BASH_ENV", "PATH", "HOME"].contains(&upper.as_str());
    if refused {
        return Err(format!("`env`: `{name}` cannot be set"));
    }
    Ok(())
}

fn told(finished: &Finished) -> Result<String, ToolError> {
    let output = output(finished);
    let limit = |what: &str| {
        let message = format!("Killed with all it started: {what}.\n{output}");
        Err(ToolError::new(ToolFault::ToolFailed, message.trim_end()))
    };
    if let Some(excess) = finished.excess {
        return limit(&format!("it wrote too much: {excess}"));
    }
    let code = match finished.ended {
        Some(Ended::Exited(code)) => code,
        // As a shell would tell it.
        Some(Ended::Signalled(signal)) => 128 + signal,
        Some(Ended::OverMemory) => return limit("it used too much memory"),
        Some(Ended::OverProcesses) => return limit("it started too many processes"),
        None => return Err(ToolError::stopped(output)),
    };
    Ok(if output.is_empty() {
        format!("exit_code: {code}\n(no output)")
    } else {
        format!("exit_code: {code}\n{output}")
    })
}

fn output(finished: &Finished) -> String {
    let mut output = String::new();
    for (name, Captured { bytes, dropped }) in
        [("stdout", &finished.stdout), ("stderr", &finished.stderr)]
    {
        if bytes.is_empty() {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(output, "{name}:");
        if *dropped > 0 {
            let _ = writeln!(output, "[the first {dropped} bytes were not kept]");
        }
        output.push_str(&String::from_utf8_lossy(bytes));
        if !output.ends_with('\n') {
            output.push('\n');
        }
    }
    output.truncate(output.trim_end_matches('\n').len());
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(ended: Option<Ended>, stdout: &str, stderr: &str) -> Finished {
        let captured = |text: &str| Captured { bytes: text.into(), dropped: 0 };
        Finished { ended, stdout: captured(stdout), stderr: captured(stderr), excess: None }
    }

    /// TO-63
    #[test]
    fn the_answer_names_exit_code_and_both_streams() {
        let answers = [
            finished(Some(Ended::Exited(3)), "out\n", "err"),
            finished(Some(Ended::Signalled(9)), "", ""),
            finished(None, "half", ""),
        ]
        .map(|finished| told(&finished));

        let expected = [
            Ok("exit_code: 3\nstdout:\nout\nstderr:\nerr".to_owned()),
            Ok("exit_code: 137\n(no output)".to_owned()),
            Err(ToolError::stopped("stdout:\nhalf")),
        ];
        assert_eq!(answers, expected);
    }

    /// TO-67
    #[test]
    fn variables_that_steer_programs_are_refused() {
        let names =
            ["LD_PRELOAD", "BASH_ENV", "https_proxy", "PATH", "HOME", "1A", "A B", "", "FOO"];

        let refused: Vec<_> = names.iter().filter(|name| variable(name, "x").is_err()).collect();

        assert_eq!(refused, names[..8].iter().collect::<Vec<_>>());
    }

    /// TO-67: more than the kernel takes is no fault of the sandbox.
    #[test]
    fn a_variable_is_as_long_as_the_kernel_takes_it() {
        let run = |length: usize| {
            let value = "x".repeat(length);
            let started = std::process::Command::new("true").env("FOO", &value).status().is_ok();
            (variable("FOO", &value).is_ok(), started)
        };

        let longest = LONGEST_VARIABLE - "FOO".len();
        assert_eq!([run(longest), run(longest + 1)], [(true, true), (false, false)]);
    }
}
