//! `propose_change`: how a team that looks back at itself changes one of its skills or rules. A person
//! sees the difference and decides; runs of reflection cycles have it, no other turn does.

use std::{
    fmt::Write,
    path::{Component, Path},
    sync::Arc,
};

use hivewright_actors::{
    policy::caution::{Caution, Kind, Risk},
    tool::{Caller, Effect},
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    about::About,
    answer,
    contract::{Tool, ToolContext},
    error::ToolError,
    reach::Reach,
};
use crate::{
    sandbox::workspace::Workspace,
    teams::self_changes::{ChangeError, Changes, Earlier, PROPOSE, Proposal, text_of},
};

/// Folders whose files it may be about: those of skills and rules.
const FOLDERS: [&str; 3] = ["skills", "team-rules", "org-rules"];
/// A person reads so many changed lines in a minute.
const MOST_LINES: usize = 40;
/// Lines around a change that are shown with it.
const AROUND: usize = 3;

pub struct ProposeChange {
    changes: Changes,
    workspace: Arc<Workspace>,
    earlier: Earlier,
    /// What this turn has proposed. A call that waits for a decision is looked at again.
    proposed: Mutex<Option<Args>>,
}

impl ProposeChange {
    /// For a turn of a team that proposed this before.
    pub fn new(changes: Changes, workspace: Arc<Workspace>, earlier: Earlier) -> Self {
        Self { changes, workspace, earlier, proposed: Mutex::new(None) }
    }

    /// The file as it is and as it would be.
    fn outcome(&self, args: &Args) -> Result<(String, String), ToolError> {
        let before = text_of(&self.workspace, &args.file_path)?;
        match before.matches(&args.old_string).count() {
            1 => {
                let after = before.replace(&args.old_string, &args.new_string);
                Ok((before, after))
            }
            0 => Err(answer::refuse(
                "not_found",
                format!("`old_string` does not stand in {}; read it again", args.file_path),
            )),
            count => Err(answer::refuse(
                "conflict",
                format!(
                    "`old_string` stands {count} times in {}; give more of its surroundings",
                    args.file_path
                ),
            )),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct Args {
    /// A file of yours in `skills/`, `team-rules/` or `org-rules/`, from your folder.
    file_path: String,
    /// The weakness that this cures, and the tasks in which it showed.
    #[schemars(length(min = 1, max = 2_000))]
    reason: String,
    /// The text to replace, exactly as it stands in the file, once.
    #[schemars(length(min = 1))]
    old_string: String,
    /// The text to put in its place.
    new_string: String,
}

impl Tool for ProposeChange {
    const ABOUT: About = About::new(PROPOSE, "@org", "org.propose_change", Effect::Idempotent)
        .structural()
        .paths(&["file_path"])
        .refuses_secrets();
    const DESCRIPTION: &'static str = "Proposes one change to a skill or rule of your team. A person sees the difference and \
        decides; only then is the file changed, and the old text is kept. Once a run, at most 40 changed lines, and never \
        the file of your last proposal.";
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        if !is_own_text(&args.file_path) {
            return Err(format!(
                "`file_path`: name a `.md` file in {}",
                FOLDERS.map(|folder| format!("`{folder}/`")).join(", ")
            ));
        }
        if args.old_string == args.new_string {
            return Err("`new_string`: is the same as `old_string`".to_owned());
        }
        let lines = args.old_string.lines().count() + args.new_string.lines().count();
        if lines > MOST_LINES {
            return Err(format!(
                "the change has {lines} lines; at most {MOST_LINES} can be read in a minute, make it smaller"
            ));
        }
        Ok(())
    }

    fn reaches(args: &Args) -> Vec<Reach> {
        vec![Reach::Write(args.file_path.clone())]
    }

    fn objection(&self, args: &Args, caller: &Caller) -> Result<(), ToolError> {
        let own = self.earlier.task.as_ref() == Some(&caller.task);
        let same_file = self.earlier.file.as_deref().map(plain) == Some(plain(&args.file_path));
        // After a restart it is looked at again, to be run if someone agreed.
        let looked_at_again = own && same_file;
        let mut proposed = self.proposed.lock();
        let another = proposed.as_ref().is_some_and(|before| before != args);
        if another || (own && !same_file) {
            let message = "one change a run: this run has proposed one already";
            return Err(answer::refuse("limit_proposals", message));
        }
        if same_file && !looked_at_again {
            let message = format!(
                "`{}` was the subject of your last proposal; propose a change to another file, or none",
                args.file_path
            );
            return Err(answer::refuse("same_file", message));
        }
        self.outcome(args)?;
        *proposed = Some(args.clone());
        Ok(())
    }

    fn caution(&self, args: &Args, caller: &Caller) -> Option<Caution> {
        let shown = match self.outcome(args) {
            Ok((before, after)) => difference(&args.file_path, &before, &after),
            // It changed since; the call will say so.
            Err(_) => format!("-{}\n+{}\n", args.old_string, args.new_string),
        };
        let why = format!(
            "team {} proposes to change {}, since {}:\n{shown}",
            caller.team.name,
            args.file_path,
            args.reason.split_whitespace().collect::<Vec<_>>().join(" ")
        );
        Some(Caution::new(Kind::SelfChange, Risk::Normal, why))
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let change = match self.changes.find(&cx.caller.team, &cx.key).await? {
            // An earlier try came this far, and what it kept counts.
            Some(change) => change,
            None => {
                let (before, after) = self.outcome(&args)?;
                let proposal = Proposal {
                    team: cx.caller.team.clone(),
                    task: cx.caller.task.clone(),
                    call: cx.key.clone(),
                    file: plain(&args.file_path).to_owned(),
                    reason: args.reason,
                    before,
                    after,
                };
                self.changes.keep(proposal).await?
            }
        };
        self.changes.apply(cx.grant.workspace.clone(), &change).await?;
        Ok(answer::ok(json!({
            "change_id": change.id,
            "file_path": change.file,
            "note": "a person agreed and the file is changed; it counts from the next turn",
        })))
    }
}

impl From<ChangeError> for ToolError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::File(error) => error.into(),
            error => Self::failed(error.to_string()),
        }
    }
}

fn plain(path: &str) -> &str {
    path.trim_start_matches("./")
}

/// A text in one of the folders that make a team what it is, named without detours.
fn is_own_text(path: &str) -> bool {
    let mut parts = Path::new(plain(path)).components();
    let first = parts.next().and_then(|part| part.as_os_str().to_str());
    let straight = parts.clone().all(|part| matches!(part, Component::Normal(_)));
    let in_folder = first.is_some_and(|first| FOLDERS.contains(&first));
    in_folder && straight && parts.next().is_some() && path.ends_with(".md")
}

/// The lines that differ, with a few around them, in the form of `diff -u`.
pub(super) fn difference(file: &str, before: &str, after: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let shorter = old.len().min(new.len());
    let same = |at: &usize| old[*at] == new[*at];
    let head = (0..shorter).take_while(same).count();
    let tail = (0..shorter - head)
        .take_while(|at| old[old.len() - 1 - at] == new[new.len() - 1 - at])
        .count();
    let from = head.saturating_sub(AROUND);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let behind = tail.min(AROUND);
    let mut shown = format!(
        "--- {file}\n+++ {file}\n@@ -{},{} +{},{} @@\n",
        from + 1,
        old_end + behind - from,
        from + 1,
        new_end + behind - from
    );
    let mut line = |mark: char, text: &str| {
        let _ = writeln!(shown, "{mark}{text}");
    };
    old[from..head].iter().for_each(|text| line(' ', text));
    old[head..old_end].iter().for_each(|text| line('-', text));
    new[head..new_end].iter().for_each(|text| line('+', text));
    old[old_end..old_end + behind].iter().for_each(|text| line(' ', text));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-67
    #[test]
    fn a_person_sees_the_lines_that_differ() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = "1\n2\n3\n4\nfive\nand more\n6\n7\n8\n9\n";

        let shown = difference("skills/a.md", before, after);

        assert_eq!(
            shown,
            "--- skills/a.md\n+++ skills/a.md\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and more\n 6\n 7\n 8\n"
        );
        assert_eq!(
            difference("a.md", "x\n", "x\ny\n"),
            "--- a.md\n+++ a.md\n@@ -1,1 +1,2 @@\n x\n+y\n"
        );
    }

    /// TR-67: a skill or a rule, and nothing else.
    #[test]
    fn it_is_about_skills_and_rules_only() {
        for good in ["skills/look.md", "./team-rules/a.md", "skills/look/SKILL.md"] {
            assert!(is_own_text(good), "{good}");
        }
        for bad in [
            "config.yaml",
            "skills",
            "skills/look/run.sh",
            "skills/../config.md",
            "/etc/skills/a.md",
            "subagents/owl.md",
            "notes/a.md",
            "skills.md",
        ] {
            assert!(!is_own_text(bad), "{bad}");
        }
    }
}
